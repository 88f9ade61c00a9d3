"""Sequence identifiers and SEQUENCE_INFO."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import Truncated
from posthouse.wire.packet.sequence import SEQUENCE_INFO, SequenceInfo, TxSequenceId

U32 = st.integers(0, 0xFFFFFFFF)
IDS = st.builds(TxSequenceId, U32, U32)


def packed(sequence: TxSequenceId) -> bytes:
    """The eight bytes of an identifier, as packets have them."""
    return SEQUENCE_INFO.pack(SequenceInfo(int(sequence), 7, 6))[:8]


@pytest.mark.spec("MS-MQMQ 2.2.18.1.2/1")
def test_ordinal_is_stored_before_the_time_stamp() -> None:
    sequence = TxSequenceId(time_stamp=0x432B1643, ordinal=6)
    assert packed(sequence) == bytes.fromhex("06000000 43162b43")
    number = SEQUENCE_INFO.unpack(b"x" + packed(sequence) + bytes(8), 1).sequence_id
    assert TxSequenceId.from_int(number) == sequence


@pytest.mark.spec("MS-MQMQ 2.2.18.1.2/1")
@given(IDS, IDS)
def test_identifiers_compare_as_the_little_endian_numbers_of_their_bytes(
    one: TxSequenceId, other: TxSequenceId
) -> None:
    numbers = [int.from_bytes(packed(each), "little") for each in (one, other)]
    assert (one < other) == (numbers[0] < numbers[1])
    assert (one == other) == (numbers[0] == numbers[1])


@pytest.mark.spec("MS-MQMQ 2.2.18.1.2/1")
@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
def test_time_stamp_outweighs_the_ordinal() -> None:
    assert int(TxSequenceId(1, 0xFFFFFFFF)) < int(TxSequenceId(2, 0))
    assert TxSequenceId(1, 0xFFFFFFFF) < TxSequenceId(2, 0) < TxSequenceId(2, 1)


@pytest.mark.parametrize("size", range(16))
def test_a_short_position_is_refused(size: int) -> None:
    with pytest.raises(Truncated):
        SEQUENCE_INFO.unpack(bytes(size))


def test_sequence_info_has_sixteen_bytes() -> None:
    info = SequenceInfo(int(TxSequenceId(0xFFFFFFFF, 1)), 7, 6)
    raw = bytes.fromhex("01000000 ffffffff 07000000 06000000")
    assert SEQUENCE_INFO.pack(info) == raw
    assert SEQUENCE_INFO.unpack(raw) == info
