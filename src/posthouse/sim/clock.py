"""A clock that moves only when the simulation moves it.

The engine takes two clocks as arguments (design.md 3): monotonic milliseconds for timers, UTC
seconds for stamps and expiry. `SimClock` has both and lets them part, as a machine's do when
somebody sets its date.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

UTC_START_SECONDS = 1_700_000_000


@dataclass(slots=True)
class Timer:
    """A call that is due at a time; equal times run in the order they were asked for."""

    when_ms: int
    callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Do not call; allowed at any time."""
        self.callback = None


class SimClock:
    """Monotonic and UTC time, and the timers that wait for it."""

    def __init__(self, *, now_ms: int = 0, utc_seconds: int = UTC_START_SECONDS) -> None:
        self._now_ms = now_ms
        self._utc_offset_ms = utc_seconds * 1000 - now_ms
        self._timers: list[tuple[int, int, Timer]] = []
        self._number = 0

    @property
    def now_ms(self) -> int:
        """Monotonic milliseconds; never goes back."""
        return self._now_ms

    @property
    def utc_seconds(self) -> int:
        """Seconds since 1970 by this machine's clock."""
        return (self._now_ms + self._utc_offset_ms) // 1000

    def step_utc(self, seconds: int) -> None:
        """Set the date forwards or (negative) backwards; the monotonic clock stays."""
        self._utc_offset_ms += seconds * 1000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> Timer:
        """Call when the monotonic clock gets there; a time that has passed is due at once."""
        self._number += 1
        timer = Timer(max(when_ms, self._now_ms), callback)
        heapq.heappush(self._timers, (timer.when_ms, self._number, timer))
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call after this many milliseconds."""
        return self.call_at(self._now_ms + delay_ms, callback)

    def next_timer_ms(self) -> int | None:
        """When the next timer is due."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def run_next(self) -> bool:
        """Go on to the next timer and call it; False if there is none."""
        if self.next_timer_ms() is None:
            return False
        _, _, timer = heapq.heappop(self._timers)
        self._now_ms = timer.when_ms
        callback, timer.callback = timer.callback, None
        assert callback is not None
        callback()
        return True

    def advance(self, ms: int) -> None:
        """Go on by this many milliseconds; timers on the way are called at their own time."""
        self.advance_to(self._now_ms + ms)

    def advance_to(self, when_ms: int) -> None:
        """Go on to a time that is not in the past."""
        assert when_ms >= self._now_ms, (when_ms, self._now_ms)
        while (due_ms := self.next_timer_ms()) is not None and due_ms <= when_ms:
            self.run_next()
        self._now_ms = max(self._now_ms, when_ms)
