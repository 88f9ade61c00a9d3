"""The states of a link over HTTP and their transitions, [MC-MQSRM] 3.1.7.7-9."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


class SrmpLinkState(Enum):
    """How far a link has come (3.1.7.9)."""

    IDLE = "idle"
    RESOLVING = "resolving"
    CONNECTING = "connecting"
    OPEN = "open"
    WAITING = "waiting to retransmit"


class SrmpLinkEvent(Enum):
    """What happens to a link."""

    BEGIN = "begin"
    CONNECT = "connect"
    CONNECTED = "connected"
    CLOSED = "closed"
    FAIL = "fail"
    REST = "rest"


_IDLE, _RESOLVING = SrmpLinkState.IDLE, SrmpLinkState.RESOLVING
_CONNECTING, _OPEN, _WAITING = SrmpLinkState.CONNECTING, SrmpLinkState.OPEN, SrmpLinkState.WAITING

LINK_STATES: Final = StateMachine(
    "SRMP link",
    _IDLE,
    [
        Row(
            (_IDLE, _WAITING),
            SrmpLinkEvent.BEGIN,
            _RESOLVING,
            "3.1.7.7, 3.1.6.1: messages wait, or the Retransmission Timer is due",
        ),
        Row(
            (_RESOLVING, _CONNECTING),
            SrmpLinkEvent.CONNECT,
            _CONNECTING,
            "3.1.7.9: an address of the host; after a failure the next one",
        ),
        Row((_CONNECTING,), SrmpLinkEvent.CONNECTED, _OPEN, "3.1.7.9: the queue is Connected"),
        Row((_OPEN,), SrmpLinkEvent.CLOSED, _IDLE, "3.1.6.4: idle, closed by either end"),
        Row(
            (_RESOLVING, _CONNECTING, _OPEN),
            SrmpLinkEvent.FAIL,
            _WAITING,
            "3.1.7.1, 3.1.7.2.5: no address, no connection, lost, or an answer that fails",
        ),
        Row(tuple(SrmpLinkState), SrmpLinkEvent.REST, _IDLE, "3.1.7.4: paused, offline or empty"),
    ],
)
