"""What closes a session: why, and how to find the packets in front of it, [MS-MQQB] 3.1.5.1."""

from __future__ import annotations

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.counting import TooManyAcknowledged
from posthouse.wire.glance import Glance, glance, glance_all
from posthouse.wire.headers import UserFlags

OVER_HTTP = int(UserFlags.of(over_http=1))

# Why a session is broken off; `Host.refused` counts them.
MALFORMED = "malformed packet"
UNEXPECTED = "packet not expected in this state"
MISCOUNTED = "message counts differ"
TOO_MANY_ACKNOWLEDGED = "acknowledgment of what was not sent"
WINDOW_OVERRUN = "window overrun"
OTHER_PROTOCOL = "message of another protocol"
REFUSED_BY_PEER = "refused by the peer"
WRONG_GUID = "meant for another queue manager"
LIMIT = "too many sessions"
NOT_TAKEN = "messages not taken in"
NOT_SENT = "messages not given out"


class Breach(RemoteProtocolError):
    """A packet that closes its session; `reason` is what it is counted under."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason


def look_at(packets: list[bytes]) -> tuple[list[Glance], RemoteProtocolError | None]:
    """Looks at the packets up to the first that is malformed or none of ours, and that error."""
    try:
        seen = glance_all(packets)
        if not any(look.user_flags & OVER_HTTP for look in seen):
            return seen, None
    except RemoteProtocolError:
        pass
    return _look_singly(packets)


def _look_singly(packets: list[bytes]) -> tuple[list[Glance], RemoteProtocolError | None]:
    seen: list[Glance] = []
    try:
        for packet in packets:
            look = glance(packet)
            if look.user_flags & OVER_HTTP:
                raise Breach(OTHER_PROTOCOL)
            seen.append(look)
    except RemoteProtocolError as error:
        return seen, error
    return seen, None


def reason_of(error: RemoteProtocolError) -> str:
    """What an error is counted under."""
    if isinstance(error, Breach):
        return error.reason
    return TOO_MANY_ACKNOWLEDGED if isinstance(error, TooManyAcknowledged) else MALFORMED
