"""Bodies of ActiveXMessageFormatter, and of the COM objects where they differ."""

from __future__ import annotations

import struct
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from posthouse.formats.activex import NAMES
from posthouse.formats.encode import xml_text
from posthouse.formats.encode.xml_text import whole_text
from posthouse.formats.limits import FormatError
from posthouse.formats.values import TICKS_PER_SECOND, guid_bytes, ticks_of, to_single

VARIANTS: Final = {name: number for number, name in NAMES.items()}
_TYPES: Final = {
    "string": (31, 8),
    "base64Binary": (0x1011, 0x2011),
    "boolean": (11, 11),
    "byte": (16, 16),
    "unsignedByte": (17, 17),
    "short": (2, 2),
    "unsignedShort": (18, 18),
    "int": (3, 3),
    "unsignedInt": (19, 19),
    "long": (20, 20),
    "unsignedLong": (21, 21),
    "float": (4, 4),
    "double": (5, 5),
    "decimal": (6, 6),
    "dateTime": (7, 7),
    "guid": (72, 72),
    "char": (18, 18),
}
TYPES: Final = tuple(_TYPES)
"""Names of the types that a value can have."""
STYLES: Final = ("net", "com")
_INTEGERS: Final = {
    2: ("<h", "short"),
    3: ("<i", "int"),
    16: ("<b", "byte"),
    17: ("<B", "unsignedByte"),
    18: ("<H", "unsignedShort"),
    19: ("<I", "unsignedInt"),
    20: ("<q", "long"),
    21: ("<Q", "unsignedLong"),
}
_COM_ZERO: Final = datetime(1899, 12, 30)
_DAY: Final = timedelta(days=1)


def activex_body(value: Any, type: str = "string", style: str = "net") -> tuple[bytes, int]:
    """Body and body type of a value.

    `type` is a name as for XML (`string`, `int`, ...) or a variant type (`VT_I4`); `style` is `net`
    for what ActiveXMessageFormatter writes, `com` for what the COM objects write.
    """
    kind = variant_of(type, style)
    if value is None:
        return b"", VARIANTS["VT_NULL"]
    if type == "char":
        value = xml_text.character(value)
    return _written(value, kind, style), kind


def variant_of(type: str, style: str = "net") -> int:
    """The body type of values of a type."""
    if style not in STYLES:
        raise FormatError(f"{style!r} is not a style: take net or com")
    if type in VARIANTS:
        return VARIANTS[type]
    if type not in _TYPES:
        raise FormatError(f"{type!r} is not a type: take one of {', '.join(sorted(_TYPES))}")
    return _TYPES[type][STYLES.index(style)]


def _written(value: Any, kind: int, style: str) -> bytes:
    if kind in _INTEGERS:
        layout, name = _INTEGERS[kind]
        return struct.pack(layout, xml_text.integer(name, value))
    if kind in (8, 31):
        return whole_text(xml_text.value_text("string", value)).encode("utf-16-le")
    if kind == 30:
        return _ascii(xml_text.value_text("string", value))
    if kind in (0x1011, 0x2011):
        return xml_text.octets(value)
    if kind == 11:
        return (b"\xff" if xml_text.boolean(value) else b"\0") * (2 if style == "com" else 1)
    if kind in (4, 5):
        return _real(value, kind)
    if kind == 6:
        return _currency(value)
    if kind == 7:
        return _date(xml_text.date_time(value), style)
    if kind == 72:
        return guid_bytes(str(value))
    raise FormatError(f"values of the type {NAMES[kind]} are not written")


def _ascii(text: str) -> bytes:
    try:
        return text.encode("ascii")
    except UnicodeEncodeError:
        raise FormatError(
            "VT_LPSTR carries ASCII: take VT_LPWSTR or VT_BSTR for this text"
        ) from None


def _real(value: Any, kind: int) -> bytes:
    if kind == 5:
        return struct.pack("<d", xml_text.real(value))
    return struct.pack("<f", to_single(xml_text.real(value, "float")))


def _currency(value: Any) -> bytes:
    """Ten-thousandths, rounded to even as .NET's decimal does."""
    units = round(Decimal(xml_text.decimal(value)) * 10_000)
    if not -(1 << 63) <= units < 1 << 63:
        raise FormatError(f"{value!r} does not fit VT_CY")
    return struct.pack("<q", units)


def _date(value: str, style: str) -> bytes:
    ticks = ticks_of(value)
    if style == "net":
        return struct.pack("<q", ticks)
    moment = datetime(1, 1, 1) + timedelta(microseconds=ticks // (TICKS_PER_SECOND // 1_000_000))
    days = (moment - _COM_ZERO) // _DAY
    part = (moment - _COM_ZERO - days * _DAY) / _DAY
    return struct.pack("<d", days + part if days >= 0 else days - part)
