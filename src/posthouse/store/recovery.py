"""Opening a log: reads everything first, judges, and only then lets anything be changed.

The newest segment with a sound beginning (the anchor) says which segments belong to the log. They
are replayed in order, from a checkpoint where there is one. Where the bytes stop being records, a
mark decides: if any mark, anywhere, says that the record expected there had been synced, this is
damage and the log is refused as it is. Otherwise it is a torn tail: what stands there and behind
was never answered for, and is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from posthouse.engine.records import COPY, MESSAGE
from posthouse.engine.state import State
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import (
    HEADER_SIZE,
    RELEASE,
    RELEASE_PAYLOAD,
    SEGMENT_HEADER_SIZE,
    SEGMENTS,
    SegmentEntry,
    SegmentHeader,
    generation_of,
    index_name,
    numbered,
    segment_name,
    unpack_segment_header,
    unpack_segments,
)
from posthouse.store.index import IndexBuilder, SegmentIndex, block_size, unpack_index
from posthouse.store.ledger import Ledger
from posthouse.store.replay import Replay
from posthouse.store.segment import Scanner, Segment, find_marks


class Flaw(NamedTuple):
    """Where the log stops, and the record that was expected there."""

    number: int
    offset: int
    sequence: int
    reason: str


class Anchor(NamedTuple):
    """The newest segment with a sound beginning, scanned."""

    header: SegmentHeader
    data: bytes
    records: list[tuple[int, int, int]]
    scanner: Scanner
    live: list[SegmentEntry]


class Found(NamedTuple):
    """An opened log; what has to be done on the disk is not done yet."""

    store_id: bytes
    state: State
    ledger: Ledger
    active: Segment | None
    next_sequence: int
    next_number: int
    synced: int  # what is proved to be on the disk
    cut: bool
    torn_bytes: int
    torn: list[str]  # files whose every record is behind the cut
    leftovers: list[str]  # files that belong to the log no more


class Recovery:
    """Reads a log. Changes nothing."""

    def __init__(self, disk: Disk, store_id: bytes) -> None:
        self.disk = disk
        self.store_id = store_id
        self.names = disk.names()
        self.all_numbers = numbered(self.names, ".log")
        self.numbers = list(self.all_numbers)  # those not judged torn
        self.ends: dict[int, int] = {}  # where a torn one ends
        self.synced = 0
        self.notes: list[str] = []

    def examine(self) -> Found:
        """The log as it is, or StoreDamaged."""
        while True:
            anchor = self._anchor()
            if anchor is None:
                return self._empty()
            result = self._attempt(anchor)
            if not isinstance(result, Flaw):
                return result
            self._judge(result)

    # -- reading files

    def read(self, number: int) -> bytes:
        """The bytes of a segment, without a part judged torn."""
        file = self.disk.open(segment_name(number))
        try:
            return file.read(0, min(file.size(), self.ends.get(number, file.size())))
        finally:
            file.close()

    def header(self, number: int, data: bytes) -> SegmentHeader:
        """The header of a segment, which must fit its file and its store."""
        name = segment_name(number)
        header = unpack_segment_header(data, name, number)
        if header.generation != generation_of(header.store_id, number):
            raise StoreDamaged(name, 16, "the generation does not follow from the number")
        return header

    # -- judging

    def _judge(self, flaw: Flaw) -> None:
        """Damage is raised; a torn tail is taken out of sight, so that reading can begin again."""
        behind = [n for n in self.all_numbers if n >= flaw.number]
        for number in behind:
            generation = generation_of(self.store_id, number)
            offset = flaw.offset if number == flaw.number else 0
            whole = self.disk.open(segment_name(number))
            try:
                data = whole.read(0, whole.size())
            finally:
                whole.close()
            self.synced = max(self.synced, find_marks(data, generation, offset))
        if self.synced >= flaw.sequence:
            raise StoreDamaged(segment_name(flaw.number), flaw.offset, flaw.reason)
        keep = flaw.number + 1 if flaw.offset > SEGMENT_HEADER_SIZE else flaw.number
        self.numbers = [n for n in self.numbers if n < keep]
        if keep > flaw.number:
            self.ends[flaw.number] = flaw.offset

    def _empty(self) -> Found:
        """No segment is sound, and none is known to have been synced."""
        torn = [segment_name(n) for n in self.all_numbers]
        if self.synced:
            name = torn[0] if torn else segment_name(1)
            raise StoreDamaged(name, 0, "the segments of the log are missing")
        return Found(
            store_id=self.store_id,
            state=State(),
            ledger=Ledger(),
            active=None,
            next_sequence=1,
            next_number=max(self.all_numbers, default=0) + 1,
            synced=0,
            cut=bool(torn),
            torn_bytes=sum(self.disk.size(name) for name in torn),
            torn=torn,
            leftovers=[],
        )

    # -- the anchor

    def _anchor(self) -> Anchor | None:
        for number in reversed(self.numbers):
            data = self.read(number)
            try:
                header = self.header(number, data)
            except StoreDamaged:
                continue
            anchor = self._scan_anchor(header, data)
            if anchor is not None:
                self.store_id = header.store_id
                return anchor
        self._judge_headless(None)
        return None

    def _scan_anchor(self, header: SegmentHeader, data: bytes) -> Anchor | None:
        scanner = Scanner(data, header.generation, header.first_sequence)
        records = list(scanner)
        if not records or records[0][0] != SEGMENTS:
            return None
        listed = unpack_segments(memoryview(data)[records[0][1] + HEADER_SIZE : records[0][2]])
        if listed is None:
            return None
        released = {
            RELEASE_PAYLOAD.unpack_from(data, offset + HEADER_SIZE)[0]
            for kind, offset, _ in records
            if kind == RELEASE
        }
        self.synced = max(self.synced, scanner.synced)
        live = [entry for entry in listed if entry.number not in released]
        return Anchor(header, data, records, scanner, live)

    def _judge_headless(self, anchor: Anchor | None) -> None:
        """Newer files without a sound beginning: a segment that was just being made, or damage."""
        last = anchor.header.number if anchor else 0
        newer = [n for n in self.numbers if n > last]
        if newer:
            sequence = anchor.scanner.sequence if anchor else 1
            self._judge(Flaw(newer[0], 0, sequence, "the segment has no sound beginning"))

    # -- replaying

    def _attempt(self, anchor: Anchor) -> Found | Flaw:
        if self.numbers[-1] != anchor.header.number:
            self._judge_headless(anchor)
        for entry in anchor.live:
            if entry.number not in self.numbers:
                return Flaw(entry.number, 0, entry.first_sequence, "the segment is missing")
        ledger = Ledger()
        for entry in anchor.live:
            ledger.segments[entry.number] = sealed_segment(entry, self.store_id)
        active = Segment(anchor.header.number, self.store_id, anchor.header.first_sequence)
        ledger.segments[active.number] = active
        replay = Replay(State(), ledger)
        for entry in anchor.live:
            flaw = self._replay_sealed(replay, ledger.segments[entry.number], entry)
            if flaw is not None:
                return flaw
        return self._replay_anchor(replay, active, anchor)

    def _replay_sealed(self, replay: Replay, segment: Segment, entry: SegmentEntry) -> Flaw | None:
        index = self._index(segment, entry)
        if index is not None:
            for kind, _, offset, size, head in index.entries():
                replay.record(kind, segment, offset, size, head)
            return None
        data = self.read(entry.number)
        try:
            self.header(entry.number, data)
        except StoreDamaged as error:
            return Flaw(entry.number, error.offset, entry.first_sequence, error.reason)
        scanner = Scanner(data[: entry.length], segment.generation, entry.first_sequence)
        replay_scanned(replay, segment, scanner, scanner)
        self.synced = max(self.synced, scanner.synced)
        if scanner.reason or scanner.offset != entry.length:
            reason = scanner.reason or "the segment ends too early"
            return Flaw(entry.number, scanner.offset, scanner.sequence, reason)
        return None

    def _index(self, segment: Segment, entry: SegmentEntry) -> SegmentIndex | None:
        """The index of a segment, if it may stand for it: only where all of it was synced."""
        if self.synced < entry.last_sequence or entry.number in self.ends:
            return None
        return load_index(self.disk, segment)

    def _replay_anchor(self, replay: Replay, active: Segment, anchor: Anchor) -> Found:
        scanner = anchor.scanner
        active.index = IndexBuilder()
        replay_scanned(replay, active, scanner, anchor.records)
        active.end = scanner.offset
        active.last_sequence = scanner.sequence - 1
        if scanner.reason:
            self._judge(Flaw(active.number, scanner.offset, scanner.sequence, scanner.reason))
        return self._found(replay, active, scanner.sequence)

    def _found(self, replay: Replay, active: Segment, next_sequence: int) -> Found:
        live = replay.ledger.segments
        torn = [n for n in self.all_numbers if n > active.number]
        old = [n for n in self.all_numbers if n < active.number and n not in live]
        torn_bytes = self.disk.size(active.name) - active.end
        torn_bytes += sum(self.disk.size(segment_name(n)) for n in torn)
        return Found(
            store_id=self.store_id,
            state=replay.state,
            ledger=replay.ledger,
            active=active,
            next_sequence=next_sequence,
            next_number=max(self.all_numbers) + 1,
            synced=self.synced,
            cut=torn_bytes > 0 or bool(torn),
            torn_bytes=torn_bytes,
            torn=[segment_name(n) for n in torn],
            leftovers=[segment_name(n) for n in old],
        )


def sealed_segment(entry: SegmentEntry, store_id: bytes) -> Segment:
    """A segment as its successor remembers it."""
    segment = Segment(entry.number, store_id, entry.first_sequence)
    segment.end = entry.length
    segment.last_sequence = entry.last_sequence
    segment.sealed = True
    return segment


def replay_scanned(
    replay: Replay, segment: Segment, scanner: Scanner, records: Iterable[tuple[int, int, int]]
) -> None:
    """Applies records found by a scanner, and indexes them where the segment wants that."""
    view, index = memoryview(scanner.data), segment.index
    for kind, offset, end in records:
        payload = view[offset + HEADER_SIZE : end]
        number = replay.record(kind, segment, offset, end - offset, payload)
        if index is not None:
            block = payload[: block_size(payload)] if kind in (MESSAGE, COPY) else payload
            index.add(kind, number, offset, block)


def load_index(disk: Disk, segment: Segment) -> SegmentIndex | None:
    """A sealed segment's index, None if there is no good one."""
    name = index_name(segment.number)
    if not disk.exists(name):
        return None
    file = disk.open(name)
    try:
        index = unpack_index(file.read(0, file.size()), segment.number, segment.generation)
    except StoreDamaged:
        return None
    finally:
        file.close()
    fits = (index.first_sequence, index.length) == (segment.first_sequence, segment.end)
    return index if fits else None
