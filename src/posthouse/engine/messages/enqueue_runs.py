"""Commits of transactions that are nothing but batches of plain sends: the common case, at once."""

from __future__ import annotations

from itertools import pairwise

from posthouse.engine.ledger.core import Core
from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    NEVER,
    Change,
    Row,
)
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import EnqueueRun
from posthouse.wire.packet.glance import Glance


def plain_run(
    core: Core,
    queue: Queue,
    packets: list[bytes],
    looks: list[Glance],
    ordinals: list[int],
    sender: bytes,
) -> EnqueueRun:
    """Sends to a queue of this machine that ask for nothing and are alike."""
    row = Row(
        *(0, queue.number, NEVER, core.utc, 0, 0, 0, looks[0].message_class, 0, 0, 0),
        FLAG_TRANSACTIONAL,
        0,
    )
    numbers = core.message_numbers.run(len(packets))
    return EnqueueRun(queue.number, numbers, row, packets, looks, ordinals, sender)


def commit_runs(core: Core, runs: list[EnqueueRun], change: Change) -> bool:
    """Transaction Commit (3.1.4.4) of sends. False: they have to be committed one by one."""
    for run in runs:
        queue = core.queues.get(run.queue)
        if queue is None or queue.deleted or queue.outgoing is not None:
            return False
    first = {run.queue: run for run in reversed(runs)}
    last = {run.queue: run for run in runs}
    for run in runs:
        _commit(core, run, change, first[run.queue] is run, last[run.queue] is run)
    return bool(runs)


def _commit(core: Core, run: EnqueueRun, change: Change, first: bool, last: bool) -> None:
    """Decision 43: the first and the last to a queue are marked, so these go apart."""
    queue, count = core.queues[run.queue], len(run.packets)
    core.transactions.release(queue, sum([seen[0] for seen in run.looks]))
    for start, end in pairwise(sorted({0, int(first), count - int(last), count})):
        flags = run.row.flags
        flags |= FLAG_FIRST if first and not start else 0
        flags |= FLAG_LAST if last and end == count else 0
        ids = core.lookup_ids.run(end - start)
        core.arrive_run(
            run.row._replace(lookup_id=ids.start, arrived=core.utc, flags=flags),
            run.packets[start:end],
            run.looks[start:end],
            run.ordinals[start:end],
            run.sender,
            change,
            run.numbers[start:end],
        )
    for number in run.numbers if queue.waiters else ():
        core.announce(queue, number)
