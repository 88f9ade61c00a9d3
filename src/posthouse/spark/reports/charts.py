"""Charts as SVG: bars and lines, drawn by hand so that a report needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from posthouse.spark.reports.page_text import escaped

WIDTH: Final = 860
_LEFT: Final = 280
_ROW: Final = 24
_HEIGHT: Final = 240
_BARS_MAX: Final = 30
_NAME_MAX: Final = 34
_COLOURS: Final = ("#2563a8", "#c2571a", "#2e7d4f", "#8a3ea8", "#a83232", "#5f6b7a")


def bars(rows: Iterable[tuple[str, float]]) -> str:
    """A bar for each name, with its value after it; the first ones where there are many."""
    shown = list(rows)[:_BARS_MAX]
    largest = max((value for _, value in shown), default=0) or 1
    lines = [_bar(number, name, value, largest) for number, (name, value) in enumerate(shown)]
    return _svg(_ROW * len(shown) + 8, lines)


def _bar(number: int, name: str, value: float, largest: float) -> str:
    y, length = number * _ROW + 4, (WIDTH - _LEFT - 90) * max(value, 0) / largest
    text = f'y="{y + 15}" font-size="12"'
    return (
        f'<text x="{_LEFT - 8}" {text} text-anchor="end">{escaped(_short(name))}'
        f"<title>{escaped(name)}</title></text>"
        f'<rect x="{_LEFT}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 8}" '
        f'fill="{_COLOURS[0]}"/>'
        f'<text x="{_LEFT + length + 6:.1f}" {text}>{figure(value)}</text>'
    )


def lines(labels: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """A line for each series over the same labels; where it has no value it has a gap."""
    values = [value for one in series.values() for value in one if value is not None]
    top = max(values, default=0) or 1
    drawn = [_axes(labels, top)]
    for number, (name, points) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        drawn.append(_line(points, top, colour))
        drawn.append(
            f'<text x="{60 + number * 130}" y="14" font-size="12" fill="{colour}">'
            f"{escaped(_short(name))}</text>"
        )
    return _svg(_HEIGHT + 40, drawn)


def _axes(labels: Sequence[str], top: float) -> str:
    bottom = _HEIGHT + 10
    first, last = (labels[0], labels[-1]) if labels else ("", "")
    grey = 'stroke="#999" stroke-width="1"'
    return (
        f'<line x1="50" y1="{bottom}" x2="{WIDTH - 10}" y2="{bottom}" {grey}/>'
        f'<line x1="50" y1="24" x2="50" y2="{bottom}" {grey}/>'
        f'<text x="44" y="32" font-size="11" text-anchor="end">{figure(top)}</text>'
        f'<text x="44" y="{bottom}" font-size="11" text-anchor="end">0</text>'
        f'<text x="50" y="{bottom + 18}" font-size="11">{escaped(first)}</text>'
        f'<text x="{WIDTH - 10}" y="{bottom + 18}" font-size="11" text-anchor="end">'
        f"{escaped(last)}</text>"
    )


def _line(points: Sequence[float | None], top: float, colour: str) -> str:
    step = (WIDTH - 70) / max(len(points) - 1, 1)
    places = [
        None
        if value is None
        else (50 + index * step, _HEIGHT + 10 - (_HEIGHT - 20) * max(value, 0) / top)
        for index, value in enumerate(points)
    ]
    dots = "".join(
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="2.5" fill="{colour}"/>'
        for place in places
        if place is not None
    )
    return "".join(_pieces(places, colour)) + dots


def _pieces(places: Sequence[tuple[float, float] | None], colour: str) -> Iterable[str]:
    for before, behind in pairwise(places):
        if before is not None and behind is not None:
            yield (
                f'<line x1="{before[0]:.1f}" y1="{before[1]:.1f}" x2="{behind[0]:.1f}" '
                f'y2="{behind[1]:.1f}" stroke="{colour}" stroke-width="2"/>'
            )


def _svg(height: int, drawn: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'font-family="sans-serif">{"".join(drawn)}</svg>'
    )


def _short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…"


def figure(value: float) -> str:
    """A number for people."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
