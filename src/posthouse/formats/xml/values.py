"""XML of XmlMessageFormatter as JSON: typed primitives and lists, other elements by their names."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final
from xml.etree.ElementTree import Element

from posthouse.formats.limits import FormatError, Limits
from posthouse.formats.values import bytes_value, float_value, to_single
from posthouse.formats.xml.tree import XSI, local

_NIL: Final = f"{{{XSI}}}nil"
_TYPE: Final = f"{{{XSI}}}type"
_TRUE: Final = frozenset({"true", "1"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_GUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE_TIME: Final = re.compile(
    r"(-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_NOT_NUMBERS: Final = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan}


def _integer(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text


def _boolean(text: str) -> bool | str:
    return {"true": True, "1": True, "false": False, "0": False}.get(text, text)


def _double(text: str) -> float | str:
    if text in _NOT_NUMBERS:
        return float_value(_NOT_NUMBERS[text])
    return float_value(float(text)) if _FLOAT.fullmatch(text) else text


def _single(text: str) -> float | str:
    number = _double(text)
    return number if isinstance(number, str) else float_value(to_single(number))


def _decimal(text: str) -> str:
    return text.removeprefix("+") if _DECIMAL.fullmatch(text) else text


def _date_time(text: str) -> str:
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return text
    fraction = (found[2] or "").rstrip("0")
    return f"{found[1]}{f'.{fraction}' if fraction else ''}{found[3] or ''}"


def _guid(text: str) -> str:
    return text.lower() if _GUID.fullmatch(text) else text


def _base64(text: str) -> dict[str, str] | str:
    try:
        return bytes_value(b64decode("".join(text.split()), validate=True))
    except ValueError:
        return text


def _char(text: str) -> str:
    if not _INTEGER.fullmatch(text) or not 0 <= int(text) <= 0xFFFF:
        return text
    character = chr(int(text))
    return "\ufffd" if "\ud800" <= character <= "\udfff" else character


def _plain(text: str) -> str:
    return text


_INTEGERS: Final = (
    *("int", "long", "short", "byte", "unsignedByte", "unsignedShort"),
    *("unsignedInt", "unsignedLong"),
)
READERS: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    "boolean": _boolean,
    "double": _double,
    "float": _single,
    "decimal": _decimal,
    "dateTime": _date_time,
    "guid": _guid,
    "base64Binary": _base64,
    "char": _char,
    "TimeSpan": _plain,
}
"""Primitive roots beside `string`: what makes a value of the text."""
_PLAIN_TEXT: Final = frozenset({"string", "TimeSpan"})


def is_array(name: str) -> bool:
    """Whether an element of that name is a list of XmlSerializer."""
    return name.startswith("ArrayOf") and len(name) > 7


def element_text(element: Element) -> str:
    """The text of a leaf; blanks alone are read as empty, as .NET does."""
    text = element.text
    return "" if text is None or text.isspace() else text


def typed(name: str, element: Element) -> Any:
    """The value of a leaf whose name or type is a primitive."""
    text = element_text(element)
    reader = READERS.get(name)
    return text if reader is None else reader(text.strip())


def root_value(root: Element, limits: Limits) -> Any:
    """The value of a document."""
    return _Conversion(limits).root(root)


class _Conversion:
    """One walk from the root down. Each container is made first and filled later, without
    recursion, so that the depth of a document costs no stack."""

    __slots__ = ("_arrays", "_depth_max", "_names", "_todo")

    def __init__(self, limits: Limits) -> None:
        self._depth_max = limits.depth
        self._names: dict[str, str] = {}
        self._arrays: set[str] = set()
        self._todo: list[tuple[Element, Any, int]] = []

    def root(self, root: Element) -> Any:
        primitive = not root.tag.startswith("{")
        value = self._item(root, 0) if primitive else self._open(root, local(root.tag), 0)
        todo = self._todo
        while todo:
            element, into, depth = todo.pop()
            if isinstance(into, list):
                into.extend([self._item(child, depth) for child in element])
            else:
                self._fill(element, into, depth)
        return value

    def _fill(self, element: Element, into: dict[str, Any], depth: int) -> None:
        """Children by their local names; a name that repeats gives a list."""
        names, arrays = self._names, self._arrays
        repeated: set[str] | None = None
        mixed: list[str] | None = None
        for child in element:
            tag = child.tag
            name = names.get(tag)
            if name is None:
                name = names[tag] = local(tag)
                if is_array(name):
                    arrays.add(tag)
            if len(child) or child.keys() or tag in arrays:
                value = self._open(child, name, depth)
            else:
                text = child.text
                value = "" if text is None or text.isspace() else text
            if name not in into:
                into[name] = value
            elif repeated is None:
                repeated = {name}
                into[name] = [into[name], value]
            elif name in repeated:
                into[name].append(value)
            else:
                repeated.add(name)
                into[name] = [into[name], value]
            tail = child.tail
            if tail is not None and not tail.isspace():
                mixed = mixed or []
                mixed.append(tail)
        text = element.text
        if text is not None and not text.isspace():
            into["#text"] = text + "".join(mixed or ())
        elif mixed is not None:
            into["#text"] = "".join(mixed)

    def _item(self, element: Element, depth: int) -> Any:
        """A root or an item of a list: typed by its name."""
        name = local(element.tag)
        if name == "anyType" and (kind := element.get(_TYPE)) is not None:
            return self._typed_by(kind, element, depth)
        if (name in READERS or name == "string") and self._is_leaf(element):
            return typed(name, element)
        return self._open(element, name, depth)

    def _typed_by(self, kind: str, element: Element, depth: int) -> Any:
        """`anyType`: typed by the local part of its xsi:type."""
        name = kind.strip().rpartition(":")[2]
        if is_array(name):
            return self._list(element, depth)
        if (name in READERS or name == "string") and not len(element):
            return typed(name, element)
        return self._open(element, "anyType", depth)

    @staticmethod
    def _is_leaf(element: Element) -> bool:
        return not len(element) and not element.keys()

    def _list(self, element: Element, depth: int) -> list[Any]:
        values: list[Any] = []
        self._later(element, values, depth)
        return values

    def _open(self, element: Element, name: str, depth: int) -> Any:
        """A new container, filled later; or what stands for null and plain text."""
        if (element.get(_NIL) or "").strip() in _TRUE:
            return None
        if is_array(name):
            return self._list(element, depth)
        if self._is_leaf(element):
            return element_text(element)
        into: dict[str, Any] = {}
        for key, value in element.items():
            into["@xsi:type" if key == _TYPE else f"@{local(key)}"] = value
        self._later(element, into, depth)
        return into

    def _later(self, element: Element, into: Any, depth: int) -> None:
        if depth >= self._depth_max:
            raise FormatError(f"XML with more than {self._depth_max} levels")
        self._todo.append((element, into, depth + 1))
