"""Poison policy: what happens to a message whose receive is rolled back.

The aborts of a message are in its row, so they are counted in the record of the abort itself. The
abort that reaches the maximum moves the message, in that same record, to the poison queue. After
any other it waits for the delay of the policy, not locked: no reader sees it. When the delay
ends is kept beside the row, so that a restart does not end it early.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from typing import Final

from posthouse.engine.ledger.ledger import Ledger, Lock, encode_extra
from posthouse.engine.ledger.parts import OpenedQueues, PacketReads, Relocating
from posthouse.engine.ledger.records import KEPT, MOVED, Change, Row
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueDefinition, QueueRole
from posthouse.model.errors import (
    IllegalPropertyValue,
    PropertiesConflict,
    QueueError,
)
from posthouse.model.names import parse_name
from posthouse.model.properties import DEFAULT_POISON_QUEUE, RETRY_DELAY_MAX_S, QueueAccessType
from posthouse.security.access import Caller

POISONED: Final = "message_poisoned"


class Poison:
    """The poison policies of queues, and the messages that wait for their next try."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        moving: Relocating,
        reading: PacketReads,
        opening: OpenedQueues,
    ) -> None:
        self.core = core
        self._registry = registry
        self._moving = moving
        self._reading = reading
        self._opening = opening
        self._due: dict[int, int] = {}  # message: when it is available again, in ms of the clock
        self._heap: list[tuple[int, int]] = []
        self._waiting: Counter[int] = Counter()  # messages by queue

    def waiting_in(self, queue: Queue) -> int:
        """How many messages of a queue wait for their next try; they count as locked."""
        return self._waiting[queue.number]

    # -- a receive is rolled back

    def aborted(self, queue: Queue, number: int, row: Row, lock: Lock, change: Change) -> bool:
        """Whether the policy has decided on a message; its row has this abort counted already.

        False: it is available again, or over, as in a queue without a policy.
        """
        definition, over = queue.definition, lock.expired or row.expires <= self.core.utc
        if over or not (definition.max_aborts or definition.retry_delays):
            return False
        spent = definition.max_aborts and row.aborts >= definition.max_aborts
        if spent and self._set_apart(queue, number, row, change):
            return True
        return self._put_off(queue, number, row, _delay(definition, row.aborts), change)

    def _set_apart(self, queue: Queue, number: int, row: Row, change: Change) -> bool:
        core = self.core
        try:
            target = self._target(queue)
            self._moving.admit(queue, row, target)
        except QueueError as error:  # it stays where it is, and the operator is told
            core.event("poison_queue_refuses", queue=queue.name, why=error.cause)
            return False
        failed_in = "" if target.root is queue else queue.name
        self._moving.relocate(queue, number, row, target, MOVED, change, failed_in)
        core.refusals[POISONED] += 1
        core.event(POISONED, queue=queue.name, to=target.name, aborts=row.aborts)
        return True

    def _target(self, queue: Queue) -> Queue:
        """The poison queue; a subqueue is made when it is needed."""
        name, registry = queue.definition.poison_queue or DEFAULT_POISON_QUEUE, self._registry
        if not name.startswith(";"):
            return registry.local_queue(parse_name(name))
        assert queue.path is not None
        path = queue.path.with_subqueue(name[1:])
        found = queue.subqueues.get(path.subqueue.casefold())
        return found or registry.create_subqueue(queue, path)

    def _put_off(self, queue: Queue, number: int, row: Row, delay_s: int, change: Change) -> bool:
        if not delay_s:
            return False
        extra = self.core.extra(number)
        extra.retry_at = self.core.utc + delay_s
        self.core.settle(number, row, KEPT, change, encode_extra(extra))
        self._hold(queue, number, delay_s)
        return True

    # -- waiting for the next try

    def _hold(self, queue: Queue, number: int, delay_s: int) -> None:
        self.core.lock(queue, number, Lock(None))
        due = self.core.now_ms + delay_s * 1000
        self._due[number] = due
        self._waiting[queue.number] += 1
        heappush(self._heap, (due, number))
        self.core.deadlines.note(due)

    def release(self, number: int) -> None:
        """It does not wait any longer: it is available, or about to end."""
        if self._due.pop(number, None) is None:
            return
        row = self._reading.row(number)
        queue = self.core.queues[row.queue]
        self._waiting[queue.number] -= 1
        if not self._waiting[queue.number]:
            del self._waiting[queue.number]
        self.core.unlock(queue, number)
        queue.make_room(row.priority, row.lookup_id)

    def run(self) -> None:
        """What is due is available again; of a great many messages some, the rest next turn."""
        core, heap, left = self.core, self._heap, self.core.settings.step_messages
        if not heap or heap[0][0] > core.now_ms:
            return
        while heap and heap[0][0] <= core.now_ms and left:
            due, number = heappop(heap)
            if self._due.get(number) != due:
                continue  # it has ended, or waits for another try
            self.release(number)
            core.announce(core.queues[self._reading.row(number).queue], number)
            left -= 1
        core.tell()

    def next_deadline_ms(self) -> int | None:
        """When the next message is available again."""
        return self._heap[0][0] if self._heap else None

    def load(self) -> None:
        """After a start: messages wait for the rest of their delays.

        The clock may have been set back meanwhile, so none waits longer than a delay can be.
        """
        core = self.core
        for number in list(core.state.extras):
            retry_at = core.extra(number).retry_at
            row = core.state.table.get(number)
            if retry_at <= core.utc or row is None or not row.lookup_id or number in core.locks:
                continue
            if row.doomed or row.expires <= core.utc:
                continue
            self._hold(core.queues[row.queue], number, min(retry_at - core.utc, RETRY_DELAY_MAX_S))

    # -- setting a policy

    def check(self, queue: str, poison_queue: str, caller: Caller) -> None:
        """Whether messages of a queue may go to this poison queue, by who sets the policy."""
        if not poison_queue or poison_queue.startswith(";"):
            return
        target = self._registry.local_queue(parse_name(poison_queue))
        if target.definition.role is not QueueRole.PLAIN or target.name == queue:
            raise IllegalPropertyValue(
                f"{target.name} cannot be the poison queue of {queue}",
                "Name another queue of this computer, or a subqueue such as ;poison.",
            )
        if not target.definition.transactional:
            raise PropertiesConflict(
                f"the poison queue {target.name} is not transactional, and {queue} is",
                "Create a transactional queue for poison messages.",
            )
        self._opening.require(target, caller, QueueAccessType.SEND)


def _delay(definition: QueueDefinition, aborts: int) -> int:
    """Seconds that a message waits after this abort; the last delay goes for all that follow."""
    delays = definition.retry_delays
    return delays[min(aborts, len(delays)) - 1] if delays else 0
