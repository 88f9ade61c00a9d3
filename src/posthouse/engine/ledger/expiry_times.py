"""Messages by the second at which they expire: the timers of [MS-MQDMPR] 3.1.2.4."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from math import inf

ALL = sys.maxsize
STALE_MIN = 4096  # entries of messages that are gone, which may stay until they are this many


class Calendar:
    """One packed list of numbers per second; entries of messages that are gone stay a while.

    A caller that takes a second's numbers compares each with its row: only the row is true.
    """

    __slots__ = ("_days", "_gone", "_seconds", "count", "earliest", "held")

    def __init__(self) -> None:
        self._days: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._gone = 0
        self.count = 0
        self.earliest: float = inf  # the first second with entries
        self.held: dict[int, int] = {}  # due since this second, but a reader has the message

    def add(self, second: int, number: int) -> None:
        """Notes that this message is to be looked at in this second."""
        self._day(second).append(number)
        self.count += 1

    def add_run(self, second: int, numbers: range) -> None:
        """Notes that these messages are to be looked at in this second."""
        self._day(second).extend(numbers)
        self.count += len(numbers)

    def _day(self, second: int) -> array[int]:
        numbers = self._days.get(second)
        if numbers is None:
            numbers = self._days[second] = array("Q")
            heappush(self._seconds, second)
            self.earliest = self._seconds[0]
        return numbers

    def take(self, now: int, limit: int = ALL) -> list[int]:
        """Numbers of the seconds up to and with `now`, earliest first; they are forgotten.

        At most `limit` of them: the rest is due as before.
        """
        due: list[int] = []
        while self._seconds and self._seconds[0] <= now and len(due) < limit:
            numbers, wanted = self._days[self._seconds[0]], limit - len(due)
            due.extend(numbers[:wanted])
            del numbers[:wanted]
            if not numbers:
                del self._days[heappop(self._seconds)]
        self.count -= len(due)
        self.earliest = self._seconds[0] if self._seconds else inf
        return due

    def left(self, keep: Callable[[int, array[int]], Iterable[int]], count: int = 1) -> None:
        """Messages are gone before their time. Now and then what is not needed is dropped.

        `keep` shows of a second and its numbers which entries still mean something.
        """
        self._gone += count
        if self._gone < STALE_MIN or self._gone * 2 < self.count:
            return
        self._gone = 0
        kept = {
            second: array("Q", dict.fromkeys(keep(second, numbers)))
            for second, numbers in self._days.items()
        }
        self._days = {second: numbers for second, numbers in kept.items() if numbers}
        self._index()

    def _index(self) -> None:
        self._seconds = list(self._days)
        heapify(self._seconds)
        self.earliest = self._seconds[0] if self._seconds else inf
        self.count = sum(len(numbers) for numbers in self._days.values())

    def dump(self) -> dict[int, bytes]:
        """All entries, for a checkpoint: after a start nothing is held, and what was due is."""
        days = {second: numbers.tobytes() for second, numbers in self._days.items()}
        for number, second in self.held.items():
            days[second] = days.get(second, b"") + array("Q", [number]).tobytes()
        return days

    def load(self, days: dict[int, bytes]) -> None:
        """Takes over the entries of a checkpoint."""
        for second, raw in days.items():
            numbers = array("Q")
            numbers.frombytes(raw)
            self._days[second] = numbers
        self._index()
