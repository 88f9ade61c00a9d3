"""The messages of a queue as a stream of Arrow record batches, by ranges of lookup ids.

A pure peek: nothing is locked, and what somebody else has locked is there too. Each batch is
chosen in one look at the engine, whose answer comes when all it saw is durable. Then a thread
gathers it from the log while the batch before it is on its way to the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from posthouse.api.ranges import ArrowParams
from posthouse.api.types import Nothing
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.errors import MessageStorageFailed
from posthouse.protocols.handlers.context import Context, Outflow
from posthouse.protocols.handlers.read_plans import Range, not_loaded, rows_module
from posthouse.protocols.handlers.refusals import Unavailable
from posthouse.protocols.handlers.request_steps import Steps, both, followed

BATCH_ROWS: Final = 8192
BATCH_BYTES: Final = 8 << 20
LOOK_ROWS: Final = 2 * BATCH_ROWS  # looked at in one step, which may wait for a sync
SMALL_ROWS: Final = 32  # of a batch while memory is short: anybody may have so much
SMALL_BYTES: Final = 16 << 10
ANY_BYTES: Final = 1 << 62  # of packets that are not read
_COPIES: Final = 2  # of a packet's bytes, while a batch is made of them
_ROW_BYTES: Final = 1024  # of a row's other columns, about


def read_arrow(context: Context, params: ArrowParams, body: Nothing) -> Steps[Nothing]:
    """Streams messages of a queue as Arrow record batches, in order of their lookup ids.

    A pure peek. An error after the first batch breaks the connection off.
    """
    outflow, store = context.outflow, context.services.store
    if outflow is None or store is None:
        raise Unavailable(
            "Arrow streams are available over HTTP only", "Request it with GET, over HTTP."
        )
    made, rows, bulk = _modules()
    columns = made.chosen(params.columns)
    reading = Range(context, rows, params.queue, params.after, params.through or 0)
    queue, queue_manager, newest = yield from reading.looked(_names)
    context.view.require_whole(queue)
    if params.through is None:
        reading.through = newest
    gatherer = made.Gatherer(columns, queue, queue_manager, constants=params.constants)
    stream = _Stream(outflow, gatherer.schema(), needs_packets=gatherer.needs_packets)
    wanted = _wanted(rows, params)
    while not reading.done:
        context.services.pace.looked()
        found = wanted.applied((yield from reading.step(LOOK_ROWS)))
        while len(found.numbers):
            some = yield from stream.portion(rows, found)
            if gatherer.needs_packets:
                pinned = bulk.Pinned(store, some.numbers, some.rows)
                gathering = context.services.gather(partial(_gathered, gatherer, pinned))
                try:
                    pieces = yield from stream.beside(followed(gathering, pinned.close))
                except MessageStorageFailed as error:
                    yield from reading.looked(partial(_noted, error.__cause__))
                    raise
                finally:
                    pinned.close()  # the client may have left before the step began
            else:
                gathering = context.services.gather(partial(gatherer.gathered_of_rows, some.rows))
                pieces = yield from stream.beside(gathering)
            stream.put(pieces, stream.room_for(some))
            found = rows.rest(found, len(some.numbers))
    stream.put(gatherer.end(), 0)
    yield from stream.flush()
    return Nothing()


def _wanted(rows: Any, params: ArrowParams) -> Any:
    """Which messages are asked for."""
    priorities, classes = (
        frozenset(int(number) for number in text.split(",") if number)
        for text in (params.priorities, params.classes)
    )
    return rows.RowFilter(params.since, params.until, priorities, classes)


def _modules() -> tuple[Any, Any, Any]:
    """What needs numpy and pyarrow; refused where they are not installed."""
    rows = rows_module()
    try:
        from posthouse.protocols.arrow import record_batches as arrow_gather
        from posthouse.store import bulk
    except ImportError as error:
        raise not_loaded(error) from None
    return arrow_gather, rows, bulk


def _names(manager: QueueManager, queue: Queue) -> tuple[str, str, int]:
    machine = manager.machine
    return queue.name, machine.name, machine.next_lookup_id


def _gathered(gatherer: Any, pinned: Any) -> Any:
    try:
        return gatherer.gathered(pinned)
    except Unreadable as damage:
        raise MessageStorageFailed(
            f"the stored packet of a message is damaged: {damage}",
            "`posthouse damage list` shows it; an administrator can give it up with `posthouse "
            "damage accept`. Or read around it.",
        ) from damage


def _noted(damage: BaseException | None, manager: QueueManager, queue: Queue) -> None:
    if isinstance(damage, Unreadable):
        manager.messages.met(damage)


class _Stream:
    """What is ready to be sent while the next batch is being made."""

    def __init__(self, outflow: Outflow, head: bytes, *, needs_packets: bool) -> None:
        self._outflow = outflow
        self._needs_packets = needs_packets
        self._pieces: list[bytes | memoryview] = [head]
        self._room = 0
        self._begun = False

    def portion(self, rows: Any, found: Any) -> Steps[Any]:
        """As many of the messages as a batch may have, with the room for it."""
        some = rows.within(found, BATCH_ROWS, BATCH_BYTES if self._needs_packets else ANY_BYTES)
        if not self._outflow.has_room(self.room_for(some)):
            yield from self.flush()  # or those that wait would wait for each other
            if not self._outflow.has_room(self.room_for(some)):
                some = rows.within(found, SMALL_ROWS, SMALL_BYTES)
        yield self._outflow.room(self.room_for(some))
        return some

    def room_for(self, some: Any) -> int:
        """Bytes of memory that a batch takes, about."""
        packets = int(some.rows["size"].sum()) if self._needs_packets else 0
        return _COPIES * packets + _ROW_BYTES * len(some.numbers)

    def put(self, pieces: Sequence[bytes | memoryview], room: int) -> None:
        """Goes out with the next step."""
        self._pieces += pieces
        self._room += room

    def beside(self, step: Any) -> Steps[Any]:
        """A step, and what was ready before it goes out meanwhile; the first stays back.

        So a refusal of the first batch can still be said.
        """
        if len(self._pieces) > 1 or (self._begun and self._pieces):
            step = both(step, self._sending())
        answer = yield step
        return answer.value

    def flush(self) -> Steps[None]:
        """What is ready goes out, but for the schema alone."""
        if len(self._pieces) > 1 or self._begun:
            yield self._sending()

    def _sending(self) -> Any:
        pieces, room = self._pieces, self._room
        self._pieces, self._room, self._begun = [], 0, True
        return self._outflow.send(pieces, room)
