"""Receiving a UserMessage packet: how messages of other machines come in ([MS-MQQB] 3.1.5.8).

In the order of state-machines 4.1 a: parse, duplicate, expiry, destination, security, store,
insert, acknowledge. Counting and SessionHeaders are the session's. Everything recoverable of a
batch is one atomic step: messages, their place in the duplicate history and in their sequences,
and what is answered.
"""

from __future__ import annotations

from hashlib import blake2b

from posthouse.engine.core import Core
from posthouse.engine.descriptor import QueueAccessType
from posthouse.engine.history import MessageHistory
from posthouse.engine.queue import Queue, QueueRole
from posthouse.engine.records import FLAG_EXPRESS, FLAG_REMOTE, NEVER, Change, Row
from posthouse.engine.remote import Peer, Verdict
from posthouse.engine.rows import DELIVERY, TRANSACTION_HEADER, are_alike
from posthouse.engine.sending import INFINITE
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyValue,
    MachineQuotaExceeded,
    MessageNotAuthenticated,
    QueueError,
    QueueQuotaExceeded,
    RemoteProtocolError,
    TimedOutInTransit,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
)
from posthouse.model.message_classes import (
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
)
from posthouse.model.names import PrivateName, SingleName
from posthouse.security.access import Caller
from posthouse.wire.glance import NAMES_AT, SESSION, Glance
from posthouse.wire.packet import Packet
from posthouse.wire.patch import USER_FLAGS_AT, drop_session_header
from posthouse.wire.tail import BASE_TAIL, USER_TAIL

_SEND = QueueAccessType.SEND
_ANYBODY = Caller.anonymous()

# What a queue's door refuses, as the class that tells the sender. MessageNotAuthenticated and the
# privacy level have no class of their own: these two are what Windows answers.
_CLASSES: dict[type[QueueError], int] = {
    AccessDenied: NACK_ACCESS_DENIED,
    QueueQuotaExceeded: NACK_QUEUE_EXCEED_QUOTA,
    TimedOutInTransit: NACK_REACH_QUEUE_TIMEOUT,
    MessageNotAuthenticated: NACK_BAD_SIGNATURE,
    IllegalPropertyValue: NACK_BAD_ENCRYPTION,
}
_PRIVACY_OPTIONAL = 1
_OVER_HTTP = 1 << 25  # UserHeader.Flags: the message belongs to another protocol
# Of UserHeader.Flags, what makes a message anything but plain: JN, JP and headers.
_NOT_PLAIN = 0x300 | TRANSACTION_HEADER | USER_TAIL | _OVER_HTTP


Notes = dict[bytes, dict[int, None]]  # ordinals for the history, by source


class Refusal(Exception):
    """A message is not taken; the class says why."""

    def __init__(self, message_class: int) -> None:
        super().__init__(f"{message_class:#06x}")
        self.message_class = message_class


class Batch:
    """What the packets of one batch have come to so far. Its change is committed at the end."""

    __slots__ = ("change", "express", "peer", "recoverable", "sequences")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.change = Change()
        self.recoverable: Notes = {}
        self.express: Notes = {}
        self.sequences: dict[tuple[int, bytes], None] = {}  # queue, source: an order ack is due

    def note(self, source: bytes, seen: Glance) -> None:
        """One more message for the history."""
        notes = self.recoverable if seen.user_flags & DELIVERY else self.express
        notes.setdefault(source, {})[seen.ordinal] = None

    def has(self, source: bytes, ordinal: int) -> bool:
        """Whether the message came in this very batch."""
        return any(ordinal in notes.get(source, ()) for notes in (self.recoverable, self.express))


def source_of(packet: bytes, seen: Glance) -> bytes:
    """The source of an identifier in the history.

    The copies of a message to a list of queues share its identifier, and each is for another queue:
    of those the destination belongs to the identity.
    """
    if not seen.user_flags & USER_TAIL:
        return seen.source_guid
    end = seen.transaction_at or seen.security_at or seen.properties_at or seen.body_at
    return seen.source_guid + blake2b(packet[NAMES_AT:end], digest_size=8).digest()


class Receiving:
    """How messages of other machines come in."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.history = MessageHistory(core)

    def receive(self, peer: Peer, packets: list[bytes], looks: list[Glance]) -> Verdict:
        """A batch of packets of one session, in their order.

        The first that is malformed, or finds no room in the machine, ends it: those in front of it
        are dealt with, it and the others are not.
        """
        queue = self._plain_target(packets, looks)
        if queue is not None:
            return self._take_run(queue, packets, looks)
        sound, why = self._sound(packets, looks)
        batch, dealt_with = Batch(peer), 0
        for packet, seen in zip(packets[:sound], looks, strict=False):
            try:
                self._take(batch, packet, seen)
            except MachineQuotaExceeded as error:
                why = str(error)
                self.core.refusals[error.name] += 1
                break
            dealt_with += 1
        self._commit(batch)
        return Verdict(dealt_with, tuple(batch.sequences), why)

    def _sound(self, packets: list[bytes], looks: list[Glance]) -> tuple[int, str]:
        """How many packets can be read in every part, and what is wrong with the next."""
        for at, (packet, seen) in enumerate(zip(packets, looks, strict=True)):
            try:
                if seen.user_flags & _OVER_HTTP:
                    return at, "a message that travels over HTTP"
                Packet(packet, seen).check()
            except RemoteProtocolError as error:
                return at, str(error)
        return len(packets), ""

    def _commit(self, batch: Batch) -> None:
        if batch.recoverable or batch.express:
            self.history.add(batch.recoverable, batch.express, batch.change)
        self.core.commit(batch.change)

    # -- one message

    def _take(self, batch: Batch, packet: bytes, seen: Glance) -> None:
        if seen.base_flags & SESSION:  # it belongs to the hop, and its session has read it
            packet = drop_session_header(packet)
            seen = Packet(packet).glance
        source = source_of(packet, seen)
        if seen.transaction_at:  # 3.1.5.8.1: its sequence tells, not the history
            self._deliver(batch, packet, seen)
            return
        if not self.history.knows(source, seen.ordinal) and not batch.has(source, seen.ordinal):
            self._deliver(batch, packet, seen)
        batch.note(source, seen)

    def _deliver(self, batch: Batch, packet: bytes, seen: Glance) -> None:
        try:
            self._deliver_here(batch, packet, seen)
        except Refusal as refusal:
            self._refuse(batch, packet, seen, refusal.message_class)
        except MachineQuotaExceeded:
            raise
        except QueueError as error:
            self._refuse(batch, packet, seen, _CLASSES[type(error)])

    def _deliver_here(self, batch: Batch, packet: bytes, seen: Glance) -> None:
        queue = self._local_queue(packet, seen)
        if self._is_late(seen):
            raise Refusal(NACK_REACH_QUEUE_TIMEOUT)
        if queue is None:
            raise Refusal(NACK_BAD_DEST_QUEUE)
        self._check_kind(queue, seen)
        sending = self.core.sending
        self.core.opening.require(queue, _ANYBODY, _SEND)
        admitted = sending.admit(queue, packet, seen, FLAG_REMOTE, False)
        sending.accept(admitted, None, b"", "", batch.change)

    def _is_late(self, seen: Glance) -> bool:
        """Whether its time to reach the queue was over when it came (state-machines 4.1 c)."""
        reach = seen.time_to_reach_queue
        return reach != INFINITE and seen.sent_time + reach < self.core.utc

    def _local_queue(self, packet: bytes, seen: Glance) -> Queue | None:
        """The queue of this machine that a packet is for, if anybody may send there."""
        core = self.core
        name = self._own_name(Packet(packet, seen).destination_queue)
        queue = None if name is None else core.registry.find_local(name)
        return queue if queue is not None and queue.definition.role is QueueRole.PLAIN else None

    def _own_name(self, name: SingleName | None) -> SingleName | None:
        """Decision 20: no address means this machine, in the name of a private queue too."""
        if isinstance(name, PrivateName) and name.guid == NULL_GUID:
            return PrivateName(self.core.guid, name.number, name.suffix)
        return name

    def _check_kind(self, queue: Queue, seen: Glance) -> None:
        """Transactional messages go to transactional queues, and no others do (3.1.5.8.2)."""
        if queue.definition.transactional and not seen.transaction_at:
            raise Refusal(NACK_NOT_TRANSACTIONAL_MESSAGE)
        if seen.transaction_at and not queue.definition.transactional:
            raise Refusal(NACK_NOT_TRANSACTIONAL_QUEUE)

    def _refuse(self, batch: Batch, packet: bytes, seen: Glance, message_class: int) -> None:
        self.core.refusals[f"nack_{message_class:04x}"] += 1

    # -- many messages at once

    def _plain_target(self, packets: list[bytes], looks: list[Glance]) -> Queue | None:
        """The one queue that all of these go to, if nothing at all is special about any of them."""
        if len(looks) < 2 or not are_alike(looks):
            return None
        first, core = looks[0], self.core
        source, address, reach = first.source_guid, first.address_guid, core.utc
        head = packets[0][USER_FLAGS_AT : first.properties_at or first.body_at]
        for packet, seen in zip(packets, looks, strict=True):
            if (
                not packet.startswith(head, USER_FLAGS_AT)
                or seen[4] != source
                or seen[5] != address
                or seen[13]
                or seen[6] != INFINITE
                or seen[2] & BASE_TAIL
                or (seen[3] != INFINITE and seen[7] + seen[3] < reach)
            ):
                return None
        if first.user_flags & _NOT_PLAIN or address not in (NULL_GUID, core.guid):
            return None
        ordinals = {seen[8] for seen in looks}
        if len(ordinals) < len(looks) or not ordinals.isdisjoint(self.history.known_of(source)):
            return None
        return self._plain_queue(packets[0], first, sum([seen[0] for seen in looks]))

    def _plain_queue(self, packet: bytes, seen: Glance, size: int) -> Queue | None:
        """The queue, if it takes messages of so many bytes from anybody and nobody speaks up."""
        core = self.core
        try:
            queue = self._local_queue(packet, seen)
        except RemoteProtocolError:
            return None
        if queue is None:
            return None
        definition = queue.definition
        if (
            definition.transactional
            or definition.authentication
            or definition.privacy_level != _PRIVACY_OPTIONAL
            or core.throttled
            or core.settings.machine_quota_kib != INFINITE
            or queue.state.bytes + queue.reserved + size > queue.limit
        ):
            return None
        try:
            core.opening.require(queue, _ANYBODY, _SEND)
        except AccessDenied:
            return None
        return queue

    def _take_run(self, queue: Queue, packets: list[bytes], looks: list[Glance]) -> Verdict:
        """The same as `_take` for each, all at once."""
        core, seen, change = self.core, looks[0], Change()
        ordinals = [look[8] for look in looks]
        lookup_ids = core.lookup_ids.run(len(packets))
        express = not seen.user_flags & DELIVERY
        flags = FLAG_REMOTE | (FLAG_EXPRESS if express else 0)
        row = Row(
            *(lookup_ids.start, queue.number, NEVER, core.utc, 0, 0, 0),
            seen.message_class,
            *(0, 0, seen.priority, flags, 0),
        )
        numbers = core.arrive_run(row, packets, looks, ordinals, b"", change)
        notes: Notes = {seen.source_guid: dict.fromkeys(ordinals)}
        self.history.add(*(({}, notes) if express else (notes, {})), change)
        if queue.waiters:
            for number in numbers:
                core.announce(queue, number)
        core.commit(change)
        return Verdict(len(packets))
