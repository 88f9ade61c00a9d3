"""A look at the user messages of a chunk, [MS-MQQB] 3.1.5.1.3: up to the first bad one."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.close_reasons import OTHER_PROTOCOL, Breach
from posthouse.wire.packet.glance import RECOVERABLE, Glance, glance_all, require_properties
from posthouse.wire.packet.headers import OVER_HTTP


class Looks(NamedTuple):
    """What was seen of messages, how many of them are recoverable, and what is wrong after them."""

    seen: list[Glance]
    recoverable: int
    error: RemoteProtocolError | None


def look_at(packets: list[bytes]) -> Looks:
    """Looks at the packets up to the first that is malformed or of another protocol."""
    seen: list[Glance] = []
    error: RemoteProtocolError | None = None
    try:
        glance_all(packets, seen, _check)
    except RemoteProtocolError as bad:
        error = bad
    return Looks(seen, recoverable_in(seen), error)


def _check(look: Glance) -> None:
    if look.user_flags & OVER_HTTP:
        raise Breach(OTHER_PROTOCOL)
    require_properties(look)


def recoverable_in(seen: list[Glance]) -> int:
    """How many messages are recoverable."""
    return sum([look.user_flags & RECOVERABLE for look in seen]) // RECOVERABLE
