"""The reasons that close a session, [MS-MQQB] 3.1.5.1."""

from __future__ import annotations

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.ack_window import TooManyAcknowledged

# Why a session is broken off; `Host.refused` counts them.
MALFORMED = "malformed packet"
UNEXPECTED = "packet not expected in this state"
MISCOUNTED = "message counts differ"
TOO_MANY_ACKNOWLEDGED = "acknowledgment of what was not sent"
WINDOW_OVERRUN = "window overrun"
OTHER_PROTOCOL = "message of another protocol"
REFUSED_BY_PEER = "refused by the peer"
WRONG_GUID = "meant for another queue manager"
OWN_GUID = "it claims to be this queue manager, or none"
LIMIT = "too many sessions"
SILENT = "the peer did not answer in time"
NOT_TAKEN = "messages not taken in"
NOT_SENT = "messages not given out"


class Breach(RemoteProtocolError):
    """A packet that closes its session; `reason` is what it is counted under."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def reason_of(error: RemoteProtocolError) -> str:
    """What an error is counted under."""
    if isinstance(error, Breach):
        return error.reason
    return TOO_MANY_ACKNOWLEDGED if isinstance(error, TooManyAcknowledged) else MALFORMED
