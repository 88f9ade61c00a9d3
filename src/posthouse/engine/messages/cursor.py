"""The cursor: [MS-MQDMPR] 3.2, its states and its moves, as a table.

A cursor keeps a sort key, not a pointer: what it stands on may be gone, its place is not.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.model.errors import IllegalCursorAction
from posthouse.model.transitions import Row, StateMachine

if TYPE_CHECKING:
    from posthouse.engine.queues.open_queues import OpenQueueDescriptor


class CursorState(Enum):
    """[MS-MQDMPR] 3.2.1.2."""

    UNREAD = "unread"
    READ = "read"
    WAIT_PEEK = "wait_peek"
    WAIT_RECEIVE = "wait_receive"


class CursorEvent(Enum):
    """What can happen to a cursor (3.2.7), split by its outcome."""

    PEEKED = "peeked"
    PEEK_WAITS = "peek_waits"
    NEXT_PEEKED = "next_peeked"
    NEXT_PEEK_WAITS = "next_peek_waits"
    DEQUEUED = "dequeued"
    DEQUEUE_WAITS = "dequeue_waits"
    MESSAGE_AVAILABLE = "message_available"
    WAIT_TIME_EXPIRED = "wait_time_expired"


_UNREAD, _READ = CursorState.UNREAD, CursorState.READ
_WAIT_PEEK, _WAIT_RECEIVE = CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE

# What is not in this table is MQ_ERROR_ILLEGAL_CURSOR_ACTION.
CURSOR_STATES: Final = StateMachine(
    "cursor",
    _UNREAD,
    [
        Row((_UNREAD, _READ), CursorEvent.PEEKED, _READ, "3.2.7.2: a message is there"),
        Row((_UNREAD,), CursorEvent.PEEK_WAITS, _WAIT_PEEK, "3.2.7.2: none is there yet"),
        Row((_READ,), CursorEvent.NEXT_PEEKED, _READ, "3.2.7.3: the next one is there"),
        Row((_READ,), CursorEvent.NEXT_PEEK_WAITS, _WAIT_PEEK, "3.2.7.3: none is there yet"),
        Row((_UNREAD, _READ), CursorEvent.DEQUEUED, _UNREAD, "3.2.7.4: received"),
        Row((_UNREAD,), CursorEvent.DEQUEUE_WAITS, _WAIT_RECEIVE, "3.2.7.4: none is there yet"),
        Row((_WAIT_PEEK,), CursorEvent.MESSAGE_AVAILABLE, _READ, "3.2.7.5: the wait ends"),
        Row((_WAIT_RECEIVE,), CursorEvent.MESSAGE_AVAILABLE, _UNREAD, "3.2.7.5: the wait ends"),
        Row(
            (_WAIT_PEEK, _WAIT_RECEIVE),
            CursorEvent.WAIT_TIME_EXPIRED,
            _UNREAD,
            "3.2.7.6: the place stays",
        ),
    ],
)


class Cursor:
    """A place in a queue that one reader moves forward."""

    __slots__ = ("closed", "descriptor", "handle", "place", "state")

    def __init__(self, handle: int, descriptor: OpenQueueDescriptor) -> None:
        """Initialize (3.2.7.1): before the first message, unread."""
        self.handle = handle
        self.descriptor = descriptor
        self.place: QueuePosition = START
        self.state = CURSOR_STATES.first
        self.closed = False

    @property
    def waiting(self) -> bool:
        """An operation waits on it: nothing else may use it meanwhile."""
        return self.state in (_WAIT_PEEK, _WAIT_RECEIVE)

    def require(self, *allowed: CursorState) -> None:
        """MQ_ERROR_ILLEGAL_CURSOR_ACTION unless the cursor is in one of these states."""
        if self.closed or self.state not in allowed:
            state = "closed" if self.closed else self.state.value
            raise IllegalCursorAction(f"the cursor is {state}, which does not allow this")

    def advance(self, event: CursorEvent, place: QueuePosition | None = None) -> None:
        """One transition of the table, to a new place where the event has one."""
        if not CURSOR_STATES.allows(self.state, event):
            raise IllegalCursorAction(f"{event.value} is not possible while {self.state.value}")
        self.state = CURSOR_STATES.after(self.state, event)
        if place is not None:
            self.place = place
