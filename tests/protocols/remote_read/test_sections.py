"""[MS-MQRR] 2.2.5-7 and the sections of 3.1.4.7."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.transfer.remote_reads import Particulars
from posthouse.model.message import Message
from posthouse.protocols.remote_read.sections import (
    BINARY_FIRST,
    BINARY_SECOND,
    FULL_PACKET,
    SRMP_FIRST,
    SRMP_SECOND,
    cut,
    sections,
)
from posthouse.protocols.remote_read.stubs import Section
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.patch import USER_FLAGS_AT
from posthouse.wire.packet.remote_read import TRAILERS_SIZE, Trailers, read_packet
from tests.protocols.remote_read.packets import (
    ENVELOPE,
    HTTP,
    SENT,
    compound_header,
    packet_of,
    read_of,
    srmp_packet,
)
from tests.wire.strategies import messages

BODY = bytes(range(100))
GUID = bytes(range(16, 32))
OVER_HTTP = 0x0200_0000
ALL = 0xFFFF_FFFF
NOTHING = Particulars()


def whole(packet: bytes, particulars: Particulars = NOTHING, **fields: int) -> bytes:
    (section,) = sections(packet, read_of(**fields), particulars, ALL, ALL)
    assert section[0] == FULL_PACKET
    return section[2]


def trailers(data: bytes) -> bytes:
    return data[-TRAILERS_SIZE:]


def u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def u16(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


# -- one section or two


@pytest.mark.spec(
    "MS-MQRR 2.2.6/1",
    "MS-MQRR 2.2.7/2",
    "MS-MQRR 3.1.4.7/40",
    "MS-MQRR 3.1.4.7/41",
    "MS-MQRR 2.2.7/1",
    "MS-MQRR 2.2.6/3",
)
def test_a_body_that_fits_comes_as_one_full_packet():
    packet = packet_of(BODY)
    found = sections(packet, read_of(), NOTHING, len(BODY), 0)
    ((kind, alloc, data),) = found
    assert (kind, alloc) == (0, len(data))
    assert len(data) == len(packet) + TRAILERS_SIZE == u32(data, 8)
    assert deserialize(read_packet(data).message).body == BODY


@pytest.mark.spec("MS-MQRR 2.2.6/5", clause="binary")
@pytest.mark.spec(
    "MS-MQRR 2.2.6/2",
    "MS-MQRR 2.2.6/4",
    "MS-MQRR 2.2.6/7",
    "MS-MQRR 2.2.7/3",
    "MS-MQRR 3.1.4.7/33",
    "MS-MQRR 3.1.4.7/42",
    "MS-MQRR 3.1.4.7/43",
    "MS-MQRR 3.1.4.7/44",
)
@pytest.mark.parametrize("allowed", [0, 1, 50, 99])
def test_a_longer_body_is_cut_to_what_was_asked_for(allowed):
    packet = packet_of(BODY, label="cut")
    first, _ = sections(packet, read_of(), NOTHING, allowed, ALL)
    kind, alloc, data = first
    body_at = summarize(packet).body_at
    assert kind == BINARY_FIRST == 1
    assert data[body_at:] == BODY[:allowed]
    assert len(data) == body_at + allowed
    assert alloc == body_at + len(BODY)
    assert alloc - len(data) == len(BODY) - allowed
    assert data[64:body_at] == packet[64:body_at]


@pytest.mark.spec("MS-MQRR 2.2.7/4", "MS-MQRR 3.1.4.7/45", "MS-MQRR 3.1.4.7/46", "MS-MQRR 2.2.6/6")
def test_what_lies_behind_a_cut_body_is_the_second_section():
    packet = packet_of(BODY, soap_header="header", soap_body="body")
    (full,) = sections(packet, read_of(), NOTHING, ALL, ALL)
    first, second = sections(packet, read_of(), NOTHING, 10, ALL)
    assert second[0] == BINARY_SECOND == 2
    assert second[1] == len(second[2])
    body_end = summarize(packet).body_at + len(BODY)
    assert second[2] == full[2][body_end:]
    assert "header".encode("utf-16-le") in second[2]
    assert joined((first, second)) == full[2].replace(BODY, BODY[:10].ljust(100, b"\0"))


def joined(found: tuple[Section, ...]) -> bytes:
    return b"".join([data.ljust(alloc, b"\0") for _, alloc, data in found])


@pytest.mark.spec("MS-MQRR 3.1.4.7/47")
def test_a_cut_message_without_trailers_is_one_section():
    assert cut(1, 2, b"head", 6, b"") == ((1, 10, b"head"),)


@pytest.mark.spec("MS-MQRR 3.1.4.7/7")
@given(st.binary(max_size=60), st.integers(0, 70))
def test_sections_make_up_the_packet_in_their_order(body, allowed):
    packet = packet_of(body)
    found = sections(packet, read_of(), NOTHING, allowed, 0)
    message = deserialize(read_packet(joined(found)).message)
    assert message.body == body[:allowed].ljust(len(body), b"\0")
    assert len(found) == (1 if allowed >= len(body) else 2)


@settings(max_examples=60)
@given(messages())
def test_a_reader_gets_the_message_that_was_stored(message):
    packet = serialize(message)
    data = whole(packet)
    again = deserialize(read_packet(data).message)
    if not message.destination_queue_format_name.startswith("DIRECT"):
        assert again == with_clipped_time(message, again)
    assert again.body == message.body


def with_clipped_time(message: Message, again: Message) -> Message:
    """A time of expiry behind 2106 is the last one there is."""
    if message.sent_time + message.time_to_reach_queue > ALL:
        message.time_to_reach_queue = again.time_to_reach_queue
    return message


@given(st.binary(min_size=0, max_size=40), st.integers(0, 64))
def test_any_bytes_behind_the_body_are_survived(noise, allowed):
    packet = bytearray(packet_of(b"body") + noise)
    struct.pack_into("<I", packet, 8, len(packet))
    flags = u32(packet, USER_FLAGS_AT) | 0x1280_0000  # SOAP, many queues, over HTTP
    struct.pack_into("<I", packet, USER_FLAGS_AT, flags)
    found = sections(bytes(packet), read_of(), NOTHING, allowed, allowed)
    assert 1 <= len(found) <= 2
    assert all(alloc >= len(data) for _, alloc, data in found)


# -- the front


@pytest.mark.spec("MS-MQRR 2.2.5.1/3", "MS-MQRR 2.2.5.1/4", "MS-MQRR 3.1.4.7/48")
def test_time_to_reach_queue_is_the_time_of_expiry():
    packet = packet_of(b"b", time_to_reach_queue=3600)
    assert u32(whole(packet), 12) == SENT + 3600
    assert u32(packet, 12) == 3600, "the stored packet is as it was"
    first, _ = sections(packet, read_of(), NOTHING, 0, 0)
    assert u32(first[2], 12) == SENT + 3600


def test_what_never_expires_says_so_and_nothing_overflows():
    assert u32(whole(packet_of(time_to_reach_queue=ALL)), 12) == ALL
    assert u32(whole(packet_of(time_to_reach_queue=ALL - 5)), 12) == ALL


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1/5",
    "MS-MQRR 2.2.5.1/8",
    "MS-MQRR 2.2.5.1/9",
    "MS-MQRR 2.2.5.1/10",
    "MS-MQRR 2.2.5.1/11",
)
@pytest.mark.parametrize(
    ("address", "overlay"),
    [
        ("192.0.2.7", "0400 0100 00000000 c0000207 00000000"),
        ("2001:db8::1", "1000 0600 00000000 20010db8 00000000"),
        ("fe80::1%3", "1000 0600 03000000 fe800000 00000000"),
        ("", "0400 0100 00000000 00000000 00000000"),
    ],
)
def test_a_direct_destination_has_the_address_of_the_sender(address, overlay):
    data = whole(packet_of(), Particulars(source_address=address))
    assert data[32:48] == bytes.fromhex(overlay)


@pytest.mark.spec("MS-MQRR 2.2.5.1/6", "MS-MQRR 2.2.5.1/7")
def test_another_destination_has_the_guid_of_the_host_it_is_read_from():
    packet = packet_of(
        destination_queue_format_name="PRIVATE=13121110-1514-1716-1819-1a1b1c1d1e1f\\00000005",
        destination_queue_type=3,
        destination_queue_manager_identifier=GUID,
        source_machine_identifier=GUID[::-1],
    )
    data = whole(packet, Particulars(source_address="192.0.2.7"))
    assert data[32:48] == GUID
    assert data[16:32] == GUID[::-1]


@pytest.mark.spec("MS-MQRR 2.2.5.1/13")
def test_no_session_header_is_in_the_packet_without_its_flag():
    data = whole(packet_of(BODY))
    assert not summarize(data).base_flags & 0x10
    assert read_packet(data).message == packet_with_overlay(packet_of(BODY))


def packet_with_overlay(packet: bytes) -> bytes:
    return packet[:32] + bytes.fromhex("0400 0100") + packet[36:]


# -- messages that came over HTTP


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1/2", "MS-MQRR 2.2.5.1.2/1", "MS-MQRR 3.1.4.7/34", "MS-MQRR 3.1.1.4/1"
)
def test_an_srmp_message_is_whole_whatever_body_size_was_asked_for():
    packet = srmp_packet(BODY)
    found = sections(packet, read_of(), NOTHING, 0, len(compound_header(BODY)))
    ((kind, alloc, data),) = found
    assert (kind, alloc) == (FULL_PACKET, len(data))
    assert summarize(data).user_flags & OVER_HTTP
    srmp = read_packet(data).srmp
    assert srmp is not None
    assert srmp.envelope == ENVELOPE
    start = srmp.compound_at + 16
    assert data[start : start + len(HTTP)] == HTTP
    body_at = start + srmp.message_body_offset
    assert data[body_at : body_at + srmp.message_body_size] == BODY


@pytest.mark.spec("MS-MQRR 2.2.6/5", clause="SRMP")
@pytest.mark.spec(
    "MS-MQRR 2.2.7/5",
    "MS-MQRR 2.2.7/6",
    "MS-MQRR 3.1.4.7/35",
    "MS-MQRR 3.1.4.7/42",
    "MS-MQRR 3.1.4.7/43",
    "MS-MQRR 3.1.4.7/46",
    "MS-MQRR 3.1.1.4/2",
)
def test_an_srmp_message_is_cut_inside_its_compound_message():
    packet, compound = srmp_packet(BODY), compound_header(BODY)
    first, second = sections(packet, read_of(), NOTHING, ALL, 40)
    assert (first[0], second[0]) == (SRMP_FIRST, SRMP_SECOND) == (3, 4)
    assert first[2].endswith(compound[:40])
    at = packet.index(compound)
    assert len(first[2]) == at + 40
    assert first[1] == at + len(compound)
    padding = -(at + len(compound)) % 4
    assert second[2] == bytes(padding) + trailers(second[2])
    assert second[1] == len(second[2])


@pytest.mark.spec("MS-MQRR 3.1.4.7/36")
def test_a_binary_message_is_whole_whatever_compound_size_was_asked_for():
    (section,) = sections(packet_of(BODY), read_of(), NOTHING, ALL, 0)
    assert section[0] == FULL_PACKET


@pytest.mark.spec(
    "MS-MQRR 2.2.5.1.1/1",
    "MS-MQRR 2.2.5.1.1/2",
    "MS-MQRR 2.2.5.1/12",
    "MS-MQRR 2.2.5.1.2.1/1",
    "MS-MQRR 2.2.5.1.2.2/1",
    "MS-MQRR 2.2.5.1/2",
)
def test_a_binary_message_never_says_that_it_came_over_http():
    packet = bytearray(packet_of(BODY))
    struct.pack_into("<I", packet, USER_FLAGS_AT, u32(packet, USER_FLAGS_AT) | OVER_HTTP)
    data = whole(bytes(packet))
    assert not summarize(data).user_flags & OVER_HTTP
    assert deserialize(read_packet(data).message).body == BODY
    assert read_packet(data).srmp is None


# -- the headers behind the message


@pytest.mark.spec(
    "MS-MQRR 2.2.5/1",
    "MS-MQRR 2.2.5.2/1",
    "MS-MQRR 2.2.5.2/2",
    "MS-MQRR 2.2.5.2/3",
    "MS-MQRR 2.2.5.2/4",
    "MS-MQRR 2.2.5.2/7",
)
def test_three_headers_follow_every_message():
    packet = packet_of(BODY)
    data = whole(packet)
    at = len(packet)
    assert u32(data, at) == 12
    assert u32(data, at + 4) == 148 + 28
    assert data[at + 8] == 0x12
    assert u32(data, at + 12) == 148
    assert u32(data, at + 160) == 28
    assert len(data) == at + 12 + 148 + 28


def test_they_begin_at_a_multiple_of_four():
    packet = packet_of(b"odd")
    data = whole(packet.rstrip(b"\0") if len(packet) % 4 else packet)
    assert len(data) % 4 == 0
    assert u32(data, len(data) - TRAILERS_SIZE) == 12


@pytest.mark.spec(
    "MS-MQRR 2.2.5.3/1",
    "MS-MQRR 2.2.5.3/3",
    "MS-MQRR 2.2.5.3/4",
    "MS-MQRR 2.2.5.3/6",
    "MS-MQRR 2.2.5.3/7",
    "MS-MQRR 2.2.5.3/8",
    "MS-MQRR 2.2.5.3/10",
    "MS-MQRR 2.2.5.3/12",
)
def test_the_subqueue_header_has_the_counters_and_the_names():
    particulars = Particulars(subqueue="retry", target_subqueue="poison")
    data = whole(
        packet_of(), particulars, message_class=0xC004, aborts=3, moves=2, last_move=SENT + 9
    )
    header = trailers(data)[12:160]
    assert u32(header, 0) == 148
    assert u32(header, 4) == 0xC004 << 1
    assert [u32(header, at) for at in (8, 12, 16)] == [3, 2, SENT + 9]
    assert header[20:84] == "retry".encode("utf-16-le").ljust(64, b"\0")
    assert header[84:] == "poison".encode("utf-16-le").ljust(64, b"\0")


@pytest.mark.spec("MS-MQRR 2.2.5.3/9", "MS-MQRR 2.2.5.3/11", "MS-MQRR 2.2.5.3/13")
def test_a_message_that_never_moved_has_zeros_there():
    header = trailers(whole(packet_of()))[12:160]
    assert u32(header, 16) == 0
    assert header[20:] == bytes(128)


@pytest.mark.spec(
    "MS-MQRR 2.2.5.2/3",
    "MS-MQRR 2.2.5.2/5",
    "MS-MQRR 2.2.5.4/1",
    "MS-MQRR 2.2.5.4/2",
    "MS-MQRR 2.2.5.4/3",
    "MS-MQRR 2.2.5.2/2",
)
@pytest.mark.parametrize("invalid", [False, True])
def test_a_dead_letter_queue_of_the_application_is_named(invalid):
    path = "alpha\\private$\\dead"
    packet = packet_of()
    data = whole(packet, Particulars(dead_letter=path, dead_letter_invalid=invalid))
    at = len(packet)
    assert data[at + 8] == (0x1B if invalid else 0x13)
    at += 12 + 148
    size = u32(data, at)
    raw = path.encode("utf-16-le") + b"\0\0"
    assert size == (4 + len(raw) + 3) // 4 * 4
    assert data[at + 4 : at + size] == raw.ljust(size - 4, b"\0")
    assert u32(data, at + size) == 28
    assert u32(data, len(packet) + 4) == 148 + size + 28


@pytest.mark.spec(
    "MS-MQRR 2.2.5.5/1",
    "MS-MQRR 2.2.5.5/3",
    "MS-MQRR 2.2.5.5/4",
    "MS-MQRR 2.2.5.5/5",
    "MS-MQRR 2.2.5.5/6",
)
@pytest.mark.parametrize(
    ("address", "fields", "raw"),
    [
        ("192.0.2.7", (4, 1, 0), "c0000207"),
        ("2001:db8::1", (16, 6, 0), "20010db8000000000000000000000001"),
        ("fe80::2%7", (16, 6, 7), "fe800000000000000000000000000002"),
        ("", (0, 0, 0), ""),
        ("not an address", (0, 0, 0), ""),
    ],
)
def test_the_address_of_the_sender_is_the_last_header(address, fields, raw):
    header = whole(packet_of(), Particulars(source_address=address))[-28:]
    assert u32(header, 0) == 28
    assert (u16(header, 4), u16(header, 6), u32(header, 8)) == fields
    assert header[12:] == bytes.fromhex(raw).ljust(16, b"\0")


def test_what_is_written_is_what_a_reader_reads():
    particulars = Particulars("retry", "poison", "alpha\\private$\\dead", True, "fe80::2%7")
    data = whole(packet_of(BODY), particulars, message_class=2, aborts=1, moves=4, last_move=SENT)
    assert read_packet(data).trailers == Trailers(2, 1, 4, SENT, *particulars)
