"""LogStore: a segmented log with checkpoints, express segments and maintenance."""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.engine.ledger.records import (
    CHANGE,
    DROP,
    EXPRESS,
    FLAG_EXPRESS,
    Change,
    Record,
    sender_of,
    senders_of,
    skim_change,
    unpack_arrival,
)
from posthouse.engine.ledger.state import State
from posthouse.store.base import Recovered
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged, StoreFailed
from posthouse.store.express import CLEAN_NAME, ExpressMessages, Marker, read_marker
from posthouse.store.format import HEADER_SIZE
from posthouse.store.index import block_size
from posthouse.store.ledger import StoreLedger
from posthouse.store.lost_records import Losses, damaged_records
from posthouse.store.maintenance import Upkeep
from posthouse.store.memory import release_memory
from posthouse.store.open_files import SegmentFiles
from posthouse.store.positions import LogPosition, PlaceColumns
from posthouse.store.read import (
    LARGE,
    checked_record,
    large_packet,
    packets_of,
    runs_of,
    unreadable,
)
from posthouse.store.recent_packets import GROUP_MIN, RecentPackets
from posthouse.store.recovery import OpenedLog, Recovery
from posthouse.store.segment import Segment
from posthouse.store.settings import SET_ASIDE, StoreSettings
from posthouse.store.writer import LogWriter

_NO_RECORDS: list[Record] = []
_NO_NUMBERS: list[int] = []
_ROOM_STEP = 1 << 20  # bytes that are written between two looks at how much is free


class LogStore:
    """`posthouse.store.base.Store` on a `Disk` (design: the log is the only authority)."""

    def __init__(self, disk: Disk, settings: StoreSettings | None = None) -> None:
        self.disk = disk
        self.settings = (settings or StoreSettings()).fitted(disk.free_space()[1])
        self.notes: list[str] = []  # notes for the operator on the last start
        self.state = State()
        self.ledger = StoreLedger()
        self._writer = LogWriter(disk, self.ledger, bytes(16), 0, 0)
        self._files = SegmentFiles(disk, self._writer, self.settings.open_files)
        self._express = ExpressMessages(disk, self.settings, bytes(16))
        self._recent = RecentPackets()
        self._upkeep: Upkeep | None = None
        self._roomy_until = 0  # bytes written, up to which the disk need not be asked for room

    # -- positions

    @property
    def appended(self) -> int:
        """Position of the last record written."""
        return self._writer.appended

    @property
    def synced(self) -> int:
        """Everything up to this position survives a loss of power."""
        return self._writer.synced

    @property
    def unsynced_bytes(self) -> int:
        """Bytes written that the next sync has to bring to the disk."""
        return self._writer.bytes_written - self._writer.bytes_synced

    # -- opening

    def recover(self) -> Recovered:
        """Reads the log, cuts off a torn tail, and is ready."""
        assert self._upkeep is None, "a store is opened once"
        set_aside = self.settings.damage == SET_ASIDE
        recovery = Recovery(self.disk, self.settings.store_id, set_aside=set_aside)
        found = recovery.examine()
        marker = self._marker()
        self.notes += recovery.notes
        try:
            self._adopt(found)
            self._note_losses(found)
            clean, lost = self._adopt_express(found, marker)
        except OSError as error:
            raise StoreFailed(f"opening the store: {error.strerror or error}") from error
        new = found.next_sequence == 1 and not found.torn_bytes
        if self._upkeep is not None and self._upkeep.is_large:
            release_memory()  # what reading the log took
        return Recovered(found.state, clean, lost, found.torn_bytes, new)

    def _marker(self) -> Marker | None:
        try:
            return read_marker(self.disk)
        except StoreDamaged as error:
            self.notes.append(f"{error.file} is passed over, express messages are lost: {error}")
            return None

    def _adopt(self, found: OpenedLog) -> None:
        self.state, self.ledger = found.state, found.ledger
        settings, store_id = self.settings, found.store_id
        self._writer = LogWriter(
            self.disk, found.ledger, store_id, settings.segment_size, found.next_number
        )
        self._files = SegmentFiles(self.disk, self._writer, settings.open_files)
        self._express = ExpressMessages(self.disk, settings, store_id)
        if found.active is not None:
            self._keep_what_was_read(found, found.active)
        if found.active is None or found.cut:
            self._begin_segment()
        self._writer.sync()
        for name in [*found.leftovers, *reversed(found.torn)]:
            self.disk.unlink(name)
        self.disk.sync_directory()
        self._upkeep = Upkeep(
            self.disk, self.settings, self.state, self._writer, self._files, found
        )

    def _note_losses(self, found: OpenedLog) -> None:
        """What the log goes on without has to be in it before anybody is answered."""
        losses = Losses(found)
        change = losses.change()
        self.notes += losses.notes
        if change:
            self.append([(CHANGE, 0, change.pack(), b"")])
            self._writer.sync()
        for damaged in damaged_records(self.state):
            self.ledger.damaged(damaged)

    def _keep_what_was_read(self, found: OpenedLog, active: Segment) -> None:
        """What was replayed will be answered for, so it has to be on the disk now."""
        self._writer.resume(active, found.next_sequence)
        assert active.file is not None
        if found.cut:
            active.file.truncate(active.end)
        for segment in found.ledger.segments.values():
            if segment.last_sequence > found.synced:
                self._files.open(segment).sync()

    def _adopt_express(
        self, found: OpenedLog, marker: Marker | None
    ) -> tuple[bool, dict[int, int]]:
        """After a clean stop they are all there; else they are lost, and counted."""
        position = found.next_sequence - 1
        clean = (
            marker is not None
            and marker.position == position == found.checkpoint_position
            and self._express.load(marker.stop)
        )
        if self.disk.exists(CLEAN_NAME):
            self.disk.unlink(CLEAN_NAME)
            self.disk.sync_directory()
        if clean:
            return True, {}
        lost = found.state.drop_express()
        self._express.discard()
        if marker is not None and marker.position == position:
            lost = lost or dict(marker.stop.waiting)
        if lost and self._upkeep is not None:
            self._upkeep.checkpoint_wanted = True  # or the next crash counts them again
        return False, lost

    def _begin_segment(self) -> None:
        books = Change()
        books.defines.append(self.state.books_define())
        self._writer.begin_segment(books.pack())

    # -- writing

    def append(self, records: Sequence[Record]) -> int:
        """Writes one group with its mark; express records only go to memory."""
        writer = self._writer
        durable, express, gone = records, _NO_RECORDS, _NO_NUMBERS
        for record in records:
            if record[0] >= EXPRESS:
                durable, express, gone = _parted(records)
                break
        if durable:
            writer.write(durable)
            if durable[GROUP_MIN - 1 :]:
                self._recent.add(durable)
            if writer.full():
                self._begin_segment()
        else:
            writer.check()
        if express:
            self._express.put_all(express)
        if gone:
            self._express.drop(gone, writer.appended)
        return writer.appended

    def sync(self) -> int:
        """Makes durable what was appended before the call; may run in another thread."""
        writer = self._writer
        if writer.synced >= writer.appended and writer.failed is None:
            return writer.synced
        return writer.sync()

    # -- reading

    def read(self, number: int) -> bytes:
        """The packet of a message; its checksum is verified. Waits for the disk if it must."""
        self._writer.check()
        return self._parts(number)[1]

    def read_many(self, numbers: list[int]) -> list[tuple[bytes, bytes]]:
        """Verified senders and packets; what lies close together is fetched at once.

        Those that were written a short while ago are still in memory.
        """
        self._writer.check()
        if len(numbers) == 1:
            return [self._parts(numbers[0])]
        express = self._express.parts_of_all(numbers)
        if express is not None:
            heads, packets = zip(*express, strict=True) if express else ((), ())
            return list(zip(senders_of(heads), packets, strict=True))
        if recent := self._recent.find(numbers):
            return recent
        found: list[tuple[bytes, bytes]] = []
        for run in runs_of(self.ledger.positions.columns(numbers)) if numbers else ():
            if run.segments[0]:
                found += self._read_run(run)
            else:
                count = len(found)
                found += map(self._express_parts, numbers[count : count + len(run.segments)])
        return found

    def _read_run(self, run: PlaceColumns) -> list[tuple[bytes, bytes]]:
        segment, offset = self._segment(run.segments[0]), run.offsets[0]
        try:
            return packets_of(self._files.open(segment), segment.name, run)
        except OSError as error:
            alone = len(run.offsets) == 1
            place = (segment.number, offset, run.sizes[0]) if alone else None
            raise unreadable(segment.name, offset, error, place) from error

    def _large(self, place: LogPosition) -> tuple[bytes, bytes]:
        segment = self._segment(place.segment)
        try:
            return large_packet(self._files.open(segment), segment.name, place[:3])
        except OSError as error:
            raise unreadable(segment.name, place.offset, error, place[:3]) from error

    def _record(self, place: LogPosition) -> bytes:
        segment = self._segment(place.segment)
        try:
            return checked_record(self._files.open(segment), segment.name, place)
        except OSError as error:
            raise unreadable(segment.name, place.offset, error, place[:3]) from error

    def read_sender(self, number: int) -> bytes:
        """The verified sender stored with a message."""
        return unpack_arrival(self._payload(number)).sender

    def _payload(self, number: int) -> bytes:
        self._writer.check()
        place = self.ledger.positions.get(number)
        if place is None:
            return self._express_payload(number)
        return self._record(place)[HEADER_SIZE:]

    def _parts(self, number: int) -> tuple[bytes, bytes]:
        place = self.ledger.positions.get(number)
        if place is None:
            return self._express_parts(number)
        if place.size >= LARGE:
            return self._large(place)
        record = self._record(place)
        packet_at = HEADER_SIZE + block_size(record, HEADER_SIZE)
        return sender_of(record, HEADER_SIZE), record[packet_at:]

    def _express_parts(self, number: int) -> tuple[bytes, bytes]:
        parts = self._express.parts(number)
        if parts is not None:
            return sender_of(parts[0]), parts[1]
        payload = self._express_payload(number)
        return sender_of(payload), payload[block_size(payload) :]

    def _express_payload(self, number: int) -> bytes:
        try:
            payload = self._express.payload(number)
        except OSError as error:
            raise unreadable("an express segment", 0, error) from error
        if payload is None:
            raise LookupError(f"message {number} is not in the store")
        return payload

    def _segment(self, number: int) -> Segment:
        segment = self.ledger.segments.get(number)
        if segment is None and self._upkeep is not None:
            segment = self._upkeep.leaving_segment(number)
        if segment is None:
            raise LookupError(f"segment {number} is not in the store")
        return segment

    # -- bulk reads

    @property
    def express(self) -> ExpressMessages:
        """The express messages, for a bulk reader."""
        return self._express

    def pinned(self, number: int) -> tuple[Segment, File]:
        """A segment with its file, both of which stay until `unpin`."""
        self._writer.check()
        segment = self._segment(number)
        file = self._files.open(segment)
        segment.pins += 1
        return segment, file

    def pin(self, number: int) -> None:
        """A bulk reader needs this segment: it is not compacted and its file stays."""
        self._segment(number).pins += 1

    def unpin(self, number: int) -> None:
        """The reader is done with it."""
        segment = self._segment(number)
        assert segment.pins
        segment.pins -= 1

    # -- upkeep

    @property
    def damage(self) -> StoreDamaged | None:
        """Damage met while compacting, which has stopped; everything else goes on."""
        return self._upkeep.damage if self._upkeep else None

    def tidy_thoroughly(self) -> None:
        """An operator's: gives back all space that ended messages have, in the next steps."""
        if self._upkeep is not None:
            self._upkeep.tidy_thoroughly()

    @property
    def pictures(self) -> int:
        """How often a picture of the whole state was taken, for a checkpoint."""
        return self._upkeep.pictures if self._upkeep else 0

    def tidy(self) -> bool:
        """One step: an index, some express messages, a checkpoint, some of a compaction."""
        writer, upkeep = self._writer, self._upkeep
        writer.check()
        assert upkeep is not None
        self._roomy_until = 0
        self._digest()
        writer.prepare()
        try:
            self._express.forget(writer.synced)
            if self._express.upkeep() or upkeep.step() or writer.full():
                self._digest()
                if writer.full():
                    self._begin_segment()
                return True
        except OSError as error:
            raise writer.fail("upkeep", error) from error
        return False

    def _digest(self) -> None:
        """Enters the CHANGE records written since into the ledger."""
        changes = self._writer.changes
        if changes:
            for payload, segment, carried in changes:
                self.ledger.said(skim_change(payload), segment, carried=carried)
            changes.clear()

    def has_room(self) -> bool:
        """False while the disk has less than its reserve free; no turn begins on a failed log.

        The disk is asked again when a part of what was free is written, and after each step of
        upkeep, for others write to it too.
        """
        writer = self._writer
        if writer.bytes_written < self._roomy_until and writer.failed is None:
            return True
        writer.check()
        if writer.spares and self._room() < 0:
            try:
                writer.drop_spares()
            except OSError as error:
                raise writer.fail("making room", error) from error
        room = self._room()
        self._roomy_until = writer.bytes_written + min(max(room, 0) // 2, _ROOM_STEP)
        return room >= 0

    def _room(self) -> int:
        """Bytes that are free beyond the reserve; less than 0: some of that is missing."""
        free, total = self.disk.free_space()
        return free - self.settings.reserve(total)

    def close(self) -> None:
        """A clean stop: everything synced, checkpoint written, express messages kept."""
        upkeep = self._upkeep
        assert upkeep is not None
        try:
            if self._writer.failed is None:
                self._stop(upkeep)
        except OSError as error:
            raise self._writer.fail("closing the store", error) from error
        finally:
            self._upkeep = None
            upkeep.checkpoints.join()
            self._express.close()
            self._files.close()

    def _stop(self, upkeep: Upkeep) -> None:
        self._digest()
        assert self._writer.active is not None
        self._writer.give_back(self._writer.active)
        self._express.forget(self._writer.sync())
        if not upkeep.last_checkpoint():
            return  # nothing vouches for the express messages then
        waiting: dict[int, int] = {}
        for number in [*self._express.memory, *self._express.places.numbers()]:
            row = self.state.table.get(number)
            if row is not None and row.flags & FLAG_EXPRESS:
                waiting[row.queue] = waiting.get(row.queue, 0) + 1
        self._express.save(self._writer.appended, waiting)


def _parted(records: Sequence[Record]) -> tuple[list[Record], list[Record], list[int]]:
    """What goes into the log, new express messages, and the numbers of those that are gone."""
    durable: list[Record] = []
    express: list[Record] = []
    gone: list[int] = []
    for record in records:
        kind = record[0]
        if kind == EXPRESS:
            express.append(record)
        elif kind == DROP:
            gone.append(record[1])
        else:
            durable.append(record)
    return durable, express, gone
