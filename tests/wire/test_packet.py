"""Packets read part by part: every vector, headers behind the body, damage."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError, Truncated
from posthouse.model.message import MessageId, TxSequenceId
from posthouse.model.names import PrivateName, PublicName, parse_format_name
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.optional_headers import Soap
from posthouse.wire.packet.packet import Packet, is_encrypted, summarize

from .vectors import (
    DESTINATION,
    MINIMAL,
    MULTIPLE,
    QUEUE_NAMES,
    SEALED,
    SESSION,
    SOAP,
    SOURCE,
    TRACED,
    TRANSACTIONAL,
    USER_MESSAGE,
    USER_MESSAGES,
    edited,
    resized,
    with_base_flags,
    with_user_flags,
)

each_message = pytest.mark.parametrize("packet", USER_MESSAGES.values(), ids=USER_MESSAGES)
SESSION_VALUES = SessionHeader(1, 2, 3, 4, 5, 64, 0)


def test_sample_message_is_read_whole() -> None:
    packet = Packet(USER_MESSAGE)
    assert packet.base.packet_size == 2224
    assert packet.identifier == MessageId(bytes.fromhex("d1587355509195954997b6e611ea26c6"), 0x8EE)
    assert str(packet.destination_queue) == r"DIRECT=OS:a04bm02\q"
    assert packet.administration_queue is None
    assert packet.response_queue is None
    assert packet.connector_type == bytes(16)
    assert packet.transaction is None
    assert packet.security is not None
    assert packet.security.flags.sender_id_type == 1
    assert packet.security.sender_id.hex() == (
        "010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000"
    )
    assert packet.label == "mqsender label"
    assert packet.body == b"a\0" * 1000
    assert packet.extension == b""
    assert (packet.body_type, packet.application_tag, packet.privacy_level) == (8, 0, 0)
    assert packet.correlation_identifier == MessageId(bytes(16), 0)
    assert (packet.soap, packet.multi_queue, packet.session) == (None, None, None)
    assert packet.tail == (0, 0, 0, 0, 2224, 0, 0)
    assert packet.tracing_queue == bytes(16)
    assert not packet.encrypted
    assert not packet.session_follows


def test_queue_names_extension_and_connector_are_read() -> None:
    packet = Packet(QUEUE_NAMES)
    assert packet.destination_queue == PublicName(bytes(range(0xA0, 0xB0)))
    assert packet.administration_queue == parse_format_name(r"DIRECT=OS:host\adm")
    assert packet.response_queue == PrivateName(b"\x33" * 16, 0x12)
    assert packet.connector_type == b"\x44" * 16
    assert packet.user_flags.delivery == 1
    assert (packet.user_flags.negative_journaling, packet.user_flags.positive_journaling) == (1, 1)
    assert packet.correlation_identifier == MessageId(b"\x55" * 16, 7)
    assert (packet.body_type, packet.application_tag) == (0x1011, 0xDEADBEEF)
    assert packet.label == "L"
    assert packet.extension == bytes.fromhex("e1e2e3e4e5")
    assert packet.body == bytes.fromhex("b1b2b3b4")
    assert packet.priority == 7


@pytest.mark.spec("MS-MQMQ 2.2.20.5/2", clause="fields")
@pytest.mark.parametrize("bit", range(1, 24))
def test_each_transaction_bit_is_of_one_field(bit: int) -> None:
    with_guid = 1  # bit 0: this packet has a connector GUID
    header = Packet(edited(TRANSACTIONAL, 72, "<I", 1 << bit | with_guid)).transaction
    assert header is not None
    flags = header.flags
    assert (flags.final_ack, flags.first, flags.last) == (bit == 1, bit == 2, bit == 3)
    assert flags.transaction_number == (1 << bit) >> 4


@pytest.mark.spec("MS-MQMQ 2.2.20.5/2", clause="fields")
def test_transaction_header_is_read() -> None:
    packet = Packet(TRANSACTIONAL)
    header = packet.transaction
    assert header is not None
    assert header.flags.transaction_number == 0x54321
    assert (header.flags.final_ack, header.flags.first, header.flags.last) == (1, 0, 1)
    assert TxSequenceId.from_int(header.sequence_id) == TxSequenceId(0x5F5E5000, 9)
    assert (header.sequence_number, header.previous_sequence_number) == (8, 7)
    assert packet.connector_guid == b"\x66" * 16
    assert packet.destination_queue == PrivateName(DESTINATION, 10)
    assert packet.administration_queue == PrivateName(SOURCE, 11)
    assert packet.response_queue == PrivateName(SOURCE, 11)
    assert packet.body == b"data"


@pytest.mark.spec("MS-MQMQ 2.2.20.5/2", clause="ignored")
def test_unused_transaction_bits_are_ignored() -> None:
    header = Packet(edited(TRANSACTIONAL, 75, "<B", 0xFF)).transaction
    assert header is not None
    assert header.flags.transaction_number == 0x54321


def test_sealed_message_is_carried_without_being_opened() -> None:
    packet = Packet(SEALED)
    assert packet.encrypted
    assert is_encrypted(SEALED)
    assert not is_encrypted(MINIMAL)
    assert packet.privacy_level == 5
    assert packet.body == bytes(range(0xF0, 0x100))


@pytest.mark.spec("MS-MQMQ 2.2.20/1")
def test_headers_behind_the_body_are_found_in_their_order() -> None:
    tail = TRACED[128:] + SOAP[128:] + MULTIPLE[124:]
    traced = with_base_flags(MINIMAL + tail, on=0x0020)
    packet = Packet(resized(with_user_flags(traced, on=0x10800000)))
    assert packet.tracing_queue == b"\x77" * 16
    assert packet.soap == Soap("<h/>", "<b />")
    assert packet.multi_queue is not None
    assert packet.multi_queue.signature == b"\x91\x92\x93"
    assert packet.tail.end == len(MINIMAL + tail)


@pytest.mark.spec("MS-MQMQ 2.2.20.1/1")
def test_list_sizes_may_leave_out_the_padding() -> None:
    response = bytes.fromhex("22000000 2c01 0000 01000000") + MULTIPLE[244:268]
    unpadded = edited(MULTIPLE, 232, "<I", 34)[:268] + response + MULTIPLE[280:]
    lists = Packet(resized(unpadded)).multi_queue
    assert lists is not None
    assert lists.administration == lists.response == (parse_format_name(r"DIRECT=OS:hst\ad"),)
    assert lists.signature == b"\x91\x92\x93"


@pytest.mark.spec("MS-MQMQ 2.2.20/2")
def test_padding_of_any_value_is_ignored() -> None:
    packet = Packet(edited(TRACED, 125, "<3s", b"\xcd\xcd\xcd"))
    assert (packet.body, packet.tracing_queue) == (b"x", b"\x77" * 16)


@pytest.mark.spec("MS-MQMQ 2.2.20/3")
@each_message
def test_unknown_bytes_behind_the_last_header_are_skipped(packet: bytes) -> None:
    longer = Packet(resized(packet + b"\xee" * 12))
    longer.check()
    assert longer.body == Packet(packet).body
    assert longer.multi_queue == Packet(packet).multi_queue


@pytest.mark.spec("MS-MQMQ 2.2.19.1/3", "MS-MQMQ 2.2.20.4/1")
@each_message
def test_session_header_is_found_inside_and_behind_the_packet(packet: bytes) -> None:
    announced = with_base_flags(packet, on=0x0010)
    for whole in (resized(announced + SESSION), announced + SESSION):
        read = Packet(whole)
        assert read.session == SESSION_VALUES
        assert not read.session_follows
        assert read.body == Packet(packet).body
    waiting = Packet(announced)
    assert waiting.session is None
    assert waiting.session_follows


@pytest.mark.spec("MS-MQMQ 2.2.19.1/3")
def test_session_header_stays_behind_the_headers_in_front_of_it() -> None:
    packet = resized(with_base_flags(SOAP, on=0x0010) + SESSION)
    assert Packet(packet).soap == Soap("<h/>", "<b />")
    assert Packet(packet).session == SESSION_VALUES


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/1")
def test_absent_headers_are_none_and_their_values_empty() -> None:
    packet = Packet(resized(with_user_flags(MINIMAL, off=0x200000)[:68]))
    assert packet.properties is None
    assert (packet.label, packet.extension, packet.body) == ("", b"", b"")
    assert (packet.body_type, packet.application_tag, packet.privacy_level) == (0, 0, 0)
    assert packet.correlation_identifier == MessageId(bytes(16), 0)
    assert packet.connector_guid == bytes(16)


def test_a_summary_taken_before_is_used() -> None:
    seen = summarize(MINIMAL)
    assert Packet(memoryview(MINIMAL), seen).summary is seen


@pytest.mark.parametrize("packet", [SOAP, TRACED, MULTIPLE], ids=["soap", "traced", "multiple"])
def test_every_cut_of_the_headers_behind_the_body_is_refused(packet: bytes) -> None:
    seen = summarize(packet)
    for size in range(seen.body_at + seen.body_size, len(packet) - 1):
        with pytest.raises(RemoteProtocolError):
            Packet(resized(packet[:size])).check()


def test_damage_behind_the_body_is_found_by_the_part_that_has_it() -> None:
    packet = Packet(edited(SOAP, 132, "<I", 0xFFFFFFFF))
    assert packet.body == b"hi"
    with pytest.raises(Truncated):
        packet.soap  # noqa: B018
    with pytest.raises(Truncated):
        packet.check()


def read_all(data: bytes) -> None:
    packet = Packet(data)
    packet.check()
    assert len(packet.body) == packet.summary.body_size
    assert len(packet.extension) == packet.summary.extension_size
    assert packet.label is not None


@given(st.binary(max_size=300), st.integers(0, 0xFFFF), st.integers(0, 0xFFFFFFFF))
def test_any_flags_and_bytes_are_read_or_refused(data: bytes, base: int, user: int) -> None:
    packet = edited(edited(MINIMAL[:64], 2, "<H", base & ~8), 60, "<I", user & ~0x40 | 0x20)
    with suppress(RemoteProtocolError):
        read_all(resized(packet + data))


@each_message
def test_every_changed_byte_gives_a_packet_or_a_protocol_error(packet: bytes) -> None:
    body = Packet(packet).summary.body_at
    for at in [*range(min(body, len(packet))), *range(max(body, len(packet) - 180), len(packet))]:
        for value in (0, 1, 0x7F, 0xFF, packet[at] ^ 0x80):
            with suppress(RemoteProtocolError):
                read_all(edited(packet, at, "<B", value))


@each_message
def test_many_changes_give_a_packet_or_a_protocol_error(packet: bytes) -> None:
    chance = random.Random(len(packet))
    for _ in range(400):
        damaged = bytearray(packet)
        for _ in range(chance.randint(1, 6)):
            damaged[chance.randrange(12, len(damaged))] = chance.randrange(256)
        del damaged[len(damaged) - chance.choice([0, 0, 1, 4, 20]) :]
        with suppress(RemoteProtocolError):
            read_all(resized(bytes(damaged)))
