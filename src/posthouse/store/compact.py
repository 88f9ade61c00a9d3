"""Compaction: copies what is still needed from mostly dead segments forward, then deletes them.

A segment has four kinds of things that may still matter. Messages that wait are copied forward as
COPY records with the row they have now, so the changes made to them since need not follow. Rows and
endings that name a message whose record lies in an older segment go into a CARRY record, as do runs
of published or dropped messages, definitions that are newest here, and deletions of what an older
segment still defines. All of it is decided from the shared State, which matches the log exactly
whenever `tidy` is called: that is why a merged row is right, and why the step may be interrupted
anywhere. Until the RELEASE record is written the segment belongs to the log, and everything carried
is merely there twice. From then on it does not, and its file is deleted as soon as the record is
synced and no reader uses it.

Two rules keep a full replay right. Only one segment is under way at a time, and one that was left
half done by a crash comes first: so besides it no two segments hold a record of the same message.
And only segments in front of the newest checkpoint are taken: so the log after a checkpoint has
no gap. In front of each RELEASE the books are written down, because replaying a log with gaps may
have counted wrongly until there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from posthouse.engine.ledger.records import (
    CHANGE,
    COPY,
    KEPT,
    MESSAGE,
    TABLE_BOOKS,
    Change,
    Define,
    End,
    Record,
    Settle,
    pack_arrival,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import State
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CARRY, HEADER_SIZE, RELEASE, RELEASE_PAYLOAD
from posthouse.store.index import Entry, Paused, SegmentIndex
from posthouse.store.ledger import END_WEIGHT, ROW_WEIGHT, RUN_WEIGHT, Key, StoreLedger
from posthouse.store.positions import LogPosition
from posthouse.store.segment import Segment
from posthouse.store.settings import StoreSettings

SMALL_PARTS = 8  # less than this part of a segment is not worth the trouble
MARGIN = 64 << 10  # left free by a compaction, for what is said meanwhile
_NONE_LEFT = Entry(0, 0, 0, 0, memoryview(b""))
STEP_ENTRIES = 1024  # looked at in one step, whether they are copied or not, and what is in them


class Victim:
    """A segment that is being compacted."""

    def __init__(self, segment: Segment, entries: Iterator[Entry | None]) -> None:
        self.segment = segment
        self.entries = entries  # None: there is more, after a pause
        self.carried: set[int] = set()
        self.carried_keys: set[Key] = set()
        self.done = False


class Leaving:
    """A segment that belongs to the log no more; its file waits for a sync and for readers."""

    def __init__(self, victim: Victim, position: int) -> None:
        self.segment = victim.segment
        self.position = position
        self.removed = False


class Compactor:
    """Chooses segments and writes again what is needed of them, a bounded step at a time."""

    def __init__(
        self,
        state: State,
        ledger: StoreLedger,
        settings: StoreSettings,
        load_index: Callable[[Segment], Paused[SegmentIndex]],
        read_record: Callable[[LogPosition], bytes],
        free_space: Callable[[], tuple[int, int]],
    ) -> None:
        self.state = state
        self.ledger = ledger
        self.settings = settings
        self.load_index = load_index
        self.read_record = read_record
        self.free_space = free_space
        self.victim: Victim | None = None
        self.thorough = False  # the store is empty and idle: any garbage is too much
        self.blocked_bytes = 0  # what a newer checkpoint would let us take
        self.lacks_room = False  # a segment would be taken if more of the disk were free

    # -- choosing

    def choose(self, checkpoint_position: int) -> bool:
        """Picks the segment that gives most of those in front of the checkpoint, if any does."""
        assert self.victim is None
        free, total = self.free_space()
        unfinished, held = self._unfinished(), self.ledger.held_segments()
        if unfinished is not None and unfinished.number in held:
            return False  # it goes first, and an operator has to decide before that
        short = free < 2 * self.settings.reserve(total)
        candidates = self._candidates(short, held) if unfinished is None else [unfinished]
        fitting = [s for s in candidates if self._is_empty(s) or self._copied(s) <= free]
        self.lacks_room = len(fitting) < len(candidates)
        candidates = fitting
        found = [s for s in candidates if s.last_sequence <= checkpoint_position]
        self.blocked_bytes = 0
        if found:
            segment = max(found, key=self._gain)
            self.victim = Victim(segment, self._entries(segment))
        elif unfinished in candidates:
            self.blocked_bytes = self.settings.segment_size  # it goes first: worth a checkpoint
        else:
            self.blocked_bytes = sum(map(self._gain, candidates))
        return bool(found)

    def _entries(self, segment: Segment) -> Iterator[Entry | None]:
        """What there is to look at. Nothing comes back to life: what is dead by now stays so."""
        return iter(()) if self._is_empty(segment) else self._entries_of_index(segment)

    def _entries_of_index(self, segment: Segment) -> Iterator[Entry | None]:
        """With a pause after each part of the index that is read."""
        loading = self.load_index(segment)
        index = yield from loading
        yield from index.entries() if segment.live_bytes else index.entries_of_changes()

    def _is_empty(self, segment: Segment) -> bool:
        """Nothing of it would have to be written again. Queues die from the front, so most get so.

        One that is half done is gone through to its end, or its copies would stay for twice.
        """
        whole = segment.number not in self.ledger.copied_from
        return whole and self.ledger.weight(segment) == segment.fixed_bytes

    def _unfinished(self) -> Segment | None:
        """One that a crash interrupted: parts of it are in the log twice.

        Whether somebody reads it or not, or a long read would hold up all the others; its file
        stays until the reader is done.
        """
        for number in self.ledger.copied_from:
            return self.ledger.segments[number]
        return None

    def _candidates(self, short: bool, held: set[int]) -> list[Segment]:
        """Empty ones, else mostly dead ones if there is much garbage, else many small ones.

        Where the disk is short of space no garbage is left alone.
        """
        segments = self.ledger.segments.values()
        sealed = [s for s in segments if s.sealed and not s.pins and s.number not in held]
        found = [s for s in sealed if self._is_empty(s)]
        if not found and short:
            found = [s for s in sealed if self._is_dead(s, 1 / SMALL_PARTS)]
        elif not found and sum(map(self._gain, sealed)) > self._tolerated(sealed):
            found = [s for s in sealed if self._is_dead(s, self.settings.dead_ratio)]
        small = [s for s in sealed if s.end * SMALL_PARTS < self.settings.segment_size]
        return found or (small if len(small) >= self.settings.small_segments else [])

    def _is_dead(self, segment: Segment, ratio: float) -> bool:
        return self._gain(segment) >= (segment.end - segment.fixed_bytes) * ratio

    def _tolerated(self, sealed: list[Segment]) -> int:
        if self.thorough or not self.settings.garbage_segments:
            return -1
        share = sum(segment.end for segment in sealed) // 8
        return max(self.settings.garbage_segments * self.settings.segment_size, share)

    def is_worth_sealing(self, active: Segment) -> bool:
        """The segment that is written to has more dead bytes than a full one should have."""
        return self._gain(active) >= self.settings.segment_size * (
            1 / SMALL_PARTS if self.thorough else self.settings.dead_ratio
        )

    def _copied(self, segment: Segment) -> int:
        """Bytes that have to be free while it is compacted."""
        return self.ledger.weight(segment) + MARGIN

    def _gain(self, segment: Segment) -> int:
        return segment.end - self.ledger.weight(segment)

    # -- writing again

    def step(self) -> list[Record]:
        """The next records to append, perhaps none; see `victim.done`."""
        victim = self.victim
        assert victim is not None
        records: list[Record] = []
        carry, size, looked = Change(), 0, 0
        while looked < STEP_ENTRIES:
            entry = next(victim.entries, _NONE_LEFT)
            looked += 1
            if entry is None:
                break
            if entry is _NONE_LEFT:
                victim.done = True
                break
            if entry.kind in (MESSAGE, COPY):
                size += self._copy(victim.segment, entry, records)
            elif entry.kind in (CHANGE, CARRY):
                change = unpack_change(entry.head)
                looked += len(change.settles) + len(change.ends) + len(change.defines)
                size += self._carry(victim, change, carry)
            if size >= self.settings.step_bytes:
                break
        if carry:
            records.append((CARRY, 0, carry.pack(), b""))
        return records

    def _copy(self, segment: Segment, entry: Entry, records: list[Record]) -> int:
        """A message that still lies exactly here goes along, with the row it has now."""
        place = self.ledger.positions.get(entry.number)
        if place is None or place.dead or place[:2] != (segment.number, entry.offset):
            return 0
        row = self.state.table.get(entry.number)
        assert row is not None, f"message {entry.number} has a place and no row"
        try:
            payload = memoryview(self.read_record(place))[HEADER_SIZE:]
        except StoreDamaged as damage:
            damage.number = entry.number
            raise
        arrival = unpack_arrival(payload)
        extra = self.state.extras.get(entry.number, b"")
        head = pack_arrival(entry.number, row, arrival.span, arrival.sender, extra)
        records.append((COPY, entry.number, head, bytes(payload[arrival.packet_at :])))
        return place.size

    def _carry(self, victim: Victim, change: Change, carry: Change) -> int:
        before = len(carry.settles), len(carry.ends), len(carry.defines)
        runs = self._carry_runs(victim, change, carry)
        for settle in change.settles:
            self._carry_row(victim, settle.number, carry)
        for number, reason in change.ends:
            self._carry_end(victim, number, reason, carry)
        for table, key, _ in change.defines:
            if table != TABLE_BOOKS:
                self._carry_definition(victim, (table, key), carry)
        return (
            runs * RUN_WEIGHT
            + (len(carry.settles) - before[0]) * ROW_WEIGHT
            + (len(carry.ends) - before[1]) * END_WEIGHT
            + sum(len(d.key) + len(d.value or b"") for d in carry.defines[before[2] :])
        )

    def _carry_runs(self, victim: Victim, change: Change, carry: Change) -> int:
        """What was said of many messages at once goes along as it is; how many runs do.

        A published run as long as a message of it lives in an older segment, a dropped one as
        long as any other segment holds a record of it.
        """
        here, positions = victim.segment.number, self.ledger.positions
        published = [
            run
            for run in change.published
            if min(positions.holders(run.number, run.length, alive=True), default=here) < here
        ]
        dropped = [
            run
            for run in change.dropped
            if (positions.holders(*run) - {here}) & self.ledger.segments.keys()
        ]
        carry.published += published
        carry.dropped += dropped
        return len(published) + len(dropped)

    def _carry_row(self, victim: Victim, number: int, carry: Change) -> None:
        """A row of a message whose record is older than this segment."""
        place = self.ledger.positions.get(number)
        if place is None or place.dead or place.segment >= victim.segment.number:
            return
        if number not in victim.carried:
            victim.carried.add(number)
            row = self.state.table.get(number)
            assert row is not None, f"message {number} has a place and no row"
            extra = self.state.extras.get(number, b"")
            carry.settles.append(Settle(number, KEPT, row, extra))

    def _carry_end(self, victim: Victim, number: int, reason: int, carry: Change) -> None:
        """An ending, as long as another segment holds a record of the message."""
        place = self.ledger.positions.get(number)
        if place is None or place.segment == victim.segment.number:
            return
        if place.segment in self.ledger.segments and number not in victim.carried:
            victim.carried.add(number)
            carry.ends.append(End(number, reason))

    def _carry_definition(self, victim: Victim, key: Key, carry: Change) -> None:
        """A definition that is newest here; a deletion while an older segment defines the key."""
        known = self.ledger.definitions.get(key)
        if known is None or known.segments[-1] != victim.segment.number:
            return
        if key not in victim.carried_keys:
            victim.carried_keys.add(key)
            carry.defines.append(Define(*key, self.state.definitions.get(key)))

    # -- releasing

    def release(self) -> list[Record]:
        """The last records about a segment: the books as they are, and that it is gone."""
        assert self.victim is not None
        books = Change()
        books.defines.append(self.state.books_define())
        number = RELEASE_PAYLOAD.pack(self.victim.segment.number)
        return [(CARRY, 0, books.pack(), b""), (RELEASE, 0, number, b"")]

    def leave(self, position: int) -> Leaving:
        """To be called when the release was appended."""
        assert self.victim is not None
        leaving = Leaving(self.victim, position)
        self.ledger.leave(leaving.segment.number)
        self.victim = None
        return leaving
