"""The states of a cursor and their transitions, as a table ([MS-MQDMPR] 3.2).

A cursor keeps a sort key, not a pointer: what it stands on may be gone, its place is not.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


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
