"""Which bytes of a job file are in which message."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

CHUNK_MAX = 1 << 20
PAGE_CHUNKS = 32
GATHERED = 16  # messages of a size class that become one


class Extent(NamedTuple):
    """Bytes of a file that lie in one message."""

    start: int
    end: int
    number: int
    offset: int  # of the first of them in the message


class _Chunk:
    """A message of a file."""

    __slots__ = ("length", "offset", "page", "shown")

    def __init__(self, offset: int, length: int, page: int) -> None:
        self.offset = offset
        self.length = length
        self.page = page
        self.shown = length  # bytes of it that no later write has hidden


class JobFile:
    """Where the bytes of a job are."""

    __slots__ = ("_extents", "chunks", "pages", "stored")

    def __init__(self) -> None:
        self.chunks: dict[int, _Chunk] = {}
        self.pages: dict[int, list[int]] = {}  # numbers of each page's messages
        self.stored = 0  # bytes of its messages
        self._extents: list[Extent] = []

    @property
    def size(self) -> int:
        """One after the last byte."""
        return self._extents[-1].end if self._extents else 0

    def add(self, number: int, offset: int, length: int, page: int) -> list[int]:
        """A message holds these bytes; returns those that are hidden completely."""
        self.chunks[number] = _Chunk(offset, length, page)
        self.pages.setdefault(page, []).append(number)
        self.stored += length
        extents, end = self._extents, offset + length
        low = bisect_right(extents, offset, key=_end)
        high = low
        pieces = [Extent(offset, end, number, 0)]
        hidden: list[int] = []
        while high < len(extents) and extents[high].start < end:
            pieces += self._cut(extents[high], offset, end, hidden)
            high += 1
        extents[low:high] = sorted(pieces)
        return hidden

    def _cut(self, old: Extent, start: int, end: int, hidden: list[int]) -> list[Extent]:
        """What is left of an extent beside a new one."""
        left: list[Extent] = []
        if old.start < start:
            left.append(old._replace(end=start))
        if end < old.end:
            left.append(old._replace(start=end, offset=old.offset + end - old.start))
        chunk = self.chunks[old.number]
        chunk.shown -= old.end - old.start - sum(piece.end - piece.start for piece in left)
        if not chunk.shown:
            hidden.append(old.number)
        return left

    def forget(self, number: int) -> int:
        """A message is gone; returns its page."""
        chunk = self.chunks.pop(number)
        self.stored -= chunk.length
        numbers = self.pages[chunk.page]
        numbers.remove(number)
        if not numbers:
            del self.pages[chunk.page]
        return chunk.page

    def open_page(self) -> int:
        """The page for the next message. Pages come into being in their order."""
        last = next(reversed(self.pages), 0)
        return last + 1 if len(self.pages.get(last, ())) >= PAGE_CHUNKS else last

    def run_before(self, offset: int, low: int, high: int) -> list[int]:
        """Messages of a size class that end where a write begins, in order: whole ones only."""
        at, found = bisect_right(self._extents, offset - 1, key=_end), list[int]()
        if at < len(self._extents) and self._extents[at].start < offset:
            at += 1
        for extent in reversed(self._extents[max(at - GATHERED + 1, 0) : at]):
            size = self.chunks[extent.number].length
            if extent.end != offset or extent.end - extent.start != size or not low <= size < high:
                break
            found.append(extent.number)
            offset = extent.start
        return found[::-1]

    def within(self, start: int, end: int) -> list[Extent]:
        """Extents that have any of these bytes."""
        at = bisect_right(self._extents, start, key=_end)
        found: list[Extent] = []
        while at < len(self._extents) and self._extents[at].start < end:
            found.append(self._extents[at])
            at += 1
        return found


def _end(extent: Extent) -> int:
    return extent.end
