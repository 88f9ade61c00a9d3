"""Values of .NET and COM in the JSON conventions that all decoders share."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64encode
from datetime import datetime, timedelta
from typing import Any, Final

from posthouse.formats.limits import FormatError

TICKS_MAX: Final = 3_155_378_975_999_999_999  # the last tick of the year 9999
TICKS_PER_SECOND: Final = 10_000_000
_YEAR_ONE: Final = datetime(1, 1, 1)
_GUID: Final = struct.Struct("<IHH8s")
_SCALE_MAX: Final = 28
_FRACTION: Final = re.compile(r"[0-9]{0,7}")
KIND_UNSPECIFIED: Final = 0
KIND_UTC: Final = 1
_TICKS_OF_DATE_DATA: Final = (1 << 62) - 1


def bytes_value(data: bytes) -> dict[str, str]:
    """Bytes as JSON."""
    return {"$base64": b64encode(data).decode("ascii")}


def float_value(number: float) -> float | str:
    """A floating-point number; what JSON cannot write is a string."""
    if math.isfinite(number):
        return number
    if math.isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def guid_text(data: bytes) -> str:
    """A GUID of 16 bytes, the first three fields little-endian."""
    first, second, third, rest = _GUID.unpack(data)
    tail = rest.hex()
    return f"{first:08x}-{second:04x}-{third:04x}-{tail[:4]}-{tail[4:]}"


def guid_bytes(text: str) -> bytes:
    """The 16 bytes of a GUID written with hyphens, perhaps in braces."""
    digits = text.strip().strip("{}").replace("-", "")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        data = b""
    if len(data) != 16:
        raise FormatError(f"{text[:60]!r} is not a GUID")
    return data[3::-1] + data[5:3:-1] + data[7:5:-1] + data[8:]


def ticks_text(ticks: int) -> str:
    """Ticks of 100 ns since the year 1 as ISO 8601, without a zone."""
    if not 0 <= ticks <= TICKS_MAX:
        raise FormatError(f"{ticks} ticks are not a date")
    seconds, fraction = divmod(ticks, TICKS_PER_SECOND)
    text = (_YEAR_ONE + timedelta(seconds=seconds)).isoformat()
    return f"{text}.{fraction:07}".rstrip("0") if fraction else text


def ticks_of(moment: str) -> int:
    """Ticks of an ISO 8601 date without a zone, or in UTC."""
    whole, _, fraction = moment.removesuffix("Z").partition(".")
    try:
        since = datetime.fromisoformat(whole) - _YEAR_ONE
        if not _FRACTION.fullmatch(fraction):
            raise ValueError
        part = int(fraction.ljust(7, "0"))
    except (ValueError, TypeError):
        raise FormatError(
            f"{moment[:60]!r} is not a date and time without an offset, as 2026-01-31T12:00:00"
        ) from None
    return (since.days * 86_400 + since.seconds) * TICKS_PER_SECOND + part


def date_data_value(data: int) -> Any:
    """A DateTime of .NET: 62 bits of ticks and 2 bits of kind."""
    text = ticks_text(data & _TICKS_OF_DATE_DATA)
    kind = data >> 62
    if kind == KIND_UNSPECIFIED:
        return text
    if kind == KIND_UTC:
        return text + "Z"
    return {"$type": "System.DateTime", "kind": "local", "value": text}


def time_span_text(ticks: int) -> str:
    """A TimeSpan as .NET prints it: [-][d.]hh:mm:ss[.fffffff]."""
    seconds, fraction = divmod(abs(ticks), TICKS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    text = (
        f"{'-' if ticks < 0 else ''}{f'{days}.' if days else ''}{hour:02}:{minute:02}:{second:02}"
    )
    return f"{text}.{fraction:07}" if fraction else text


def duration_text(ticks: int) -> str:
    """A TimeSpan in ISO 8601, as XML has it."""
    seconds, fraction = divmod(abs(ticks), TICKS_PER_SECOND)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    exact = f"{second}.{fraction:07}".rstrip("0") if fraction else str(second)
    parts = ((hour, f"{hour}H"), (minute, f"{minute}M"), (second or fraction, f"{exact}S"))
    time = "".join(text for count, text in parts if count)
    date = f"{days}D" if days else ""
    if not date and not time:
        return "PT0S"
    return f"{'-' if ticks < 0 else ''}P{date}{'T' if time else ''}{time}"


def scaled_text(number: int, scale: int) -> str:
    """An integer divided by a power of ten, with all its places."""
    if not scale:
        return str(number)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def decimal_text(high: int, low: int, scale: int, negative: bool) -> str:
    """A System.Decimal: 96 bits, a scale and a sign."""
    if scale > _SCALE_MAX:
        raise FormatError(f"a decimal with the scale {scale}")
    number = high << 64 | low
    text = scaled_text(number, scale)
    return f"-{text}" if negative and number else text


def currency_text(units: int) -> str:
    """VT_CY: ten-thousandths, without zeros at the end."""
    text = scaled_text(units, 4).rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def double_text(number: float) -> str:
    """A double as .NET writes it into XML: the shortest text that reads back the same."""
    text = repr(number)
    if "e" not in text and -1e15 < number < 1e15:
        return text.removesuffix(".0")
    return _number_text(number, text, 15)


def single_text(number: float) -> str:
    """A single as .NET writes it into XML."""
    for digits in (6, 7, 8, 9):
        text = f"{number:.{digits}g}"
        if not math.isfinite(number) or to_single(float(text)) == number:
            break
    return _number_text(number, text, 7)


def to_single(number: float) -> float:
    """The nearest number of single precision."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _number_text(number: float, shortest: str, precision: int) -> str:
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "INF" if number > 0 else "-INF"
    sign = "-" if shortest.startswith("-") else ""
    digits, exponent = _digits(shortest.lstrip("-"))
    if not digits:
        return f"{sign}0"
    if not -5 < exponent < precision:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{rest}E{'+' if exponent >= 0 else '-'}{abs(exponent):02}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}{f'.{rest}' if rest else ''}"


def _digits(text: str) -> tuple[str, int]:
    """Significant digits and the decimal exponent of the first of them."""
    mantissa, _, power = text.partition("e")
    whole, _, rest = mantissa.partition(".")
    digits = whole + rest
    leading = len(digits) - len(digits.lstrip("0"))
    exponent = len(whole) - 1 - leading + int(power or 0)
    return digits.strip("0"), exponent
