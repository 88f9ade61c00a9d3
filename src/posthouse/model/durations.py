"""Durations as people write them, `5s`, `12h`, and as programs give them, seconds or timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from numbers import Real
from types import NoneType
from typing import Final

Seconds = float | timedelta
PLAIN_SECONDS: Final = frozenset((int, float, NoneType))  # types that `seconds` leaves as they are
UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
DURATION_REMEDY: Final = "Write 500ms, 5s, 10m, 12h, 30d or 2w."
_TEXT: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|[smhdw]?)", re.ASCII)


def parse_duration(text: str) -> float | None:
    """The seconds that a text means, None for any other text; a bare number is seconds."""
    found = _TEXT.fullmatch(text.strip())
    return None if found is None else float(found[1]) * UNITS[found[2] or "s"]


def seconds(value: Seconds | None, name: str = "timeout") -> float | None:
    """Return a duration in seconds; None, which is for ever, stays None."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if value is None or (isinstance(value, Real) and not isinstance(value, bool)):
        return value if value.__class__ in PLAIN_SECONDS else float(value)  # type: ignore[arg-type]
    raise TypeError(f"{name} takes seconds or a timedelta, not {value!r}")


def finite_seconds(value: Seconds, name: str = "timeout") -> float:
    """Return a duration in seconds that cannot be for ever."""
    found = seconds(value, name)
    if found is None:
        raise TypeError(f"{name} takes seconds or a timedelta, not None")
    return found
