"""The messages that a pull has taken, in order of their lookup ids at the source.

Lookup ids come in order only where all messages have one priority. So the order is kept in chunks:
an entry in the middle moves the rest of its chunk, and never the rest of millions.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

CHUNK: Final = 512  # entries that a chunk has when it was split; twice as many when it is full


class PullEntry(NamedTuple):
    """A message that was taken: its lookup id at the source, and its digest."""

    lookup_id: int
    digest: int


class PulledEntries:
    """16 bytes for each entry; `moved` counts the entries that others have pushed aside."""

    __slots__ = ("_chunks", "_firsts", "count", "moved")

    def __init__(self) -> None:
        self._chunks: list[tuple[array[int], array[int]]] = []  # identifiers, digests
        self._firsts: list[int] = []
        self.count = 0
        self.moved = 0

    def load(self, pages: bytes) -> None:
        """Takes in everything that the log kept, in any order."""
        words = array("Q", pages)
        if sys.byteorder == "big":
            words.byteswap()
        ids, digests = words[0::2], words[1::2]
        if any(one > other for one, other in pairwise(ids)):
            order = sorted(range(len(ids)), key=ids.__getitem__)
            ids = array("Q", map(ids.__getitem__, order))
            digests = array("Q", map(digests.__getitem__, order))
        self.count = len(ids)
        self._chunks = [
            (ids[at : at + CHUNK], digests[at : at + CHUNK]) for at in range(0, len(ids), CHUNK)
        ]
        self._firsts = [some[0] for some, _ in self._chunks]

    def add(self, entry: PullEntry) -> None:
        """One more, whose identifier is not there yet."""
        self.count += 1
        number = self._chunk_of(entry.lookup_id)
        if number < 0:
            self._chunks.append((array("Q"), array("Q")))
            self._firsts.append(entry.lookup_id)
            number = 0
        ids, digests = self._chunks[number]
        is_last = number == len(self._chunks) - 1
        if is_last and len(ids) >= CHUNK and entry.lookup_id > ids[-1]:
            ids, digests = array("Q"), array("Q")  # in order: full chunks, none is split
            self._chunks.append((ids, digests))
            self._firsts.append(entry.lookup_id)
            number += 1
        at = bisect_left(ids, entry.lookup_id)
        self.moved += len(ids) - at
        ids.insert(at, entry.lookup_id)
        digests.insert(at, entry.digest)
        self._firsts[number] = ids[0]
        if len(ids) >= 2 * CHUNK:
            self._split(number)

    def _split(self, number: int) -> None:
        ids, digests = self._chunks[number]
        self.moved += CHUNK + len(self._chunks) - number
        self._chunks.insert(number + 1, (ids[CHUNK:], digests[CHUNK:]))
        self._firsts.insert(number + 1, ids[CHUNK])
        del ids[CHUNK:], digests[CHUNK:]

    def digest_of(self, lookup_id: int) -> int | None:
        """The digest of an entry; None: there is none."""
        number = self._chunk_of(lookup_id)
        if number < 0:
            return None
        ids, digests = self._chunks[number]
        at = bisect_left(ids, lookup_id)
        return digests[at] if at < len(ids) and ids[at] == lookup_id else None

    def after(self, lookup_id: int, count: int) -> list[PullEntry]:
        """Up to `count` entries with greater identifiers, in order."""
        found: list[PullEntry] = []
        number = self._chunk_of(lookup_id)
        while number < len(self._chunks) and len(found) < count and self._chunks:
            ids, digests = self._chunks[number]
            at = bisect_right(ids, lookup_id)
            end = at + count - len(found)
            found += map(PullEntry, ids[at:end], digests[at:end])
            number += 1
        return found

    def digests(self) -> Iterator[int]:
        """Those of all entries."""
        for _, digests in self._chunks:
            yield from digests

    def _chunk_of(self, lookup_id: int) -> int:
        """The number of the chunk that it belongs to; -1 while there is none."""
        return max(bisect_right(self._firsts, lookup_id) - 1, 0 if self._firsts else -1)
