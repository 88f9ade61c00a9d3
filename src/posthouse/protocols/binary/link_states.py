"""The states of a link and what leads from one to the next, [MS-MQQB] 3.1.5.2, 3.1.5.9, 3.1.6.1."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


class LinkState(Enum):
    """How far a link has come (3.1.5.2)."""

    IDLE = "idle"
    RESOLVING = "resolving"
    PINGING = "pinging"
    CONNECTING = "connecting"
    OPENING = "opening"
    OPEN = "open"
    WAITING_RECONNECT = "waiting to reconnect"


class LinkEvent(Enum):
    """What happens to a link."""

    BEGIN = "begin"
    PING = "ping"
    CONNECT = "connect"
    CONNECTED = "connected"
    OPENED = "session open"
    WAIT = "wait"
    END = "end"


_IDLE, _RESOLVING, _PINGING = LinkState.IDLE, LinkState.RESOLVING, LinkState.PINGING
_CONNECTING, _OPENING, _OPEN = LinkState.CONNECTING, LinkState.OPENING, LinkState.OPEN
_WAITING = LinkState.WAITING_RECONNECT

LINK_STATES: Final = StateMachine(
    "binary link",
    _IDLE,
    [
        Row(
            (_IDLE, _WAITING),
            LinkEvent.BEGIN,
            _RESOLVING,
            "3.1.5.2.1: messages wait; the timer, an operator, the directory or the peer calls",
        ),
        Row((_RESOLVING,), LinkEvent.PING, _PINGING, "3.1.5.2.2: not for a retry"),
        Row((_RESOLVING, _PINGING), LinkEvent.CONNECT, _CONNECTING, "2.1.1: a next hop is known"),
        Row((_CONNECTING,), LinkEvent.CONNECTED, _OPENING, "3.1.5.2.3: the session begins"),
        Row((_OPENING,), LinkEvent.OPENED, _OPEN, "3.1.5.4.2: the queues are Connected"),
        Row(
            tuple(LinkState),
            LinkEvent.WAIT,
            _WAITING,
            "3.1.5.9: it failed or closed and messages are left, or only answers are awaited",
        ),
        Row(tuple(LinkState), LinkEvent.END, _IDLE, "3.1.5.9: no queue needs it"),
    ],
)
