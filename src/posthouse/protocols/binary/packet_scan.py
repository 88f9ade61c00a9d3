"""A look at the user messages of a chunk, [MS-MQQB] 3.1.5.1.3: up to the first bad one.

The messages that a queue manager sends in a row are mostly alike: same size, same names, same
label. They differ in MessageID and, if they are transactional, in their place in the sequence; a
look at one of them is then nearly a look at the next.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.binary.close_reasons import OTHER_PROTOCOL, Breach
from posthouse.wire.packet.glance import (
    RECOVERABLE,
    Glance,
    body_is_longer,
    glance,
    require_properties,
)
from posthouse.wire.packet.headers import OVER_HTTP

ORDINAL = struct.Struct("<56xI")
ORDINAL_AT, ORDINAL_END = 56, 60
BEFORE_ORDINAL = Glance._fields.index("ordinal")
NUMBERS_AT, NUMBERS_END = 12, 20  # TxSequenceNumber and the previous one, in a TransactionHeader


class Looks(NamedTuple):
    """What was seen of messages, how many of them are recoverable, and what is wrong after them."""

    seen: list[Glance]
    recoverable: int
    error: RemoteProtocolError | None


class _Pattern:
    """What the next packet has to have in common with this one."""

    __slots__ = ("after", "before", "front", "middle", "rest", "rest_at", "size")

    def __init__(self, packet: bytes, seen: Glance) -> None:
        # A body that is longer than it says ends where the bytes after it tell.
        self.size = -1 if body_is_longer(packet, seen) else len(packet)
        at = seen.transaction_at
        end, self.rest_at = (at + NUMBERS_AT, at + NUMBERS_END) if at else (seen.body_at,) * 2
        self.front = packet[:ORDINAL_AT]
        self.middle = packet[ORDINAL_END:end]
        self.rest = packet[self.rest_at : seen.body_at]
        self.before, self.after = seen[:BEFORE_ORDINAL], seen[BEFORE_ORDINAL + 1 :]


def look_at(packets: list[bytes]) -> Looks:
    """Looks at the packets up to the first that is malformed or of another protocol."""
    seen: list[Glance] = []
    try:
        return Looks(seen, _look(packets, seen), None)
    except RemoteProtocolError as error:
        return Looks(seen, recoverable_in(seen), error)


def _look(packets: list[bytes], seen: list[Glance]) -> int:
    """Adds what it sees; returns how many of all messages are recoverable."""
    recoverable = mark = 0
    size, front, middle, rest, rest_at = -1, b"", b"", b"", 0
    before: tuple[object, ...] = ()
    after: tuple[object, ...] = ()
    new, ordinal, append = tuple.__new__, ORDINAL.unpack_from, seen.append
    for packet in packets:
        if (
            len(packet) == size
            and packet.startswith(front)
            and packet.startswith(middle, ORDINAL_END)
            and packet.startswith(rest, rest_at)
        ):
            append(new(Glance, (*before, *ordinal(packet), *after)))
        else:
            look = glance(packet)
            if look.user_flags & OVER_HTTP:
                raise Breach(OTHER_PROTOCOL)
            require_properties(look)
            append(look)
            pattern = _Pattern(packet, look)
            size, front, middle, rest = pattern.size, pattern.front, pattern.middle, pattern.rest
            rest_at, before, after = pattern.rest_at, pattern.before, pattern.after
            mark = look.user_flags // RECOVERABLE & 1
        recoverable += mark
    return recoverable


def recoverable_in(seen: list[Glance]) -> int:
    """How many messages are recoverable."""
    return sum([look.user_flags & RECOVERABLE for look in seen]) // RECOVERABLE
