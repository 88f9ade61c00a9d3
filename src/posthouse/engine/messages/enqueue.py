"""Enqueue Message and Enqueue Message To An Open Queue ([MS-MQDMPR] 3.1.7.1.9, 3.1.7.1.27)."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.ledger.core import Core
from posthouse.engine.ledger.ledger import Extra, encode_extra
from posthouse.engine.ledger.records import (
    FLAG_COPY,
    FLAG_EXPRESS,
    FLAG_TRANSACTIONAL,
    NEVER,
    WANT_APPLICATION_DEAD_LETTER,
    WANT_ARRIVAL,
    WANT_JOURNAL,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import (
    DELIVERY,
    FINAL_ACK,
    FINAL_ANSWER,
    NEGATIVE_JOURNAL,
    POSITIVE_JOURNAL,
    TRANSACTION_HEADER,
    are_alike,
    restamped,
    row_of,
    span_of,
    wants_of,
)
from posthouse.engine.messages.admission import INFINITE, PRIVACY_OPTIONAL, Admitted, Room
from posthouse.engine.messages.enqueue_runs import plain_run
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer.admin_queue_names import addressed, answerable
from posthouse.model.errors import (
    UnsupportedFormatNameOperation,
)
from posthouse.model.message import (
    DeliveryGuarantee,
    Message,
    MessageId,
    SenderIdentifierType,
    TxSequenceId,
    limited_time_to_reach_queue,
    validate,
)
from posthouse.model.names import ELEMENTS_MAX, parse_name
from posthouse.security.access import Caller
from posthouse.wire.packet.glance import Glance, glance, glance_all
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import patch, stamp, stamp_plain, stamp_transactional

_ASKS = NEGATIVE_JOURNAL | POSITIVE_JOURNAL | TRANSACTION_HEADER | OVER_HTTP
_SENDER_SID = SenderIdentifierType.SID
_AT_ONCE = WANT_JOURNAL | WANT_ARRIVAL  # what follows from the arrival itself


def destination_name(core: Core, descriptor: OpenQueueDescriptor) -> str:
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


def complete_transaction(message: Message, number: int | None) -> None:
    """The attributes for a transaction of that number, or for none.

    They are the queue manager's: an object sent before may still have some. Choice: no connector
    application, whose values would stay, runs inside the engine.
    """
    message.first_in_transaction = message.last_in_transaction = False
    message.transaction_sequence_number = message.transaction_previous_sequence_number = 0
    if number is None:
        message.transaction_identifier = 0
        message.transactional_message_sequence_identifier = None
    else:
        message.transaction_identifier = number
        message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
        message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE


class Sending:
    """How messages come into queues.

    First everything is checked, then everything is done: a refusal, of one message or of a batch,
    leaves nothing behind.
    """

    signed: Callable[[bytes, Glance, Caller], tuple[bytes, Glance, int]]  # of `Certificates`

    def __init__(self, core: Core) -> None:
        self.core = core

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
        seen: Glance | None = None,
    ) -> int:
        """Enqueue Message (3.1.7.1.9). Returns the internal number; raises what refuses it.

        In `change` the caller collects one atomic step and commits it.
        """
        if transaction is not None:
            self.core.transactions.use(transaction)
        if seen is None:
            seen = glance(packet)
        admitted = self.core.admission.admit(queue, packet, seen, flags, transaction is not None)
        return self.accept(admitted, transaction, sender, dead_letter, change)

    def accept(
        self,
        admitted: Admitted,
        transaction: Transaction | None,
        sender: bytes,
        dead_letter: str,
        change: Change | None,
        host: str = "",
    ) -> int:
        """Takes in a message that has been admitted: nothing can refuse it any more.

        `host` is where it came from, if a final answer is owed to it.
        """
        core = self.core
        queue, packet, seen, flags = admitted
        extra, wants = b"", wants_of(seen)
        if dead_letter:
            wants |= WANT_APPLICATION_DEAD_LETTER
            extra = encode_extra(Extra(dead_letter=dead_letter))
        else:
            extra = extra_of(host, wants)
        row = row_of(seen, queue.number, core.utc, self.expiry(queue, seen), flags, wants)
        if transaction is not None:
            return core.transactions.add_enqueue(
                transaction, queue, row, packet, span_of(seen), sender, extra
            )
        row = row._replace(lookup_id=core.lookup_ids.next())
        if change is not None or (wants & _AT_ONCE and queue.outgoing is None):
            return self._deliver_in_change(queue, row, packet, seen, sender, extra, change)
        number = core.arrive(row, packet, span_of(seen), sender, extra)
        self.arrived(queue, number, row)
        core.tell()
        return number

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
        self.core.opening.check_open(descriptor, QueueAccessType.SEND)
        validate(message)
        self._check_answer_queues(message, descriptor.caller)
        self._complete(message, descriptor, transaction)
        elements = descriptor.nested or (descriptor,)
        if transaction is not None:
            self.core.transactions.use(transaction, len(elements))
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
        for admitted in copies:
            self.accept(
                admitted, transaction, sender, dead_letter, own if change is None else change
            )
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
            self.core.opening.check_answer_queue(parse_name(name), caller)

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
    ) -> Admitted:
        queue = self.core.opening.check(descriptor, QueueAccessType.SEND)
        message.destination_queue_format_name = destination_name(self.core, descriptor)
        packet, seen = answerable(self.core, queue, serialize(message))
        return self.core.admission.admit(queue, packet, seen, 0, in_transaction, room)

    def send_packets(
        self,
        descriptor: OpenQueueDescriptor,
        packets: list[bytes],
        transaction: Transaction | None,
    ) -> list[int]:
        """The same for packets a client built; identity and time are stamped into a copy.

        One refusal refuses them all.
        """
        core, sender = self.core, descriptor.caller.sid
        if descriptor.nested:
            raise UnsupportedFormatNameOperation("packets are sent to one queue, not to a list")
        queue = core.opening.check(descriptor, QueueAccessType.SEND)
        looks = glance_all(packets)
        if transaction is None and self._are_plain(queue, looks):
            if len(looks) > 1 and are_alike(looks):
                return self._accept_run(queue, packets, looks, sender)
            return [
                self._accept_plain(queue, packet, seen, sender)
                for packet, seen in zip(packets, looks, strict=True)
            ]
        if transaction is not None:
            core.transactions.use(transaction, len(packets))
            if self._are_plain(queue, looks, in_transaction=True):
                return self._accept_in_transaction(queue, packets, looks, sender, transaction)
        room, caller = Room() if len(packets) > 1 else None, descriptor.caller
        named = [addressed(core, queue, *pair) for pair in zip(packets, looks, strict=True)]
        admitted = [
            self.core.admission.admit(
                queue, *self.signed(*pair, caller), transaction is not None, room
            )
            for pair in named
        ]
        for one in admitted:
            name = Packet(one.packet, one.seen).administration_queue if one.seen.ack_flags else None
            if name is not None:
                core.opening.check_answer_queue(name, caller)
        ordinals: list[int] = []
        for one in admitted:
            ordinal = core.ordinals.next()
            self.accept(self._stamped(one, ordinal, transaction), transaction, sender, "", None)
            ordinals.append(ordinal)
        return ordinals

    def _are_plain(
        self, queue: Queue, looks: list[Glance], *, in_transaction: bool = False
    ) -> bool:
        """Whether these messages ask for nothing and would all be admitted: the common case."""
        definition, core = queue.definition, self.core
        leaving = queue.outgoing is not None
        if (
            (definition.role is not QueueRole.PLAIN and not leaving)
            or (definition.transactional is not in_transaction and not leaving)
            or (definition.multicast and in_transaction)
            or definition.authentication
            or definition.privacy_level != PRIVACY_OPTIONAL
            or core.throttled
            or core.settings.machine_quota_kib != INFINITE
        ):
            return False
        size, limit = sum([seen[0] for seen in looks]), core.time_to_reach_queue_max
        asks = TRANSACTION_HEADER if in_transaction else 0
        reach = looks[0].time_to_reach_queue if leaving and looks else 0
        known: Glance | None = None
        for seen in looks:
            if seen is known:
                continue
            known = seen
            if (
                seen.user_flags & _ASKS != asks
                or seen.transaction_flags & FINAL_ACK
                or seen.security_at
                or seen.ack_flags
                or seen.time_to_be_received != INFINITE
                or seen.time_to_reach_queue > limit
                or (leaving and seen.time_to_reach_queue != reach)
            ):
                return False
        return queue.state.bytes + queue.reserved + size <= queue.limit

    def _accept_run(
        self, queue: Queue, packets: list[bytes], looks: list[Glance], sender: bytes
    ) -> list[int]:
        """The same as `_accept_plain` for each, all at once."""
        core, count, seen = self.core, len(packets), looks[0]
        ordinals, lookup_ids = core.ordinals.run(count), core.lookup_ids.run(count)
        stamped = stamp_plain(packets, core.guid, ordinals, core.utc)
        row = Row(
            lookup_ids.start,
            queue.number,
            self._plain_expiry(queue, seen),
            core.utc,
            0,
            0,
            0,
            seen.message_class,
            0,
            0,
            seen.priority,
            0 if seen.user_flags & DELIVERY else FLAG_EXPRESS,
            0,
        )
        numbers = core.arrive_run(row, stamped, looks, ordinals, sender)
        if queue.waiters:
            for number in numbers:
                core.announce(queue, number)
            core.tell()
        if queue.outgoing is not None:
            core.effects.active.add(queue.number)
        return ordinals

    def _accept_in_transaction(
        self,
        queue: Queue,
        packets: list[bytes],
        looks: list[Glance],
        sender: bytes,
        transaction: Transaction,
    ) -> list[int]:
        """The common case of a batch in a transaction that has been asked for `use`."""
        core, utc = self.core, self.core.utc
        ordinals = core.ordinals.run(len(packets))
        stamped = stamp_transactional(packets, looks, core.guid, ordinals, utc, transaction.number)
        if len(packets) > 1 and queue.outgoing is None and are_alike(looks):
            run = plain_run(core, queue, stamped, looks, ordinals, sender)
            core.transactions.add_enqueue_run(transaction, queue, run)
            return ordinals
        expires = self._plain_expiry(queue, looks[0]) if looks else NEVER
        for packet, seen, ordinal in zip(stamped, looks, ordinals, strict=True):
            row = row_of(seen, queue.number, utc, expires, FLAG_TRANSACTIONAL, 0)
            row, span = row._replace(ordinal=ordinal), span_of(seen)
            core.transactions.add_enqueue(transaction, queue, row, packet, span, sender, b"")
        return ordinals

    def _accept_plain(self, queue: Queue, packet: bytes, seen: Glance, sender: bytes) -> int:
        """The common case of `accept`, in half its time. Returns the ordinal."""
        core = self.core
        utc, ordinal = core.utc, core.ordinals.next()
        packet = stamp(packet, source_guid=core.guid, ordinal=ordinal, sent_time=utc, seen=seen)
        row = Row(
            core.lookup_ids.next(),
            queue.number,
            self._plain_expiry(queue, seen),
            utc,
            seen.packet_size,
            ordinal,
            0,
            seen.message_class,
            0,
            0,
            seen.priority,
            0 if seen.user_flags & DELIVERY else FLAG_EXPRESS,
            0,
        )
        number = core.arrive(row, packet, span_of(seen), sender)
        if queue.waiters:
            core.announce(queue, number)
            core.tell()
        if queue.outgoing is not None:
            core.effects.active.add(queue.number)
        return ordinal

    def _plain_expiry(self, queue: Queue, seen: Glance) -> int:
        """The same as `expiry` for one that is sent now and may be received at any time."""
        if queue.outgoing is None:
            return NEVER
        return self.core.utc + seen.time_to_reach_queue + 1

    def _stamped(
        self, admitted: Admitted, ordinal: int, transaction: Transaction | None
    ) -> Admitted:
        core, seen, packet = self.core, admitted.seen, admitted.packet
        limit = core.time_to_reach_queue_max
        if seen.time_to_reach_queue > limit:
            packet = patch(packet, time_to_reach_queue=limit, seen=seen)
            seen = seen._replace(time_to_reach_queue=limit)
        packet = stamp(
            packet,
            source_guid=core.guid,
            ordinal=ordinal,
            sent_time=core.utc,
            transaction_number=None if transaction is None else transaction.number,
            seen=seen,
        )
        seen = restamped(seen, core.guid, core.utc, ordinal)
        return Admitted(admitted.queue, packet, seen, admitted.flags)

    def _deliver_in_change(
        self,
        queue: Queue,
        row: Row,
        packet: bytes,
        seen: Glance,
        sender: bytes,
        extra: bytes,
        change: Change | None,
    ) -> int:
        core = self.core
        step = Change() if change is None else change
        number = core.arrive(row, packet, span_of(seen), sender, extra, step)
        self.arrived(queue, number, row, packet, step)
        if change is None:
            core.commit(step)
        return number

    def arrived(
        self,
        queue: Queue,
        number: int,
        row: Row,
        packet: bytes = b"",
        change: Change | None = None,
    ) -> None:
        """The message has become available for the first time: everything that follows from it."""
        core = self.core
        if queue.outgoing is None and row.wants & _AT_ONCE:
            core.outcomes.delivered(queue, number, row, packet or core.packet(number), change)
        if row.expires <= core.utc:
            core.outcomes.expire(queue, number, row, change)
        else:
            core.announce(queue, number)

    def expiry(self, queue: Queue, seen: Glance) -> int:
        """The second from which it is expired: both times count from SentTime.

        [MS-MQQB] 3.1.7.1.2: the whole last second is left to reach the queue in.
        """
        expires = NEVER
        if seen.time_to_be_received != INFINITE:
            expires = seen.sent_time + seen.time_to_be_received
        if queue.outgoing is not None and seen.time_to_reach_queue != INFINITE:
            expires = min(expires, seen.sent_time + seen.time_to_reach_queue + 1)
        return min(expires, NEVER)

    def copy(self, queue: Queue, original: Row, packet: bytes, change: Change | None) -> None:
        """Puts a copy of a message into a journal; over its quota the copy is dropped."""
        core = self.core
        if queue.state.bytes + len(packet) > queue.limit:
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
        number = core.arrive(row, packet, span_of(glance(packet)), change=change)
        core.announce(queue, number)
