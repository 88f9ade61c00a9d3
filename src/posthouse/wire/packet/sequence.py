"""Sequence identifiers and positions as bytes, [MS-MQMQ] 2.2.5 and 2.2.18.1.2."""

from typing import NamedTuple

from posthouse.model.message import TxSequenceId
from posthouse.wire.layout import Layout, u32, u64

__all__ = [
    "SEQUENCE_INFO",
    "SequenceInfo",
    "TxSequenceId",
]


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO, [MS-MQMQ] 2.2.5: a position in a sequence.

    The ordinal of the identifier is stored first and the time stamp second; read as one
    little-endian number the time stamp is the high half, which is how two identifiers compare.
    The document types the identifier as int64; the bytes are those of TxSequenceID, and read as
    unsigned they stay in order beyond 2038.
    """

    sequence_id: u64 = 0
    sequence_number: u32 = 0
    previous_number: u32 = 0


SEQUENCE_INFO = Layout(SequenceInfo)
assert SEQUENCE_INFO.size == 16
