"""Paces bulk reads: other work comes first, and readers still get their share of the time.

A bulk read is background work. After each batch it pauses several times as long as other work kept
the loop busy meanwhile, since other work might have done more without it; but it always gets its
share of the time. Without other work it does not pause at all. While it pauses its client waits
too, and the processors are free for other work.
"""

from __future__ import annotations

from typing import Final, NamedTuple

"""Of the time, that bulk reads have at least while others work."""
WEIGHT: Final = 4.0
"""How many times as long as others worked a bulk read rests."""
GIVES_WAY: Final = 1e6
"""The weight of searches: wherever others work at all, they rest as long as they may. Clients that
wait for each answer keep the loop idle most of the time, and are slowed down all the same by
work between their calls."""
REST_MAX_S: Final = 5.0
"""The longest pause. The pauses of many readers add up, and a client that receives nothing for
half a minute gives up on the queue manager.
"""


class Busy(NamedTuple):
    """What a loop has done since it began: this many seconds of work for this many calls."""

    seconds: float
    calls: int


class Pace:
    """The rests of all bulk reads together. Times are seconds of any clock that does not jump."""

    def __init__(self, share: float, weight: float = WEIGHT) -> None:
        self._share = share
        self._weight = weight
        self._free_at_s = 0.0
        self._ended_s = 0.0
        self._busy = Busy(0.0, 0)
        self._looks = 0
        self._looked_s = 0.0

    def wait_s(self, now_s: float) -> float:
        """How long the next batch has to wait before it is made."""
        return max(self._free_at_s - now_s, 0.0)

    def looked(self, seconds: float = 0.0) -> None:
        """A call on the loop was a bulk read's own; what it took there counts as its work."""
        self._looks += 1
        self._looked_s += seconds

    def made(self, begun_s: float, now_s: float, busy: Busy) -> None:
        """A batch was made; `busy` is what the loop has done so far.

        Of batches that are made beside each other the time counts once.
        """
        worked_s = max(now_s - max(begun_s, self._ended_s), 0.0) + self._looked_s
        round_s = worked_s / self._share  # with the longest rest
        since_s = max(now_s - self._ended_s, round_s)  # what was before counts by its rate
        rest_s = self._weight * self._others_s(busy) * round_s / since_s if worked_s else 0.0
        free_at_s = max(self._free_at_s, now_s) + min(rest_s, round_s - worked_s)
        self._free_at_s = min(free_at_s, now_s + REST_MAX_S)
        self._ended_s, self._busy, self._looks, self._looked_s = now_s, busy, 0, 0.0

    def _others_s(self, busy: Busy) -> float:
        """How long the loop worked for others since the last batch, by their part of the calls."""
        calls = busy.calls - self._busy.calls
        if calls <= self._looks:
            return 0.0
        seconds = max(busy.seconds - self._busy.seconds - self._looked_s, 0.0)
        return seconds * (calls - self._looks) / calls
