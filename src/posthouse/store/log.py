"""The store on disk: a segmented log with its checkpoints, express segments and upkeep."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from posthouse.engine.records import DROP, EXPRESS, Change, Record, unpack_arrival, unpack_change
from posthouse.engine.state import State
from posthouse.store.base import Recovered
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged, StoreFailed
from posthouse.store.format import CRC, HEADER_SIZE
from posthouse.store.index import block_size
from posthouse.store.ledger import Ledger
from posthouse.store.positions import Place
from posthouse.store.recovery import Found, Recovery
from posthouse.store.segment import Segment
from posthouse.store.settings import StoreSettings
from posthouse.store.writer import LogWriter


class LogStore:
    """`posthouse.store.base.Store` on a `Disk` (design: the log is the only authority)."""

    def __init__(self, disk: Disk, settings: StoreSettings | None = None) -> None:
        self.disk = disk
        self.settings = settings or StoreSettings()
        self.notes: list[str] = []
        self.state = State()
        self.ledger = Ledger()
        self._writer = LogWriter(disk, self.ledger, b"", 0, 0)
        self._open = False

    # -- positions

    @property
    def appended(self) -> int:
        """Position of the last record written."""
        return self._writer.appended

    @property
    def synced(self) -> int:
        """Everything up to this position survives a loss of power."""
        return self._writer.synced

    # -- opening

    def recover(self) -> Recovered:
        """Reads the log, cuts off a torn tail, and is ready."""
        assert not self._open
        recovery = Recovery(self.disk, self.settings.store_id)
        found = recovery.examine()
        self.notes += recovery.notes
        try:
            self._adopt(found)
        except OSError as error:
            raise StoreFailed(f"opening the store: {error.strerror or error}") from error
        self._open = True
        return Recovered(found.state, False, found.state.drop_express(), found.torn_bytes)

    def _adopt(self, found: Found) -> None:
        self.state, self.ledger = found.state, found.ledger
        settings = self.settings
        self._writer = LogWriter(
            self.disk, found.ledger, found.store_id, settings.segment_size, found.next_number
        )
        if found.active is not None:
            self._keep_what_was_read(found, found.active)
        if found.active is None or found.cut:
            self._begin_segment()
        self._writer.sync()
        for name in [*found.leftovers, *reversed(found.torn)]:
            self.disk.unlink(name)
        self.disk.sync_directory()

    def _keep_what_was_read(self, found: Found, active: Segment) -> None:
        """What was replayed will be answered for, so it has to be on the disk now."""
        self._writer.resume(active, found.next_sequence)
        assert active.file is not None
        if found.cut:
            active.file.truncate(active.end)
        for segment in found.ledger.segments.values():
            if segment.last_sequence > found.synced:
                self._file(segment).sync()

    def _begin_segment(self) -> None:
        books = Change()
        books.defines.append(self.state.books_define())
        self._writer.begin_segment(books.pack())

    # -- writing

    def append(self, records: Sequence[Record]) -> int:
        """Writes one group with its mark; express records only go to memory."""
        self._writer.check()
        durable = [record for record in records if record[0] not in (EXPRESS, DROP)]
        if durable:
            self._writer.write(durable)
            if self._writer.full():
                self._begin_segment()
        return self._writer.appended

    def sync(self) -> int:
        """Makes durable what was appended before the call; may run in another thread."""
        return self._writer.sync()

    # -- reading

    def read(self, number: int) -> bytes:
        """The packet of a message; its checksum is verified."""
        record = self._record(number)
        return record[HEADER_SIZE + block_size(record, HEADER_SIZE) :]

    def read_sender(self, number: int) -> bytes:
        """The verified sender stored with a message."""
        arrival = unpack_arrival(memoryview(self._record(number))[HEADER_SIZE:])
        return arrival.sender

    def _record(self, number: int) -> bytes:
        self._writer.check()
        place = self.ledger.positions.get(number)
        if place is None:
            raise LookupError(f"message {number} is not in the store")
        segment = self.ledger.segments[place.segment]
        return checked_record(self._file(segment), segment.name, place)

    def _file(self, segment: Segment) -> File:
        if segment.file is None:
            segment.file = self.disk.open(segment.name)
        return segment.file

    # -- upkeep

    def tidy(self) -> bool:
        """A bounded step of upkeep."""
        self._digest()
        return False

    def _digest(self) -> None:
        """Tells the ledger what the CHANGE records written since said."""
        for payload, segment, _ in self._writer.changes:
            self.ledger.change(unpack_change(payload), segment)
        self._writer.changes.clear()

    def has_room(self) -> bool:
        """False while the disk has less than its reserve free."""
        free, total = self.disk.free_space()
        reserve = min(self.settings.disk_reserve, total * self.settings.disk_reserve_percent // 100)
        return free >= reserve

    def close(self) -> None:
        """A clean stop."""
        self._writer.sync()


def checked_record(file: File, name: str, place: Place) -> bytes:
    """The bytes of a record whose checksum holds."""
    data = file.read_now(place.offset, place.size)
    if data is None:
        data = file.read(place.offset, place.size)
    if len(data) != place.size or crc32(data[CRC.size :]) != CRC.unpack_from(data)[0]:
        raise StoreDamaged(name, place.offset, "the record of a message has a wrong checksum")
    return data
