"""Identifiers of messages and sequences."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertySize, IllegalPropertyValue
from posthouse.model.message_ids import NULL_MESSAGE_ID, MessageId, TxSequenceId
from tests.model.strategies import attempt, guids

u32 = st.integers(0, 0xFFFFFFFF)
ids = st.builds(MessageId, guids, u32)


@pytest.mark.spec("MS-MQMQ 2.2.18.1.3/1")
@given(ids)
def test_bytes_and_text_are_read_back(identifier: MessageId) -> None:
    assert MessageId.unpack(identifier.pack()) == identifier
    assert MessageId.parse(str(identifier)) == identifier


@given(st.binary(min_size=20, max_size=20))
def test_any_twenty_bytes_are_carried(data: bytes) -> None:
    assert MessageId.unpack(data).pack() == data


def test_the_text_is_the_guid_and_a_decimal() -> None:
    guid = bytes.fromhex("D1587355509195954997B6E611EA26C6")
    assert str(MessageId(guid, 2286)) == "557358d1-9150-9595-4997-b6e611ea26c6\\2286"
    assert MessageId(guid, 0x08EE).pack() == guid + bytes.fromhex("EE080000")


@given(st.binary().filter(lambda data: len(data) != 20))
def test_other_lengths_are_refused(data: bytes) -> None:
    with pytest.raises(IllegalPropertySize):
        MessageId.unpack(data)


@given(st.text() | st.builds(lambda i, n: f"{str(i).split(chr(92))[0]}\\{n}", ids, st.integers()))
def test_any_text_is_an_identifier_or_refused(text: str) -> None:
    found = attempt(MessageId.parse, text, IllegalPropertyValue)
    assert isinstance(found, IllegalPropertyValue) or MessageId.parse(str(found)) == found


def test_an_ordinal_has_32_bits() -> None:
    with pytest.raises(IllegalPropertyValue):
        MessageId.parse("557358d1-9150-9595-4997-b6e611ea26c6\\4294967296")


def test_the_null_identifier_is_all_zero() -> None:
    assert NULL_MESSAGE_ID.pack() == bytes(20)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/49")
@given(u32, u32, u32, u32)
def test_sequences_compare_by_time_stamp_first(a: int, b: int, c: int, d: int) -> None:
    one, other = TxSequenceId(a, b), TxSequenceId(c, d)
    assert (one < other) == (int(one) < int(other))
    assert TxSequenceId.from_int(int(one)) == one


@given(u32, u32)
def test_the_number_of_a_sequence_is_its_packet_form(time_stamp: int, ordinal: int) -> None:
    packed = struct.pack("<II", ordinal, time_stamp)
    assert struct.unpack("<Q", packed)[0] == int(TxSequenceId(time_stamp, ordinal))
