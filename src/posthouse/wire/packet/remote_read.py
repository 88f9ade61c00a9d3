"""Reads and writes the headers that [MS-MQRR] 2.2.5 adds to a UserMessage packet for a remote
reader.

After the last header of the UserMessage come ExtensionHeader, SubqueueHeader, DeadLetterHeader and
ExtendedAddressHeader. PacketSize of the BaseHeader counts them, which the document leaves open: a
reader that goes by the size alone then has all of it.
"""

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.wire.layout import Reader, align4, encode_text
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE_HEADER,
    INFINITE,
    OVER_HTTP,
    PACKET_SIZE_MAX,
    QUEUE_DIRECT,
    SRMP_ENVELOPE_HEADER,
)
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import PACKET_SIZE_AT, USER_FLAGS_AT
from posthouse.wire.packet.trailing_headers import BASE_TAIL, USER_TAIL, locate_tail

EXTENSION: Final = struct.Struct("<IIB3x")  # 2.2.5.2
SUBQUEUE: Final = struct.Struct("<IIIII64s64s")  # 2.2.5.3
ADDRESS: Final = struct.Struct("<IHHI16s")  # 2.2.5.5
OVERLAY: Final = struct.Struct("<HHI8s")  # 2.2.5.1: bytes 16 to 31 of the UserHeader
SIZE_AND_TIME: Final = struct.Struct("<II")  # of the BaseHeader
U32: Final = struct.Struct("<I")
assert (EXTENSION.size, SUBQUEUE.size, ADDRESS.size, OVERLAY.size) == (12, 148, 28, 16)
TRAILERS_SIZE: Final = EXTENSION.size + SUBQUEUE.size + ADDRESS.size

DL, SQ, DI, EA = 0x01, 0x02, 0x08, 0x10  # flags of the ExtensionHeader
IPV4, IPV6 = 0x0001, 0x0006
NAME_SIZE: Final = 64
_DIRECT_DESTINATION: Final = QUEUE_DIRECT << 10
_SOURCE_AT, _ADDRESS_AT = 16, 32
READER_FRONT: Final = 48  # bytes, in which is what differs from the stored packet
_UNKNOWN: Final = (4, IPV4, 0, bytes(4))


class Srmp(NamedTuple):
    """Where the two headers of a message that came over HTTP are, and what they hold."""

    envelope: str
    compound_at: int
    compound_size: int  # header and data, without padding
    message_body_offset: int
    message_body_size: int


def locate_srmp(packet: bytes, seen: PacketSummary) -> tuple[Srmp, int]:
    """The headers of an SRMP message in the document's form, and where all its headers end."""
    body_end = seen.body_at + seen.body_size
    tail = locate_tail(packet, body_end, seen.packet_size, seen.base_flags, seen.user_flags)
    if not tail.compound_at:
        raise MalformedPacket("a message that did not come over HTTP")
    reader = Reader(packet, tail.envelope_at, tail.compound_at)
    envelope = reader.text(reader.read(SRMP_ENVELOPE_HEADER).data_length)
    header = COMPOUND_MESSAGE_HEADER.unpack(packet, tail.compound_at)
    if header.message_body_offset + header.message_body_size > header.http_body_size:
        raise MalformedPacket("the body of an SRMP message is not inside its compound message")
    size = COMPOUND_MESSAGE_HEADER.size + header.http_body_size
    body = header.message_body_offset, header.message_body_size
    return Srmp(envelope, tail.compound_at, size, *body), tail.end


def headers_end(packet: bytes, seen: PacketSummary) -> int:
    """Where the last known header ends; what a peer has put after it is not handed on."""
    body_end, flags = seen.body_at + seen.body_size, seen.user_flags & ~OVER_HTTP
    if not (seen.base_flags & BASE_TAIL or flags & USER_TAIL):
        return align4(body_end)
    try:
        tail = locate_tail(packet, body_end, seen.packet_size, seen.base_flags, flags)
    except RemoteProtocolError:
        return align4(seen.packet_size)  # these headers are not checked yet: sent as they came
    return align4(tail.end)


# -- the writer's side


@lru_cache(4096)
def address_fields(address: str) -> tuple[int, int, int, bytes]:
    """Length, type, scope and bytes of an IPv4 or IPv6 address; all zero for none."""
    if not address:
        return 0, 0, 0, b""
    try:
        parsed = ip_address(address)
    except ValueError:
        return 0, 0, 0, b""
    if isinstance(parsed, IPv4Address):
        return 4, IPV4, 0, parsed.packed
    scope = parsed.scope_id or ""
    return 16, IPV6, int(scope) & INFINITE if scope.isdecimal() else 0, parsed.packed


@lru_cache(4096)
def address_overlay(address: str) -> bytes:
    """2.2.5.1: what a direct destination leaves room for in the UserHeader.

    Choice: only IPv4 and IPv6 may stand here, so an unknown host is the IPv4 address 0.0.0.0.
    """
    size, kind, scope, raw = address_fields(address)
    if not kind:
        size, kind, scope, raw = _UNKNOWN
    return OVERLAY.pack(size, kind, scope, raw[:8])


def _name(text: str) -> bytes:
    """A subqueue's name in its field; the longest leaves no room for its NUL."""
    return text.encode("utf-16-le", "surrogatepass")[:NAME_SIZE]


def pack_dead_letter(path: str) -> bytes:
    """2.2.5.4: the DeadLetterHeader, padded to four bytes."""
    raw = encode_text(path)
    size = align4(4 + len(raw))
    return (U32.pack(size) + raw).ljust(size, b"\0")


@lru_cache(1024)
def pack_trailers(
    acknowledgement_class: int,
    aborts: int,
    moves: int,
    last_move: int,
    subqueue: str = "",
    target_subqueue: str = "",
    dead_letter: str = "",
    dead_letter_invalid: bool = False,
    address: str = "",
) -> bytes:
    """2.2.5.2-5: all headers after the UserMessage. Most messages of a queue share theirs."""
    path = pack_dead_letter(dead_letter) if dead_letter else b""
    flags = SQ | EA | (DL if path else 0) | (DI if path and dead_letter_invalid else 0)
    remaining = SUBQUEUE.size + len(path) + ADDRESS.size
    return b"".join(
        (
            EXTENSION.pack(EXTENSION.size, remaining, flags),
            SUBQUEUE.pack(
                SUBQUEUE.size,
                acknowledgement_class << 1,
                aborts,
                moves,
                last_move,
                _name(subqueue),
                _name(target_subqueue),
            ),
            path,
            ADDRESS.pack(ADDRESS.size, *address_fields(address)),
        )
    )


# -- the reader's side


class Trailers(NamedTuple):
    """The values of the headers after the UserMessage, without those to be ignored."""

    acknowledgement_class: int = 0
    aborts: int = 0
    moves: int = 0
    last_move: int = 0
    subqueue: str = ""
    target_subqueue: str = ""
    dead_letter: str = ""
    dead_letter_invalid: bool = False
    address: str = ""


class ReadPacket(NamedTuple):
    """A packet that a remote reader got, taken apart."""

    message: bytes  # the UserMessage by itself, with a relative TimeToReachQueue again
    trailers: Trailers
    srmp: Srmp | None = None


def read_packet(packet: bytes) -> ReadPacket:
    """A packet of [MS-MQRR] 2.2.5 back to a UserMessage and what was added to it.

    The bytes of a body that was not handed over are there, whatever they are.
    """
    data = packet if len(packet) <= PACKET_SIZE_MAX else _sized(packet[:PACKET_SIZE_MAX])
    seen = summarize(data)
    srmp = None
    if seen.user_flags & OVER_HTTP:
        srmp, end = locate_srmp(data, seen)
    else:
        body_end = seen.body_at + seen.body_size
        tail = locate_tail(data, body_end, seen.packet_size, seen.base_flags, seen.user_flags)
        end = tail.end
    return ReadPacket(_user_message(data, seen, end), read_trailers(packet, end), srmp)


def _sized(packet: bytes) -> bytes:
    return b"".join((packet[:PACKET_SIZE_AT], U32.pack(len(packet)), packet[PACKET_SIZE_AT + 4 :]))


def _user_message(packet: bytes, seen: PacketSummary, end: int) -> bytes:
    expires = seen.time_to_reach_queue
    reach = expires if expires == INFINITE else max(expires - seen.sent_time, 0)
    head = SIZE_AND_TIME.pack(end, reach)
    return b"".join((packet[:PACKET_SIZE_AT], head, memoryview(packet)[16:end]))


def read_trailers(packet: bytes, at: int) -> Trailers:
    """The headers that begin there; a packet that ends there has none."""
    if at == len(packet):
        return Trailers()
    reader = Reader(packet, at)
    _, remaining, flags = EXTENSION.unpack_from(packet, reader.skip(EXTENSION.size))
    if remaining > reader.remaining:
        raise MalformedPacket(f"{remaining} bytes of headers announced, {reader.remaining} left")
    reader.end = reader.at + remaining
    counters = _read_subqueue(reader) if flags & SQ else (0, 0, 0, 0, "", "")
    dead_letter = _read_dead_letter(reader) if flags & DL else ""
    address = _read_address(reader) if flags & EA else ""
    return Trailers(*counters, dead_letter, bool(dead_letter and flags & DI), address)


def _sized_part(reader: Reader, least: int) -> Reader:
    """The next header by its own size, in which more may lie than is known here."""
    at = reader.at
    (size,) = U32.unpack_from(reader.data, reader.skip(4))
    if size < least:
        raise MalformedPacket(f"header of {size} bytes where {least} are due")
    reader.skip(size - 4)
    return Reader(reader.data, at, reader.at)


def _read_subqueue(reader: Reader) -> tuple[int, int, int, int, str, str]:
    part = _sized_part(reader, SUBQUEUE.size)
    _, word, aborts, moves, last_move, name, target = SUBQUEUE.unpack_from(part.data, part.at)
    subqueue = _text(name)
    if not subqueue:  # the rest of the header is to be ignored then, its counters too
        return 0, 0, 0, 0, "", ""
    return word >> 1 & 0xFFFF, aborts, moves, last_move, subqueue, _text(target)


def _text(raw: bytes) -> str:
    return raw.decode("utf-16-le", "surrogatepass").partition("\0")[0]


def _read_dead_letter(reader: Reader) -> str:
    part = _sized_part(reader, 6)
    part.skip(4)
    return part.terminated_text()


def _read_address(reader: Reader) -> str:
    part = _sized_part(reader, ADDRESS.size)
    _, size, kind, scope, raw = ADDRESS.unpack_from(part.data, part.at)
    if kind == IPV4 and size == 4:
        return str(IPv4Address(raw[:4]))
    if kind == IPV6 and size == 16:
        return f"{IPv6Address(raw)}%{scope}" if scope else str(IPv6Address(raw))
    return ""


def reader_front(packet: bytes, seen: PacketSummary, size: int, address: str) -> bytes:
    """The first 48 bytes, in which is what differs from the stored packet.

    TimeToReachQueue becomes the time of expiry; that of a message that never expires stays
    (decision 96).
    """
    expires = seen.time_to_reach_queue
    if expires != INFINITE:
        expires = min(expires + seen.sent_time, INFINITE)
    direct = seen.user_flags & 0x1C00 == _DIRECT_DESTINATION
    return b"".join(
        (
            packet[:PACKET_SIZE_AT],
            SIZE_AND_TIME.pack(size, expires),
            packet[_SOURCE_AT:_ADDRESS_AT],
            address_overlay(address) if direct else packet[_ADDRESS_AT:READER_FRONT],
        )
    )


def not_over_http(packet: bytes, seen: PacketSummary) -> bytes:
    """The packet of a message that came over HTTP, as one that did not."""
    flags = U32.pack(seen.user_flags & ~OVER_HTTP)
    return packet[:USER_FLAGS_AT] + flags + packet[USER_FLAGS_AT + 4 :]


def without_trailers(packet: bytes, seen: PacketSummary) -> tuple[bytes, bytes]:
    """A packet that ends with its body as it was stored, and the headers after it.

    On the way TimeToReachQueue is the time of expiry.
    """
    end, reach = align4(seen.body_at + seen.body_size), seen.time_to_reach_queue
    if reach != INFINITE:
        reach = max(reach - seen.sent_time, 0)
    head = SIZE_AND_TIME.pack(end, reach)
    message = b"".join((packet[:PACKET_SIZE_AT], head, packet[PACKET_SIZE_AT + 8 : end]))
    return message, packet[end:]
