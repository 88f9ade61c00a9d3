"""Which messages left queues a short while ago, and why: a bounded record in memory.

It costs a message that ends one entry for its batch. Rows have no identity of the source: messages
of other machines are found by their number, which other machines may have given as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from posthouse.engine.ledger.records import FLAG_REMOTE, Row
from posthouse.engine.queues.queue import Queue

KEPT_MAX: Final = 20_000  # messages, some 5 MiB; one batch may be more


class Departure(NamedTuple):
    """A message that has left its queue."""

    row: Row
    queue: Queue | None
    utc: int
    reason: int  # a column of the books
    reader: str  # who received it, where that is known


class Departures:
    """The last messages that left."""

    __slots__ = ("_batches", "_count", "reader")

    def __init__(self) -> None:
        self.reader = ""  # who receives what ends now; set and taken back around that
        self._batches: deque[tuple[Queue | None, int, int, str, Sequence[Row]]] = deque()
        self._count = 0

    def note(self, queue: Queue | None, utc: int, reason: int, rows: Sequence[Row]) -> None:
        """Messages leave together; the oldest make room for them."""
        self._batches.append((queue, utc, reason, self.reader, rows))
        self._count += len(rows)
        while self._count > KEPT_MAX and len(self._batches) > 1:
            self._count -= len(self._batches.popleft()[4])

    def find(self, ordinal: int, *, remote: bool) -> list[Departure]:
        """Those with a number, of this machine or of others; the oldest first."""
        return [
            Departure(row, queue, utc, reason, reader)
            for queue, utc, reason, reader, rows in self._batches
            for row in rows
            if row.ordinal == ordinal and bool(row.flags & FLAG_REMOTE) is remote
        ]
