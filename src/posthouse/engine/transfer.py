"""Outgoing queues as the engine sees them: states, senders, acknowledgments of other machines.

[MS-MQDMPR] 3.1.1.3-5, 3.1.4.12-15, 3.1.7.2.3-4, [MS-MQQB] 3.1.5.5-7, 3.1.7.12-14. Sessions are the
protocols'; what they take and what they report goes through here. In which order messages leave is
written in `outgoing.py` for one queue, and in `protocols/binary/sending.py` for those of a session.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

import msgspec

from posthouse.engine.core import Core
from posthouse.engine.machines import Machines
from posthouse.engine.outgoing import Sender
from posthouse.engine.queue import (
    HELD,
    ConnectionAttempt,
    Outgoing,
    OutgoingQueueState,
    Queue,
)
from posthouse.engine.records import FLAG_ARRIVED, TABLE_INCOMING, Change, Row
from posthouse.engine.remote import Peer
from posthouse.engine.sequences import (
    OutgoingTransferInfo,
    OutgoingTransferReport,
    Sequences,
    is_numbered,
)
from posthouse.model.errors import (
    MessageNotFound,
    QueueError,
    QueueNotFound,
    UnsupportedOperation,
)
from posthouse.model.message_classes import NACK_BAD_DEST_QUEUE
from posthouse.model.names import parse_format_name
from posthouse.wire.glance import Glance

Seal = Callable[[bytes, Glance, int], bytes]
INCOMING_MAX = 100_000  # sequences that are known; sources are names that anybody can make up
LEFT_MAX = 10_000  # of those, into queues that are deleted
NAMES_MAX = 256  # of one queue that a sender's messages are known by, from one host
_U32 = struct.Struct("<I")
# States in which a protocol has a session, or works on one.
_ENGAGED = frozenset(
    {
        OutgoingQueueState.CONNECTED,
        OutgoingQueueState.WAITING,
        OutgoingQueueState.DISCONNECTING,
    }
)


class IncomingTransactionalTransferInfo(msgspec.Struct, omit_defaults=True):
    """[MS-MQDMPR] 3.1.1.5: one per source queue manager and destination queue."""

    source: bytes
    format_name: str
    sequence_id: int = 0
    sequence_number: int = 0
    last_access_time: int = 0
    reject_count: int = 0  # rejections before the last acceptance, or so far
    rejected: int = 0  # since the last acceptance
    address: str = ""  # where the source's session came from the last time
    # Of a stream of SRMP ([MC-MQSRM] 3.1.1.1.6) only: the host it came from, its name as sent, ...
    via: str = ""
    stream_id: str = ""
    receipts_to: str = ""  # ... SendReceiptsTo as a format name, empty where none may be sent
    acknowledged: int = 0  # LastAcknowledgedStreamMessage


_encode = msgspec.msgpack.Encoder().encode
_decode_incoming = msgspec.msgpack.Decoder(IncomingTransactionalTransferInfo).decode


def _key(queue: int, source: bytes, name: str) -> bytes:
    return _U32.pack(queue) + source + name.encode("utf-8", "surrogatepass")


@lru_cache(1024)
def _identity(format_name: str, via: str = "") -> str:
    """What tells one name from another, as its sender tells them.

    A stream belongs to the host that it came from: GUIDs can be made up, and nobody may take a
    stranger's stream for that of the machine he pretends to be (decision 65).
    """
    try:
        name = parse_format_name(format_name).key
    except QueueError:
        name = format_name.casefold()
    return f"{name} {via}" if via else name


class Transfer:
    """The engine's side of sending."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.connection_active = True
        self.seal: Seal = lambda packet, seen, now_ms: packet  # [MS-MQQB] 3.1.7.1.5
        # Which queue managers have a session with us now; all of them where no protocol can tell.
        self.is_connected: Callable[[bytes], bool] = lambda guid: True
        self.sequences = Sequences(core)
        self.machines = Machines(core)
        # By queue and source, then by the name of the queue that the sequence is for.
        self._incoming: dict[int, dict[bytes, dict[str, IncomingTransactionalTransferInfo]]] = {}
        self._moved: dict[tuple[int, bytes, str], None] = {}  # the same, the latest moved last
        # Sequences into queues that are deleted by now, by source and name: which queue it was.
        self._left: dict[tuple[bytes, str], int] = {}

    def load(self, time_stamp: int) -> None:
        """Everything the store kept; `time_stamp` is that of new sequences."""
        self.sequences.load(time_stamp)
        self.machines.load()
        found = [
            (_U32.unpack(key[:4])[0], _decode_incoming(value))
            for key, value in self.core.state.of_table(TABLE_INCOMING)
        ]
        for queue, info in sorted(found, key=lambda pair: pair[1].last_access_time):
            self._keep_incoming(queue, info)
        self._load_left()

    def _load_left(self) -> None:
        """What deleted queues have left behind."""
        change, queues = Change(), self.core.queues
        deleted = {n for n in self._incoming if n not in queues or queues[n].deleted}
        known = {key[1:] for key in self._moved if key[0] not in deleted}
        for queue, source, name in [key for key in self._moved if key[0] in deleted]:
            if (source, name) not in known:
                self._left[source, name] = queue
            elif queue not in queues:
                self._forget_incoming(queue, source, name, change)
        self.core.effects.commit(change)

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

    def unacknowledged(self, queue: Queue) -> int:
        """Messages that were sent and have not come to their end; for the sender's books."""
        sender = self._outgoing_of(queue).sender
        in_flight = 0 if sender is None else sender.unacknowledged
        return in_flight + self.sequences.arrived(queue)

    # -- sending

    def begin_sending(self, queue_number: int, peer: bytes = b"") -> Sender:
        """A session is there for an outgoing queue; one that was there before is not any more.

        `peer` is the queue manager that it leads to, which may acknowledge what is sent.
        """
        queue = self.core.queues.get(queue_number)
        if queue is None:
            raise QueueNotFound(f"there is no queue with the number {queue_number}")
        outgoing = self._outgoing_of(queue)
        if outgoing.sender is not None:
            outgoing.sender.end()
        self.sequences.led_to(queue, peer)
        outgoing.sender = Sender(self.core, self, queue)
        outgoing.last_error, outgoing.retry_time = "", 0
        self.set_state(queue, OutgoingQueueState.CONNECTED)
        return outgoing.sender

    def sender_ended(self, sender: Sender) -> None:
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
        """An OrderAck of whoever may send it; False when it fits nothing that was sent."""
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
        """A FinalAck of whoever may send it; False when it fits nothing that was sent."""
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

    def send_order_ack(self, queue_number: int, source: bytes) -> bool:
        """Send Transactional Acknowledgment (3.1.7.17) for what was accepted of a sequence."""
        return self.core.acks.order(queue_number, source)

    # -- where other machines are (decision 40)

    def reached(
        self, guid: bytes, address: str, port: int | None, *, claimed: bool = False
    ) -> None:
        """A queue manager was reached there, or came from there; None: its port is not known."""
        self.machines.reached(guid, address, port, claimed=claimed)

    def address_of(self, guid: bytes) -> tuple[str, int | None] | None:
        """Where a queue manager was reached last."""
        return self.machines.address_of(guid)

    # -- incoming sequences

    def incoming(
        self, queue: Queue, source: bytes, format_name: str = "", via: str = ""
    ) -> IncomingTransactionalTransferInfo | None:
        """What is known of a sender's sequence into a queue; without a name, of its latest.

        A sender has an outgoing queue, and so a sequence, for each name of the queue that it uses.
        """
        if format_name:
            return self.incoming_at(queue.number, source, format_name, via)
        found = self._incoming.get(queue.number, {}).get(source, {})
        return next(reversed(found.values()), None)

    def incoming_at(
        self, number: int, source: bytes, format_name: str, via: str = ""
    ) -> IncomingTransactionalTransferInfo | None:
        """The same for a queue that may be deleted.

        A queue made anew goes on where the last one of the name was: its senders do.
        """
        name = _identity(format_name, via)
        found = self._incoming.get(number, {}).get(source, {}).get(name)
        if found is None and (source, name) in self._left:
            return self._incoming[self._left[source, name]][source][name]
        return found

    def left_behind(
        self, source: bytes, format_name: str, place: tuple[int, int], via: str = ""
    ) -> int:
        """The deleted queue of this name into which this place of a sequence came; 0: none."""
        name = _identity(format_name, via)
        queue = self._left.get((source, name), 0)
        info = self._incoming[queue][source][name] if queue else None
        came = info is not None and place <= (info.sequence_id, info.sequence_number)
        return queue if came else 0

    def incoming_of(
        self, queue: Queue, source: bytes | None = None
    ) -> list[IncomingTransactionalTransferInfo]:
        """All sequences into a queue, or those of one sender."""
        return self.all_at(queue.number, source)

    def all_at(
        self, number: int, source: bytes | None = None
    ) -> list[IncomingTransactionalTransferInfo]:
        """The same for a queue that may be deleted."""
        senders = self._incoming.get(number, {})
        chosen = list(senders.values()) if source is None else [senders.get(source, {})]
        return [info for found in chosen for info in found.values()]

    def all_incoming(self) -> list[tuple[int, IncomingTransactionalTransferInfo]]:
        """Every sequence, with the number of its queue."""
        return [(number, info) for number in self._incoming for info in self.all_at(number)]

    def accept(
        self,
        queue: Queue,
        source: bytes,
        format_name: str,
        sequence_id: int,
        number: int,
        change: Change,
        address: str = "",
    ) -> None:
        """Decision 22: the sequence moves on in the same commit as the accepted message."""
        old = self.incoming(queue, source, format_name)
        rejected = 0 if old is None else old.rejected
        info = IncomingTransactionalTransferInfo(
            source, format_name, sequence_id, number, self.core.utc, rejected, 0, address
        )
        self.keep_incoming(queue.number, info, change)

    def reject(
        self, queue: Queue, source: bytes, format_name: str, change: Change, address: str = ""
    ) -> bool:
        """A message out of sequence: counted, but the sequence stays where it was.

        False: there is none, and none is made.
        """
        old = self.incoming(queue, source, format_name)
        if old is None:
            return False
        self.count_reject(queue, old, change, address)
        return True

    def count_reject(
        self,
        queue: Queue,
        old: IncomingTransactionalTransferInfo,
        change: Change,
        address: str = "",
    ) -> None:
        """The same for a sequence that was found.

        In the same step as the messages in front of it: where the sequence is may be new with them.
        """
        rejected = old.rejected + 1
        info = msgspec.structs.replace(
            old,
            last_access_time=self.core.utc,
            reject_count=rejected,
            rejected=rejected,
            address=address or old.address,
        )
        self.keep_incoming(queue.number, info, change)

    def keep_incoming(
        self, queue: int, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        """What is known of a sequence into a queue from now on."""
        name = self._keep_incoming(queue, info)
        self.core.define(TABLE_INCOMING, _key(queue, info.source, name), _encode(info), change)
        self._take_over(queue, info.source, name, change)
        if len(self._incoming[queue][info.source]) > NAMES_MAX:
            self._forget_surplus(queue, info, change)
        if len(self._moved) > INCOMING_MAX:
            self._forget_incoming(*next(iter(self._moved)), change)

    def _forget_surplus(
        self, queue: int, info: IncomingTransactionalTransferInfo, change: Change | None
    ) -> None:
        """Where a redirection leads any name to a queue, names of it can be made up.

        Who does so gives up streams of his own, and nobody else's under the same GUID.
        """
        found = self._incoming[queue][info.source]
        its_own = [name for name, other in found.items() if other.via == info.via]
        if len(its_own) > NAMES_MAX:
            self._forget_incoming(queue, info.source, its_own[0], change)

    def _forget_incoming(self, queue: int, source: bytes, name: str, change: Change | None) -> None:
        """A sender that comes back after so many others begins a new sequence, as a rule."""
        del self._moved[queue, source, name]
        if self._left.get((source, name)) == queue:
            del self._left[source, name]
        senders = self._incoming[queue]
        del senders[source][name]
        if not senders[source]:
            del senders[source]
        if not senders:
            del self._incoming[queue]
        self.core.define(TABLE_INCOMING, _key(queue, source, name), None, change)

    def _keep_incoming(self, queue: int, info: IncomingTransactionalTransferInfo) -> str:
        found = self._incoming.setdefault(queue, {}).setdefault(info.source, {})
        name = _identity(info.format_name, info.via)
        found.pop(name, None)  # the latest comes last
        found[name] = info
        self._moved.pop((queue, info.source, name), None)
        self._moved[queue, info.source, name] = None
        return name

    # -- what deleted queues leave behind

    def queue_deleted(self, queue: Queue, change: Change) -> None:
        """The sequences of a deleted queue are still known.

        What was accepted is not to be taken for new when its sender sends it again, into another
        queue of the name, nor refused: it has had its end. And what follows it has to follow.
        """
        for info in self.incoming_of(queue):
            key = info.source, _identity(info.format_name, info.via)
            self._left.pop(key, None)
            self._left[key] = queue.number
        while len(self._left) > LEFT_MAX:
            (source, name), number = next(iter(self._left.items()))
            self._forget_incoming(number, source, name, change)

    def _take_over(self, queue: int, source: bytes, name: str, change: Change | None) -> None:
        """A queue goes on with a sequence that another of its name has left behind.

        As long as there are messages of that, it is known where their streams are answered.
        """
        before = self._left.get((source, name), queue)
        if before != queue:
            if before in self.core.queues:
                del self._left[source, name]
            else:
                self._forget_incoming(before, source, name, change)

    def queue_emptied(self, queue: Queue, change: Change) -> None:
        """The last message of a deleted queue is gone: what another has taken over goes too."""
        for info in self.incoming_of(queue):
            name = _identity(info.format_name, info.via)
            if self._left.get((info.source, name)) != queue.number:
                self._forget_incoming(queue.number, info.source, name, change)

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
        """Resume Queue (3.1.4.15, 3.1.7.2.4): Disconnected, and connect if messages wait.

        Decision 77: a session that outlived the pause is used again, so there is none to open.
        """
        outgoing = self._outgoing_of(queue)
        if queue.definition.on_hold:
            self.core.registry.change_definition(queue, on_hold=False)
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
        if outgoing.state not in HELD:
            outgoing.state = state

    def retry(self, queue: Queue) -> None:
        """An operator does not want to wait for the next attempt to connect."""
        self._outgoing_of(queue).retry_time = self.core.utc
        self.core.effects.active.add(queue.number)

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

    # -- how messages end

    def _row(self, queue: Queue, number: int) -> Row:
        row = self.core.state.table.get(number)
        if row is None or row.queue != queue.number:
            raise MessageNotFound(f"message {number} is not in the outgoing queue {queue.name}")
        return row

    def refused_by_peer(self, queue_number: int, number: int) -> None:
        """HTTP 400 for a message ([MC-MQSRM] 3.1.7.2.5): it ends, and its stream begins anew.

        Nothing is done where it ended meanwhile, by a receipt for one.
        """
        queue, row = self.core.queues.get(queue_number), self.core.state.table.get(number)
        if queue is None or row is None or row.queue != queue_number or row.flags & FLAG_ARRIVED:
            return
        row, change = self._taken(queue, number), Change()
        self.core.reading.release(number)
        self.core.acks.ended(number, row, NACK_BAD_DEST_QUEUE, change)
        self.core.outcomes.refused(queue, number, row, NACK_BAD_DEST_QUEUE, change)
        if is_numbered(row.flags):
            self.sequences.begin_behind(queue, row, change)
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
        self.core.effects.active.add(queue.number)
        return row
