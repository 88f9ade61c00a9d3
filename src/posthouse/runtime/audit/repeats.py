"""Counts refusals that are alike: the first of a minute are written, the rest become one entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from posthouse.protocols.handlers.audit_trail import Act

Kind = tuple[str, ...]
OTHERS: Final[Kind] = ()  # those of all owners that come after the bound on owners


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

    In a minute `alike_max` of a kind have one, `owner_max` of whom they are of (the first part of a
    kind), and `entries_max` of all. Who has had as many, or comes when all have, is only counted:
    in one entry for each of the first `owners_max`, in one for all others.
    """

    def __init__(
        self, alike_max: int, owner_max: int, entries_max: int, owners_max: int = 100
    ) -> None:
        self.alike_max = alike_max
        self.owner_max = owner_max
        self.entries_max = entries_max
        self.owners_max = owners_max
        self._kinds: dict[Kind, Alike] = {}
        self._counted: dict[Kind, Alike] = {}  # by owner alone
        self._of_owner: Counter[str] = Counter()
        self._written = 0

    def is_counted(self, kind: Kind, act: Act, error: str, minute: int) -> bool:
        """Whether a refusal is only counted. Ask `ended` for the minutes before first."""
        act, owner = act._replace(object={}), kind[0]
        has_room = self._written < self.entries_max and self._of_owner[owner] < self.owner_max
        alike = self._kinds.get(kind)
        if alike is None and has_room:
            alike = self._kinds[kind] = Alike(minute, act, error)
        if alike is None:
            self._owners_own(owner, act, error, minute).more += 1
            return True
        if has_room and alike.written < self.alike_max:
            alike.written += 1
            self._written += 1
            self._of_owner[owner] += 1
            return False
        alike.more += 1
        return True

    def _owners_own(self, owner: str, act: Act, error: str, minute: int) -> Alike:
        """What counts the refusals of an owner that are in no kind."""
        key: Kind = (owner,)
        if key not in self._counted and len(self._counted) >= self.owners_max:
            key, act = OTHERS, act._replace(user="", address="")
        return self._counted.setdefault(key, Alike(minute, act, error))

    def ended(self, before: int, now: int) -> Iterator[tuple[Alike, int]]:
        """What was counted in the minutes before one; kinds of minutes that are over go.

        A minute that is still to come is over too: the clock was set back.
        """
        all_of_them = [*self._kinds.values(), *self._counted.values()]
        if not all_of_them or before <= (minute := all_of_them[0].minute) <= now:
            return  # all of them are of one minute
        for alike in all_of_them:
            more, alike.more = alike.more, 0
            if more:
                yield alike, more
        if minute != now:
            self._kinds.clear()
            self._counted.clear()
            self._of_owner.clear()
            self._written = 0
