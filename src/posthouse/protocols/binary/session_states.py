"""The states of a session and their transitions, [MS-MQQB] 3.1.1.3.1, 3.1.5."""

from __future__ import annotations

from enum import Enum
from typing import Final

from posthouse.model.transitions import Row, StateMachine


class SessionState(Enum):
    """SessionState, [MS-MQQB] 3.1.1.3.1. A link without a session is in WAITING_RECONNECT."""

    WAITING_EC_MSG = "WAITING_EC_MSG"
    WAITING_ECR_MSG = "WAITING_ECR_MSG"
    WAITING_CP_MSG = "WAITING_CP_MSG"
    WAITING_CPR_MSG = "WAITING_CPR_MSG"
    OPEN = "OPEN"
    CLOSED = "CLOSED"
    WAITING_RECONNECT = "WAITING_RECONNECT"


class SessionEvent(Enum):
    """What happens to a session."""

    CONNECTED = "we connected"
    ESTABLISH_CONNECTION = "EstablishConnection"
    CONNECTION_PARAMETERS = "ConnectionParameters"
    SESSION_ACK = "SessionAck"
    USER_MESSAGE = "UserMessage"
    CLOSE = "close"


_EC, _ECR = SessionState.WAITING_EC_MSG, SessionState.WAITING_ECR_MSG
_CP, _CPR = SessionState.WAITING_CP_MSG, SessionState.WAITING_CPR_MSG
_OPEN, _CLOSED = SessionState.OPEN, SessionState.CLOSED

# A packet that the table does not have for a state closes the session (3.1.5.1.3).
SESSION_STATES: Final = StateMachine(
    "binary session",
    _EC,
    [
        Row((_EC,), SessionEvent.CONNECTED, _ECR, "3.1.5.2.3: send EstablishConnection"),
        Row((_EC,), SessionEvent.ESTABLISH_CONNECTION, _CP, "3.1.5.3.1: answer with our own"),
        Row((_ECR,), SessionEvent.ESTABLISH_CONNECTION, _CPR, "3.1.5.3.2: send ours"),
        Row((_CP,), SessionEvent.CONNECTION_PARAMETERS, _OPEN, "3.1.5.4.1: answer with our own"),
        Row((_CPR,), SessionEvent.CONNECTION_PARAMETERS, _OPEN, "3.1.5.4.2: keep the window"),
        Row((_OPEN,), SessionEvent.SESSION_ACK, _OPEN, "3.1.5.5: messages are acknowledged"),
        Row((_OPEN,), SessionEvent.USER_MESSAGE, _OPEN, "3.1.5.8: counted, handed to the engine"),
        Row(
            (_EC, _ECR, _CP, _CPR, _OPEN),
            SessionEvent.CLOSE,
            _CLOSED,
            "3.1.5.9: refused, silent, idle, an error, or the connection is lost",
        ),
    ],
)
