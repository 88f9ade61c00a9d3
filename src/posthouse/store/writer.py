"""Writes to the end of the log: group writes, sealing, syncing.

One thread appends. `sync` may run in another one: it makes durable what was appended before it
began, and what arrives meanwhile waits for the next. Every OSError is final (`StoreFailed`): the
engine's state is ahead of the log then, so there is nothing to go on with, not even after a full
disk; `has_room` keeps a reserve so that this stays an exception. What a failed write left is cut
off again, so that the next start finds a clean end where possible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from errno import EDQUOT, ENOSPC
from threading import Lock

from posthouse.engine.ledger.records import CHANGE, COPY, MARK, MESSAGE, Record
from posthouse.store.checkpoint import checkpoint_names
from posthouse.store.checksum import crc32
from posthouse.store.disk import Buffer, Disk
from posthouse.store.errors import StoreFailed
from posthouse.store.format import (
    CARRY,
    CRC,
    HEADER_BODY,
    HEADER_SIZE,
    INDEX_SUFFIX,
    MARK_PAYLOAD,
    MARK_SIZE,
    RECORD_PAYLOAD_MAX,
    SEGMENT_HEADER_SIZE,
    SEGMENT_SIZE_MAX,
    SEGMENTS,
    SPARE_SUFFIX,
    SegmentHeader,
    pack_record,
    pack_segment_header,
    pack_segments,
    spare_name,
)
from posthouse.store.index import IndexBuilder
from posthouse.store.ledger import StoreLedger
from posthouse.store.segment import Segment

# The disk begins at once with groups up to this size, for they are mostly synced in the same turn
# (runtime/loop.py): meanwhile the rest of the turn is done, and the sync takes a fifth less time.
BEGUN_BYTES = 192 << 10
PREPARED_BYTES = 1 << 20  # zeros after the records
PREPARED_PARTS = 16  # at most this part of a segment
PREPARED_GROUP_MAX = 1 << 17
GATHER_BYTES = 1 << 20  # smaller groups are joined: few large buffers cost the system less
LARGE_PART = 2048  # and so are those of small parts: a copy costs less than a place in a list

_pack_body = HEADER_BODY.pack
_pack_crc = CRC.pack


class LogWriter:
    """Appends to the active segment and seals it when it is full."""

    def __init__(
        self, disk: Disk, ledger: StoreLedger, store_id: bytes, segment_size: int, next_number: int
    ) -> None:
        self.disk = disk
        self.ledger = ledger
        self.store_id = store_id
        self.segment_size = segment_size
        self.next_number = next_number
        self.active: Segment | None = None
        self.appended = 0
        self.synced = 0
        self.bytes_written = 0
        self.bytes_synced = 0  # of them
        self.changes: list[tuple[bytes, Segment, bool]] = []  # not yet told to the ledger
        self.sealed: list[Segment] = []  # not yet indexed
        self.spares: list[str] = []  # files to be written over
        self.seal_early = False
        self.failed: StoreFailed | None = None
        self._lock = Lock()
        self._unsynced: list[Segment] = []
        self._directory_changed = False
        self._groups = 0  # since the last look at what is prepared
        self._bytes_looked_at = 0

    def resume(self, segment: Segment, next_sequence: int) -> None:
        """Goes on after the last record of a log that was read."""
        segment.file = self.disk.open(segment.name)
        segment.prepared = max(segment.end, segment.file.size())
        self.active = segment
        self.appended = self.synced = next_sequence - 1
        self._unsynced = [segment]

    # -- writing

    def write(self, records: Sequence[Record]) -> int:
        """One group: a mark, then the records; returns the new position."""
        segment = self.active
        assert segment is not None
        index = segment.index
        assert index is not None
        generation, sequence, start = segment.generation, self.appended, segment.end
        group = [(MARK, 0, MARK_PAYLOAD.pack(self.synced), b""), *records]
        parts: list[Buffer] = []
        offsets: list[int] = []
        add_offset, at = offsets.append, start
        for kind, _, head, packet in group:
            sequence += 1
            add_offset(at)
            length = len(head)
            if packet:
                length += len(packet)
                front = _pack_body(length, sequence, generation, kind) + head
                parts += (_pack_crc(crc32(packet, crc32(front))), front, packet)
            else:
                front = _pack_body(length, sequence, generation, kind) + head
                parts += (_pack_crc(crc32(front)), front)
            assert length <= RECORD_PAYLOAD_MAX
            at += length + HEADER_SIZE
        assert at <= SEGMENT_SIZE_MAX
        size = at - start
        large = size > GATHER_BYTES and size > len(parts) * LARGE_PART
        joined = parts if large else [b"".join(parts)]
        self._put(segment, joined, start, begin=size < BEGUN_BYTES)
        index.add_all(group, offsets)
        self._account(group, segment, offsets, at)
        segment.end = at
        if at > segment.prepared:
            segment.prepared = at
        segment.last_sequence = sequence
        self._groups += 1
        self.bytes_written += size
        self.appended = sequence  # last: a sync that sees it finds the bytes written
        return sequence

    def _account(
        self, records: Sequence[Record], segment: Segment, offsets: list[int], end: int
    ) -> None:
        """Enters the places of a group of records into the ledger; neighbouring messages in one
        call.
        """
        ledger, ends, at, count = self.ledger, [*offsets[1:], end], 0, len(records)
        while at < count:
            kind, number, head, _ = records[at]
            behind = at + 1
            if kind == MESSAGE:
                while behind < count and records[behind][0] == MESSAGE:
                    behind += 1
                if behind - at == 1:
                    ledger.message(number, segment, offsets[at], ends[at] - offsets[at])
                else:
                    numbers = [record[1] for record in records[at:behind]]
                    ledger.messages(numbers, segment, offsets[at:behind], ends[behind - 1])
            elif kind == MARK:
                segment.fixed_bytes += MARK_SIZE
            elif kind == COPY:
                ledger.copy(number, segment, offsets[at], ends[at] - offsets[at])
            elif kind in (CHANGE, CARRY):
                self.changes.append((head, segment, kind == CARRY))
            at = behind

    def _put(
        self, segment: Segment, parts: Sequence[Buffer], offset: int, *, begin: bool = False
    ) -> None:
        if self.failed is not None:
            raise self.failed
        assert segment.file is not None
        try:
            segment.file.write(parts, offset, begin=begin)
        except OSError as error:
            self._put_again(segment, parts, offset, error)

    def _put_again(
        self, segment: Segment, parts: Sequence[Buffer], offset: int, error: OSError
    ) -> None:
        """A full disk: what can be done without, or made again, goes first."""
        assert segment.file is not None
        try:
            while error.errno in (ENOSPC, EDQUOT) and self._makes_room():
                try:
                    segment.file.write(parts, offset)
                except OSError as again:
                    error = again
                else:
                    return
        except OSError as other:  # no room could be made
            error = other
        self._cut_back(segment, offset)
        raise self.fail(f"writing to {segment.name}", error) from error

    def _makes_room(self) -> bool:
        """Removes spare files, indexes and checkpoints, the newest last; False: there are none.

        An index is made again when it is needed, and a start reads the log where a checkpoint is
        missing.
        """
        self.spares.clear()
        names = self.disk.names()
        gone = [name for name in names if name.endswith((SPARE_SUFFIX, INDEX_SUFFIX))]
        gone = gone + checkpoint_names(names)[1:] or checkpoint_names(names)
        for name in gone:
            self.disk.unlink(name)
        return bool(gone)

    # -- space in advance

    def prepare(self) -> None:
        """Writes zeros after the records, so that a sync soon need not record a longer file.

        That halves the time of a small sync (design.md 4). A large group is as fast without, and
        would only be written twice. A disk that has no room for it is not a reason to stop.
        """
        segment = self.active
        assert segment is not None
        ahead = min(PREPARED_BYTES, self.segment_size // PREPARED_PARTS)
        groups, size = self._groups, self.bytes_written - self._bytes_looked_at
        if segment.prepared - segment.end > ahead // 2 or not groups:
            return
        self._groups, self._bytes_looked_at = 0, self.bytes_written
        end = min(segment.end + ahead, segment.body_at + self.segment_size)
        if size > groups * PREPARED_GROUP_MAX or end <= segment.prepared:
            return
        assert segment.file is not None
        try:
            segment.file.write([bytes(end - segment.prepared)], segment.prepared)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise self.fail(f"preparing {segment.name}", error) from error
        else:
            segment.prepared = end

    def give_back(self, segment: Segment) -> None:
        """Cuts off what was prepared and not used; if a crash undoes that, it is zeros."""
        if segment.prepared > segment.end:
            assert segment.file is not None
            segment.file.truncate(segment.end)
            segment.prepared = segment.end

    def keep_spare(self, segment: Segment) -> None:
        """The file of a segment that is gone will be another's."""
        name = spare_name(segment.number)
        self.disk.rename(segment.name, name)
        self.spares.append(name)

    def drop_spares(self) -> None:
        """Others need the room."""
        while self.spares:
            self.disk.unlink(self.spares.pop())

    def _cut_back(self, segment: Segment, offset: int) -> None:
        """Takes back what a failed write left. If even that fails, the next start does it."""
        assert segment.file is not None
        try:
            segment.file.truncate(offset)
        except OSError:
            return

    # -- segments

    def full(self) -> bool:
        """The active segment has reached its size, not counting how every segment begins."""
        active = self.active
        assert active is not None
        return active.end - active.body_at >= self.segment_size or self.seal_early

    def begin_segment(self, books: bytes) -> Segment:
        """Seals the active segment and begins the next; `books` is a CHANGE record's payload.

        Call it only while the State matches the log exactly, because the books are written first.
        """
        self.check()
        self.seal_early = False
        if self.active is not None:
            self.active.sealed = True
            self.sealed.append(self.active)
        segment = Segment(self.next_number, self.store_id, self.appended + 1)
        segment.index = IndexBuilder()
        self.next_number += 1
        self._guard(f"creating {segment.name}", lambda: self._create(segment))
        with self._lock:  # a sync under way must find the file, and its name in the directory
            self._unsynced.append(segment)
            self._directory_changed = True
        entries = [s.entry() for s in self.ledger.segments.values()]
        self.ledger.segments[segment.number] = segment
        self.active = segment
        self._write_beginning(segment, pack_segments(entries), books)
        return segment

    def _create(self, segment: Segment) -> None:
        if not self.spares:
            segment.file = self.disk.open(segment.name, create=True)
            return
        self.disk.rename(self.spares.pop(), segment.name)
        segment.file = self.disk.open(segment.name)
        segment.prepared = segment.file.size()
        segment.recycled = True

    def _write_beginning(self, segment: Segment, segments: bytes, books: bytes) -> None:
        generation, sequence = segment.generation, segment.first_sequence
        header = SegmentHeader(
            segment.number, generation, sequence, self.store_id, segment.recycled
        )
        first = pack_record(SEGMENTS, sequence, generation, segments)
        second = pack_record(CHANGE, sequence + 1, generation, books)
        self._put(segment, [pack_segment_header(header), first, second], 0)
        assert segment.index is not None
        segment.index.add(SEGMENTS, 0, SEGMENT_HEADER_SIZE, segments)
        segment.index.add(CHANGE, 0, SEGMENT_HEADER_SIZE + len(first), books)
        segment.end = segment.body_at = SEGMENT_HEADER_SIZE + len(first) + len(second)
        segment.fixed_bytes += len(first)
        segment.prepared = max(segment.prepared, segment.end)
        self.changes.append((books, segment, False))
        segment.last_sequence = self.appended = sequence + 1
        self.bytes_written += segment.end

    # -- syncing

    def sync(self) -> int:
        """Makes durable what was appended before the call, new files included."""
        if self.failed is not None:
            raise self.failed
        with self._lock:
            written, target = self.bytes_written, self.appended
            segments = list(self._unsynced)
            directory, self._directory_changed = self._directory_changed, False
        for segment in segments:
            assert segment.file is not None
            try:
                segment.file.sync()
            except OSError as error:
                raise self.fail(f"syncing {segment.name}", error) from error
        if directory:
            self._guard("syncing the directory", self.disk.sync_directory)
        if len(segments) > 1:
            with self._lock:
                # All but the last were sealed before the call: nothing more is written to them.
                self._unsynced = [s for s in self._unsynced if s not in segments[:-1]]
        if target > self.synced:
            self.synced, self.bytes_synced = target, written
        return target

    def needs(self, segment: Segment) -> bool:
        """A sync may still want this segment's file."""
        return segment in self._unsynced

    # -- failing

    def check(self) -> None:
        """Refuses everything once something failed."""
        if self.failed is not None:
            raise self.failed

    def fail(self, doing: str, error: OSError) -> StoreFailed:
        """Remembers the first failure."""
        failure = StoreFailed(f"{doing}: {error.strerror or error}")
        self.failed = self.failed or failure
        return self.failed

    def _guard(self, doing: str, call: Callable[[], None]) -> None:
        try:
            call()
        except OSError as error:
            raise self.fail(doing, error) from error
