"""Headers as NServiceBus itself writes them, read without building a tree.

Error queues hold thousands of messages with some twenty headers each, nearly all in one shape. What
is not surely in that shape is left to the parser of XML, which also has the words for what is
wrong; a test holds both to the same results.
"""

from __future__ import annotations

import re
from typing import Final

from posthouse.formats.limits import Limits

_SIZE_MAX: Final = 1 << 16
_XSI: Final = r' xmlns:xsi="http://www\.w3\.org/2001/XMLSchema-instance"'
_XSD: Final = r' xmlns:xsd="http://www\.w3\.org/2001/XMLSchema"'
_HEAD: Final = re.compile(
    r'(?:<\?xml version="1\.0"(?: encoding="utf-8")?\?>\s*+)?'
    rf"<ArrayOfHeaderInfo(?:{_XSI}{_XSD}|{_XSD}{_XSI})?>\s*+",
    re.ASCII,
)
# One entry, with its key and its value; the end; else all from what should not be there.
_ENTRY: Final = re.compile(
    r"<HeaderInfo>\s*+<Key>([^<]++)</Key>\s*+<Value(?:>([^<]*+)</Value>| ?/>)\s*+</HeaderInfo>\s*+"
    r"|</ArrayOfHeaderInfo>\s*+\Z|(.++)",
    re.ASCII | re.DOTALL,
)
_REFERENCE: Final = re.compile("&(amp|lt|gt|quot|apos);|&")
_CHARACTERS: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_FORBIDDEN: Final = bytes({*range(0x20)} - {9, 10, 13})
_ODD: Final = (b"]]>", b"\xef\xbf\xbe", b"\xef\xbf\xbf")


class _NotPlain(Exception):
    """The headers are for the parser of XML."""


def plain_headers(data: bytes, limits: Limits) -> dict[str, str | None] | None:
    """The headers, None where they are not in the usual shape."""
    if len(data) > _SIZE_MAX or not _is_within(data, limits):
        return None
    if len(data.translate(None, _FORBIDDEN)) != len(data) or any(odd in data for odd in _ODD):
        return None
    if data.count(b"\r") != data.count(b"\r\n"):
        return None
    try:
        return _entries(data.decode().replace("\r\n", "\n"))
    except (UnicodeDecodeError, _NotPlain):
        return None


def _is_within(data: bytes, limits: Limits) -> bool:
    """Whether the parser of XML would read as many elements, lines and references."""
    if len(data) <= min(limits.elements, limits.lines):
        return True
    elements = data.count(b"<") - data.count(b"</")
    return elements <= limits.elements and data.count(b"\n") + data.count(b"&") <= limits.lines


def _entries(text: str) -> dict[str, str | None]:
    head = _HEAD.match(text)
    if head is None:
        raise _NotPlain
    found = _ENTRY.findall(text, head.end())
    if not found or any(found.pop()):  # the last is the end, which has no key
        raise _NotPlain
    headers: dict[str, str | None] = {}
    for key, value, odd in found:
        if odd:
            raise _NotPlain
        headers[_text(key)] = _text(value)
    if len(headers) != len(found):
        raise _NotPlain  # a key comes twice
    return headers


def _text(text: str) -> str:
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(found: re.Match[str]) -> str:
    if found[1] is None:
        raise _NotPlain
    return _CHARACTERS[found[1]]
