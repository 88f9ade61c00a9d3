"""A queue manager that takes runs of equal packets, and what is compared of it."""

from __future__ import annotations

from typing import Any

from posthouse.engine.ledger.records import (
    NEVER,
    Row,
)
from posthouse.engine.ledger.state import State
from tests.engine.rig import Rig

QUEUE = 16


def contents(state: State) -> tuple[Any, ...]:
    """Everything a state says, however it is laid out."""
    return (
        list(state.table.items()),
        {n: list(q.order.forward()) for n, q in state.queues.items()},
        {n: (q.count, q.bytes, q.books, q.express_books) for n, q in state.queues.items()},
        state.bytes,
        state.extras,
        set(state.pending),
    )


ROW_OF_MANY = Row(7, QUEUE, NEVER, 5, 100, 1, 0, 2, 0, 0, 3, 0, 0)


def told(rig: Rig) -> tuple[Any, ...]:
    """What the engine and its log know, the packets and their senders included."""
    numbers = [number for number, _ in rig.manager.ledger.state.table.items()]
    return (
        contents(rig.manager.ledger.state),
        [(number, rig.store.read(number), rig.store.read_sender(number)) for number in numbers],
        rig.manager.machine.next_ordinal,
        rig.manager.machine.next_lookup_id,
    )
