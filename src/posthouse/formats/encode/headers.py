"""Extensions of NServiceBus and Rebus, byte for byte as they write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from posthouse.formats.encode.xml import NAMESPACES
from posthouse.formats.encode.xml_text import whole_text

_REFERENCED: Final = re.compile("[\0-\x08\x0b-\x1f\ufffe\uffff]")
_ESCAPED_BY_JSON_NET: Final = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def nservicebus_headers(headers: Mapping[str, str | None]) -> bytes:
    """The extension that NServiceBus writes now: one line of XML."""
    entries = "".join(
        f"<HeaderInfo>{_field('Key', key)}{_field('Value', value)}</HeaderInfo>"
        for key, value in headers.items()
    )
    root = f"ArrayOfHeaderInfo{NAMESPACES}"
    content = f"<{root}>{entries}</ArrayOfHeaderInfo>" if entries else f"<{root} />"
    return _utf_8(f'<?xml version="1.0" encoding="utf-8"?>{content}')


def _field(name: str, text: str | None) -> str:
    if text is None:
        return ""
    if not text:
        return f"<{name} />"
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<{name}>{_REFERENCED.sub(_reference, text)}</{name}>"


def _reference(character: re.Match[str]) -> str:
    return f"&#x{ord(character[0]):X};"


def rebus_headers(headers: Mapping[str, str | None]) -> bytes:
    """The extension that Rebus writes: a JSON object, keys in order, without blanks."""
    text = json.dumps(dict(headers), ensure_ascii=False, separators=(",", ":"))
    return _utf_8(text.translate(_ESCAPED_BY_JSON_NET))


def _utf_8(text: str) -> bytes:
    return whole_text(text).encode()
