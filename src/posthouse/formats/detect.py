"""Which format a message has: by its properties first, by its first bytes last.

The order is fixed, and no deserializer is tried after another. A format that the message claims
and breaks gives that format with an error.
"""

from __future__ import annotations

import re
from typing import Any, Final

from posthouse.formats import activex
from posthouse.formats.decoded import CERTAIN, GUESS, LIKELY, Decoded, Meaning, broken
from posthouse.formats.decompression import GZIP, unpack
from posthouse.formats.headers import masstransit, nservicebus, rebus
from posthouse.formats.json_text import read_json
from posthouse.formats.limits import DEFAULT, FormatError, LimitReached, Limits
from posthouse.formats.nrbf.decode import decode_nrbf
from posthouse.formats.nrbf.records import is_nrbf
from posthouse.formats.text import NAMED, PADDING, Text, decoded, read_padded_text
from posthouse.formats.values import bytes_value
from posthouse.formats.wcf.envelope import decode_wcf
from posthouse.formats.wcf.framing import is_framed
from posthouse.formats.xml.tree import (
    Document,
    local,
    looks_like_xml,
    parse_text,
    read_document,
)
from posthouse.formats.xml.values import root_value
from posthouse.model.code_pages import DEFAULT_CODE_PAGE

VT_NRBF: Final = 768
_WITHOUT_TYPE: Final = 0
_BYTES_OF_NET: Final = 0x1011
_XML_START: Final = re.compile(rb"<[A-Za-z_:?!/\x80-\xff]")
_JSON_START: Final = ("{", "[")


def decode(
    body: bytes,
    *,
    body_type: int = 0,
    extension: bytes = b"",
    label: str = "",
    app_specific: int = 0,
    correlation_id: bytes = b"",
    code_page: str = DEFAULT_CODE_PAGE,
    limits: Limits = DEFAULT,
) -> Decoded:
    """Decode a message. Any bytes give a result: with `error` where they break their own format.

    `code_page` is the sender's ANSI code page, for bodies of type VT_LPSTR.
    """
    extension, label = extension or b"", label or ""
    if len(body) > limits.size or len(extension) > limits.size:
        error = FormatError(f"a body or extension of more than {limits.size} bytes is not decoded")
        return broken("bytes", body, error, limits)
    if body_type == VT_NRBF and not nservicebus.is_nservicebus(extension):
        return decode_nrbf(body, limits)
    if extension or label:
        bus = _bus(body, body_type, extension, label, app_specific, correlation_id, limits)
        if bus is not None:
            return bus
    if body_type in (_WITHOUT_TYPE, _BYTES_OF_NET) and is_framed(body):
        return decode_wcf(body, limits)
    if body_type == _WITHOUT_TYPE:
        return by_look(body, limits)
    if body_type in activex.NAMES:
        return _variant(body, body_type, code_page, limits)
    return _as_bytes(body, limits, GUESS)


def _as_bytes(body: bytes, limits: Limits, confidence: str) -> Decoded:
    return Decoded("bytes", bytes_value(body), body, confidence, limits=limits)


def by_look(body: bytes, limits: Limits) -> Decoded:
    """A body without a type: by its first bytes."""
    if not body:
        return Decoded("empty", limits=limits)
    if _XML_START.match(body):
        return _xml_bytes(body, limits)
    if is_nrbf(body):
        return decode_nrbf(body, limits)
    text = read_padded_text(body)
    if text is None:
        return _as_bytes(body, limits, GUESS)
    if looks_like_xml(text.text):
        return _xml_text(body, text, limits)
    if text.text.lstrip(PADDING).startswith(_JSON_START):
        try:
            value = read_json(text.text.strip(PADDING), limits)
        except LimitReached as error:
            return broken("json", body, error, limits, encoding=text.encoding)
        except FormatError:
            pass  # braces do not make a text JSON
        else:
            return _json(body, value, text, LIKELY, limits)
    return _text(body, text, limits)


def _json(body: bytes, value: Any, text: Text, confidence: str, limits: Limits) -> Decoded:
    details = {"encoding": text.encoding}
    return Decoded("json", value, body, confidence, details=details, limits=limits)


def _text(body: bytes, text: Text, limits: Limits) -> Decoded:
    details = {"encoding": text.encoding}
    confidence = LIKELY if text.marked else GUESS
    return Decoded(
        "text", text.text, body, confidence, details=details, limits=limits, source=text.text
    )


def _xml_bytes(body: bytes, limits: Limits) -> Decoded:
    """Markup from the first byte on."""
    try:
        document = read_document(body, limits)
    except FormatError as error:
        return broken("xml", body, error, limits)
    if document is None:
        return _as_bytes(body, limits, GUESS)
    return _xml(body, document, limits)


def _xml_text(body: bytes, text: Text, limits: Limits) -> Decoded:
    try:
        document = Document(parse_text(text.text, limits), text.encoding)
    except FormatError as error:
        failed = broken("xml", body, error, limits, encoding=text.encoding)
        failed.source = text.text
        return failed
    result = _xml(body, document, limits)
    result.source = text.text
    return result


def _xml(body: bytes, document: Document, limits: Limits) -> Decoded:
    details: dict[str, Any] = {
        "root": document.name,
        "namespace": document.namespace,
        "encoding": document.encoding,
    }
    try:
        value = root_value(document.root, limits)
    except FormatError as error:
        return broken("xml", body, error, limits, **details)
    if isinstance(value, str) and document.root.tag == "string":
        details |= _inner(value, limits, limits.wraps)
    return Decoded("xml", value, body, LIKELY, details=details, limits=limits)


def _inner(text: str, limits: Limits, wraps: int) -> dict[str, Any]:
    """What a string holds: a document of its own, null where it only looks like one."""
    start = text.lstrip(PADDING)[:1]
    if start not in ("<", "{", "[") or not wraps:
        return {}
    try:
        if start != "<":
            value = read_json(text.strip(PADDING), limits)
            return {"inner": {"format": "json", "value": value}}
        return {"inner": _inner_xml(text, limits, wraps)}
    except FormatError:
        return {"inner": None}


def _inner_xml(text: str, limits: Limits, wraps: int) -> dict[str, Any]:
    root = parse_text(text, limits)
    value = root_value(root, limits)
    found: dict[str, Any] = {"format": "xml", "root": local(root.tag), "value": value}
    if isinstance(value, str) and root.tag == "string":
        found |= _inner(value, limits, wraps - 1)
    return found


def _variant(body: bytes, body_type: int, code_page: str, limits: Limits) -> Decoded:
    details: dict[str, Any] = {"vt": activex.NAMES[body_type]}
    try:
        value, more = activex.read_variant(body, body_type, code_page)
    except FormatError as error:
        return broken("activex", body, error, limits, **details)
    details |= more
    if body_type in activex.STRINGS:
        details |= _inner(value, limits, limits.wraps)
    result = Decoded("activex", value, body, details=details, limits=limits)
    if body_type in activex.WIDE_STRINGS and len(body) % 2:
        result.error = "UTF-16 with half a character at its end"
    return result


def _bus(
    body: bytes,
    body_type: int,
    extension: bytes,
    label: str,
    app_specific: int,
    correlation_id: bytes,
    limits: Limits,
) -> Decoded | None:
    """The message of a bus, if the extension or the label is one's."""
    if nservicebus.is_nservicebus(extension):
        words = (extension, label, app_specific, correlation_id, limits)
        return _nservicebus(body, body_type, *words)
    if extension.strip(b"\0 \t\r\n"):
        return _json_bus(body, extension, label, limits)
    if nservicebus.is_version_2(label):
        meaning = nservicebus.meaning_of({}, label, app_specific, correlation_id)
        return _with_body("nservicebus", meaning, by_look(body, limits), None, limits)
    return None


def _nservicebus(
    body: bytes,
    body_type: int,
    extension: bytes,
    label: str,
    app_specific: int,
    correlation_id: bytes,
    limits: Limits,
) -> Decoded:
    headers: dict[str, str | None] = {}
    try:
        headers, wrong = nservicebus.read_headers(extension, limits)
    except FormatError as error:
        wrong = f"the headers cannot be read: {error}"
    meaning = nservicebus.meaning_of(headers, label, app_specific, correlation_id)
    if body_type == VT_NRBF:
        inner = decode_nrbf(body, limits)
    else:
        inner = _body_of(body, headers.get("NServiceBus.ContentType") or "", limits)
    return _with_body("nservicebus", meaning, inner, wrong, limits)


def _json_bus(body: bytes, extension: bytes, label: str, limits: Limits) -> Decoded | None:
    """Rebus and MassTransit; any other extension decides nothing."""
    text = decoded(extension.removeprefix(b"\xef\xbb\xbf"), "utf-8")
    if text is None or not text.lstrip(PADDING).startswith("{"):
        return None
    try:
        found = read_json(text.strip(PADDING), limits)
    except FormatError as error:
        if '"rbs2-' not in text:
            return None
        reason = f"the headers cannot be read: {error}"
        return _with_body("rebus", Meaning(), by_look(body, limits), reason, limits)
    headers = rebus.text_headers(found)
    if rebus.is_rebus(found):
        inner = _rebus_body(body, headers, limits)
        return _with_body("rebus", rebus.meaning_of(headers), inner, None, limits)
    if masstransit.is_masstransit(found):
        return _masstransit(body, headers, label, limits)
    return None


def _rebus_body(body: bytes, headers: dict[str, str | None], limits: Limits) -> Decoded:
    if rebus.header(headers, "content-encryption") is not None:
        return _as_bytes(body, limits, CERTAIN)
    if (rebus.header(headers, "content-encoding") or "").strip().lower() == "gzip":
        try:
            body = unpack(body, GZIP, limits)
        except FormatError as error:
            return broken("bytes", body, error, limits)
    return _body_of(body, rebus.header(headers, "content-type") or "", limits)


def _masstransit(
    body: bytes, headers: dict[str, str | None], label: str, limits: Limits
) -> Decoded:
    kind = masstransit.kind_of(headers)
    if kind == "binary":
        inner = decode_nrbf(body, limits)
    elif kind in masstransit.ENVELOPED:
        inner = _body_of(body, f"application/{kind}", limits)
    else:
        inner = _as_bytes(body, limits, CERTAIN)
    meaning, message = masstransit.meaning_of(headers, label, inner)
    result = _with_body("masstransit", meaning, inner, None, limits)
    if inner.error is None:
        result.value = message
    return result


def _with_body(
    format: str, meaning: Meaning, body: Decoded, wrong: str | None, limits: Limits
) -> Decoded:
    return Decoded(
        format,
        body.value,
        body.raw,
        error=wrong or body.error,
        meaning=meaning,
        body=body,
        limits=limits,
    )


def _body_of(body: bytes, content_type: str, limits: Limits) -> Decoded:
    """The body of a bus, led by its content type."""
    name, _, parameters = content_type.lower().partition(";")
    name = name.strip()
    if not body:
        return Decoded("empty", limits=limits)
    charset = _charset(parameters)
    if charset is not None and charset != "utf-8" and (text := decoded(body, charset)) is not None:
        body = text.encode("utf-8", "replace")
    if name.endswith(("/json", "+json")):
        return _json_body(body, limits)
    if name in ("application/octet-stream", "application/binary"):
        return _as_bytes(body, limits, CERTAIN)
    return by_look(body, limits)


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip() == "charset":
            return NAMED.get(value.strip().strip("\"'"))
    return None


def _json_body(body: bytes, limits: Limits) -> Decoded:
    text = read_padded_text(body)
    if text is None:
        return broken("json", body, FormatError("the body is not text"), limits)
    try:
        value = read_json(text.text.strip(PADDING), limits)
    except FormatError as error:
        return broken("json", body, error, limits)
    return _json(body, value, text, CERTAIN, limits)
