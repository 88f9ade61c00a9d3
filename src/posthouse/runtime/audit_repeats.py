"""Counts refusals that are alike: the first of a minute are written, the rest become one entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from posthouse.protocols.handlers.audit_trail import Act

Kind = tuple[str, ...]
OTHERS: Final[Kind] = ()  # all kinds that come after the bound on entries of a minute


@dataclass
class Alike:
    """Refusals of one kind in one minute; `act` and `error` are those of the first."""

    minute: int
    act: Act
    error: str
    written: int = 0
    more: int = 0


class Repeats:
    """Which refusals have an entry of their own.

    In a minute `alike_max` of a kind have one, and `entries_max` of all kinds.
    """

    def __init__(self, alike_max: int, entries_max: int) -> None:
        self.alike_max = alike_max
        self.entries_max = entries_max
        self._kinds: dict[Kind, Alike] = {}
        self._written = 0

    def is_counted(self, kind: Kind, act: Act, error: str, minute: int) -> bool:
        """Whether a refusal is only counted. Ask `ended` for the minutes before first."""
        if self._written >= self.entries_max and kind not in self._kinds:
            kind, act = OTHERS, act._replace(user="", address="")
        alike = self._kinds.get(kind)
        if alike is None:
            alike = self._kinds[kind] = Alike(minute, act._replace(object={}), error)
        if alike.written < self.alike_max and self._written < self.entries_max:
            alike.written += 1
            self._written += 1
            return False
        alike.more += 1
        return True

    def ended(self, before: int, now: int) -> Iterator[tuple[Alike, int]]:
        """What was counted in the minutes before one; kinds of minutes that are over go."""
        first = next(iter(self._kinds.values()), None)
        if first is None or first.minute >= before:  # all of them are of one minute
            return
        for alike in self._kinds.values():
            more, alike.more = alike.more, 0
            if more:
                yield alike, more
        if first.minute < now:
            self._kinds.clear()
            self._written = 0
