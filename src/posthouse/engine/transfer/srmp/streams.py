"""Incoming streams of SRMP: positions, receipts, coalescing ([MC-MQSRM] 3.1.1.1.6, 3.1.1.2-3).

A stream is an incoming sequence as the binary protocol has them, with the address that its receipts
go to. It is known by the GUID in its name, by the queue and by the host that it came from. What was
accepted and not yet acknowledged lies between two numbers of its record, so a restart has it too.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting
from posthouse.engine.ledger.records import KEPT, NEVER, PURGED, WANT_DEAD_LETTER, Change, Row
from posthouse.engine.ledger.rows import flags_of
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.acknowledgments import ANSWERS_MAX, ORDER_ACK_S
from posthouse.engine.queues.answering_queues import UNKNOWN
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import host_key
from posthouse.engine.transfer.arrivals import ReceivedBatch
from posthouse.engine.transfer.incoming_sequences import HEIRS_MAX, came_from
from posthouse.engine.transfer.sequence_origins import places_key, rank
from posthouse.engine.transfer.sequence_values import IncomingTransactionalTransferInfo as Incoming
from posthouse.engine.transfer.sequence_values import SequenceClaim, Standing
from posthouse.engine.transfer.shared_acknowledgments import AWAY_S, COPIES_MAX
from posthouse.model.bounded_tables import Bounded
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.message import INFINITE
from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.model.names import DirectName, parse_format_name
from posthouse.wire.binary.order_acks import FinalAck, Origin, read_final_ack
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import NEGATIVE_CLASSES, SrmpMessage, Stream
from posthouse.wire.srmp.receipts import final_stream_receipt, read_stream_receipt, stream_receipt
from posthouse.wire.srmp.stored_messages import stored_parts

Key = tuple[int, bytes, str, str]  # queue, GUID of the stream's sender, name of the queue, host
UNSENT_MAX = 10_000  # streams whose waiting receipt is known; their names can be made up
BURST_S = 10  # what comes again within it was sent again at once: below each resend interval
_STOPPED = -1
_TELLING = NEGATIVE_CLASSES | {ACK_RECEIVE}  # 3.1.7.3.3: other ends are not reported


class StreamPlace:
    """A message's place in its stream (3.1.5.1.6.3; decisions 35 and 65, `sequence_origins.py`)."""

    __slots__ = ("_judgment", "_streams", "_transfer", "claim", "core", "stream")

    def __init__(
        self,
        streams: IncomingStreams,
        host: str,
        queue: Queue,
        format_name: str,
        stream: Stream,
        digest: bytes,
    ) -> None:
        self._streams = streams
        self.core = streams.core
        self._transfer = streams.transfer
        self.stream = stream
        self.claim = SequenceClaim(
            queue,
            stream.guid,
            format_name,
            host,
            (stream.sequence_id, stream.current),
            min(stream.previous, stream.current - 1),
            stream.send_receipts_to is not None and stream.previous == 0 < stream.current,
            digest,
        )
        self._judgment = self._transfer.lineages.judge(self.claim)

    @property
    def follows(self) -> bool:
        """Whether it is the next one."""
        return self._judgment.standing is Standing.NEXT

    @property
    def is_repeated(self) -> bool:
        """Whether it came before."""
        return self._judgment.standing in (Standing.OLD, Standing.AGREED)

    @property
    def is_of_another(self) -> bool:
        """Whether it came before, from another host only."""
        return self._judgment.standing is Standing.AGREED

    @property
    def known(self) -> Incoming | None:
        """What is known of the stream, here or where it came from before."""
        return self._judgment.like or self._judgment.own

    @property
    def opens(self) -> bool:
        """Whether the message is the first of an unknown stream."""
        return self.known is None or self.known.sequence_id != self.stream.sequence_id

    def moved_receipts(self) -> DirectName | None:
        """Where a stream is answered that goes on from another host: there, at its own host."""
        like = self._answered_like
        return None if like is None else self._at_own_host(like)

    @property
    def _answered_like(self) -> Incoming | None:
        """The lineage whose receipt address shows that of this one, where that is not known."""
        own, like = self._judgment.own, self._judgment.like
        if like is not None and like.receipts_to:
            return like
        if like is None and (own is None or own.receipts_to):
            return None
        return next(iter(self._answered_elsewhere().values()), None)

    def _at_own_host(self, other: Incoming) -> DirectName:
        return at_host(other.receipts_to, self.claim.host)

    def _answered_elsewhere(self) -> dict[str, Incoming]:
        """The lineages that the stream may have gone on from, by where their receipts would be sent
        at its own host; those with the most messages first."""
        claim = self.claim
        known = self._transfer.own_lineage(
            claim.queue, claim.source, claim.format_name, claim.host, claim.place[0]
        )
        others = self._transfer.other_lineages(claim.queue, claim.source, claim.format_name, known)
        found: dict[str, Incoming] = {}
        for other in sorted(others, key=rank, reverse=True):
            if other.receipts_to:
                found.setdefault(str(self._at_own_host(other)), other)
        return found

    def _led_elsewhere(self, own: Incoming, change: Change) -> Incoming:
        """A sender that has moved comes again with what its receipts have told: they went astray.

        A stranger may have sent in its stream, too, and asked for receipts at another port or path.
        So those of the next lineage are tried, in turn; each burst of messages counts once.
        """
        place_is_told = own.acknowledged >= self.stream.current
        if not own.receipts_as or not place_is_told or self._came_just_now(own):
            return own
        ways = self._answered_elsewhere()
        names = list(ways)
        if not names or names == [own.receipts_to]:
            return own
        at = names.index(own.receipts_to) + 1 if own.receipts_to in names else 0
        name = names[at % len(names)]
        like = ways[name]
        led = msgspec.structs.replace(
            own, receipts_to=name, receipts_as=like.receipts_as or like.receipts_to
        )
        self._streams.led_elsewhere(self.key, own, led, change)
        return led

    def _joined(self, own: Incoming, change: Change) -> Incoming:
        """A lineage whose sender was elsewhere before: what waits for it there is for it, too."""
        origin, place = self._judgment.origin, self.claim.place
        if origin is None:
            return own
        if own.origin == origin.lineage and place <= (own.shared_id, own.shared_number):
            return own
        joined = msgspec.structs.replace(
            own, origin=origin.lineage, shared_id=place[0], shared_number=place[1]
        )
        self._streams.moved(origin, joined, change)
        return joined

    def _came_just_now(self, own: Incoming) -> bool:
        return self.core.utc - own.last_access_time < BURST_S

    @property
    def key(self) -> Key:
        """By which the stream's receipts are scheduled."""
        claim = self.claim
        return claim.queue.number, claim.source, claim.format_name, claim.host

    def accept(self, batch: ReceivedBatch, address: str, receipts_to: str) -> Incoming:
        """The stream moves on, in the same step as the message comes in (decisions 22 and 84)."""
        own, stream, claim = self._judgment.own, self.stream, self.claim
        info = Incoming(
            stream.guid,
            claim.format_name,
            stream.sequence_id,
            stream.current,
            self.core.utc,
            0 if own is None else own.rejected,
            0,
            address,
            claim.host,
            stream.stream_id,
            receipts_to,
        )
        info.began = stream.current - 1
        came_from(info, own, self._judgment.origin)
        same = own is not None and own.sequence_id == stream.sequence_id
        if own is not None and not same:
            self._streams.share_finals(claim.queue.number, own, batch.change)
        like = self._answered_like
        if like is not None and stream.send_receipts_to is None:
            info.receipts_as = like.receipts_as or like.receipts_to
        if own is not None and (own.anew or same):
            if own.receipts_to:
                info.receipts_as = own.receipts_as
            info.receipts_to = own.receipts_to or receipts_to
            info.acknowledged = own.acknowledged if same else 0
        self._transfer.keep_incoming(claim.queue.number, info, batch.change)
        if own is None and self._judgment.origin is not None:
            self._streams.moved(self._judgment.origin, info, batch.change)
        key = places_key(claim.source, self._transfer.name_of(info), claim.place[0])
        batch.places.setdefault(claim.host, {}).setdefault(key, {})[claim.place[1]] = claim.digest
        return info

    def reject(self, batch: ReceivedBatch, address: str, receipts_to: str) -> bool:
        """Counted. Whether a receipt is due: it shows how far the stream has come."""
        own = self._judgment.own
        if self._judgment.standing is Standing.AGREED:
            own = self.accept(batch, address, receipts_to)
        elif own is not None:
            own = self._joined(self._led_elsewhere(own, batch.change), batch.change)
        if own is None:
            return False
        self._transfer.count_reject(self.claim.queue, own, batch.change)
        return True


def at_host(receipts_to: str, host: str) -> DirectName:
    """An address of receipts, at another host."""
    name = parse_format_name(receipts_to)
    assert isinstance(name, DirectName)
    return replace(name, host=host)


class _Timer:
    """Stream Receipt Coalescing Timer, and UnackedStreamMessageArrivalTime."""

    __slots__ = ("due_ms", "oldest_ms")

    def __init__(self, now_ms: int) -> None:
        self.due_ms = _STOPPED
        self.oldest_ms = now_ms


class IncomingStreams:
    """When receipts of incoming streams are sent, and what they hold."""

    def __init__(
        self, core: Ledger, registry: Queues, sending: Accepting, transfer: MachineTransfer
    ) -> None:
        self.core = core
        self._registry = registry
        self._sending = sending
        self.transfer = transfer
        self._timers: dict[Key, _Timer] = {}
        self._heap: list[tuple[int, Key]] = []  # a timer is due then, or later
        self._unsent: dict[Key, tuple[int, int, int]] = {}  # receipts: number, stream, how far
        self._moved: Bounded[Key, Incoming] = Bounded(UNSENT_MAX)  # see `answer_moved`

    def load(self) -> None:
        """What was accepted and not acknowledged before a restart still is (3.1.3.2).

        Receipts are express: those that were to be sent are gone, unless the stop was a clean one.
        """
        for queue, info in self.transfer.all_incoming():
            if info.via and info.acknowledged < info.sequence_number:
                self.touch((queue, info.source, info.format_name, info.via))

    # -- the coalescing timer (3.1.2.3, 3.1.5.1.6.3, 3.1.6.3)

    def begin(self, key: Key) -> None:
        """A new stream (3.1.3.2): the times of the one before do not count for it."""
        self._timers.pop(key, None)

    def touch(self, key: Key) -> None:
        """A message of the stream was accepted, or came again: its receipt is due soon.

        Each further message puts it off, but none when the oldest has waited for long enough.
        """
        settings, now_ms = self.core.settings, self.core.now_ms
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = _Timer(now_ms)
        elif now_ms - timer.oldest_ms >= settings.srmp.receipt_max_ms:
            del self._timers[key]
            self._acknowledge(key)
            return
        started = timer.due_ms != _STOPPED
        timer.due_ms = now_ms + settings.srmp.receipt_ms
        if not started:
            heappush(self._heap, (timer.due_ms, key))
            self.core.deadlines.note(timer.due_ms)

    def run_timers(self) -> None:
        """Stream Receipt Coalescing Timer (3.1.6.3): one receipt for each stream that is due."""
        heap, now_ms = self._heap, self.core.now_ms
        while heap and heap[0][0] <= now_ms:
            _, key = heappop(heap)
            timer = self._timers.get(key)
            if timer is None:
                continue
            if timer.due_ms > now_ms:
                heappush(heap, (timer.due_ms, key))
                continue
            del self._timers[key]
            self._acknowledge(key)

    def next_deadline_ms(self) -> int | None:
        """When to look again; nothing is due earlier."""
        return self._heap[0][0] if self._heap else None

    def _acknowledge(self, key: Key) -> None:
        """A stream receipt for everything that was accepted; a lost one is asked for again.

        Its queue may be deleted by now.
        """
        core = self.core
        number, source, format_name, via = key
        kept = self.transfer.incoming_at(number, source, format_name, via)
        info = kept or self._moved.pop(key, None)
        if info is None or not info.receipts_to:
            return
        change, reached = Change(), (info.sequence_id, info.sequence_number)
        if self._is_said(key, reached, change):
            return
        packet = stream_receipt(
            *(info.stream_id, source, info.sequence_id, info.sequence_number),
            info.receipts_as or info.receipts_to,
            self._origin(),
        )
        sent = self._send(info.receipts_to, packet, change, enough=ANSWERS_MAX)
        if sent:
            self._unsent[key] = sent, *reached
            if len(self._unsent) > UNSENT_MAX:  # of what is forgotten one receipt more is sent
                del self._unsent[next(iter(self._unsent))]
        if sent and kept is not None:
            told = msgspec.structs.replace(info, acknowledged=info.sequence_number)
            self.transfer.keep_incoming(number, told, change)
            self.share_finals(number, info, change)
        core.commit(change)

    def _is_said(self, key: Key, reached: tuple[int, int], change: Change) -> bool:
        """Whether a receipt that waits to be sent covers this; a receipt that covers less is
        replaced.

        So for a slow or absent peer there is at most one receipt for each stream.
        """
        core = self.core
        number, *said = self._unsent.pop(key, (0, 0, 0))
        row = core.state.table.get(number) if number else None
        queue = None if row is None else core.queues.get(row.queue)
        if row is None or queue is None or queue.outgoing is None or number in core.locks:
            return False
        if self.transfer.is_in_flight(queue, number, row):
            return False
        if tuple(said) == reached:
            self._unsent[key] = number, *reached
            return True
        core.end(number, row, PURGED, change)
        return False

    def _origin(self) -> Origin:
        return Origin(self.core.guid, self.core.ordinals.next(), self.core.utc)

    def _send(
        self,
        to: str,
        packet: bytes,
        change: Change,
        enough: int | None = None,
        kept_s: int = ORDER_ACK_S,
    ) -> int:
        """Into the outgoing queue for a receipt address; no quota refuses it.

        Returns its number, 0 where it was dropped.
        """
        core = self.core
        try:
            name = parse_format_name(to)
            host = host_key(name.host) if isinstance(name, DirectName) else UNKNOWN
            target = self._registry.sending_target(name, change, made_for=host)
        except QueueError as error:
            core.refusals["receipt_dropped"] += 1
            core.event("receipt_dropped", to=to, why=str(error))
            return 0
        if target.outgoing is None or (enough is not None and target.state.count >= enough):
            core.refusals["receipt_dropped"] += 1
            return 0
        seen = summarize(packet)._replace(time_to_reach_queue=kept_s)
        batch, flags = Batch.of(packet, seen), flags_of(seen, 0)
        return self._sending.accept(target, batch, flags, None, b"", "", change)

    # -- final stream receipts (3.1.7.3.3)

    def ended(
        self,
        queue: Queue,
        packet: bytes,
        row: Row,
        message_class: int,
        step: Change,
        host: str,
    ) -> None:
        """A stream message left its queue: its sender learns how, if it is to be dead-lettered.

        `host` is the one that it came from; version 0.1 did not keep it.
        """
        if not row.wants & WANT_DEAD_LETTER or message_class not in _TELLING:
            return
        seen = summarize(packet)
        try:
            envelope = stored_parts(packet, seen).envelope
            message = read_envelope(envelope.encode("utf-8", "surrogatepass"))
        except RemoteProtocolError:
            return
        stream = message.stream
        if stream is None:
            return
        names = self._names_used(queue, stream, host)
        for name in names:
            place = stream.sequence_id, stream.current
            self.transfer.note_end(stream.guid, name, host, place, message_class, step)
        addresses = self._receipts_to(queue, stream, host, names)
        for receipts_to, name in addresses.items():
            kept_s = AWAY_S if len(addresses) > 1 else INFINITE
            receipt = self._final(message, stream, message_class, name)
            self._send(receipts_to, receipt, step, kept_s=kept_s)

    def came_again(self, place: StreamPlace, message: SrmpMessage, change: Change) -> None:
        """A message that another host has brought before; its receipt, if it has ended since."""
        claim, transfer, stream = place.claim, self.transfer, place.stream
        known = claim.source, claim.format_name, claim.host
        message_class = transfer.end_of(*known, claim.place, claim.digest)
        info = transfer.incoming_at(claim.queue.number, *known)
        if message_class and info is not None and info.receipts_to:
            name = info.receipts_as or info.receipts_to
            receipt = self._final(message, stream, message_class, name)
            self._send(info.receipts_to, receipt, change, enough=ANSWERS_MAX, kept_s=INFINITE)

    def left_elsewhere(self, key: Key, place: tuple[int, int], digest: bytes) -> Incoming | None:
        """What a deleted queue has of a stream, from other hosts only, with an address.

        A stranger may have sent more in its name: who has sent the same there comes first.
        """
        number, source, used, _ = key
        if self.transfer.incoming_at(*key) is not None:
            return None
        there = self.transfer.all_at(number, source)
        named = [info for info in there if info.receipts_to and info.format_name == used]
        fits = [info for info in named if place <= (info.sequence_id, info.sequence_number)]
        content = self.transfer.lineages.content
        return max(fits, key=lambda one: (content(one, place) == digest, rank(one)), default=None)

    def answer_moved(
        self, key: Key, message: SrmpMessage, info: Incoming, digest: bytes, change: Change
    ) -> None:
        """A sender that has moved comes again with what a deleted queue has accepted.

        Its receipt goes up to `info`, which is not kept: if it gets lost, the message comes again.
        """
        (_, source, used, host), stream = key, message.stream
        place, known = (info.sequence_id, info.sequence_number), self._moved.get(key)
        if known is None or place > (known.sequence_id, known.sequence_number):
            self._moved[key] = info
        message_class = self.transfer.end_of(source, used, host, place, digest)
        if message_class and stream is not None:
            receipt = self._final(message, stream, message_class, info.receipts_as)
            self._send(info.receipts_to, receipt, change, enough=ANSWERS_MAX, kept_s=INFINITE)

    def _final(self, message: SrmpMessage, stream: Stream, message_class: int, name: str) -> bytes:
        """A final stream receipt, to an order queue of that name."""
        body = FinalAck(
            *(stream.sequence_id, stream.current, min(stream.previous, stream.current - 1)),
            *(message.source_guid, message.ordinal),
        )
        return final_stream_receipt(
            body, message_class, message.label, stream.stream_id, name, self._origin()
        )

    def led_elsewhere(self, key: Key, own: Incoming, led: Incoming, change: Change) -> None:
        """The receipts of a stream have another address from now on."""
        self._unsent.pop(key, None)
        self.moved(own, led, change)

    def moved(self, origin: Incoming, info: Incoming, change: Change) -> None:
        """A stream goes on from another host: receipts that wait for the old host are copied.

        Either the sender has left the old host, or the stream was taken over and its sender, still
        at the old host, collects them soon.
        """
        for number, body in self._finals(origin, info):
            self._copy(number, body, info, change)

    def share_finals(self, queue: int, info: Incoming, change: Change) -> None:
        """A sender that has moved has sent again what was received before it had come to it.

        The final receipts of what it has sent again since the last stream receipt are copied, each
        place once: who repeats a message of another gets nothing of those after it. Those that
        were sent for messages that had ended before (`came_again`) are there already.
        """
        begin, end = max(info.acknowledged, info.began), info.shared_number
        if info.shared_id != info.sequence_id or begin >= end:
            return
        there = self._waiting(info.receipts_to, info.source)
        copied = {body for _, body in there}
        for origin in self._origins(queue, info):
            for number, body in self._finals(origin, info):
                again = body.sequence_id == info.sequence_id and begin < body.sequence_number <= end
                if again and body not in copied:
                    copied.add(body)
                    self._copy(number, body, info, change)
                elif again:
                    self._keep_for_a_while(number, change)

    def _origins(self, queue: int, info: Incoming) -> list[Incoming]:
        """The lineages that one has gone on from, the latest first."""
        found, host = dict[str, Incoming](), info.origin
        while host is not None and host not in (info.via, *found) and len(found) < HEIRS_MAX:
            one = self.transfer.incoming_at(queue, info.source, info.format_name, host)
            if one is None:
                break
            found[host], host = one, one.origin
        return list(found.values())

    def _finals(self, origin: Incoming, info: Incoming) -> list[tuple[int, FinalAck]]:
        """The final receipts that wait where a stream was before."""
        before, now = origin.receipts_to, info.receipts_to
        return self._waiting(before, info.source) if now and now != before else []

    def _waiting(self, to: str, source: bytes) -> list[tuple[int, FinalAck]]:
        """The final receipts that wait to be sent to an address, for streams of a machine."""
        core, found = self.core, list[tuple[int, FinalAck]]()
        queue = self._registry.find_outgoing(parse_format_name(to)) if to else None
        if queue is None:
            return found
        for _, number in list(queue.state.order.forward())[:COPIES_MAX]:
            packet = core.packet(number)
            receipt = read_stream_receipt(packet)
            if receipt is not None and receipt.final and receipt.identifier.guid == source:
                found.append((number, read_final_ack(packet)))
        return found

    def _copy(self, number: int, body: FinalAck, info: Incoming, change: Change) -> None:
        packet = self.core.packet(number)
        view, receipt, now = Packet(packet), read_stream_receipt(packet), info.receipts_to
        assert receipt is not None
        copy = final_stream_receipt(
            *(body, view.message_class, view.label, receipt.stream_id, info.receipts_as or now),
            self._origin(),
        )
        self._send(now, copy, change, kept_s=INFINITE)
        self._keep_for_a_while(number, change)

    def _keep_for_a_while(self, number: int, change: Change) -> None:
        """A receipt that its sender has elsewhere too."""
        core = self.core
        (row,) = core.state.table.rows((number,))
        if row.expires == NEVER:
            core.settle(number, row._replace(expires=core.utc + AWAY_S), KEPT, change)

    def _streams_of(self, queue: Queue, stream: Stream) -> list[Incoming]:
        return [i for i in self.transfer.incoming_of(queue, stream.guid) if i.via]

    def _names_used(self, queue: Queue, stream: Stream, host: str) -> list[str]:
        """The names of a queue under which a host sends in the streams of a machine."""
        known = self._streams_of(queue, stream)
        return sorted({info.format_name for info in known if info.via == host})

    def _receipts_to(
        self, queue: Queue, stream: Stream, host: str, names: list[str]
    ) -> dict[str, str]:
        """The addresses from the start of the stream, or of the one that came after it.

        One for the host that it came from, and for each that has gone on from there; and how the
        order queue is named to each.
        """
        found = self._streams_of(queue, stream)
        if not host:
            return _address_of(found, stream)
        place, addresses = (stream.sequence_id, stream.current), dict[str, str]()
        for name in names:
            for each in self.transfer.heirs(queue, stream.guid, name, host, place):
                there = [i for i in found if i.via == each and i.format_name == name]
                addresses |= _address_of(there, stream)
        return addresses


def _address_of(found: list[Incoming], stream: Stream) -> dict[str, str]:
    exact = [i for i in found if i.sequence_id == stream.sequence_id]
    later = [i for i in found if i.sequence_id > stream.sequence_id]
    for info in exact or reversed(later):
        return {info.receipts_to: info.receipts_as or info.receipts_to} if info.receipts_to else {}
    return {}
