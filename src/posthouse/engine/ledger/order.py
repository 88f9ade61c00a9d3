"""The order of a queue: priority first, then lookup id ([MS-MQDMPR] 3.1.1.2).

A lane per priority; a lane is a list of chunks of two packed arrays. Lookup ids grow, so
arrivals are appended; what is taken from the front or the middle leaves a hole that costs nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import NamedTuple

CHUNK = 512
_LOOKED_AT = 16  # messages at least, where those in front may be locked
PRIORITIES = 8


class QueuePosition(NamedTuple):
    """A sort key: where a message stands, whether it is still there or not."""

    priority: int
    lookup_id: int


class QueueRange(NamedTuple):
    """The messages of a queue whose identifiers are in (after, through]."""

    after: int
    through: int

    def holds(self, lookup_id: int) -> bool:
        """Whether a message is one of them."""
        return self.after < lookup_id <= self.through


START = QueuePosition(
    PRIORITIES, 0
)  # before the first message: [MS-MQDMPR] MessagePositionList.Start


class _Chunk:
    __slots__ = ("head", "ids", "live", "numbers", "shared")

    def __init__(self) -> None:
        self.ids = array("Q")
        self.numbers = array("Q")  # 0: a hole
        self.head = 0  # nothing lives in front of it
        self.live = 0
        self.shared = False  # by a checkpoint, which reads both arrays: copies are changed

    def own(self) -> None:
        """Goes on with copies; the checkpoint has the others."""
        self.ids, self.numbers, self.shared = self.ids[:], self.numbers[:], False


class Lane:
    """Messages of one priority in order of their lookup ids."""

    __slots__ = ("_chunks", "_firsts", "_last", "_tail", "count", "floor")

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._firsts: list[int] = []
        self._tail: _Chunk | None = None  # the last chunk, while it takes appends
        self._last = 0  # the greatest identifier ever appended to it
        self.count = 0
        self.floor = 0  # no message with a smaller identifier is available (all are locked)

    def insert(self, lookup_id: int, number: int) -> None:
        """Adds a message: at the end, except when recovery finds an old one late."""
        self.count += 1
        if lookup_id > self._last:
            chunk = self._tail
            if chunk is None or len(chunk.ids) >= CHUNK:
                chunk = self._tail = _Chunk()
                self._chunks.append(chunk)
                self._firsts.append(lookup_id)
            elif chunk.shared:
                chunk.own()
            chunk.ids.append(lookup_id)
            chunk.numbers.append(number)
            self._last = lookup_id
        else:
            chunk = self._insert_late(lookup_id, number)
            self.floor = min(self.floor, lookup_id)
        chunk.live += 1

    @property
    def last(self) -> int:
        """The greatest identifier that was ever added at its end."""
        return self._last

    def insert_run(self, lookup_id: int, number: int, count: int) -> None:
        """Adds messages at the end whose identifiers and numbers both follow on each other."""
        assert lookup_id > self._last
        self.count += count
        self._last = lookup_id + count - 1
        while count:
            chunk = self._tail
            if chunk is None or len(chunk.ids) >= CHUNK:
                chunk = self._tail = _Chunk()
                self._chunks.append(chunk)
                self._firsts.append(lookup_id)
            elif chunk.shared:
                chunk.own()
            some = min(count, CHUNK - len(chunk.ids))
            chunk.ids.extend(range(lookup_id, lookup_id + some))
            chunk.numbers.extend(range(number, number + some))
            chunk.live += some
            lookup_id, number, count = lookup_id + some, number + some, count - some

    def _insert_late(self, lookup_id: int, number: int) -> _Chunk:
        if not self._chunks:
            chunk = self._tail = _Chunk()
            self._chunks.append(chunk)
            self._firsts.append(lookup_id)
        index = max(bisect_right(self._firsts, lookup_id) - 1, 0)
        chunk = self._chunks[index]
        if len(chunk.ids) >= 2 * CHUNK:
            self._split(index)
            return self._insert_late(lookup_id, number)
        if chunk.shared:
            chunk.own()
        at = bisect_left(chunk.ids, lookup_id)
        if at < len(chunk.ids) and chunk.ids[at] == lookup_id:
            assert not chunk.numbers[at], "lookup id given twice"
            chunk.numbers[at] = number  # it was taken out and comes back to its place
        else:
            chunk.ids.insert(at, lookup_id)
            chunk.numbers.insert(at, number)
        chunk.head = min(chunk.head, at)
        self._firsts[index] = min(self._firsts[index], lookup_id)
        return chunk

    def _split(self, index: int) -> None:
        whole = self._chunks[index]
        entries = [(i, n) for i, n in zip(whole.ids, whole.numbers, strict=True) if n]
        halves = [entries[: len(entries) // 2], entries[len(entries) // 2 :]]
        fresh = [_packed(half) for half in halves if half]
        self._chunks[index : index + 1] = fresh
        self._firsts[index : index + 1] = [chunk.ids[0] for chunk in fresh]
        self._tail = self._chunks[-1]

    def number(self, lookup_id: int) -> int:
        """The message with this identifier, 0 when there is none."""
        found = self._find(lookup_id)
        return found[1].numbers[found[2]] if found else 0

    def _find(self, lookup_id: int) -> tuple[int, _Chunk, int] | None:
        index = bisect_right(self._firsts, lookup_id) - 1
        if index < 0:
            return None
        chunk = self._chunks[index]
        at = bisect_left(chunk.ids, lookup_id)
        if at < len(chunk.ids) and chunk.ids[at] == lookup_id and chunk.numbers[at]:
            return index, chunk, at
        return None

    def remove(self, lookup_id: int) -> None:
        """Takes out a message that is there."""
        index, chunk = 0, self._chunks[0]
        at = chunk.head
        if chunk.ids[at] != lookup_id:  # not the first one, which is what readers take
            found = self._find(lookup_id)
            assert found is not None
            index, chunk, at = found
        chunk.live -= 1
        self.count -= 1
        if not chunk.live:
            del self._chunks[index], self._firsts[index]
            if chunk is self._tail:
                self._tail = None
            return
        if chunk.shared:
            chunk.own()
        chunk.numbers[at] = 0
        if at == chunk.head:
            numbers = chunk.numbers
            at += 1
            while not numbers[at]:
                at += 1
            chunk.head = at
        elif chunk.live * 4 < len(chunk.ids) and chunk.live * 4 < CHUNK:
            self._thin(index, chunk)

    def remove_run(self, ids: list[int]) -> None:
        """Takes out messages that are there, in order of their identifiers."""
        at = 0
        while at < len(ids):
            found = self._find(ids[at])
            assert found is not None
            at += self._remove_together(*found, ids[at : at + CHUNK])

    def numbers_of(self, ids: list[int]) -> list[int]:
        """The message with the first of these identifiers and those right after it, if any."""
        found = self._find(ids[0])
        if found is None:
            return []
        _, chunk, at = found
        return chunk.numbers[at : at + _together(chunk, at, ids)].tolist()

    def _remove_together(self, index: int, chunk: _Chunk, at: int, ids: list[int]) -> int:
        """Takes out the first of these and those that stand right after it in its chunk."""
        some = _together(chunk, at, ids)
        chunk.live -= some
        self.count -= some
        if not chunk.live:
            del self._chunks[index], self._firsts[index]
            if chunk is self._tail:
                self._tail = None
            return some
        if chunk.shared:
            chunk.own()
        numbers = chunk.numbers
        numbers[at : at + some] = array("Q", bytes(8 * some))
        if at == chunk.head:
            chunk.head += some
            while not numbers[chunk.head]:
                chunk.head += 1
        elif chunk.live * 4 < len(chunk.ids) and chunk.live * 4 < CHUNK:
            self._thin(index, chunk)
        return some

    def _thin(self, index: int, chunk: _Chunk) -> None:
        fresh = _packed([(i, n) for i, n in zip(chunk.ids, chunk.numbers, strict=True) if n])
        self._chunks[index] = fresh
        self._firsts[index] = fresh.ids[0]
        if chunk is self._tail:
            self._tail = fresh

    def first(self) -> tuple[int, int] | None:
        """Identifier and number of the first message."""
        if not self._chunks:
            return None
        chunk = self._chunks[0]
        return chunk.ids[chunk.head], chunk.numbers[chunk.head]

    def first_free(self, locked: Container[int]) -> tuple[int, int] | None:
        """Identifier and number of the first message that is not locked; `floor` follows it."""
        chunks = self._chunks
        if not chunks:
            return None
        first = chunks[0]
        if (number := first.numbers[first.head]) not in locked:
            return first.ids[first.head], number
        for index in range(max(bisect_right(self._firsts, self.floor) - 1, 0), len(chunks)):
            ids, numbers, head = chunks[index].ids, chunks[index].numbers, chunks[index].head
            for at in range(max(head, bisect_left(ids, self.floor)), len(ids)):
                number = numbers[at]
                if number and number not in locked:
                    self.floor = ids[at]
                    return ids[at], number
        self.floor = chunks[-1].ids[-1] + 1
        return None

    def after(self, lookup_id: int) -> Iterator[tuple[int, int]]:
        """The messages with greater identifiers, in order; the lane must not change meanwhile."""
        start = max(bisect_right(self._firsts, lookup_id) - 1, 0)
        for index in range(start, len(self._chunks)):
            chunk = self._chunks[index]
            at = max(chunk.head, bisect_right(chunk.ids, lookup_id))
            for place in range(at, len(chunk.ids)):
                if chunk.numbers[place]:
                    yield chunk.ids[place], chunk.numbers[place]

    def some_after(self, lookup_id: int, count: int) -> tuple[list[int], list[int]]:
        """Identifiers and numbers of the next messages with greater identifiers, at most `count`.

        The lane may change before the next call.
        """
        ids: list[int] = []
        numbers: list[int] = []
        for index in range(max(bisect_right(self._firsts, lookup_id) - 1, 0), len(self._chunks)):
            chunk = self._chunks[index]
            at = max(chunk.head, bisect_right(chunk.ids, lookup_id))
            while at < len(chunk.ids):
                if (wanted := count - len(numbers)) <= 0:
                    return ids, numbers
                here = chunk.numbers[at : at + wanted].tolist()
                if 0 in here:
                    places = [place for place, number in enumerate(here, at) if number]
                    ids += [chunk.ids[place] for place in places]
                    numbers += filter(None, here)
                else:
                    ids += chunk.ids[at : at + wanted].tolist()
                    numbers += here
                at += wanted
        return ids, numbers

    def packed(self, after: int, through: int, count: int) -> tuple[bytes, bytes, int]:
        """Identifiers and numbers of messages in (after, through], as they lie in memory.

        Holes are among them, with number 0; of more than about `count` the rest is left out. Up to
        the third value nothing is.
        """
        ids: list[array[int]] = []
        numbers: list[array[int]] = []
        for index in range(max(bisect_right(self._firsts, after) - 1, 0), len(self._chunks)):
            chunk = self._chunks[index]
            if chunk.ids[0] > through:
                break
            begin = max(chunk.head, bisect_right(chunk.ids, after))
            end = bisect_right(chunk.ids, through)
            if begin < end:
                if count <= 0:
                    return *_joined(ids, numbers), chunk.ids[begin] - 1
                ids.append(chunk.ids[begin:end])
                numbers.append(chunk.numbers[begin:end])
                count -= end - begin
        return *_joined(ids, numbers), through

    def count_up_to(self, lookup_id: int) -> int:
        """How many messages have this identifier or a smaller one."""
        index = bisect_right(self._firsts, lookup_id) - 1
        if index < 0:
            return 0
        chunk = self._chunks[index]
        here = chunk.numbers[chunk.head : bisect_right(chunk.ids, lookup_id)]
        return sum([c.live for c in self._chunks[:index]]) + len(here) - here.count(0)

    def before(self, lookup_id: int) -> Iterator[tuple[int, int]]:
        """The messages with smaller identifiers, the greatest first."""
        for index in range(bisect_left(self._firsts, lookup_id) - 1, -1, -1):
            chunk = self._chunks[index]
            for place in range(bisect_left(chunk.ids, lookup_id) - 1, chunk.head - 1, -1):
                if chunk.numbers[place]:
                    yield chunk.ids[place], chunk.numbers[place]

    def around(self, lookup_id: int, without: QueueRange | None) -> Iterator[tuple[int, int]]:
        """Like `after`, without the messages of a stretch."""
        return self.after(lookup_id) if without is None else self._around(lookup_id, without)

    def _around(self, lookup_id: int, without: QueueRange) -> Iterator[tuple[int, int]]:
        for entry in self.after(lookup_id):
            if without.holds(entry[0]):
                yield from self.after(without.through)
                return
            yield entry

    def around_back(self, lookup_id: int, without: QueueRange | None) -> Iterator[tuple[int, int]]:
        """Like `before`, without the messages of a stretch."""
        for entry in self.before(lookup_id):
            if without is not None and without.holds(entry[0]):
                yield from self.before(without.after + 1)
                return
            yield entry

    def share(self) -> list[tuple[array[int], array[int]]]:
        """Identifiers and numbers of the chunks as they are, for a checkpoint.

        They are not to be changed: whatever changes in the lane changes in copies.
        """
        for chunk in self._chunks:
            chunk.shared = True
        return [(chunk.ids, chunk.numbers) for chunk in self._chunks]

    def load(self, chunks: list[tuple[bytes, bytes]]) -> None:
        """Takes over the chunks of a checkpoint."""
        for ids, numbers in chunks:
            chunk = _Chunk()
            chunk.ids.frombytes(ids)
            chunk.numbers.frombytes(numbers)
            if len(chunk.ids) != len(chunk.numbers):
                raise ValueError("chunk of unequal sides")
            chunk.live = len(chunk.numbers) - chunk.numbers.count(0)
            if not chunk.live:
                continue
            while not chunk.numbers[chunk.head]:
                chunk.head += 1
            self._chunks.append(chunk)
            self._firsts.append(chunk.ids[0])
            self.count += chunk.live
            self._tail = chunk
            self._last = chunk.ids[-1]


def _joined(*parts: list[array[int]]) -> tuple[bytes, bytes]:
    ids, numbers = (b"".join(some) for some in parts)
    return ids, numbers


def _together(chunk: _Chunk, at: int, ids: list[int]) -> int:
    """How many of these identifiers stand one after the other from a place in a chunk on."""
    here = chunk.ids[at : at + len(ids)].tolist()
    some = len(here)
    if here != ids[:some]:
        some = next(i for i in range(some) if here[i] != ids[i])
    return some


def _packed(entries: list[tuple[int, int]]) -> _Chunk:
    chunk = _Chunk()
    chunk.ids.extend([i for i, _ in entries])
    chunk.numbers.extend([n for _, n in entries])
    chunk.live = len(entries)
    return chunk


FOREVER = (1 << 64) - 1


class Order:
    """All messages of one queue in queue order."""

    __slots__ = ("lanes", "used")

    def __init__(self) -> None:
        self.lanes: list[Lane | None] = [None] * PRIORITIES
        self.used: list[int] = []  # priorities with a lane, lowest first

    def lane(self, priority: int) -> Lane:
        """The lane of a priority, made on first use."""
        lane = self.lanes[priority]
        if lane is None:
            lane = self.lanes[priority] = Lane()
            insort(self.used, priority)
        return lane

    def available(
        self, locked: Mapping[int, object], count: int, without: QueueRange | None = None
    ) -> list[int]:
        """Numbers of the first messages in queue order, without locked ones and a stretch."""
        numbers: list[int] = []
        for priority in reversed(self.used):
            lane = self.lane(priority)
            after = max(lane.floor, 1) - 1
            while (wanted := count - len(numbers)) > 0:
                ids, some = lane.some_after(after, max(wanted, _LOOKED_AT))
                if not some:
                    break
                after = ids[-1]
                if without is not None:
                    pairs = zip(ids, some, strict=True)
                    some = [number for lookup_id, number in pairs if not without.holds(lookup_id)]
                    after = without.through if without.holds(after) else after
                if not locked.keys().isdisjoint(some):
                    some = [number for number in some if number not in locked]
                numbers += some[:wanted]
        return numbers

    def number(self, lookup_id: int) -> tuple[int, int]:
        """Priority and number of the message with this identifier; number 0 when none."""
        for priority in self.used:
            number = self.lanes[priority].number(lookup_id)  # type: ignore[union-attr]
            if number:
                return priority, number
        return 0, 0

    def numbers(self, ids: list[int]) -> list[int]:
        """The numbers of messages with these identifiers, 0 for each that is not here."""
        if len(ids) == 1:
            return [self.number(ids[0])[1]]
        numbers: list[int] = []
        while (at := len(numbers)) < len(ids):
            wanted = ids[at : at + CHUNK]
            for priority in self.used:
                if some := self.lane(priority).numbers_of(wanted):
                    numbers += some
                    break
            else:
                numbers.append(0)
        return numbers

    def count_up_to(self, lookup_id: int) -> int:
        """How many messages have this identifier or a smaller one."""
        return sum([self.lane(priority).count_up_to(lookup_id) for priority in self.used])

    def count_of(self, stretch: QueueRange) -> int:
        """How many messages are in a stretch."""
        return self.count_up_to(stretch.through) - self.count_up_to(stretch.after)

    def first_id(self) -> int:
        """The smallest identifier of a message that is there, 0 when there is none."""
        firsts = [self.lane(priority).first() for priority in self.used]
        return min([first[0] for first in firsts if first is not None], default=0)

    def last_id(self) -> int:
        """The largest identifier of a message that is there, 0 when there is none."""
        lasts = [next(self.lane(priority).before(FOREVER), None) for priority in self.used]
        return max([last[0] for last in lasts if last is not None], default=0)

    def highest(self) -> int | None:
        """The highest priority of a message that is there."""
        used = reversed(self.used)
        return next((priority for priority in used if self.lane(priority).count), None)

    def after(self, lookup_id: int) -> Iterator[tuple[int, int]]:
        """Identifiers and numbers of the messages that follow, in order of identifiers alone."""
        return merge(*[self.lane(priority).after(lookup_id) for priority in self.used])

    def some_after(self, lookup_id: int, count: int) -> list[tuple[int, int]]:
        """Identifiers and numbers of the next messages in order of identifiers alone."""
        lanes = [self.lane(priority) for priority in self.used]
        found = [zip(*lane.some_after(lookup_id, count), strict=True) for lane in lanes]
        return list(found[0]) if len(found) == 1 else list(islice(merge(*found), count))

    def forward(
        self,
        place: QueuePosition = START,
        *,
        available: bool = False,
        without: QueueRange | None = None,
    ) -> Iterator[tuple[QueuePosition, int]]:
        """The messages after a place in queue order, without those of the range `without`.

        With `available`, messages below the lanes' floors are skipped, since none of them is
        available.
        """
        for priority in reversed(self.used):
            if priority > place.priority:
                continue
            lane = self.lane(priority)
            after = place.lookup_id if priority == place.priority else 0
            if available and lane.floor > after:
                after = lane.floor - 1
            for lookup_id, number in lane.around(after, without):
                yield QueuePosition(priority, lookup_id), number

    def backward(
        self, place: QueuePosition | None = None, *, without: QueueRange | None = None
    ) -> Iterator[tuple[QueuePosition, int]]:
        """The messages in front of a place (None: the end), the last one first."""
        for priority in self.used:
            if place is not None and priority < place.priority:
                continue
            before = FOREVER
            if place is not None and priority == place.priority:
                before = place.lookup_id
            for lookup_id, number in self.lane(priority).around_back(before, without):
                yield QueuePosition(priority, lookup_id), number
