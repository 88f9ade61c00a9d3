"""The states of a link and their transitions, [MS-MQQB] 3.1.5.2, 3.1.5.9, 3.1.6.1."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


class BinaryLinkState(Enum):
    """How far a link has come (3.1.5.2)."""

    IDLE = "idle"
    RESOLVING = "resolving"
    PINGING = "pinging"
    CONNECTING = "connecting"
    OPENING = "opening"
    OPEN = "open"
    WAITING_RECONNECT = "waiting to reconnect"


class BinaryLinkEvent(Enum):
    """What happens to a link."""

    BEGIN = "begin"
    PING = "ping"
    CONNECT = "connect"
    CONNECTED = "connected"
    OPENED = "session open"
    WAIT = "wait"
    END = "end"


_IDLE, _RESOLVING, _PINGING = (
    BinaryLinkState.IDLE,
    BinaryLinkState.RESOLVING,
    BinaryLinkState.PINGING,
)
_CONNECTING, _OPENING, _OPEN = (
    BinaryLinkState.CONNECTING,
    BinaryLinkState.OPENING,
    BinaryLinkState.OPEN,
)
_WAITING = BinaryLinkState.WAITING_RECONNECT

LINK_STATES: Final = StateMachine(
    "binary link",
    _IDLE,
    [
        Row(
            (_IDLE, _WAITING),
            BinaryLinkEvent.BEGIN,
            _RESOLVING,
            "3.1.5.2.1: messages wait; the timer, an operator, the directory or the peer calls",
        ),
        Row((_RESOLVING,), BinaryLinkEvent.PING, _PINGING, "3.1.5.2.2: not for a retry"),
        Row(
            (_RESOLVING, _PINGING),
            BinaryLinkEvent.CONNECT,
            _CONNECTING,
            "2.1.1: a next hop is known",
        ),
        Row((_CONNECTING,), BinaryLinkEvent.CONNECTED, _OPENING, "3.1.5.2.3: the session begins"),
        Row((_OPENING,), BinaryLinkEvent.OPENED, _OPEN, "3.1.5.4.2: the queues are Connected"),
        Row(
            tuple(BinaryLinkState),
            BinaryLinkEvent.WAIT,
            _WAITING,
            "3.1.5.9: it failed or closed and messages are left, or only answers are awaited",
        ),
        Row(tuple(BinaryLinkState), BinaryLinkEvent.END, _IDLE, "3.1.5.9: no queue needs it"),
    ],
)
