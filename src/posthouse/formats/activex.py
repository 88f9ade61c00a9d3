"""Values of ActiveXMessageFormatter and of the COM objects, by the variant type of the body."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from posthouse.formats.limits import FormatError
from posthouse.formats.values import (
    TICKS_MAX,
    bytes_value,
    currency_text,
    float_value,
    guid_text,
    ticks_text,
)
from posthouse.model.code_pages import code_page_text

VT_LPSTR: Final = 30
VT_DATE: Final = 7
NAMES: Final = {
    1: "VT_NULL",
    2: "VT_I2",
    3: "VT_I4",
    4: "VT_R4",
    5: "VT_R8",
    6: "VT_CY",
    7: "VT_DATE",
    8: "VT_BSTR",
    11: "VT_BOOL",
    16: "VT_I1",
    17: "VT_UI1",
    18: "VT_UI2",
    19: "VT_UI4",
    20: "VT_I8",
    21: "VT_UI8",
    30: "VT_LPSTR",
    31: "VT_LPWSTR",
    68: "VT_STREAMED_OBJECT",
    69: "VT_STORED_OBJECT",
    72: "VT_CLSID",
    0x1011: "VT_VECTOR|VT_UI1",
    0x2011: "VT_ARRAY|VT_UI1",
}
"""Body types that are variants; all others but 0 and 768 are unknown."""
STRINGS: Final = frozenset({8, 30, 31})
WIDE_STRINGS: Final = frozenset({8, 31})
_INTEGERS: Final = {2: "<h", 3: "<i", 16: "<b", 17: "<B", 18: "<H", 19: "<I", 20: "<q", 21: "<Q"}
_FLOATS: Final = {4: "<f", 5: "<d"}
_COM_ZERO: Final = datetime(1899, 12, 30)
_COM_DAYS: Final = (-657_434, 2_958_466)  # the years 100 to 9999
_CLSID_SIZE: Final = 16


def read_variant(body: bytes, body_type: int, code_page: str) -> tuple[Any, dict[str, Any]]:
    """The value, and what else is known of it."""
    if body_type == VT_DATE:
        return _date(body)
    return _READERS[body_type](body, code_page), {}


def _take(body: bytes, layout: str) -> Any:
    size = struct.calcsize(layout)
    if len(body) < size:
        raise FormatError(f"{len(body)} bytes, the type has {size}")
    return struct.unpack_from(layout, body)[0]


def _wide(body: bytes, _: str) -> str:
    return body.decode("utf-16-le", "replace")


def _wide_ended(body: bytes, _: str) -> str:
    return body.decode("utf-16-le", "replace").rstrip("\0")


def _narrow(body: bytes, code_page: str) -> str:
    text = code_page_text(body, code_page)
    if text is None:
        raise FormatError(f"the code page {code_page[:40]!r} is not a known one")
    return text.rstrip("\0")


def _bytes(body: bytes, _: str) -> Any:
    return bytes_value(body)


def _bool(body: bytes, _: str) -> bool:
    if not body:
        raise FormatError("0 bytes, the type has 1 or 2")
    return any(body[:2])


def _currency(body: bytes, _: str) -> str:
    return currency_text(_take(body, "<q"))


def _clsid(body: bytes, _: str) -> str:
    if len(body) < _CLSID_SIZE:
        raise FormatError(f"{len(body)} bytes, the type has {_CLSID_SIZE}")
    return guid_text(body[:_CLSID_SIZE])


def _null(_body: bytes, _: str) -> None:
    return None


def _object(body: bytes, code_page: str) -> Any:
    """A COM object that wrote itself: its class and its bytes, and it is never loaded."""
    return {"clsid": _clsid(body, code_page), "data": bytes_value(body[_CLSID_SIZE:])}


def _date(body: bytes) -> tuple[str, dict[str, Any]]:
    ticks = _take(body, "<q")
    if 0 <= ticks <= TICKS_MAX:
        return ticks_text(ticks), {"writer": "net"}
    return _com_date(_take(body, "<d")), {"writer": "com"}


def _com_date(days: float) -> str:
    """Days since 1899-12-30; before that the time of day still counts forward."""
    if not math.isfinite(days) or not _COM_DAYS[0] <= days < _COM_DAYS[1]:
        raise FormatError("a VT_DATE outside of the years 100 to 9999")
    whole = math.trunc(days)
    milliseconds = round(abs(days - whole) * 86_400_000)
    try:
        moment = _COM_ZERO + timedelta(days=whole, milliseconds=milliseconds)
    except OverflowError:
        raise FormatError("a VT_DATE outside of the years 100 to 9999") from None
    text = moment.isoformat()
    return text.rstrip("0") if "." in text else text


def _integer_reader(layout: str) -> Callable[[bytes, str], Any]:
    return lambda body, _: _take(body, layout)


def _float_reader(layout: str) -> Callable[[bytes, str], Any]:
    return lambda body, _: float_value(_take(body, layout))


_READERS: Final[dict[int, Callable[[bytes, str], Any]]] = {
    **{kind: _integer_reader(layout) for kind, layout in _INTEGERS.items()},
    **{kind: _float_reader(layout) for kind, layout in _FLOATS.items()},
    1: _null,
    6: _currency,
    8: _wide,
    11: _bool,
    30: _narrow,
    31: _wide_ended,
    68: _object,
    69: _object,
    72: _clsid,
    0x1011: _bytes,
    0x2011: _bytes,
}
