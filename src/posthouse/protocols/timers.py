"""One heap for the timers of a protocol: of all its sessions, connections and links."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, Protocol

BROKEN_PAUSE_MS: Final = 1000  # before one whose tick has raised is ticked again


class Ticking(Protocol):
    """What has timers. A tick that comes too early, or twice, does nothing."""

    def tick(self) -> None:
        """Does what is due."""
        ...

    def next_deadline_ms(self) -> int | None:
        """When something is due again."""
        ...


class Timers:
    """Deadlines of many owners; `wake` is called with a deadline that is earlier than all others.

    Each owner is in the heap once. A deadline that has moved to later is noticed when its time
    comes, so the busiest sessions cost nothing here.
    """

    def __init__(self, wake: Callable[[int], None]) -> None:
        self._wake = wake
        self._heap: list[tuple[int, int]] = []
        self._numbers: dict[Ticking, int] = {}
        self._owners: dict[int, tuple[Ticking, int]] = {}  # with the time it stands in the heap for
        self._last = 0
        self._woken_at_ms: int | None = None

    def arm(self, owner: Ticking) -> None:
        """An owner's deadline may be earlier than it was."""
        at_ms = owner.next_deadline_ms()
        number = self._numbers.get(owner)
        if at_ms is None or (number is not None and self._owners[number][1] <= at_ms):
            return
        self._enter(owner, at_ms)
        self._arm_clock()

    def _enter(self, owner: Ticking, at_ms: int) -> None:
        self.forget(owner)
        self._last += 1
        self._numbers[owner] = self._last
        self._owners[self._last] = owner, at_ms
        heappush(self._heap, (at_ms, self._last))

    def forget(self, owner: Ticking) -> None:
        """The owner has no timers; two numbers stay of it until their time."""
        number = self._numbers.pop(owner, None)
        if number is not None:
            del self._owners[number]

    def run(self, now_ms: int) -> None:
        """Ticks everybody whose time has come, each once.

        One that breaks does not stop the clocks of the others, and is ticked again after a pause:
        it may be due for ever. What it raised is raised when all have been ticked.
        """
        self._woken_at_ms = None
        due, failure = self._take_due(now_ms), None
        for owner in due:
            try:
                owner.tick()
                self.arm(owner)
            except Exception as error:
                failure = failure or error
                self._enter(owner, now_ms + BROKEN_PAUSE_MS)
        self._arm_clock()
        if failure is not None:
            raise failure

    def _take_due(self, now_ms: int) -> list[Ticking]:
        due: list[Ticking] = []
        while self._heap and self._heap[0][0] <= now_ms:
            found = self._owners.get(heappop(self._heap)[1])
            if found is not None:
                due.append(found[0])
                self.forget(found[0])
        return due

    def next_deadline_ms(self) -> int | None:
        """When the next owner has to be told."""
        while self._heap and self._heap[0][1] not in self._owners:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _arm_clock(self) -> None:
        at_ms = self.next_deadline_ms()
        if at_ms is not None and (self._woken_at_ms is None or at_ms < self._woken_at_ms):
            self._woken_at_ms = at_ms
            self._wake(at_ms)
