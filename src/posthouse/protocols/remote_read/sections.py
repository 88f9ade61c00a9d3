"""Splits a stored message into the sections that remote read delivers ([MS-MQRR] 2.2.5-7)."""

from __future__ import annotations

from typing import Final

from posthouse.engine.ledger.effects import Read
from posthouse.engine.transfer.remote_reads import Particulars
from posthouse.model.errors import RemoteProtocolError
from posthouse.protocols.remote_read.stubs import Section
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.remote_read import (
    READER_FRONT,
    headers_end,
    locate_srmp,
    not_over_http,
    pack_trailers,
    reader_front,
)
from posthouse.wire.srmp.stored_messages import document_form

FULL_PACKET: Final = 0  # SectionType, 2.2.7
BINARY_FIRST: Final = 1
BINARY_SECOND: Final = 2
SRMP_FIRST: Final = 3
SRMP_SECOND: Final = 4


def sections(
    packet: bytes,
    read: Read,
    particulars: Particulars,
    body_size_max: int,
    compound_size_max: int,
) -> tuple[Section, ...]:
    """The whole packet where the reader takes that much, else its front and what is after it."""
    seen = summarize(packet)
    user_flags = seen.user_flags
    limited_at, limited_size, allowed = seen.body_at, seen.body_size, body_size_max
    first, second = BINARY_FIRST, BINARY_SECOND
    if user_flags & OVER_HTTP and (found := _srmp(packet, seen)) is not None:
        packet, seen, limited_at, limited_size, end = found
        allowed, first, second = compound_size_max, SRMP_FIRST, SRMP_SECOND
    else:
        end = headers_end(packet, seen)
        if user_flags & OVER_HTTP:  # 2.2.5.1: only with both headers
            packet = not_over_http(packet, seen)
    _, _, _, _, kind, _, aborts, moves, last_move, _, _ = read
    trailers = pack_trailers(kind, aborts, moves, last_move, *particulars)
    front = reader_front(packet, seen, end + len(trailers), particulars.source_address)
    rest = memoryview(packet)
    padding = bytes(max(end - len(packet), 0))
    if allowed >= limited_size:
        whole = b"".join((front, rest[READER_FRONT:end], padding, trailers))
        return (Section(FULL_PACKET, len(whole), whole),)
    head = b"".join((front, rest[READER_FRONT : limited_at + allowed]))
    behind = b"".join((rest[limited_at + limited_size : end], padding, trailers))
    return cut(first, second, head, limited_size - allowed, behind)


def cut(
    first: int, second: int, head: bytes, withheld: int, trailers: bytes
) -> tuple[Section, ...]:
    """A message of whose body this many bytes stay here."""
    front = Section(first, len(head) + withheld, head)
    return (front, Section(second, len(trailers), trailers)) if trailers else (front,)


def _srmp(packet: bytes, seen: PacketSummary) -> tuple[bytes, PacketSummary, int, int, int] | None:
    """The packet with its body in the compound message, where that is and where all headers end.

    None: it is not an SRMP message.
    """
    try:
        packet = document_form(packet, seen)
        seen = summarize(packet)
        srmp, end = locate_srmp(packet, seen)
    except RemoteProtocolError:
        return None
    return packet, seen, srmp.compound_at, srmp.compound_size, end
