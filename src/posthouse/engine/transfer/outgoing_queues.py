"""Outgoing queues: states, senders, acknowledgments of other machines.

[MS-MQDMPR] 3.1.1.3-5, 3.1.4.12-15, 3.1.7.2.3-4, [MS-MQQB] 3.1.5.5-7, 3.1.7.12-14. Protocols own the
sessions, and take messages and report results through this module. The order in which messages
leave is in `outgoing_cursor.py` for one queue, and in `protocols/binary/sending.py` for those of a
session.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import (
    AckSender,
    Endings,
    MachineTargets,
    PacketReads,
    TraceReports,
)
from posthouse.engine.ledger.records import FLAG_ARRIVED, TABLE_OUTGOING, Change, Row
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import (
    HELD,
    ConnectionAttempt,
    Outgoing,
    OutgoingQueueState,
    Queue,
)
from posthouse.engine.transfer.incoming_sequences import IncomingSequences
from posthouse.engine.transfer.machine_addresses import Machines
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor, Seal
from posthouse.engine.transfer.outgoing_sequences import (
    SEQUENCE_NUMBER_MAX,
    OutgoingTransferInfo,
    Sequences,
)
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_values import (
    OutgoingTransferReport,
    SequenceInfo,
    is_numbered,
)
from posthouse.model.errors import MessageNotFound, QueueNotFound, UnsupportedOperation
from posthouse.model.message_classes import NACK_BAD_DEST_QUEUE

# States in which a protocol has a session, or works on one.
_ENGAGED = frozenset(
    {
        OutgoingQueueState.CONNECTED,
        OutgoingQueueState.WAITING,
        OutgoingQueueState.DISCONNECTING,
    }
)


class Transfer(IncomingSequences):
    """The engine's side of sending."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        targets: MachineTargets,
        reading: PacketReads,
        outcomes: Endings,
        tracing: TraceReports,
    ) -> None:
        super().__init__(core, targets)
        self._registry = registry
        self._reading = reading
        self._outcomes = outcomes
        self._tracing = tracing
        self.connection_active = True
        self.seal: Seal = lambda packet, seen, now_ms: packet  # [MS-MQQB] 3.1.7.1.5
        # Which queue managers have a session with us now; all of them if no protocol reports
        # sessions.
        self.is_connected: Callable[[bytes], bool] = lambda guid: True
        self.sequences = Sequences(core, reading, outcomes)
        self.machines = Machines(core)

    def connect(self, acks: AckSender) -> None:
        """Parts that are made after this one, since they need it."""
        self._acks = acks

    def load(self, time_stamp: int) -> None:
        """Everything the store kept; `time_stamp` is that of new sequences."""
        self.sequences.load(time_stamp)
        self.machines.load()
        self.load_incoming()

    # -- outgoing sequences

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """OutgoingTransferInfo of an outgoing queue: exactly one each."""
        return self.sequences.info(queue)

    def resend_planned(self, queue: Queue, count: int, interval_s: int, time: int) -> None:
        """A protocol's report: how often, how far apart and when next it sends again."""
        info = self.info(queue)
        info.resend_count, info.resend_interval_s, info.resend_time = count, interval_s, time

    def report(self, queue: Queue) -> OutgoingTransferReport:
        """The whole OutgoingTransferInfo."""
        return self.sequences.report(queue)

    def next_place(self, queue: Queue | None) -> SequenceInfo:
        """What the next transactional message of a queue gets; None: the queue is not made yet."""
        coming = SequenceInfo(0, 0, 0) if queue is None else self.report(queue).next_sequence
        if coming.sequence_id:
            return coming
        return SequenceInfo((self.sequences.time_stamp << 32) + self.sequences.ids.value, 1, 0)

    def end_sequences(self) -> None:
        """The next message of each queue begins a new sequence, from the next start on."""
        for key, value in self.core.state.of_table(TABLE_OUTGOING):
            info = msgspec.msgpack.decode(value, type=OutgoingTransferInfo)
            info.next_number = SEQUENCE_NUMBER_MAX + 1
            self.core.define(TABLE_OUTGOING, key, msgspec.msgpack.encode(info))

    def unacknowledged(self, queue: Queue) -> int:
        """Messages that were sent and have not come to their end; for the sender's books."""
        sender = self._outgoing_of(queue).sender
        in_flight = 0 if sender is None else sender.unacknowledged
        return in_flight + self.sequences.arrived(queue)

    def unconfirmed_s(self, queue: Queue) -> int:
        """Return for how many seconds the first message of a sequence lacks its acknowledgment.

        0 where each that was sent is acknowledged, or where the peer cannot be reached: the time
        counts from when it was sent, from the last acknowledgment, and from when connections
        succeed.
        """
        since = self._outgoing_of(queue).connected_since
        sent_at = self.sequences.unconfirmed_since(queue) if since else None
        return 0 if sent_at is None else max(self.core.utc - max(sent_at, since), 0)

    # -- sending

    def begin_sending(self, queue_number: int, peer: bytes = b"") -> OutgoingCursor:
        """Begins sending an outgoing queue on a session, and ends the cursor of an earlier session.

        `peer` is the queue manager at its other end, which may acknowledge what is sent.
        """
        queue = self.core.queues.get(queue_number)
        if queue is None:
            raise QueueNotFound(f"there is no queue with the number {queue_number}")
        outgoing = self._outgoing_of(queue)
        if outgoing.sender is not None:
            outgoing.sender.end()
        self.sequences.led_to(queue, peer)
        outgoing.sender = sender = OutgoingCursor(
            self.core, self._targets, self._reading, self._outcomes, self._tracing, self, queue
        )
        outgoing.last_error, outgoing.retry_time = "", 0
        self.set_state(queue, OutgoingQueueState.CONNECTED)
        return sender

    def sender_ended(self, sender: OutgoingCursor) -> None:
        """What a session had sent of a queue waits again."""
        outgoing = self._outgoing_of(sender.queue)
        if outgoing.sender is sender:
            outgoing.sender = None
            if outgoing.state not in HELD:
                self.set_state(sender.queue, OutgoingQueueState.DISCONNECTED)
            outgoing.engaged = False
            self.core.effects.active.add(sender.queue.number)

    def is_in_flight(self, queue: Queue, number: int, row: Row) -> bool:
        """State-machines 2 a: sent on a live session, so that the peer may have it."""
        sender = None if queue.outgoing is None else queue.outgoing.sender
        return sender is not None and sender.holds(number, row)

    # -- acknowledgments of other machines (decision 24)

    def order_acknowledged(self, sequence_id: int, number: int) -> bool:
        """An OrderAck of a sender that may send it; False when it fits nothing that was sent."""
        queue = self.sequences.queue_of(sequence_id)
        if queue is None or not self.sequences.order_acknowledged(queue, sequence_id, number):
            return False
        self.core.effects.active.add(queue.number)
        return True

    def order_acknowledged_by(self, peer: Peer, sequence_id: int, number: int) -> bool:
        """Receiving an OrderAck packet (3.1.5.6); what does not count is counted."""
        queue = self.sequences.queue_of(sequence_id)
        allowed = queue is not None and bool(peer.may_acknowledge(queue.number))
        return self._counted("order", allowed and self.order_acknowledged(sequence_id, number))

    def final_acknowledged(
        self, message_class: int, source: bytes, ordinal: int, sequence_id: int, number: int
    ) -> bool:
        """A FinalAck of a sender that may send it; False when it fits nothing that was sent."""
        return self.sequences.final_acknowledged(
            message_class, source, ordinal, sequence_id, number
        )

    def final_acknowledged_by(
        self,
        peer: Peer,
        message_class: int,
        source: bytes,
        ordinal: int,
        sequence_id: int,
        number: int,
    ) -> bool:
        """Receiving a FinalAck packet (3.1.5.7); what does not count is counted."""
        queue = self.sequences.queue_of(sequence_id)
        allowed = queue is not None and bool(peer.may_acknowledge(queue.number))
        return self._counted(
            "final",
            allowed
            and self.final_acknowledged(message_class, source, ordinal, sequence_id, number),
        )

    def _counted(self, kind: str, accepted: bool) -> bool:
        if not accepted:
            self.core.refusals[f"{kind}_acknowledgment_ignored"] += 1
        return accepted

    def send_order_ack(self, queue_number: int, source: bytes, host: str | None = None) -> bool:
        """Send Transactional Acknowledgment (3.1.7.17) for what was accepted of a sequence.

        `host` is the one that it came from; None: each of them.
        """
        return self._acks.order(queue_number, source, host)

    # -- where other machines are (decision 40)

    def reached(
        self, guid: bytes, address: str, port: int | None, *, claimed: bool = False
    ) -> None:
        """A queue manager was reached there, or came from there; None: its port is not known."""
        self.machines.reached(guid, address, port, claimed=claimed)

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """Where a queue manager was reached last."""
        return self.machines.address_of(guid)

    # -- states (3.1.1.3; state-machines 7.3)

    def _outgoing_of(self, queue: Queue) -> Outgoing:
        if queue.outgoing is None:
            raise UnsupportedOperation(f"{queue.name} is not an outgoing queue")
        return queue.outgoing

    def pause(self, queue: Queue) -> None:
        """Pause Queue (3.1.4.14, 3.1.7.2.3); a restart does not end it."""
        outgoing = self._outgoing_of(queue)
        if not queue.definition.on_hold:
            self._registry.change_definition(queue, on_hold=True)
        if outgoing.state is not OutgoingQueueState.LOCKED:
            outgoing.state = OutgoingQueueState.ON_HOLD
        self.core.effects.active.add(queue.number)

    def resume(self, queue: Queue) -> None:
        """Resume Queue (3.1.4.15, 3.1.7.2.4): Disconnected, and connect if messages wait.

        Decision 77: a session that outlived the pause is used again, so there is none to open.
        """
        outgoing = self._outgoing_of(queue)
        if queue.definition.on_hold:
            self._registry.change_definition(queue, on_hold=False)
        if outgoing.state is OutgoingQueueState.ON_HOLD:
            outgoing.engaged = outgoing.sender is not None
            outgoing.state = (
                OutgoingQueueState.CONNECTED
                if outgoing.engaged
                else OutgoingQueueState.DISCONNECTED
            )
        self.core.effects.active.add(queue.number)

    def set_state(self, queue: Queue, state: OutgoingQueueState) -> None:
        """A protocol's report; a held or locked queue keeps its state."""
        outgoing = self._outgoing_of(queue)
        outgoing.engaged = state in _ENGAGED
        if state is OutgoingQueueState.CONNECTED and not outgoing.connected_since:
            outgoing.connected_since = self.core.utc
        if outgoing.state not in HELD:
            outgoing.state = state

    def retry(self, queue: Queue) -> None:
        """An operator does not want to wait for the next attempt to connect."""
        self._outgoing_of(queue).retry_time = self.core.utc
        self.core.effects.active.add(queue.number)

    def resend(self, queue: Queue) -> None:
        """Sends again what waits for its order acknowledgment; the next session does so anyway."""
        sender = self._outgoing_of(queue).sender
        if sender is None:
            self.retry(queue)
        else:
            sender.resend()

    def connection_attempted(self, queue: Queue, attempt: ConnectionAttempt) -> None:
        """Adds an entry to ConnectionHistory; the oldest goes when there are too many."""
        self._outgoing_of(queue).connection_history.append(attempt)

    def connection_planned(self, queue: Queue, retry_time: int, last_error: str) -> None:
        """When a protocol connects again, and why it could not."""
        outgoing = self._outgoing_of(queue)
        outgoing.retry_time, outgoing.last_error = retry_time, last_error
        if last_error:
            outgoing.connected_since = 0

    def set_next_hops(self, queue: Queue, next_hops: tuple[str, ...]) -> None:
        """NextHops of an outgoing queue."""
        self._outgoing_of(queue).next_hops = next_hops

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12): local queues stay usable."""
        self.connection_active = False
        self._tell_all()

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self.connection_active = True
        self._tell_all()

    def _tell_all(self) -> None:
        self.core.effects.active.update(q.number for q in self._registry.outgoing_queues())

    # -- how messages end

    def _row(self, queue: Queue, number: int) -> Row:
        row = self.core.state.table.get(number)
        if row is None or row.queue != queue.number:
            raise MessageNotFound(f"message {number} is not in the outgoing queue {queue.name}")
        return row

    def refused_by_peer(self, queue_number: int, number: int) -> None:
        """HTTP 400 for a message ([MC-MQSRM] 3.1.7.2.5): it ends, and its stream begins again.

        Nothing is done where it ended meanwhile, by a receipt for one.
        """
        queue, row = self.core.queues.get(queue_number), self.core.state.table.get(number)
        if queue is None or row is None or row.queue != queue_number or row.flags & FLAG_ARRIVED:
            return
        row, change = self._taken(queue, number), Change()
        self._reading.release(number)
        self._acks.ended(number, row, NACK_BAD_DEST_QUEUE, change)
        self._outcomes.refused(queue, number, row, NACK_BAD_DEST_QUEUE, change)
        if is_numbered(row.flags):
            self.sequences.begin_behind(queue, row, change)
        self.core.commit(change)

    def refused(self, queue: Queue, number: int, message_class: int) -> None:
        """A protocol's report: the destination said why it does not want the message."""
        row, change = self._taken(queue, number), Change()
        self._outcomes.refused(queue, number, row, message_class, change)
        self.core.commit(change)

    def _taken(self, queue: Queue, number: int) -> Row:
        """The row of a message that leaves now, even while a reader has it locked."""
        self._outgoing_of(queue)
        row = self._row(queue, number)
        if number in self.core.locks:
            self.core.unlock(queue, number)
        self.core.effects.active.add(queue.number)
        return row
