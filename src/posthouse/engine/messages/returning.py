"""Receives a message and sends it to another queue in one record: never lost, never twice."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import (
    Accepting,
    ClaimedMessages,
    Endings,
    OpenedQueues,
    OpenTransactions,
    PacketReads,
    Relocating,
)
from posthouse.engine.ledger.records import (
    FLAG_AUTHENTICATED,
    FLAG_COPY,
    FLAG_TRANSACTIONAL,
    MOVED,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import TRANSACTION_HEADER
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.room import Room
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.model.errors import QueueError, UnsupportedOperation
from posthouse.model.message import ACK_RECEIVE, Message
from posthouse.model.message_classes import is_negative
from posthouse.model.names import parse_name
from posthouse.model.properties import MessageSeekAction
from posthouse.wire.packet.batch import Batch


class Returning:
    """Receives a message and sends it to another queue in one step."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        admission: Admission,
        opening: OpenedQueues,
        reading: PacketReads,
        outcomes: Endings,
        sending: Accepting,
        groups: ClaimedMessages,
        moving: Relocating,
        transactions: OpenTransactions,
    ) -> None:
        self.core = core
        self._registry = registry
        self._admission = admission
        self._opening = opening
        self._reading = reading
        self._outcomes = outcomes
        self._sending = sending
        self._groups = groups
        self._moving = moving
        self._transactions = transactions

    def available(self, source: OpenQueueDescriptor, lookup_id: int) -> tuple[Queue, int, Row]:
        """A message that the reader of a queue could receive now, or why it could not."""
        queue = self._opening.check(source, QueueAccessType.RECEIVE)
        self._groups.check_receiver(queue)
        number = self._reading.seek_by_lookup_id(
            queue, lookup_id, MessageSeekAction.CURRENT, peek=False
        )
        return queue, number, self._reading.row(number)

    def next_lookup_id(self) -> int:
        """The first lookup id that no message has had: what comes later has a greater."""
        return self.core.lookup_ids.value

    def name_of(self, name: str) -> str:
        """The name of the queue here that a name means; a name of another machine as it is."""
        queue = self._registry.find_local(parse_name(name))
        return name if queue is None else queue.name

    def failed_in(self, queue: Queue, number: int) -> str:
        """The queue where a message failed, as far as the queue manager has that from itself.

        The queue whose poison policy took it, or the parent of a subqueue. Empty where only the
        message can name it.
        """
        if name := self.core.extra(number).failed_in:
            return name
        if queue.definition.role is QueueRole.SUBQUEUE:
            return queue.root.name
        return ""

    def is_undelivered(self, row: Row) -> bool:
        """Whether it is a dead letter: its destination is where it goes back to."""
        return bool(row.flags & FLAG_COPY) and is_negative(row.message_class)

    # -- going back

    def send_back(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        message: Message,
    ) -> None:
        """To a queue that the caller may send to. Where it can it stays the same message.

        Else, to another machine and for dead letters, `message` is sent in its place.
        """
        queue, number, row = self.available(source, lookup_id)
        if not target.nested and self.stays_the_same(row, target.target()):
            self._relocate(queue, number, row, target)
        else:
            self._send(queue, number, row, target, message)

    def send_again(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        message: Message,
    ) -> None:
        """Sends `message`, a copy made from it, in its place."""
        queue, number, row = self.available(source, lookup_id)
        self._send(queue, number, row, target, message)

    def stays_the_same(self, row: Row, target: Queue) -> bool:
        """Whether a message can change its queue without becoming another message."""
        transactional = bool(row.flags & FLAG_TRANSACTIONAL)
        same_kind = target.definition.transactional == transactional
        return target.outgoing is None and same_kind and not row.flags & FLAG_COPY

    def admit(self, number: int, row: Row, target: Queue, room: Room | None = None) -> None:
        """Every reason why the target would refuse it if it were sent there now."""
        packet = self.core.packet(number)
        batch = Batch.of(packet)
        self._admission.admit(
            target,
            batch,
            row.flags & FLAG_AUTHENTICATED,
            bool(batch.head.user_flags & TRANSACTION_HEADER),
            room,
        )

    def _relocate(self, queue: Queue, number: int, row: Row, target: OpenQueueDescriptor) -> None:
        core, to = self.core, self._opening.check(target, QueueAccessType.SEND)
        check_is_elsewhere(queue, to)
        self.admit(number, row, to)
        change = Change()
        self._moving.relocate(queue, number, row, to, MOVED, change)
        core.commit(change)

    def _send(
        self, queue: Queue, number: int, row: Row, target: OpenQueueDescriptor, message: Message
    ) -> None:
        if target.queue is not None:
            check_is_elsewhere(queue, target.queue)
        if is_transactional(target, message):
            self._send_in_transaction(queue, number, row, target, message)
        else:
            change = Change()
            self._sending.send(target, message, None, change)
            self._outcomes.delete(queue, number, row, ACK_RECEIVE, change)
            self.core.commit(change)

    def _send_in_transaction(
        self, queue: Queue, number: int, row: Row, target: OpenQueueDescriptor, message: Message
    ) -> None:
        core = self.core
        transaction = self._transactions.create(core.new_guid())
        try:
            self._sending.send(target, message, transaction)
        except QueueError:
            self._transactions.abort(transaction.identifier)
            raise
        self._transactions.commit(
            transaction.identifier,
            lambda change: self._outcomes.delete(queue, number, row, ACK_RECEIVE, change),
        )


def check_is_elsewhere(queue: Queue, target: Queue) -> None:
    """Refuses a way that leads back to where the message is."""
    if queue is target:
        raise UnsupportedOperation(
            f"the message is already in {target.name}",
            "Name another queue with --to.",
        )


def is_transactional(target: OpenQueueDescriptor, message: Message) -> bool:
    """Of a queue here as the queue is; to another machine a message goes as it was sent before."""
    queue = target.queue
    if queue is None or queue.outgoing is not None:
        return message.is_transactional
    return queue.definition.transactional
