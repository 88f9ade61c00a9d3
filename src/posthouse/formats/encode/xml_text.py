"""Values as the texts that XmlSerializer writes for them, by the name of their type."""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from posthouse.formats.limits import FormatError
from posthouse.formats.values import double_text, guid_bytes, guid_text, single_text, to_single
from posthouse.model.text import has_lone_surrogate

RANGES: Final = {
    "byte": (-(1 << 7), (1 << 7) - 1),
    "unsignedByte": (0, (1 << 8) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "unsignedShort": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "unsignedInt": (0, (1 << 32) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
    "unsignedLong": (0, (1 << 64) - 1),
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}")
_FLOAT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?")
_DECIMAL: Final = re.compile(r"-?([0-9]{1,29})(?:\.[0-9]{1,28})?")
_DECIMAL_MAX: Final = (1 << 96) - 1
_DATE_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,7})?(?:Z|[+-](\d\d):(\d\d))?", re.ASCII
)
_OFFSET_MAX: Final = 14 * 60
_DURATION: Final = re.compile(
    r"-?P(?=.)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?", re.ASCII
)
_NOT_FINITE: Final = {
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "INF": math.inf,
    "-INF": -math.inf,
    "NaN": math.nan,
}
_BOOLEANS: Final = {"true": "true", "1": "true", "false": "false", "0": "false"}


def value_text(name: str, value: Any) -> str:
    """The text of a value of a primitive type."""
    if name in RANGES:
        return str(integer(name, value))
    return _WRITERS[name](value)


def integer(name: str, value: Any) -> int:
    """A whole number that fits the type."""
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    low, high = RANGES[name]
    if type(value) is not int or not low <= value <= high:
        raise _unfit(value, name, f"a whole number from {low} to {high}")
    return value


def real(value: Any, name: str = "double") -> float:
    """A floating-point number that the type can hold."""
    if isinstance(value, str) and value.strip() in _NOT_FINITE:
        return _NOT_FINITE[value.strip()]
    if isinstance(value, float) and not math.isfinite(value):
        return value
    text = value.strip() if isinstance(value, str) else repr(value)
    if isinstance(value, bool) or not _FLOAT.fullmatch(text):
        raise _unfit(value, name, "a number, INF, -INF or NaN")
    number = float(text)
    if not math.isfinite(to_single(number) if name == "float" else number):
        raise _unfit(value, name, "a number that is not as large")
    return number


def decimal(value: Any) -> str:
    """A decimal with its places."""
    text = str(value) if type(value) in (str, int, float) else ""
    found = _DECIMAL.fullmatch(text)
    if found is None or int(found[1]) > _DECIMAL_MAX:
        raise _unfit(value, "decimal", f"a number as 12.50, up to {_DECIMAL_MAX}")
    return text


def boolean(value: Any) -> bool:
    """A truth value."""
    text = _BOOLEANS.get(str(value).strip().lower())
    if text is None:
        raise _unfit(value, "boolean", "true or false")
    return text == "true"


def octets(value: Any) -> bytes:
    """Bytes: as they are, or as base64."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    text = value.get("$base64") if isinstance(value, dict) else value
    try:
        return b64decode(text or "", validate=True)
    except (TypeError, ValueError):
        raise _unfit(value, "base64Binary", "base64") from None


def character(value: Any) -> int:
    """A character as its number, as XmlSerializer writes it."""
    if not isinstance(value, str) or len(value) != 1 or ord(value) > 0xFFFF:
        raise _unfit(value, "char", "one character of 16 bits")
    return ord(value)


def date_time(value: Any) -> str:
    """A date and time in ISO 8601."""
    found = _DATE_TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None or not _is_moment(found):
        raise _unfit(value, "dateTime", "a time as 2026-01-31T12:00:00Z")
    return str(value)


def _is_moment(found: re.Match[str]) -> bool:
    """Whether there is such a day and time; .NET has offsets up to 14 hours."""
    try:
        datetime.fromisoformat(found[1])
    except ValueError:
        return False
    hours, minutes = int(found[2] or 0), int(found[3] or 0)
    return minutes < 60 and 60 * hours + minutes <= _OFFSET_MAX


def _time_span(value: Any) -> str:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _unfit(value, "TimeSpan", "a duration as PT1H30M")
    return value


def whole_text(text: str) -> str:
    """The text, unless it has half a surrogate pair, which no encoding carries."""
    if has_lone_surrogate(text):
        raise FormatError("the text has half a surrogate pair")
    return text


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _unfit(value, "string", "text")
    return value


def _unfit(value: Any, name: str, wanted: str) -> FormatError:
    return FormatError(f"{str(value)[:60]!r} is not a value of the type {name}: give {wanted}")


_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "string": _string,
    "boolean": lambda value: "true" if boolean(value) else "false",
    "double": lambda value: double_text(real(value)),
    "float": lambda value: single_text(to_single(real(value, "float"))),
    "decimal": decimal,
    "dateTime": date_time,
    "guid": lambda value: guid_text(guid_bytes(str(value))),
    "base64Binary": lambda value: b64encode(octets(value)).decode("ascii"),
    "char": lambda value: str(character(value)),
    "TimeSpan": _time_span,
}
TYPES: Final = (*_WRITERS, *RANGES)
"""Names of the types that a value can have."""
