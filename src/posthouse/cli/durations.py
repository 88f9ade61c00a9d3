"""Durations on the command line: `5s`, `12h`, `1.5`, which is seconds."""

from __future__ import annotations

from collections.abc import Callable

import typer

from posthouse.cli.output import safe
from posthouse.model.durations import DURATION_REMEDY, UNITS, parse_duration


def seconds(text: str) -> float:
    """The seconds that a text means; a bare number is seconds."""
    found = parse_duration(text)
    if found is None:
        raise typer.BadParameter(f"{safe(repr(text))} is not a duration. {DURATION_REMEDY}")
    return found


def duration(least: float = 0.0, most: float = 1e12) -> Callable[[str | float], float]:
    """A parser of durations between two limits."""

    def parse(text: str | float) -> float:
        value = seconds(text) if isinstance(text, str) else float(text)
        if not least <= value <= most:
            raise typer.BadParameter(
                f"{safe(str(text))} is not between {shown(least)} and {shown(most)}."
            )
        return value

    return parse


def whole_seconds(most: int) -> Callable[[str | int], int]:
    """A parser of durations that messages carry: whole seconds, rounded up."""
    parse = duration(0, most)
    return lambda text: text if isinstance(text, int) else -int(-parse(text) // 1)


def shown(value: float) -> str:
    """`5s`, `12h`: the largest unit that has no fraction."""
    for unit in ("w", "d", "h", "m", "s"):
        if value and value % UNITS[unit] == 0:
            return f"{value / UNITS[unit]:.0f}{unit}"
    return f"{value:g}s"
