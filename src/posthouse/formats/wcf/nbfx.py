"""Binary XML of [MC-NBFX] with the strings of [MC-NBFS] and [MC-NBFSE], printed as XML text."""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final

from posthouse.formats.limits import Budget, FormatError, Limits
from posthouse.formats.values import (
    decimal_text,
    double_text,
    duration_text,
    guid_text,
    single_text,
    ticks_text,
)
from posthouse.formats.wcf.dictionary import STATIC
from posthouse.formats.wcf.framing import Cursor, utf_8

_FORBIDDEN: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_END_ELEMENT: Final = 0x01
_COMMENT: Final = 0x02
_ARRAY: Final = 0x03
_ATTRIBUTES: Final = range(0x04, 0x40)
_ELEMENTS: Final = range(0x40, 0x78)
_TEXTS: Final = range(0x80, 0xBE)
_START_LIST: Final = 0xA4
_END_LIST: Final = 0xA6
_ARRAY_TYPES: Final = frozenset({0xB5, 0x8B, 0x8D, 0x8F, 0x91, 0x93, 0x95, 0x97, 0xAF, 0xB1})
_KIND_UTC: Final = 1
_TICKS: Final = (1 << 62) - 1
_DECIMAL: Final = struct.Struct("<HBBIQ")


def escape_text(text: str) -> str:
    """Text between tags; what XML forbids becomes U+FFFD."""
    if "&" in text or "<" in text or ">" in text or "\r" in text:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        text = text.replace("\r", "&#xD;")
    return _FORBIDDEN.sub("\ufffd", text)


def escape_attribute(text: str) -> str:
    """Text between quotation marks."""
    text = escape_text(text)
    return text.replace('"', "&quot;").replace("\t", "&#x9;").replace("\n", "&#xA;")


class BinaryXml:
    """Prints one document: records in, text out, open elements on a list."""

    def __init__(self, data: bytes, at: int, session: list[str], limits: Limits) -> None:
        self._cursor = Cursor(data, at)
        self._session = session
        self._budget = Budget(limits)
        self._records_left = 2 * limits.elements
        self._depth_max = limits.depth
        self._parts: list[str] = []
        self._open: list[str] = []
        self._in_tag = False

    def document(self) -> str:
        """The whole document as XML text."""
        cursor = self._cursor
        while cursor.at < cursor.size:
            self._node(cursor.u8())
        if self._open:
            raise FormatError(f"binary XML ends inside of {self._open[-1][:60]!r}")
        return "".join(self._parts)

    def _put(self, text: str) -> None:
        self._budget.spend(len(text))
        self._parts.append(text)

    def _node(self, record: int) -> None:
        self._count(1)
        if record in _TEXTS:
            self._text_node(record)
        elif record in _ELEMENTS:
            self._element(record)
        elif record in _ATTRIBUTES:
            self._attribute(record)
        elif record == _END_ELEMENT:
            self._end_element()
        elif record == _COMMENT:
            self._close_tag()
            self._put(f"<!--{_comment(self._cursor.text())}-->")
        elif record == _ARRAY:
            self._array()
        else:
            raise FormatError(f"0x{record:02X} is not a record of binary XML")

    def _count(self, records: int) -> None:
        self._records_left -= records
        if self._records_left < 0:
            raise FormatError("binary XML with more records than the limit")

    def _close_tag(self) -> None:
        if self._in_tag:
            self._parts.append(">")
            self._in_tag = False

    def _word(self) -> str:
        """A string of the static or the session dictionary."""
        number = self._cursor.variable()
        table = self._session if number & 1 else STATIC
        if number >> 1 >= len(table):
            raise FormatError(f"the dictionary has no string {number}")
        return table[number >> 1]

    def _element(self, record: int) -> None:
        self._close_tag()
        if len(self._open) >= self._depth_max:
            raise FormatError(f"binary XML with more than {self._depth_max} levels")
        name = self._element_name(record)
        self._put(f"<{name}")
        self._open.append(name)
        self._in_tag = True

    def _element_name(self, record: int) -> str:
        text = self._cursor.text
        if record == 0x40:
            return text()
        if record == 0x41:
            return f"{text()}:{text()}"
        if record == 0x42:
            return self._word()
        if record == 0x43:
            return f"{text()}:{self._word()}"
        if record < 0x5E:
            return f"{chr(record - 0x44 + 97)}:{self._word()}"
        return f"{chr(record - 0x5E + 97)}:{text()}"

    def _attribute(self, record: int) -> None:
        if not self._in_tag:
            raise FormatError("an attribute of binary XML outside of a start tag")
        if record in range(0x08, 0x0C):
            name, value = self._namespace(record)
        else:
            name = self._attribute_name(record)
            value = self._value(self._cursor.u8(), attribute=True)
        self._put(f' {name}="{escape_attribute(value)}"')

    def _namespace(self, record: int) -> tuple[str, str]:
        prefix = f"xmlns:{self._cursor.text()}" if record in (0x09, 0x0B) else "xmlns"
        return prefix, self._cursor.text() if record < 0x0A else self._word()

    def _attribute_name(self, record: int) -> str:
        text = self._cursor.text
        if record == 0x04:
            return text()
        if record == 0x05:
            return f"{text()}:{text()}"
        if record == 0x06:
            return self._word()
        if record == 0x07:
            return f"{text()}:{self._word()}"
        if record < 0x26:
            return f"{chr(record - 0x0C + 97)}:{self._word()}"
        return f"{chr(record - 0x26 + 97)}:{text()}"

    def _end_element(self) -> None:
        self._close_tag()
        if not self._open:
            raise FormatError("an end of an element of binary XML that is not open")
        self._put(f"</{self._open.pop()}>")

    def _text_node(self, record: int) -> None:
        self._close_tag()
        if not self._open:
            raise FormatError("text of binary XML outside of the root")
        self._put(escape_text(self._value(record & 0xFE)))
        if record & 1:
            self._end_element()

    def _value(self, record: int, attribute: bool = False) -> str:
        """The text of a record of text, or of a list of them."""
        if attribute and record & 1:
            raise FormatError("an attribute of binary XML that ends its element")
        if record == _START_LIST:
            return self._list()
        return self._single(record)

    def _single(self, record: int) -> str:
        reader = _TEXT_READERS.get(record)
        if reader is not None:
            return reader(self._cursor)
        if record == 0xAA:
            word = self._word()
            self._budget.spend(len(word))
            return word
        if record == 0xBC:
            letter = self._cursor.u8()
            if letter > 25:
                raise FormatError("a QName of binary XML with a prefix that is not a letter")
            return f"{chr(97 + letter)}:{self._word()}"
        raise FormatError(f"0x{record:02X} is not a text record of binary XML")

    def _list(self) -> str:
        texts: list[str] = []
        while (record := self._cursor.u8()) != _END_LIST:
            self._count(1)
            texts.append(self._single(record))
            self._budget.spend(len(texts[-1]) + 1)
        return " ".join(texts)

    def _array(self) -> None:
        """One element for each value, all with the same name and attributes."""
        self._close_tag()
        record = self._cursor.u8()
        if record not in _ELEMENTS:
            raise FormatError("an array of binary XML without an element")
        start = len(self._parts)
        self._element(record)
        while (record := self._cursor.u8()) != _END_ELEMENT:
            if record not in _ATTRIBUTES:
                raise FormatError("an array of binary XML with more than attributes")
            self._attribute(record)
        opening = "".join(self._parts[start:]) + ">"
        del self._parts[start:]
        self._in_tag = False
        closing = f"</{self._open.pop()}>"
        self._items(opening, closing)

    def _items(self, opening: str, closing: str) -> None:
        kind, count = self._cursor.u8(), self._cursor.variable()
        if kind not in _ARRAY_TYPES:
            raise FormatError(f"0x{kind:02X} is not the type of an array of binary XML")
        self._count(count)
        for _ in range(count):
            self._put(f"{opening}{_TEXT_READERS[kind & 0xFE](self._cursor)}{closing}")


def _comment(text: str) -> str:
    text = _FORBIDDEN.sub("\ufffd", text).replace("--", "- -")
    return text + " " if text.endswith("-") else text


def _constant(text: str) -> Callable[[Cursor], str]:
    return lambda _: text


def _number(layout: str) -> Callable[[Cursor], str]:
    read, size = struct.Struct(layout).unpack, struct.calcsize(layout)
    return lambda cursor: str(read(cursor.take(size))[0])


def _unpacked(cursor: Cursor, layout: str) -> Any:
    return struct.unpack(layout, cursor.take(struct.calcsize(layout)))[0]


def _sized(layout: str, to_text: Callable[[bytes], str]) -> Callable[[Cursor], str]:
    return lambda cursor: to_text(cursor.take(_unpacked(cursor, layout)))


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _utf_16(data: bytes) -> str:
    if len(data) % 2:
        raise FormatError("a text of binary XML in UTF-16 with half a character")
    return data.decode("utf-16-le", "replace")


def _decimal(cursor: Cursor) -> str:
    zero, scale, sign, high, low = _DECIMAL.unpack(cursor.take(_DECIMAL.size))
    if zero or sign not in (0, 0x80):
        raise FormatError("a decimal of binary XML with bits that have to be zero")
    return decimal_text(high, low, scale, sign == 0x80)


def _date_time(cursor: Cursor) -> str:
    data = _unpacked(cursor, "<Q")
    kind = data >> 62
    return ticks_text(data & _TICKS) + ("Z" if kind == _KIND_UTC else "+00:00" if kind else "")


def _boolean(cursor: Cursor) -> str:
    byte = cursor.u8()
    if byte > 1:
        raise FormatError(f"{byte} is not a boolean of binary XML")
    return "true" if byte else "false"


_TEXT_READERS: Final[dict[int, Callable[[Cursor], str]]] = {
    0x80: _constant("0"),
    0x82: _constant("1"),
    0x84: _constant("false"),
    0x86: _constant("true"),
    0x88: _number("<b"),
    0x8A: _number("<h"),
    0x8C: _number("<i"),
    0x8E: _number("<q"),
    0x90: lambda cursor: single_text(_unpacked(cursor, "<f")),
    0x92: lambda cursor: double_text(_unpacked(cursor, "<d")),
    0x94: _decimal,
    0x96: _date_time,
    0x98: _sized("<B", utf_8),
    0x9A: _sized("<H", utf_8),
    0x9C: _sized("<i", utf_8),
    0x9E: _sized("<B", _base64),
    0xA0: _sized("<H", _base64),
    0xA2: _sized("<i", _base64),
    0xA8: _constant(""),
    0xAC: lambda cursor: f"urn:uuid:{guid_text(cursor.take(16))}",
    0xAE: lambda cursor: duration_text(_unpacked(cursor, "<q")),
    0xB0: lambda cursor: guid_text(cursor.take(16)),
    0xB2: _number("<Q"),
    0xB4: _boolean,
    0xB6: _sized("<B", _utf_16),
    0xB8: _sized("<H", _utf_16),
    0xBA: _sized("<i", _utf_16),
}


def read_strings(data: bytes, session: list[str], limits: Limits) -> int:
    """Add the new strings of an envelope to those of its session; where the document begins."""
    cursor = Cursor(data)
    end = cursor.variable() + cursor.at
    if end > cursor.size:
        raise FormatError("a table of strings that is longer than its envelope")
    while cursor.at < end:
        if len(session) >= limits.elements:
            raise FormatError("a session with more strings than the limit")
        session.append(cursor.text())
    if cursor.at != end:
        raise FormatError("a string that reaches beyond its table")
    return end
