"""The messages of a queue as a stream of Arrow record batches, by ranges of lookup ids.

A pure peek: nothing is locked, and what somebody else has locked is there too. Each batch is
chosen in one look at the engine, whose answer comes when all it saw is durable; then a thread
gathers it while the batch before it is on its way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from posthouse.engine.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.admin.context import Context, Outflow, opened
from posthouse.protocols.admin.conversation import Decide, Steps
from posthouse.protocols.admin.message_json import message_json
from posthouse.protocols.admin.refusals import Unavailable
from posthouse.protocols.admin.types import Nothing
from posthouse.protocols.admin.types_bulk import ArrowParams

BATCH_ROWS = 8192
BATCH_BYTES = 8 << 20
REMEDY = "Install it where the queue manager runs: pip install 'posthouse[spark]'."


def columns_module() -> Any:
    """What needs pyarrow; refused where it is not installed."""
    try:
        from posthouse.protocols.admin import arrow_columns
    except ImportError:
        raise Unavailable("this queue manager has no pyarrow", REMEDY) from None
    return arrow_columns


def read_arrow(context: Context, params: ArrowParams, body: Nothing) -> Steps[Nothing]:
    """Streams messages of a queue as Arrow record batches, in order of their lookup ids.

    A pure peek. An error behind the first batch breaks the connection off.
    """
    outflow = context.outflow
    if outflow is None:
        raise Unavailable("a stream of Arrow's goes over HTTP", "Ask for it with GET, over HTTP.")
    made = columns_module()
    columns = made.chosen(params.columns)
    reading = _Range(context, params)
    head = bytes(made.schema_of(columns).serialize())
    while True:
        found = yield from reading.step()
        batch = yield context.services.offload(partial(_gathered, made, columns, found))
        assert isinstance(batch.value, bytes)
        yield from _sent(outflow, head + batch.value)
        head = b""
        if reading.done:
            break
    yield from _sent(outflow, made.END)
    return Nothing()


def _sent(outflow: Outflow, piece: bytes) -> Steps[None]:
    if piece:
        yield outflow.room(len(piece))
        yield outflow.send([piece], len(piece))


class _Found:
    def __init__(self, reads: list[Read], packets: tuple[bytes, ...], queue: str, manager: str):
        self.reads = reads
        self.packets = packets
        self.queue = queue
        self.queue_manager = manager


def _gathered(made: Any, columns: Any, found: _Found) -> bytes:
    if not found.reads:
        return b""
    pairs = zip(found.reads, found.packets, strict=True)
    messages = [message_json(read, packet, found.queue) for read, packet in pairs]
    return bytes(made.batch_of(columns, messages, found.queue_manager).serialize())


class _Range:
    """A range of a queue, batch by batch."""

    def __init__(self, context: Context, params: ArrowParams) -> None:
        self._context = context
        self._queue = params.queue
        self._after = params.after
        self._through = params.through
        self.done = False
        self.name = params.queue
        self.queue_manager = ""

    def step(self) -> Steps[_Found]:
        answer = yield Decide(self._look)
        reads: list[Read] = answer.value  # type: ignore[assignment]
        return _Found(reads, answer.packets, self.name, self.queue_manager)

    def _look(self, manager: QueueManager) -> list[Read]:
        with opened(manager, self._queue, QueueAccessType.PEEK, self._context) as descriptor:
            queue = descriptor.target()
            self.name, self.queue_manager = queue.name, manager.core.settings.computer_name
            if self._through is None:
                self._through = manager.core.lookup_ids.value
            found = list[tuple[int, int]]()
            order = queue.state.order
            for priority in order.used:
                found += zip(*order.lane(priority).some_after(self._after, 500), strict=True)
            found = sorted(pair for pair in found if pair[0] <= self._through)[:500]
            self.done = not found
            reads, size = list[Read](), 0
            for lookup_id, number in found:
                row = manager.reading.row(number)
                if reads and size + row.size > BATCH_BYTES:
                    break
                self._after = lookup_id
                if row.queue == queue.number and not row.doomed:
                    reads.append(manager.reading.read_of(number, row))
                    size += row.size
            return reads
