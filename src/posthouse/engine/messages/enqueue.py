"""Enqueue Message and Enqueue Message To An Open Queue ([MS-MQDMPR] 3.1.7.1.9, 3.1.7.1.27)."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.ledger.ledger import Extra, Ledger, encode_extra
from posthouse.engine.ledger.parts import Endings, OpenedQueues, OpenTransactions
from posthouse.engine.ledger.records import (
    FLAG_COPY,
    FLAG_REMOTE,
    NEVER,
    WANT_APPLICATION_DEAD_LETTER,
    WANT_ARRIVAL,
    WANT_JOURNAL,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import FINAL_ANSWER, row_of, wants_of
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.room import Room
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer.admin_queue_names import addressed, answerable
from posthouse.model.errors import UnsupportedFormatNameOperation
from posthouse.model.message import (
    INFINITE,
    Message,
    MessageId,
    SenderIdentifierType,
    complete_transaction,
    limited_time_to_reach_queue,
    validate,
)
from posthouse.model.names import ELEMENTS_MAX, parse_name
from posthouse.security.access import Caller
from posthouse.wire.packet.batch import Batch, split
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary

_SENDER_SID = SenderIdentifierType.SID
_AT_ONCE = WANT_JOURNAL | WANT_ARRIVAL  # what follows from the arrival itself


def destination_name(core: Ledger, descriptor: OpenQueueDescriptor) -> str:
    """The format name a packet carries for an open queue: of a path name, the direct one."""
    queue = descriptor.target()
    if queue.outgoing is not None:
        return queue.definition.format_name
    if queue.path is None:
        return descriptor.format_name
    return f"DIRECT=OS:{queue.path.with_computer(core.settings.computer_name)}"


def extra_of(host: str, wants: int) -> bytes:
    """What is kept beside a row: the host that a final answer is owed to."""
    return encode_extra(Extra(host=host)) if host and wants & FINAL_ANSWER else b""


def _asks_at_once(queue: Queue, row: Row) -> bool:
    """Whether something follows from the arrival itself: an acknowledgment, or a journal here."""
    if not row.wants & _AT_ONCE or queue.outgoing is not None:
        return False
    return bool(row.wants & WANT_ARRIVAL) or not row.flags & FLAG_REMOTE


class Sending:
    """Enqueues messages: the events of [MS-MQDMPR] and packets of clients.

    First everything is checked, then everything is done: a refusal, of one message or of a batch,
    leaves nothing.
    """

    signed: Callable[
        [bytes, PacketSummary, Caller], tuple[bytes, PacketSummary, int]
    ]  # of `Certificates`

    def __init__(
        self,
        core: Ledger,
        admission: Admission,
        registry: Queues,
        opening: OpenedQueues,
        outcomes: Endings,
    ) -> None:
        self.core = core
        self._admission = admission
        self._registry = registry
        self._opening = opening
        self._outcomes = outcomes

    def connect(self, transactions: OpenTransactions) -> None:
        """Parts that are made after this one, since they need it."""
        self._transactions = transactions

    def enqueue(
        self,
        queue: Queue,
        packet: bytes,
        *,
        transaction: Transaction | None = None,
        sender: bytes = b"",
        flags: int = 0,
        dead_letter: str = "",
        change: Change | None = None,
    ) -> int:
        """Enqueue Message (3.1.7.1.9). Returns the internal number; raises what refuses it.

        In `change` the caller collects one atomic step and commits it.
        """
        if transaction is not None:
            self._transactions.use(transaction)
        batch = Batch.of(packet)
        flags = self._admission.admit(queue, batch, flags, transaction is not None)
        return self.accept(queue, batch, flags, transaction, sender, dead_letter, change)

    def accept(
        self,
        queue: Queue,
        batch: Batch,
        flags: int,
        transaction: Transaction | None,
        sender: bytes,
        dead_letter: str,
        change: Change | None,
        host: str = "",
    ) -> int:
        """Takes in a batch that has been admitted: nothing can refuse it after this.

        `flags` are what its admission gave. `host` is where it came from, if a final answer is
        owed to it. Returns the number of its first message.
        """
        core, seen = self.core, batch.head
        extra, wants = b"", wants_of(seen)
        if dead_letter:
            wants |= WANT_APPLICATION_DEAD_LETTER
            extra = encode_extra(Extra(dead_letter=dead_letter))
        elif host:
            extra = extra_of(host, wants)
        row = row_of(
            seen,
            queue.number,
            core.utc,
            self.expiry(queue, batch),
            flags,
            wants,
            0 if transaction is not None else core.lookup_ids.run(batch.count).start,
            batch.ordinals[0],
        )
        if transaction is not None:
            return self._transactions.add_enqueue(transaction, queue, row, batch, sender, extra)
        step = change
        if wants and change is None and _asks_at_once(queue, row):
            step = Change()
        numbers = core.arrive(row, batch, sender, extra, step)
        self.arrived(queue, numbers, row, batch.packets[0], step)
        if change is None:
            if step is not None:
                core.effects.commit(step)
            if core.announced:
                core.tell()
        return numbers.start

    def send(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
        change: Change | None = None,
    ) -> MessageId:
        """Enqueue Message To An Open Queue (3.1.7.1.27), for an application of this machine.

        One copy for each element of a list, all of them or none. In `change` the caller collects
        one atomic step.
        """
        self._opening.check_open(descriptor, QueueAccessType.SEND)
        validate(message)
        self._check_answer_queues(message, descriptor.caller)
        self._complete(message, descriptor, transaction)
        elements = descriptor.nested or (descriptor,)
        if transaction is not None:
            self._transactions.use(transaction, len(elements))
        room = Room() if descriptor.nested else None
        copies = []
        for element in elements:
            if len(elements) > ELEMENTS_MAX:
                # Each copy would name all of them. By the one that is left it is told from the
                # other copies, which share its identifier.
                message.destination_multi_queue_format_name = (element.format_name,)
            copies.append(self._admitted_copy(element, message, transaction is not None, room))
        own = Change() if descriptor.nested and transaction is None and change is None else None
        sender, dead_letter = descriptor.caller.sid, message.application_deadletter_queue
        step = own if change is None else change
        for queue, batch, flags in copies:
            if self.core.spans is not None:
                self.core.spans.sent(queue, batch.packets)
            self.accept(queue, batch, flags, transaction, sender, dead_letter, step)
        if own is not None:
            self.core.commit(own)
        return message.identifier

    def _check_answer_queues(self, message: Message, caller: Caller) -> None:
        """The queues we may write to because of this message: its sender could have as well."""
        names = []
        if message.acknowledgements_requested:
            names.append(message.administration_queue_format_name)
        if message.negative_journaling_requested:
            names.append(message.application_deadletter_queue)
        for name in filter(None, names):
            self._opening.check_answer_queue(parse_name(name), caller)

    def _complete(
        self,
        message: Message,
        descriptor: OpenQueueDescriptor,
        transaction: Transaction | None,
    ) -> None:
        """What the queue manager fills in: identity, time, destinations, transaction."""
        core = self.core
        message.identifier = MessageId(core.guid, core.ordinals.next())
        message.source_machine_identifier = core.guid
        message.sent_time = core.utc
        limit = core.time_to_reach_queue_max
        message.time_to_reach_queue = limited_time_to_reach_queue(
            message.time_to_reach_queue, limit
        )
        message.authentication_level = 0
        if message.sender_identifier_type == _SENDER_SID:
            message.sender_identifier = descriptor.caller.sid
        elements = tuple(nested.format_name for nested in descriptor.nested)
        message.destination_multi_queue_format_name = elements
        complete_transaction(message, None if transaction is None else transaction.number)

    def _admitted_copy(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        in_transaction: bool,
        room: Room | None,
    ) -> tuple[Queue, Batch, int]:
        queue = self._opening.check(descriptor, QueueAccessType.SEND)
        message.destination_queue_format_name = destination_name(self.core, descriptor)
        batch = Batch.of(*answerable(self.core.guid, self._registry, queue, serialize(message)))
        return queue, batch, self._admission.admit(queue, batch, 0, in_transaction, room)

    def send_packets(
        self,
        descriptor: OpenQueueDescriptor,
        packets: list[bytes],
        transaction: Transaction | None,
        check: Callable[[list[Batch]], None] | None = None,
    ) -> list[int]:
        """Enqueue packets that a client built; identity and time are stamped into a copy.

        One refusal, also of `check`, refuses them all. Returns their ordinals.
        """
        core, caller, number = self.core, descriptor.caller, None
        if descriptor.nested:
            raise UnsupportedFormatNameOperation("packets are sent to one queue, not to a list")
        queue = self._opening.check(descriptor, QueueAccessType.SEND)
        batches = split(packets)
        if check is not None:
            check(batches)
        if transaction is not None:
            self._transactions.use(transaction, len(packets))
            number = transaction.number
        ordinals: list[int] = []
        for batch, flags in self._admitted(queue, batches, caller, transaction is not None):
            given = core.ordinals.run(batch.count)
            batch.stamp(core.guid, given, core.utc, core.time_to_reach_queue_max, number)
            if core.spans is not None:
                core.spans.sent(queue, batch.packets)
            self.accept(queue, batch, flags, transaction, caller.sid, "", None)
            ordinals += given
        return ordinals

    def _admitted(
        self, queue: Queue, batches: list[Batch], caller: Caller, in_transaction: bool
    ) -> list[tuple[Batch, int]]:
        """The batches of one call and their flags, addressed and signed."""
        core, leaves = self.core, queue.outgoing is not None
        room = Room() if leaves or len(batches) > 1 else None  # a batch that leaves may be split
        admitted: list[tuple[Batch, int]] = []
        for whole in batches:
            goes = leaves or whole.head.user_flags & OVER_HTTP
            if goes or whole.head.security_at or whole.head.ack_flags:
                whole.own()  # more is read of it than its headers
            for part in addressed(core.guid, self._registry, queue, whole) if goes else (whole,):
                batch, flags, seen = part, 0, part.head
                if seen.security_at:
                    packet, seen, flags = self.signed(part.packets[0], seen, caller)
                    batch = Batch.of(packet, seen)
                flags = self._admission.admit(queue, batch, flags, in_transaction, room)
                if seen.ack_flags:
                    # Of a queue "on the source": that will be us, whatever the sender has written.
                    known = seen._replace(source_guid=core.guid)
                    name = Packet(batch.packets[0], known).administration_queue
                    if name is not None:
                        self._opening.check_answer_queue(name, caller)
                admitted.append((batch, flags))
        return admitted

    def arrived(
        self, queue: Queue, numbers: range, row: Row, packet: bytes, change: Change | None
    ) -> None:
        """A batch has become available for the first time: everything that follows from it.

        What has consequences of its own at once comes alone: `row` is its row then, `packet` its
        packet, or empty.
        """
        core = self.core
        if core.spans is not None:
            core.spans.arrived(queue, numbers)
        if row.wants and _asks_at_once(queue, row):
            assert len(numbers) == 1
            number = numbers.start
            self._outcomes.delivered(queue, number, row, packet or core.packet(number), change)
        if row.expires <= core.utc:
            assert len(numbers) == 1
            self._outcomes.expire(queue, numbers.start, row, change)
        elif queue.waiters:
            for number in numbers:
                core.announce(queue, number)
        elif queue.outgoing is not None:
            core.effects.active.add(queue.number)

    def expiry(self, queue: Queue, batch: Batch) -> int:
        """The second from which it is expired: both times count from SentTime.

        [MS-MQQB] 3.1.7.1.2: the whole last second is left to reach the queue in.
        """
        seen, expires = batch.head, NEVER
        if seen.time_to_be_received != INFINITE:
            expires = batch.sent_time + seen.time_to_be_received
        if queue.outgoing is not None and seen.time_to_reach_queue != INFINITE:
            expires = min(expires, batch.sent_time + seen.time_to_reach_queue + 1)
        return expires if expires < NEVER else NEVER

    def copy(self, queue: Queue, original: Row, packet: bytes, change: Change | None) -> None:
        """Puts a copy of a message into a journal; over its quota the copy is dropped."""
        core = self.core
        if not queue.has_room_for(len(packet)):
            core.event("journal_full", queue=queue.name)
            core.refusals["journal_copy_dropped"] += 1
            return
        row = original._replace(
            lookup_id=core.lookup_ids.next(),
            queue=queue.number,
            expires=NEVER,
            arrived=core.utc,
            flags=original.flags | FLAG_COPY,
            wants=0,
            aborts=0,
            moves=0,
            last_move=0,
        )
        (number,) = core.arrive(row, Batch.of(packet), change=change)
        core.announce(queue, number)
