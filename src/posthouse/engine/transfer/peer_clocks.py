"""Differences between our clock and those of other machines, as messages show them.

A sender gives up a message whose time to reach its queue is over. So one that still comes, long
after its time by our clock, was in time by the clock of its sender, which is slower than ours. And
an answer that was written after now shows that our own clock is slower than that of its writer.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.ledger.ledger import Ledger
from posthouse.model.bounded_tables import Bounded

SLACK_S: Final = 60  # allowed for transit, and for differences too small to report
SHOWN_S: Final = 24 * 3600  # a difference that was not seen again is forgotten after it
MACHINES_MAX: Final = 1_000


class ClockDifference(NamedTuple):
    """What is known of the clock at an address."""

    address: str
    behind_s: int  # the least number of seconds that its clock is slow; negative: fast
    messages: int  # that were dropped here as too late because of it
    seen_utc: int  # the last time that it showed


class Clocks:
    """Differences by address."""

    def __init__(self, core: Ledger) -> None:
        self.core = core
        self._known: Bounded[str, ClockDifference] = Bounded(MACHINES_MAX)

    def late(self, address: str, over_s: int) -> None:
        """A message came when its time had been over for this many seconds."""
        if over_s <= SLACK_S:
            return
        before = self._known.pop(address, None)
        messages = 1 if before is None else before.messages + 1
        self.core.refusals["sender_clock_behind"] += 1
        self._note(address, over_s, messages)
        self.core.event("sender_clock_behind", address=address, seconds=over_s)

    def told(self, address: str, their_utc: int) -> None:
        """An answer was written at this second of the other machine's clock."""
        ahead_s = their_utc - self.core.utc
        if ahead_s <= SLACK_S:
            return
        before = self._known.pop(address, None)
        self._note(address, -ahead_s, 0 if before is None else before.messages)
        self.core.event("own_clock_behind", address=address, seconds=ahead_s)

    def _note(self, address: str, behind_s: int, messages: int) -> None:
        self._known[address] = ClockDifference(address, behind_s, messages, self.core.utc)

    def differing(self) -> list[ClockDifference]:
        """Those that showed within the last day, the latest first."""
        limit = self.core.utc - SHOWN_S
        return [one for one in reversed(list(self._known.values())) if one.seen_utc >= limit]
