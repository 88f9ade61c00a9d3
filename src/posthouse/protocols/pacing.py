"""When bulk reads work beside others: what those do comes first, and readers never starve.

A bulk read is background work. Behind each batch that was made it rests several times as long as
others kept the loop busy meanwhile, since what they would have done without it is unknown;
but never so long that it has less than its share of the time. Where there is no other work it
does not rest at all. While it rests so does whoever reads, and the processors are the others'.
"""

from __future__ import annotations

from typing import Final, NamedTuple

"""Of the time, that bulk reads have at least while others work."""
WEIGHT: Final = 4.0
"""How many times as long as others worked a bulk read rests."""
REST_MAX_S: Final = 5.0
"""The rests of many readers add up, and each of them hears nothing meanwhile: one that hears
nothing for half a minute takes the queue manager for dead."""


class Busy(NamedTuple):
    """What a loop has done since it began: this many seconds of work for this many calls."""

    seconds: float
    calls: int


class Pace:
    """The rests of all bulk reads together. Times are seconds of any clock that does not jump."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._free_at_s = 0.0
        self._ended_s = 0.0
        self._busy = Busy(0.0, 0)
        self._looks = 0

    def wait_s(self, now_s: float) -> float:
        """How long the next batch has to wait before it is made."""
        return max(self._free_at_s - now_s, 0.0)

    def looked(self) -> None:
        """A call on the loop was a bulk read's own."""
        self._looks += 1

    def made(self, begun_s: float, now_s: float, busy: Busy) -> None:
        """A batch was made; `busy` is what the loop has done so far.

        Of batches that are made beside each other the time counts once.
        """
        worked_s = max(now_s - max(begun_s, self._ended_s), 0.0)
        round_s = worked_s / self._share  # with the longest rest
        since_s = max(now_s - self._ended_s, round_s)  # what was before counts by its rate
        rest_s = WEIGHT * self._others_s(busy) * round_s / since_s if worked_s else 0.0
        free_at_s = max(self._free_at_s, now_s) + min(rest_s, round_s - worked_s)
        self._free_at_s = min(free_at_s, now_s + REST_MAX_S)
        self._ended_s, self._busy, self._looks = now_s, busy, 0

    def _others_s(self, busy: Busy) -> float:
        """How long the loop worked for others since the last batch, by their part of the calls."""
        calls = busy.calls - self._busy.calls
        if calls <= self._looks:
            return 0.0
        return (busy.seconds - self._busy.seconds) * (calls - self._looks) / calls
