"""SRMP messages as headers with named fields, for `posthouse decode` ([MC-MQSRM] 2.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from posthouse.cli.decode.packets import Header, View
from posthouse.model.errors import MalformedPacket, Truncated
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import kind_of
from posthouse.wire.srmp.mime_parts import XML, Parts, read_parts
from posthouse.wire.srmp.xml import Element, read_xml

REQUEST: Final = b"POST "
RESPONSE: Final = b"HTTP/1."
ENVELOPE: Final = b"<"
HEAD_SIZE_MAX: Final = 1 << 16
MESSAGE: Final = "MC-MQSRM 2.2.2"
HTTP: Final = "RFC 2616"
SECTIONS: Final = {
    "path": "MC-MQSRM 2.2.4",
    "properties": "MC-MQSRM 2.2.5.1",
    "services": "MC-MQSRM 2.2.5.2",
    "stream": "MC-MQSRM 2.2.5.3",
    "Stream": "MC-MQSRM 2.2.5.3",
    "deliveryReceipt": "MC-MQSRM 2.2.5.4",
    "commitmentReceipt": "MC-MQSRM 2.2.5.5",
    "streamReceipt": "MC-MQSRM 2.2.5.6",
    "Msmq": "MC-MQSRM 2.2.6",
    "Signature": "MC-MQSRM 2.2.7",
}
_STATUS_LINE: Final = re.compile(r"HTTP/1\.[01] [1-5][0-9]{2}(?: .*)?")
_FIELD: Final = re.compile(r"([^:\s]+):\s*(.*?)\s*")


def is_srmp(front: bytes) -> bool:
    """Whether these bytes begin an HTTP request or response, or a bare envelope."""
    return front.startswith((REQUEST, RESPONSE, ENVELOPE))


def srmp_extent(data: bytes, at: int) -> int:
    """How many bytes the HTTP message has; a bare envelope is all that is left."""
    if data.startswith(ENVELOPE, at):
        return len(data) - at
    end = _head_end(data, at)
    fields = _fields(data[at:end])
    length = fields.get("content-length", "0")
    if "transfer-encoding" in fields or not (length.isascii() and length.isdigit()):
        raise MalformedPacket("an HTTP message in chunks, or without a good Content-Length")
    return end - at + int(length[:12])


def view_srmp(data: bytes) -> View:
    """An HTTP message, or the envelope by itself."""
    if data.startswith(ENVELOPE):
        return _view([], read_parts(XML, data))
    end = _head_end(data, 0)
    first, fields = _first_line(data), _fields(data[:end])
    if data.startswith(RESPONSE):
        if not _STATUS_LINE.fullmatch(first):
            raise MalformedPacket("an HTTP response without a status")
        header = Header(f"{HTTP} 6", "Response", {"status_line": first} | fields)
        return View("HTTP response", f"{HTTP} 6", [header])
    request = Header(f"{HTTP} 5", "Request", {"request_line": first} | fields)
    return _view([request], read_parts(fields.get("content-type", ""), data[end:]))


def _head_end(data: bytes, at: int) -> int:
    end = data.find(b"\r\n\r\n", at, at + HEAD_SIZE_MAX)
    if end < 0:
        raise Truncated("the head of an HTTP message has no end")
    return end + 4


def _first_line(data: bytes) -> str:
    return data.partition(b"\r\n")[0].decode("latin-1")


def _fields(head: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in head.decode("latin-1").split("\r\n")[1:-2]:
        match = _FIELD.fullmatch(line)
        if match is None or match[1].lower() in found:
            raise MalformedPacket("a field of an HTTP message is malformed or repeated")
        found[match[1].lower()] = match[2]
    return found


def _view(headers: list[Header], parts: Parts) -> View:
    kind = kind_of(read_envelope(parts.envelope))
    headers += _elements(read_xml(parts.envelope).children[0])
    headers += _attached(parts)
    return View(f"SRMP {kind.value}", MESSAGE, headers)


def _elements(header: Element) -> Iterator[Header]:
    """Every element of the SOAP header with all that is in it, in its order."""
    for element in header.children:
        namespace, _, name = element.name.rpartition(" ")
        section = SECTIONS.get(name, namespace or "no namespace")
        yield Header(section, name, dict(_leaves(element, "")))


def _leaves(element: Element, way: str) -> Iterator[tuple[str, Any]]:
    """The texts inside an element by the names on the way to them; attributes count as well."""
    for number, child in enumerate(element.children):
        name = f"{way}{child.name.rpartition(' ')[2]}"
        if number and any(child.name == other.name for other in element.children[:number]):
            name = f"{name} {number + 1}"
        for attribute, value in child.attributes.items():
            yield f"{name} {attribute.rpartition(' ')[2]}", value
        if child.children:
            yield from _leaves(child, f"{name}/")
        elif child.text or not child.attributes:
            yield name, child.text or "present"


def _attached(parts: Parts) -> Iterator[Header]:
    if parts.body_id or parts.body:
        fields = {"content_type": parts.body_content_type, "content_id": parts.body_id}
        yield Header(MESSAGE, "Body", fields | {"body": parts.body})
    if parts.extension_id or parts.extension:
        yield Header(
            MESSAGE,
            "Extension",
            {"content_id": parts.extension_id, "extension": parts.extension},
        )
