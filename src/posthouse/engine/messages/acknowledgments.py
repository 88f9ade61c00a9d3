"""Acknowledgments that the queue manager itself sends ([MS-MQQB] 3.1.7.2, 3.1.7.15, 3.1.7.17).

Administration acknowledgments report to the queue that a sender named what became of a message.
Order and final acknowledgments report to the queue manager that sent it; all of them are messages
like any other, and part of the step of the log that they speak of.
"""

from __future__ import annotations

from dataclasses import replace

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, MachineTargets, OpenedQueues, Relocating
from posthouse.engine.ledger.records import (
    FLAG_AUTHENTICATED,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
    WANT_NO_ARRIVAL,
    WANT_NO_RECEIVE,
    WANT_RECEIVE,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import flags_of
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.answering_queues import UNKNOWN
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.order_queue_names import OrderQueueNames
from posthouse.engine.transfer.pending_acknowledgments import OwedAnswers
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo
from posthouse.engine.transfer.shared_acknowledgments import AWAY_S, SharedAnswers
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    ACK_RECEIVE,
    INFINITE,
    NACK_MESSAGE_TOO_LARGE,
    DeliveryGuarantee,
    Message,
    MessageId,
)
from posthouse.model.message_classes import ORDER_ACK
from posthouse.model.names import DirectName, FormatName, PrivateName
from posthouse.security.access import Caller
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    OrderQueue,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
    order_queue_of,
)
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.sequence_places import place_of

ORDER_ACK_S = 600  # who has not taken one by then sends again, and gets another
ANSWERS_MAX = 10_000  # that wait for one machine, as far as it can ask for them again
_NEGATIVE = 0x8000  # of a class: the message did not get where it was to go
_RECEIVE_RELATED = 0x4000  # it states what became of a message in its queue
_ANYBODY = Caller.anonymous()


class Acks:
    """Acknowledgments on their way out."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        opening: OpenedQueues,
        sending: Accepting,
        targets: MachineTargets,
        transfer: MachineTransfer,
        moving: Relocating,
    ) -> None:
        self.core = core
        self._registry = registry
        self._opening = opening
        self._sending = sending
        self._targets = targets
        self._transfer = transfer
        self._moving = moving
        self.owed = OwedAnswers(core, registry, transfer, targets, moving)
        self.shared = SharedAnswers(core, registry, moving, self)
        self.names = OrderQueueNames(core)

    # -- administration acknowledgments

    def ended(self, number: int, row: Row, message_class: int, step: Change) -> None:
        """Administration Acknowledgment (3.1.7.2.1), if the sender asked for one of this end."""
        if self._is_wanted(row, message_class):
            self.administration(self.core.packet(number), row, message_class, step)

    def refused(self, packet: bytes, row: Row, message_class: int, change: Change | None) -> None:
        """Administration Acknowledgment for a message that was refused on arrival."""
        if self._is_wanted(row, message_class):
            self.administration(packet, row, message_class, change)

    def _is_wanted(self, row: Row, message_class: int) -> bool:
        if message_class == ACK_RECEIVE:
            wanted = WANT_RECEIVE
        elif message_class & _RECEIVE_RELATED:
            wanted = WANT_NO_RECEIVE
        else:
            wanted = WANT_NO_ARRIVAL
        return bool(row.wants & wanted) and not self._kept_from_strangers(row, message_class)

    def _kept_from_strangers(self, row: Row, message_class: int) -> bool:
        """Decisions 8 and 80: a negative answer shows strangers what exists here."""
        return (
            bool(message_class & _NEGATIVE and row.flags & FLAG_REMOTE)
            and not row.flags & FLAG_AUTHENTICATED
            and not self.core.settings.queue_manager.send_insecure_nacks
        )

    def administration(
        self,
        packet: bytes,
        row: Row,
        message_class: int,
        change: Change | None,
        name: FormatName | None = None,
    ) -> None:
        """Send Administration Acknowledgment (3.1.7.15).

        To an HTTP name it is a delivery or commitment receipt ([MC-MQSRM] 3.1.1.3.1, 3.1.1.3.4);
        delivery receipts may have an address of their own, `name`.
        """
        try:
            original = Packet(packet)
            administration = name or original.administration_queue
            if administration is None:
                return
            target = self._administration_queue(administration, original, row, change)
            message = self._acknowledgment(original, row, message_class, str(administration))
            self._sending.enqueue(target, serialize(message), change=change)
        except (QueueError, RemoteProtocolError) as error:
            self._dropped(message_class, error)

    def _dropped(self, message_class: int, error: Exception) -> None:
        # As the document has it: discard it. There is no one to notify.
        self.core.refusals["acknowledgment_dropped"] += 1
        self.core.event("acknowledgment_dropped", message_class=message_class, why=str(error))

    def _administration_queue(
        self, name: FormatName, original: Packet, row: Row, change: Change | None
    ) -> Queue:
        """The queue for acknowledgments, opened for sending as anybody's would be.

        For a message of another machine with the rights that anybody has: naming a queue must not
        be a way to write to it. A computer name that is unknown here leads to its sender.
        """
        remote = bool(row.flags & FLAG_REMOTE)
        own = remote and self._targets.may_be_peer(name)
        if own:
            name = PrivateName(original.identifier.guid, 4)
        target = self._registry.find_target(name)
        if own or target is None or target.outgoing is not None:
            made_for = self._address_of(name) if remote else ""
            return self._registry.sending_target(name, change, made_for=made_for)
        self._opening.check_role(target, QueueAccessType.SEND)
        if remote:
            self._registry.guard(target).require(_ANYBODY, WRITE_MESSAGE)
        return target

    def _address_of(self, name: FormatName) -> str:
        """Return the address that answers to a name of another machine go to."""
        if isinstance(name, DirectName):
            return host_key(name.host)
        found = self._transfer.address_of(name.guid) if isinstance(name, PrivateName) else None
        return UNKNOWN if found is None else found[0]

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
        receipt = administration[:12].upper().startswith("DIRECT=HTTP")  # decision 64: text alone
        if repeated and not secret and not receipt:
            message.body, message.body_type = original.body, original.body_type
        return message

    # -- order and final acknowledgments (3.1.7.17)

    def order(self, queue: int, source: bytes, host: str | None = None) -> bool:
        """An OrderAck for everything that was accepted of a source's sequence into a queue.

        Of what came from one host, and over routers, or of everything. The queue may be deleted.
        """
        if not self.may_answer(source):
            return False
        found = self._transfer.all_at(queue, source)
        sent = [
            self._order(source, info)
            for info in found
            if info.sequence_number
            and not info.via
            and (host is None or info.host in (host, ""))
            and not self.is_enough(source, info.host)
        ]
        return any(sent)

    def is_enough(self, source: bytes, host: str) -> bool:
        """Whether a machine takes none of its answers, and gets no more of those that it can have
        again: order acknowledgments, and refusals of what it will send again."""
        waiting = self._registry.find_outgoing(self._answers(source, host))
        return source == NULL_GUID or (waiting is not None and waiting.state.count >= ANSWERS_MAX)

    def may_answer(self, source: bytes) -> bool:
        """Whether order and final acknowledgments to a machine have anywhere to go."""
        return source == self.core.guid or self.owed.has_way(source)

    def _order(self, source: bytes, info: IncomingTransactionalTransferInfo) -> bool:
        body = OrderAck.of(info.sequence_id, info.sequence_number)
        if source == self.core.guid:  # a way around that leads back here
            return self._transfer.order_acknowledged(info.sequence_id, info.sequence_number)
        direct = info.format_name.upper().startswith("DIRECT=")
        name = self._order_queue(source, direct, info.host or info.address)
        if direct and info.host:
            self.names.told(source, info.host, (info.sequence_id, info.sequence_number))
        packet = order_ack(body, name, self._origin())
        return bool(self.send(source, info.host, packet, info.host or info.address, None))

    def final_from(
        self, queue: Queue, packet: bytes, message_class: int, host: str, step: Change
    ) -> None:
        """A FinalAck for a message that has left its queue, to the host that it came from.

        So to each that has sent it too, or has gone on from there since: its sender may have moved,
        or a stranger was before it. Where the directory shows the way, it waits there for any time.
        Those who send it later get it then.
        """
        transfer, seen = self._transfer, summarize(packet)
        if not host:
            source = transfer.incoming(queue, seen.source_guid)
            address = "" if source is None else source.address
            self.final(packet, message_class, address, step)
            return
        name, place = str(Packet(packet, seen).destination_queue), place_of(packet)[:2]
        transfer.note_end(seen.source_guid, name, host, place, message_class, step)
        hosts = transfer.heirs(queue, seen.source_guid, name, host, place)
        for each in hosts:
            kept_s = AWAY_S if each and hosts[1:] else INFINITE
            self.final(packet, message_class, each, step, each, kept_s)

    def final(
        self,
        packet: bytes,
        message_class: int,
        address: str,
        change: Change | None,
        host: str = "",
        kept_s: int = INFINITE,
    ) -> None:
        """A FinalAck for a transactional message of another machine; nothing for any other.

        `address` is where its sender can be reached, empty if that is not known; `host` is the only
        one that may have it. It is kept for a while only where others have it too.
        """
        sequence_id, number, previous = place_of(packet) if packet else (0, 0, 0)
        if not number:
            return
        seen = summarize(packet)
        source = seen.source_guid
        if source == self.core.guid:
            self._transfer.final_acknowledged(
                message_class, source, seen.ordinal, sequence_id, number
            )
            return
        if not self.may_answer(source):
            return
        direct = isinstance(Packet(packet, seen).destination_queue, DirectName)
        name = self._order_queue(source, direct, address)
        body = FinalAck(sequence_id, number, min(previous, number - 1), source, seen.ordinal)
        packet = final_ack(body, message_class, name, self._origin())
        self.send(source, host, packet, host or address, change, kept_s)

    def _order_queue(self, source: bytes, direct: bool, address: str) -> OrderQueue:
        """How the sender's order queue is named on the wire: as it named our queue.

        But a direct name leads no further than the next machine, and answers for a machine of the
        directory may have to go over routers. After a NAT the address is not the sender's own:
        a sender that has not taken an answer by address gets the next one by its GUID.
        """
        if (
            direct
            and address
            and not self.names.is_by_guid(source, address)
            and not self._targets.knows_machine(source)
        ):
            return order_queue_at(address.partition("%")[0])
        return order_queue_of(source)

    def _answers(self, source: bytes, host: str) -> PrivateName:
        """The outgoing queue for answers to a source, for the host that its messages came from.

        Anybody can send in the name of another, so answers for one host do not go to another. The
        first host has the name itself. No host: the directory shows where the source is.
        """
        name = order_queue_of(source)
        if not host or self._targets.knows_machine(source):
            return replace(name, address=host)
        queue = self._registry.find_outgoing(name)
        if queue is None or queue.definition.answers_at == host:
            return name
        return replace(name, address=host)

    def _origin(self) -> Origin:
        return Origin(self.core.guid, self.core.ordinals.next(), self.core.utc)

    def send(
        self,
        source: bytes,
        host: str,
        packet: bytes,
        address: str,
        change: Change | None,
        kept_s: int = INFINITE,
    ) -> int:
        """Into the outgoing queue that belongs to the machine, however the packet names it.

        No quota refuses it: without these answers its sender keeps what it sent. Returns its
        number, 0 where it was dropped.
        """
        try:
            name = self._answers(source, host)
            vouched = not host and self._targets.knows_machine(source)
            made_for = "" if vouched else host or address or UNKNOWN
            target = self._registry.sending_target(name, change, host, made_for)
            if not host and target.definition.answers_at:  # the directory has it by now
                self._registry.change_definition(target, change, answers_at="")
        except QueueError as error:
            self._dropped(0, error)
            return 0
        seen = summarize(packet)
        kept_s = ORDER_ACK_S if seen.message_class == ORDER_ACK else kept_s
        seen = seen._replace(time_to_reach_queue=kept_s)
        flags = flags_of(seen, 0)
        number = self._sending.accept(target, Batch.of(packet, seen), flags, None, b"", "", change)
        self.owed.note(name, address)
        self.shared.note(source, target)
        return number
