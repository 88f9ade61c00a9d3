"""Headers of NServiceBus: XML in the extension, or for version 2 in the label."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from posthouse.formats.decoded import ExceptionInfo, Meaning
from posthouse.formats.headers.names import type_name
from posthouse.formats.headers.nservicebus_fast import plain_headers
from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.values import guid_text
from posthouse.formats.xml.tree import XSI, local, namespace, parse, root_at

_ROOT: Final = re.compile(rb"<(?:[\w.-]{1,40}:)?ArrayOfHeaderInfo[\s/>]")
_EMPTY_ROOT: Final = re.compile(rb"<(?:[\w.-]{1,40}:)?ArrayOfHeaderInfo[^<>]*/>")
_END: Final = re.compile(rb"</(?:[\w.-]{1,40}:)?ArrayOfHeaderInfo[ \t\r\n]*>")
_REFERENCE: Final = re.compile(rb"&#(?:x([0-9a-fA-F]{1,8})|([0-9]{1,10}));")
_REFERENCES_MAX: Final = 50_000
_TYPES_MAX: Final = 1000
_LABEL_MAX: Final = 1024  # a label of MSMQ has 249 characters
_BOM: Final = b"\xef\xbb\xbf"
_BLANK: Final = b" \t\r\n\0"
# Characters that XML forbids stand in private-use characters while expat reads the headers.
_STAND_INS: Final = 0x10F800
_FORBIDDEN: Final = frozenset({*range(0x20), 0xFFFE, 0xFFFF} - {9, 10, 13})
_BACK: Final = {_STAND_INS + (code & 0xFF): code for code in _FORBIDDEN}
_STAND_IN: Final = re.compile(rb"\xf4\x8f[\xa0-\xa3]|&#[xX]0*10[fF]8|&#0*1112")
_REPLACED: Final = "\ufffd".encode()
_P: Final = "NServiceBus."
_E: Final = "NServiceBus.ExceptionInfo."
INTENTS: Final = {1: "Send", 2: "Publish", 3: "Subscribe", 4: "Unsubscribe", 5: "Reply"}
_TIMES: Final = tuple(
    _P + name
    for name in (
        *("TimeSent", "TimeOfFailure", "ProcessingStarted", "ProcessingEnded"),
        *("DeliverAt", "Timeout.Expire"),
    )
)
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d):(\d{6}) Z", re.ASCII)
_LABEL_FIELD: Final = re.compile(r"<(CorrId|WinIdName|FailedQ)>(.*?)</\1>", re.DOTALL)
_NO_GUID: Final = "00000000-0000-0000-0000-000000000000"
_NIL: Final = f"{{{XSI}}}nil"


def is_nservicebus(extension: bytes) -> bool:
    """Whether the extension is a list of headers of NServiceBus."""
    data = extension.removeprefix(_BOM).lstrip(_BLANK)
    return data.startswith(b"<") and _ROOT.match(data, root_at(data) or 0) is not None


def is_version_2(label: str) -> bool:
    """Whether the label has the fields of version 2."""
    return "<CorrId>" in label and "<WinIdName>" in label


def read_headers(extension: bytes, limits: Limits) -> tuple[dict[str, str | None], str | None]:
    """The headers, and what is wrong with them; a key that comes twice keeps its first value."""
    data = extension.removeprefix(_BOM).lstrip(_BLANK)
    plain = plain_headers(data, limits)
    if plain is not None:
        return plain, None
    back = _BACK if b"&#" in data and _STAND_IN.search(data) is None else {}
    root = _document(data, bool(back), limits)
    headers: dict[str, str | None] = {}
    wrong = None
    space = namespace(root.tag)
    for entry in root:
        if local(entry.tag) != "HeaderInfo" or namespace(entry.tag) != space:
            continue  # the serializer of .NET passes over unknown elements
        key, value = _entry(entry, space, back)
        if key is None:
            continue
        if key in headers:
            wrong = wrong or f"the header {key[:100]!r} comes twice: NServiceBus refuses that"
        else:
            headers[key] = value
    return headers, wrong


def _document(data: bytes, usable: bool, limits: Limits) -> Element:
    """Cut what follows the list; the last end counts, unless garbage holds one as well."""
    ends = [found.end() for found in _END.finditer(data)]
    empty = None if ends else _EMPTY_ROOT.match(data, root_at(data) or 0)
    cuts = [empty.end()] if empty else list(dict.fromkeys((ends[-1], ends[0]))) if ends else [None]
    for cut in cuts[:-1]:
        try:
            return parse(_with_stand_ins(data[:cut], usable, limits), limits)
        except FormatError:
            continue
    return parse(_with_stand_ins(data[: cuts[-1]], usable, limits), limits)


def _with_stand_ins(data: bytes, usable: bool, limits: Limits) -> bytes:
    """References to characters that XML forbids, as characters that it allows."""
    count = data.count(b"&#")
    if not count:
        return data
    most = min(_REFERENCES_MAX, limits.lines)
    if count > most:
        raise FormatError(f"more than {most} references to characters")
    return _REFERENCE.sub(lambda found: _stand_in(found, usable), data)


def _stand_in(found: re.Match[bytes], usable: bool) -> bytes:
    code = int(found[1], 16) if found[1] else int(found[2])
    if code in _FORBIDDEN:
        return chr(_STAND_INS + (code & 0xFF)).encode() if usable else _REPLACED
    if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
        return _REPLACED
    return found[0]


def _entry(entry: Element, space: str, back: dict[int, int]) -> tuple[str | None, str | None]:
    """Return key and value of a header; of two the first counts, and others are passed over."""
    found: dict[str, str | None] = {}
    for field in entry:
        name = local(field.tag)
        if name in ("Key", "Value") and name not in found and namespace(field.tag) == space:
            is_nil = name == "Value" and field.get(_NIL) in ("true", "1")
            found[name] = None if is_nil else _text(field, back)
    return found.get("Key"), found.get("Value")


def _text(field: Element, back: dict[int, int]) -> str:
    text = "".join(field.itertext()).replace("\r\n", "\n")
    return text.translate(back) if back and not text.isascii() else text


def meaning_of(
    headers: dict[str, str | None], label: str, app_specific: int, correlation_id: bytes
) -> Meaning:
    """What the headers mean."""
    fields = (
        dict(_LABEL_FIELD.findall(label[:_LABEL_MAX]))
        if not headers and is_version_2(label)
        else {}
    )
    names = (headers.get(_P + "EnclosedMessageTypes") or "").split(";", _TYPES_MAX)[:_TYPES_MAX]
    types = [name.strip() for name in names if name.strip()]
    failed = headers.get(_P + "FailedQ") or fields.get("FailedQ")
    meaning = Meaning(
        headers,
        message_type=type_name(types[0]) if types else None,
        message_types=types,
        intent=headers.get(_P + "MessageIntent") or INTENTS.get(app_specific),
        times=_times(headers),
        failed_queue=failed,
        exception=_exception(headers),
        conversation_id=headers.get(_P + "ConversationId"),
        correlation_id=_correlation(headers, fields, correlation_id),
        related_to=headers.get(_P + "RelatedTo"),
        reply_to=headers.get(_P + "ReplyToAddress"),
    )
    if fields:
        meaning.more["label_fields"] = fields
    return meaning


def _correlation(
    headers: dict[str, str | None], fields: dict[str, str], correlation_id: bytes
) -> str | None:
    """The id that the message answers: of the header, the label or the property."""
    text = headers.get(_P + "CorrelationId") or headers.get("CorrId") or fields.get("CorrId")
    text = text or correlation_text(correlation_id)
    return None if not text or text.startswith(_NO_GUID) else text


def correlation_text(correlation_id: bytes) -> str | None:
    r"""A correlation id as .NET writes it: guid\number."""
    if len(correlation_id) != 20 or not any(correlation_id):
        return None
    guid = guid_text(correlation_id[:16])
    return f"{guid}\\{int.from_bytes(correlation_id[16:], 'little')}"


def _times(headers: dict[str, str | None]) -> dict[str, str]:
    found = {name: _time(headers.get(name) or "") for name in _TIMES if name in headers}
    return {name: time for name, time in found.items() if time}


def _time(text: str) -> str | None:
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    iso = f"{found[1]}T{found[2]}.{found[3]}"
    try:
        datetime.fromisoformat(iso)
    except ValueError:
        return None
    return iso + "Z"


def _exception(headers: dict[str, str | None]) -> ExceptionInfo | None:
    info = ExceptionInfo(
        headers.get(_E + "ExceptionType"),
        headers.get(_E + "Message"),
        headers.get(_E + "StackTrace"),
    )
    return info if any(part is not None for part in info) else None
