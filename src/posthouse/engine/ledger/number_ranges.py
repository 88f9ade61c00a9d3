"""A set of message numbers, stored as ranges because most are consecutive."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Numbers:
    """Numbers in order. A million in a row cost as much as one."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []  # each the first number after its run
        for first, count in runs:
            self.add_run(first, count)

    def add(self, number: int) -> None:
        """One more; mostly it follows on the last."""
        ends = self._ends
        if ends and ends[-1] == number:
            ends[-1] = number + 1
        else:
            self.add_run(number, 1)

    def add_run(self, first: int, count: int) -> None:
        """This many from the first on, whether they are here already or not."""
        if count <= 0:
            return
        starts, ends, end = self._starts, self._ends, first + count
        low, high = bisect_left(ends, first), bisect_right(starts, end)  # those that touch it
        if low < high:
            first, end = min(first, starts[low]), max(end, ends[high - 1])
        starts[low:high] = [first]
        ends[low:high] = [end]

    def discard(self, number: int) -> None:
        """Takes one out, if it is here."""
        if self._starts:
            self.discard_run(number, 1)

    def discard_run(self, first: int, count: int) -> None:
        """Takes out those that are here of this many from the first on."""
        if count <= 0:
            return
        starts, ends, end = self._starts, self._ends, first + count
        low, high = bisect_right(ends, first), bisect_left(starts, end)
        if low >= high:
            return
        left = [(starts[low], first)] if starts[low] < first else []
        right = [(end, ends[high - 1])] if ends[high - 1] > end else []
        kept = left + right
        starts[low:high] = [start for start, _ in kept]
        ends[low:high] = [behind for _, behind in kept]

    def runs(self) -> list[tuple[int, int]]:
        """First number and count of each run, in order."""
        return [(start, end - start) for start, end in zip(self._starts, self._ends, strict=True)]

    def holds(self, first: int, count: int) -> bool:
        """Whether all of this many from the first on are here."""
        at = bisect_right(self._starts, first) - 1
        return at >= 0 and first + count <= self._ends[at]

    def copy(self) -> Numbers:
        """An independent copy of the set."""
        other = Numbers()
        other._starts, other._ends = list(self._starts), list(self._ends)
        return other

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and number < self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for start, end in zip(self._starts, self._ends, strict=True):
            yield from range(start, end)

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Numbers):
            return NotImplemented
        return self._starts == other._starts and self._ends == other._ends

    __hash__ = None  # type: ignore[assignment]
