"""A store in memory, with the contract of the store on disk: for tests of everything above it."""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.engine.ledger.records import (
    CHANGE,
    DROP,
    EXPRESS,
    MESSAGE,
    Change,
    Record,
    sender_of,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.store.base import Recovered

_GARBAGE_MIN = 1000  # records; below it is not worth the while


class MemoryDisk:
    """What outlives a process: a picture of the state at some position, and the records behind."""

    def __init__(self, log: Sequence[Record] = ()) -> None:
        self.base = b""
        self.base_position = 0
        self.log = list(log)
        self.packets: dict[int, tuple[bytes, bytes]] = {}  # arrival block, packet
        self.synced = len(self.log)
        self.clean = False

    def survivor(self) -> MemoryDisk:
        """The disk after a loss of power: without what was not synced."""
        other = MemoryDisk(self.log[: self.synced - self.base_position])
        other.base, other.base_position = self.base, self.base_position
        other.packets = dict(self.packets)
        other.synced = self.synced
        return other


class MemoryStore:
    """`posthouse.store.base.Store`, with lists for a disk."""

    def __init__(self, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.state = State()
        self._dropped: list[tuple[int, int]] = []  # position, number

    @property
    def log(self) -> list[Record]:
        """The records behind the last picture, for tests that look at them; see `crash`."""
        return self.disk.log

    @property
    def appended(self) -> int:
        """Position of the last record written."""
        return self.disk.base_position + len(self.disk.log)

    @property
    def synced(self) -> int:
        """Everything up to this position survives a crash."""
        return self.disk.synced

    @property
    def unsynced_bytes(self) -> int:
        """Nothing has to go anywhere."""
        return 0

    @property
    def pictures(self) -> int:
        """None that anybody keeps."""
        return 0

    def recover(self) -> Recovered:
        """Replays the log."""
        disk = self.disk
        clean, disk.clean = disk.clean, False
        self.state = State.load(disk.base) if disk.base else State()
        for record in disk.log:
            self._replay(record)
        disk.synced = self.appended
        lost = {} if clean else self.state.drop_express()
        known = {number for number, _ in self.state.table.items()}
        disk.packets = {n: packet for n, packet in disk.packets.items() if n in known}
        return Recovered(self.state, clean, lost, 0)

    def _replay(self, record: Record) -> None:
        kind, number, head, packet = record
        if kind == MESSAGE:
            self.state.apply_message(unpack_arrival(head))
            self.disk.packets[number] = (head, packet)
        elif kind == CHANGE:
            self.state.apply_change(unpack_change(head))

    def append(self, records: Sequence[Record]) -> int:
        """Takes one group; express records leave no trace in the log."""
        disk = self.disk
        for record in records:
            kind, number, head, packet = record
            if kind != CHANGE and kind != DROP:
                disk.packets[number] = (head, packet)
            if kind < EXPRESS:
                disk.log.append(record)
        position = self.appended
        for kind, number, head, _ in records:
            if kind == DROP:
                self._dropped.append((position, number))
            elif kind == CHANGE:
                self._note_ends(position, unpack_change(head))
        return position

    def _note_ends(self, position: int, change: Change) -> None:
        self._dropped += [(position, number) for number, _ in change.ends]
        for first, count in change.dropped:
            self._dropped += [(position, number) for number in range(first, first + count)]

    def sync(self) -> int:
        """Everything appended counts as safe from now on."""
        self.disk.synced = self.appended
        return self.disk.synced

    def read(self, number: int) -> bytes:
        """The packet of a message."""
        return self._packet(number)[1]

    def read_many(self, numbers: list[int]) -> list[tuple[bytes, bytes]]:
        """Verified senders and packets of several."""
        return [(sender_of(head), packet) for head, packet in map(self._packet, numbers)]

    def read_sender(self, number: int) -> bytes:
        """The verified sender stored with a message."""
        return unpack_arrival(self._packet(number)[0]).sender

    def _packet(self, number: int) -> tuple[bytes, bytes]:
        packet = self.disk.packets.get(number)
        if packet is None:
            raise LookupError(f"message {number} is not in the store")
        return packet

    def tidy(self) -> bool:
        """Frees packets of messages that ended; replaces many records by a picture."""
        gone = [number for position, number in self._dropped if position <= self.synced]
        self._dropped = [entry for entry in self._dropped if entry[0] > self.synced]
        for number in gone:
            self.disk.packets.pop(number, None)
        if self.appended == self.synced and len(self.log) > self._garbage():
            self._collapse()
        return False

    def _garbage(self) -> int:
        return max(_GARBAGE_MIN, 2 * len(self.state.table))

    def _collapse(self) -> None:
        disk = self.disk
        disk.base, disk.base_position = self.state.dump(), self.appended
        disk.log = []

    def has_room(self) -> bool:
        """There is always room."""
        return True

    def close(self) -> None:
        """A clean stop: express messages are kept too."""
        self.sync()
        self.tidy()
        self._collapse()
        self.disk.clean = True

    def crash(self, left: Sequence[Record] | None = None) -> MemoryStore:
        """The store a new process finds after a loss of power.

        A test that cuts the log says which records are `left`; without it, all that was synced.
        """
        return MemoryStore(self.disk.survivor() if left is None else MemoryDisk(left))
