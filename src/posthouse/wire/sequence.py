"""Sequence identifiers and positions as bytes, [MS-MQMQ] 2.2.5 and 2.2.18.1.2."""

from typing import NamedTuple

from posthouse.model.message import TxSequenceId
from posthouse.wire.layout import Layout, u32, u64

__all__ = [
    "SEQUENCE_INFO",
    "TX_SEQUENCE_ID",
    "SequenceInfo",
    "TxSequenceId",
    "pack_sequence_id",
    "unpack_sequence_id",
]


class TxSequenceNumber(NamedTuple):
    """TxSequenceID as one number, [MS-MQMQ] 2.2.18.1.2.

    The ordinal is stored first and the time stamp second; read as one little-endian number the
    time stamp is the high half, which is how two identifiers compare.
    """

    number: u64


TX_SEQUENCE_ID = Layout(TxSequenceNumber)
assert TX_SEQUENCE_ID.size == 8


def pack_sequence_id(sequence: TxSequenceId) -> bytes:
    """The eight bytes of a sequence identifier."""
    return TX_SEQUENCE_ID.codec.pack(int(sequence))


def unpack_sequence_id(data: bytes, at: int = 0) -> TxSequenceId:
    """The sequence identifier at this offset."""
    return TxSequenceId.from_int(TX_SEQUENCE_ID.unpack(data, at).number)


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO, [MS-MQMQ] 2.2.5: a position in a sequence.

    The document types the identifier as int64; the bytes are those of TxSequenceID, and read as
    unsigned they stay in order beyond 2038.
    """

    sequence_id: u64 = 0
    sequence_number: u32 = 0
    previous_number: u32 = 0


SEQUENCE_INFO = Layout(SequenceInfo)
assert SEQUENCE_INFO.size == 16
