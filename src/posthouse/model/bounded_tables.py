"""Tables with a size limit, for entries that strangers can create."""

from collections.abc import Callable
from itertools import islice
from sys import maxsize
from typing import TypeVar

from posthouse.model.address_prefixes import source_of
from posthouse.model.errors import InsufficientResources

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A dictionary of this many entries; the one that came first makes room for a new one."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        if key not in self and len(self) >= self._limit:
            del self[next(iter(self))]
        super().__setitem__(key, value)


class Shared(dict[Key, Value]):
    """A dictionary of this many entries, each of a host; a flood from one drops nothing of another.

    The oldest entry of the address that has most of them makes room for a new one. An entry that is
    set again is a new one.
    """

    def __init__(self, host: Callable[[Key, Value], str], limit: int = maxsize) -> None:
        super().__init__()
        self._limit = limit
        self._host = host
        self._shares: dict[str, dict[Key, None]] = {}

    def __setitem__(self, key: Key, value: Value) -> None:
        if key in self:
            del self[key]
        elif len(self) >= self._limit:
            del self[self.surplus()]
        super().__setitem__(key, value)
        self._shares.setdefault(source_of(self._host(key, value)), {})[key] = None

    def __delitem__(self, key: Key) -> None:
        share = source_of(self._host(key, self[key]))
        super().__delitem__(key)
        del self._shares[share][key]
        if not self._shares[share]:
            del self._shares[share]

    def surplus(self) -> Key:
        """The entry that makes room."""
        return self.oldest_of_most(1)[0]

    def oldest_of_most(self, count: int) -> list[Key]:
        """The oldest entries of the address that has most of them."""
        largest = max(self._shares.values(), key=len)
        return list(islice(largest, count))


def has_share(own: int, taken: int, most: int) -> bool:
    """Whether an owner of some places may take one more: while more are free than it holds.

    Alone one gets half of them, and those who come later always find some.
    """
    return own < most - taken


class HeldPlaces:
    """Places of a limited number, counted by who holds them."""

    __slots__ = ("_of", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self._of: dict[bytes, int] = {}

    def of(self, owner: bytes) -> int:
        """How many an owner holds."""
        return self._of.get(owner, 0)

    def has_room(self, owner: bytes, most: int, count: int = 1) -> bool:
        """Whether an owner may take this many more."""
        more = count - 1
        return has_share(self.of(owner) + more, self.taken + more, most)

    def take(self, owner: bytes) -> None:
        """One more of an owner."""
        self.taken += 1
        self._of[owner] = self._of.get(owner, 0) + 1

    def give(self, owner: bytes) -> None:
        """One less."""
        self.taken -= 1
        left = self._of[owner] - 1
        if left:
            self._of[owner] = left
        else:
            del self._of[owner]


def require_room(count: int, limit: int, what: str, remedy: str = "") -> None:
    """Refuses one more where there are as many as there can be."""
    if count >= limit:
        raise InsufficientResources(f"there are {limit} {what}, which is the limit", remedy)
