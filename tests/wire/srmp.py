"""Envelopes and payloads of SRMP for tests: the examples of the document, and any other."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from posthouse.model.guids import parse_guid
from posthouse.model.message import Message
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.patch import PACKET_SIZE_AT, USER_FLAGS_AT
from posthouse.wire.srmp.mime_parts import Parts, read_parts
from posthouse.wire.srmp.stored_messages import pack_srmp
from tests.wire.vectors import VECTORS

GUID_TEXT = "caf195ea-615c-4264-ae08-11a4e60194c0"
GUID = parse_guid(GUID_TEXT)
SECOND_TEXT = "32221eda-9376-46df-b6ed-783091123831"
SECOND = parse_guid(SECOND_TEXT)
SENT = "20260101T000000"
SENT_S = 1_767_225_600
LATER = "20260105T000000"
LATER_S = SENT_S + 4 * 86_400
NOW_S = SENT_S + 60
URL = "http://beta/msmq/private$/q"
ADMIN = "http://alpha/MSMQ/private$/receipts"
STREAM_ID = f"uid:{GUID_TEXT}\\4839986701558349830"
SEQUENCE_ID = 4839986701558349830

SE = 'xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"'
SRMP = 'xmlns="http://schemas.xmlsoap.org/srmp/"'
RP = 'xmlns="http://schemas.xmlsoap.org/rp/"'
MARK = 'se:mustUnderstand="1"'
BODY = "<se:Body></se:Body>"
ENVELOPE = "<se:Envelope><se:Header>ä</se:Header><se:Body/></se:Envelope>"
FRONT, BEHIND = b"POST / HTTP/1.1\r\n\r\n<xml/>", b"--boundary--\r\n"

EXAMPLES = sorted(file.stem for file in (VECTORS / "srmp").glob("*.http"))


class Example(NamedTuple):
    """An HTTP message of the document."""

    head: bytes  # with the blank line
    content_type: str
    payload: bytes
    parts: Parts


def example(name: str) -> Example:
    """One of the files of tests/vectors/srmp."""
    data = (VECTORS / "srmp" / f"{name}.http").read_bytes()
    head, _, payload = data.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert int(fields["Content-Length"]) == len(payload)
    kind = fields["Content-Type"]
    return Example(head + b"\r\n\r\n", kind, payload, read_parts(kind, payload))


def path(
    action: str | None = "MSMQ:label",
    to: str | None = URL,
    identifier: str | None = f"uuid:7@{GUID_TEXT}",
    more: str = "",
    mark: str = MARK,
) -> str:
    """The path element; None leaves a child out."""
    children = [
        f"<{name}>{text}</{name}>"
        for name, text in (("action", action), ("to", to), ("id", identifier))
        if text is not None
    ]
    return f"<path {RP} {mark}>{''.join(children)}{more}</path>"


def properties(expires: str | None = LATER, sent: str | None = SENT, more: str = "") -> str:
    """The properties element."""
    texts = (("expiresAt", expires), ("sentAt", sent))
    children = [f"<{name}>{text}</{name}>" for name, text in texts if text is not None]
    return f"<properties {MARK}>{''.join(children)}{more}</properties>"


def services(inside: str, mark: str = MARK) -> str:
    """The services element."""
    return f"<services {mark}>{inside}</services>"


def stream(
    current: str = "<current>1</current>",
    more: str = f"<start><sendReceiptsTo>{ADMIN}</sendReceiptsTo></start>",
    stream_id: str = f"<streamId>{STREAM_ID}</streamId>",
    name: str = "stream",
    mark: str = MARK,
) -> str:
    """The stream element."""
    return f"<{name} {mark}>{stream_id}{current}{more}</{name}>"


def msmq(more: str = "", **changed: str | None) -> str:
    """The Msmq element with its required children, changed or left out."""
    children: dict[str, str | None] = {
        "Class": "0",
        "Priority": "3",
        "BodyType": "8",
        "SourceQmGuid": GUID_TEXT,
        "TTrq": LATER,
    }
    children |= changed
    inside = "".join(
        f"<{name}>{text}</{name}>" for name, text in children.items() if text is not None
    )
    return f'<Msmq xmlns="msmq.namespace.xml">{inside}{more}</Msmq>'


def envelope(*elements: str, body: str = BODY) -> bytes:
    """An envelope with these elements in its header."""
    header = f"<se:Header>{''.join(elements)}</se:Header>"
    return f"<se:Envelope {SE} {SRMP}>{header}{body}</se:Envelope>".encode()


def simple(*more: str, **changed: str | None) -> bytes:
    """A good envelope with Msmq, and more elements."""
    return envelope(path(), properties(), *more, msmq(**changed))


def http_packet(body: bytes, envelope: str = ENVELOPE, **attributes: Any) -> bytes:
    """A packet in stored form."""
    debug = {key: attributes.pop(key) for key in list(attributes) if key.startswith("tracing")}
    lists = {key: attributes.pop(key) for key in list(attributes) if "multi" in key}
    plain = serialize(Message(body=body, **attributes))
    traced = serialize(Message(body=body, **attributes, **debug))
    whole = serialize(Message(body=body, **attributes, **debug, **lists))
    compound = FRONT + body + BEHIND
    headers = pack_srmp(envelope, compound, len(FRONT), len(body))
    assert len(plain) <= len(traced) <= len(whole)
    packet = bytearray(whole[: len(traced)] + headers + whole[len(traced) :])
    (flags,) = struct.unpack_from("<I", packet, USER_FLAGS_AT)
    struct.pack_into("<I", packet, USER_FLAGS_AT, flags | OVER_HTTP)
    struct.pack_into("<I", packet, PACKET_SIZE_AT, len(packet))
    return bytes(packet)
