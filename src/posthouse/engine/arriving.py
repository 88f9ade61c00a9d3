"""One batch of received messages, and one message of it ([MS-MQQB] 3.1.5.8.1, 3.1.5.8.6)."""

from __future__ import annotations

import struct
from hashlib import blake2b

from posthouse.engine.admission import INFINITE
from posthouse.engine.core import Core
from posthouse.engine.history import MessageHistory
from posthouse.engine.queue import Queue
from posthouse.engine.records import Change
from posthouse.engine.remote import Peer
from posthouse.engine.rows import DELIVERY, FINAL_ACK
from posthouse.model.message_classes import CLASS_BITS
from posthouse.wire.glance import NAMES_AT, Glance
from posthouse.wire.headers import HOP_COUNT_MAX, HOPS
from posthouse.wire.packet import Packet
from posthouse.wire.tail import USER_TAIL

SEQUENCE = struct.Struct("<QII")  # TxSequenceID, number and previous number, behind the flags
RELAYED = b"!"  # behind the source of refused messages that came from routers or from itself
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
        return ordinal in self.recoverable.get(source, ()) or ordinal in self.express.get(
            source, ()
        )


class Arriving:
    """One message on its way into a queue."""

    __slots__ = ("flags", "may_enter", "packet", "seen", "signed")

    def __init__(self, packet: bytes, seen: Glance) -> None:
        self.packet = packet
        self.seen = seen
        self.may_enter = False  # its sender has the right to send to the queue
        self.signed = b""  # the digest of what is signed, if that proves a sender
        self.flags = 0  # of its row, as far as our own verification knows them


class SequencePlace:
    """A transactional message's place in its sequence (3.1.5.8.6; decision 22).

    Sequences are known by source and queue, whatever session they come on (state-machines 4.2 h);
    and by the name of the queue, for each has a sequence of its own at its sender.
    """

    __slots__ = ("address", "core", "follows", "format_name", "is_old", "queue", "source", "tx")

    def __init__(self, core: Core, peer: Peer, queue: Queue, arrival: Arriving) -> None:
        view = Packet(arrival.packet, arrival.seen)
        self.core = core
        self.queue = queue
        self.source = arrival.seen.source_guid
        self.format_name = str(view.destination_queue)
        self.address = peer.address
        self.tx = SEQUENCE.unpack_from(arrival.packet, arrival.seen.transaction_at + 4)
        sequence_id, number, previous = self.tx
        last_id, last = last_of(core, queue, self.source, self.format_name)
        self.is_old = (sequence_id, number) <= (last_id, last)
        if sequence_id == last_id:
            self.follows = previous <= last < number
        else:
            self.follows = sequence_id > last_id and previous == 0 < number

    def accept(self, change: Change) -> None:
        """The sequence moves on, in the same step as the message comes in."""
        sequence_id, number, _ = self.tx
        self.core.transfer.accept(
            self.queue, self.source, self.format_name, sequence_id, number, change, self.address
        )

    @property
    def key(self) -> tuple[int, bytes]:
        """Queue and source, by which order acknowledgments are sent."""
        return self.queue.number, self.source

    def reject(self, batch: Batch) -> None:
        """Counted; the order acknowledgment tells the sender where to go on.

        Of a source that nothing was accepted of nothing is kept: names are cheap to make up.
        """
        transfer, change = self.core.transfer, batch.change
        if transfer.reject(self.queue, self.source, self.format_name, change, self.address):
            batch.sequences[self.key] = None


class Run:
    """Messages that are alike: of one source, for one queue, and nothing is asked of any."""

    __slots__ = ("looks", "ordinals", "packets", "queue")

    def __init__(self, queue: Queue, packets: list[bytes], looks: list[Glance]) -> None:
        self.queue = queue
        self.packets = packets
        self.looks = looks
        self.ordinals = [seen[8] for seen in looks]

    def is_new(self, history: MessageHistory) -> bool:
        """Whether the history knows none of them, and none comes twice."""
        ordinals, known = self.ordinals, history.known_of(self.looks[0].source_guid)
        return len(set(ordinals)) == len(ordinals) and known.keys().isdisjoint(ordinals)

    def was_refused(self, history: MessageHistory, peer: Peer) -> bool:
        """Whether any of them came before and was refused; or somebody says so who may not."""
        source = self.looks[0].source_guid
        refused = [history.known_of(key) for key in (refused_of(source, peer), source + RELAYED)]
        return not all(known.keys().isdisjoint(self.ordinals) for known in refused)

    def follows(self, core: Core) -> bool:
        """Whether each is the next one of the same sequence, and all want the same."""
        first = self.looks[0]
        name = str(Packet(self.packets[0], first).destination_queue)
        last_id, last = last_of(core, self.queue, first.source_guid, name)
        at, final = first.transaction_at + 4, first.transaction_flags & FINAL_ACK
        begun = SEQUENCE.unpack_from(self.packets[0], at)[0]
        if begun > last_id:
            last_id, last = begun, 0
        for packet, seen in zip(self.packets, self.looks, strict=True):
            sequence_id, number, previous = SEQUENCE.unpack_from(packet, at)
            if (
                sequence_id != last_id
                or not previous <= last < number
                or seen.transaction_flags & FINAL_ACK != final
            ):
                return False
            last = number
        return True


def is_late(seen: Glance, utc: int) -> bool:
    """Whether its time to reach the queue was over when it came (state-machines 4.1 c)."""
    return late_by(seen, utc) > 0


def late_by(seen: Glance, utc: int) -> int:
    """For how many seconds its time to reach the queue is over; 0 or less: it is not."""
    reach = seen.time_to_reach_queue
    return 0 if reach == INFINITE else utc - seen.sent_time - reach


def out_of_range(seen: Glance) -> str:
    """What no queue manager sends, or nothing: a hop count above the maximum, a class of bits that
    classes do not have ([MS-MQMQ] 2.2.19.2, 2.2.18.1.6)."""
    hops, message_class = seen.user_flags & HOPS, seen.message_class
    if hops > HOP_COUNT_MAX:
        return f"a message that has passed {hops} routing servers, above {HOP_COUNT_MAX}"
    if message_class & ~CLASS_BITS:
        return f"a message of class {message_class:#06x}, which cannot be one"
    return ""


def last_of(core: Core, queue: Queue, source: bytes, format_name: str) -> tuple[int, int]:
    """IncomingTxSequenceID and IncomingTxSequenceNumber: what was accepted last."""
    info = core.transfer.incoming(queue, source, format_name)
    return (0, 0) if info is None else (info.sequence_id, info.sequence_number)


def source_of(packet: bytes, seen: Glance) -> bytes:
    """The source of an identifier in the history.

    The copies of a message to a list of queues share its identifier, and each is for another queue:
    of those the destination belongs to the identity.
    """
    if not seen.user_flags & USER_TAIL:
        return seen.source_guid
    end = seen.transaction_at or seen.security_at or seen.properties_at or seen.body_at
    return seen.source_guid + blake2b(packet[NAMES_AT:end], digest_size=8).digest()


def refused_of(source: bytes, peer: Peer) -> bytes:
    """The same for messages that were refused, by the address that they came from.

    Otherwise a stranger could have messages of others refused before they are sent, and what those
    send afterwards would count as known.
    """
    return source + b"!" + blake2b(peer.host.encode(), digest_size=8).digest()
