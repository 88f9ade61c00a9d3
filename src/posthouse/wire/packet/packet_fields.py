"""The summary of a packet: fields that the engine decides on, read in one pass, [MS-MQMQ] 2.2.20.

This runs once for every message, so it works on precompiled structs and plain masks and builds no
object per header. The masks are those of `BaseFlags`, `UserFlags` and `TransactionFlags`.
"""

import struct
from array import array
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.wire.packet.headers import (
    ADMINISTRATION_TYPES,
    DESTINATION_TYPES,
    LABEL_UNITS_MAX,
    PACKET_SIZE_MAX,
    QUEUE_DIRECT,
    SENDER_CERTIFICATE_SIZE_MAX,
    SESSION_HEADER,
    SIGNATURE,
    VERSION_NUMBER,
)
from posthouse.wire.packet.trailing_headers import locate_tail

PRIORITY = 0x0007
INTERNAL = 0x0008
SESSION = 0x0010

RECOVERABLE = 0x0000_0020
DELIVERY = 0x0000_0060
SECURITY = 0x0008_0000
TRANSACTION = 0x0010_0000
PROPERTIES = 0x0020_0000
CONNECTOR_TYPE = 0x0040_0000

CONNECTOR_GUID = 0x0000_0001
ACKNOWLEDGMENTS = 0x0F  # the upper four bits are unused

HEAD = struct.Struct("<BxHIII16s16sIIII")  # BaseHeader and the fixed part of UserHeader
NAMES_AT = HEAD.size
TRANSACTION_FLAGS = struct.Struct("<I")
SECURITY_SIZES = struct.Struct("<2xHHHII")
PROPERTY_SIZES = struct.Struct("<BBH28xII12xI")
assert (HEAD.size, SECURITY_SIZES.size, PROPERTY_SIZES.size) == (64, 16, 56)

# Bytes of a queue name by its type code; a direct name brings its own length.
NAME_SIZES = (0, 0, 4, 4, 4, 16, 20, 0)
ILLEGAL = -1
HAS_DIRECT = -2


def _shape_size(shape: int) -> int:
    """The bytes of three queue names by their nine bits DQ, AQ, RQ, or why that is not known."""
    destination, administration, response = shape & 7, shape >> 3 & 7, shape >> 6
    if destination not in DESTINATION_TYPES or administration not in ADMINISTRATION_TYPES:
        return ILLEGAL
    codes = (destination, administration, response)
    return HAS_DIRECT if QUEUE_DIRECT in codes else sum(NAME_SIZES[code] for code in codes)


SHAPE_SIZES = tuple(_shape_size(shape) for shape in range(512))


LABEL_SIZE_MAX = 2 * LABEL_UNITS_MAX  # bytes
ORDINAL_AT, ORDINAL_END = 56, 60
NUMBERS_AT, NUMBERS_END = 12, 20  # TxSequenceNumber and the previous one, in a TransactionHeader


class PacketSummary(NamedTuple):
    """The summary of a UserMessage packet: offsets of its parts, and fields that decide its route.

    Offsets count from the start of the packet; an offset of 0 means the header is absent.
    """

    packet_size: int
    priority: int  # 0 for a transactional message, whatever the packet has
    base_flags: int
    time_to_reach_queue: int
    source_guid: bytes
    address_guid: bytes
    time_to_be_received: int
    sent_time: int
    ordinal: int
    user_flags: int
    transaction_flags: int
    transaction_at: int
    properties_at: int
    ack_flags: int
    message_class: int
    label_at: int
    label_size: int  # in bytes, NUL included
    extension_at: int
    extension_size: int
    body_at: int
    body_size: int
    security_at: int

    @property
    def span(self) -> tuple[int, ...]:
        """Where label, extension and body lie: place and size of each."""
        return self[15:21]


_ORDINAL = PacketSummary._fields.index("ordinal")
# The slice that `PacketSummary.span` is, for what each message comes by: without the call.
SPAN = slice(PacketSummary._fields.index("label_at"), PacketSummary._fields.index("security_at"))


def summarize(data: bytes | memoryview) -> PacketSummary:
    """Checks a UserMessage packet up to the end of its body, and returns its summary.

    Raises `MalformedPacket` for anything that breaks [MS-MQMQ] 2.2.19 or 2.2.20 there; `Packet`
    checks the headers after the body.
    """
    try:
        (
            version,
            base_flags,
            signature,
            packet_size,
            time_to_reach_queue,
            source_guid,
            address_guid,
            time_to_be_received,
            sent_time,
            ordinal,
            user_flags,
        ) = HEAD.unpack_from(data)
        if version != VERSION_NUMBER or signature != SIGNATURE:
            raise MalformedPacket("not a message queuing packet")
        if packet_size != len(data) or packet_size > PACKET_SIZE_MAX or base_flags & INTERNAL:
            _check_size(base_flags, packet_size, len(data))
        if user_flags & DELIVERY > RECOVERABLE:
            raise MalformedPacket("delivery is neither express nor recoverable")

        names_size = SHAPE_SIZES[user_flags >> 10 & 0x1FF]
        at = NAMES_AT + names_size if names_size >= 0 else names_end(data, user_flags, names_size)
        if user_flags & CONNECTOR_TYPE:
            at += 16

        priority = base_flags & PRIORITY
        transaction_flags = transaction_at = 0
        if user_flags & TRANSACTION:
            if not user_flags & DELIVERY:
                raise MalformedPacket("transactional message with express delivery")
            priority = 0
            transaction_at = at
            (transaction_flags,) = TRANSACTION_FLAGS.unpack_from(data, at)
            at += 36 if transaction_flags & CONNECTOR_GUID else 20

        security_at = 0
        if user_flags & SECURITY:
            security_at = at
            at = _security_end(data, at)

        properties_at = ack_flags = message_class = label_size = extension_size = body_size = 0
        label_at = extension_at = body_at = at
        if user_flags & PROPERTIES:
            properties_at = at
            ack_bits, label_units, message_class, body_size, allocated, extension_size = (
                PROPERTY_SIZES.unpack_from(data, at)
            )
            ack_flags = ack_bits & ACKNOWLEDGMENTS
            label_at = at + 56
            label_size = label_units + label_units
            extension_at = label_at + label_size
            if label_units >= LABEL_UNITS_MAX:
                _check_long_label(data, label_units, extension_at)
            body_at = extension_at + extension_size
            if allocated > body_size:
                sizes = body_size, allocated
                body_size = _body_size(data, packet_size, base_flags, user_flags, body_at, sizes)
        if body_at + body_size > packet_size:
            raise Truncated("label, extension and body are longer than their packet")

        return tuple.__new__(
            PacketSummary,
            (
                packet_size,
                priority,
                base_flags,
                time_to_reach_queue,
                source_guid,
                address_guid,
                time_to_be_received,
                sent_time,
                ordinal,
                user_flags,
                transaction_flags,
                transaction_at,
                properties_at,
                ack_flags,
                message_class,
                label_at,
                label_size,
                extension_at,
                extension_size,
                body_at,
                body_size,
                security_at,
            ),
        )
    except (struct.error, IndexError):
        raise Truncated(f"UserMessage packet cut after {len(data)} bytes") from None


def summarize_all(packets: list[bytes]) -> list[PacketSummary]:
    """The summaries of many packets, in order."""
    return own_summaries(packets, summarize_alike(packets))


def summarize_alike(
    packets: list[bytes],
    looks: list[PacketSummary] | None = None,
    check: Callable[[PacketSummary], None] | None = None,
) -> list[PacketSummary]:
    """A summary for each of many packets, in order, after those that are in `looks` already.

    Neighbours are mostly alike: as long, with the same front, but for MessageID and, if they are
    transactional, their places in the sequence. Then they share the summary of the first of them,
    whose ordinal is that of the first; `ordinals_of` has those of all. `check` may refuse a
    summary. After an error, `looks` has the packets before the bad one.
    """
    seen = [] if looks is None else looks
    size, front, middle, rest, rest_at = -1, b"", b"", b"", 0
    append = seen.append
    for packet in packets:
        if (
            len(packet) == size
            and packet.startswith(front)
            and packet.startswith(middle, ORDINAL_END)
            and packet.startswith(rest, rest_at)
        ):
            append(seen[-1])
            continue
        look = summarize(packet)
        if check is not None:
            check(look)
        append(look)
        if not front_of(packet, look):
            size = -1
            continue
        at, size = look.transaction_at, len(packet)
        end, rest_at = (at + NUMBERS_AT, at + NUMBERS_END) if at else (look.label_at,) * 2
        front, middle = packet[:ORDINAL_AT], packet[ORDINAL_END:end]
        rest = packet[rest_at : look.label_at]
    return seen


def own_summaries(packets: list[bytes], looks: list[PacketSummary]) -> list[PacketSummary]:
    """Summaries that neighbours share, each with the ordinal of its packet."""
    new, at, known, own = tuple.__new__, _ORDINAL, None, []
    for look, ordinal in zip(looks, ordinals_of(packets[: len(looks)]), strict=True):
        if look is not known:
            known, front, rest = look, look[:at], look[at + 1 :]
        own.append(
            look if look.ordinal == ordinal else new(PacketSummary, (*front, ordinal, *rest))
        )
    return own


def ordinals_of(packets: list[bytes]) -> list[int]:
    """The ordinal of each of these sound packets, [MS-MQMQ] 2.2.20.3 MessageID."""
    return array("I", b"".join([packet[ORDINAL_AT:ORDINAL_END] for packet in packets])).tolist()


def front_of(packet: bytes, seen: PacketSummary) -> bytes:
    """What decides how each packet as long as this one looks: all in front of its label.

    Empty where bytes further on decide too: how long the body is, or whether a label ends.
    """
    if seen.label_size >= LABEL_SIZE_MAX or body_is_longer(packet, seen):
        return b""
    return packet[: seen.label_at]


def times_of(packet: bytes) -> tuple[int, int, int]:
    """Time to reach the queue, time to be received and sent time of a sound packet."""
    fields = HEAD.unpack_from(packet)
    return fields[4], fields[7], fields[8]


def names_of(packet: bytes, seen: PacketSummary) -> bytes:
    """The queue names of a packet, as they are."""
    end = seen.transaction_at or seen.security_at or seen.properties_at or seen.body_at
    return packet[NAMES_AT:end]


def require_properties(seen: PacketSummary) -> None:
    """Refuses a message without a MessagePropertiesHeader; for endpoints that accept packets.

    Without it the place of the body is unknown, and the message would be delivered as an empty one.
    """
    if not seen.properties_at:
        raise MalformedPacket("the message has no MessagePropertiesHeader")


def body_is_longer(packet: bytes, seen: PacketSummary) -> bool:
    """More was allocated for the body than it takes, as in an encrypted message."""
    if not seen.properties_at:
        return False
    sizes = PROPERTY_SIZES.unpack_from(packet, seen.properties_at)
    return bool(sizes[4] > sizes[3])


def _check_size(base_flags: int, packet_size: int, received: int) -> None:
    """Explains why a packet whose size is unusual is refused, or lets it pass.

    Decision 27: a SessionHeader may lie after what PacketSize counts.
    """
    if base_flags & INTERNAL:
        raise MalformedPacket("internal packet where a UserMessage is due")
    if packet_size > PACKET_SIZE_MAX:
        raise MalformedPacket(f"packet of {packet_size} bytes, the limit is {PACKET_SIZE_MAX}")
    behind = SESSION_HEADER.size if base_flags & SESSION else 0
    if received not in (packet_size, packet_size + behind):
        raise Truncated(f"PacketSize is {packet_size}, but there are {received} bytes")


def names_end(data: bytes | memoryview, user_flags: int, names_size: int) -> int:
    """Where three queue names end of which at least one is direct, [MS-MQMQ] 2.2.18.1.5.2."""
    if names_size == ILLEGAL:
        raise MalformedPacket("queue type not defined for the destination or administration queue")
    at = NAMES_AT
    if user_flags >> 10 & 0x1FF == QUEUE_DIRECT:  # the destination, and there are no others
        return at + 5 + (data[at] | data[at + 1] << 8) & ~3
    for shift in (10, 13, 16):
        code = user_flags >> shift & 7
        if code == QUEUE_DIRECT:
            count = data[at] | data[at + 1] << 8
            at = (at + 2 + count + 3) & ~3
        else:
            at += NAME_SIZES[code]
    return at


def _security_end(data: bytes | memoryview, at: int) -> int:
    """Where a SecurityHeader ends, by its five sizes alone, [MS-MQMQ] 2.2.20.6."""
    sizes: tuple[int, int, int, int, int] = SECURITY_SIZES.unpack_from(data, at)
    sender_id, key, signature, certificate, provider = sizes
    if certificate > SENDER_CERTIFICATE_SIZE_MAX:
        raise MalformedPacket(f"sender certificate of {certificate} bytes")
    return (
        at
        + 16
        + (sender_id + 3 & ~3)
        + (key + 3 & ~3)
        + (signature + 3 & ~3)
        + (certificate + 3 & ~3)
        + (provider + 3 & ~3)
    )


def _check_long_label(data: bytes | memoryview, units: int, end: int) -> None:
    """[MS-MQMQ] 2.2.19.3: a label has at most 249 characters and then its NUL.

    Choice: a shorter label whose NUL is missing is taken as it is.
    """
    if units > LABEL_UNITS_MAX or data[end - 2] or data[end - 1]:
        raise MalformedPacket(f"label of {units} units")


def _body_size(
    data: bytes | memoryview,
    packet_size: int,
    base_flags: int,
    user_flags: int,
    body_at: int,
    sizes: tuple[int, int],
) -> int:
    """The bytes a body takes whose MessageSize is below its AllocationBodySize.

    The documents leave open which one counts when they differ, as they may for an encrypted body:
    it is the first by which the headers end where the packet does, MessageSize if neither.
    """
    packet = bytes(data)
    for size in sizes:
        with suppress(RemoteProtocolError):
            tail = locate_tail(packet, body_at + size, packet_size, base_flags, user_flags)
            if tail.end == packet_size:
                return size
    return sizes[0]
