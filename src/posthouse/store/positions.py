"""Where the record of each message lies: packed pages by internal number, 12 bytes a message.

An entry outlives its message: it is marked dead when the message ends and freed when the segment
that holds the record is gone. As long as it is there, an ending of that number has to be carried
along by compaction, or a full replay would bring the message back.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping
from operator import sub
from typing import NamedTuple

PAGE_ENTRIES = 256
_SHIFT = 8
_MASK = PAGE_ENTRIES - 1
_ENTRY = struct.Struct("<III")  # segment, offset, size and the dead bit
_ENTRY_SIZE = _ENTRY.size
assert _ENTRY_SIZE == 12
_PAGE_SIZE = PAGE_ENTRIES * _ENTRY_SIZE
_EMPTY_PAGE = bytes(_PAGE_SIZE)
_EMPTY = bytes(_ENTRY_SIZE)
_DEAD = 1 << 31
_SIZE = _DEAD - 1
_MARKED_DEAD = bytes(mark | 0x80 for mark in range(256))

_unpack = _ENTRY.unpack_from
_pack = _ENTRY.pack_into
_place = tuple.__new__


class LogPosition(NamedTuple):
    """The record of a message: its segment, where it begins, its size with header and packet."""

    segment: int
    offset: int
    size: int
    dead: bool


class PlaceColumns(NamedTuple):
    """Where the records of several messages lie."""

    segments: array[int]
    offsets: array[int]
    sizes: array[int]  # 0: no segment holds it

    def part(self, begin: int, end: int) -> PlaceColumns:
        """Some of them."""
        segments, offsets, sizes = self
        return PlaceColumns(segments[begin:end], offsets[begin:end], sizes[begin:end])


class Positions:
    """Internal number to place."""

    __slots__ = ("_noted", "_pages", "_pages_of", "_shared")

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._pages_of: dict[int, set[int]] = {}  # by segment: where places in it may be
        self._noted = (0, 0)
        self._shared: set[int] = set()  # pages that a checkpoint reads: a copy is changed

    def _note(self, segment: int, index: int) -> None:
        self._noted = segment, index
        self._pages_of.setdefault(segment, set()).add(index)

    def put(self, number: int, segment: int, offset: int, size: int) -> None:
        """The newest record of a message that lives."""
        index = number >> _SHIFT
        page = self._pages.get(index)
        if page is None:
            page = self._pages[index] = bytearray(_PAGE_SIZE)
        elif index in self._shared:
            page = self._owned(index)
        if self._noted != (segment, index):
            self._note(segment, index)
        _pack(page, (number & _MASK) * _ENTRY_SIZE, segment, offset, size)

    def put_run(self, numbers: list[int], segment: int, offsets: list[int], end: int) -> None:
        """The newest records of messages, one after the other, the last of them up to `end`."""
        count, first = len(numbers), numbers[0]
        ends = [*offsets[1:], end]
        if numbers != list(range(first, first + count)):
            for number, at, behind in zip(numbers, offsets, ends, strict=True):
                self.put(number, segment, at, behind - at)
            return
        words = array("I", bytes(_ENTRY_SIZE * count))
        words[0::3] = array("I", [segment]) * count
        words[1::3] = array("I", offsets)
        words[2::3] = array("I", map(sub, ends, offsets))
        self._put_packed(first, segment, words.tobytes())

    def _put_packed(self, number: int, segment: int, packed: bytes) -> None:
        at = 0
        while at < len(packed):
            index, slot = number >> _SHIFT, (number & _MASK) * _ENTRY_SIZE
            some = min(len(packed) - at, _PAGE_SIZE - slot)
            page = self._pages.get(index)
            if page is None:
                page = self._pages[index] = bytearray(_PAGE_SIZE)
            elif index in self._shared:
                page = self._owned(index)
            if self._noted != (segment, index):
                self._note(segment, index)
            page[slot : slot + some] = packed[at : at + some]
            number, at = number + some // _ENTRY_SIZE, at + some

    def get(self, number: int) -> LogPosition | None:
        """Where a message lies, dead or alive; None when no segment holds it."""
        page = self._pages.get(number >> _SHIFT)
        if page is None:
            return None
        segment, offset, size = _unpack(page, (number & _MASK) * _ENTRY_SIZE)
        if not size:
            return None
        place: LogPosition = _place(LogPosition, (segment, offset, size & _SIZE, size >= _DEAD))
        return place

    def columns(self, numbers: list[int]) -> PlaceColumns:
        """Where several messages lie, dead or alive; a size of 0 where no segment holds one."""
        first, count = (numbers[0], len(numbers)) if numbers else (0, 0)
        if count and numbers[-1] - first == count - 1 and numbers == [*range(first, first + count)]:
            packed = self.packed(first, count)
        else:
            packed = b"".join([self.packed(number, 1) for number in numbers])
        words = array("I", packed)
        sizes = words[2::3]
        if count and max(sizes) >= _DEAD:
            sizes = array("I", [size & _SIZE for size in sizes])
        return PlaceColumns(words[0::3], words[1::3], sizes)

    def packed(self, first: int, count: int) -> bytes:
        """The places of messages numbered in a row as they lie in memory; zeros where none is."""
        parts: list[bytes] = []
        number, end = first, first + count
        while number < end:
            at = (number & _MASK) * _ENTRY_SIZE
            some = min(end - number, PAGE_ENTRIES - (number & _MASK))
            page = self._pages.get(number >> _SHIFT, _EMPTY_PAGE)
            parts.append(bytes(page[at : at + some * _ENTRY_SIZE]))
            number += some
        return b"".join(parts)

    def are_in(self, segment: int, first: int, last: int) -> bool:
        """Whether all messages numbered from `first` to `last` lie in a segment."""
        number = first
        while number <= last:
            index, some = number >> _SHIFT, min(last + 1 - number, PAGE_ENTRIES - (number & _MASK))
            page = self._pages.get(index)
            if page is None:
                return False
            at = (number & _MASK) * _ENTRY_SIZE
            holders = array("I", page[at : at + some * _ENTRY_SIZE])[0::3]
            if holders.count(segment) != some:
                return False
            number += some
        return first <= last

    def holders(self, first: int, count: int, *, alive: bool = False) -> set[int]:
        """The segments that hold records of messages numbered in a row, or of those that live."""
        found: set[int] = set()
        number, end = first, first + count
        while number < end:
            at = (number & _MASK) * _ENTRY_SIZE
            some = min(end - number, PAGE_ENTRIES - (number & _MASK))
            page = self._pages.get(number >> _SHIFT)
            if page is not None:
                words = array("I", page[at : at + some * _ENTRY_SIZE])
                if not alive or max(words[2::3]) < _DEAD:
                    found.update(words[0::3])
                elif min(words[2::3]) < _DEAD:
                    pairs = zip(words[0::3], words[2::3], strict=True)
                    found.update([segment for segment, size in pairs if size < _DEAD])
            number += some
        found.discard(0)
        return found

    def kill(self, number: int) -> tuple[int, int] | None:
        """The message ended: segment and size of its record, None if there is none alive."""
        index = number >> _SHIFT
        page = self._pages.get(index)
        if page is None:
            return None
        at = (number & _MASK) * _ENTRY_SIZE
        segment, _, size = _unpack(page, at)
        if not size or size >= _DEAD:
            return None
        if index in self._shared:
            page = self._owned(index)
        page[at + 11] |= 0x80
        return segment, size

    def kill_run(self, first: int, count: int) -> tuple[int, int] | None:
        """Messages of one page, numbered in a row, ended: their segment and all their bytes.

        None, and nothing done, unless all of them live and lie in one segment.
        """
        index = first >> _SHIFT
        page = self._pages.get(index)
        if page is None:
            return None
        at = (first & _MASK) * _ENTRY_SIZE
        end = at + count * _ENTRY_SIZE
        words = array("I", page[at:end])
        segments, sizes = words[0::3], words[2::3]
        if segments.count(segments[0]) != count or not 0 < min(sizes) <= max(sizes) < _DEAD:
            return None
        if index in self._shared:
            page = self._owned(index)
        marks = page[at + 11 : end : _ENTRY_SIZE]  # the bytes with the dead bit
        page[at + 11 : end : _ENTRY_SIZE] = marks.translate(_MARKED_DEAD)
        return segments[0], sum(sizes)

    def free(self, number: int, segment: int) -> None:
        """Forgets a place if it is in this segment, which is gone."""
        index = number >> _SHIFT
        page = self._pages.get(index)
        if page is None:
            return
        at = (number & _MASK) * _ENTRY_SIZE
        if _unpack(page, at)[0] == segment:
            page = self._owned(index)
            page[at : at + _ENTRY_SIZE] = _EMPTY
            if page == _EMPTY_PAGE:
                del self._pages[index]

    def free_segment(self, segment: int, pages_max: int | None = None) -> bool:
        """Forgets places in a segment that is gone, on some pages (None: all). True: on all."""
        indexes, self._noted = self._pages_of.get(segment, set()), (0, 0)
        most = len(indexes) if pages_max is None else pages_max
        for _ in range(min(most, len(indexes))):
            index = indexes.pop()
            page = self._pages.get(index)
            if page is None:
                continue
            holders = array("I", page)[::3]
            if holders.count(segment) + holders.count(0) == PAGE_ENTRIES:
                del self._pages[index]
            elif segment in holders:
                self._free_all(self._owned(index), {segment})
        if indexes:
            return False
        self._pages_of.pop(segment, None)
        return True

    def retain(self, segments: set[int]) -> None:
        """Frees every place that is in none of these segments."""
        for index in list(self._pages):
            page = self._pages[index]
            gone = set(array("I", page)[::3]) - segments - {0}
            if gone:
                page = self._owned(index)
                self._free_all(page, gone)
                if page == _EMPTY_PAGE:
                    del self._pages[index]

    def _free_all(self, page: bytearray, gone: set[int]) -> None:
        for at in range(0, _PAGE_SIZE, _ENTRY_SIZE):
            if _unpack(page, at)[0] in gone:
                page[at : at + _ENTRY_SIZE] = _EMPTY

    def numbers(self, segment: int = 0) -> list[int]:
        """The messages that lie in a segment (0: in any), in order of their numbers."""
        return [
            (index << _SHIFT) + slot
            for index in sorted(self._pages)
            for slot, holder in enumerate(array("I", self._pages[index])[::3])
            if holder and segment in (0, holder)
        ]

    def __len__(self) -> int:
        """How many pages are kept, or noted for a segment."""
        return len(self._pages) + sum(map(len, self._pages_of.values()))

    def clear(self) -> None:
        """Forgets everything."""
        self._pages.clear()
        self._pages_of.clear()
        self._noted = 0, 0

    def share(self) -> dict[int, bytearray]:
        """The pages as they are, for a checkpoint; they are not to be changed."""
        self._shared = set(self._pages)
        return dict(self._pages)

    def _owned(self, index: int) -> bytearray:
        """A page that may be changed, a copy of it where a checkpoint shares it."""
        page = self._pages[index]
        if index in self._shared:
            self._shared.discard(index)
            page = self._pages[index] = page[:]
        return page

    @classmethod
    def load(cls, pages: Mapping[int, bytes | bytearray]) -> Positions:
        """Takes over the pages of a checkpoint, a bytearray without copying it.

        ValueError if they are none.
        """
        if any(len(page) != _PAGE_SIZE for page in pages.values()):
            raise ValueError("page of a wrong size")
        positions = cls()
        positions._pages = {
            i: p if isinstance(p, bytearray) else bytearray(p) for i, p in pages.items()
        }
        for index, page in positions._pages.items():
            for segment in set(array("I", page)[::3]) - {0}:
                positions._note(segment, index)
        return positions
