"""Measures how long turns of the loop block other work, in CPU time of the thread.

A turn is one round of work on the event loop: calls on the engine, their records, and the answers
that leave. CPU time does not grow while other programs have the processor, so a long turn is work
of ours. To ask for it is a system call, so it is asked for at the end of a turn only: what a turn
took is the CPU time since the last one ended, and never more than passed on the clock meanwhile.
No request is served during a turn, so one above `SLOW_S` is a fault: it is counted, and reported
with what took longest in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from time import thread_time
from typing import NamedTuple

SLOW_S = 0.05


class SlowTurn(NamedTuple):
    """A turn that kept others waiting for too long."""

    cpu_s: float
    calls: int
    longest: str  # which call or part of it took longest
    longest_s: float


class TurnTimes:
    """CPU time of turns, by buckets, for the metrics; `on_slow` gets those above the limit."""

    BOUNDS_S: tuple[float, ...] = (
        0.0002,
        0.0005,
        0.001,
        0.002,
        0.005,
        0.01,
        0.02,
        SLOW_S,
        0.1,
        0.2,
        0.5,
        1.0,
        5.0,
    )

    def __init__(self) -> None:
        self.restart(lambda turn: None)

    def restart(self, on_slow: Callable[[SlowTurn], None]) -> None:
        """Counts from now on: no request waits while the queue manager starts."""
        self.counts = [0] * (len(self.BOUNDS_S) + 1)
        self.total_s = 0.0
        self.longest_s = 0.0
        self.slow: SlowTurn | None = None  # the longest of those above the limit
        self.slow_count = 0
        self.on_slow = on_slow

    def note(self, seconds: float) -> None:
        """Counts one."""
        self.counts[bisect_left(self.BOUNDS_S, seconds)] += 1
        self.total_s += seconds
        if seconds > self.longest_s:
            self.longest_s = seconds

    def note_slow(self, turn: SlowTurn) -> None:
        """Reports one of those above the limit."""
        self.slow_count += 1
        if self.slow is None or turn.cpu_s > self.slow.cpu_s:
            self.slow = turn
        self.on_slow(turn)


class TurnMeter:
    """Measures one turn after the other. Of turns that overlap each second counts once."""

    __slots__ = ("_begun_s", "_cpu_s", "_open", "calls", "longest", "longest_s", "times")

    def __init__(self, times: TurnTimes) -> None:
        self.times = times
        self._open = False
        self._begun_s, self._cpu_s = 0.0, thread_time()
        self.calls = 0  # on the engine, in this turn
        self.longest_s = 0.0  # of a part of this turn
        self.longest: object = ""  # that part: a function, or words for it

    def begin(self, now_s: float) -> None:
        """A turn begins, or goes on."""
        if not self._open:
            self._open, self._begun_s = True, now_s

    def did(self, part: object, seconds: float) -> None:
        """A part of the turn took this time, by any clock."""
        if seconds > self.longest_s:
            self.longest, self.longest_s = part, seconds

    def end(self, now_s: float, *, goes_on: bool) -> None:
        """The turn ends; `goes_on`: the next one has begun in it already."""
        cpu_s = thread_time()
        seconds, passed_s = cpu_s - self._cpu_s, now_s - self._begun_s
        if passed_s < seconds:
            seconds = passed_s
        if seconds > SLOW_S:
            longest = name_of(self.longest)
            self.times.note_slow(SlowTurn(seconds, self.calls, longest, self.longest_s))
        self.times.note(seconds)
        self._open, self._cpu_s, self._begun_s, self.calls = goes_on, cpu_s, now_s, 0
        self.longest_s, self.longest = 0.0, ""


def name_of(part: object) -> str:
    """What is reported of a part of a turn: a function by its module and name."""
    if isinstance(part, str):
        return part
    named = getattr(part, "func", part)  # a partial by its function
    module = str(getattr(named, "__module__", "")).removeprefix("posthouse.")
    return f"{module}:{getattr(named, '__qualname__', type(named).__name__)}"
