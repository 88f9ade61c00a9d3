"""The space that messages of one call take before they are there."""

from __future__ import annotations

from posthouse.engine.queues.queue import Queue


class Room:
    """What the messages of one batch take: each is admitted with those before it counted."""

    __slots__ = ("bytes", "bytes_of")

    def __init__(self) -> None:
        self.bytes = 0
        self.bytes_of: dict[int, int] = {}  # by the number of the queue

    def of(self, queue: Queue) -> int:
        """What they take in one queue."""
        return self.bytes_of.get(queue.number, 0)

    def take(self, queue: Queue, size: int) -> None:
        """One more message of the batch has been admitted."""
        self.bytes += size
        self.bytes_of[queue.number] = self.bytes_of.get(queue.number, 0) + size
