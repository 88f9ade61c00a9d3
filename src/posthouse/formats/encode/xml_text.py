"""Values as the texts that XmlSerializer writes for them, by the name of their type."""

from __future__ import annotations

import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final

from posthouse.formats.limits import FormatError
from posthouse.formats.values import double_text, guid_bytes, guid_text, single_text, to_single

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
_DECIMAL: Final = re.compile(r"-?[0-9]{1,29}(?:\.[0-9]{1,28})?")
_DATE_TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,7})?(?:Z|[+-]\d\d:\d\d)?", re.ASCII
)
_DURATION: Final = re.compile(
    r"-?P(?=.)(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?", re.ASCII
)
_INFINITE: Final = {
    "Infinity": math.inf,
    "-Infinity": -math.inf,
    "INF": math.inf,
    "-INF": -math.inf,
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
    """A floating-point number."""
    if isinstance(value, str):
        value = _INFINITE.get(value, value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _unfit(value, name, "a number, INF, -INF or NaN") from None


def decimal(value: Any) -> str:
    """A decimal with its places."""
    text = str(value) if type(value) in (str, int, float) else ""
    if not _DECIMAL.fullmatch(text):
        raise _unfit(value, "decimal", "a number as 12.50")
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
    if not isinstance(value, str) or not _DATE_TIME.fullmatch(value):
        raise _unfit(value, "dateTime", "a time as 2026-01-31T12:00:00Z")
    return value


def _time_span(value: Any) -> str:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise _unfit(value, "TimeSpan", "a duration as PT1H30M")
    return value


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
