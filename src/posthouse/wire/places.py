"""The place of a message in its sequence, as its TransactionHeader has it, [MS-MQMQ] 2.2.20.5."""

import struct

from posthouse.wire.glance import (
    CONNECTOR_TYPE,
    HEAD,
    NAMES_AT,
    SHAPE_SIZES,
    TRANSACTION,
    names_end,
)
from posthouse.wire.headers import TransactionFlags

HEADER = struct.Struct("<IQII")  # Flags, TxSequenceID, TxSequenceNumber, PreviousTxSequenceNumber
FLAGS = struct.Struct("<I")
USER_FLAGS_AT = HEAD.size - FLAGS.size
MARKS = int(TransactionFlags.of(first=1, last=1))


def transaction_header_at(packet: bytes) -> int:
    """Where the TransactionHeader of a sound packet lies, 0 when it has none."""
    (user_flags,) = FLAGS.unpack_from(packet, USER_FLAGS_AT)
    if not user_flags & TRANSACTION:
        return 0
    size = SHAPE_SIZES[user_flags >> 10 & 0x1FF]
    at = NAMES_AT + size if size >= 0 else names_end(packet, user_flags, size)
    return at + 16 if user_flags & CONNECTOR_TYPE else at


def placed(packet: bytes, marks: int, sequence_id: int, number: int, previous: int) -> bytes:
    """The packet with this place in a sequence and FM and LM as in `marks`.

    It is the packet itself if it says so already.
    """
    at = transaction_header_at(packet)
    assert at, "a message without TransactionHeader has no place in a sequence"
    (flags,) = FLAGS.unpack_from(packet, at)
    header = HEADER.pack(flags & ~MARKS | marks & MARKS, sequence_id, number, previous)
    end = at + HEADER.size
    if packet[at:end] == header:
        return packet
    return b"".join((packet[:at], header, memoryview(packet)[end:]))


def place_of(packet: bytes) -> tuple[int, int, int]:
    """Sequence identifier, number and previous number; zeros without TransactionHeader."""
    at = transaction_header_at(packet)
    if not at:
        return 0, 0, 0
    _, sequence_id, number, previous = HEADER.unpack_from(packet, at)
    return sequence_id, number, previous
