"""A batch of received messages, and one message of it ([MS-MQQB] 3.1.5.8.1, 3.1.5.8.6)."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import Change
from posthouse.engine.ledger.rows import DELIVERY, FINAL_ACK
from posthouse.engine.ledger.transfer_parts import MachineTransfer, SequenceOrigins
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.message_history import OTHER, MessageHistory
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_origins import last_of, places_key
from posthouse.engine.transfer.sequence_values import (
    IncomingTransactionalTransferInfo,
    SequenceClaim,
    Standing,
)
from posthouse.model.errors import QueueError
from posthouse.model.message_classes import CLASS_BITS
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.digest import content_digest, content_digests
from posthouse.wire.packet.headers import HOP_COUNT_MAX, HOPS
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, names_of
from posthouse.wire.packet.sequence_places import place_seen, places_seen
from posthouse.wire.packet.trailing_headers import USER_TAIL

RELAYED = b"!"  # after the source of refused messages that came from routers or from itself
Notes = dict[bytes, dict[int, bytes]]  # for the history, by source and ordinal: digests


class Refusal(Exception):
    """A message is not taken; the class states why, a cause of its own more exactly."""

    def __init__(self, message_class: int, cause: str = "") -> None:
        super().__init__(f"{message_class:#06x}")
        self.message_class = message_class
        self.cause = cause


class ReceivedBatch:
    """What the packets of one batch have come to so far. Its change is committed at the end."""

    __slots__ = ("change", "express", "peer", "places", "recoverable", "sequences")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.change = Change()
        self.recoverable: Notes = {}
        self.express: Notes = {}
        self.places: dict[str, Notes] = {}  # by host: what was accepted in sequences
        self.sequences: dict[tuple[int, bytes], None] = {}  # queue, source: an order ack is due

    def note(self, source: bytes, seen: PacketSummary, digest: bytes) -> None:
        """One more message for the history."""
        recoverable = bool(seen.user_flags & DELIVERY)
        self.note_one(source, seen.ordinal, digest, recoverable=recoverable)

    def note_one(self, source: bytes, ordinal: int, digest: bytes, *, recoverable: bool) -> None:
        """One more message for the history, by its identifier."""
        notes = self.recoverable if recoverable else self.express
        held = notes.setdefault(source, {})
        if held.setdefault(ordinal, digest) != digest:
            notes.setdefault(source + OTHER + digest, {})[ordinal] = digest

    def has(self, source: bytes, ordinal: int, digest: bytes) -> bool:
        """Whether the message came in this very batch."""
        kinds = self.recoverable, self.express
        return any(is_noted(notes, source, ordinal, digest) for notes in kinds)


def is_noted(notes: Notes, source: bytes, ordinal: int, digest: bytes) -> bool:
    """Whether a message is among notes for the history."""
    held = notes.get(source, {}).get(ordinal)
    if held is None:
        return False
    return held == digest or ordinal in notes.get(source + OTHER + digest, ())


class Arriving:
    """One message on its way into a queue."""

    __slots__ = ("digest", "flags", "is_muted", "may_enter", "packet", "seen", "signed")

    def __init__(self, packet: bytes, seen: PacketSummary, digest: bytes = b"") -> None:
        self.packet = packet
        self.seen = seen
        self.digest = digest  # of its content, as it was sent
        self.is_muted = False  # it asks for answers that are not allowed
        self.may_enter = False  # its sender has the right to send to the queue
        self.signed = b""  # the digest of what is signed, if that proves a sender
        self.flags = 0  # those flags of its row that our own verification sets

    @property
    def destination(self) -> str:
        """The name that the message was sent to; empty where it cannot be read."""
        with suppress(QueueError):
            return Packet(self.packet, self.seen).destination_text
        return ""


class SequencePlace:
    """A transactional message's place in its sequence (3.1.5.8.6; decision 22).

    Sequences are known by source and queue, whatever session they come on (state-machines 4.2 h);
    by the name of the queue, for each has a sequence of its own at its sender; and by the host that
    they come from (`sequence_origins.py`), which is empty where the directory vouches for it.
    """

    __slots__ = ("_judgment", "_transfer", "address", "claim", "core")

    def __init__(
        self,
        core: Ledger,
        transfer: MachineTransfer,
        peer: Peer,
        host: str,
        queue: Queue,
        arrival: Arriving,
    ) -> None:
        self.core = core
        self._transfer = transfer
        self.address = peer.address
        self.claim = claim_of(queue, host, arrival)
        self._judgment = self._transfer.lineages.judge(self.claim)

    @property
    def is_old(self) -> bool:
        """Whether it came before."""
        return self._judgment.standing in (Standing.OLD, Standing.AGREED)

    @property
    def is_of_another(self) -> bool:
        """Whether it came before, from another host only."""
        return self._judgment.standing is Standing.AGREED

    @property
    def follows(self) -> bool:
        """Whether it is the next one."""
        return self._judgment.standing is Standing.NEXT

    def accept(self, batch: ReceivedBatch) -> None:
        """The sequence moves on, in the same step as the message comes in."""
        self._move_on(batch)
        batch.sequences[self.key] = None

    def _move_on(self, batch: ReceivedBatch) -> IncomingTransactionalTransferInfo:
        claim, transfer = self.claim, self._transfer
        info = transfer.accept(
            *(claim.queue, claim.source, claim.format_name, *claim.place),
            batch.change,
            self.address,
            claim.host,
            self._judgment.origin,
        )
        key = places_key(claim.source, transfer.name_of(info), claim.place[0])
        batch.places.setdefault(claim.host, {}).setdefault(key, {})[claim.place[1]] = claim.digest
        return info

    @property
    def key(self) -> tuple[int, bytes]:
        """Queue and source, by which order acknowledgments are sent."""
        return self.claim.queue.number, self.claim.source

    def reject(self, batch: ReceivedBatch) -> None:
        """Counted; the order acknowledgment shows the sender where to go on.

        Of a source that nothing was accepted of nothing is kept: names are cheap to make up.
        """
        own = self._judgment.own
        if self._judgment.standing is Standing.AGREED:
            own = self._move_on(batch)
        if own is not None:
            transfer, queue = self._transfer, self.claim.queue
            transfer.count_reject(queue, own, batch.change, self.address)
            batch.sequences[self.key] = None


def claim_of(queue: Queue, host: str, arrival: Arriving) -> SequenceClaim:
    """The place in a sequence that a transactional message has."""
    packet, seen = arrival.packet, arrival.seen
    sequence_id, number, previous = place_seen(packet, seen)
    return SequenceClaim(
        queue,
        seen.source_guid,
        str(Packet(packet, seen).destination_queue),
        host,
        (sequence_id, number),
        previous,
        previous == 0 < number,
        arrival.digest or content_digest(packet, seen),
    )


class ArrivalRun:
    """Messages that are alike: of one source, for one queue, and nothing is asked of any."""

    __slots__ = (
        "batch",
        "flags",
        "host",
        "looks",
        "name",
        "numbers",
        "ordinals",
        "packets",
        "queue",
        "sequence_id",
    )

    def __init__(self, queue: Queue, host: str, batch: Batch, flags: int) -> None:
        self.queue = queue
        self.host = host  # of transactional ones: the lineage of their sequence
        self.batch = batch
        self.flags = flags  # that its admission gave
        self.packets = batch.packets
        self.looks = batch.looks
        self.ordinals = batch.ordinals
        # Of transactional ones that follow: their place, by the name of the queue as it was used.
        self.name = ""
        self.sequence_id = 0
        self.numbers: list[int] = []

    def digests(self) -> list[bytes]:
        """The digest of each message's content."""
        return content_digests(self.packets, self.looks)

    def is_new(self, history: MessageHistory) -> bool:
        """Whether the history has none of them, and none comes twice."""
        source = self.looks[0].source_guid
        if history.has_others(source):
            return False
        ordinals, known = self.ordinals, history.known_of(source)
        return len(set(ordinals)) == len(ordinals) and known.keys().isdisjoint(ordinals)

    def was_refused(self, history: MessageHistory, peer: Peer) -> bool:
        """Whether any of them was refused before, or came before over an unproven relay."""
        source = self.looks[0].source_guid
        refused = [history.known_of(key) for key in (refused_of(source, peer), source + RELAYED)]
        return not all(known.keys().isdisjoint(self.ordinals) for known in refused)

    def follows(self, lineages: SequenceOrigins) -> bool:
        """Whether each is the next one of the same sequence, and all want the same.

        Where others have sent in the sequence too, none of these may be theirs.
        """
        first = self.looks[0]
        name = self.name = str(Packet(self.packets[0], first).destination_queue)
        final = first.transaction_flags & FINAL_ACK
        begun = self.sequence_id = place_seen(self.packets[0], first)[0]
        own, others = lineages.around(self.queue, first.source_guid, name, self.host, begun)
        last_id, last = (0, 0) if own is None else last_of(own)
        if begun > last_id:
            if others or lineages.is_of_the_future(own, begun):
                return False
            last_id, last = begun, 0
        numbers = self.numbers
        for sequence_id, number, previous in places_seen(self.packets, first):
            if sequence_id != last_id or not previous <= last < number:
                return False
            last = number
            numbers.append(number)
        if [seen for seen in self.looks if seen.transaction_flags & FINAL_ACK != final]:
            return False
        return not others or lineages.are_new(others, last_id, numbers)

    def places(self) -> dict[int, bytes]:
        """What was accepted at which number of their sequence."""
        return dict(zip(self.numbers, self.digests(), strict=True))


def out_of_range(seen: PacketSummary) -> str:
    """What no queue manager sends, or nothing: a hop count above the maximum, a class of bits that
    classes do not have ([MS-MQMQ] 2.2.19.2, 2.2.18.1.6)."""
    hops, message_class = seen.user_flags & HOPS, seen.message_class
    if hops > HOP_COUNT_MAX:
        return f"a message that has passed {hops} routing servers, above {HOP_COUNT_MAX}"
    if message_class & ~CLASS_BITS:
        return f"a message of class {message_class:#06x}, which cannot be one"
    return ""


def source_of(packet: bytes, seen: PacketSummary) -> bytes:
    """The source of an identifier in the history.

    The copies of a message to a list of queues share its identifier, and each is for another queue:
    of those the destination belongs to the identity.
    """
    if not seen.user_flags & USER_TAIL:
        return seen.source_guid
    return seen.source_guid + blake2b(names_of(packet, seen), digest_size=8).digest()


def refused_of(source: bytes, peer: Peer) -> bytes:
    """The source of a refused message in the history, by the address that it came from.

    Otherwise a stranger could have messages of others refused before they are sent, and what those
    send afterwards would count as known.
    """
    return source + _refused_at(peer.host)


@lru_cache(1024)
def _refused_at(host: str) -> bytes:
    return b"!" + blake2b(host.encode(), digest_size=8).digest()
