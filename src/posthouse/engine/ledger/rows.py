"""Makes the row of a new message from the summary of its packet."""

from __future__ import annotations

import struct
from array import array

from posthouse.engine.ledger.records import (
    ARRIVAL_SIZE,
    DOOMED_DELETED,
    DOOMED_PURGED,
    FLAG_EXPRESS,
    FLAG_TRANSACTIONAL,
    FLAGS_AT,
    PRIORITY_AT,
    ROW,
    ROW_SIZE,
    WANT_DEAD_LETTER,
    WANT_FINAL_ACK,
    WANT_JOURNAL,
    Row,
)
from posthouse.engine.ledger.row_columns import MOVE_WORD, ORDINAL_WORD, ROW_WORDS, SIZE_WORD
from posthouse.model.message_classes import NACK_QUEUE_DELETED, NACK_QUEUE_PURGED
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.columns import Layout
from posthouse.wire.packet.packet_fields import PacketSummary

DELIVERY = 0x60  # [MS-MQMQ] 2.2.19.2 UserHeader.Flags: DM, JN, JP
NEGATIVE_JOURNAL = 0x100
POSITIVE_JOURNAL = 0x200
TRANSACTION_HEADER = 0x100000
FINAL_ACK = 0x2  # [MS-MQMQ] 2.2.20.5 TransactionHeader.Flags.FA


_row = tuple.__new__
_COLUMNS = struct.Struct("<Q12sIII12s")  # a row by its columns: lookup_id, size, ordinal, last_move
_AFTER_ID, _SIZE_AT, _AFTER_PLACE = 8, 20, 32
_FEW = 8  # messages, of which packing each takes less than columns at once
assert _COLUMNS.size == ROW_SIZE
ARRIVAL_COLUMNS = Layout(
    ARRIVAL_SIZE,
    number=("<u8", 0),
    row=("|V44", 8),
    row_size=("<u4", 28),
    row_ordinal=("<u4", 32),
    label_at=("<u4", 52),
    label_size=("<u2", 56),
    extension_at=("<u4", 58),
    extension_size=("<u4", 62),
    body_at=("<u4", 66),
    body_size=("<u4", 70),
    sender_size=("<u2", 74),
    extra_size=("<u2", 76),
)  # an arrival block, with the row of its message
FINAL_ANSWER = WANT_FINAL_ACK | WANT_DEAD_LETTER | WANT_JOURNAL  # of Row.wants


def row_of(
    seen: PacketSummary,
    queue: int,
    utc: int,
    expires: int,
    flags: int,
    wants: int,
    lookup_id: int = 0,
    ordinal: int | None = None,
) -> Row:
    """The row of a message; its ordinal is that of the packet, unless another is given."""
    if ordinal is None:
        ordinal = seen.ordinal
    size, priority, message_class = seen.packet_size, seen.priority, seen.message_class
    fields = lookup_id, queue, expires, utc, size, ordinal, 0, message_class, 0, 0, priority
    return _row(Row, (*fields, flags, wants, 0))


def packed_rows(row: Row, batch: Batch, place: int = 0, first: int = 0, last: int = 0) -> bytes:
    """The rows of a batch, packed; `row` is that of its first message.

    Lookup ids follow on from it, and so do places in a sequence, if they have any. `first`
    and `last` are flags that only the first and the last of them have.
    """
    count = batch.count
    if count == 1:
        if place or first or last:
            row = row._replace(last_move=place, flags=row.flags | first | last)
        return ROW.pack(*row)
    common, lookup_id = ROW.pack(*row), row.lookup_id
    if count <= _FEW:
        packed = _few_rows(common, row, batch, place)
    else:
        words = array("I", common) * count
        if lookup_id:
            ids = array("I", array("Q", range(lookup_id, lookup_id + count)).tobytes())
            words[0::ROW_WORDS], words[1::ROW_WORDS] = ids[0::2], ids[1::2]
        words[SIZE_WORD::ROW_WORDS] = batch.sizes
        words[ORDINAL_WORD::ROW_WORDS] = array("I", batch.ordinals)
        if place:
            words[MOVE_WORD::ROW_WORDS] = array("I", range(place, place + count))
        packed = words.tobytes()
    priorities = batch.priorities
    if not first and not last and priorities is None:
        return packed
    changed = bytearray(packed)
    if priorities is not None:
        changed[PRIORITY_AT::ROW_SIZE] = priorities
    changed[FLAGS_AT] |= first
    changed[FLAGS_AT - ROW_SIZE] |= last
    return bytes(changed)


def _few_rows(common: bytes, row: Row, batch: Batch, place: int) -> bytes:
    """The rows of a batch by their columns, one by one."""
    pack, before, after = _COLUMNS.pack, common[_AFTER_ID:_SIZE_AT], common[_AFTER_PLACE:]
    lookup_id, step, packed = row.lookup_id, 1 if row.lookup_id else 0, b""
    place, further = (place, 1) if place else (row.last_move, 0)
    for seen, ordinal in zip(batch.looks, batch.ordinals, strict=True):
        packed += pack(lookup_id, before, seen.packet_size, ordinal, place, after)
        lookup_id, place = lookup_id + step, place + further
    return packed


def flags_of(seen: PacketSummary, flags: int) -> int:
    """Row flags that follow from the packet, beside those of its door."""
    user_flags = seen.user_flags
    if not user_flags & DELIVERY:
        flags |= FLAG_EXPRESS
    if user_flags & TRANSACTION_HEADER:
        flags |= FLAG_TRANSACTIONAL
    return flags


def wants_of(seen: PacketSummary) -> int:
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


def restamped(seen: PacketSummary, guid: bytes, sent_time: int, ordinal: int) -> PacketSummary:
    """What was seen of a packet before it was stamped, with the new identity and time."""
    return seen._replace(source_guid=guid, sent_time=sent_time, ordinal=ordinal)


_CLASS_OF_DOOM = {DOOMED_PURGED: NACK_QUEUE_PURGED, DOOMED_DELETED: NACK_QUEUE_DELETED}


def class_of_doom(doomed: int) -> int:
    """The class with which a message purged in somebody's hands ends; 0: it was not."""
    return _CLASS_OF_DOOM.get(doomed, 0)
