"""The shape of a body: its structure, without the values that differ from message to message.

JSON is its keys, XML its elements, other text its words with figures and identifiers blanked, and
anything else its first bytes and about how long it is. Bodies are hostile until proven otherwise:
only a beginning is looked at, nothing is expanded, and whatever cannot be read as one kind is
taken as the next.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from posthouse.model.message_json import body_text

LOOKED_AT_MAX: Final = 16_384  # bytes of a body
PARTS_MAX: Final = 64
DEPTH_MAX: Final = 12
HEAD_SIZE: Final = 4

_ELEMENT = re.compile(r"<([A-Za-z_][\w.:-]{0,60})")
_XML_START = re.compile(r"\s*(?:<\?xml|<[A-Za-z_!])")
_WORD = re.compile(r"\w{1,40}")
_BLANKED: Final = (
    (re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"), " GUID "),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), " HEX "),
    (re.compile(r"\d+(?:[.,:/-]\d+)*"), " 0 "),
)


class Shape(NamedTuple):
    """The kind of a body, and the parts that bodies like it have too, sorted."""

    kind: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """In one line, for keys and for people."""
        return f"{self.kind}: {' '.join(self.parts)}" if self.parts else self.kind


def shape_of(body: bytes | None, body_type: int | None, body_size: int | None = None) -> Shape:
    """The shape of a body, whatever it holds."""
    if not body:
        return Shape("empty" if not body_size else "unread", ())
    head = body[:LOOKED_AT_MAX]
    text = beginning_text(head, body_type or 0, is_cut=len(body) > len(head))
    if text is None:
        return _binary(head, body_size or len(body))
    if text.lstrip()[:1] in ("{", "["):
        parts = _json_parts(body if len(body) <= LOOKED_AT_MAX else b"", text)
        return Shape("json", parts)
    if _XML_START.match(text):
        return Shape("xml", _few(_ELEMENT.findall(text)))
    return Shape("text", _few(_words(text)))


def beginning_text(head: bytes, body_type: int, *, is_cut: bool) -> str | None:
    """A beginning as text where it is some; it may end in the middle of a character."""
    for cut in range(4 if is_cut else 1):
        text = body_text(head[: len(head) - cut], body_type)
        if text is not None:
            return text
    return None


def _binary(head: bytes, size: int) -> Shape:
    """What a format begins with, and the next power of two."""
    first = head[: min(HEAD_SIZE, (len(head) + 1) // 2)]
    return Shape("binary", (first.hex(), f"about {1 << max(size - 1, 0).bit_length()} bytes"))


def _json_parts(whole: bytes, text: str) -> tuple[str, ...]:
    """Paths of keys; of what is not whole JSON the names that look like keys."""
    try:
        return _few(_paths(msgspec.json.decode(whole), ""))
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return _few(re.findall(r'"([A-Za-z_][\w.-]{0,60})"\s*:', text))


def _paths(value: object, path: str, depth: int = 0) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            name = _blanked(str(key)[:60]).strip()
            yield from _paths(inner, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, list):
        for inner in value[:10]:
            yield from _paths(inner, f"{path}[]", depth + 1)
    else:
        yield f"{path or 'value'}:{_KINDS.get(type(value), 'number')}"


_KINDS: Final = {str: "text", bool: "flag", type(None): "null"}


def _blanked(text: str) -> str:
    for pattern, word in _BLANKED:
        text = pattern.sub(word, text)
    return text


def _words(text: str) -> Iterator[str]:
    return (match[0].lower() for match in _WORD.finditer(_blanked(text[:LOOKED_AT_MAX])))


def _few(parts: Iterator[str] | list[str]) -> tuple[str, ...]:
    """The first of them that differ, in an order that does not depend on theirs."""
    found: dict[str, None] = {}
    for part in parts:
        found[part] = None
        if len(found) >= PARTS_MAX:
            break
    return tuple(sorted(found))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Parts that both have, of all that either has."""
    both = len(one & other)
    return both / (len(one) + len(other) - both) if one or other else 1.0


def short_hash(*texts: str) -> str:
    """Eight hexadecimal digits that stand for some texts."""
    joined = "\0".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=4).hexdigest()
