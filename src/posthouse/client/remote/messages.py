"""A message from the sections in which remote read delivers it ([MS-MQRR] 2.2.5-7, 3.2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from posthouse.client.message import Message
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_EXPRESS, FLAG_TRANSACTIONAL
from posthouse.model.errors import MalformedPacket
from posthouse.protocols.remote_read.stubs import Received, Section, SectionType
from posthouse.wire.frames.frames import Delivered
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE_HEADER,
    PACKET_SIZE_MAX,
    SecurityFlags,
)
from posthouse.wire.packet.packet_fields import (
    RECOVERABLE,
    SECURITY,
    TRANSACTION,
    PacketSummary,
    summarize,
)
from posthouse.wire.packet.remote_read import (
    Trailers,
    read_packet,
    read_trailers,
    without_trailers,
)
from posthouse.wire.packet.security_fields import security_flags
from posthouse.wire.packet.trailing_headers import BASE_TAIL, USER_TAIL
from posthouse.wire.srmp.stored_messages import stored_form

# Of all sections together; a computer that claims more does not have us make room for it.
SECTIONS_SIZE_MAX: Final = 4 * PACKET_SIZE_MAX
_AUTHENTICATED: Final = int(SecurityFlags.of(authenticated=1))
_WHOLE: Final = SectionType.FULL_PACKET
_FIRST: Final = (SectionType.BINARY_FIRST_SECTION, SectionType.SRMP_FIRST_SECTION)
_SECOND: Final = {
    SectionType.BINARY_FIRST_SECTION: SectionType.BINARY_SECOND_SECTION,
    SectionType.SRMP_FIRST_SECTION: SectionType.SRMP_SECOND_SECTION,
}


class CutMessage(Message):
    """A message of whose body only the beginning came; `body_size` is that of the whole."""

    __slots__ = ("_body_came",)

    def __init__(self, delivered: Delivered, queue: str, came: int) -> None:
        super().__init__(delivered, queue)
        self._body_came = came

    @property
    def body(self) -> bytes:
        """As much of the body as was asked for."""
        return super().body[: self._body_came]


def rebuilt(received: Received, queue: str) -> Message:
    """The message of an answer that has one; `RemoteProtocolError` where it cannot be rebuilt."""
    arrived, lookup_id, sections, _ = received
    if len(sections) == 1 and sections[0][0] == _WHOLE:
        joined, withheld = sections[0][2], 0
    else:
        joined, withheld = _joined(sections)
    message, trailers, seen, withheld = _apart(joined, len(sections[0][2]), withheld)
    delivered = Delivered(
        lookup_id,
        arrived,
        trailers.last_move,
        trailers.acknowledgement_class or seen.message_class,
        min(trailers.aborts, 0xFFFF),
        min(trailers.moves, 0xFFFF),
        seen.priority,
        _flags(message, seen),
        0,
        b"",
        message,
    )
    if not withheld:
        return Message(delivered, queue)
    return CutMessage(delivered, queue, max(seen.body_size - withheld, 0))


def _apart(packet: bytes, first: int, withheld: int) -> tuple[bytes, Trailers, PacketSummary, int]:
    """The UserMessage by itself, values of the headers after it, and how much body lacks.

    Nearly all messages end with their body: for these it is done here, and most of a queue share
    what the other computer adds to them.
    """
    if len(packet) <= PACKET_SIZE_MAX:
        seen = summarize(packet)
        if not (seen.base_flags & BASE_TAIL or seen.user_flags & USER_TAIL):
            message, rest = without_trailers(packet, seen)
            return message, _trailers(rest), seen, withheld
    message, trailers, srmp = read_packet(packet)
    if srmp is not None:  # the body is in the compound message, after its first part
        body_at = srmp.compound_at + COMPOUND_MESSAGE_HEADER.size + srmp.message_body_offset
        message = stored_form(message, summarize(message))
        withheld = min(max(body_at + srmp.message_body_size - first, 0), withheld)
    return message, trailers, summarize(message), withheld


@lru_cache(1024)
def _trailers(data: bytes) -> Trailers:
    return read_trailers(data, 0)


def _joined(sections: Sequence[Section]) -> tuple[bytes, int]:
    """2.2.6: both sections with zeros for what lies between them, and how much that is."""
    if not 1 <= len(sections) <= 2:
        raise MalformedPacket(f"a message in {len(sections)} sections")
    kind, size_alloc, first = sections[0]
    withheld = size_alloc - len(first)
    if kind not in _FIRST or withheld < 0 or size_alloc > SECTIONS_SIZE_MAX:
        raise MalformedPacket(f"a first section of type {kind} that lacks {withheld} bytes")
    second = b""
    if len(sections) == 2:
        second_kind, size, second = sections[1]
        if second_kind != _SECOND[SectionType(kind)] or size != len(second):
            raise MalformedPacket(f"a second section of type {second_kind} after one of {kind}")
    return b"".join((first, bytes(withheld), second)), withheld


def _flags(message: bytes, seen: PacketSummary) -> int:
    """What the queue manager there has, as far as the packet shows it."""
    flags = 0 if seen.user_flags & RECOVERABLE else FLAG_EXPRESS
    if seen.user_flags & TRANSACTION:
        flags |= FLAG_TRANSACTIONAL
    if seen.user_flags & SECURITY and security_flags(message, seen) & _AUTHENTICATED:
        flags |= FLAG_AUTHENTICATED
    return flags
