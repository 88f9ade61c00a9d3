"""Opens a log: reads and checks everything before anything is changed.

The newest segment with a sound beginning (the anchor) states which segments belong to the log. They
are replayed in order, from a checkpoint where there is one. Where the bytes stop being records, a
mark decides: if any mark, anywhere, states that the record expected there had been synced, this is
damage. A damaged record that provably held a message is set aside, and reading goes on after it;
any other refuses the log as it is. Without such a mark it is a torn tail: what stands there and
after it was never answered for, and is cut off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from posthouse.engine.ledger.records import COPY, MESSAGE
from posthouse.engine.ledger.state import State
from posthouse.store.checkpoint import (
    TEMPORARY_SUFFIX,
    Checkpoint,
    CheckpointHead,
    checkpoint_names,
    load_accounts,
    read_checkpoint,
    read_head,
)
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged, StoreError
from posthouse.store.format import (
    HEADER_SIZE,
    RELEASE,
    RELEASE_PAYLOAD,
    SEGMENT_HEADER_SIZE,
    SEGMENT_MAGIC,
    SEGMENTS,
    SPARE_SUFFIX,
    SegmentEntry,
    SegmentHeader,
    generation_of,
    index_name,
    is_recycled,
    numbered,
    segment_name,
    unpack_segment_header,
    unpack_segments,
)
from posthouse.store.index import (
    PART,
    PASSED_OVER,
    IndexBuilder,
    Paused,
    SegmentIndex,
    block_size,
    finished,
    unpack_index,
)
from posthouse.store.ledger import StoreLedger
from posthouse.store.read import read_file, read_in_parts
from posthouse.store.replay import Replay
from posthouse.store.segment import Scanner, Segment, find_marks
from posthouse.store.set_aside import Aside, Damaged, set_aside


class Flaw(NamedTuple):
    """Where the log stops, and the record that was expected there."""

    number: int
    offset: int
    sequence: int
    reason: str
    length: int | None = None  # of a sealed segment
    last_sequence: int = 0

    def damage(self, why: str = "") -> StoreDamaged:
        """The refusal of a log that has it."""
        return StoreDamaged(segment_name(self.number), self.offset, self.reason + why)


class Anchor(NamedTuple):
    """The newest segment with a sound beginning, scanned."""

    header: SegmentHeader
    data: bytes
    records: list[tuple[int, int, int]]
    scanner: Scanner
    live: list[SegmentEntry]


class OpenedLog(NamedTuple):
    """An opened log; what has to be done on the disk is not done yet."""

    store_id: bytes
    state: State
    ledger: StoreLedger
    active: Segment | None
    next_sequence: int
    next_number: int
    synced: int  # what is proved to be on the disk
    cut: bool
    torn_bytes: int
    torn: list[str]  # files whose every record is after the cut
    leftovers: list[str]  # files that belong to the log no more
    checkpoint_position: int  # of the one that was used, 0: none
    asides: tuple[Aside, ...] = ()  # damaged records that the log goes on without
    covered: tuple[int, int] = (0, 0)  # segment and offset that the checkpoint reaches to


class SegmentRange(NamedTuple):
    """A part of a sealed segment that is replayed."""

    entry: SegmentEntry
    offset: int = SEGMENT_HEADER_SIZE
    sequence: int = 0  # of its first record; 0: the segment's first


class Recovery:
    """Reads a log. Changes nothing."""

    def __init__(
        self, disk: Disk, store_id: bytes, *, log_only: bool = False, set_aside: bool = False
    ) -> None:
        self.disk = disk
        self.store_id = store_id
        self.log_only = log_only  # no checkpoints, no indexes
        self.set_aside = set_aside  # go on without damaged records of messages
        self.asides: dict[int, dict[int, Aside]] = {}  # by segment and offset
        self.identified = False  # the store_id is the one of the log
        self.names = disk.names()
        self.all_numbers = numbered(self.names, ".log")
        self.numbers = list(self.all_numbers)  # those not judged torn
        self.ends: dict[int, int] = {}  # where a torn one ends
        self.synced = 0
        self.notes: list[str] = []

    def examine(self) -> OpenedLog:
        """The log as it is, or StoreDamaged."""
        while True:
            anchor = self.newest_sound()
            if anchor is None:
                self._judge_headless(None)
                return self._empty()
            result = self._attempt(anchor)
            if not isinstance(result, Flaw):
                return result
            self._judge(result)  # what it sets aside or cuts off is not met again

    # -- reading files

    def read(self, number: int) -> bytes:
        """The bytes of a segment, without a part judged torn."""
        return read_file(self.disk, segment_name(number))[: self.ends.get(number)]

    def header(self, number: int, data: bytes) -> SegmentHeader:
        """The header of a segment, which must fit its file and its store."""
        name = segment_name(number)
        header = unpack_segment_header(data, name, number)
        if header.generation != generation_of(header.store_id, number):
            raise StoreDamaged(name, 16, "the generation does not follow from the number")
        return header

    # -- judging

    def _judge(self, flaw: Flaw) -> None:
        """Damage is raised or set aside, a torn tail taken out of sight: reading can go on."""
        if self._is_damage(flaw):
            self._set_aside(flaw)
        else:
            self._cut(flaw)

    def _is_damage(self, flaw: Flaw) -> bool:
        """Whether anything proves that the record expected there had been synced."""
        self._heads()
        behind = [n for n in self.all_numbers if n >= flaw.number]
        for number in behind:
            generation = generation_of(self.store_id, number) if self.identified else None
            offset = flaw.offset if number == flaw.number else 0
            data = read_file(self.disk, segment_name(number))
            self.synced = max(self.synced, find_marks(data, generation, offset))
        return self.synced >= flaw.sequence

    def _set_aside(self, flaw: Flaw) -> None:
        """Every damaged record of the segment, if the log can do without each; else it raises."""
        if not self.set_aside or flaw.offset < SEGMENT_HEADER_SIZE:
            raise flaw.damage()
        data = self.read(flaw.number)[: flaw.length]
        generation = generation_of(self.store_id, flaw.number)
        while True:
            place = Damaged(data, generation, flaw.offset, flaw.sequence, flaw.last_sequence)
            aside = set_aside(flaw.number, place, flaw.reason)
            if aside is None:
                raise flaw.damage("; it is not shown to be the record of a message")
            self.asides.setdefault(flaw.number, {})[flaw.offset] = aside
            scanner = Scanner(
                data, generation, flaw.sequence + 1, aside.end, recycled=is_recycled(data)
            )
            for _ in scanner:
                pass
            if not scanner.reason or scanner.sequence > self.synced:
                return
            flaw = flaw._replace(
                offset=scanner.offset, sequence=scanner.sequence, reason=scanner.reason
            )

    def _ends_of_asides(self, number: int) -> dict[int, int]:
        return {offset: aside.end for offset, aside in self.asides.get(number, {}).items()}

    def _cut(self, flaw: Flaw) -> None:
        keep = flaw.number + 1 if flaw.offset > SEGMENT_HEADER_SIZE else flaw.number
        self.numbers = [n for n in self.numbers if n < keep]
        if keep > flaw.number:
            self.ends[flaw.number] = flaw.offset

    def _empty(self) -> OpenedLog:
        """No segment is sound, and none is known to have been synced."""
        torn = [segment_name(n) for n in self.all_numbers]
        self._heads()
        if self.synced:
            name = torn[0] if torn else segment_name(1)
            raise StoreDamaged(name, 0, "the segments of the log are missing")
        return OpenedLog(
            store_id=self.store_id,
            state=State(),
            ledger=StoreLedger(),
            active=None,
            next_sequence=1,
            next_number=max(self.all_numbers, default=0) + 1,
            synced=0,
            cut=bool(torn),
            torn_bytes=sum(self.disk.size(name) for name in torn),
            torn=torn,
            leftovers=self._stray(()),
            checkpoint_position=0,
        )

    # -- the anchor

    def newest_sound(self) -> Anchor | None:
        """The newest segment with a sound beginning."""
        for number in reversed(self.numbers):
            data = self.read(number)
            try:
                header = self.header(number, data)
            except StoreDamaged:
                continue
            anchor = self._scan_anchor(header, data)
            if anchor is not None:
                self.store_id, self.identified = header.store_id, True
                return anchor
        return None

    def _scan_anchor(self, header: SegmentHeader, data: bytes) -> Anchor | None:
        scanner = Scanner(
            data,
            header.generation,
            header.first_sequence,
            recycled=header.recycled,
            aside=self._ends_of_asides(header.number),
        )
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

    def _attempt(self, anchor: Anchor) -> OpenedLog | Flaw:
        if self.numbers[-1] != anchor.header.number:
            self._judge_headless(anchor)
        for entry in anchor.live:
            if entry.number not in self.numbers:
                return Flaw(entry.number, 0, entry.first_sequence, "the segment is missing")
        for name, head in [] if self.log_only else self._heads():
            plan = plan_behind(anchor, head)
            if plan is None:
                self._note(f"{name} does not fit the log and is passed over")
                continue
            try:
                checkpoint = read_checkpoint(self.disk, name, head)
            except StoreDamaged as error:
                self._note(f"{error.file}, offset {error.offset}: {error.reason}; passed over")
                continue
            return self._replay(anchor, plan, checkpoint)
        return self._replay(anchor, [SegmentRange(entry) for entry in anchor.live], None)

    def _heads(self) -> list[tuple[str, CheckpointHead]]:
        """Checkpoints of this store, the newest first; each proves how far the log was synced."""
        heads = []
        for name in checkpoint_names(self.names):
            try:
                head = read_head(self.disk, name)
            except StoreError as error:
                self._note(f"{name} is passed over: {error}")
                continue
            if head.store_id == self.store_id or not self.identified:
                heads.append((name, head))
                self.synced = max(self.synced, head.position)
        return heads

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _replay(
        self, anchor: Anchor, plan: list[SegmentRange], checkpoint: Checkpoint | None
    ) -> OpenedLog | Flaw:
        ledger = StoreLedger()
        for entry in anchor.live:
            ledger.segments[entry.number] = sealed_segment(entry, self.store_id)
        active = Segment(anchor.header.number, self.store_id, anchor.header.first_sequence)
        ledger.segments[active.number] = active
        state = State()
        if checkpoint is not None:
            state, ledger.positions = checkpoint.state, checkpoint.positions
            load_accounts(ledger, checkpoint.accounts)
        replay = Replay(state, ledger)
        for stretch in plan:
            flaw = self._replay_sealed(replay, ledger.segments[stretch.entry.number], stretch)
            if flaw is not None:
                return flaw
        return self._replay_anchor(replay, active, anchor, checkpoint)

    def _replay_sealed(
        self, replay: Replay, segment: Segment, stretch: SegmentRange
    ) -> Flaw | None:
        entry, start, sequence = stretch.entry, stretch.offset, stretch.sequence
        index = self._index(segment, entry)
        if index is not None:
            replay.index(index, segment, start)
            return None
        data = self.read(entry.number)
        try:
            self.header(entry.number, data)
        except StoreDamaged as error:
            return Flaw(entry.number, error.offset, entry.first_sequence, error.reason)
        scanner = Scanner(
            data[: entry.length],
            segment.generation,
            sequence or entry.first_sequence,
            start,
            aside=self._ends_of_asides(entry.number),
        )
        replay_scanned(replay, segment, scanner, scanner)
        self.synced = max(self.synced, scanner.synced)
        if scanner.reason or scanner.offset != entry.length:
            reason = scanner.reason or "the segment ends too early"
            return Flaw(
                entry.number,
                scanner.offset,
                scanner.sequence,
                reason,
                entry.length,
                entry.last_sequence,
            )
        return None

    def _index(self, segment: Segment, entry: SegmentEntry) -> SegmentIndex | None:
        """The index of a segment, if it may stand for it: only where all of it was synced."""
        if self.log_only or self.synced < entry.last_sequence or entry.number in self.ends:
            return None
        return finished(load_index(self.disk, segment))

    def _replay_anchor(
        self, replay: Replay, active: Segment, anchor: Anchor, checkpoint: Checkpoint | None
    ) -> OpenedLog | Flaw:
        scanner = anchor.scanner
        active.index = IndexBuilder()
        start = checkpoint_offset(active, checkpoint)
        replay_scanned(replay, active, scanner, anchor.records, start)
        active.body_at = anchor.records[min(1, len(anchor.records) - 1)][2]
        active.end = scanner.offset
        active.last_sequence = scanner.sequence - 1
        reason = scanner.reason
        if scanner.sequence <= self.synced:
            reason = reason or "the log ends before a position that was synced"
        if reason:
            flaw = Flaw(active.number, scanner.offset, scanner.sequence, reason)
            if self._is_damage(flaw):
                return flaw
            self._cut(flaw)
        live = replay.ledger.segments
        replay.ledger.positions.retain(set(live))
        replay.ledger.copied_from &= set(live)
        active.recycled = anchor.header.recycled
        return self._found(replay, active, scanner.sequence, checkpoint)

    def _found(
        self, replay: Replay, active: Segment, next_sequence: int, checkpoint: Checkpoint | None
    ) -> OpenedLog:
        live = replay.ledger.segments
        torn = [n for n in self.all_numbers if n > active.number]
        old = [n for n in self.all_numbers if n < active.number and n not in live]
        torn_bytes = self._bytes_behind(active)
        torn_bytes += sum(map(self._bytes_of_torn, torn))
        return OpenedLog(
            store_id=self.store_id,
            state=replay.state,
            ledger=replay.ledger,
            active=active,
            next_sequence=next_sequence,
            next_number=max(self.all_numbers) + 1,
            synced=self.synced,
            cut=torn_bytes > 0 or active.number in self.ends or bool(torn),
            torn_bytes=torn_bytes,
            torn=[segment_name(n) for n in torn],
            leftovers=[segment_name(n) for n in old] + self._stray(live),
            checkpoint_position=checkpoint.head.position if checkpoint else 0,
            asides=tuple(one for found in self.asides.values() for one in found.values()),
            covered=checkpoint.head[:2] if checkpoint else (0, 0),
        )

    def _bytes_behind(self, active: Segment) -> int:
        """Of the newest segment, without what was there before it."""
        if self.disk.size(active.name) == active.end:
            return 0
        behind = read_file(self.disk, active.name)[active.end :]
        if active.recycled:
            return bytes_of(active.generation, behind)
        return len(behind.rstrip(b"\0"))

    def _bytes_of_torn(self, number: int) -> int:
        """Of one after the newest; it may be a file of old that was just taken to be one."""
        data = read_file(self.disk, segment_name(number))
        if is_old(data, number):
            return bytes_of(generation_of(self.store_id, number), data)
        return len(data)

    def _stray(self, live: Collection[int]) -> list[str]:
        """Unfinished files, and indexes of segments that are gone."""
        indexes = [index_name(n) for n in numbered(self.names, ".idx") if n not in live]
        unfinished = TEMPORARY_SUFFIX, SPARE_SUFFIX
        return indexes + [name for name in self.names if name.endswith(unfinished)]


def bytes_of(generation: int, data: bytes) -> int:
    """Up to where bytes of a segment may lie among those of another one."""
    last = data.rfind(generation.to_bytes(4, "little"))
    return last + 4 if last >= 0 else 0


def is_old(data: bytes, number: int) -> bool:
    """Whether a file was taken over from another segment: it states which, or that it was."""
    try:
        return unpack_segment_header(data, "", number).recycled
    except StoreDamaged:
        head = data[:SEGMENT_HEADER_SIZE]
        return len(head) == SEGMENT_HEADER_SIZE and head[:8] == SEGMENT_MAGIC


def plan_behind(anchor: Anchor, head: CheckpointHead) -> list[SegmentRange] | None:
    """What to replay on top of a checkpoint; None if the log has a gap after it."""
    expected, plan = head.position + 1, []
    for entry in anchor.live:
        if entry.last_sequence < expected:
            continue
        if entry.number == head.segment:
            plan.append(SegmentRange(entry, head.offset, expected))
        elif entry.first_sequence == expected:
            plan.append(SegmentRange(entry))
        else:
            return None
        expected = entry.last_sequence + 1
    here = anchor.header.number == head.segment
    return plan if here or anchor.header.first_sequence == expected else None


def checkpoint_offset(segment: Segment, checkpoint: Checkpoint | None) -> int:
    """Where replay begins in the active segment."""
    if checkpoint is None or checkpoint.head.segment != segment.number:
        return 0
    return checkpoint.head.offset


def sealed_segment(entry: SegmentEntry, store_id: bytes) -> Segment:
    """A segment as its successor remembers it."""
    segment = Segment(entry.number, store_id, entry.first_sequence)
    segment.end = entry.length
    segment.last_sequence = entry.last_sequence
    segment.sealed = True
    return segment


def replay_scanned(
    replay: Replay,
    segment: Segment,
    scanner: Scanner,
    records: Iterable[tuple[int, int, int]],
    start: int = 0,
) -> None:
    """Applies records from `start` on, and indexes all of them where the segment wants that."""
    view, index = memoryview(scanner.data), segment.index
    for kind, offset, end in records:
        payload = view[offset + HEADER_SIZE : end]
        if offset >= start:
            replay.record(kind, segment, offset, end - offset, payload)
        if index is not None:
            index_record(index, kind, offset, payload)


def index_record(index: IndexBuilder, kind: int, offset: int, payload: memoryview) -> None:
    """Adds a record read back to an index."""
    if kind in (MESSAGE, COPY):
        number = int.from_bytes(payload[:8], "little")
        index.add(kind, number, offset, payload[: block_size(payload)])
    else:
        index.add(kind, 0, offset, payload)


def load_index(disk: Disk, segment: Segment) -> Paused[SegmentIndex | None]:
    """A sealed segment's index; None without a good one."""
    name = index_name(segment.number)
    if not disk.exists(name):
        return None
    try:
        data = yield from read_in_parts(disk, name, PART)
        index = yield from unpack_index(data, segment.number, segment.generation)
    except StoreError:
        return None
    fits = (index.first_sequence, index.length) == (segment.first_sequence, segment.end)
    return index if fits else None


def index_of(disk: Disk, segment: Segment) -> Paused[SegmentIndex]:
    """A sealed segment's index, made again from the segment if it is not good."""
    found = yield from load_index(disk, segment)
    return found or (yield from rebuild_index(disk, segment))


def rebuild_index(disk: Disk, segment: Segment) -> Paused[SegmentIndex]:
    """A sealed segment's index, from the segment itself; StoreDamaged if it is not whole."""
    data = yield from read_in_parts(disk, segment.name, PART)
    built, view = IndexBuilder(), memoryview(data)[: segment.end]
    scanner = Scanner(view, segment.generation, segment.first_sequence, aside=segment.aside)
    for at, (kind, offset, end) in enumerate(scanner, 1):
        index_record(built, kind, offset, view[offset + HEADER_SIZE : end])
        if not at % PASSED_OVER:
            yield
    if scanner.offset != segment.end:
        reason = scanner.reason or "the segment ends too early"
        raise StoreDamaged(segment.name, scanner.offset, reason)
    return SegmentIndex(segment.number, segment.first_sequence, segment.end, built)
