"""DispatchCollection: what is to be sent next ([MS-MQDMPR] 3.1.1.18, 3.1.7.1.28-29, .34).

The document has one collection with one send at a time for the whole machine. Each outgoing queue
has a dispatcher of its own here, so that a stalled destination stops nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from posthouse.engine.queue import Queue


class DispatchEntry:
    """[MS-MQDMPR] 3.1.1.18."""

    __slots__ = ("number", "priority", "protocol_data", "queue", "send_in_progress")

    def __init__(self, queue: int, number: int, priority: int, protocol_data: object) -> None:
        self.queue = queue
        self.number = number
        self.priority = priority
        self.protocol_data = protocol_data
        self.send_in_progress = False

    @property
    def over_binary(self) -> bool:
        """Entries with protocol data go out over the binary protocol, the others over SRMP."""
        return self.protocol_data is not None


class Dispatcher:
    """The entries of one outgoing queue, the highest priority first, then the oldest."""

    __slots__ = ("_heap", "_orders", "entries", "sending")

    def __init__(self) -> None:
        self.entries: dict[int, DispatchEntry] = {}
        self.sending: DispatchEntry | None = None
        self._heap: list[tuple[int, int, DispatchEntry]] = []
        self._orders = 0

    def add(self, entry: DispatchEntry) -> None:
        """Puts an entry in line, unless its message is there already."""
        if entry.number not in self.entries:
            self.entries[entry.number] = entry
            self._push(entry)

    def _push(self, entry: DispatchEntry) -> None:
        self._orders += 1
        heappush(self._heap, (-entry.priority, self._orders, entry))

    def remove(self, number: int) -> None:
        """Takes an entry out, also one that is being sent; harmless if there is none."""
        if self.entries.pop(number, None) is self.sending:
            self.sending = None

    def next(self, sendable: Callable[[int], bool | None]) -> DispatchEntry | None:
        """Chooses and marks in one step; None while something is being sent, or nothing can be.

        `sendable` tells of a message: True, False for not now, None when it is gone.
        """
        if self.sending is not None:
            return None
        later: list[tuple[int, int, DispatchEntry]] = []
        chosen: DispatchEntry | None = None
        while self._heap and chosen is None:
            item = heappop(self._heap)
            entry = item[2]
            if self.entries.get(entry.number) is not entry:
                continue  # removed since
            answer = sendable(entry.number)
            if answer is None:
                del self.entries[entry.number]
                continue
            later.append(item)
            chosen = entry if answer else None
        for item in later:
            heappush(self._heap, item)
        if chosen is not None:
            chosen.send_in_progress = True
            self.sending = chosen
        return chosen

    def finished(self, number: int, *, sent: bool) -> None:
        """A send ended: out of the line when it went, in its old place when it did not."""
        entry = self.entries.get(number)
        if entry is None:
            return
        entry.send_in_progress = False
        if entry is self.sending:
            self.sending = None
        if sent:
            self.remove(number)


class DispatchCollection:
    """The dispatchers of all outgoing queues."""

    def __init__(self) -> None:
        self._dispatchers: dict[int, Dispatcher] = {}

    def add(self, queue: Queue, number: int, priority: int, protocol_data: object) -> None:
        """Add Message To Dispatch Collection (3.1.7.1.28)."""
        dispatcher = self._dispatchers.get(queue.number)
        if dispatcher is None:
            dispatcher = self._dispatchers[queue.number] = Dispatcher()
        priority += queue.definition.base_priority
        dispatcher.add(DispatchEntry(queue.number, number, priority, protocol_data))

    def remove(self, queue: Queue, number: int) -> None:
        """Remove Message From Dispatch Collection (3.1.7.1.29); harmless if it is not there."""
        dispatcher = self._dispatchers.get(queue.number)
        if dispatcher is not None:
            dispatcher.remove(number)

    def remove_queue(self, queue: Queue) -> None:
        """Remove Messages From Dispatch Collection By Queue (3.1.7.1.34)."""
        self._dispatchers.pop(queue.number, None)

    def next(self, queue: Queue, sendable: Callable[[int], bool | None]) -> DispatchEntry | None:
        """Dispatch Send Message (3.1.7.3.9) for one queue."""
        dispatcher = self._dispatchers.get(queue.number)
        return None if dispatcher is None else dispatcher.next(sendable)

    def finished(self, queue: Queue, number: int, *, sent: bool) -> None:
        """A send ended."""
        dispatcher = self._dispatchers.get(queue.number)
        if dispatcher is not None:
            dispatcher.finished(number, sent=sent)

    def entries(self, queue: Queue) -> list[DispatchEntry]:
        """What is in line for a queue."""
        dispatcher = self._dispatchers.get(queue.number)
        return [] if dispatcher is None else list(dispatcher.entries.values())

    def __len__(self) -> int:
        return sum(len(dispatcher.entries) for dispatcher in self._dispatchers.values())
