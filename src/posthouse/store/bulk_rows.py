"""Rows of many messages at once, as arrays: no object for each message.

Imports numpy: import this module only where numpy is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posthouse.engine.ledger.records import ROW_SIZE
from posthouse.engine.ledger.state import State

ROW: Final = np.dtype(
    {
        "names": [
            "lookup_id",
            "queue",
            "expires",
            "arrived",
            "size",
            "ordinal",
            "last_move",
            "message_class",
            "aborts",
            "moves",
            "priority",
            "flags",
            "wants",
            "doomed",
        ],
        "formats": ["<u8", *["<u4"] * 6, *["<u2"] * 3, *["u1"] * 4],
        "offsets": [0, 8, 12, 16, 20, 24, 28, 32, 34, 36, 38, 39, 40, 41],
        "itemsize": ROW_SIZE,
    }
)
"""`posthouse.engine.ledger.records.Row`, packed."""
_NEAR: Final = 8  # numbers so close to each other are fetched with what lies between

Numbers = NDArray[np.uint64]
Rows = NDArray[np.void]


class Look(NamedTuple):
    """Messages of a queue in order of their lookup ids: none up to `last` is missing."""

    numbers: Numbers
    rows: Rows
    last: int

    @property
    def ids(self) -> Numbers:
        """Their lookup ids."""
        ids: Numbers = self.rows["lookup_id"]
        return ids


def look(state: State, queue: int, after: int, through: int, count: int) -> Look:
    """About this many messages of a queue with ids in (after, through], purged ones left out."""
    parts, last = [], through
    order = state.queue(queue).order
    for priority in order.used:
        ids, numbers, complete = order.lane(priority).packed(after, through, count)
        last = min(last, complete)
        parts.append((np.frombuffer(ids, np.uint64), np.frombuffer(numbers, np.uint64)))
    found = _numbers(parts, last)
    rows = rows_of(state, found)
    there = (rows["queue"] == queue) & (rows["doomed"] == 0)
    if not there.all():
        found, rows = found[there], rows[there]
    return Look(found, rows, last)


def _numbers(parts: list[tuple[Numbers, Numbers]], last: int) -> Numbers:
    """Of the lanes together, in order of ids and without holes."""
    if not parts:
        return np.empty(0, np.uint64)
    found: Numbers = parts[0][1]
    if len(parts) == 1:
        found = found[found != 0]
    else:
        ids = np.concatenate([part[0] for part in parts])
        numbers = np.concatenate([part[1] for part in parts])
        there = (numbers != 0) & (ids <= last)
        found = numbers[there][np.argsort(ids[there], kind="stable")]
    return found


def rows_of(state: State, numbers: Numbers) -> Rows:
    """The rows of these messages."""
    return gathered(numbers, state.table.packed, ROW)


Fetch = Callable[[int, int], bytes | bytearray]


def gathered(numbers: Numbers, fetch: Fetch, kind: np.dtype[np.void]) -> Rows:
    """What `fetch(first, count)` has for each number; mostly they follow on each other."""
    count = len(numbers)
    if not count:
        return np.empty(0, kind)
    signed = numbers.view(np.int64)
    steps = np.diff(signed)
    if int(signed[-1]) - int(signed[0]) == count - 1 and (steps == 1).all():
        return np.frombuffer(fetch(int(signed[0]), count), kind)
    begins = np.concatenate(([0], np.flatnonzero((steps <= 0) | (steps > _NEAR)) + 1))
    ends = np.append(begins[1:], count) - 1
    firsts = signed[begins]
    counts = signed[ends] - firsts + 1
    parts = [
        fetch(first, some) for first, some in zip(firsts.tolist(), counts.tolist(), strict=True)
    ]
    bases = np.cumsum(counts) - counts - firsts
    index = signed + np.repeat(bases, ends - begins + 1)
    # As plain bytes: structures are picked field by field, which takes ten times as long.
    rows: Rows = np.frombuffer(b"".join(parts), f"V{kind.itemsize}")[index].view(kind)
    return rows


def within(found: Look, count: int | None, size: int | None, least: int = 1) -> Look:
    """The first of these messages, up to a number and a size; `least` in any case."""
    most = len(found.numbers)
    if size is not None and most:
        sums = np.cumsum(found.rows["size"], dtype=np.int64)
        most = max(int(np.searchsorted(sums, size, "right")), least)
    if count is not None:
        most = min(most, count)
    if most >= len(found.numbers):
        return found
    rows = found.rows[:most]
    last = int(found.rows["lookup_id"][most]) - 1
    return Look(found.numbers[:most], rows, last)


class RowFilter(NamedTuple):
    """Which messages are wanted, by what their rows have; empty sets want all."""

    since: int = 0  # arrived, UTC seconds; both included
    until: int | None = None
    priorities: frozenset[int] = frozenset()
    classes: frozenset[int] = frozenset()

    def applied(self, found: Look) -> Look:
        """Those of the messages that are wanted."""
        wanted = found.rows["arrived"] >= self.since
        if self.until is not None:
            wanted &= found.rows["arrived"] <= self.until
        for name, values in (("priority", self.priorities), ("message_class", self.classes)):
            if values:
                wanted &= np.isin(found.rows[name], list(values))
        if wanted.all():
            return found
        return Look(found.numbers[wanted], found.rows[wanted], found.last)


def rest(found: Look, count: int) -> Look:
    """The others, without the first ones."""
    return Look(found.numbers[count:], found.rows[count:], found.last)


class RangePart(NamedTuple):
    """A part of a range: up to where, how many messages, how many bytes."""

    through: int
    messages: int
    bytes: int


class Sizes(NamedTuple):
    """What a split needs of messages."""

    ids: Numbers
    bytes: NDArray[np.uint32]

    @property
    def nbytes(self) -> int:
        """The memory that this takes."""
        return self.ids.nbytes + self.bytes.nbytes


def sizes(found: Look) -> Sizes:
    """The ids and sizes alone, so that the rows can go."""
    return Sizes(found.ids.copy(), found.rows["size"].copy())


def cuts_of(looks: list[Sizes], parts: int, most: int | None) -> list[RangePart]:
    """Parts of about equal bytes, none with more messages than `most`."""
    ids = np.concatenate([found.ids for found in looks] or [np.empty(0, np.uint64)])
    sizes = np.concatenate([found.bytes for found in looks] or [np.empty(0, np.uint32)])
    count = len(ids)
    if not count:
        return []
    sums = np.cumsum(sizes, dtype=np.int64)
    wanted = np.arange(1, parts) * (int(sums[-1]) / parts)
    # A message belongs to the part in which its middle lies.
    ends = np.unique(np.searchsorted(sums - sizes / 2, wanted, "right"))
    ends = np.append(ends[(ends > 0) & (ends < count)], count)
    if most is not None:
        begins = np.concatenate(([0], ends[:-1]))
        pieces = [
            np.linspace(begin, end, -(-(end - begin) // most) + 1).round().astype(np.int64)[1:]
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        ends = np.concatenate(pieces)
    begins = np.concatenate(([0], ends[:-1]))
    bytes_of = np.diff(np.concatenate(([0], sums[ends - 1])))
    return [
        RangePart(*values)
        for values in zip(
            ids[ends - 1].tolist(), (ends - begins).tolist(), bytes_of.tolist(), strict=True
        )
    ]
