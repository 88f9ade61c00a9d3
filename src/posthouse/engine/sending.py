"""Enqueue Message and Enqueue Message To An Open Queue ([MS-MQDMPR] 3.1.7.1.9, 3.1.7.1.27)."""

from __future__ import annotations

from posthouse.engine.core import Core, Extra, encode_extra
from posthouse.engine.descriptor import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queue import Queue, QueueRole
from posthouse.engine.records import (
    FLAG_AUTHENTICATED,
    FLAG_COPY,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    NEVER,
    WANT_APPLICATION_DEAD_LETTER,
    WANT_DEAD_LETTER,
    WANT_FINAL_ACK,
    WANT_JOURNAL,
    Change,
    Row,
    Span,
)
from posthouse.engine.transaction import Transaction
from posthouse.model.errors import (
    IllegalPropertyValue,
    MachineQuotaExceeded,
    MessageNotAuthenticated,
    QueueQuotaExceeded,
    TimedOutInTransit,
    TransactionUsage,
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
from posthouse.wire.glance import Glance, glance
from posthouse.wire.message import serialize
from posthouse.wire.packet import Packet
from posthouse.wire.patch import stamp

INFINITE = 0xFFFFFFFF
_DELIVERY = 0x60  # [MS-MQMQ] 2.2.19.2 UserHeader.Flags: DM, JN, JP
_NEGATIVE_JOURNAL = 0x100
_POSITIVE_JOURNAL = 0x200
_TRANSACTION_HEADER = 0x100000
_FINAL_ACK = 0x2  # [MS-MQMQ] 2.2.20.5 TransactionHeader.Flags.FA
_ASKS = _NEGATIVE_JOURNAL | _POSITIVE_JOURNAL | _TRANSACTION_HEADER
_PRIVACY_NONE, _PRIVACY_OPTIONAL, _PRIVACY_BODY = 0, 1, 2
_SENDER_SID = SenderIdentifierType.SID


def destination_name(core: Core, descriptor: OpenQueueDescriptor) -> str:
    """The format name a packet carries for an open queue: of a path name, the direct one."""
    queue = descriptor.target()
    if queue.outgoing is not None:
        return queue.definition.format_name
    if queue.path is None:
        return descriptor.format_name
    return f"DIRECT=OS:{queue.path.with_computer(core.settings.computer_name)}"


def row_of(seen: Glance, queue: int, utc: int, expires: int, flags: int, wants: int) -> Row:
    """The row of a message that has no lookup identifier yet."""
    return Row(
        0,
        queue,
        expires,
        utc,
        seen.packet_size,
        seen.ordinal,
        0,
        seen.message_class,
        0,
        0,
        seen.priority,
        flags,
        wants,
    )


def flags_of(seen: Glance, flags: int) -> int:
    """Row flags that follow from the packet, beside those its door knows."""
    user_flags = seen.user_flags
    if not user_flags & _DELIVERY:
        flags |= FLAG_EXPRESS
    if user_flags & _TRANSACTION_HEADER:
        flags |= FLAG_TRANSACTIONAL
    return flags


def wants_of(seen: Glance) -> int:
    """What the sender asked for: acknowledgments and journals."""
    wants = seen.ack_flags & 0x0F
    user_flags = seen.user_flags
    if user_flags & _NEGATIVE_JOURNAL:
        wants |= WANT_DEAD_LETTER
    if user_flags & _POSITIVE_JOURNAL:
        wants |= WANT_JOURNAL
    if seen.transaction_flags & _FINAL_ACK:
        wants |= WANT_FINAL_ACK
    return wants


def span_of(seen: Glance) -> Span:
    """Where label, extension and body lie."""
    return Span._make(seen[15:21])


class Sending:
    """How messages come into queues."""

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

        In `change` the caller collects one atomic step and commits it himself.
        """
        core = self.core
        if seen is None:
            seen = glance(packet)
        flags = flags_of(seen, flags)
        if transaction is not None:
            flags &= ~FLAG_EXPRESS  # what is sent in a transaction is recoverable
        self.admit(queue, seen, packet, flags, transactional=transaction is not None)
        extra, wants = b"", wants_of(seen)
        if dead_letter:
            wants |= WANT_APPLICATION_DEAD_LETTER
            extra = encode_extra(Extra(dead_letter=dead_letter))
        expires = self._expiry(queue, seen)
        row = row_of(seen, queue.number, core.utc, expires, flags, wants)
        if transaction is not None:
            return core.transactions.add_enqueue(
                transaction, queue, row, packet, span_of(seen), sender, extra
            )
        row = row._replace(lookup_id=core.lookup_ids.next())
        if wants & (WANT_JOURNAL | 0x01) or change is not None:
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
    ) -> MessageId:
        """Enqueue Message To An Open Queue (3.1.7.1.27), for an application of this machine."""
        core = self.core
        core.opening.check_open(descriptor, QueueAccessType.SEND)
        validate(message)
        self._complete(message, descriptor, transaction)
        if not descriptor.nested:
            self._send_one(descriptor, message, transaction, None)
            return message.identifier
        # One copy for each element, all of them or none.
        elements = tuple(nested.format_name for nested in descriptor.nested)
        message.destination_multi_queue_format_name = elements
        change = None if transaction is not None else Change()
        self._check_elements(descriptor, message, transaction)
        for nested in descriptor.nested:
            self._send_one(nested, message, transaction, change)
        if change is not None:
            core.commit(change)
        return message.identifier

    def _check_elements(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
    ) -> None:
        """Every element is checked before the first copy is made."""
        if transaction is not None:
            self.core.transactions.use(transaction)
        for nested in descriptor.nested:
            queue = self.core.opening.check(nested, QueueAccessType.SEND)
            packet = self._packet_for(nested, message)
            seen = glance(packet)
            flags = flags_of(seen, 0)
            self.admit(queue, seen, packet, flags, transactional=transaction is not None)

    def _complete(
        self,
        message: Message,
        descriptor: OpenQueueDescriptor,
        transaction: Transaction | None,
    ) -> None:
        """What the queue manager fills in: identity, time, transaction."""
        core = self.core
        message.identifier = MessageId(core.guid, core.ordinals.next())
        message.source_machine_identifier = core.guid
        message.sent_time = core.utc
        limit = core.settings.default_time_to_reach_queue_s
        message.time_to_reach_queue = limited_time_to_reach_queue(
            message.time_to_reach_queue, limit
        )
        message.authentication_level = 0
        if not message.sender_identifier and message.sender_identifier_type == _SENDER_SID:
            message.sender_identifier = descriptor.caller.sid
        if transaction is not None:
            message.transaction_identifier = transaction.number
            message.transactional_message_sequence_identifier = TxSequenceId(0, 0)
            message.delivery_guarantee = DeliveryGuarantee.RECOVERABLE

    def _packet_for(self, descriptor: OpenQueueDescriptor, message: Message) -> bytes:
        message.destination_queue_format_name = destination_name(self.core, descriptor)
        return serialize(message)

    def _send_one(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
        change: Change | None,
    ) -> None:
        queue = self.core.opening.check(descriptor, QueueAccessType.SEND)
        self.enqueue(
            queue,
            self._packet_for(descriptor, message),
            transaction=transaction,
            sender=descriptor.caller.sid,
            dead_letter=message.application_deadletter_queue,
            change=change,
        )

    def send_packets(
        self,
        descriptor: OpenQueueDescriptor,
        packets: list[bytes],
        transaction: Transaction | None,
    ) -> list[int]:
        """The same for packets a client built; identity and time are stamped into a copy."""
        core = self.core
        queue = core.opening.check(descriptor, QueueAccessType.SEND)
        guid, utc, sender = core.guid, core.utc, descriptor.caller.sid
        number = None if transaction is None else transaction.number
        plain = transaction is None and self._is_plain(queue)
        ordinals: list[int] = []
        for packet in packets:
            seen = glance(packet)
            ordinal = core.ordinals.next()
            ordinals.append(ordinal)
            stamped = stamp(
                packet,
                source_guid=guid,
                ordinal=ordinal,
                sent_time=utc,
                transaction_number=number if seen.transaction_at else None,
                seen=seen,
            )
            if plain and self._enqueue_plain(queue, seen, ordinal, stamped, sender):
                continue
            self.enqueue(
                queue,
                stamped,
                transaction=transaction,
                sender=sender,
                seen=seen._replace(sent_time=utc, ordinal=ordinal, source_guid=guid),
            )
        return ordinals

    def _is_plain(self, queue: Queue) -> bool:
        """Whether a message that asks for nothing can only be refused here for its size."""
        definition, core = queue.definition, self.core
        return (
            definition.role is QueueRole.PLAIN
            and not definition.transactional
            and not definition.authentication
            and definition.privacy_level == _PRIVACY_OPTIONAL
            and not core.throttled
            and core.settings.machine_quota_kib == INFINITE
        )

    def _enqueue_plain(
        self, queue: Queue, seen: Glance, ordinal: int, packet: bytes, sender: bytes
    ) -> bool:
        """The common case of `enqueue`, in half its time; False: it is not the common case."""
        core, size = self.core, seen.packet_size
        user_flags = seen.user_flags
        if (
            user_flags & _ASKS
            or seen.ack_flags
            or seen.time_to_be_received != INFINITE
            or queue.state.bytes + queue.reserved + size > queue.limit
        ):
            return False
        row = Row(
            core.lookup_ids.next(),
            queue.number,
            NEVER,
            core.utc,
            size,
            ordinal,
            0,
            seen.message_class,
            0,
            0,
            seen.priority,
            0 if user_flags & _DELIVERY else FLAG_EXPRESS,
            0,
        )
        number = core.arrive(row, packet, span_of(seen), sender)
        if queue.waiters:
            core.announce(queue, number)
            core.tell()
        return True

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
        if queue.outgoing is None and row.wants & (WANT_JOURNAL | 0x01):
            core.outcomes.delivered(queue, number, row, packet or core.packet(number), change)
        if row.expires <= core.utc:
            core.outcomes.expire(queue, number, row, change)
        else:
            core.announce(queue, number)

    def admit(
        self, queue: Queue, seen: Glance, packet: bytes, flags: int, *, transactional: bool
    ) -> None:
        """Every reason to refuse a message at the queue's door, in the document's order."""
        core, size = self.core, seen.packet_size
        if core.throttled:
            raise MachineQuotaExceeded("the queue manager takes no messages at the moment")
        limit = core.settings.machine_quota_kib
        if limit != INFINITE and core.state.bytes + core.transactions.reserved + size > limit << 10:
            raise MachineQuotaExceeded(f"the machine quota of {limit} KiB would be exceeded")
        if queue.state.bytes + queue.reserved + size > queue.limit:
            raise QueueQuotaExceeded(
                f"the quota of {queue.definition.quota_kib} KiB of {queue.name} would be exceeded"
            )
        reach = seen.time_to_reach_queue
        if reach != INFINITE and seen.sent_time + reach < core.utc and queue.outgoing is None:
            raise TimedOutInTransit("its time to reach the queue was over when it arrived")
        self._check_kind(queue, seen, packet, flags, transactional)

    def _check_kind(
        self, queue: Queue, seen: Glance, packet: bytes, flags: int, transactional: bool
    ) -> None:
        definition = queue.definition
        if queue.outgoing is not None:
            return  # its destination decides
        header = bool(seen.user_flags & _TRANSACTION_HEADER)
        if flags & FLAG_REMOTE:
            transactional = header
        if definition.transactional != transactional and definition.role is not QueueRole.INTERNAL:
            kind = "transactional" if definition.transactional else "not transactional"
            raise TransactionUsage(f"the queue {queue.name} is {kind}, the message is the opposite")
        if definition.authentication and not flags & FLAG_AUTHENTICATED:
            raise MessageNotAuthenticated(
                f"the queue {queue.name} takes authenticated messages only"
            )
        privacy = definition.privacy_level
        if privacy != _PRIVACY_OPTIONAL:
            encrypted = Packet(packet, seen).encrypted
            if privacy == _PRIVACY_BODY and not encrypted:
                raise IllegalPropertyValue(f"the queue {queue.name} takes encrypted messages only")
            if privacy == _PRIVACY_NONE and encrypted:
                raise IllegalPropertyValue(f"the queue {queue.name} takes no encrypted messages")

    def _expiry(self, queue: Queue, seen: Glance) -> int:
        """The second from which it is expired: both times count from SentTime."""
        expires = NEVER
        if seen.time_to_be_received != INFINITE:
            expires = seen.sent_time + seen.time_to_be_received
        if queue.outgoing is not None and seen.time_to_reach_queue != INFINITE:
            expires = min(expires, seen.sent_time + seen.time_to_reach_queue)
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
