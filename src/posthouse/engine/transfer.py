"""Outgoing queues as the engine sees them: sequences, states, what is sent next.

[MS-MQDMPR] 3.1.1.3-5, 3.1.4.12-15, 3.1.7.1.28-29, 3.1.7.2.3-4, 3.1.7.3.9. Sequences are numbered
here, at commit; sending itself is the protocols'.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from posthouse.engine.core import Core, ReservedCounter, decode_extra, encode_extra
from posthouse.engine.dispatch import DispatchCollection, DispatchEntry
from posthouse.engine.queue import ConnectionAttempt, Outgoing, OutgoingQueueState, Queue
from posthouse.engine.records import TABLE_INCOMING, TABLE_OUTGOING, Change, Row
from posthouse.model.errors import MessageNotFound, UnsupportedOperation

_U32 = struct.Struct("<I")
SEQUENCE_NUMBER_MAX = 0xFFFFFFFF  # [MS-MQMQ] 2.2.20.5
# States in which a protocol has a session, or works on one.
_ENGAGED = frozenset(
    {
        OutgoingQueueState.CONNECTED,
        OutgoingQueueState.WAITING,
        OutgoingQueueState.DISCONNECTING,
    }
)
_HELD = frozenset({OutgoingQueueState.ON_HOLD, OutgoingQueueState.LOCKED})


class OutgoingTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.4: what has to be kept of it; `Transfer.report` shows all of it."""

    sequence_id: int = 0  # TimeStamp << 32 | Ordinal; 0 before the first message
    next_number: int = 1
    last_number: int = 0  # given to the message before
    last_ack_id: int = 0
    last_ack_number: int = 0
    last_ack_time: int = 0
    last_ack_count: int = 0
    resend_interval_s: int = 0
    resend_time: int = 0
    resend_count: int = 0


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO, [MS-MQMQ] 2.2.5."""

    sequence_id: int
    number: int
    previous_number: int


class OutgoingTransferReport(NamedTuple):
    """OutgoingTransferInfo as administrators see it ([MS-MQDMPR] 3.1.1.4)."""

    first_non_ack: SequenceInfo | None
    last_non_ack: SequenceInfo | None
    last_ack: SequenceInfo | None
    next_sequence: SequenceInfo
    no_ack_count: int
    no_read_count: int  # order-acknowledged, not yet reported as received
    last_ack_time: int
    last_ack_count: int
    resend_count: int
    resend_interval_s: int
    resend_time: int


class IncomingTransactionalTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.5: one per source queue manager and destination queue."""

    source: bytes
    format_name: str
    sequence_id: int = 0
    sequence_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0  # rejections before the last acceptance, or so far
    rejected: int = 0  # since the last acceptance


_encode = msgspec.msgpack.Encoder().encode
_decode_outgoing = msgspec.msgpack.Decoder(OutgoingTransferInfo).decode
_decode_incoming = msgspec.msgpack.Decoder(IncomingTransactionalTransferInfo).decode


class Transfer:
    """The engine's side of sending."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.connection_active = True
        self.dispatch = DispatchCollection()
        self._outgoing: dict[int, OutgoingTransferInfo] = {}
        self._incoming: dict[int, dict[bytes, IncomingTransactionalTransferInfo]] = {}
        self._sequences = ReservedCounter(core, b"sequence", 64)
        self._time_stamp = 0

    def load(self, time_stamp: int) -> None:
        """Everything the store kept; `time_stamp` is that of new sequences."""
        self._time_stamp = time_stamp
        for key, value in self.core.state.of_table(TABLE_OUTGOING):
            self._outgoing[_U32.unpack(key)[0]] = _decode_outgoing(value)
        for key, value in self.core.state.of_table(TABLE_INCOMING):
            senders = self._incoming.setdefault(_U32.unpack(key[:4])[0], {})
            senders[key[4:]] = _decode_incoming(value)

    # -- outgoing sequences

    def info(self, queue: Queue) -> OutgoingTransferInfo:
        """OutgoingTransferInfo of an outgoing queue: exactly one each."""
        info = self._outgoing.get(queue.number)
        if info is None:
            info = self._outgoing[queue.number] = OutgoingTransferInfo()
        return info

    def number_message(self, queue: Queue, extra: bytes, change: Change) -> bytes:
        """Decisions 23, 43: a transactional message gets its sequence number at commit, once."""
        info, kept = self.info(queue), decode_extra(extra)
        if not info.sequence_id or info.next_number > SEQUENCE_NUMBER_MAX:
            self._begin_sequence(info)
        kept.sequence_id = info.sequence_id
        kept.sequence_number = info.next_number
        kept.previous_number = info.last_number
        info.last_number = info.next_number
        info.next_number += 1
        self._store_info(queue, change)
        return encode_extra(kept)

    def _begin_sequence(self, info: OutgoingTransferInfo) -> None:
        """No two sequences of ours share an id: two names may lead to one queue far away."""
        info.sequence_id = self._time_stamp << 32 | self._sequences.next()
        info.next_number, info.last_number = 1, 0

    def _store_info(self, queue: Queue, change: Change | None = None) -> None:
        key = _U32.pack(queue.number)
        defines = [] if change is None else change.defines
        if defines and defines[-1][:2] == (TABLE_OUTGOING, key):
            defines.pop()  # of the message before, in the same commit
        self.core.define(TABLE_OUTGOING, key, _encode(self.info(queue)), change)

    def order_acknowledged(self, queue: Queue, sequence_id: int, number: int) -> bool:
        """Notes an order acknowledgment; False for one that fits nothing sent (decision 24)."""
        info = self.info(queue)
        known = sequence_id == info.sequence_id and 0 < number <= info.last_number
        acknowledged, last = (sequence_id, number), (info.last_ack_id, info.last_ack_number)
        if not known or acknowledged < last:
            return False
        info.last_ack_count = info.last_ack_count + 1 if acknowledged == last else 1
        info.last_ack_id, info.last_ack_number = acknowledged
        info.last_ack_time = self.core.utc
        self._store_info(queue)
        return True

    def resend_planned(self, queue: Queue, count: int, interval_s: int, time: int) -> None:
        """A protocol's report: how often, how far apart and when next it sends again."""
        info = self.info(queue)
        info.resend_count, info.resend_interval_s, info.resend_time = count, interval_s, time

    def report(self, queue: Queue) -> OutgoingTransferReport:
        """The whole OutgoingTransferInfo; this looks at every message of the queue."""
        info = self.info(queue)
        last_ack = SequenceInfo(
            info.last_ack_id, info.last_ack_number, max(info.last_ack_number - 1, 0)
        )
        sent = self._sequenced(queue)
        unacknowledged = [entry for entry in sent if entry[:2] > last_ack[:2]]
        return OutgoingTransferReport(
            first_non_ack=unacknowledged[0] if unacknowledged else None,
            last_non_ack=unacknowledged[-1] if unacknowledged else None,
            last_ack=last_ack if info.last_ack_number else None,
            next_sequence=SequenceInfo(info.sequence_id, info.next_number, info.last_number),
            no_ack_count=len(unacknowledged),
            no_read_count=len(sent) - len(unacknowledged),
            last_ack_time=info.last_ack_time,
            last_ack_count=info.last_ack_count,
            resend_count=info.resend_count,
            resend_interval_s=info.resend_interval_s,
            resend_time=info.resend_time,
        )

    def _sequenced(self, queue: Queue) -> list[SequenceInfo]:
        """The places of the queue's transactional messages in their sequences, in order."""
        extras = [self.core.extra(number) for _, number in queue.state.order.forward()]
        return sorted(
            SequenceInfo(extra.sequence_id, extra.sequence_number, extra.previous_number)
            for extra in extras
            if extra.sequence_number
        )

    # -- incoming sequences

    def incoming(self, queue: Queue, source: bytes) -> IncomingTransactionalTransferInfo | None:
        """What is known of a sender's sequence into a queue."""
        return self._incoming.get(queue.number, {}).get(source)

    def incoming_of(self, queue: Queue) -> list[IncomingTransactionalTransferInfo]:
        """All senders' sequences into a queue."""
        return list(self._incoming.get(queue.number, {}).values())

    def accept(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        sequence_id: int,
        number: int,
        change: Change,
    ) -> None:
        """Decision 22: the sequence moves on in the same commit as the accepted message."""
        old = self.incoming(queue, source)
        rejected = 0 if old is None else old.rejected
        info = IncomingTransactionalTransferInfo(
            source, format_name, sequence_id, number, self.core.utc, rejected
        )
        self._store_incoming(queue, info, change)

    def reject(self, queue: Queue, source: bytes, format_name: str) -> None:
        """A message out of sequence: counted, but the sequence stays where it was."""
        old = self.incoming(queue, source) or IncomingTransactionalTransferInfo(source, format_name)
        rejected = old.rejected + 1
        info = msgspec.structs.replace(
            old, last_access_time=self.core.utc, reject_count=rejected, rejected=rejected
        )
        self._store_incoming(queue, info, None)

    def _store_incoming(
        self, queue: Queue, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        self._incoming.setdefault(queue.number, {})[info.source] = info
        key = _U32.pack(queue.number) + info.source
        self.core.define(TABLE_INCOMING, key, _encode(info), change)

    def forget_queue(self, queue: Queue, change: Change) -> None:
        """A deleted queue has no sequences any more."""
        for source in self._incoming.pop(queue.number, {}):
            self.core.define(TABLE_INCOMING, _U32.pack(queue.number) + source, None, change)

    # -- states (3.1.1.3; state-machines 7.3)

    def _outgoing_of(self, queue: Queue) -> Outgoing:
        if queue.outgoing is None:
            raise UnsupportedOperation(f"{queue.name} is not an outgoing queue")
        return queue.outgoing

    def pause(self, queue: Queue) -> None:
        """Pause Queue (3.1.4.14, 3.1.7.2.3); a restart does not end it."""
        outgoing = self._outgoing_of(queue)
        if not queue.definition.on_hold:
            self.core.registry.change_definition(queue, on_hold=True)
        if outgoing.state is not OutgoingQueueState.LOCKED:
            outgoing.state = OutgoingQueueState.ON_HOLD
        self.core.effects.active.add(queue.number)

    def resume(self, queue: Queue) -> None:
        """Resume Queue (3.1.4.15, 3.1.7.2.4): Disconnected, and connect if messages wait."""
        outgoing = self._outgoing_of(queue)
        if queue.definition.on_hold:
            self.core.registry.change_definition(queue, on_hold=False)
        if outgoing.state is OutgoingQueueState.ON_HOLD:
            outgoing.state, outgoing.engaged = OutgoingQueueState.DISCONNECTED, False
        self.core.effects.active.add(queue.number)

    def set_state(self, queue: Queue, state: OutgoingQueueState) -> None:
        """A protocol's report; a held or locked queue keeps its state."""
        outgoing = self._outgoing_of(queue)
        outgoing.engaged = state in _ENGAGED
        if outgoing.state not in _HELD:
            outgoing.state = state

    def wants_connection(self, queue: Queue) -> bool:
        """State-machines 7.3: whenever messages wait and nothing forbids or is under way."""
        outgoing = queue.outgoing
        return (
            outgoing is not None
            and self.connection_active
            and queue.state.count > 0
            and outgoing.state not in _HELD
            and not outgoing.engaged
        )

    def connection_attempted(self, queue: Queue, attempt: ConnectionAttempt) -> None:
        """Adds an entry to ConnectionHistory; the oldest goes when there are too many."""
        self._outgoing_of(queue).connection_history.append(attempt)

    def take_offline(self) -> None:
        """Take Offline (3.1.4.12): local queues stay usable."""
        self.connection_active = False
        self._tell_all()

    def bring_online(self) -> None:
        """Bring Online (3.1.4.13)."""
        self.connection_active = True
        self._tell_all()

    def _tell_all(self) -> None:
        self.core.effects.active.update(q.number for q in self.core.registry.outgoing_queues())

    # -- dispatch

    def add_to_dispatch(self, queue: Queue, number: int, protocol_data: object) -> None:
        """Add Message To Dispatch Collection (3.1.7.1.28)."""
        self._outgoing_of(queue)
        row = self._row(queue, number)
        self.dispatch.add(queue, number, row.priority, protocol_data)
        self.core.effects.active.add(queue.number)

    def _row(self, queue: Queue, number: int) -> Row:
        row = self.core.state.table.get(number)
        if row is None or row.queue != queue.number:
            raise MessageNotFound(f"message {number} is not in the outgoing queue {queue.name}")
        return row

    def remove_from_dispatch(self, queue: Queue, number: int) -> None:
        """Remove Message From Dispatch Collection (3.1.7.1.29)."""
        self.dispatch.remove(queue, number)
        self.core.effects.active.add(queue.number)

    def next_dispatch(self, queue: Queue) -> DispatchEntry | None:
        """Dispatch Send Message (3.1.7.3.9)."""
        outgoing = queue.outgoing
        if outgoing is None or outgoing.state in _HELD or not self.connection_active:
            return None
        if outgoing.state is OutgoingQueueState.INACTIVE:
            return None
        return self.dispatch.next(queue, lambda number: self._sendable(queue, number))

    def _sendable(self, queue: Queue, number: int) -> bool | None:
        """Whether a message can be sent now; None when it is not in the queue any more.

        A message that expired or was purged may live on as a dead letter, under its number.
        """
        row = self.core.state.table.get(number)
        if row is None or row.queue != queue.number:
            return None
        return number not in self.core.locks

    def delivered(self, queue: Queue, number: int) -> None:
        """A protocol's report: the destination has the message, for good."""
        row, change = self._taken(queue, number), Change()
        self.core.outcomes.transferred(queue, number, row, change)
        self.core.commit(change)

    def refused(self, queue: Queue, number: int, message_class: int) -> None:
        """A protocol's report: the destination said why it does not want the message."""
        row, change = self._taken(queue, number), Change()
        self.core.outcomes.refused(queue, number, row, message_class, change)
        self.core.commit(change)

    def _taken(self, queue: Queue, number: int) -> Row:
        """The row of a message that leaves now, whoever is just looking at it."""
        self._outgoing_of(queue)
        row = self._row(queue, number)
        if number in self.core.locks:
            self.core.unlock(queue, number)
        self.dispatch.remove(queue, number)
        self.core.effects.active.add(queue.number)
        return row
