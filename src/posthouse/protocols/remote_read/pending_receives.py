"""Receives that were begun and not ended ([MS-MQRR] 3.1.1.2-3), and timers of one length each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.remote_reads import return_message
from posthouse.model.errors import InsufficientResources, InvalidParameter

if TYPE_CHECKING:
    from posthouse.protocols.remote_read.open_queues import QueueContext

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


class PendingRequestEntry:
    """A receive of one client: [MS-MQRR] 3.1.1.2."""

    __slots__ = ("due_ms", "lookup_id", "queue", "request_id", "time_stamp")

    def __init__(self, queue: QueueContext, request_id: int, now_ms: int) -> None:
        self.queue = queue
        self.request_id = request_id
        self.lookup_id = 0  # until a message was read for it
        self.time_stamp = now_ms & 0xFFFFFFFF
        self.due_ms = 0  # of its cleanup timer

    def clean_up(self, manager: QueueManager) -> None:
        """3.1.5.1: it was not ended in time; its reader may have used it."""
        return_message(manager, self.queue.descriptor, self.lookup_id, in_doubt=True)


class PendingRequestTable:
    """All entries, by handle and request identifier ([MS-MQRR] 3.1.1.3), with cleanup timers.

    Decision 91: the timer starts when the message is locked, so that a client that waits long does
    not lose what it has just got.
    """

    __slots__ = ("count", "per_handle_max", "timers")

    def __init__(self, cleanup_ms: int, per_handle_max: int, wake: Callable[[int], None]) -> None:
        self.count = 0
        self.per_handle_max = per_handle_max
        self.timers: CallTimers[PendingRequestEntry] = CallTimers(cleanup_ms, wake)

    def add(self, entry: PendingRequestEntry) -> None:
        """Takes an entry in; its request identifier is not free again before it is removed."""
        queue = entry.queue
        pending, request_id = queue.pending, entry.request_id
        if request_id in pending or request_id in queue.waits:
            raise InvalidParameter(f"the request {request_id} of this queue has not ended yet")
        if len(pending) >= self.per_handle_max:
            raise InsufficientResources(
                "too many messages were received and not ended", "End some of them first."
            )
        pending[request_id] = entry
        self.count += 1

    def locked(self, entry: PendingRequestEntry, lookup_id: int, now_ms: int) -> None:
        """A message was read for it."""
        entry.lookup_id = lookup_id
        self.timers.start(entry, now_ms)

    def remove(self, entry: PendingRequestEntry) -> bool:
        """The entry is done with, its timer stopped; False: it was already."""
        pending = entry.queue.pending
        if pending.get(entry.request_id) is not entry:
            return False
        del pending[entry.request_id]
        self.count -= 1
        self.timers.stop(entry)
        return True

    def remove_all(self, queue: QueueContext) -> list[PendingRequestEntry]:
        """The entries of a handle that is closed or run down."""
        entries = list(queue.pending.values())
        for entry in entries:
            self.remove(entry)
        return entries

    def take_due(self, now_ms: int) -> list[PendingRequestEntry]:
        """Entries whose cleanup timer has run out; they are in the table no more."""
        due = self.timers.take_due(now_ms)
        for entry in due:
            self.remove(entry)
        return due
