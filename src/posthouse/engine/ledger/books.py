"""The books: counts of every queue, in which each accepted message ends once."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from posthouse.engine.ledger.records import (
    ACCEPTED,
    EXPIRED,
    FLAG_EXPRESS,
    LOST_EXPRESS,
    MOVED,
    PURGED,
    RECEIVED,
    REJECTED,
)
from posthouse.engine.ledger.state import State
from posthouse.engine.queues.queue import Queue


@dataclass(frozen=True, slots=True)
class Books:
    """The counts of a queue.

    accepted = waiting + locked + received + expired + purged + rejected + moved_away + lost."""

    accepted: int
    waiting: int
    locked: int
    received: int
    expired: int
    purged: int
    rejected: int
    moved_away: int
    lost_express: int

    @property
    def balanced(self) -> bool:
        """Whether the two sides agree."""
        return self.accepted == (
            self.waiting
            + self.locked
            + self.received
            + self.expired
            + self.purged
            + self.rejected
            + self.moved_away
            + self.lost_express
        )

    @property
    def estimated(self) -> bool:
        """Whether a crash took express messages: how many is known only roughly."""
        return self.lost_express > 0


@dataclass(frozen=True, slots=True)
class SenderBooks:
    """The counts of a sender.

    sent = unsent + unacknowledged + delivered + failed, of an outgoing queue."""

    sent: int
    unsent: int
    unacknowledged: int
    delivered: int
    failed: int

    @property
    def balanced(self) -> bool:
        """Whether the two sides agree."""
        return self.sent == self.unsent + self.unacknowledged + self.delivered + self.failed


def _books(line: list[int], count: int, locked: int) -> Books:
    return Books(
        accepted=line[ACCEPTED],
        waiting=count - locked,
        locked=locked,
        received=line[RECEIVED],
        expired=line[EXPIRED],
        purged=line[PURGED],
        rejected=line[REJECTED],
        moved_away=line[MOVED],
        lost_express=line[LOST_EXPRESS],
    )


def books_of(queue: Queue) -> Books:
    """A queue's books, durable and express messages together."""
    state = queue.state
    line = [a + b for a, b in zip(state.books, state.express_books, strict=True)]
    return _books(line, state.count, queue.locked)


def lines_of(state: State, locks: Container[int], queue: Queue) -> tuple[Books, Books]:
    """A queue's durable and express books apart; this looks at every message."""
    express = locked_express = 0
    for _, number in queue.state.order.forward():
        row = state.table.get(number)
        assert row is not None
        if row.flags & FLAG_EXPRESS:
            express += 1
            locked_express += number in locks
    durable = _books(queue.state.books, queue.state.count - express, queue.locked - locked_express)
    return durable, _books(queue.state.express_books, express, locked_express)


def sender_books_of(queue: Queue, unacknowledged: int = 0) -> SenderBooks:
    """The sender's side; its protocol has the count of sent and unacknowledged ones."""
    assert queue.outgoing is not None
    books = books_of(queue)
    failed = books.expired + books.purged + books.rejected + books.moved_away + books.lost_express
    unsent = books.waiting + books.locked - unacknowledged
    return SenderBooks(books.accepted, unsent, unacknowledged, books.received, failed)
