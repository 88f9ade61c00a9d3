"""The row of a new message: what the engine keeps of what it saw in the packet."""

from __future__ import annotations

from posthouse.engine.ledger.records import (
    FLAG_EXPRESS,
    FLAG_TRANSACTIONAL,
    WANT_DEAD_LETTER,
    WANT_FINAL_ACK,
    WANT_JOURNAL,
    Row,
    Span,
)
from posthouse.wire.packet.glance import Glance

DELIVERY = 0x60  # [MS-MQMQ] 2.2.19.2 UserHeader.Flags: DM, JN, JP
NEGATIVE_JOURNAL = 0x100
POSITIVE_JOURNAL = 0x200
TRANSACTION_HEADER = 0x100000
FINAL_ACK = 0x2  # [MS-MQMQ] 2.2.20.5 TransactionHeader.Flags.FA


FINAL_ANSWER = WANT_FINAL_ACK | WANT_DEAD_LETTER | WANT_JOURNAL  # of Row.wants


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
    if not user_flags & DELIVERY:
        flags |= FLAG_EXPRESS
    if user_flags & TRANSACTION_HEADER:
        flags |= FLAG_TRANSACTIONAL
    return flags


def wants_of(seen: Glance) -> int:
    """What the sender asked for: acknowledgments and journals."""
    wants = seen.ack_flags & 0x0F
    user_flags = seen.user_flags
    if user_flags & NEGATIVE_JOURNAL:
        wants |= WANT_DEAD_LETTER
    if user_flags & POSITIVE_JOURNAL:
        wants |= WANT_JOURNAL
    if seen.transaction_flags & FINAL_ACK:
        wants |= WANT_FINAL_ACK
    return wants


def span_of(seen: Glance) -> Span:
    """Where label, extension and body lie."""
    return Span._make(seen[15:21])


def restamped(seen: Glance, guid: bytes, sent_time: int, ordinal: int) -> Glance:
    """What was seen of a packet before it was stamped, with the new identity and time."""
    fields = (*seen[:4], guid, *seen[5:7], sent_time, ordinal, *seen[9:])
    return tuple.__new__(Glance, fields)


def are_alike(looks: list[Glance]) -> bool:
    """Whether packets differ in nothing that a row keeps but their size, and none is signed."""
    first = looks[0]
    priority, message_class, delivery = first[1], first[14], first[9] & DELIVERY
    for seen in looks:
        if seen is not first and (
            seen[1] != priority
            or seen[14] != message_class
            or seen[9] & DELIVERY != delivery
            or seen[21]
        ):
            return False
    return not first[21]
