"""Scans the user messages of a chunk up to the first bad one, [MS-MQQB] 3.1.5.1.3."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.close_reasons import OTHER_PROTOCOL, Breach
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.packet_fields import (
    RECOVERABLE,
    PacketSummary,
    require_properties,
    summarize_alike,
)


class Looks(NamedTuple):
    """What was seen of messages, how many of them are recoverable, and what is wrong after them."""

    seen: list[PacketSummary]
    recoverable: int
    error: RemoteProtocolError | None


def look_at(packets: list[bytes]) -> Looks:
    """Looks at the packets up to the first that is malformed or of another protocol.

    Neighbours that are alike share what was seen, with the ordinal of the first.
    """
    seen: list[PacketSummary] = []
    error: RemoteProtocolError | None = None
    try:
        summarize_alike(packets, seen, _check)
    except RemoteProtocolError as bad:
        error = bad
    return Looks(seen, recoverable_in(seen), error)


def _check(look: PacketSummary) -> None:
    if look.user_flags & OVER_HTTP:
        raise Breach(OTHER_PROTOCOL)
    require_properties(look)


def recoverable_in(seen: list[PacketSummary]) -> int:
    """How many messages are recoverable."""
    return sum([look.user_flags & RECOVERABLE for look in seen]) // RECOVERABLE
