"""What follows when a message ends: journals, dead letters, acknowledgments.

[MS-MQDMPR] 3.1.7.2.1 Message Position Deleted, with what [MS-MQQB] 3.1.7.2 and 3.1.7.15 derive from
it for local outcomes. The message and all that follows from its end are one atomic step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, AckSender, PacketReads
from posthouse.engine.ledger.records import (
    EXPIRED,
    FLAG_ARRIVED,
    FLAG_COPY,
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
    WANT_JOURNAL,
    WANT_RECEIVE,
    Change,
    Row,
)
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.rows import FINAL_ANSWER
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import DEADLETTER, DEADXACT, JOURNAL, Queue, QueueRole
from posthouse.model.errors import QueueError
from posthouse.model.message import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    INFINITE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
)
from posthouse.model.names import parse_name
from posthouse.wire.packet.packet_fields import times_of
from posthouse.wire.srmp.stored_messages import came_over_http

# [MC-MQSRM] 3.1.7.3.2: over HTTP these leave no dead letter where the message was to be received.
_NO_DEAD_LETTER_OF_HTTP = frozenset({NACK_QUEUE_DELETED, NACK_RECEIVE_REJECTED})

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


def _is_web(queue: Queue) -> bool:
    """Whether it leads to another machine over HTTP."""
    return queue.outgoing is not None and queue.outgoing.web


class MessageOutcomes:
    """The ends of messages, each with its consequences."""

    stream_ended: Callable[[Queue, bytes, Row, int, Change, str], None]  # of streams over HTTP

    def __init__(self, core: Ledger, reading: PacketReads, registry: Queues) -> None:
        self.core = core
        self._reading = reading
        self._registry = registry

    def connect(self, acks: AckSender, sending: Accepting, transfer: MachineTransfer) -> None:
        """Parts that are made after this one, since they need it."""
        self._acks = acks
        self._sending = sending
        self._transfer = transfer

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
        if queue.definition.role is QueueRole.CONNECTOR:
            row, message_class = self._handed_over(number, row, message_class, change)
        column, journal = column_of(message_class), self._journal(queue, message_class)
        if journal is None and not row.wants:
            self._left(queue, row)
            core.end(number, row, column, change)
            return
        step = Change() if change is None else change
        if row.flags & FLAG_ARRIVED:  # its destination reports what follows
            self.refused(queue, number, row, message_class, step)
        else:
            self._left(queue, row)
            self._acks.ended(number, row, message_class, step)
            self._answer_finally(queue, number, row, message_class, step)
            self._finish(number, row, message_class, column, journal, step)
        if change is None:
            core.commit(step)

    def _handed_over(
        self, number: int, row: Row, message_class: int, change: Change | None
    ) -> tuple[Row, int]:
        """What the end of a message in a connector queue means: the connector has it from here on.

        If it cannot report whether the message is received there, no acknowledgment of that is
        sent.
        """
        if message_class not in (ACK_REACH_QUEUE, ACK_RECEIVE):
            return row, message_class
        if row.wants & WANT_ARRIVAL:
            packet = self.core.packet(number)
            self._acks.administration(packet, row, ACK_REACH_QUEUE, change)
        wants = row.wants & ~WANT_ARRIVAL
        if message_class == ACK_REACH_QUEUE:
            wants &= ~WANT_RECEIVE
        return row._replace(wants=wants), ACK_RECEIVE

    def _answer_finally(
        self, queue: Queue, number: int, row: Row, message_class: int, step: Change
    ) -> None:
        """Final Acknowledgment ([MS-MQQB] 3.1.7.2.2), in the step that ends the message."""
        remote = row.flags & FLAG_REMOTE and row.flags & FLAG_TRANSACTIONAL
        if not remote or not row.wants & FINAL_ANSWER or queue.outgoing is not None:
            return
        packet = self.core.packet(number)
        if not packet:
            return
        host = self.core.extra(number).host
        if came_over_http(packet):
            self.stream_ended(queue.root, packet, row, message_class, step, host)
            return
        self._acks.final_from(queue.root, packet, message_class, host, step)

    def _left(self, queue: Queue, row: Row) -> None:
        if queue.outgoing is not None:
            self._transfer.sequences.left(queue, (row.flags,))
            # It may be empty now, and then needs no session.
            self.core.effects.active.add(queue.number)

    def received(self, queue: Queue, numbers: list[int], rows: Sequence[Row]) -> None:
        """Ends messages that readers received: together if they leave no journal copy or
        acknowledgment.
        """
        core = self.core
        if len(numbers) == 1:
            self.delete(queue, numbers[0], rows[0], ACK_RECEIVE)
        elif self._may_end_together(queue, numbers, rows):
            core.end_run(numbers, Rows.of(rows), RECEIVED)
        else:
            with core.untold():  # who waits for what their ends bring comes after all of them
                for number, row in zip(numbers, rows, strict=True):
                    self.delete(queue, number, row, ACK_RECEIVE)
            core.tell()

    def _may_end_together(self, queue: Queue, numbers: list[int], rows: Sequence[Row]) -> bool:
        """Whether received messages, in queue order, have one priority and leave nothing."""
        state = self.core.state
        if (
            not rows
            or queue.outgoing is not None
            or self._journal(queue, ACK_RECEIVE) is not None
            or not state.extras.keys().isdisjoint(numbers)
            or state.doomed
            or self.core.deleted_queues
        ):
            return False
        rows = Rows.of(rows)
        ids = rows.lookup_ids
        return rows.want_nothing and rows.are_of_one_priority and ids == sorted(set(ids))

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
            if targets and self._is_not_kept_here(number, row, message_class):
                targets = []
        for target in targets:
            if self._keep(target, number, row, message_class, column, step):
                return
        self.core.end(number, row, column, step)

    def _is_not_kept_here(self, number: int, row: Row, message_class: int) -> bool:
        remote = row.flags & FLAG_REMOTE and message_class in _NO_DEAD_LETTER_OF_HTTP
        packet = self.core.packet(number) if remote else b""
        return bool(packet) and came_over_http(packet)

    # -- what becomes of messages that other machines get

    def transferred(self, queue: Queue, number: int, row: Row, change: Change) -> None:
        """The destination has it: a copy for the system journal if the sender asked for one."""
        self._left(queue, row)
        core = self.core
        if self._is_journaled(queue, row) and self._keep(
            core.queues[JOURNAL], number, row, ACK_RECEIVE, RECEIVED, change
        ):
            core.departures.note(queue, core.utc, RECEIVED, (row,))
        else:
            core.end(number, row, RECEIVED, change)

    def transferred_all(self, queue: Queue, numbers: list[int], rows: Sequence[Row]) -> None:
        """The destination has these messages: journal copies for those that asked for one."""
        if not numbers:
            return
        rows = Rows.of(rows)
        if self._leave_nothing(numbers, rows):
            self._end_together(queue, numbers, rows)
            return
        core = self.core
        extras, locks, doomed = core.state.extras, core.locks, core.state.doomed
        together: dict[int, tuple[list[int], list[Row]]] = {}
        for number, row in zip(numbers, rows, strict=True):
            if number in locks:
                self.take_back(queue, number)
            if row.wants & WANT_JOURNAL or number in extras or number in doomed:
                self.transferred(queue, number, row, core.effects.change)
            else:
                some = together.setdefault(row.priority, ([], []))
                some[0].append(number)
                some[1].append(row)
        for some_numbers, some_rows in together.values():
            self._end_together(queue, some_numbers, Rows.of(some_rows))

    def _leave_nothing(self, numbers: list[int], rows: Rows) -> bool:
        """The common case: messages of one priority, neither held nor journaled."""
        core = self.core
        if not (core.locks.keys().isdisjoint(numbers) and core.state.doomed.isdisjoint(numbers)):
            return False
        if not core.state.extras.keys().isdisjoint(numbers):
            return False
        journaled = [wants for wants in rows.wants if wants & WANT_JOURNAL]
        return not journaled and rows.are_of_one_priority

    def _end_together(self, queue: Queue, numbers: list[int], rows: Rows) -> None:
        """Messages of one priority that leave nothing."""
        ids = rows.lookup_ids
        if ids != sorted(ids):
            pairs = sorted(zip(rows, numbers, strict=True))
            numbers, rows = [number for _, number in pairs], Rows.of([row for row, _ in pairs])
        self._transfer.sequences.left(queue, rows.flags)
        self.core.end_run(numbers, rows, RECEIVED)

    def arrived_all(self, queue: Queue, numbers: list[int], rows: Rows) -> None:
        """Numbered messages are order-acknowledged ([MS-MQQB] 3.1.5.6).

        Those whose sender asked for more stay until their final acknowledgments come.
        """
        damaged = self._reading.damaged
        # [MC-MQSRM] 3.1.5.1.8.4: over HTTP a journal does not wait for the final answer.
        asked = WANT_DEAD_LETTER if _is_web(queue) else FINAL_ANSWER
        if not damaged and not [wants for wants in rows.wants if wants & asked]:
            self.transferred_all(queue, numbers, rows)
            return
        gone: list[int] = []
        gone_rows: list[Row] = []
        for number, row in zip(numbers, rows, strict=True):
            if number in damaged:  # it could not be sent
                self._reading.release(number)
                self.delete(queue, number, row, NACK_PURGED, self.core.effects.change)
            elif row.wants & asked:
                self._await_answer(queue, number, row)
            else:
                gone.append(number)
                gone_rows.append(row)
        self.transferred_all(queue, gone, gone_rows)

    def _await_answer(self, queue: Queue, number: int, row: Row) -> None:
        row = self._journaled_on_delivery(queue, number, row, self.core.effects.change)
        expires = row.expires if row.expires == NEVER else self._end_of_life(number)
        row = row._replace(flags=row.flags | FLAG_ARRIVED, expires=expires)
        self.core.settle(number, row, KEPT, None)
        self._transfer.sequences.kept_for_final_answer(queue)

    def _journaled_on_delivery(self, queue: Queue, number: int, row: Row, change: Change) -> Row:
        """Decision 65: over HTTP the journal has what was delivered, whatever becomes of it there.

        The message itself stays, so the journal gets a copy, once.
        """
        if not _is_web(queue) or not row.wants & WANT_JOURNAL:
            return row
        packet = self.core.packet(number) if self._is_journaled(queue, row) else b""
        if packet:
            self._sending.copy(self.core.queues[JOURNAL], row, packet, change)
        return row._replace(wants=row.wants & ~WANT_JOURNAL)

    def _end_of_life(self, number: int) -> int:
        """State-machines 3 f: both its times, where both are finite."""
        packet = self.core.packet(number)
        if not packet:
            return NEVER
        reach, received, sent = times_of(packet)
        return NEVER if INFINITE in (reach, received) else min(sent + reach + received, NEVER)

    def take_back(self, queue: Queue, number: int) -> None:
        """It is no longer held."""
        self._reading.release(number)
        if number in self.core.locks:
            self.core.unlock(queue, number)

    def refused(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change
    ) -> None:
        """The destination does not want it, and has told the administration queue itself."""
        self._left(queue, row)
        self._finish(number, row, message_class, column_of(message_class), None, change)

    def answered_finally(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change
    ) -> None:
        """What became of it at its destination ([MS-MQQB] 3.1.5.7, [MC-MQSRM] 3.1.5.1.9).

        Over HTTP this may come before the receipt that shows of its delivery, and shows that too.
        """
        if message_class == ACK_RECEIVE:
            self.transferred(queue, number, row, change)
        else:
            row = self._journaled_on_delivery(queue, number, row, change)
            self.refused(queue, number, row, message_class, change)

    def _is_journaled(self, queue: Queue, row: Row) -> bool:
        """Note 2: not what is sent to the queues by which queue managers and senders talk."""
        return bool(row.wants & WANT_JOURNAL) and not queue.is_service

    def expire(self, queue: Queue, number: int, row: Row, change: Change | None = None) -> None:
        """Time To Be Received Timer Expired (3.1.7.2.7), and the reach-queue time while sending."""
        reached = queue.outgoing is None or row.flags & FLAG_ARRIVED
        timeout = NACK_RECEIVE_TIMEOUT if reached else NACK_REACH_QUEUE_TIMEOUT
        self.delete(queue, number, row, timeout, change)

    def delivered(
        self, queue: Queue, number: int, row: Row, packet: bytes, change: Change | None
    ) -> None:
        """A message has been stored in its destination queue here."""
        core = self.core
        if queue.definition.role is QueueRole.INTERNAL:
            return
        if row.wants & WANT_ARRIVAL and queue.definition.role is not QueueRole.CONNECTOR:
            self._acks.administration(packet, row, ACK_REACH_QUEUE, change)
        if row.wants & WANT_JOURNAL and packet and not row.flags & FLAG_REMOTE:
            self._sending.copy(core.queues[JOURNAL], row, packet, change)

    def undeliverable(self, number: int, row: Row, message_class: int, change: Change) -> None:
        """A pending message whose queue is gone: a dead letter if its sender asked for that."""
        self._acks.ended(number, row, message_class, change)
        self._finish(number, row, message_class, KEPT, None, change)

    # -- where a message goes when it ends

    def _keep(
        self, target: Queue, number: int, row: Row, message_class: int, column: int, step: Change
    ) -> bool:
        """Moves the message into a journal or dead-letter queue, unless that is full."""
        core = self.core
        if not target.has_room_for(row.size):
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
            last_move=row.last_move if row.moves else 0,
            flags=row.flags & ~FLAG_ARRIVED | FLAG_COPY,
            wants=0,
            doomed=0,
        )
        core.settle(number, kept, column, step, b"")
        if core.spans is not None:
            core.spans.left(column, (row,))
        core.announce(target, number)
        return True

    def _dead_letter_queues(self, number: int, row: Row) -> list[Queue]:
        """Where an undeliverable message goes, first choice first: nowhere if it was not asked for.

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
            named = self.application_queue(core.extra(number).dead_letter)
            if named is not None and named.definition.transactional == transactional:
                targets.insert(0, named)
        return targets

    def application_queue(self, name: str) -> Queue | None:
        """The queue of ours that a sender named for its dead letters, if there is one."""
        try:
            queue = self._registry.find_local(parse_name(name))
        except QueueError:
            return None
        return queue if queue is not None and queue.definition.role is QueueRole.PLAIN else None
