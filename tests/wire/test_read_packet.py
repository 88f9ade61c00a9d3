"""[MS-MQRR] 2.2.5 from the reader's side."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message import Message
from posthouse.wire.packet.headers import PACKET_SIZE_MAX
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.patch import USER_FLAGS_AT
from posthouse.wire.packet.remote_read import (
    Trailers,
    pack_trailers,
    read_packet,
    read_trailers,
)

SENT = 1_700_000_000
FOR_EVER = 0xFFFF_FFFF
FULL = (0xC004, 3, 2, SENT, "retry", "poison", "alpha\\private$\\dead", True, "192.0.2.7")


def sized(packet: bytes) -> bytes:
    return packet[:8] + struct.pack("<I", len(packet)) + packet[12:]


def with_trailers(packet: bytes, trailers: bytes) -> bytes:
    return sized(packet + trailers)


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def test_all_headers_are_read():
    assert read_trailers(pack_trailers(*FULL), 0) == Trailers(*FULL)


def test_a_packet_without_trailing_headers_has_none():
    packet = serialize(Message(body=b"plain", sent_time=SENT))
    assert read_packet(packet).trailers == Trailers()


def test_time_to_reach_queue_is_relative_again():
    packet = serialize(Message(sent_time=SENT, time_to_reach_queue=SENT + 60))
    data = with_trailers(packet, pack_trailers(0, 0, 0, 0))
    assert deserialize(read_packet(data).message).time_to_reach_queue == 60


def test_the_largest_message_is_read_with_its_headers():
    size = len(serialize(Message()))
    packet = serialize(Message(body=bytes(PACKET_SIZE_MAX - size), time_to_reach_queue=FOR_EVER))
    assert len(packet) == PACKET_SIZE_MAX
    found = read_packet(with_trailers(packet, pack_trailers(*FULL)))
    assert found.message == packet
    assert found.trailers == Trailers(*FULL)


@pytest.mark.spec("MS-MQRR 2.2.5.2/6")
def test_an_invalid_dead_letter_queue_that_is_not_there_means_nothing():
    data = bytearray(pack_trailers(0, 0, 0, 0))
    data[8] |= 0x08
    assert not read_trailers(bytes(data), 0).dead_letter_invalid


@pytest.mark.spec("MS-MQRR 2.2.5.2/8")
def test_unknown_bits_and_reserved_bytes_of_the_extension_header_mean_nothing():
    data = bytearray(pack_trailers(*FULL))
    data[8] |= 0xE4
    data[9:12] = b"\xff\xff\xff"
    assert read_trailers(bytes(data), 0) == Trailers(*FULL)


@pytest.mark.spec("MS-MQRR 2.2.5.3/2")
def test_a_subqueue_header_without_a_name_is_ignored():
    data = pack_trailers(*FULL[:4], "", *FULL[5:])
    assert read_trailers(data, 0) == Trailers(0, 0, 0, 0, "", "", *FULL[6:])


@pytest.mark.spec("MS-MQRR 2.2.5.3/4", "MS-MQRR 2.2.5.3/5")
def test_reserved_bits_behind_the_class_are_ignored():
    data = changed(pack_trailers(*FULL), 16, struct.pack("<I", 0xC004 << 1 | 0xFFFE_0001))
    assert read_trailers(data, 0).acknowledgement_class == 0xC004


@pytest.mark.spec("MS-MQRR 2.2.5.5/2")
def test_an_address_without_a_type_is_ignored():
    data = pack_trailers(*FULL)
    data = changed(data, len(data) - 22, b"\0\0")
    assert read_trailers(data, 0).address == ""


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1.2.1/2",
    "MS-MQRR 2.2.5.1.2.1/3",
    "MS-MQRR 2.2.5.1.2.2/2",
    "MS-MQRR 2.2.5.1.2.2/3",
)
@pytest.mark.parametrize("reserved", [0, 0xFFFF])
def test_reserved_fields_of_srmp_headers_are_ignored(reserved):
    text = "<a/>".encode("utf-16-le") + b"\0\0"
    envelope = struct.pack("<HHI", 0x0190, reserved, len(text) // 2) + text + b"\0\0"
    compound = struct.pack("<HHIII", 0x01F4, reserved, 8, 4, 3) + b"abcbodyz"
    packet = bytearray(sized(serialize(Message(sent_time=SENT)) + envelope + compound))
    (flags,) = struct.unpack_from("<I", packet, USER_FLAGS_AT)
    struct.pack_into("<I", packet, USER_FLAGS_AT, flags | 0x0200_0000)
    _, trailers, srmp = read_packet(bytes(packet))
    assert trailers == Trailers()
    assert srmp is not None
    assert srmp.envelope == "<a/>"
    at = srmp.compound_at + 16 + srmp.message_body_offset
    assert packet[at : at + srmp.message_body_size] == b"body"


def test_a_body_outside_its_compound_message_is_refused():
    text = b"\0\0\0\0"
    envelope = struct.pack("<HHI", 0x0190, 0, 1) + text
    compound = struct.pack("<HHIII", 0x01F4, 0, 8, 9, 3) + b"abcbodyz"
    packet = bytearray(sized(serialize(Message(sent_time=SENT)) + envelope + compound))
    (flags,) = struct.unpack_from("<I", packet, USER_FLAGS_AT)
    struct.pack_into("<I", packet, USER_FLAGS_AT, flags | 0x0200_0000)
    with pytest.raises(RemoteProtocolError):
        read_packet(bytes(packet))


@given(st.binary(max_size=240))
def test_any_bytes_are_headers_or_refused(data):
    with suppress(RemoteProtocolError):
        read_trailers(data, 0)


@given(st.data())
def test_a_damaged_packet_is_read_or_refused(data):
    packet = with_trailers(serialize(Message(body=b"body", sent_time=SENT)), pack_trailers(*FULL))
    at = data.draw(st.integers(0, len(packet) - 1))
    packet = changed(packet, at, data.draw(st.binary(min_size=1, max_size=4)))[: len(packet)]
    with suppress(RemoteProtocolError):
        read_packet(packet)
