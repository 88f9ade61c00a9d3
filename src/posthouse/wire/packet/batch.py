"""Batch: packets with the same headers, which the engine handles in one step; one or thousands.

The messages of a batch have one header template: flags, times, queue names, class, what they ask
for. What differs is a column: packet, size, priority, ordinal, and where label, extension and body
lie. So every rule is asked once for a batch, and a single message is a batch of one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress, count, repeat
from operator import itemgetter, not_

from posthouse.wire.packet.headers import OVER_HTTP, QUEUE_DIRECT, TransactionFlags
from posthouse.wire.packet.packet_fields import (
    PRIORITY,
    PacketSummary,
    front_of,
    ordinals_of,
    summarize,
    summarize_all,
)
from posthouse.wire.packet.patch import (
    SENT_TIME_AT,
    SOURCE_GUID_AT,
    TIME_TO_REACH_QUEUE_AT,
    TRANSACTION_NUMBER,
    U16,
    U32,
    U32_PAIR,
    UNVERIFIED,
    USER_FLAGS_AT,
)
from posthouse.wire.packet.sequence_places import NO_PRIVACY, PRIVACY_LEVEL_AT, placed

_ADDRESS_AT = SOURCE_GUID_AT + 16
_ALONE = OVER_HTTP | 0x200  # and JP, [MS-MQMQ] 2.2.19.2
_NUMBERED = int(TransactionFlags.of(first=1, last=1, transaction_number=0xFFFFF))
_ARRIVAL = 0x01  # PA, [MS-MQMQ] 2.2.19.3
_PACKET_SIZE = itemgetter(PacketSummary._fields.index("packet_size"))
_PRIORITY = itemgetter(PacketSummary._fields.index("priority"))
_LARGE = 4096  # bytes of a packet
_TOGETHER = 64  # packets that are compared at a time
_NO_HEADERS = PacketSummary(0, 0, 0, 0, b"", b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


class Batch:
    """Messages that share everything that decides their way but size and priority."""

    __slots__ = ("count", "head", "looks", "ordinals", "packets", "sent_time", "size")

    def __init__(
        self, packets: list[bytes], looks: list[PacketSummary], ordinals: Sequence[int] = ()
    ) -> None:
        head, count = looks[0], len(looks)
        self.count = count
        self.packets = packets
        self.looks = looks  # one for each; the same object where packets look the same
        self.head = head  # what was seen of the first: that of all, but for the columns
        self.ordinals = ordinals  # empty: those of the looks do not count, a stamp brings others
        self.sent_time = head.sent_time
        # Bytes of all packets: what quotas count.
        self.size = head.packet_size if count == 1 else sum(map(_PACKET_SIZE, looks))

    @classmethod
    def of(cls, packet: bytes, seen: PacketSummary | None = None) -> Batch:
        """A single message, as its packet has it; or as `seen`, where that differs."""
        if seen is None:
            seen = summarize(packet)
        return cls([packet], [seen], (seen.ordinal,))

    @classmethod
    def of_data(cls, data: bytes) -> Batch:
        """Bytes that are not a packet, kept as the body of a message without headers."""
        size = len(data)
        return cls([data], [_NO_HEADERS._replace(packet_size=size, body_size=size)], (0,))

    def __len__(self) -> int:
        return self.count

    @property
    def sizes(self) -> array[int]:
        """Bytes of each packet."""
        return array("I", map(_PACKET_SIZE, self.looks))

    @property
    def priorities(self) -> bytes | None:
        """The priority of each; None where it is that of the head for all."""
        if self.count == 1:
            return None
        priorities = bytes(map(_PRIORITY, self.looks))
        return priorities if priorities.strip(priorities[:1]) else None

    @property
    def leads_nowhere_secret(self) -> bool:
        """Whether it is to be encrypted for a destination whose key its name does not lead to."""
        direct = self.head.user_flags >> 10 & 7 == QUEUE_DIRECT
        return direct and _privacy(self.packets[0], self.head) not in (b"", NO_PRIVACY)

    def extend(self, other: Batch) -> None:
        """Takes over the messages of another batch that shares what this one shares."""
        ordinals = self.ordinals
        if not isinstance(ordinals, list):
            self.ordinals = ordinals = list(ordinals)
        ordinals.extend(other.ordinals)
        self.packets += other.packets
        self.looks += other.looks
        self.count += other.count
        self.size += other.size

    def each(self) -> list[Batch]:
        """Its messages one by one."""
        if self.count == 1:
            return [self]
        singles = []
        for packet, seen, ordinal in zip(self.packets, self.looks, self.ordinals, strict=True):
            single = Batch([packet], [seen], (ordinal,))
            single.sent_time = self.sent_time
            singles.append(single)
        return singles

    def own(self) -> None:
        """Takes a packet that is a view out of the frame that it came in."""
        if isinstance(self.packets[0], memoryview):
            self.packets = [bytes(packet) for packet in self.packets]

    def stamp(
        self,
        source_guid: bytes,
        ordinals: Sequence[int],
        sent_time: int,
        reach_max: int,
        transaction_number: int | None = None,
    ) -> None:
        """Makes the packets such as their first queue manager sends: identity, times, transaction.

        AU and AS are cleared, for only our own verification may set them (decision 3).
        """
        head, middle, rest = self.head, b"", USER_FLAGS_AT
        reach = head.time_to_reach_queue
        if reach > reach_max:
            reach = reach_max
            self.head = head._replace(time_to_reach_queue=reach)
        if transaction_number is not None or head.security_at:
            middle, rest = self._middle(transaction_number)
        identity, pair, packets = U32.pack(reach) + source_guid, U32_PAIR.pack, self.packets
        bodies: Sequence[bytes | memoryview] = packets
        if self.size > _LARGE * self.count:  # a view is quicker than another copy
            bodies = [memoryview(packet) for packet in packets]
        stamped, known, front = [], None, b""
        for packet, body, seen, ordinal in zip(packets, bodies, self.looks, ordinals, strict=True):
            if seen is not known:  # neighbours that look the same have all headers in common
                known = seen
                front = b"" + packet[:TIME_TO_REACH_QUEUE_AT] + identity  # bytes of a view too
                front += packet[_ADDRESS_AT:SENT_TIME_AT]
            stamped.append(b"".join((front, pair(sent_time, ordinal), middle, body[rest:])))
        self.packets, self.ordinals, self.sent_time = stamped, ordinals, sent_time

    def _middle(self, transaction_number: int | None) -> tuple[bytes, int]:
        """The bytes after MessageID that change and are the same in all packets, and their end."""
        head, end = self.head, USER_FLAGS_AT
        if transaction_number is not None:
            assert head.transaction_at, "a message without TransactionHeader has no such number"
            assert transaction_number <= TRANSACTION_NUMBER >> 4
            end = head.transaction_at + 4
        if head.security_at:
            assert self.count == 1, "a SecurityHeader belongs to one message"
            end = head.security_at + 2
        middle = bytearray(self.packets[0][USER_FLAGS_AT:end])
        if transaction_number is not None:
            flags = head.transaction_flags & ~TRANSACTION_NUMBER | transaction_number << 4
            U32.pack_into(middle, head.transaction_at - USER_FLAGS_AT, flags)
        if head.security_at:
            at = head.security_at - USER_FLAGS_AT
            U16.pack_into(middle, at, U16.unpack_from(middle, at)[0] & UNVERIFIED)
        return bytes(middle), end

    def placed(self, sequence_id: int, number: int, previous: int, first: int, last: int) -> Batch:
        """The packets with their places in a sequence, which follow on each other.

        `first` and `last` have the marks FM and LM for the first and the last of them.
        """
        at, end, packets = self.head.transaction_at, self.count, []
        for place, packet in enumerate(self.packets, 1):
            marks = (first if place == 1 else 0) | (last if place == end else 0)
            packets.append(placed(packet, marks, sequence_id, number, previous, at))
            previous, number = number, number + 1
        batch = Batch(packets, self.looks, self.ordinals)
        batch.sent_time = self.sent_time
        return batch


class StagedBatch(Batch):
    """Packets that this queue manager made, of one queue; summaries are made when they are read."""

    __slots__ = ("_summaries",)

    def __init__(self, packets: list[bytes], size: int) -> None:
        self.count = len(packets)
        self.packets = packets
        self.head = summarize(packets[0])
        self.ordinals = ()
        self.sent_time = self.head.sent_time
        self.size = size
        self._summaries: list[PacketSummary] = []

    @property
    def looks(self) -> list[PacketSummary]:  # type: ignore[override]
        """One for each packet."""
        if not self._summaries:
            self._summaries = summarize_all(self.packets)
        return self._summaries


def split(packets: list[bytes]) -> list[Batch]:
    """Packets that a client built, in their order: neighbours that are alike are one batch."""
    if len(packets) == 1:
        return [Batch(packets, [summarize(packets[0])])]
    batches: list[Batch] = []
    looks: list[PacketSummary] = []
    at, start, alone, shared = 0, 0, True, _NOTHING_SHARED
    while at < len(packets):
        packet = packets[at]
        seen = summarize(packet)
        if alone or not _shares(packet, seen, shared):
            if looks:
                batches.append(Batch(packets[start:at], looks))
                looks, start = [], at
            alone, shared = _stands_alone(seen), _shared(packet, seen)
        end = at + 1
        if not alone and (front := front_of(packet, seen)):
            end = _end_of_alike(packets, end, len(packet), front)
        looks += repeat(seen, end - at)
        at = end
    if looks:
        batches.append(Batch(packets[start:] if start else packets, looks))
    return batches


def _end_of_alike(packets: list[bytes], at: int, size: int, front: bytes) -> int:
    """The first place from there on whose packet is not as long, or does not begin so."""
    while some := packets[at : at + _TOGETHER]:
        others = map(not_, map(bytes.startswith, some, repeat(front)))
        alike = next(compress(count(), others), len(some))
        lengths = list(map(len, some[:alike]))
        if lengths.count(size) < alike:
            return at + [length == size for length in lengths].index(False)
        at += alike
        if alike < len(some):
            break
    return at


Shared = tuple[bytes, bytes, bytes, int, int, int, int, int]
_NOTHING_SHARED: Shared = b"?", b"?", b"?", 0, 0, 0, 0, 0


def _shared(packet: bytes, seen: PacketSummary) -> Shared:
    """What all packets of a batch share with its first, as far as they are of one client.

    User flags, queue names and TransactionHeader are the same bytes, so that all other headers lie
    where those of the first do; and so is the machine that private names are of.
    """
    end = seen.properties_at or seen.body_at
    return (
        packet[_ADDRESS_AT:SENT_TIME_AT],
        packet[USER_FLAGS_AT:end],
        packet[end + PRIVACY_LEVEL_AT : end + PRIVACY_LEVEL_AT + 4] if seen.properties_at else b"",
        seen.base_flags & ~PRIORITY,
        seen.time_to_reach_queue,
        seen.time_to_be_received,
        seen.ack_flags,
        seen.message_class,
    )


def _shares(packet: bytes, seen: PacketSummary, shared: Shared) -> bool:
    """Whether a packet has what the packets of a batch share."""
    address, headers, privacy, flags, reach, received, acks, message_class = shared
    return (
        packet.startswith(address, _ADDRESS_AT)
        and packet.startswith(headers, USER_FLAGS_AT)
        and packet.startswith(privacy, USER_FLAGS_AT + len(headers) + PRIVACY_LEVEL_AT)
        and seen.base_flags & ~PRIORITY == flags
        and seen.time_to_reach_queue == reach
        and seen.time_to_be_received == received
        and seen.ack_flags == acks
        and seen.message_class == message_class
    )


def _privacy(packet: bytes, seen: PacketSummary) -> bytes:
    """PrivacyLevel; empty without a MessagePropertiesHeader."""
    at = seen.properties_at
    return packet[at + PRIVACY_LEVEL_AT : at + PRIVACY_LEVEL_AT + 4] if at else b""


def _stands_alone(seen: PacketSummary) -> bool:
    """Whether a message has consequences before the next one comes, or headers of its own.

    Its arrival is to be acknowledged or journaled, or it expires at once.
    """
    return bool(
        seen.user_flags & _ALONE
        or seen.security_at
        or seen.ack_flags & _ARRIVAL
        or not seen.time_to_be_received
    )


def from_one_source(packets: list[bytes], looks: list[PacketSummary]) -> Batch | None:
    """Packets that came over a session, with `summarize_alike` of them, as one batch, if they are.

    None where they are not: they are alike, of one machine, for one queue, and none has a
    SecurityHeader. Its `sent_time` is the earliest of theirs.
    """
    head = looks[0]
    if head.security_at:
        return None
    source, address, sent_time = head.source_guid, head.address_guid, head.sent_time
    end = head.transaction_at or head.properties_at or head.body_at
    names, known = packets[0][USER_FLAGS_AT:end], head
    for packet, seen in zip(packets, looks, strict=True):
        if seen is known:  # so it has the headers of the one before
            continue
        if not packet.startswith(names, USER_FLAGS_AT):
            return None
        if seen.source_guid != source or seen.address_guid != address:
            return None
        if not _are_alike(head, seen):
            return None
        known, sent_time = seen, min(sent_time, seen.sent_time)
    batch = Batch(packets, looks, ordinals_of(packets))
    batch.sent_time = sent_time
    return batch


def _are_alike(head: PacketSummary, seen: PacketSummary) -> bool:
    """Whether a message may be in one batch with another, as far as its headers show it."""
    marks = seen.transaction_flags ^ head.transaction_flags
    return (
        seen.user_flags == head.user_flags
        and marks & ~_NUMBERED == 0
        and seen.transaction_at == head.transaction_at
        and seen.properties_at == head.properties_at
        and seen.ack_flags == head.ack_flags
        and seen.message_class == head.message_class
        and seen.time_to_reach_queue == head.time_to_reach_queue
        and seen.time_to_be_received == head.time_to_be_received
        and (seen.base_flags ^ head.base_flags) & ~PRIORITY == 0
    )
