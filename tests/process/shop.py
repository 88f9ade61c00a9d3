"""A shop whose clients use every promise, and what they were told came of it."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import posthouse
from posthouse.model.errors import IoTimeout

ORDERS = r".\private$\orders"  # durable, received by many
DIARY = r".\private$\diary"  # durable, of one sender and one reader: its order matters
LEFT = r".\private$\left"  # transactional: what goes in here ...
RIGHT = r".\private$\right"  # ... goes in here too, in order
MOVED = r".\private$\moved"  # transactional: from LEFT, each once
NOTES = r".\private$\notes"  # express
TRANSACTIONAL = (LEFT, RIGHT, MOVED)
QUEUES = (ORDERS, DIARY, NOTES, *TRANSACTIONAL)
DRAIN_COUNT = 1000


def seed() -> int:
    """For one test; `POSTHOUSE_SEED` repeats it as far as time can be repeated."""
    drawn = os.environ.get("POSTHOUSE_SEED")
    value = int(drawn) if drawn else random.SystemRandom().getrandbits(32)
    print(f"seed {value}: POSTHOUSE_SEED={value} draws the same moments again")
    return value


def open_shop(home: Path) -> None:
    """Makes the queues."""
    with posthouse.connect(home) as qm:
        for name in QUEUES:
            qm.create_queue(name, transactional=name in TRANSACTIONAL)


class Names:
    """Bodies that are all different and tell their sender and their order."""

    def __init__(self, who: str) -> None:
        self.who = who
        self._last = 0

    def take(self, count: int) -> list[bytes]:
        first, self._last = self._last + 1, self._last + count
        return [f"{self.who}/{number}".encode() for number in range(first, self._last + 1)]


@dataclass
class Told:
    """What clients were told. Sets of one kind may grow in several threads."""

    acknowledged: set[bytes] = field(default_factory=set)  # sent to ORDERS, and answered
    unknown: set[bytes] = field(default_factory=set)  # sent to ORDERS, and never answered
    diary: list[bytes] = field(default_factory=list)  # answered, in order
    read: list[tuple[bytes, bool]] = field(default_factory=list)  # from DIARY; and if in doubt
    put_down: set[bytes] = field(default_factory=set)  # read, and ended
    committed: set[bytes] = field(default_factory=set)
    aborted: set[bytes] = field(default_factory=set)
    undecided: list[list[bytes]] = field(default_factory=list)  # commits that nobody answered
    notes: set[bytes] = field(default_factory=set)  # express, sent and answered
    received: Counter[bytes] = field(default_factory=Counter)  # from ORDERS
    doubted: set[bytes] = field(default_factory=set)  # the same, but said to be in doubt
    noted: Counter[bytes] = field(default_factory=Counter)  # received from NOTES
    moved: set[bytes] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, messages: Iterable[posthouse.Message]) -> None:
        """These were received from ORDERS."""
        with self.lock:
            for message in messages:
                if message.in_doubt:
                    self.doubted.add(message.body)
                else:
                    self.received[message.body] += 1


def drain(qm: posthouse.QueueManagerClient, name: str) -> list[bytes]:
    """Everything that is in a queue, in order."""
    queue, bodies = qm.queue(name), list[bytes]()
    while True:
        try:
            bodies += [message.body for message in queue.receive_many(DRAIN_COUNT, 0)]
        except IoTimeout:
            return bodies


def check_balance(qm: posthouse.QueueManagerClient, locked: int | None = None) -> dict[str, int]:
    """The books of every queue balance; returns what each had accepted."""
    books = qm.books()
    assert books.balanced, books
    for book in books.books:
        rest = book.received + book.expired + book.purged + book.rejected
        assert book.accepted == (
            book.waiting + book.locked + rest + book.moved_away + book.lost_express
        ), book
        assert locked is None or book.locked == locked, book
    return {book.queue: book.accepted for book in books.books}


def each_once(found: Iterable[bytes], wanted: set[bytes], allowed: set[bytes]) -> None:
    """All that is wanted is there, nothing twice, and nothing beside it but what is allowed."""
    counts = Counter(found)
    twice = {body: count for body, count in counts.items() if count > 1}
    assert not twice, f"{len(twice)} seen more than once, as {sorted(twice.items())[:3]}"
    missing = wanted - counts.keys()
    assert not missing, f"{len(missing)} lost, as {sorted(missing)[:3]}"
    strange = counts.keys() - wanted - allowed
    assert not strange, f"{len(strange)} that should not be there, as {sorted(strange)[:3]}"
