"""SRMP Message Received: how messages come in over HTTP and multicast ([MC-MQSRM] 3.1.5.1).

In the order of the document: destination, expiry, kind, signature, place in the stream, duplicate,
insertion. Everything recoverable of a turn is one atomic step: messages, their identifiers in the
history, their places in streams, their receipts; so an answer that waits for the turn to be synced
never shows of anything that a crash could undo. What is refused leaves no trace but a count.
"""

from __future__ import annotations

from hashlib import blake2b

from posthouse.engine.accounts.certificates import Certificates
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, AckSender, TraceReports
from posthouse.engine.ledger.records import FLAG_AUTHENTICATED, FLAG_REMOTE, NEVER
from posthouse.engine.ledger.rows import row_of, wants_of
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import Admission, other_kind
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import ORDER_QUEUE, Queue, QueueRole, QueueType
from posthouse.engine.transfer.arrivals import Arriving
from posthouse.engine.transfer.peer_clocks import Clocks
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo as Incoming
from posthouse.engine.transfer.signed_history import Copy, SignedMessage
from posthouse.engine.transfer.srmp.allowed_receipts import SrmpAnswers
from posthouse.engine.transfer.srmp.destinations import WebDestinations, WebRefusal
from posthouse.engine.transfer.srmp.message_runs import SrmpBatch, neighbours
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival, SrmpVerdict
from posthouse.engine.transfer.srmp.redirects import Redirects
from posthouse.engine.transfer.srmp.streams import IncomingStreams, Key, StreamPlace, at_host
from posthouse.engine.transfer.srmp.web_names import url_text, web_name
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    MachineQuotaExceeded,
    QueueError,
    QueueQuotaExceeded,
    RemoteProtocolError,
    ServiceNotAvailable,
)
from posthouse.model.guids import NULL_GUID
from posthouse.model.message_classes import ACK_REACH_QUEUE, NORMAL
from posthouse.model.names import DirectName
from posthouse.security.access import Caller, Guard
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.security.xml_signatures import XmlVerified, verify
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.digest import web_digest
from posthouse.wire.packet.headers import HOP_COUNT_MAX, INFINITE
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import patch
from posthouse.wire.packet.renaming import with_direct_destination
from posthouse.wire.srmp.forwarding_headers import hops_in, with_sender
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpKind, SrmpMessage, kind_of

# Decision 33: what may be over the next time.
_TEMPORARY = (
    MachineQuotaExceeded,
    QueueQuotaExceeded,
    InsufficientResources,
    ServiceNotAvailable,
)
_ANYBODY = Caller.anonymous()
# 3.1.5.1.12: a signature proves who wrote a message, and gives no rights (decision 10).
_EVERYBODY = Caller(EVERYONE, "everyone", frozenset((EVERYONE,)), True, False)
_RECEIPTS = frozenset({SrmpKind.STREAM_RECEIPT, SrmpKind.FINAL_STREAM_RECEIPT})


DONE = SrmpVerdict(200)


def _name_used(to: str) -> str:
    """The name that a sender has a stream for: one, in however many ways its URL is written.

    With each spelling a stream of its own, a stranger could have one queue keep any number of them.
    """
    name = web_name(to)
    return f"DIRECT={to if name is None else url_text(name)}"


class SrmpReceiving:
    """Accepts or refuses messages over HTTP and multicast."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        clocks: Clocks,
        admission: Admission,
        sending: Accepting,
        tracing: TraceReports,
        transfer: MachineTransfer,
        acks: AckSender,
        streams: IncomingStreams,
        redirects: Redirects,
        receiving: Receiving,
        certificates: Certificates,
    ) -> None:
        self.core = core
        self._registry = registry
        self._clocks = clocks
        self._admission = admission
        self._sending = sending
        self._tracing = tracing
        self._transfer = transfer
        self._acks = acks
        self.streams = streams
        self.redirects = redirects
        self.receiving = receiving
        self.certificates = certificates
        self._destinations = WebDestinations(core, registry, redirects, receiving.destinations)
        self.answers = SrmpAnswers(core, receiving)
        self._open_guards: dict[int, tuple[bytes, Guard]] = {}
        self._touched: list[Key] = []  # streams whose receipts are due, once the batch is whole

    def receive(self, arrivals: list[SrmpArrival]) -> list[SrmpVerdict]:
        """SRMP Message Received (3.1.5.1), each as if it had come alone."""
        batch = self._batch(arrivals)
        verdicts: list[SrmpVerdict] = []
        with self.core.untold():
            for alike in neighbours(arrivals):
                if len(alike) > 1 and self._gathered(batch, alike):
                    verdicts += [DONE] * len(alike)
                else:
                    verdicts += [self._answered(batch, arrival) for arrival in alike]
        self._commit(batch)
        return verdicts

    def _batch(self, arrivals: list[SrmpArrival]) -> SrmpBatch:
        peer = arrivals[0].peer if arrivals else Peer(b"", "")
        history = self.receiving.history
        return SrmpBatch(peer, self._guard, self._admission, self._sending.accept, history)

    def _commit(self, batch: SrmpBatch) -> None:
        batch.flush()
        for host, notes in batch.places.items():
            self._transfer.lineages.places.add(notes, {}, batch.change, host)
        for host, (recoverable, express) in batch.hosts.items():
            if recoverable or express:
                self.receiving.history.add(recoverable, express, batch.change, host)
        self.core.commit(batch.change)
        # A receipt is a step of its own, and shows how far the stream is: it may not be in the log
        # in front of the messages that it shows of.
        touched, self._touched = self._touched, []
        for key in touched:
            self.streams.touch(key)

    def _answered(self, batch: SrmpBatch, arrival: SrmpArrival) -> SrmpVerdict:
        try:
            return self._take(batch, arrival)
        except (WebRefusal, RemoteProtocolError, QueueError) as error:
            self.receiving.refused.note_post(arrival.peer, arrival.message, error)
            return SrmpVerdict(500 if isinstance(error, _TEMPORARY) else 400, str(error))

    def _take(self, batch: SrmpBatch, arrival: SrmpArrival) -> SrmpVerdict:
        message = arrival.message
        batch.come_from(arrival.peer.host)
        if self._gather(batch, [arrival]):
            return DONE
        batch.flush()
        kind = kind_of(message)
        if kind in _RECEIPTS:
            return self._acknowledged(arrival, kind)
        if kind is SrmpKind.IGNORED and self._is_order_queue(message.to):
            return self._ignored("srmp_message_ignored", "a receipt that contradicts itself")
        if self._was_accepted(batch, arrival):
            return self._ignored("duplicate", "it came before")
        name, queue = self._destinations.place(message.to)
        if queue is not None:
            self._check_kind(queue, message)
        if self._is_late(message):
            repeated = None if queue is None else self._repeated(arrival, queue)
            if repeated is not None:
                return self._out_of_place(batch, arrival, repeated)
            late_s = self.core.utc - message.expires()
            self._clocks.late(arrival.peer.address, late_s)
            self.receiving.refused.note_late(arrival.peer, message)
            return self._ignored("expired_on_arrival", "its time was over")
        if kind is SrmpKind.IGNORED:
            return self._ignored("srmp_message_ignored", "a message of no known kind")
        if queue is None:
            self._forward(batch, arrival, name)
            return DONE
        place = self._stream_place(arrival, queue)
        if place is not None:
            if not place.follows:
                return self._out_of_place(batch, arrival, place)
        elif self._is_known(batch, arrival):
            return self._ignored("duplicate", "it came before")
        self._insert(batch, arrival, queue, place)
        return DONE

    def _stream_place(self, arrival: SrmpArrival, queue: Queue) -> StreamPlace | None:
        message = arrival.message
        if message.stream is None:
            return None
        used, digest = _name_used(message.to), self._digest(arrival)
        return StreamPlace(self.streams, arrival.peer.host, queue, used, message.stream, digest)

    def _repeated(self, arrival: SrmpArrival, queue: Queue) -> StreamPlace | None:
        """The place of a message that came before its time was over.

        Its sender waits for the final receipt of it, and shows where it is now.
        """
        place = self._stream_place(arrival, queue)
        return place if place is not None and place.is_repeated else None

    def _gathered(self, batch: SrmpBatch, alike: list[SrmpArrival]) -> bool:
        """Messages of one template at once; False: each is looked at alone, and may be refused."""
        batch.come_from(alike[0].peer.host)
        try:
            return self._gather(batch, alike)
        except (WebRefusal, RemoteProtocolError, QueueError):
            return False

    def _gather(self, batch: SrmpBatch, alike: list[SrmpArrival]) -> bool:
        """The common case of what `_take` does; False: nothing was done, and it has to decide.

        One message, or several that differ in number and body only.
        """
        message, utc = alike[0].message, self.core.utc
        if not message.is_plain:
            return False
        _, queue = self._destinations.place(message.to)
        if queue is None or not batch.is_open(queue) or self._is_late(message):
            return False
        packets, looks, ordinals = [], [], []
        for arrival in alike:
            packet, seen = arrival.packed(utc)
            packets.append(packet)
            looks.append(seen)
            ordinals.append(seen.ordinal)
        source, digests = message.source_guid, []
        if source != NULL_GUID or 1 not in ordinals:
            digests = list(map(web_digest, packets, looks))
            if not batch.are_new(source, ordinals, digests):
                return False
        elif len(ordinals) > 1:
            return False  # those without a name are not told apart
        if not batch.gather(queue, Batch(packets, looks, ordinals)):
            return False
        for ordinal, digest in zip(ordinals, digests, strict=False):
            batch.note_one(source, ordinal, digest, recoverable=message.durable)
        return True

    def _digest(self, arrival: SrmpArrival) -> bytes:
        """The digest of a message's content and its place in the stream."""
        packet, seen = arrival.packed(self.core.utc)
        stream = arrival.message.stream
        place = (0, 0) if stream is None else (stream.sequence_id, stream.current)
        return web_digest(packet, seen, place)

    def _ignored(self, counter: str, why: str) -> SrmpVerdict:
        """Done with, and nothing came of it; its sender shall not send it again."""
        self.core.refusals[counter] += 1
        return SrmpVerdict(200, why)

    # -- what is not taken

    def _check_kind(self, queue: Queue, message: SrmpMessage) -> None:
        """Streams go to transactional queues, and nothing else does."""
        if queue.definition.transactional is not (message.stream is not None):
            raise WebRefusal(other_kind(queue).cause)

    def _is_late(self, message: SrmpMessage) -> bool:
        """Decision 34: a message whose time is over is not delivered, and not reported."""
        expires = message.expires()
        return expires != INFINITE and expires < self.core.utc

    def _forward(self, batch: SrmpBatch, arrival: SrmpArrival, name: DirectName) -> None:
        """Forwards a message: by a redirection, or as a transparent store-and-forward server.

        One of our addresses with another port is not ours, and is not forwarded to (decision 61).
        The head names the host that it came from: streams of different hosts stay apart where we
        are believed (`[srmp] reverse_proxies`).
        """
        core, message = self.core, arrival.message
        redirected = self.redirects.inbound(message.to) is not None
        if not redirected and not self._destinations.forwards:
            self._registry.own.not_ours(name.host, arrival.peer.address)
            raise WebRefusal("it is for another computer, and nothing is forwarded from here")
        if not redirected and self._registry.is_own(name.host, None):
            raise WebRefusal("this machine has no queue manager on that port")
        if self.redirects.is_forbidden(name.host, name.port):
            raise WebRefusal("nothing is sent to that address from here")
        hops = hops_in(arrival.head) + 1
        if hops > HOP_COUNT_MAX:
            raise WebRefusal(f"it went in a circle: {hops - 1} servers have passed it on")
        if message.stream is None and self._is_known(batch, arrival, hops):
            self.core.refusals["duplicate"] += 1
            return
        head = with_sender(arrival.head, arrival.peer.host)
        packet = packet_of(message, arrival.parts, head, core.utc)
        packet = patch(packet, hop_count=hops, seen=summarize(packet))
        seen = summarize(packet)
        if redirected:
            packet = with_direct_destination(packet, seen, name)
            seen = summarize(packet)
        queue = self._registry.sending_target(name, batch.change)
        seen = seen._replace(ack_flags=0)  # its destination answers
        one = Batch.of(packet, seen)
        flags = self._admission.admit(queue, one, FLAG_REMOTE, False)
        self._sending.accept(queue, one, flags, None, b"", "", batch.change)
        self._note(batch, arrival, seen, hops)

    # -- duplicates (3.1.5.1.11) and streams (3.1.5.1.6.3)

    def _source(self, message: SrmpMessage, hops: int) -> bytes:
        """Whose identifier it is in the history (decision 84).

        The copies of a message to several queues share it, so the queue belongs to it there. What
        only passes through may come round in a circle: taken for a duplicate it would be lost
        without a word, its hops end it with one.
        """
        source = message.source_guid + (bytes([hops]) if hops else b"")
        if not message.destination_mqf:
            return source
        return source + blake2b(message.to.encode(), digest_size=8).digest()

    def _is_known(self, batch: SrmpBatch, arrival: SrmpArrival, hops: int = 0) -> bool:
        message = arrival.message
        if message.source_guid == NULL_GUID and message.ordinal == 1:
            return False
        source, digest = self._source(message, hops), self._digest(arrival)
        known = batch.came_in(source, message.ordinal, digest)
        if known:  # [MS-MQQB] 3.1.5.8.1: slow repeats renew the entry
            batch.note_one(source, message.ordinal, digest, recoverable=message.durable)
            self.answers.came_again(batch, arrival, digest)
        return known

    def _note(
        self, batch: SrmpBatch, arrival: SrmpArrival, seen: PacketSummary, hops: int = 0
    ) -> None:
        """Of a stream its place shows what is new, as with transactional messages elsewhere."""
        message = arrival.message
        anonymous = message.source_guid == NULL_GUID and message.ordinal == 1
        if message.stream is None and not anonymous:
            batch.note(self._source(message, hops), seen, self._digest(arrival))

    def _was_accepted(self, batch: SrmpBatch, arrival: SrmpArrival) -> bool:
        """Whether it came into a queue of the name before that was deleted.

        It has had its end, and gets no other; its receipt is due once more, at the host that it
        comes from now.
        """
        stream, host = arrival.message.stream, arrival.peer.host
        if stream is None or not self._transfer.has_left(stream.guid):
            return False
        used, place = _name_used(arrival.message.to), (stream.sequence_id, stream.current)
        digest = self._digest(arrival)
        number = self._transfer.left_behind(stream.guid, used, place, host, digest)
        if number:
            key = number, stream.guid, used, host
            like = self.streams.left_elsewhere(key, place, digest)
            named = web_name(stream.send_receipts_to or "")
            allowed = like and named and self.answers.allowed_for_stream(arrival, named)
            if like and not allowed:
                there = at_host(like.receipts_to, host)
                allowed = self.answers.allowed_for_stream(arrival, there)
            if like and allowed:
                info = Incoming(stream.guid, used, *place, self.core.utc, via=host)
                info.stream_id, info.receipts_to = stream.stream_id, str(allowed)
                info.receipts_as = like.receipts_as or like.receipts_to
                self.streams.answer_moved(key, arrival.message, info, digest, batch.change)
            self._touched.append(key)
        return bool(number)

    def _out_of_place(
        self, batch: SrmpBatch, arrival: SrmpArrival, place: StreamPlace
    ) -> SrmpVerdict:
        """A duplicate, or too early: 200 and ignored; the receipt shows how far the stream is."""
        receipts_to = self._receipts_to(arrival, place) if place.is_repeated else ""
        if place.is_repeated:
            self.answers.came_again(batch, arrival, place.claim.digest)
        if place.reject(batch, arrival.peer.address, receipts_to):
            self._touched.append(place.key)
        if place.is_of_another:
            self.streams.came_again(place, arrival.message, batch.change)
        counter = "duplicate" if place.is_repeated else "out_of_order"
        return self._ignored(counter, "it came before" if place.is_repeated else "out of order")

    # -- insertion (3.1.5.1.6, 3.1.5.1.12)

    def _insert(
        self, batch: SrmpBatch, arrival: SrmpArrival, queue: Queue, place: StreamPlace | None
    ) -> None:
        core, message = self.core, arrival.message
        verified = self._verified(arrival)
        if verified.refusal:
            raise WebRefusal(verified.refusal)
        self._guard(queue, verified.authenticated).require(
            _EVERYBODY if verified.authenticated else _ANYBODY, WRITE_MESSAGE
        )
        packet = packet_of(message, arrival.parts, arrival.head, core.utc, verified.security)
        one = Arriving(packet, summarize(packet))
        one.flags = FLAG_REMOTE | (FLAG_AUTHENTICATED if verified.authenticated else 0)
        delivery_to = self.answers.allow(arrival, one)
        self._accept(batch, arrival, queue, one, delivery_to, verified)
        if place is not None:
            receipts_to = self._receipts_to(arrival, place)
            if place.opens:
                self.streams.begin(place.key)
            place.accept(batch, arrival.peer.address, receipts_to)
            self._touched.append(place.key)
        self._note(batch, arrival, one.seen)

    def _accept(
        self,
        batch: SrmpBatch,
        arrival: SrmpArrival,
        queue: Queue,
        one: Arriving,
        delivery_to: DirectName | None,
        verified: XmlVerified,
    ) -> None:
        core, change = self.core, batch.change
        host = "" if arrival.message.stream is None else arrival.peer.host
        single = Batch.of(one.packet, one.seen)
        flags = self._admission.admit(queue, single, one.flags, False)
        if self._is_resent(batch, arrival, queue, verified):
            return
        number = self._sending.accept(queue, single, flags, None, b"", "", change, host)
        if arrival.message.message_class == NORMAL and summarize(one.packet).ack_flags:
            self.answers.mute(arrival, one, number, self._digest(arrival))
        if delivery_to is not None:
            row = row_of(one.seen, queue.number, core.utc, NEVER, flags, wants_of(one.seen))
            self._acks.administration(one.packet, row, ACK_REACH_QUEUE, change, delivery_to)
        self._tracing.received(one.packet, one.seen, change)

    def _is_resent(
        self, batch: SrmpBatch, arrival: SrmpArrival, queue: Queue, verified: XmlVerified
    ) -> bool:
        """Whether a signed message is in its authenticated queue already; refuses a replay."""
        if not verified.digest:
            return False
        message, settings = arrival.message, self.certificates.security.settings
        one_queue = verified.names_itself and not message.destination_mqf
        signed = SignedMessage(verified.digest, message.source_guid, message.ordinal, one_queue)
        history = self.receiving.signed
        vouched = self.receiving.targets.is_entered_at(message.source_guid, arrival.peer.host)
        copy = history.enter(
            queue, signed, arrival.peer, settings, batch.change, is_vouched_for=vouched
        )
        if copy is Copy.REPLAYED:
            raise WebRefusal("the signed content arrived before under another identifier")
        return copy is Copy.RESENT

    def _verified(self, arrival: SrmpArrival) -> XmlVerified:
        """Checking Message Signature (3.1.5.1.6.1)."""
        weak = self.certificates.security.settings.weak_algorithms
        return verify(arrival.message, arrival.parts, self.certificates, weak=weak)

    def _guard(self, queue: Queue, authenticated: bool = False) -> Guard:
        """The access check; of a public queue the directory's word counts, or the sender waits."""
        definition = queue.definition
        security = definition.security
        if definition.queue_type is QueueType.PUBLIC:
            found = self.receiving.targets.find_queue(definition.identifier)
            if found is None:
                raise ServiceNotAvailable("the directory does not have the rights of that queue")
            security = found.security or security
        if not authenticated:
            return self.receiving.guard(queue)
        known = self._open_guards.get(queue.number)
        if known is None or known[0] != security:
            known = self._open_guards[queue.number] = security, Guard(security, queue.name)
        return known[1]

    # -- receipts that the sender asks for (decisions 9 and 83)

    def _receipts_to(self, arrival: SrmpArrival, place: StreamPlace) -> str:
        """SendReceiptsTo of a stream that begins, as a format name; empty where none may go.

        One that goes on from another host is answered at that host: who takes over the stream of
        another gets no receipts sent to it about their own messages.
        """
        url = place.stream.send_receipts_to
        name = web_name(url) if url else place.moved_receipts()
        if name is None:
            return ""
        allowed = self.answers.allowed_for_stream(arrival, name)
        return "" if allowed is None else str(allowed)

    # -- receipts of streams of ours (3.1.5.1.8-9)

    def _acknowledged(self, arrival: SrmpArrival, kind: SrmpKind) -> SrmpVerdict:
        """They are for the sequences, and never come into a queue (decision 87).

        3.1.5.1.5: for a stream of ours their elements count, whatever queue they name.
        Those that fit nothing sent, or come from where none may, delete nothing and are counted.
        """
        message, transfer = arrival.message, self._transfer
        receipt = message.stream_receipt
        assert receipt is not None
        is_own = receipt.guid == self.core.guid
        queue = transfer.sequences.queue_of(receipt.sequence_id) if is_own else None
        if queue is None and not self._is_order_queue(message.to):
            raise WebRefusal("it is not for the order queue of this machine")
        if not is_own:
            return self._ignored("order_acknowledgment_ignored", "a stream of another machine")
        if queue is not None and arrival.peer.may_acknowledge(queue.number) is None:
            return SrmpVerdict(500, "where that stream leads to is not known at the moment")
        if kind is SrmpKind.STREAM_RECEIPT:
            place = receipt.sequence_id, receipt.last_ordinal
            if transfer.order_acknowledged_by(arrival.peer, *place):
                self._clocks.told(arrival.peer.address, message.sent_at or 0)
            return DONE
        committed = message.commitment_receipt
        assert committed is not None
        transfer.final_acknowledged_by(
            arrival.peer,
            message.message_class,
            *committed.id,
            receipt.sequence_id,
            receipt.last_ordinal,
        )
        return DONE

    def _is_order_queue(self, to: str) -> bool:
        if self.redirects.leads_here(to):
            return True
        name = web_name(self.redirects.inbound(to) or to)
        registry = self._registry
        found = None if name is None else registry.find_local(registry.own.addressed(name))
        return found is not None and found.number == ORDER_QUEUE

    # -- multicast (3.1.5.1.3)

    def receive_multicast(self, address: str, arrivals: list[SrmpArrival]) -> None:
        """Messages to a multicast address: a copy for each queue that has it, and none else."""
        queues = [
            queue
            for queue in self._registry.all()
            if queue.definition.multicast_address == address
            and queue.definition.role is QueueRole.PLAIN
        ]
        batch = self._batch(arrivals)
        with self.core.untold():
            for arrival in arrivals:
                batch.come_from(arrival.peer.host)
                for queue in queues:
                    self._take_copy(batch, arrival, queue)
        self._commit(batch)

    def _take_copy(self, batch: SrmpBatch, arrival: SrmpArrival, queue: Queue) -> None:
        """One copy; a queue that does not want it keeps no other from its own."""
        message = arrival.message
        try:
            if kind_of(message) is not SrmpKind.USER or message.stream is not None:
                raise WebRefusal("only user messages outside of streams come by multicast")
            if queue.definition.transactional:
                raise WebRefusal(f"the queue {queue.name} is transactional")
            if self._is_late(message):
                self.core.refusals["expired_on_arrival"] += 1
                self.receiving.refused.note_late(arrival.peer, message)
                return
            source = message.source_guid + queue.number.to_bytes(8, "little")
            if self._copy_is_known(batch, source, arrival):
                self.core.refusals["duplicate"] += 1
                return
            self._insert_copy(batch, arrival, queue, source)
        except (WebRefusal, RemoteProtocolError, QueueError) as error:
            self.receiving.refused.note_post(arrival.peer, message, error, queue.name)

    def _copy_is_known(self, batch: SrmpBatch, source: bytes, arrival: SrmpArrival) -> bool:
        ordinal = arrival.message.ordinal
        if source[:16] == NULL_GUID and ordinal == 1:
            return False
        return batch.came_in(source, ordinal, self._digest(arrival))

    def _insert_copy(
        self, batch: SrmpBatch, arrival: SrmpArrival, queue: Queue, source: bytes
    ) -> None:
        core, message = self.core, arrival.message
        verified = self._verified(arrival)
        if verified.refusal:
            raise AccessDenied(verified.refusal)
        self._guard(queue, verified.authenticated).require(
            _EVERYBODY if verified.authenticated else _ANYBODY, WRITE_MESSAGE
        )
        packet = packet_of(message, arrival.parts, arrival.head, core.utc, verified.security)
        # Multicast is not acknowledged.
        one = Arriving(packet, summarize(packet)._replace(ack_flags=0))
        one.flags = FLAG_REMOTE | (FLAG_AUTHENTICATED if verified.authenticated else 0)
        self._accept(batch, arrival, queue, one, None, verified._replace(names_itself=False))
        if source[:16] != NULL_GUID or message.ordinal != 1:
            batch.note(source, one.seen, self._digest(arrival))
