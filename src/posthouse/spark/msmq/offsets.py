"""Offsets of streams from any MSMQ. Lookup ids of others need not grow with time.

On Windows the highest byte of a lookup id is the priority, so that a message that comes
later may have a smaller one. A stream that only looks therefore remembers one identifier for each
highest byte; a stream that consumes remembers which messages its last batch was, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from posthouse.model.errors import InvalidParameter

VERSION: Final = 1
_BAND_BITS: Final = 56
_RUNS: Final = re.compile(r"(\d+(-\d+)?(,\d+(-\d+)?)*)?")
_MARKS: Final = re.compile(r"(\d+(,\d+)*)?")

Offset = dict[str, object]


def offset_of(mode: str, queues: dict[str, str]) -> Offset:
    """An offset as Spark keeps it: keys in order, numbers and texts only."""
    return {"mode": mode, "queues": dict(sorted(queues.items())), "v": VERSION}


def queues_of(mode: str, offset: Offset) -> dict[str, str]:
    """The offset of each queue; one of another kind of stream is refused."""
    queues = offset.get("queues")
    if offset.get("v") != VERSION or offset.get("mode") != mode or not isinstance(queues, dict):
        raise InvalidParameter(
            "the checkpoint is that of another kind of stream",
            "Begin with a new checkpoint, or read with the options it was begun with.",
        )
    return queues


# -- which messages a batch was


def write_ids(ids: Iterable[int]) -> str:
    """Identifiers as text; a row of them without a gap is written by its ends."""
    runs: list[list[int]] = []
    for number in sorted(ids):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in runs)


def read_ids(text: str) -> list[int]:
    """The identifiers of a text."""
    if _RUNS.fullmatch(text) is None:
        raise InvalidParameter("the offset in the checkpoint is damaged")
    return [number for run in text.split(",") if run for number in _run(run)]


def _run(text: str) -> Iterator[int]:
    first, _, last = text.partition("-")
    yield from range(int(first), int(last or first) + 1)


# -- how far a stream has looked


class Marks:
    """The highest identifier seen in each band of them."""

    def __init__(self, text: str = "") -> None:
        if _MARKS.fullmatch(text) is None:
            raise InvalidParameter("the offset in the checkpoint is damaged")
        self._marks: dict[int, int] = {}
        for number in text.split(","):
            if number:
                self.add(int(number))

    def add(self, number: int) -> None:
        """A message was seen."""
        band = number >> _BAND_BITS
        self._marks[band] = max(number, self._marks.get(band, 0))

    def __contains__(self, number: int) -> bool:
        return number <= self._marks.get(number >> _BAND_BITS, 0)

    def __str__(self) -> str:
        return ",".join(map(str, sorted(self._marks.values())))
