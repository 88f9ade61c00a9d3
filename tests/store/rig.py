"""A small engine for store tests: it changes a State and makes the records that say so.

Every test that needs a store with contents goes through it, so that State and log agree the way
`posthouse.store.base.Store` asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from posthouse.engine.ledger.records import (
    CHANGE,
    DROP,
    EXPRESS,
    FLAG_EXPRESS,
    KEPT,
    MESSAGE,
    MOVED,
    NEVER,
    RECEIVED,
    Change,
    Define,
    End,
    Record,
    Row,
    Settle,
    Span,
    pack_arrival,
)
from posthouse.engine.ledger.state import State
from posthouse.store.base import Recovered, Store

TABLE = 3  # any table but the books'
NOTHING = Row(*[0] * len(Row._fields))._replace(expires=NEVER, arrived=1)


def packet_of(number: int, size: int = 40) -> bytes:
    """The packet of a message follows from its number."""
    return (f"packet {number} " * (size // 8 + 1)).encode()[:size]


def sender_of(number: int) -> bytes:
    """So does its sender; every third has one."""
    return f"sender {number}".encode() if number % 3 == 0 else b""


Picture = dict[str, object]


def picture(state: State) -> Picture:
    """Everything a State says, in a form that can be compared."""
    return {
        "rows": dict(state.table.items()),
        "order": {
            number: [(tuple(place), message) for place, message in queue.order.forward()]
            for number, queue in state.queues.items()
            if queue.count
        },
        "counts": {n: (q.count, q.bytes) for n, q in state.queues.items() if q.count},
        "books": {n: q.books[1:] for n, q in state.queues.items() if any(q.books[1:])},
        "extras": dict(state.extras),
        "pending": set(state.pending),
        "definitions": dict(state.definitions),
    }


class Rig:
    """A store, its State, and what was told to it."""

    def __init__(self, store: Store, size: int = 40) -> None:
        self.store = store
        self.size = size
        self.recovered: Recovered = store.recover()
        self.state = self.recovered.state
        self.number = 1000 * store.appended  # never given before
        self.lookup_id = self.number
        self.records: list[Record] = []

    # -- deciding

    def send(self, queue: int = 1, *, pending: bool = False, extra: bytes = b"") -> int:
        """A recoverable message."""
        return self._arrive(MESSAGE, queue, 0, pending, extra)

    def send_express(self, queue: int = 1) -> int:
        """An express message."""
        return self._arrive(EXPRESS, queue, FLAG_EXPRESS, False, b"")

    def _arrive(self, kind: int, queue: int, flags: int, pending: bool, extra: bytes) -> int:
        self.number += 1
        number, packet = self.number, packet_of(self.number, self.size)
        lookup_id = 0 if pending else self._next_lookup_id()
        row = NOTHING._replace(
            lookup_id=lookup_id,
            queue=queue,
            size=len(packet),
            priority=number % 8,
            flags=flags,
        )
        self.state.arrive(number, row, extra)
        head = pack_arrival(number, row, Span(), sender_of(number), extra)
        self.records.append((kind, number, head, packet))
        return number

    def _next_lookup_id(self) -> int:
        self.lookup_id += 1
        return self.lookup_id

    def change(self, change: Change) -> None:
        """Any atomic step."""
        self.state.apply_change(change)
        self.records.append((CHANGE, 0, change.pack(), b""))

    def settle(self, number: int, reason: int = KEPT, extra: bytes = b"", **fields: int) -> None:
        """A message's new row."""
        row = self.state.table.get(number)
        assert row is not None
        change = Change()
        change.settles.append(Settle(number, reason, row._replace(**fields), extra))
        self.change(change)

    def commit(self, number: int) -> None:
        """A pending message becomes available."""
        self.settle(number, lookup_id=self._next_lookup_id())

    def move(self, number: int, queue: int) -> None:
        """A message goes to another queue."""
        self.settle(number, MOVED, queue=queue, lookup_id=self._next_lookup_id())

    def end(self, *numbers: int, reason: int = RECEIVED) -> None:
        """Messages are gone."""
        change = Change()
        change.ends.extend(End(number, reason) for number in numbers)
        self.change(change)

    def drop(self, number: int) -> None:
        """An express message is gone."""
        self.state.end(number, RECEIVED)
        self.records.append((DROP, number, b"", b""))

    def define(self, key: bytes, value: bytes | None) -> None:
        """An object's value."""
        change = Change()
        change.defines.append(Define(TABLE, key, value))
        self.change(change)

    # -- doing

    def flush(self) -> int:
        """Appends what was decided."""
        records, self.records = self.records, []
        return self.store.append(records)

    def keep(self) -> int:
        """Appends and syncs."""
        self.flush()
        return self.store.sync()

    def tidy(self) -> None:
        """Upkeep until there is none left."""
        for _ in range(10_000):
            if not self.store.tidy():
                return
            self.store.sync()
        raise AssertionError("upkeep never ends")

    def durable_numbers(self) -> list[int]:
        """Messages that are not express, in order of their numbers."""
        return [n for n, row in self.state.table.items() if not row.flags & FLAG_EXPRESS]

    def check_packets(self) -> None:
        """Every message can be read."""
        for number, row in self.state.table.items():
            assert self.store.read(number) == packet_of(number, row.size)
            assert self.store.read_sender(number) == sender_of(number)


def random_step(rig: Rig, chance: Random, queues: int = 3) -> None:
    """One decision of a busy day."""
    numbers = rig.durable_numbers()
    steps: list[Callable[[], object]] = [
        lambda: rig.send(chance.randint(1, queues), extra=chance.choice((b"", b"extra"))),
        lambda: rig.send(chance.randint(1, queues), pending=True),
        lambda: rig.define(b"key%d" % chance.randint(0, 5), chance.choice((None, b"v" * 9, b"w"))),
    ]
    if numbers:
        number = chance.choice(numbers)
        row = rig.state.table.get(number)
        assert row is not None
        steps.append(lambda: rig.end(*chance.sample(numbers, min(len(numbers), 3))))
        if row.lookup_id:
            steps.append(lambda: rig.move(number, chance.randint(1, queues)))
            steps.append(lambda: rig.settle(number, aborts=row.aborts + 1))
        else:
            steps.append(lambda: rig.commit(number))
    chance.choice(steps)()
