"""Timers of one length each, for calls and for receives that were begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

STALE_MAX: Final = 1024  # stopped timers that may lie about between running ones


class CallTimer(Protocol):
    """What has such a timer: when it is due, or 0 while it does not run."""

    due_ms: int


T = TypeVar("T", bound=CallTimer)


class CallTimers(Generic[T]):
    """Timers of one duration, so that they are due in the order in which they started.

    `wake` is called with the time of the first one, and after `take_due` with that of the next.
    """

    __slots__ = ("_queue", "_wake", "_woken", "duration_ms", "running")

    def __init__(self, duration_ms: int, wake: Callable[[int], None]) -> None:
        assert duration_ms > 0
        self.duration_ms = duration_ms
        self.running = 0
        self._wake = wake
        self._woken = False
        self._queue: deque[tuple[int, T]] = deque()

    def start(self, owner: T, now_ms: int) -> None:
        """The owner's timer runs from now on."""
        assert not owner.due_ms
        due_ms = owner.due_ms = now_ms + self.duration_ms
        self.running += 1
        self._queue.append((due_ms, owner))
        if not self._woken:
            self._woken = True
            self._wake(due_ms)

    def stop(self, owner: T) -> None:
        """It no longer runs, if it did."""
        if owner.due_ms:
            owner.due_ms = 0
            self.running -= 1
            self._drop_stopped()

    def _drop_stopped(self) -> None:
        queue = self._queue
        while queue and queue[0][1].due_ms != queue[0][0]:
            queue.popleft()
        if len(queue) > 2 * self.running + STALE_MAX:
            self._queue = deque(entry for entry in queue if entry[1].due_ms == entry[0])

    def take_due(self, now_ms: int) -> list[T]:
        """Those whose time has come; their timers are stopped."""
        due: list[T] = []
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            due_ms, owner = queue.popleft()
            if owner.due_ms == due_ms:
                owner.due_ms = 0
                self.running -= 1
                due.append(owner)
        self._drop_stopped()
        self._woken = bool(self._queue)
        if self._woken:
            self._wake(self._queue[0][0])
        return due
