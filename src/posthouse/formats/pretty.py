"""Values and XML as text that people read, without recursion and up to a length."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

_quote: Final = json.JSONEncoder(ensure_ascii=False).encode
_XML_TOKEN: Final = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->|<[^>]*>|[^<]+", re.DOTALL)
_HEX_ROW: Final = 16
_INDENT: Final = "  "


def pretty_json(value: Any, most: int) -> str:
    """A value as indented JSON."""
    return _limited(_json_parts(value), most)


def pretty_xml(text: str, most: int) -> str:
    """A document with a line for each element; one that has lines already stays as it is."""
    if "\n" in text.strip():
        return _limited(iter((text[: most + 1],)), most)
    return _limited(_xml_parts(text), most)


def hex_dump(data: bytes, most: int) -> str:
    """Bytes in rows of 16, with the ASCII characters beside them."""
    return _limited(_hex_rows(data), most)


def _limited(parts: Iterator[str], most: int) -> str:
    kept: list[str] = []
    size = 0
    for part in parts:
        size += len(part)
        if size > most:
            kept.append(part[: most - size + len(part)] + "\n...")
            break
        kept.append(part)
    return "".join(kept)


def _json_parts(value: Any) -> Iterator[str]:
    """Containers wait on a stack: each with what is left of it, and its end."""
    if not isinstance(value, dict | list) or not value:
        yield _quote(value)
        return
    stack = [_opened(value)]
    yield "{" if isinstance(value, dict) else "["
    first = True
    while stack:
        entries, end = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            yield f"\n{_INDENT * len(stack)}{end}"
            first = False
            continue
        key, item = entry
        yield f"{'' if first else ','}\n{_INDENT * len(stack)}{key}"
        first = isinstance(item, dict | list) and bool(item)
        if first:
            yield "{" if isinstance(item, dict) else "["
            stack.append(_opened(item))
        else:
            yield _quote(item)


def _opened(value: Any) -> tuple[Iterator[tuple[str, Any]], str]:
    if isinstance(value, dict):
        return ((f"{_quote(key)}: ", item) for key, item in value.items()), "}"
    return (("", item) for item in value), "]"


def _xml_parts(text: str) -> Iterator[str]:
    """A line break between two tags, unless they enclose a text or nothing."""
    depth, last = 0, ""
    for found in _XML_TOKEN.finditer(text):
        token = found[0]
        if not token.startswith("<"):
            last = "text" if not token.isspace() else last
            yield token if not token.isspace() else ""
            continue
        closing = token.startswith("</")
        depth -= closing
        if last and last != "text" and not (closing and last == "open"):
            yield f"\n{_INDENT * min(depth, 64)}"
        yield token
        opening = not closing and token[1] not in "!?" and not token.endswith("/>")
        depth += opening
        last = "open" if opening else "closed"


def _hex_rows(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), _HEX_ROW):
        row = data[at : at + _HEX_ROW]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{'' if not at else chr(10)}{at:08x}  {row.hex(' '):<47}  {shown}"
