"""Sequence identifiers and the sequence records shown to managers, [MS-MQMQ] 2.2.5, 2.2.18.1.2."""

from typing import NamedTuple, Self

from posthouse.wire.layout import Layout, u32, u64


class TxSequenceId(NamedTuple):
    """Names a stream of transactional messages, [MS-MQMQ] 2.2.18.1.2.

    The time stamp comes second on the wire but counts first in comparisons; as tuples compare from
    the left, it stands first here. As one number it is the little-endian uint64 of the 8 bytes.
    """

    time_stamp: int = 0
    ordinal: int = 0

    @classmethod
    def from_number(cls, number: int) -> Self:
        """The identifier whose eight bytes are this number."""
        return cls(number >> 32, number & 0xFFFFFFFF)

    @property
    def number(self) -> int:
        """The identifier as one unsigned 64-bit number, ordered as the identifiers are."""
        return self.time_stamp << 32 | self.ordinal

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """The identifier in these eight bytes."""
        assert len(data) == 8
        return cls.from_number(int.from_bytes(data, "little"))

    def pack(self) -> bytes:
        """Its eight bytes: ordinal, then time stamp."""
        return self.number.to_bytes(8, "little")


class SequenceInfo(NamedTuple):
    """SEQUENCE_INFO, [MS-MQMQ] 2.2.5: a position in a stream.

    The document types the identifier as int64; the bytes are those of `TxSequenceId.number`, and
    read as unsigned they stay in order beyond 2038.
    """

    sequence_id: u64 = 0
    sequence_number: u32 = 0
    previous_number: u32 = 0


SEQUENCE_INFO = Layout(SequenceInfo)
assert SEQUENCE_INFO.size == 16
