"""What a benchmark hands back: tables of figures, and goals with their verdicts.

A figure is the median over rounds. Where two candidates are compared, the ratio is made inside
each round and the median taken of the ratios, so that a slow minute of the machine hits both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

Value = str | int | float | None
Row = dict[str, Value]
Show = Callable[[float], str]


class Column(NamedTuple):
    """A column of a table: its key in the JSON lines, its heading, how a number is shown."""

    key: str
    heading: str
    show: Show = str


@dataclass
class Table:
    """One table of one benchmark."""

    benchmark: str
    name: str
    title: str
    columns: Sequence[Column]
    rows: list[Row] = field(default_factory=list)
    note: str = ""


class Beside(NamedTuple):
    """What a ratio that was promised was made of."""

    worst: float  # of the rounds
    best: float
    cpu_us: float  # processor time of a message: ours, ...
    their_cpu_us: float  # ... and theirs


@dataclass(frozen=True)
class Goal:
    """A figure that was promised. `at_most` goals are kept from below, the others from above."""

    benchmark: str
    name: str
    value: float
    required: float
    aim: float | None = None
    at_most: bool = False
    condition: str = ""
    unit: str = ""
    beside: Beside | None = None

    def _keeps(self, limit: float) -> bool:
        return self.value <= limit if self.at_most else self.value >= limit

    @property
    def reached(self) -> bool:
        """Whether what is required is there."""
        return self._keeps(self.required)

    @property
    def verdict(self) -> str:
        """In words."""
        if not self.reached:
            return "not reached"
        return "aim reached" if self.aim is not None and self._keeps(self.aim) else "reached"


class Outcome(NamedTuple):
    """All that a benchmark found."""

    tables: list[Table]
    goals: list[Goal]


class Measurement(NamedTuple):
    """One candidate, one round."""

    messages: int
    wall_s: float
    cpu_s: float
    groups: int = 0
    syncs: int = 0

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Microseconds of processor time a message, all threads of the process together."""
        return self.cpu_s / self.messages * 1e6


def median_rate(rounds: Sequence[Measurement]) -> float:
    """Messages a second."""
    return median(m.rate for m in rounds)


def median_cpu_us(rounds: Sequence[Measurement]) -> float:
    """Processor time a message."""
    return median(m.cpu_us for m in rounds)


def median_ratio(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> float:
    """How many times faster, round by round."""
    return median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def percentile(values: Sequence[float], part: float) -> float:
    """The value that this part of all values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


# -- how numbers are shown


def thousands(value: float) -> str:
    """Counts and rates."""
    return f"{value:,.0f}"


def hundredths(value: float) -> str:
    """Ratios, milliseconds, seconds."""
    return f"{value:,.2f}"


def tenths(value: float) -> str:
    """Microseconds."""
    return f"{value:,.1f}"
