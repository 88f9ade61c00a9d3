"""Patched copies: the fields asked for change, every other byte stays."""

import struct

import pytest

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import TxSequenceId
from posthouse.wire.packet.packet import Packet, drop_session_header, patch, stamp, summarize

from .vectors import (
    MINIMAL,
    SEALED,
    SESSION,
    SOAP,
    TRANSACTIONAL,
    USER_MESSAGE,
    USER_MESSAGES,
    resized,
    with_base_flags,
)

each_message = pytest.mark.parametrize("packet", USER_MESSAGES.values(), ids=USER_MESSAGES)
OURS = b"\x99" * 16


def changed(before: bytes, after: bytes) -> set[int]:
    assert len(before) == len(after)
    return {at for at, (one, other) in enumerate(zip(before, after, strict=True)) if one != other}


@each_message
def test_stamp_sets_identity_and_time(packet: bytes) -> None:
    stamped = stamp(packet, source_guid=OURS, ordinal=0xAABBCCDD, sent_time=0x01020304)
    seen = summarize(stamped)
    assert (seen.source_guid, seen.ordinal, seen.sent_time) == (OURS, 0xAABBCCDD, 0x01020304)
    security = seen.security_at
    allowed = {*range(16, 32), *range(52, 60), *range(security, security + 2)}
    assert changed(packet, stamped) <= allowed


@pytest.mark.spec("MS-MQMQ 2.2.20.6/3", "MS-MQDMPR 3.1.7.1.32/5")
def test_stamp_clears_what_only_our_verification_may_set() -> None:
    stamped = Packet(stamp(SEALED, source_guid=OURS, ordinal=1, sent_time=2))
    assert stamped.security is not None
    assert stamped.security.flags == 0x00A1
    assert stamped.security[1:] == Packet(SEALED).security[1:]  # type: ignore[index]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.32/10")
def test_stamp_numbers_the_transaction() -> None:
    stamped = stamp(
        TRANSACTIONAL, source_guid=OURS, ordinal=1, sent_time=2, transaction_number=0xFEDCB
    )
    header = Packet(stamped).transaction
    assert header is not None
    assert header.flags == 0xFEDCBB
    assert header[1:] == Packet(TRANSACTIONAL).transaction[1:]  # type: ignore[index]


def test_stamp_refuses_a_transaction_number_without_its_header() -> None:
    with pytest.raises(AssertionError):
        stamp(MINIMAL, source_guid=OURS, ordinal=1, sent_time=2, transaction_number=1)


def test_stamp_refuses_garbage() -> None:
    with pytest.raises(RemoteProtocolError):
        stamp(b"garbage", source_guid=OURS, ordinal=1, sent_time=2)


def test_a_summary_taken_before_saves_one() -> None:
    seen = summarize(USER_MESSAGE)
    stamped = stamp(USER_MESSAGE, source_guid=OURS, ordinal=1, sent_time=2, seen=seen)
    assert stamped == stamp(USER_MESSAGE, source_guid=OURS, ordinal=1, sent_time=2)
    assert patch(USER_MESSAGE, hop_count=3, seen=seen) == patch(USER_MESSAGE, hop_count=3)


@each_message
def test_patch_of_nothing_changes_nothing(packet: bytes) -> None:
    assert patch(packet) == packet


@each_message
def test_patch_sets_the_time_to_reach_the_queue(packet: bytes) -> None:
    patched = patch(packet, time_to_reach_queue=0x01020304)
    assert summarize(patched).time_to_reach_queue == 0x01020304
    assert changed(packet, patched) <= set(range(12, 16))


@pytest.mark.spec("MS-MQMQ 2.2.19.2/4")
@each_message
def test_patch_counts_hops(packet: bytes) -> None:
    patched = patch(packet, hop_count=29)
    assert Packet(patched).user_flags.hop_count == 29
    assert changed(packet, patched) == {60}
    with pytest.raises(AssertionError):
        patch(packet, hop_count=30)


def test_patch_sets_the_sequence() -> None:
    patched = patch(
        TRANSACTIONAL,
        sequence_id=TxSequenceId(0x11121314, 0x21222324),
        sequence_number=0x31323334,
        previous_sequence_number=0x41424344,
    )
    assert changed(TRANSACTIONAL, patched) <= set(range(76, 92))
    assert patched[76:92] == struct.pack("<IIII", 0x21222324, 0x11121314, 0x31323334, 0x41424344)


@pytest.mark.parametrize(
    ("marks", "flags"),
    [
        ({"first": True}, 0xF),
        ({"last": False}, 0x3),
        ({"final_ack": False}, 0x9),
        ({"first": True, "last": True, "final_ack": False}, 0xD),
    ],
)
def test_patch_sets_the_marks(marks: dict[str, bool], flags: int) -> None:
    patched = patch(TRANSACTIONAL, **marks)  # type: ignore[arg-type]
    header = Packet(patched).transaction
    assert header is not None
    assert header.flags == 0x543210 | flags
    assert changed(TRANSACTIONAL, patched) == {72}


@pytest.mark.parametrize(
    "field", [{"first": True}, {"sequence_number": 1}, {"sequence_id": TxSequenceId(1, 1)}]
)
def test_patch_refuses_transaction_fields_without_their_header(field: dict[str, int]) -> None:
    with pytest.raises(AssertionError):
        patch(MINIMAL, **field)  # type: ignore[arg-type]


@pytest.mark.spec("MS-MQMQ 2.2.19.1/3", "MS-MQDMPR 3.1.7.1.32/11")
@each_message
def test_session_header_is_dropped_wherever_it_was(packet: bytes) -> None:
    announced = with_base_flags(packet, on=0x0010)
    for whole in (resized(announced + SESSION), announced + SESSION, announced, packet):
        assert drop_session_header(whole) == packet


def test_bytes_behind_a_dropped_session_header_stay() -> None:
    unknown = b"\xee" * 12
    packet = resized(with_base_flags(SOAP, on=0x0010) + SESSION + unknown)
    assert drop_session_header(packet) == resized(SOAP + unknown)
