"""Sequence identifiers and SEQUENCE_INFO."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.wire.sequence import SEQUENCE_INFO, SequenceInfo, TxSequenceId

U32 = st.integers(0, 0xFFFFFFFF)
IDS = st.builds(TxSequenceId, U32, U32)


def test_ordinal_is_stored_before_the_time_stamp() -> None:
    sequence = TxSequenceId(time_stamp=0x432B1643, ordinal=6)
    assert sequence.pack() == bytes.fromhex("06000000 43162b43")
    assert TxSequenceId.unpack(sequence.pack()) == sequence


def test_number_has_the_time_stamp_in_its_high_half() -> None:
    assert TxSequenceId(0x432B1643, 6).number == 4839986701558349830
    assert TxSequenceId.from_number(4839986701558349830) == (0x432B1643, 6)


@given(IDS, IDS)
def test_identifiers_compare_as_their_numbers(one: TxSequenceId, other: TxSequenceId) -> None:
    assert (one < other) == (one.number < other.number)
    assert (one == other) == (one.pack() == other.pack())


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
def test_time_stamp_outweighs_the_ordinal() -> None:
    assert TxSequenceId(1, 0xFFFFFFFF) < TxSequenceId(2, 0)
    assert TxSequenceId(2, 0) < TxSequenceId(2, 1)


def test_sequence_info_has_sixteen_bytes() -> None:
    info = SequenceInfo(TxSequenceId(2, 1).number, 7, 6)
    raw = bytes.fromhex("01000000 02000000 07000000 06000000")
    assert SEQUENCE_INFO.pack(info) == raw
    assert SEQUENCE_INFO.unpack(raw) == info
