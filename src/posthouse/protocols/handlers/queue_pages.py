"""Pages of the queue list, made in steps, since there may be very many queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.protocols.handlers.request_steps import Steps, looked_at

T = TypeVar("T")
STEP_QUEUES: Final = 100  # that one step describes
STEP_LOOKS: Final = 2_000  # that it looks at


class QueuePage(NamedTuple, Generic[T]):
    """Queues as they are shown, and the number of the last where there are more."""

    shown: list[T]
    next: int | None


def paged(
    after: int,
    limit: int,
    wanted: Callable[[QueueManager, Queue], bool],
    show: Callable[[QueueManager, Queue], T],
) -> Steps[QueuePage[T]]:
    """The queues with numbers above one, in their order, up to a page of those that are wanted."""
    shown: list[T] = []
    last = after
    numbers = yield from looked_at(
        lambda manager: [queue.number for queue in manager.queues.all() if queue.number > after]
    )
    at = 0

    def look(manager: QueueManager) -> bool:
        """One step; True: there is one more than the page takes."""
        nonlocal at, last
        described = 0
        for number in numbers[at : at + STEP_LOOKS]:
            queue = manager.queues.get(number)
            if described >= STEP_QUEUES:
                return False
            at += 1
            if queue is None or queue.deleted or not wanted(manager, queue):
                continue
            if len(shown) >= limit:
                return True
            shown.append(show(manager, queue))
            described, last = described + 1, number
        return False

    while at < len(numbers):
        if (yield from looked_at(look)):
            return QueuePage(shown, last)
    return QueuePage(shown, None)
