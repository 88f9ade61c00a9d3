"""Receiving a UserMessage packet: how messages of other machines come in ([MS-MQQB] 3.1.5.8).

In the order of state-machines 4.1 a: parse, duplicate, expiry, destination, security, store,
insert, acknowledge. The session counts packets and reads SessionHeaders. Everything recoverable of
a batch is one atomic step: messages, their entries in history and sequences, and their answers.
"""

from __future__ import annotations

from posthouse.engine.accounts.certificates import Certificates
from posthouse.engine.directory.change_notices import Notices
from posthouse.engine.directory.public_queues import DirectoryOfQueues
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import (
    Accepting,
    AckSender,
    ForeignSystems,
    PacketReads,
    TraceReports,
)
from posthouse.engine.ledger.records import (
    FLAG_AUTHENTICATED,
    FLAG_REMOTE,
    NEVER,
    Change,
)
from posthouse.engine.ledger.rows import DELIVERY, flags_of, row_of, wants_of
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import Admission, late_by
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.engine.transfer.acknowledgment_targets import AllowedAnswers
from posthouse.engine.transfer.arrival_dead_letters import RefusedDeadLetters
from posthouse.engine.transfer.arrivals import (
    RELAYED,
    ArrivalRun,
    Arriving,
    ReceivedBatch,
    Refusal,
    SequencePlace,
    out_of_range,
    refused_of,
    source_of,
)
from posthouse.engine.transfer.connect_targets import Targets
from posthouse.engine.transfer.destinations import Destinations
from posthouse.engine.transfer.final_acknowledgments import FinalAnswers
from posthouse.engine.transfer.forwarding import NO_ROOM, Forwarding
from posthouse.engine.transfer.message_history import MessageHistory
from posthouse.engine.transfer.peer_clocks import Clocks
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.engine.transfer.refused_messages import RefusedMessages
from posthouse.engine.transfer.sequence_origins import places_key
from posthouse.engine.transfer.signed_history import Copy, SignedHistory, SignedMessage
from posthouse.engine.transfer.source_check import Speakers
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyValue,
    MessageNotAuthenticated,
    QueueError,
    QueueQuotaExceeded,
    RemoteProtocolError,
    TimedOutInTransit,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import INFINITE
from posthouse.model.message_classes import (
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_BAD_ENCRYPTION,
    NACK_BAD_SIGNATURE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
    NORMAL,
    ORDER_ACK,
    class_name,
)
from posthouse.model.names import PublicName, SingleName
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.binary.order_acks import ack_class, read_final_ack, read_order_ack
from posthouse.wire.packet.batch import Batch, from_one_source
from posthouse.wire.packet.digest import content_digest, passing_digest
from posthouse.wire.packet.headers import HOPS, OVER_HTTP
from posthouse.wire.packet.packet import Packet, is_encrypted
from posthouse.wire.packet.packet_fields import SESSION, PacketSummary, own_summaries, summarize
from posthouse.wire.packet.patch import drop_session_header
from posthouse.wire.packet.sequence_places import place_seen
from posthouse.wire.packet.trailing_headers import BASE_TAIL, USER_TAIL

_ANYBODY = Caller.anonymous()

# The message class that is sent for each reason to refuse a message. MessageNotAuthenticated and
# the privacy level have no class of their own: these two are what Windows answers.
_CLASSES: dict[type[QueueError], int] = {
    AccessDenied: NACK_ACCESS_DENIED,
    QueueQuotaExceeded: NACK_QUEUE_EXCEED_QUOTA,
    TimedOutInTransit: NACK_REACH_QUEUE_TIMEOUT,
    MessageNotAuthenticated: NACK_BAD_SIGNATURE,
    IllegalPropertyValue: NACK_BAD_ENCRYPTION,
}
STEP_MESSAGES = 64  # that differ from each other, of one call; the rest is handed in again


class Receiving:
    """Accepts or refuses messages of other machines."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        targets: Targets,
        clocks: Clocks,
        admission: Admission,
        sending: Accepting,
        tracing: TraceReports,
        transfer: MachineTransfer,
        acks: AckSender,
        connectors: ForeignSystems,
        reading: PacketReads,
        history: MessageHistory,
        directory: DirectoryOfQueues,
        certificates: Certificates,
        notices: Notices,
    ) -> None:
        self.core = core
        self._registry = registry
        self._admission = admission
        self._sending = sending
        self._tracing = tracing
        self._transfer = transfer
        self._acks = acks
        self._connectors = connectors
        self.notices = notices
        self.certificates = certificates
        self.history = history
        self.signed = SignedHistory(core)
        self.targets = self._targets = targets
        self.clocks = self._clocks = clocks
        self.destinations = Destinations(core, registry)
        self.speakers = Speakers(core, self.targets)
        self.answers = AllowedAnswers(core, acks, targets)
        self.forwarding = Forwarding(
            core, registry, clocks, admission, sending, tracing, transfer, reading, directory
        )
        self.final_answers = FinalAnswers(
            core, transfer, acks, self.speakers, self.destinations.own_queue
        )
        self._guards: dict[int, tuple[tuple[bytes, bool], Guard]] = {}  # of the directory's word
        self.refused = RefusedMessages(core)
        self._dead_letters = RefusedDeadLetters(
            core, registry, admission, sending, self.guard, self._open
        )

    def receive(self, peer: Peer, packets: list[bytes], looks: list[PacketSummary]) -> Verdict:
        """A batch of packets of one session, in their order.

        The first that is malformed, or finds no room in the machine, ends it: those in front of it
        are dealt with, it and the others are not. Of many that are not alike the first are.
        """
        run = self._run(peer, packets, looks)
        if run is not None:
            return self._take_run(peer, run)
        packets, looks = packets[:STEP_MESSAGES], own_summaries(packets, looks[:STEP_MESSAGES])
        sound, why = self._sound(packets, looks)
        batch, dealt_with = ReceivedBatch(peer), 0
        with self.core.untold():
            for packet, seen in zip(packets[:sound], looks, strict=False):
                try:
                    self._take(batch, packet, seen)
                except (*NO_ROOM, RemoteProtocolError) as error:
                    why = str(error)
                    break
                dealt_with += 1
        self._commit(batch)
        return Verdict(dealt_with, tuple(batch.sequences), why)

    def _sound(self, packets: list[bytes], looks: list[PacketSummary]) -> tuple[int, str]:
        """How many packets can be read in every part, and what is wrong with the next."""
        for at, (packet, seen) in enumerate(zip(packets, looks, strict=True)):
            try:
                if seen.user_flags & OVER_HTTP:
                    return at, "a message that travels over HTTP"
                if why := out_of_range(seen):
                    return at, why
                Packet(packet, seen).check()
                if ack_class(packet, seen.base_flags, seen.user_flags) and self._is_here(seen):
                    read_order_ack(packet, seen)  # the bodies of both kinds are of one size
            except RemoteProtocolError as error:
                return at, str(error)
        return len(packets), ""

    def _commit(self, batch: ReceivedBatch) -> None:
        if batch.recoverable or batch.express:
            self.history.add(batch.recoverable, batch.express, batch.change, batch.peer.host)
        for host, notes in batch.places.items():
            self._transfer.lineages.places.add(notes, {}, batch.change, host)
        self.core.commit(batch.change)

    def _is_here(self, seen: PacketSummary) -> bool:
        """Decision 20: a message without an address is for this machine."""
        return seen.address_guid in (NULL_GUID, self.core.guid)

    def _stays(self, seen: PacketSummary) -> bool:
        """Whether it goes no further: it is for this machine, or for a connector queue of it."""
        return self._is_here(seen) or self._connectors.takes(seen.address_guid)

    # -- one message

    def _take(self, batch: ReceivedBatch, packet: bytes, seen: PacketSummary) -> None:
        if seen.base_flags & SESSION:  # it belongs to the hop, and its session has read it
            packet = drop_session_header(packet)
            seen = summarize(packet)
        code = ack_class(packet, seen.base_flags, seen.user_flags)
        if code and self._is_here(seen):
            self._acknowledged(batch.peer, code, packet, seen)
            return
        if code and not batch.peer.may_pass_on(seen.source_guid):
            self.core.refusals["acknowledgment_not_passed_on"] += 1
            return
        digest = self._digest(packet, seen)
        if seen.transaction_at:  # 3.1.5.8.1: its sequence finds repeats, not the history
            if seen.source_guid != self.core.guid or self._came_around(batch.peer, packet, seen):
                self._take_new(batch, packet, seen, digest)
            else:
                self.core.refusals["not_from_here"] += 1
            return
        source = self._source(packet, seen)
        if self._is_known(batch, source, seen.ordinal, digest):
            batch.note(source, seen, digest)
            self.answers.came_again(batch, packet, seen, digest)
            return
        if self._was_refused(batch, source, seen.ordinal, digest):
            self._note_refusal(batch, source, seen, digest)
        elif self._take_new(batch, packet, seen, digest):
            batch.note(source, seen, digest)

    def _digest(self, packet: bytes, seen: PacketSummary) -> bytes:
        """The digest of a message's content, decrypted first: each encryption gives other bytes."""
        if not self._stays(seen):
            return passing_digest(packet, seen)
        if is_encrypted(packet, seen):
            opened = self.certificates.security.open(packet, seen, self.core.now_ms)
            if opened.refusal is None:
                return content_digest(opened.packet, opened.seen)
        return content_digest(packet, seen)

    def _source(self, packet: bytes, seen: PacketSummary) -> bytes:
        """The source of an identifier in the history.

        What only passes through may come around in a circle, some hops later. Taken for a
        duplicate it would be lost without a word; its hop count ends it with one.
        """
        source = source_of(packet, seen)
        return source if self._stays(seen) else source + bytes([seen.user_flags & HOPS])

    def _came_around(self, peer: Peer, packet: bytes, seen: PacketSummary) -> bool:
        """Whether a message in our own name can have come back here on a way around.

        What becomes of it here is what the outgoing one waits for, so this is an acknowledgment,
        and counts from where acknowledgments do (decision 24).
        """
        (sequence_id, _, _) = place_seen(packet, seen)
        queue = self._transfer.sequences.queue_of(sequence_id)
        return queue is not None and bool(peer.may_acknowledge(queue.number))

    def _was_refused(
        self, batch: ReceivedBatch, source: bytes, ordinal: int, digest: bytes
    ) -> bool:
        """Whether it came before and was refused: from the same address, or over other routers."""
        if self._is_known(batch, refused_of(source, batch.peer), ordinal, digest):
            return True
        known = self._is_known(batch, source + RELAYED, ordinal, digest)
        return known and self.speakers.is_relayed(batch.peer, source)

    def _note_refusal(
        self, batch: ReceivedBatch, source: bytes, seen: PacketSummary, digest: bytes
    ) -> None:
        batch.note(refused_of(source, batch.peer), seen, digest)
        if self.speakers.is_relayed(batch.peer, source):
            batch.note(source + RELAYED, seen, digest)

    def _is_known(self, batch: ReceivedBatch, source: bytes, ordinal: int, digest: bytes) -> bool:
        return self.history.knows(source, ordinal, digest) or batch.has(source, ordinal, digest)

    def _acknowledged(self, peer: Peer, code: int, packet: bytes, seen: PacketSummary) -> None:
        """OrderAck (3.1.5.6) and FinalAck (3.1.5.7) are for the sequences, not for a queue."""
        transfer = self._transfer
        if code == ORDER_ACK:
            order = read_order_ack(packet, seen)
            place = order.sequence_id, order.sequence_number
            counts = transfer.order_acknowledged_by(peer, *place)
        else:
            final = read_final_ack(packet, seen)
            place = final.sequence_id, final.sequence_number
            of_message = final.source_queue_manager, final.message_id
            counts = transfer.final_acknowledged_by(peer, code, *of_message, *place)
        if counts:
            self.clocks.told(peer.address, seen.sent_time)

    def _take_new(
        self, batch: ReceivedBatch, packet: bytes, seen: PacketSummary, digest: bytes
    ) -> bool:
        """Takes a message in, or does nothing with it, or refuses it: then False."""
        allowed = self.answers.allowed(batch.peer, packet, seen)
        arrival = Arriving(packet, allowed, digest)
        arrival.is_muted = seen.message_class == NORMAL and allowed.ack_flags != seen.ack_flags
        try:
            if self._stays(seen):
                self._deliver(batch, arrival)
            elif not self.core.settings.queue_manager.routing_server or self.speakers.may_speak(
                batch.peer, seen
            ):
                self.forwarding.forward(batch, arrival)
        except Refusal as refusal:
            self._refuse(batch, arrival, refusal.message_class, refusal.cause)
        except QueueError as error:
            message_class = _CLASSES.get(type(error), 0)
            if not message_class and isinstance(error, NO_ROOM):
                raise
            self._refuse(batch, arrival, message_class or NACK_BAD_DEST_QUEUE, error.cause)
        else:
            return True
        return False

    def _deliver(self, batch: ReceivedBatch, arrival: Arriving) -> None:
        """A message for a queue of this machine."""
        core, seen = self.core, arrival.seen
        view = Packet(arrival.packet, seen)
        name = self.destinations.own_name(view.destination_queue)
        if self.notices.take(name) and self._is_here(seen):
            self.notices.heard(view.body, seen.source_guid)
            return
        queue = (
            self.destinations.local_queue(name)
            if self._is_here(seen)
            else self._connector(name, seen)
        )
        place = None if queue is None else self._place(batch, queue, arrival)
        if place is not None and place.is_old:
            if place.is_of_another:
                self.final_answers.came_again(batch, arrival, place.claim.host)
            self._acks.names.came_again(place.claim.source, place.claim.host, place.claim.place)
            place.reject(batch)
            self.answers.came_again(batch, arrival.packet, seen, arrival.digest)
            return
        if place is None and seen.transaction_at and self._was_accepted(batch, arrival):
            return
        if (late_s := late_by(seen, seen.sent_time, core.utc)) > 0:
            self.clocks.late(batch.peer.address, late_s)
            raise Refusal(NACK_REACH_QUEUE_TIMEOUT)
        if queue is None:
            self.destinations.note_foreign_name(batch.peer.address, name)
            raise Refusal(NACK_BAD_DEST_QUEUE)
        self._check_kind(queue, seen)
        caller = self._open(arrival)
        guard = self._foreign_guard(queue, name) or self.guard(queue)
        guard.require(caller, WRITE_MESSAGE)
        arrival.may_enter = True
        if place is not None and (not place.follows or self._is_given_up(batch, arrival)):
            place.reject(batch)
            return
        one = Batch.of(arrival.packet, arrival.seen)
        flags = self._admission.admit(queue, one, FLAG_REMOTE | arrival.flags, False)
        sender = caller.sid if caller.authenticated else b""
        copy = self._copy(batch, queue, arrival)
        if copy is Copy.REPLAYED:
            raise Refusal(NACK_BAD_SIGNATURE)
        if copy is Copy.NONE:
            host = "" if place is None else place.claim.host
            number = self._sending.accept(queue, one, flags, None, sender, "", batch.change, host)
            if arrival.is_muted:
                self.answers.note((seen.source_guid, seen.ordinal, arrival.digest), number)
        if place is not None:
            place.accept(batch)
        self._tracing.received(arrival.packet, arrival.seen, batch.change)

    def _copy(self, batch: ReceivedBatch, queue: Queue, arrival: Arriving) -> Copy:
        """Whether a signed message came into an authenticated queue before."""
        if not arrival.signed:
            return Copy.NONE
        settings, seen = self.certificates.security.settings, arrival.seen
        message = SignedMessage(arrival.signed, seen.source_guid, seen.ordinal)
        vouched = self.speakers.is_relayed(batch.peer, seen.source_guid)
        return self.signed.enter(
            queue, message, batch.peer, settings, batch.change, is_vouched_for=vouched
        )

    def _connector(self, name: SingleName | None, seen: PacketSummary) -> Queue | None:
        """The connector queue for a message to a queue of a foreign system."""
        connectors, transactional = self._connectors, bool(seen.transaction_at)
        refused = connectors.refusal(name, transactional=transactional)
        if refused != NORMAL:
            raise Refusal(refused)
        return connectors.queue_for(seen.address_guid, transactional=transactional)

    def _foreign_guard(self, queue: Queue, name: SingleName | None) -> Guard | None:
        """The rights of a foreign queue in the directory: who may send."""
        if queue.definition.role is not QueueRole.CONNECTOR or not isinstance(name, PublicName):
            return None
        found = self.targets.find_queue(name.guid)
        if found is None or not found.security:
            return None
        return Guard(found.security, str(name), authentication=found.authentication)

    def _place(self, batch: ReceivedBatch, queue: Queue, arrival: Arriving) -> SequencePlace | None:
        """The place of a transactional message in its sequence."""
        if not arrival.seen.transaction_at or not queue.definition.transactional:
            return None
        host = self.speakers.lineage(batch.peer, arrival.seen.source_guid)
        return SequencePlace(self.core, self._transfer, batch.peer, host, queue, arrival)

    def _was_accepted(self, batch: ReceivedBatch, arrival: Arriving) -> bool:
        """Whether it came into a queue of the name before that was deleted.

        It has had its end, and gets no other; its order acknowledgment is due once more.
        """
        seen = arrival.seen
        name = str(Packet(arrival.packet, seen).destination_queue)
        sequence_id, place, _ = place_seen(arrival.packet, seen)
        source, at = seen.source_guid, (sequence_id, place)
        host = self.speakers.lineage(batch.peer, source)
        number = self._transfer.left_behind(source, name, at, host, arrival.digest)
        if number:
            batch.sequences[number, source] = None
            self.final_answers.came_again(batch, arrival, host)
        return bool(number)

    def _open(self, arrival: Arriving) -> Caller:
        """Decrypts and verifies (3.1.5.8.3). Returns on whose behalf it comes (decisions 1, 2)."""
        seen = arrival.seen
        if not seen.security_at:
            return _ANYBODY
        verified = self.certificates.security.open(arrival.packet, seen, self.core.now_ms)
        if verified.refusal is not None:
            raise Refusal(verified.refusal)
        arrival.packet = verified.packet
        arrival.seen = verified.seen._replace(ack_flags=seen.ack_flags)
        if verified.authenticated:
            arrival.flags |= FLAG_AUTHENTICATED
            arrival.signed = verified.digest
        return self.certificates.sender(verified)

    def guard(self, queue: Queue) -> Guard:
        """The access check of a queue; for a public one the directory has the last word."""
        definition = queue.definition
        if definition.queue_type is QueueType.PUBLIC:
            found = self.targets.find_queue(definition.identifier)
            if found is not None and found.security not in (b"", definition.security):
                return self._guard_of(queue, found.security)
        return self._registry.guard(queue)

    def _guard_of(self, queue: Queue, security: bytes) -> Guard:
        known = self._guards.get(queue.number)
        if known is None or known[0] != (security, queue.definition.authentication):
            guard = Guard(security, queue.name, authentication=queue.definition.authentication)
            known = (security, queue.definition.authentication), guard
            self._guards[queue.number] = known
        return known[1]

    def _check_kind(self, queue: Queue, seen: PacketSummary) -> None:
        """Transactional messages go to transactional queues, and no others do (3.1.5.8.2)."""
        if queue.definition.transactional and not seen.transaction_at:
            raise Refusal(NACK_NOT_TRANSACTIONAL_MESSAGE)
        if seen.transaction_at and not queue.definition.transactional:
            raise Refusal(NACK_NOT_TRANSACTIONAL_QUEUE)

    # -- refusals

    def _refuse(
        self, batch: ReceivedBatch, arrival: Arriving, message_class: int, cause: str = ""
    ) -> None:
        """The message is dropped; those who asked for it learn why, by a class alone."""
        core, seen, change = self.core, arrival.seen, batch.change
        core.refusals[class_name(message_class)] += 1
        flags = flags_of(seen, FLAG_REMOTE | arrival.flags)
        row = row_of(seen, 0, core.utc, NEVER, flags, wants_of(seen))
        row = row._replace(message_class=message_class)
        kept = self._dead_letters.keep(batch.peer, arrival, row, message_class, change)
        self.refused.note_arrival(batch.peer, arrival, message_class, cause, kept=kept)
        if seen.transaction_at and self.final_answers.withholds(batch.peer, arrival, message_class):
            return  # its sender sends it again: it may be taken then
        if self._is_first_refusal(batch, arrival):
            self._acks.refused(arrival.packet, row, message_class, change)
        if seen.transaction_at:
            host = self.speakers.lineage(batch.peer, seen.source_guid)
            if not self._acks.is_enough(seen.source_guid, host):
                self._acks.final(arrival.packet, message_class, batch.peer.address, change, host)

    def _is_first_refusal(self, batch: ReceivedBatch, arrival: Arriving) -> bool:
        """A message may come again until its sender has heard; its acknowledgment does not.

        The history remembers it, but not as one that came in: anybody can send under a name.
        """
        seen = arrival.seen
        source = self._source(arrival.packet, seen)
        known = self._was_refused(batch, source, seen.ordinal, arrival.digest)
        self._note_refusal(batch, source, seen, arrival.digest)
        return not known

    def _is_given_up(self, batch: ReceivedBatch, arrival: Arriving) -> bool:
        """Whether the sender of a transactional message was told that it is refused.

        It ends the message when it is told so. What was wrong with it may be over by now, as with a
        full queue, but taken in after all it would have two ends.
        """
        seen = arrival.seen
        source = self._source(arrival.packet, seen)
        known = self._was_refused(batch, source, seen.ordinal, arrival.digest)
        return known and self.final_answers.may_be_sent(batch.peer, arrival)

    # -- many messages at once

    def _run(
        self, peer: Peer, packets: list[bytes], looks: list[PacketSummary]
    ) -> ArrivalRun | None:
        """All of these as one run, if nothing distinguishes them and nothing speaks against any.

        They go to one queue of this machine, come from one source, ask for no answers, and are
        either new to the history or the next ones of one sequence.
        """
        batch = from_one_source(packets, looks) if looks else None
        if batch is None or not self._asks_nothing(batch.head):
            return None
        found = self._open_to_all(batch)
        if found is None:
            return None
        head, (queue, flags) = batch.head, found
        host = self.speakers.lineage(peer, head.source_guid) if head.transaction_at else ""
        run = ArrivalRun(queue, host, batch, flags)
        new = (
            run.follows(self._transfer.lineages)
            if head.transaction_at
            else run.is_new(self.history)
        )
        return run if new and not run.was_refused(self.history, peer) else None

    def _asks_nothing(self, head: PacketSummary) -> bool:
        """Whether messages are for this machine and nothing but their queue is asked for."""
        return not (
            out_of_range(head)
            or head.user_flags & USER_TAIL
            or head.base_flags & BASE_TAIL
            or head.ack_flags
            or head.time_to_be_received != INFINITE
            or not self._is_here(head)
            or (head.transaction_at and head.source_guid == self.core.guid)
        )

    def _open_to_all(self, batch: Batch) -> tuple[Queue, int] | None:
        """The queue of a batch, if it takes it from anybody, and the flags of its admission.

        What is refused is looked at one by one: each has its own answer.
        """
        head = batch.head
        try:
            queue = self.destinations.own_queue(Packet(batch.packets[0], head).destination_queue)
            if queue is None or not self.guard(queue).allows(_ANYBODY, WRITE_MESSAGE):
                return None
            self._check_kind(queue, head)
            return queue, self._admission.admit(queue, batch, FLAG_REMOTE, False)
        except (RemoteProtocolError, QueueError, Refusal):
            return None

    def _take_run(self, peer: Peer, run: ArrivalRun) -> Verdict:
        """Take all messages of a run in one step; the result is that of `_take` for each."""
        core, queue, seen, change = self.core, run.queue, run.looks[0], Change()
        self._sending.accept(queue, run.batch, run.flags, None, b"", "", change, run.host)
        sequences: tuple[tuple[int, bytes], ...] = ()
        if seen.transaction_at:
            self._move_on(peer, run, change)
            sequences = ((queue.number, seen.source_guid),)
        else:
            notes = {seen.source_guid: dict(zip(run.ordinals, run.digests(), strict=True))}
            kinds = (notes, {}) if seen.user_flags & DELIVERY else ({}, notes)
            self.history.add(*kinds, change, peer.host)
        core.commit(change)
        return Verdict(len(run.packets), sequences)

    def _move_on(self, peer: Peer, run: ArrivalRun, change: Change) -> None:
        """The sequence of a run is where its last message is."""
        transfer, source, host = self._transfer, run.looks[0].source_guid, run.host
        sequence_id, numbers = run.sequence_id, run.numbers
        info = transfer.accept(
            *(run.queue, source, run.name, sequence_id, numbers[-1], change, peer.address, host),
            first=numbers[0],
            messages=len(numbers),
        )
        key = places_key(source, transfer.name_of(info), sequence_id)
        transfer.lineages.places.add({key: run.places()}, {}, change, host)
