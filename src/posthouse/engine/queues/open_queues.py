"""Open queues, and reads that wait in them ([MS-MQDMPR] 3.1.1.10, 3.1.1.16, 3.1.1.17)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from posthouse.model.errors import QueueNotAvailable
from posthouse.model.properties import QueueAccessType as QueueAccessType
from posthouse.model.properties import QueueShareMode as QueueShareMode
from posthouse.security.access import Caller

if TYPE_CHECKING:
    from posthouse.engine.messages.cursor import Cursor
    from posthouse.engine.queues.queue import Queue
    from posthouse.engine.transactions.transaction import Transaction


RECEIVING = frozenset({QueueAccessType.RECEIVE, QueueAccessType.RECEIVE_ADMIN})
PEEKING = frozenset({QueueAccessType.PEEK, QueueAccessType.PEEK_ADMIN})
ADMIN = frozenset({QueueAccessType.RECEIVE_ADMIN, QueueAccessType.PEEK_ADMIN})


class OpenQueueDescriptor:
    """A queue opened by somebody for something. `queue` is None once the queue is deleted."""

    __slots__ = (
        "access",
        "association",
        "caller",
        "checked",
        "context",
        "cursors",
        "format_name",
        "handle",
        "held",
        "nested",
        "queue",
        "share",
        "waiting",
    )

    def __init__(
        self,
        handle: int,
        context: int,
        queue: Queue | None,
        access: QueueAccessType,
        share: QueueShareMode,
        format_name: str,
        caller: Caller,
        association: object,
    ) -> None:
        self.handle = handle
        self.context = context  # unguessable: the move context of remote readers
        self.queue = queue
        self.access = access
        self.share = share
        self.format_name = format_name
        self.caller = caller
        self.association = association
        self.nested: tuple[OpenQueueDescriptor, ...] = ()
        self.cursors: dict[int, Cursor] = {}
        self.waiting: dict[int, WaitingMessageReadOperation] = {}
        self.held: set[int] = set()  # messages it has read and not ended
        self.checked = -1  # the rights version it was last checked for

    def target(self) -> Queue:
        """The queue, or MQ_ERROR_QUEUE_NOT_AVAILABLE once it is gone."""
        if self.queue is None:
            raise QueueNotAvailable(
                f"the queue {self.format_name} has been deleted or closed",
                "Open the queue again, if it still exists.",
            )
        return self.queue


class WaitingMessageReadOperation:
    """[MS-MQDMPR] 3.1.1.10: a read that waits for a message."""

    __slots__ = (
        "count",
        "cursor",
        "deadline_ms",
        "descriptor",
        "destructive",
        "order",
        "queue",
        "tag",
        "token",
        "transaction",
        "two_phase",
    )

    def __init__(
        self,
        order: int,
        queue: Queue,
        descriptor: OpenQueueDescriptor,
        *,
        destructive: bool,
        token: object,
        tag: Hashable,
        deadline_ms: int | None,
        cursor: Cursor | None,
        transaction: Transaction | None,
        two_phase: bool,
        count: int = 1,
    ) -> None:
        self.count = count  # this many messages at most, of those that are there when it is served
        self.order = order
        self.queue = queue
        self.descriptor = descriptor
        self.destructive = destructive
        self.token = token
        self.tag = tag
        self.deadline_ms = deadline_ms
        self.cursor = cursor
        self.transaction = transaction
        self.two_phase = two_phase

    @property
    def access(self) -> QueueAccessType:
        """What the read needs of its descriptor."""
        return QueueAccessType.RECEIVE if self.destructive else QueueAccessType.PEEK
