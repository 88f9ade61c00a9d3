"""Retries with growing pauses, until something succeeds."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_DOUBLINGS_MAX = 32


class Retries(Generic[K]):
    """Keys and when each is due; a key that came due is put off, twice as far each time."""

    __slots__ = ("_entries", "_first_ms", "_heap", "_last_ms", "_order")

    def __init__(self, first_ms: int, last_ms: int) -> None:
        self._first_ms = first_ms
        self._last_ms = last_ms
        self._entries: dict[K, tuple[int, int]] = {}  # key: its place in the order, tries so far
        self._heap: list[tuple[int, int, K]] = []
        self._order = 0

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, key: K, at_ms: int) -> None:
        """The first try is due then; one that was begun before begins again."""
        self._put(key, at_ms, 0)

    def drop(self, key: K) -> None:
        """It succeeded, or is no longer wanted."""
        self._entries.pop(key, None)

    def due(self, now_ms: int, count_max: int) -> list[K]:
        """What is to be tried now; each is put off in case it fails."""
        found: list[K] = []
        while len(found) < count_max and (at_ms := self.next_ms()) is not None and at_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            tries = self._entries[key][1]
            pause_ms = self._first_ms << min(tries, _DOUBLINGS_MAX)
            self._put(key, now_ms + min(pause_ms, self._last_ms), tries + 1)
            found.append(key)
        return found

    def next_ms(self) -> int | None:
        """When the next one is due."""
        heap, entries = self._heap, self._entries
        while heap:
            at_ms, order, key = heap[0]
            if key in entries and entries[key][0] == order:
                return at_ms
            heapq.heappop(heap)
        return None

    def _put(self, key: K, at_ms: int, tries: int) -> None:
        self._order += 1
        self._entries[key] = self._order, tries
        heapq.heappush(self._heap, (at_ms, self._order, key))
