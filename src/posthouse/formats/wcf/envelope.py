"""Envelopes of WCF: to XML by their encoding, and action, to and message id out of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.etree.ElementTree import Element

from posthouse.formats.decoded import Decoded
from posthouse.formats.decompression import DEFLATE, GZIP, unpack
from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.text import decoded
from posthouse.formats.values import bytes_value
from posthouse.formats.wcf.framing import Gram, read_frames
from posthouse.formats.wcf.nbfx import BinaryXml, read_strings
from posthouse.formats.xml.tree import local, namespace, parse_text, without_declaration
from posthouse.formats.xml.values import element_text, root_value

SOAP: Final = frozenset(
    {"http://www.w3.org/2003/05/soap-envelope", "http://schemas.xmlsoap.org/soap/envelope/"}
)
ADDRESSING: Final = frozenset(
    {
        "http://www.w3.org/2005/08/addressing",
        "http://schemas.xmlsoap.org/ws/2004/08/addressing",
        "http://schemas.microsoft.com/ws/2005/05/addressing/none",
    }
)
_CODECS: Final = {0: "utf-8", 1: "utf-16-le", 2: "utf-16-be"}
_BINARY: Final = 7
_SESSION: Final = 8
_MTOM: Final = 6
_BY_NAME: Final = {
    "text/xml": 0,
    "application/soap+xml": 3,
    "multipart/related": _MTOM,
    "application/soap+msbin1": _BINARY,
    "application/soap+msbinsession1": _SESSION,
}
_CHARSETS: Final = {"utf-8": 0, "utf-16": 1, "utf-16le": 1, "unicodefffe": 2, "utf-16be": 2}
_PACKED: Final = {"+gzip": GZIP, "+deflate": DEFLATE}
_FIELDS: Final = {"Action": "action", "To": "to", "MessageID": "message_id", "ReplyTo": "reply_to"}


def decode_wcf(body: bytes, limits: Limits) -> Decoded:
    """The envelopes of a message of netMsmqBinding."""
    gram = Gram()
    error: FormatError | None = None
    envelopes: list[dict[str, Any]] = []
    values: list[Any] = []
    try:
        read_frames(body, gram, limits)
    except FormatError as reason:
        error = reason
    try:
        for xml in _Documents(gram, limits).each():
            envelope, value = _envelope(xml, limits)
            envelopes.append(envelope)
            values.append(value)
    except FormatError as reason:
        error = error or reason
    details: dict[str, Any] = {
        "mode": gram.mode,
        "via": gram.via,
        "encoding": gram.encoding,
        "action": envelopes[0]["action"] if envelopes else None,
        "envelopes": envelopes,
    }
    value = values[0] if len(values) == 1 else values
    return Decoded(
        "wcf",
        value if error is None else bytes_value(body),
        body,
        error=None if error is None else str(error),
        details=details,
        limits=limits,
    )


class _Documents:
    """The envelopes of a gram as XML text, one after the other; all share one limit of text."""

    def __init__(self, gram: Gram, limits: Limits) -> None:
        self._gram = gram
        self._limits = limits
        self._strings: list[str] = []
        self._kind, self._packing = _encoding(gram.encoding)

    def each(self) -> Iterator[str]:
        left = self._limits.text
        for data in self._gram.envelopes:
            xml = self._xml(data)
            left -= len(xml)
            if left < 0:
                raise FormatError("the envelopes are larger than the limit")
            yield xml

    def _xml(self, data: bytes) -> str:
        if self._packing is not None:
            data = unpack(data, self._packing, self._limits)
        kind = self._kind
        if kind == _BINARY:
            return BinaryXml(data, 0, [], self._limits).document()
        if kind == _SESSION:
            at = read_strings(data, self._strings, self._limits)
            return BinaryXml(data, at, self._strings, self._limits).document()
        if kind == _MTOM:
            raise FormatError("an envelope in MTOM (multipart/related) is not read")
        text = decoded(data, _CODECS[kind % 3]) if kind is not None else None
        if text is None:
            raise FormatError(f"the envelope is not text in the encoding {self._gram.encoding}")
        return without_declaration(text)


def _encoding(encoding: int | str | None) -> tuple[int | None, int | None]:
    """The number of an encoding, and how the envelopes are packed."""
    if not isinstance(encoding, str):
        return (encoding if encoding in range(9) else None), None
    name, _, parameters = encoding.lower().partition(";")
    name = name.strip()
    packing = next((kind for end, kind in _PACKED.items() if name.endswith(end)), None)
    for end in _PACKED:
        name = name.removesuffix(end)
    kind = _BY_NAME.get(name)
    if kind in (0, 3):
        kind += _charset(parameters)
    return kind, packing


def _charset(parameters: str) -> int:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return _CHARSETS.get(value.strip().strip("\"'"), 0)
    return 0


def _envelope(xml: str, limits: Limits) -> tuple[dict[str, Any], Any]:
    """What is known of an envelope, and the first element of its body as JSON."""
    root = parse_text(xml, limits)
    found: dict[str, Any] = {"action": None, "to": None, "message_id": None}
    operation: Element | None = None
    for part in root:
        if namespace(part.tag) in SOAP and local(part.tag) == "Header":
            _read_header(part, found)
        elif namespace(part.tag) in SOAP and local(part.tag) == "Body":
            operation = next(iter(part), None)
    found["operation"] = None if operation is None else local(operation.tag)
    found["xml"] = xml
    return found, None if operation is None else root_value(operation, limits)


def _read_header(header: Element, found: dict[str, Any]) -> None:
    for block in header:
        key = _FIELDS.get(local(block.tag))
        if key is None or namespace(block.tag) not in ADDRESSING:
            continue
        if key == "reply_to":
            addresses = [child for child in block if local(child.tag) == "Address"]
            found[key] = element_text(addresses[0]).strip() if addresses else None
        else:
            found[key] = element_text(block).strip()
