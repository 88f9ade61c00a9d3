"""What follows when a message ends: journals, dead letters, acknowledgments.

[MS-MQDMPR] 3.1.7.2.1 Message Position Deleted, with what [MS-MQQB] 3.1.7.2 and 3.1.7.15 derive from
it for local outcomes. The message and all that follows from its end are one atomic step.
"""

from __future__ import annotations

from posthouse.engine.core import Core
from posthouse.engine.descriptor import QueueAccessType
from posthouse.engine.effects import Deleted
from posthouse.engine.queue import DEADLETTER, DEADXACT, JOURNAL, Queue, QueueRole
from posthouse.engine.records import (
    EXPIRED,
    FLAG_AUTHENTICATED,
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
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.message import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    NACK_MESSAGE_TOO_LARGE,
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
from posthouse.model.names import FormatName, parse_name
from posthouse.security.access import Caller
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.message import serialize
from posthouse.wire.packet import Packet

INFINITE = 0xFFFFFFFF
_NEGATIVE = 0x8000  # of a class: the message did not get where it was to go
_RECEIVE_RELATED = 0x4000  # it says what became of a message in its queue
_ANYBODY = Caller.anonymous()

# What is taken out of an outgoing queue by hand has not arrived, however it was done.
_BEFORE_ARRIVAL = {
    ACK_RECEIVE: NACK_PURGED,
    NACK_QUEUE_PURGED: NACK_PURGED,
    NACK_QUEUE_DELETED: NACK_PURGED,
    NACK_RECEIVE_REJECTED: NACK_PURGED,
}

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
        if queue.outgoing is not None:
            message_class = _BEFORE_ARRIVAL.get(message_class, message_class)
        column, journal = column_of(message_class), self._journal(queue, message_class)
        if journal is None and not row.wants:
            core.end(number, row, column, change)
            return
        step = Change() if change is None else change
        self._acknowledge_end(number, row, message_class, step)
        if row.flags & FLAG_REMOTE and row.flags & FLAG_TRANSACTIONAL:
            self._tell_protocols(number, row, message_class)
        self._finish(number, row, message_class, column, journal, step)
        if change is None:
            core.commit(step)

    def received_run(self, queue: Queue, numbers: list[int], rows: list[Row]) -> bool:
        """Messages that were received and leave nothing behind end together.

        False, and nothing done, if any of them is not of that kind.
        """
        state = self.core.state
        if (
            not rows
            or queue.outgoing is not None
            or self._journal(queue, ACK_RECEIVE) is not None
            or state.extras
            or state.doomed
            or self.core.deleted_queues
        ):
            return False
        priority, last = rows[0].priority, 0
        for row in rows:
            if row[12] or row[2] != NEVER or row[10] != priority or row[0] <= last:
                return False
            last = row[0]
        self.core.end_run(numbers, rows, RECEIVED)
        return True

    def _journal(self, queue: Queue, message_class: int) -> Queue | None:
        """The journal for a message that an application has received.

        Choice: a subqueue has none of its own, so what is received there goes to its parent's.
        """
        root = queue.root
        if message_class != ACK_RECEIVE or not root.definition.journaling or root.deleted:
            return None
        return root.journal

    def _finish(
        self,
        number: int,
        row: Row,
        message_class: int,
        column: int,
        journal: Queue | None,
        step: Change,
    ) -> None:
        """The message goes where it is to be kept, or is gone."""
        targets = [] if journal is None else [journal]
        if message_class != ACK_RECEIVE:
            targets = self._dead_letter_queues(number, row)
        for target in targets:
            if self._keep(target, number, row, message_class, column, step):
                return
        self.core.end(number, row, column, step)

    def transferred(self, queue: Queue, number: int, row: Row, change: Change) -> None:
        """The destination has it: a copy for the system journal if the sender asked for one."""
        if not row.wants & WANT_JOURNAL or not self._keep(
            self.core.queues[JOURNAL], number, row, ACK_RECEIVE, RECEIVED, change
        ):
            self.core.end(number, row, RECEIVED, change)

    def refused(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change
    ) -> None:
        """The destination does not want it, and has told the administration queue itself."""
        self._finish(number, row, message_class, column_of(message_class), None, change)

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
            self._acknowledge(packet, row, ACK_REACH_QUEUE, change)
        if row.wants & WANT_JOURNAL and packet and not row.flags & FLAG_REMOTE:
            core.sending.copy(core.queues[JOURNAL], row, packet, change)

    def undeliverable(self, number: int, row: Row, message_class: int, change: Change) -> None:
        """A pending message whose queue is gone: a dead letter if its sender asked for that."""
        self._acknowledge_end(number, row, message_class, change)
        self._finish(number, row, message_class, KEPT, None, change)

    # -- where a message goes when it ends

    def _keep(
        self, target: Queue, number: int, row: Row, message_class: int, column: int, step: Change
    ) -> bool:
        """Moves the message into a journal or dead-letter queue, unless that is full."""
        core = self.core
        if target.state.bytes + target.reserved + row.size > target.limit:
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
            doomed=0,
        )
        core.settle(number, kept, column, step, b"")
        core.announce(target, number)
        return True

    def _dead_letter_queues(self, number: int, row: Row) -> list[Queue]:
        """Where an undeliverable message goes, first choice first: nowhere if nobody asked for it.

        A transactional message of another machine is dead-lettered there, on our final
        acknowledgment. Choice: every negative end counts as undeliverable, also a deleted queue
        and a rejection, so that nothing asked to be kept is lost; for the same reason the
        system's queue stands in for an application's that is full or not there.
        """
        core = self.core
        transactional = bool(row.flags & FLAG_TRANSACTIONAL)
        if not row.wants & WANT_DEAD_LETTER or (transactional and row.flags & FLAG_REMOTE):
            return []
        targets = [core.queues[DEADXACT if transactional else DEADLETTER]]
        if row.wants & WANT_APPLICATION_DEAD_LETTER:
            named = self._application_queue(core.extra(number).dead_letter)
            if named is not None and named.definition.transactional == transactional:
                targets.insert(0, named)
        return targets

    def _application_queue(self, name: str) -> Queue | None:
        try:
            queue = self.core.registry.find_local(parse_name(name))
        except QueueError:
            return None
        return queue if queue is not None and queue.definition.role is QueueRole.PLAIN else None

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
        if row.wants & wanted and not self._kept_from_strangers(row, message_class):
            self._acknowledge(self.core.packet(number), row, message_class, step)

    def _kept_from_strangers(self, row: Row, message_class: int) -> bool:
        """Decisions 8 and 80: a negative answer tells whoever asks what exists here."""
        return (
            bool(message_class & _NEGATIVE and row.flags & FLAG_REMOTE)
            and not row.flags & FLAG_AUTHENTICATED
            and not self.core.settings.send_insecure_nacks
        )

    def _acknowledge(
        self, packet: bytes, row: Row, message_class: int, change: Change | None
    ) -> None:
        """Send Administration Acknowledgment ([MS-MQQB] 3.1.7.15)."""
        core = self.core
        try:
            original = Packet(packet)
            administration = original.administration_queue
            if administration is None:
                return
            target = self._administration_queue(administration, row, change)
            message = self._acknowledgment(original, row, message_class, str(administration))
            core.sending.enqueue(target, serialize(message), change=change)
        except (QueueError, RemoteProtocolError) as error:
            # The document: discard it. Nobody can be told.
            core.refusals["acknowledgment_dropped"] += 1
            core.event("acknowledgment_dropped", message_class=message_class, why=str(error))

    def _administration_queue(self, name: FormatName, row: Row, change: Change | None) -> Queue:
        """The queue for acknowledgments, opened for sending as anybody's would be.

        For a message of another machine with the rights that anybody has: naming a queue must not
        be a way to write to it.
        """
        core = self.core
        target = core.registry.find_target(name)
        if target is None:
            return core.registry.sending_target(name, change)
        core.opening.check_role(target, QueueAccessType.SEND)
        if row.flags & FLAG_REMOTE and target.outgoing is None:
            core.registry.guard(target).require(_ANYBODY, WRITE_MESSAGE)
        return target

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
        secret = original.encrypted or original.privacy_level
        repeated = message_class & _NEGATIVE and message_class != NACK_MESSAGE_TOO_LARGE
        if repeated and not secret:
            message.body, message.body_type = original.body, original.body_type
        return message
