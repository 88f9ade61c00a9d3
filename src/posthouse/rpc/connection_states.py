"""The states of a server's connection and their transitions ([MS-RPCE] 3.3.3)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


class ConnectionState(Enum):
    """How far a connection has come."""

    UNBOUND = "unbound"
    BOUND = "bound"
    ENDED = "ended"


class ConnectionEvent(Enum):
    """A PDU of the client, or the end."""

    BIND = "bind"
    REQUEST = "request"
    ALTER_CONTEXT = "alter_context"
    AUTH3 = "auth3"
    CO_CANCEL = "co_cancel"
    ORPHANED = "orphaned"
    SHUTDOWN = "shutdown"
    END = "end"


_UNBOUND, _BOUND, _ENDED = ConnectionState.UNBOUND, ConnectionState.BOUND, ConnectionState.ENDED

# A PDU that the table does not have for a state is a protocol error: a fault, or a bind_nak for a
# second bind, and the end.
CONNECTION_STATES: Final = StateMachine(
    "RPC connection",
    _UNBOUND,
    [
        Row((_UNBOUND,), ConnectionEvent.BIND, _BOUND, "C706 12.6.4.3: bind_ack, an association"),
        Row((_BOUND,), ConnectionEvent.REQUEST, _BOUND, "C706 12.6.4.9: a call, or part of one"),
        Row((_BOUND,), ConnectionEvent.ALTER_CONTEXT, _BOUND, "C706 12.6.4.1: its response"),
        Row((_BOUND,), ConnectionEvent.AUTH3, _BOUND, "[MS-RPCE] 2.2.2.5: no answer"),
        Row((_BOUND,), ConnectionEvent.CO_CANCEL, _BOUND, "C706 12.6.4.6: the call may end early"),
        Row((_BOUND,), ConnectionEvent.ORPHANED, _BOUND, "C706 12.6.4.8: the call is forgotten"),
        Row((_BOUND,), ConnectionEvent.SHUTDOWN, _BOUND, "C706 12.6.4.11: asks for nothing"),
        Row(
            tuple(ConnectionState),
            ConnectionEvent.END,
            _ENDED,
            "refused, a protocol error, idle, we stop, or the connection is lost",
        ),
    ],
)
