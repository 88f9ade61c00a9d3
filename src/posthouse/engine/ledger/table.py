"""The rows of all waiting messages, by internal number: packed pages, no object per message."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from posthouse.engine.ledger.records import ROW, ROW_SIZE, Row
from posthouse.engine.ledger.row_columns import Rows

PAGE_ROWS = 256
_PAGE_SIZE = PAGE_ROWS * ROW_SIZE
_SHIFT = 8
_MASK = PAGE_ROWS - 1
_EMPTY = bytes(ROW_SIZE)
_NOTHING = bytearray(_PAGE_SIZE)
_QUEUE_AND_EXPIRES = struct.Struct("<8xII")  # of a row

_unpack = ROW.unpack_from
_pack = ROW.pack_into
_row = tuple.__new__


class MessageTable:
    """Number to Row. Numbers are dense and never come back, so a page empties and is freed.

    Pages that a checkpoint shares are not changed: the table goes on with a copy of each.
    """

    __slots__ = ("_live", "_pages", "_shared", "count")

    def __init__(self) -> None:
        self._pages: dict[int, bytearray] = {}
        self._live: dict[int, int] = {}
        self._shared: set[int] = set()
        self.count = 0

    def get(self, number: int) -> Row | None:
        """The row of a message, None when there is no such message."""
        page = self._pages.get(number >> _SHIFT)
        if page is None:
            return None
        row: Row = _row(Row, _unpack(page, (number & _MASK) * ROW_SIZE))
        return row if row.queue else None

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """The rows of messages that are there; mostly they are numbered in a row."""
        pages, row_type, new = self._pages, Row, _row
        rows: list[Row] = []
        at, count = 0, len(numbers)
        while at < count:
            first = numbers[at]
            page, slot = pages[first >> _SHIFT], first & _MASK
            some = min(count - at, PAGE_ROWS - slot)
            row = range(first, first + some)
            if numbers[at + some - 1] != row[-1] or numbers[at : at + some] != list(row):
                rows.append(new(row_type, _unpack(page, slot * ROW_SIZE)))
                at += 1
                continue
            packed = page[slot * ROW_SIZE : (slot + some) * ROW_SIZE]
            rows += [new(row_type, values) for values in ROW.iter_unpack(packed)]
            at += some
        return rows

    def gather(self, numbers: Sequence[int]) -> Rows:
        """The rows of messages, packed; zeros for each that is gone."""
        first, count = (numbers[0], len(numbers)) if numbers else (0, 0)
        if count and numbers[-1] - first == count - 1 and numbers == [*range(first, first + count)]:
            return Rows(self.packed(first, count))
        pages = self._pages
        return Rows(
            b"".join(
                [
                    pages.get(number >> _SHIFT, _NOTHING)[at : at + ROW_SIZE]
                    for number in numbers
                    for at in ((number & _MASK) * ROW_SIZE,)
                ]
            )
        )

    def find(self, numbers: Iterable[int]) -> list[Row]:
        """The rows of messages, some of which may be gone; the row of such a one has no queue."""
        pages, row_type = self._pages, Row
        return [
            _row(
                row_type,
                _unpack(pages.get(number >> _SHIFT, _NOTHING), (number & _MASK) * ROW_SIZE),
            )
            for number in numbers
        ]

    def expiries(self, numbers: array[int]) -> Sequence[int]:
        """When messages expire; 0 for each that is gone."""
        count = len(numbers)
        if count and numbers == array("Q", range(numbers[0], numbers[0] + count)):
            return self.run_expiries(numbers[0], count)
        pages, unpack = self._pages, _QUEUE_AND_EXPIRES.unpack_from
        found = [
            unpack(pages.get(number >> _SHIFT, _NOTHING), (number & _MASK) * ROW_SIZE)
            for number in numbers
        ]
        return [expires if queue else 0 for queue, expires in found]

    def add(self, number: int, packed: bytes) -> None:
        """Packed rows of new messages whose numbers follow on each other.

        The queue of a row is never 0, which marks an empty place.
        """
        index, slot = number >> _SHIFT, (number & _MASK) * ROW_SIZE
        size = len(packed)
        end, rows = slot + size, size // ROW_SIZE
        if end > _PAGE_SIZE:
            here = _PAGE_SIZE - slot
            self.add(number, packed[:here])
            self.add(number + here // ROW_SIZE, packed[here:])
            return
        page = self._pages.get(index)
        if page is None:
            page = self._pages[index] = bytearray(_PAGE_SIZE)
            self._live[index] = rows
        else:
            self._live[index] += rows
            if index in self._shared:
                page = self._owned(index)
        page[slot:end] = packed
        self.count += rows

    def packed(self, number: int, count: int) -> bytearray:
        """The packed rows of messages numbered in a row; zeros for each that is not there."""
        parts = [
            self._pages.get(index, _NOTHING)[slot * ROW_SIZE : (slot + some) * ROW_SIZE]
            for index, slot, some in _slices(number, count)
        ]
        return bytearray().join(parts)

    def run_expiries(self, number: int, count: int) -> array[int]:
        """When messages numbered in a row expire; 0 for each that is not there."""
        return array("I", self.packed(number, count))[3 :: ROW_SIZE // 4]

    def put_run(self, number: int, packed: bytes | bytearray) -> None:
        """New rows, packed, of messages that are all there."""
        at = 0
        for index, slot, some in _slices(number, len(packed) // ROW_SIZE):
            size = some * ROW_SIZE
            self._owned(index)[slot * ROW_SIZE : slot * ROW_SIZE + size] = packed[at : at + size]
            at += size

    def drop_range(self, number: int, count: int) -> None:
        """Forgets those that are there of messages numbered in a row."""
        for index, slot, some in _slices(number, count):
            page = self._pages.get(index)
            if page is None:
                continue
            at, size = slot * ROW_SIZE, some * ROW_SIZE
            gone = some - array("I", page[at : at + size])[2 :: ROW_SIZE // 4].count(0)
            self.count -= gone
            self._live[index] -= gone
            if self._live[index]:
                self._owned(index)[at : at + size] = bytes(size)
            else:
                del self._pages[index], self._live[index]

    def put(self, number: int, row: Row) -> None:
        """The row of a message, new or not."""
        if self.get(number) is None:
            self.add(number, ROW.pack(*row))
        else:
            _pack(self._owned(number >> _SHIFT), (number & _MASK) * ROW_SIZE, *row)

    def drop(self, number: int) -> None:
        """Forgets a message that is there."""
        index = number >> _SHIFT
        live = self._live[index] - 1
        self.count -= 1
        if live:
            self._live[index] = live
            at = (number & _MASK) * ROW_SIZE
            page = self._owned(index) if index in self._shared else self._pages[index]
            page[at : at + ROW_SIZE] = _EMPTY
        else:
            del self._pages[index], self._live[index]

    def drop_run(self, numbers: list[int]) -> None:
        """Forgets messages that are there; those with neighbouring numbers go together."""
        at, count = 0, len(numbers)
        while at < count:
            first = numbers[at]
            index, slot = first >> _SHIFT, first & _MASK
            some = min(count - at, PAGE_ROWS - slot)
            last = first + some - 1
            in_a_row = numbers[at + some - 1] == last  # a cheap check that is mostly enough
            if not in_a_row or numbers[at : at + some] != list(range(first, last + 1)):
                self.drop(first)
                at += 1
                continue
            live = self._live[index] - some
            if live:
                self._live[index] = live
                size = some * ROW_SIZE
                self._owned(index)[slot * ROW_SIZE : slot * ROW_SIZE + size] = bytes(size)
            else:
                del self._pages[index], self._live[index]
            self.count -= some
            at += some

    def __contains__(self, number: int) -> bool:
        return self.get(number) is not None

    def __len__(self) -> int:
        return self.count

    def items(self) -> Iterator[tuple[int, Row]]:
        """All messages in order of their numbers; the table must not change meanwhile."""
        for index in sorted(self._pages):
            base = index << _SHIFT
            for slot, values in enumerate(ROW.iter_unpack(self._pages[index])):
                if values[1]:
                    yield base + slot, _row(Row, values)

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

    def load(self, pages: Mapping[int, bytes | bytearray]) -> None:
        """Takes over the pages of a checkpoint; a bytearray is not copied."""
        self._pages = {i: p if isinstance(p, bytearray) else bytearray(p) for i, p in pages.items()}
        self._live = {index: _live_rows(page) for index, page in pages.items()}
        self.count = sum(self._live.values())


def _slices(number: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Page, first slot and how many, of messages numbered in a row."""
    end = number + count
    while number < end:
        slot = number & _MASK
        some = min(end - number, PAGE_ROWS - slot)
        yield number >> _SHIFT, slot, some
        number += some


def _live_rows(page: bytes | bytearray) -> int:
    if len(page) != _PAGE_SIZE:
        raise ValueError("page of a wrong size")
    # The queue is a row's second field, bytes 8 to 12: taken out of the page by slicing.
    return PAGE_ROWS - array("I", page)[2 :: ROW_SIZE // 4].count(0)
