"""Sequence identifiers and SEQUENCE_INFO."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import Truncated
from posthouse.wire.sequence import (
    SEQUENCE_INFO,
    SequenceInfo,
    TxSequenceId,
    pack_sequence_id,
    unpack_sequence_id,
)

U32 = st.integers(0, 0xFFFFFFFF)
IDS = st.builds(TxSequenceId, U32, U32)


@pytest.mark.spec("MS-MQMQ 2.2.18.1.2/1")
def test_ordinal_is_stored_before_the_time_stamp() -> None:
    sequence = TxSequenceId(time_stamp=0x432B1643, ordinal=6)
    assert pack_sequence_id(sequence) == bytes.fromhex("06000000 43162b43")
    assert unpack_sequence_id(b"x" + pack_sequence_id(sequence), 1) == sequence


@given(IDS, IDS)
def test_identifiers_compare_as_the_little_endian_numbers_of_their_bytes(
    one: TxSequenceId, other: TxSequenceId
) -> None:
    numbers = [int.from_bytes(pack_sequence_id(each), "little") for each in (one, other)]
    assert (one < other) == (numbers[0] < numbers[1])
    assert (one == other) == (numbers[0] == numbers[1])


@pytest.mark.spec("MS-MQMQ 2.2.18.1.2/1")
@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
def test_time_stamp_outweighs_the_ordinal() -> None:
    assert TxSequenceId(1, 0xFFFFFFFF) < TxSequenceId(2, 0)
    assert TxSequenceId(2, 0) < TxSequenceId(2, 1)


@pytest.mark.parametrize("size", range(8))
def test_a_short_identifier_is_refused(size: int) -> None:
    with pytest.raises(Truncated):
        unpack_sequence_id(bytes(size))


def test_sequence_info_has_sixteen_bytes() -> None:
    info = SequenceInfo(int(TxSequenceId(0xFFFFFFFF, 1)), 7, 6)
    raw = bytes.fromhex("01000000 ffffffff 07000000 06000000")
    assert SEQUENCE_INFO.pack(info) == raw
    assert SEQUENCE_INFO.unpack(raw) == info
