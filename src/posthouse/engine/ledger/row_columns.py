"""The rows of several messages as they lie in memory: read by column, or one at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

from posthouse.engine.ledger.records import (
    FLAG_EXPRESS,
    FLAGS_AT,
    NEVER,
    PRIORITY_AT,
    ROW,
    ROW_SIZE,
    Row,
)

ROW_WORDS: Final = ROW_SIZE // 4
# Words of a row: the lookup id has the first two.
QUEUE_WORD, EXPIRES_WORD, ARRIVED_WORD, SIZE_WORD, ORDINAL_WORD, MOVE_WORD = 2, 3, 4, 5, 6, 7
CLASS_WORD: Final = 8  # class and aborts; the next one has moves, priority and flags
_MOVES_AT, _WANTS_AT = 36, 40
_IS_EXPRESS: Final = bytes(flags & FLAG_EXPRESS for flags in range(256))
_row = tuple.__new__


class Rows(Sequence[Row]):
    """Packed rows. A column of all of them costs less than a field of a few."""

    __slots__ = ("packed", "words")

    def __init__(self, packed: bytes | bytearray) -> None:
        self.packed = packed
        self.words = array("I", packed)

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Rows:
        """These rows, packed unless they are."""
        return rows if isinstance(rows, cls) else cls(b"".join([ROW.pack(*row) for row in rows]))

    def __len__(self) -> int:
        return len(self.packed) // ROW_SIZE

    def __iter__(self) -> Iterator[Row]:
        return iter([_row(Row, values) for values in ROW.iter_unpack(self.packed)])

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Rows: ...
    def __getitem__(self, at: int | slice) -> Row | Rows:
        if isinstance(at, slice):
            begin, end, step = at.indices(len(self))
            assert step == 1
            return Rows(self.packed[begin * ROW_SIZE : end * ROW_SIZE])
        place = range(len(self))[at]
        return _row(Row, ROW.unpack_from(self.packed, place * ROW_SIZE))

    def word(self, place: int) -> array[int]:
        """One of the 32-bit words of each row."""
        return self.words[place::ROW_WORDS]

    @property
    def lookup_ids(self) -> list[int]:
        """The lookup id of each."""
        halves = array("I", bytes(8 * len(self)))
        halves[0::2], halves[1::2] = self.word(0), self.word(1)
        return array("Q", halves.tobytes()).tolist()

    @property
    def priorities(self) -> bytes | bytearray:
        """The priority of each."""
        return self.packed[PRIORITY_AT::ROW_SIZE]

    @property
    def are_of_one_priority(self) -> bool:
        """Whether all of them have the priority of the first."""
        priorities = self.priorities
        return priorities.count(priorities[0]) == len(priorities)

    @property
    def express(self) -> bytes | bytearray:
        """Of each 1 if it is express, else 0."""
        return self.flags.translate(_IS_EXPRESS)

    @property
    def flags(self) -> bytes | bytearray:
        """The flags of each."""
        return self.packed[FLAGS_AT::ROW_SIZE]

    @property
    def wants(self) -> bytes | bytearray:
        """What the sender of each asked for."""
        return self.packed[_WANTS_AT::ROW_SIZE]

    @property
    def want_nothing(self) -> bool:
        """Whether no sender asked for anything, and none of them expires."""
        count = len(self)
        return self.wants.count(0) == count and self.word(EXPIRES_WORD).count(NEVER) == count

    @property
    def last_moves(self) -> array[int]:
        """When each was moved last; 0 where the field is a place in a sequence."""
        moved, count = self.word(MOVE_WORD), len(self)
        marks = self.packed[_MOVES_AT::ROW_SIZE], self.packed[_MOVES_AT + 1 :: ROW_SIZE]
        if marks[0].count(0) == marks[1].count(0) == count:
            return array("I", bytes(4 * count))
        return array("I", _where(moved, marks))


def _where(moved: array[int], marks: tuple[bytes | bytearray, ...]) -> Iterable[int]:
    low, high = marks
    return [at if a or b else 0 for at, a, b in zip(moved, low, high, strict=True)]
