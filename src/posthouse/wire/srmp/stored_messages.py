"""Messages that came over HTTP, as they are kept and as others read them ([MS-MQRR] 2.2.5.1.2).

Such a packet has the flag AH, and two headers after its DebugHeader: the SOAP envelope and the
HTTP message that brought it. In the *document's form* the body is inside that HTTP message, and
nowhere else. We keep it where every other message has it, so that all readers find it, and take it
out of the HTTP message: MsgBodyOffset states where it belongs. A packet with a body of its own is
in this *stored form*; where there is no body the two are the same.
"""

import re
import struct
from typing import NamedTuple

from posthouse.model.errors import MalformedPacket, RemoteProtocolError
from posthouse.wire.layout import Reader, align4, encode_text
from posthouse.wire.packet.headers import (
    COMPOUND_MESSAGE,
    COMPOUND_MESSAGE_HEADER,
    OVER_HTTP,
    SRMP_ENVELOPE,
    SRMP_ENVELOPE_HEADER,
    CompoundMessageHeader,
    SrmpEnvelopeHeader,
)
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import PACKET_SIZE_AT, USER_FLAGS_AT
from posthouse.wire.packet.trailing_headers import locate_tail

_U32 = struct.Struct("<I")
_BODY_SIZES = struct.Struct("<II")  # MessageSize and AllocationBodySize
_BODY_SIZES_AT = 32  # in a MessagePropertiesHeader
_START = r"<((?:[^\s<>/:]+:)?{0})(?:\s[^<>]*)?/?>"
_HEADER = re.compile(_START.format("Header"))
_BODY = re.compile(_START.format("Body"))


class StoredSrmp(NamedTuple):
    """What a message that came over HTTP has of it; the HTTP message is octet for octet as sent."""

    envelope: str
    compound: bytes
    body_offset: int
    body_size: int


def came_over_http(packet: bytes) -> bool:
    """The flag AH of a sound packet, [MS-MQMQ] 2.2.19.2."""
    (flags,) = _U32.unpack_from(packet, USER_FLAGS_AT)
    return bool(flags & OVER_HTTP)


def pack_srmp(envelope: str, compound: bytes, body_offset: int, body_size: int) -> bytes:
    """Both headers in stored form, of an HTTP message with its body in it, padded to four bytes."""
    text = encode_text(envelope)
    first = SRMP_ENVELOPE_HEADER.pack(SrmpEnvelopeHeader(SRMP_ENVELOPE, 0, len(text) // 2)) + text
    without = compound[:body_offset] + compound[body_offset + body_size :]
    second = _pack_compound(without, body_size, body_offset)
    return first.ljust(align4(len(first)), b"\0") + second.ljust(align4(len(second)), b"\0")


def _pack_compound(data: bytes, body_size: int, body_offset: int) -> bytes:
    header = CompoundMessageHeader(COMPOUND_MESSAGE, 0, len(data), body_size, body_offset)
    return COMPOUND_MESSAGE_HEADER.pack(header) + data


class _Apart(NamedTuple):
    """A packet that came over HTTP, cut at the two headers."""

    front: bytes  # up to the body
    body: bytes
    debug: bytes
    envelope: bytes  # the header with its padding
    data: bytes  # of the CompoundMessageHeader
    body_size: int
    body_offset: int
    rest: bytes


def _apart(packet: bytes, seen: PacketSummary) -> _Apart:
    body_end = seen.body_at + seen.body_size
    size, flags = seen.packet_size, seen.user_flags
    if not flags & OVER_HTTP:
        raise MalformedPacket("a message that did not come over HTTP")
    tail = locate_tail(packet, body_end, size, seen.base_flags, flags)
    header = COMPOUND_MESSAGE_HEADER.unpack(packet, tail.compound_at)
    data_at = tail.compound_at + COMPOUND_MESSAGE_HEADER.size
    data_end = data_at + header.http_body_size
    body_size, offset = header.message_body_size, header.message_body_offset
    inside = offset + (0 if seen.body_size else body_size)
    if inside > header.http_body_size or (seen.body_size and seen.body_size != body_size):
        raise MalformedPacket("the body of an SRMP message is not inside its compound message")
    return _Apart(
        packet[: seen.body_at],
        packet[seen.body_at : body_end],
        packet[tail.debug_at : tail.envelope_at] if tail.debug_at else b"",
        packet[tail.envelope_at : tail.compound_at],
        packet[data_at:data_end],
        body_size,
        offset,
        packet[align4(data_end) : size],
    )


def stored_parts(packet: bytes, seen: PacketSummary | None = None) -> StoredSrmp:
    """Envelope and HTTP message of a packet in either form; `RemoteProtocolError` without them."""
    apart = _apart(packet, summarize(packet) if seen is None else seen)
    reader = Reader(apart.envelope)
    envelope = reader.text(reader.read(SRMP_ENVELOPE_HEADER).data_length)
    return StoredSrmp(envelope, _whole(apart), apart.body_offset, apart.body_size)


def _whole(apart: _Apart) -> bytes:
    """The HTTP message with its body."""
    at = apart.body_offset
    return apart.data[:at] + apart.body + apart.data[at:]


def document_form(packet: bytes, seen: PacketSummary) -> bytes:
    """The packet with its body inside the HTTP message, as [MS-MQRR] 2.2.5.1.2 has it."""
    if not seen.body_size:
        return packet
    apart = _apart(packet, seen)
    compound = _pack_compound(_whole(apart), apart.body_size, apart.body_offset)
    return _joined(apart, seen, b"", compound)


def stored_form(packet: bytes, seen: PacketSummary) -> bytes:
    """The packet of a remote reader with its body where every other message has it."""
    apart = _apart(packet, seen)
    if seen.body_size or not apart.body_size:
        return packet
    at, end = apart.body_offset, apart.body_offset + apart.body_size
    compound = _pack_compound(apart.data[:at] + apart.data[end:], apart.body_size, at)
    return _joined(apart, seen, apart.data[at:end], compound)


def _joined(apart: _Apart, seen: PacketSummary, body: bytes, compound: bytes) -> bytes:
    if not seen.properties_at:
        raise MalformedPacket("an SRMP message without MessagePropertiesHeader")
    whole = bytearray(apart.front)
    _BODY_SIZES.pack_into(whole, seen.properties_at + _BODY_SIZES_AT, len(body), len(body))
    whole += body
    whole += bytes(-len(whole) % 4)
    whole += apart.debug + apart.envelope + compound
    whole += bytes(-len(whole) % 4)
    whole += apart.rest
    _U32.pack_into(whole, PACKET_SIZE_AT, len(whole))
    return bytes(whole)


def without_srmp(packet: bytes, seen: PacketSummary) -> bytes:
    """The packet as if it had never been on HTTP: for another protocol, or to be sent again.

    The flag alone, without sound headers after it, is just dropped.
    """
    try:
        kept = stored_form(packet, seen)
        apart = _apart(kept, summarize(kept))
    except RemoteProtocolError:
        return _unmarked(packet)
    whole = bytearray(apart.front + apart.body)
    whole += bytes(-len(whole) % 4)
    whole += apart.debug + apart.rest
    _U32.pack_into(whole, PACKET_SIZE_AT, len(whole))
    return _unmarked(bytes(whole))


def _unmarked(packet: bytes) -> bytes:
    (flags,) = _U32.unpack_from(packet, USER_FLAGS_AT)
    whole = bytearray(packet)
    _U32.pack_into(whole, USER_FLAGS_AT, flags & ~OVER_HTTP)
    return bytes(whole)


def soap_texts(envelope: str) -> tuple[str, str]:
    """SoapHeader and SoapBody ([MS-MQDMPR] 3.1.1.12): these elements as they stand."""
    header, end = _section(_HEADER, envelope, 0)
    body, _ = _section(_BODY, envelope, end)
    return header, body


def _section(start: re.Pattern[str], envelope: str, at: int) -> tuple[str, int]:
    """The element that such a tag begins, and where it ends; each character is looked at once."""
    opened = start.search(envelope, at)
    if opened is None:
        return "", at
    if opened[0].endswith("/>"):
        return opened[0], opened.end()
    closed = re.compile(rf"</{re.escape(opened[1])}\s*>").search(envelope, opened.end())
    if closed is None:
        return "", at
    return envelope[opened.start() : closed.end()], closed.end()
