"""What follows when a message ends: journals, dead letters, acknowledgments.

[MS-MQDMPR] 3.1.7.2.1 Message Position Deleted, with what [MS-MQQB] 3.1.7.2 and 3.1.7.15 derive from
it for local outcomes. The message and all that follows from its end are one atomic step.
"""

from __future__ import annotations

from posthouse.engine.core import Core
from posthouse.engine.effects import Deleted
from posthouse.engine.queue import DEADLETTER, DEADXACT, JOURNAL, Queue, QueueRole
from posthouse.engine.records import (
    EXPIRED,
    FLAG_COPY,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    KEPT,
    NEVER,
    PURGED,
    RECEIVED,
    REJECTED,
    WANT_APPLICATION_DEAD_LETTER,
    WANT_ARRIVAL,
    WANT_DEAD_LETTER,
    WANT_FINAL_ACK,
    WANT_JOURNAL,
    WANT_NO_ARRIVAL,
    WANT_NO_RECEIVE,
    WANT_RECEIVE,
    Change,
    Row,
)
from posthouse.model.errors import QueueError
from posthouse.model.message import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
    DeliveryGuarantee,
    Message,
    MessageId,
)
from posthouse.model.names import parse_name
from posthouse.wire.message import serialize
from posthouse.wire.packet import Packet

INFINITE = 0xFFFFFFFF
_RECEIVE_RELATED = 0x4000  # bit 14 of a class: it says what became of a message in its queue

_COLUMN_OF_CLASS = {
    ACK_RECEIVE: RECEIVED,
    NACK_QUEUE_PURGED: PURGED,
    NACK_QUEUE_DELETED: PURGED,
    NACK_PURGED: PURGED,
    NACK_RECEIVE_TIMEOUT: EXPIRED,
    NACK_REACH_QUEUE_TIMEOUT: EXPIRED,
    NACK_RECEIVE_REJECTED: REJECTED,
}


def column_of(message_class: int) -> int:
    """The column of the books for an end with this class; other refusals count as rejected."""
    return _COLUMN_OF_CLASS.get(message_class, REJECTED)


class Outcomes:
    """The ends of messages, each with its consequences."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def delete(
        self,
        queue: Queue,
        number: int,
        row: Row,
        message_class: int,
        change: Change | None = None,
    ) -> None:
        """Message Position Deleted (3.1.7.2.1)."""
        core = self.core
        column = column_of(message_class)
        positive = message_class == ACK_RECEIVE
        journaled = positive and queue.definition.journaling and not queue.deleted
        if row.flags & FLAG_COPY or not (row.wants or journaled):
            core.end(number, row, column, change)
            return
        step = Change() if change is None else change
        self._acknowledge_end(number, row, message_class, step)
        if row.flags & FLAG_REMOTE and row.flags & FLAG_TRANSACTIONAL:
            self._tell_protocols(number, row, message_class)
        target = queue.journal if journaled else None
        if not positive:
            target = self._dead_letter_queue(number, row)
        if target is None or not self._keep(target, number, row, message_class, column, step):
            core.end(number, row, column, step)
        if change is None:
            core.commit(step)

    def expire(self, queue: Queue, number: int, row: Row, change: Change | None = None) -> None:
        """Time To Be Received Timer Expired (3.1.7.2.7), and the reach-queue time while sending."""
        timeout = NACK_RECEIVE_TIMEOUT if queue.outgoing is None else NACK_REACH_QUEUE_TIMEOUT
        self.delete(queue, number, row, timeout, change)

    def delivered(
        self, queue: Queue, number: int, row: Row, packet: bytes, change: Change | None
    ) -> None:
        """A message has been stored in its destination queue here."""
        core = self.core
        if queue.definition.role is QueueRole.INTERNAL:
            return
        if row.wants & WANT_ARRIVAL:
            self._acknowledge(Packet(packet), row, ACK_REACH_QUEUE, change)
        if row.wants & WANT_JOURNAL and not row.flags & FLAG_REMOTE:
            core.sending.copy(core.queues[JOURNAL], row, packet, change)

    def undeliverable(self, number: int, row: Row, message_class: int, change: Change) -> None:
        """A pending message whose queue is gone: a dead letter if its sender asked for that."""
        core = self.core
        self._acknowledge_end(number, row, message_class, change)
        target = self._dead_letter_queue(number, row)
        if target is None or not self._keep(target, number, row, message_class, KEPT, change):
            core.end(number, row, KEPT, change)

    # -- where a message goes when it ends

    def _keep(
        self, target: Queue, number: int, row: Row, message_class: int, column: int, step: Change
    ) -> bool:
        """Moves the message into a journal or dead-letter queue, unless that is full."""
        core = self.core
        if target.state.bytes + row.size > target.limit:
            core.event("journal_full", queue=target.name, message_class=message_class)
            core.refusals["journal_copy_dropped"] += 1
            return False
        core.forget_aliases(number, row)
        kept = row._replace(
            lookup_id=core.lookup_ids.next(),
            queue=target.number,
            expires=NEVER,
            arrived=core.utc,
            message_class=row.message_class if message_class == ACK_RECEIVE else message_class,
            flags=row.flags | FLAG_COPY,
            wants=0,
        )
        core.settle(number, kept, column, step, b"")
        core.announce(target, number)
        return True

    def _dead_letter_queue(self, number: int, row: Row) -> Queue | None:
        """Where an undeliverable message goes: nowhere, the application's queue, the system's.

        A transactional message of another machine is dead-lettered there, on our final
        acknowledgment. Choice: every negative end counts as undeliverable, also a deleted queue
        and a rejection, so that nothing asked to be kept is lost.
        """
        core = self.core
        if not row.wants & WANT_DEAD_LETTER:
            return None
        transactional = bool(row.flags & FLAG_TRANSACTIONAL)
        if transactional and row.flags & FLAG_REMOTE:
            return None
        if row.wants & WANT_APPLICATION_DEAD_LETTER:
            named = self._application_queue(core.extra(number).dead_letter)
            if named is not None and named.definition.transactional == transactional:
                return named
        return core.queues[DEADXACT if transactional else DEADLETTER]

    def _application_queue(self, name: str) -> Queue | None:
        try:
            return self.core.registry.local_queue(parse_name(name))
        except QueueError:
            return None

    def _tell_protocols(self, number: int, row: Row, message_class: int) -> None:
        if row.wants & (WANT_FINAL_ACK | WANT_DEAD_LETTER | WANT_JOURNAL):
            self.core.effects.deleted.append(Deleted(number, row, message_class))

    # -- administration acknowledgments

    def _acknowledge_end(self, number: int, row: Row, message_class: int, step: Change) -> None:
        if message_class == ACK_RECEIVE:
            wanted = WANT_RECEIVE
        elif message_class & _RECEIVE_RELATED:
            wanted = WANT_NO_RECEIVE
        else:
            wanted = WANT_NO_ARRIVAL
        if row.wants & wanted:
            self._acknowledge(Packet(self.core.packet(number)), row, message_class, step)

    def _acknowledge(
        self, original: Packet, row: Row, message_class: int, change: Change | None
    ) -> None:
        """Send Administration Acknowledgment ([MS-MQQB] 3.1.7.15)."""
        core = self.core
        administration = original.administration_queue
        if administration is None:
            return
        message = self._acknowledgment(original, row, message_class, str(administration))
        try:
            target = core.registry.sending_target(administration)
            core.sending.enqueue(target, serialize(message), change=change)
        except QueueError as error:  # the document: discard it. Nobody can be told.
            core.refusals["acknowledgment_dropped"] += 1
            core.event("acknowledgment_dropped", to=str(administration), why=error.name)

    def _acknowledgment(
        self, original: Packet, row: Row, message_class: int, administration: str
    ) -> Message:
        express = bool(row.flags & FLAG_EXPRESS)
        message = Message(
            identifier=MessageId(self.core.guid, self.core.ordinals.next()),
            message_class=message_class,
            sent_time=self.core.utc,
            source_machine_identifier=self.core.guid,
            correlation_identifier=original.identifier,
            destination_queue_format_name=administration,
            response_queue_format_name=str(original.destination_queue),
            delivery_guarantee=(
                DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE
            ),
            time_to_reach_queue=INFINITE,
            time_to_be_received=INFINITE,
            priority=0 if row.flags & FLAG_TRANSACTIONAL else row.priority,
            label=original.label,
        )
        if message_class & 0x8000 and not original.encrypted:
            message.body = bytes(original.body)
            message.body_type = original.properties.body_type if original.properties else 0
        return message
