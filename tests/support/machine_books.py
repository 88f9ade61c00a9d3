"""The books of a whole queue manager."""

from __future__ import annotations

from collections.abc import Iterable

from posthouse.engine.ledger.books import Books, books_of
from posthouse.engine.queues.queue import Queue


def machine_books(queues: Iterable[Queue]) -> dict[str, Books]:
    """The books of every queue, by name."""
    return {queue.name: books_of(queue) for queue in queues}
