"""A queue manager whose log is a list of records, so that a crash can cut it behind any of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from posthouse.engine.ledger.books import lines_of
from posthouse.engine.ledger.records import (
    CHANGE,
    EXPRESS,
    FLAG_EXPRESS,
    MESSAGE,
    Record,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.ledger.state import QueueState, State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.properties import QueueProperties
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.wire.packet.message import deserialize
from tests.engine.settings import engine_settings

T = TypeVar("T")


def replay(log: Sequence[Record]) -> State:
    """The State that durable records say."""
    state = State()
    for kind, _, head, packet in log:
        if kind == MESSAGE:
            state.apply_message(unpack_arrival(head + packet))
        elif kind == CHANGE:
            state.apply_change(unpack_change(head))
    return state


def facts(state: State) -> dict[str, Any]:
    """Everything durable that a State says, in a form that can be compared."""
    rows = {n: row for n, row in state.table.items() if not row.flags & FLAG_EXPRESS}
    return {
        "rows": rows,
        "extras": {n: extra for n, extra in state.extras.items() if n in rows},
        "pending": set(state.pending),
        "doomed": {n for n in state.doomed if n in rows},
        "definitions": state.definitions,
        "queues": {
            number: _queue_facts(queue, rows)
            for number, queue in state.queues.items()
            if any(queue.books)
        },
        "expiring": {n for second, n in _entries(state) if n in rows and second >= rows[n].expires},
    }


def _queue_facts(queue: QueueState, rows: dict[int, Any]) -> tuple[Any, ...]:
    order = [(*place, number) for place, number in queue.order.forward() if number in rows]
    return order, sum(rows[entry[-1]].size for entry in order), queue.books


def _entries(state: State) -> set[tuple[int, int]]:
    days = state.calendar.dump()
    return {
        (second, number)
        for second, numbers in days.items()
        for number in memoryview(numbers).cast("Q")
    }


class Paper:
    """One queue manager; every call is a turn, and its records are in the log afterwards."""

    def __init__(
        self, log: Sequence[Record] = (), clock: SimClock | None = None, **settings: Any
    ) -> None:
        self.settings = engine_settings("ALPHA", **settings)
        self.clock = clock or SimClock()
        self.admin = Caller.administrator()
        self.log = list(log)
        self.packets = {r[1]: r[3] for r in self.log if r[0] == MESSAGE}
        self.manager = QueueManager(
            self.settings,
            replay(self.log),
            self.packets.__getitem__,
            random.Random(7).randbytes,
            lambda numbers: [(b"", self.packets[number]) for number in numbers],
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        self.end_turn()

    def run(self, call: Callable[[QueueManager], T]) -> T:
        """A turn with one call; what it refuses is raised, but its records are kept."""
        self.manager.begin_turn(self.clock.now_ms, self.clock.utc_seconds)
        try:
            return call(self.manager)
        finally:
            self.end_turn()

    def create(self, path: str, **properties: Any) -> Queue:
        return self.run(
            lambda m: m.queues.create_queue(path, QueueProperties(**properties), self.admin)
        )

    def open(self, path: str, access: QueueAccessType) -> OpenQueueDescriptor:
        return self.run(lambda m: m.queues.open_queue(path, access, self.admin))

    def end_turn(self) -> None:
        records = self.manager.take_effects().records
        self.log.extend(records)
        self.packets.update({r[1]: r[3] for r in records if r[0] in (MESSAGE, EXPRESS)})

    def cut(self, length: int) -> Paper:
        """The queue manager that starts after a crash which kept this many records."""
        paper = Paper(self.log[:length], self.clock)
        paper.settings = self.settings
        return paper

    def bodies(self, path: str) -> list[bytes]:
        """The bodies of a queue in queue order; none if there is no such queue."""
        queue = self.manager.queues._local(path)
        numbers = [number for _, number in queue.state.order.forward()]
        return [deserialize(self.packets[number]).body for number in numbers]

    def check(self) -> None:
        """What holds at any time: the log says what the engine believes, and the books balance."""
        core = self.manager.ledger
        assert self._known(facts(core.state)) == self._known(facts(replay(self.log)))
        for queue in self.manager.queues.all():
            for books in lines_of(core.state, core.locks, queue):
                assert books.balanced, (queue.name, books)
        for number, row in core.state.table.items():
            held = number in core.locks or number in core.state.pending
            assert held or not core.queues[row.queue].deleted, (number, row)
        sizes = [row.size for _, row in core.state.table.items() if row.lookup_id]
        assert core.state.bytes == sum(sizes)
        self._check_transactions()

    def _check_transactions(self) -> None:
        """Locks, pending messages and room are those of open transactions and of stages."""
        core, reserved = self.manager.ledger, dict.fromkeys(self.manager.ledger.queues, 0)
        awaited = Counter[int]()
        sent, locked = set[int](), set[int]()
        transactions = self.manager.transactions.collection.open.values()
        for operation in [o for t in transactions for o in t.operations]:
            sending = operation.kind is OperationType.ENQUEUE
            (sent if sending else locked).add(operation.number)
            if operation.kind is OperationType.MOVE and operation.queue in reserved:
                row = self.manager.messages.reading.row(operation.number)
                target = core.queues[operation.queue]
                awaited[target.number] += 1
                if (
                    core.queues[row.queue].root is not target.root
                    and target.root.number in reserved
                ):
                    reserved[target.root.number] += row.size
        for sends in [s for t in transactions for s in t.sends()]:
            if sends.queue in reserved:
                reserved[sends.queue] += sends.size
        uploads = [part for upload in self.manager.stages.uploads for part in upload.parts]
        for part in [p for s in self.manager.stages.stages.values() for p in s.parts] + uploads:
            sent.update(range(part.number, part.number + part.count))
            if part.queue in reserved:
                reserved[part.queue] += part.size
        assert set(core.state.pending) <= sent
        assert locked == {n for n, lock in core.locks.items() if lock.transaction is not None}
        assert {n: queue.reserved for n, queue in core.queues.items()} == reserved
        assert {n: queue.awaited for n, queue in core.queues.items() if queue.awaited} == awaited
        for queue in core.queues.values():
            inside = [sub for sub in core.queues.values() if sub.root is queue and sub is not queue]
            assert queue.state.subqueue_bytes == sum(sub.state.bytes for sub in inside)
        for queue in core.queues.values():
            numbers = [number for _, number in queue.state.order.forward()]
            assert queue.locked == sum(number in core.locks for number in numbers)
            assert numbers or not queue.deleted

    def _known(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Without the books of deleted queues, which the log forgets at the next start only."""
        known = self.manager.ledger.queues
        facts["queues"] = {n: q for n, q in facts["queues"].items() if n in known}
        return facts
