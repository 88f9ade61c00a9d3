"""An index of things by their owner, a session of a protocol.

Owners are the sessions of protocols, told apart by identity: two that look the same are two.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Owned(Generic[K, V]):
    """Values by owner, in the order they came. Every value has to keep its owner alive."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, dict[K, V]] = {}

    def add(self, owner: object, key: K, value: V) -> None:
        """The owner has one more."""
        self._of.setdefault(id(owner), {})[key] = value

    def discard(self, owner: object, key: K) -> None:
        """The owner has it no more; owners without anything leave no trace."""
        values = self._of.get(id(owner))
        if values is not None and values.pop(key, None) is not None and not values:
            del self._of[id(owner)]

    def of(self, owner: object) -> list[V]:
        """All that an owner has, the oldest first; it may change meanwhile."""
        return list(self._of.get(id(owner), {}).values())

    def __len__(self) -> int:
        return len(self._of)
