"""Packets and reads for tests of sections."""

from __future__ import annotations

import struct
from typing import Any

from posthouse.engine.ledger.effects import Read
from posthouse.model.message import Message
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.patch import PACKET_SIZE_AT, USER_FLAGS_AT

SENT = 1_700_000_000
DIRECT = r"DIRECT=OS:alpha\private$\orders"
ENVELOPE = "<se:Envelope/>"
HTTP = b"POST /msmq/private$/orders HTTP/1.1\r\n\r\n"


def packet_of(body: bytes = b"", **attributes: Any) -> bytes:
    attributes.setdefault("sent_time", SENT)
    attributes.setdefault("destination_queue_format_name", DIRECT)
    return serialize(Message(body=body, **attributes))


def read_of(**fields: int) -> Read:
    values: dict[str, Any] = dict.fromkeys(Read._fields, 0)
    return Read(**(values | {"sender": b""} | fields))


def envelope_header(text: str = ENVELOPE, reserved: int = 0) -> bytes:
    raw = text.encode("utf-16-le") + b"\0\0"
    data = struct.pack("<HHI", 0x0190, reserved, len(raw) // 2) + raw
    return data.ljust((len(data) + 3) & ~3, b"\0")


def compound_header(body: bytes, reserved: int = 0) -> bytes:
    data = HTTP + body
    return struct.pack("<HHIII", 0x01F4, reserved, len(data), len(body), len(HTTP)) + data


def srmp_packet(body: bytes, *, envelope: bytes = b"", compound: bytes = b"") -> bytes:
    """A message that came over HTTP: its body is inside the compound message."""
    packet = packet_of()
    envelope = envelope or envelope_header()
    compound = compound or compound_header(body)
    (flags,) = struct.unpack_from("<I", packet, USER_FLAGS_AT)
    whole = bytearray(packet + envelope + compound)
    whole += bytes(-len(whole) % 4)
    struct.pack_into("<I", whole, USER_FLAGS_AT, flags | 0x0200_0000)
    struct.pack_into("<I", whole, PACKET_SIZE_AT, len(whole))
    return bytes(whole)
