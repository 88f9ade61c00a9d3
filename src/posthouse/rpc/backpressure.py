"""Backpressure: senders of large answers wait until the client has read enough."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from posthouse.rpc.interface import BACKLOG_MAX


def _nothing_is_left() -> int:
    return 0


class Drains:
    """Who waits at one connection; each is called back once, in turn.

    What one of them sends may be taken at once and lead back here: the next is called by the first
    look, not by one within another, or many would go as deep as there are.
    """

    __slots__ = ("_backlog", "_failed", "_is_looking", "_is_over", "_waiting")

    def __init__(self, backlog: Callable[[], int], failed: Callable[[Exception], None]) -> None:
        self._backlog = backlog
        self._failed = failed
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_looking = False
        self._is_over = False

    def add(self, callback: Callable[[], None]) -> None:
        """One more; it may be its turn at once."""
        self._waiting.append(callback)
        self.look()

    def look(self) -> None:
        """Calls them as long as the backlog is small."""
        if self._is_looking:
            return
        self._is_looking = True
        while self._waiting and (self._is_over or self._backlog() <= BACKLOG_MAX):
            try:
                self._waiting.popleft()()
            except Exception as error:
                self._failed(error)
        self._is_looking = False

    def end(self) -> None:
        """The client is gone: calls all that wait."""
        self._is_over = True
        self._backlog = _nothing_is_left  # lets go of the connection, or both stay as a circle
        self.look()
