"""XML as XmlMessageFormatter writes it: declaration, namespaces, indent and line ends included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from posthouse.formats.encode.xml_text import TYPES, value_text
from posthouse.formats.limits import FormatError
from posthouse.formats.xml.names import is_name
from posthouse.formats.xml.tree import XSI

XSD: Final = "http://www.w3.org/2001/XMLSchema"
_DECLARATIONS: Final = {
    "framework": '<?xml version="1.0"?>',
    "modern": '<?xml version="1.0" encoding="utf-8"?>',
}
_NIL_PREFIXES: Final = {"framework": "d1p1", "modern": "p1"}
NAMESPACES: Final = f' xmlns:xsi="{XSI}" xmlns:xsd="{XSD}"'
"""The declarations that XmlSerializer puts on every root that is not a primitive."""
_FORBIDDEN: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LINE: Final = "\r\n"
_NIL: Final = ' xsi:nil="true"'
_DEPTH_MAX: Final = 200
# Element with its attributes, and what is in it: text, elements, or None for nothing.
Children = list[tuple[str, Any]]


def xml_body(
    value: Any,
    type: str | None = None,
    *,
    root: str | None = None,
    namespace: str | None = None,
    style: str = "framework",
) -> bytes:
    """A body that XmlMessageFormatter reads.

    `type` names a primitive (`string`, `int`, `dateTime`, `guid`, ...); without one, `root` is the
    name of a class or of a list (`ArrayOfInt`), and the value a dict in the conventions of `decode`
    or a list. `style` is `framework` (.NET Framework, .NET Core to 3.1) or `modern`.
    """
    if style not in _DECLARATIONS:
        raise FormatError(f"{style!r} is not a style: take framework or modern")
    if root is None or root in TYPES:
        content = _primitive(type or root or "string", value, style)
    else:
        content = _LINE.join(_document(root, namespace, value))
    return f"{_DECLARATIONS[style]}{_LINE}{content}".encode()


def _primitive(name: str, value: Any, style: str) -> str:
    if name not in TYPES:
        raise FormatError(f"{name!r} is not a type: take one of {', '.join(sorted(TYPES))}")
    if value is None:
        prefix = _NIL_PREFIXES[style]
        return f'<{name} {prefix}:nil="true" xmlns:{prefix}="{XSI}" />'
    return _leaf(name, "", value_text(name, value))


def _leaf(name: str, attributes: str, text: str) -> str:
    if not text:
        return f"<{name}{attributes} />"
    return f"<{name}{attributes}>{escaped(text)}</{name}>"


def escaped(text: str) -> str:
    """Text between tags; what XML cannot carry is refused."""
    found = _FORBIDDEN.search(text)
    if found:
        raise FormatError(f"XML cannot carry the character U+{ord(found[0]):04X}")
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("\r", "&#xD;")


def _document(root: str, namespace: str | None, value: Any) -> Iterator[str]:
    """The lines of a class or a list; open elements wait on a stack."""
    own = f' xmlns="{_quoted(namespace)}"' if namespace else ""
    lines, stack = _opened(root, NAMESPACES + own, value, 0)
    yield from lines
    while stack:
        end, entries, depth = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            yield end
            continue
        if depth >= _DEPTH_MAX:
            raise FormatError(f"the value has more than {_DEPTH_MAX} levels")
        lines, inner = _opened(entry[0], "", entry[1], depth)
        yield from lines
        stack.extend(inner)


Open = tuple[str, Iterator[tuple[str, Any]], int]


def _opened(name: str, attributes: str, value: Any, depth: int) -> tuple[list[str], list[Open]]:
    """The lines that begin an element, and the element if it has elements inside."""
    indent = "  " * depth
    _check_name(name)
    if value is None:
        return [f"{indent}<{name}{attributes}{_NIL} />"], []
    if not isinstance(value, dict | list):
        return [indent + _leaf(name, attributes, _text_of(name, value))], []
    if isinstance(value, dict) and value.keys() == {"$base64"}:
        return [indent + _leaf(name, attributes, value_text("base64Binary", value))], []
    entries = _entries(name, value)
    if isinstance(value, dict):
        attributes += _attributes(value)
        if "#text" in value:
            if entries:
                raise FormatError(f"{name!r} has text and elements: XmlSerializer has one of them")
            text = value["#text"]
            return [
                indent + _leaf(name, attributes, "" if text is None else _text_of("", text))
            ], []
    if not entries:
        return [f"{indent}<{name}{attributes} />"], []
    return [f"{indent}<{name}{attributes}>"], [(f"{indent}</{name}>", iter(entries), depth + 1)]


def _entries(name: str, value: dict[str, Any] | list[Any]) -> Children:
    """The elements inside: of a list by the name of its items, of a class by its members."""
    if isinstance(value, list):
        return [(_item_name(name), item) for item in value]
    entries: Children = []
    for key, item in value.items():
        if not isinstance(key, str):
            raise FormatError("the names of members are strings")
        if key.startswith(("@", "#")):
            continue
        if isinstance(item, list) and not key.startswith("ArrayOf"):
            entries.extend((key, one) for one in item)
        else:
            entries.append((key, item))
    return entries


def _item_name(name: str) -> str:
    """ArrayOfInt has `int`, ArrayOfOrder has `Order`."""
    if not name.startswith("ArrayOf") or len(name) == 7:
        raise FormatError(
            f"{name!r} cannot be the name of a list: name it ArrayOfInt, ArrayOfString or ArrayOf "
            "and the name of the class"
        )
    item = name[7:]
    lowered = item[0].lower() + item[1:]
    return lowered if lowered in TYPES else item


def _text_of(name: str, value: Any) -> str:
    if name in TYPES:
        return value_text(name, value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return value_text("double", value)
    if isinstance(value, bytes):
        return value_text("base64Binary", value)
    if not isinstance(value, str | int | Decimal):
        raise FormatError(f"{str(value)[:60]!r} is not text, a number or a truth value")
    return str(value)


def _attributes(value: dict[str, Any]) -> str:
    found: list[str] = []
    for key, item in value.items():
        if not key.startswith("@"):
            continue
        name = key[1:]
        _check_name(name.removeprefix("xsi:"))
        if name == "xmlns":
            raise FormatError("a namespace is not an attribute: name it beside the root")
        if item is None:  # XmlSerializer leaves such an attribute out
            continue
        found.append(f' {name}="{_quoted(_text_of("", item))}"')
    return "".join(found)


def _quoted(text: str) -> str:
    text = escaped(text).replace('"', "&quot;")
    return text.replace("\t", "&#x9;").replace("\n", "&#xA;")


def _check_name(name: str) -> None:
    if not is_name(name):
        raise FormatError(f"{name[:60]!r} cannot be the name of an element or attribute")
