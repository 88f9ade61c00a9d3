"""Repeated events in the log: the first are lines of their own, the rest are counted in one line.

What strangers cause, such as a session that is opened, can come a thousand times a second. Written
one by one it would fill the log, turn out older lines and hold up the loop. Events of one name, and
of one address where they have one, count together. What somebody with a login did (`by`) is always
written: it is the record of who changed what.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

PERIOD: Final = timedelta(seconds=10)
KINDS_MAX: Final = 1_000  # names and addresses that are told apart

Details = dict[str, object]


class Line(NamedTuple):
    """What goes into the log."""

    level: str
    name: str
    details: Details


@dataclass
class _Kind:
    """Events that count together, in one period."""

    level: str
    began: datetime
    written: int = 0
    left_out: int = 0
    first: datetime | None = None
    last: datetime | None = None
    details: Details | None = None  # of the last that was left out

    def line(self, name: str) -> Line:
        assert self.first is not None
        assert self.last is not None
        between = {"repeated": self.left_out, "first": stamp(self.first), "last": stamp(self.last)}
        return Line(self.level, name, {**between, **(self.details or {})})


def stamp(moment: datetime) -> str:
    """A time as the log writes it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Repeats:
    """Which events are lines of their own: this many of a kind in a period; 0: all of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._began: datetime | None = None  # the oldest period

    def passes(self, now: datetime, level: str, name: str, details: Details) -> bool:
        """Whether an event is written now; if not, it is counted."""
        if not self._most or "by" in details:
            return True
        kind = self._kind(now, level, name, details)
        if kind.written < self._most:
            kind.written += 1
            return True
        kind.left_out += 1
        kind.first = kind.first or now
        kind.last, kind.details, kind.level = now, details, level
        return False

    def _kind(self, now: datetime, level: str, name: str, details: Details) -> _Kind:
        key = name, str(details.get("address", ""))
        if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
            key = name, ""
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = _Kind(level, now)
            self._began = self._began or now
        return found

    def ended(self, now: datetime, *, all_of_them: bool = False) -> list[Line]:
        """The lines for what was left out in periods that are over."""
        if self._began is None or (not all_of_them and not _is_over(self._began, now)):
            return []
        lines = []
        for key, kind in list(self._kinds.items()):
            if all_of_them or _is_over(kind.began, now):
                del self._kinds[key]
                if kind.left_out:
                    lines.append(kind.line(key[0]))
        self._began = min((kind.began for kind in self._kinds.values()), default=None)
        return lines

    @property
    def any_left_out(self) -> bool:
        """Whether a line is due when its period is over."""
        return any(kind.left_out for kind in self._kinds.values())


def _is_over(began: datetime, now: datetime) -> bool:
    return not timedelta() <= now - began < PERIOD  # a clock may be set back
