"""Things with a limit: what strangers can make up, and what there may be so many of."""

from typing import TypeVar

from posthouse.model.errors import InsufficientResources

Key = TypeVar("Key")
Value = TypeVar("Value")


class Bounded(dict[Key, Value]):
    """A dictionary of so many entries; the one that came first makes room for a new one."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: Key, value: Value) -> None:
        if key not in self and len(self) >= self._limit:
            del self[next(iter(self))]
        super().__setitem__(key, value)


def require_room(count: int, limit: int, what: str, remedy: str = "") -> None:
    """Refuses one more where there are as many as there can be."""
    if count >= limit:
        raise InsufficientResources(f"there are {limit} {what}, and no more can be", remedy)
