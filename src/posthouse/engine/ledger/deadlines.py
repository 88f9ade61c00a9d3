"""When something may be due: one moment for everything that has a timer.

Every part that sets a deadline notes it here. What has been noted and came to nothing stays until
its time: then everything is asked once. So a turn in which nothing can be due asks nothing.
"""

from __future__ import annotations

from math import inf


class Deadlines:
    """The earliest moments of which anybody has spoken, on both clocks. Nothing is due earlier."""

    __slots__ = ("at_ms", "at_utc", "moved")

    def __init__(self) -> None:
        self.at_ms = -inf  # on the monotonic clock; at the start everything is asked
        self.at_utc = -inf  # seconds
        self.moved = True  # something may be due earlier than the sleeping loop was told

    def note(self, at_ms: float) -> None:
        """Something is due then."""
        if at_ms < self.at_ms:
            self.at_ms, self.moved = at_ms, True

    def note_utc(self, second: int) -> None:
        """Something is due in that second, however the clock is set meanwhile."""
        if second < self.at_utc:
            self.at_utc, self.moved = second, True
