"""The one pass over every incoming packet: what it finds, and what it refuses."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket, RemoteProtocolError, Truncated
from posthouse.model.message import Message
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import PacketSummary, summarize
from posthouse.wire.packet.packet_fields import body_is_longer, summarize_all

from .strategies import messages
from .vectors import (
    DESTINATION,
    MINIMAL,
    QUEUE_NAMES,
    SEALED,
    SESSION,
    SOURCE,
    TRACED,
    TRANSACTIONAL,
    USER_MESSAGE,
    USER_MESSAGES,
    edited,
    resized,
    vector,
    with_base_flags,
    with_user_flags,
)

each_message = pytest.mark.parametrize("packet", USER_MESSAGES.values(), ids=USER_MESSAGES)


def test_sample_message_is_seen_whole() -> None:
    assert summarize(USER_MESSAGE) == PacketSummary(
        packet_size=2224,
        priority=3,
        base_flags=0x0003,
        time_to_reach_queue=345600,
        source_guid=bytes.fromhex("d1587355509195954997b6e611ea26c6"),
        address_guid=bytes(16),
        time_to_be_received=0xFFFFFFFF,
        sent_time=0x524F494C,
        ordinal=0x8EE,
        user_flags=0x281C00,
        transaction_flags=0,
        transaction_at=0,
        properties_at=136,
        ack_flags=0x0F,
        message_class=0,
        label_at=192,
        label_size=30,
        extension_at=222,
        extension_size=0,
        body_at=222,
        body_size=2000,
        security_at=92,
    )


@pytest.mark.spec("MS-MQMQ 2.2.19.2/10", "MS-MQMQ 2.2.19.3/1")
def test_label_extension_and_body_follow_each_other_without_gap() -> None:
    seen = summarize(QUEUE_NAMES)
    assert (seen.properties_at, seen.label_at, seen.label_size) == (144, 200, 4)
    assert (seen.extension_at, seen.extension_size) == (204, 5)
    assert (seen.body_at, seen.body_size) == (209, 4)
    assert QUEUE_NAMES[209:213] == b"\xb1\xb2\xb3\xb4"


@pytest.mark.spec("MS-MQMQ 2.2.20.5/1")
def test_transaction_header_is_found_and_stepped_over() -> None:
    seen = summarize(TRANSACTIONAL)
    assert (seen.transaction_at, seen.transaction_flags) == (72, 0x54321B)
    assert (seen.properties_at, seen.body_at, seen.body_size) == (108, 164, 4)
    assert (seen.source_guid, seen.address_guid) == (SOURCE, DESTINATION)


@pytest.mark.spec("MS-MQMQ 2.2.20.6/1")
def test_security_items_are_stepped_over_by_their_padded_sizes() -> None:
    seen = summarize(SEALED)
    assert (seen.security_at, seen.properties_at, seen.body_at) == (68, 132, 188)


@each_message
def test_views_are_seen_as_bytes_are(packet: bytes) -> None:
    assert summarize(memoryview(packet)) == summarize(packet)


@pytest.mark.spec("MS-MQMQ 2.2.19.1/5", "MS-MQDMPR 3.1.7.1.32/1")
def test_priority_of_a_transactional_message_is_ignored() -> None:
    assert summarize(with_base_flags(TRANSACTIONAL, on=7)).priority == 0
    assert summarize(with_base_flags(MINIMAL, on=7)).priority == 7


@pytest.mark.spec("MS-MQMQ 2.2.19.1/1", "MS-MQMQ 2.2.19.1/6")
def test_reserved_bits_and_bytes_are_ignored() -> None:
    packet = edited(MINIMAL, 1, "<B", 0xCD)
    packet = with_base_flags(packet, on=0xFEC0)
    packet = with_user_flags(packet, on=0xED000080)
    seen = summarize(packet)
    assert (seen.body_at, seen.priority) == (124, 3)


@pytest.mark.spec("MS-MQMQ 2.2.19.3/3")
def test_unused_acknowledgment_bits_are_ignored() -> None:
    assert summarize(edited(MINIMAL, 68, "<B", 0xF5)).ack_flags == 0x05


@pytest.mark.spec("MS-MQMQ 2.2.19.1/1")
@pytest.mark.parametrize(("at", "value"), [(0, 0x11), (0, 0), (4, 0x52), (7, 0x4C)])
def test_wrong_version_or_signature_is_refused(at: int, value: int) -> None:
    with pytest.raises(MalformedPacket):
        summarize(edited(MINIMAL, at, "<B", value))


def test_internal_packets_are_refused() -> None:
    with pytest.raises(MalformedPacket):
        summarize(with_base_flags(MINIMAL, on=0x0008))
    with pytest.raises(MalformedPacket):
        summarize(vector("ms-mqqb/4.1.3-establish-connection-request"))


@pytest.mark.spec("MS-MQMQ 2.2.19.1/2")
def test_packet_size_has_a_limit() -> None:
    body = bytes(0x400000 - len(MINIMAL))
    largest = resized(edited(MINIMAL, 100, "<II", len(body), len(body)) + body)
    assert summarize(largest).packet_size == 0x400000
    with pytest.raises(MalformedPacket):
        summarize(resized(largest + bytes(4)))


@pytest.mark.parametrize("size", [0, 16, 123, 125, 140, 0xFFFFFFFF])
def test_packet_size_must_be_the_size_of_the_packet(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        summarize(edited(MINIMAL, 8, "<I", size))


@pytest.mark.spec("MS-MQMQ 2.2.19.1/3")
def test_sixteen_bytes_behind_the_packet_are_its_session_header() -> None:
    announced = with_base_flags(MINIMAL, on=0x0010)
    assert summarize(announced + SESSION).packet_size == 124
    assert summarize(announced).packet_size == 124
    for wrong in (announced + SESSION[:8], announced + SESSION + b"x", MINIMAL + SESSION):
        with pytest.raises(Truncated):
            summarize(wrong)


@pytest.mark.spec("MS-MQMQ 2.2.19.2/7", "MS-MQDMPR 3.1.7.1.31/14")
@pytest.mark.parametrize("code", [1, 2, 4, 6])
def test_other_destination_types_are_refused(code: int) -> None:
    with pytest.raises(MalformedPacket):
        summarize(with_user_flags(MINIMAL, off=0x1C00, on=code << 10))


@pytest.mark.spec("MS-MQMQ 2.2.19.2/7", "MS-MQDMPR 3.1.7.1.31/15")
@pytest.mark.parametrize("code", [1, 4])
def test_other_administration_types_are_refused(code: int) -> None:
    with pytest.raises(MalformedPacket):
        summarize(with_user_flags(MINIMAL, on=code << 13))


DIRECT_NAME = bytes.fromhex("0800 4f0053003a000000 0000")


@pytest.mark.spec("MS-MQMQ 2.2.19.2/7")
@pytest.mark.parametrize(("code", "size"), [(0, 0), (3, 4), (5, 16), (7, 12)])
def test_every_destination_type_has_its_size(code: int, size: int) -> None:
    name = DIRECT_NAME.ljust(size, b"\0")[:size]
    packet = with_user_flags(MINIMAL[:64] + name + MINIMAL[68:], off=0x1C00, on=code << 10)
    assert summarize(resized(packet)).properties_at == 64 + size


@pytest.mark.spec("MS-MQMQ 2.2.19.2/7")
@pytest.mark.parametrize(("code", "size"), [(2, 4), (3, 4), (5, 16), (6, 20), (7, 12)])
def test_every_administration_type_has_its_size(code: int, size: int) -> None:
    name = DIRECT_NAME.ljust(size, b"\0")[:size]
    packet = with_user_flags(MINIMAL[:68] + name + MINIMAL[68:], on=code << 13)
    assert summarize(resized(packet)).properties_at == 68 + size


@pytest.mark.spec("MS-MQMQ 2.2.19.2/8", "MS-MQMQ 2.2.19.2/10")
@pytest.mark.parametrize(
    ("code", "size"), [(0, 0), (1, 0), (2, 4), (3, 4), (4, 4), (5, 16), (6, 20), (7, 12)]
)
def test_every_response_type_has_its_size(code: int, size: int) -> None:
    name = DIRECT_NAME.ljust(size, b"\0")[:size]
    packet = with_user_flags(MINIMAL[:68] + name + MINIMAL[68:], on=code << 16)
    assert summarize(resized(packet)).properties_at == 68 + size


@pytest.mark.spec("MS-MQMQ 2.2.19.2/5")
def test_delivery_is_checked() -> None:
    for bits in (0x40, 0x60):
        with pytest.raises(MalformedPacket):
            summarize(with_user_flags(MINIMAL, on=bits))
    with pytest.raises(MalformedPacket):
        summarize(with_user_flags(TRANSACTIONAL, off=0x60))


@pytest.mark.spec("MS-MQMQ 2.2.19.3/2")
def test_label_has_a_limit() -> None:
    label = "x" * 249 + "\0"
    packet = edited(MINIMAL, 69, "<B", 250) + label.encode("utf-16-le")
    assert summarize(resized(packet)).label_size == 500
    with pytest.raises(MalformedPacket):
        summarize(edited(resized(packet), len(packet) - 2, "<H", 0x78))
    with pytest.raises(MalformedPacket):
        summarize(resized(edited(packet, 69, "<B", 251) + bytes(2)))


def test_certificate_has_a_limit() -> None:
    with pytest.raises(MalformedPacket):
        summarize(edited(SEALED, 76, "<I", 0x10000))


@pytest.mark.parametrize("at", [100, 120])
@pytest.mark.parametrize("size", [1, 0x80000000, 0xFFFFFFFF])
def test_sizes_beyond_the_packet_are_refused(at: int, size: int) -> None:
    with pytest.raises(Truncated):
        summarize(edited(MINIMAL, at, "<I", size))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.31/1")
def test_message_without_properties_is_empty() -> None:
    seen = summarize(resized(with_user_flags(MINIMAL, off=0x200000)[:68]))
    assert (seen.properties_at, seen.message_class, seen.ack_flags) == (0, 0, 0)
    assert (seen.label_at, seen.extension_at, seen.body_at) == (68, 68, 68)
    assert (seen.label_size, seen.extension_size, seen.body_size) == (0, 0, 0)


@pytest.mark.spec("MS-MQMQ 2.2.19.3/5")
def test_allocation_size_decides_if_headers_end_at_the_packet_by_it() -> None:
    # A body of 16 bytes of which MessageSize counts 9, as the clear text may have had.
    by_allocation = edited(SEALED, 164, "<II", 9, 16)
    assert summarize(by_allocation).body_size == 16
    assert summarize(memoryview(by_allocation)).body_size == 16


@pytest.mark.spec("MS-MQMQ 2.2.19.3/5")
def test_message_size_decides_if_headers_end_at_the_packet_by_it() -> None:
    assert summarize(edited(TRACED, 104, "<I", 24)).body_size == 1
    assert summarize(edited(SEALED, 168, "<I", 4096)).body_size == 16


def test_message_size_decides_if_nothing_fits() -> None:
    padded = resized(SEALED + bytes(8))
    assert summarize(edited(padded, 164, "<II", 4, 8)).body_size == 4
    assert summarize(edited(padded, 164, "<II", 16, 0xFFFFFFFF)).body_size == 16


@each_message
def test_every_cut_is_refused(packet: bytes) -> None:
    for size in range(len(packet)):
        with pytest.raises(Truncated):
            summarize(packet[:size])


@each_message
def test_every_cut_in_front_of_the_body_is_refused_with_any_packet_size(packet: bytes) -> None:
    seen = summarize(packet)
    for size in range(12, seen.body_at + seen.body_size):
        with pytest.raises(RemoteProtocolError):
            summarize(resized(packet[:size]))


@given(st.binary(max_size=200))
def test_any_bytes_are_seen_or_refused(data: bytes) -> None:
    with suppress(RemoteProtocolError):
        summarize(data)


@given(st.binary(min_size=40, max_size=300), st.integers(0, 0xFFFFFFFF))
def test_any_bytes_behind_a_good_start_are_seen_or_refused(data: bytes, flags: int) -> None:
    packet = edited(MINIMAL[:64], 60, "<I", flags & ~0x40 | 0x20) + data
    try:
        seen = summarize(resized(packet))
    except RemoteProtocolError:
        return
    ends = (
        seen.label_at + seen.label_size,
        seen.extension_at + seen.extension_size,
        seen.body_at + seen.body_size,
    )
    assert max(ends) <= len(packet)
    assert max(seen.transaction_at, seen.security_at, seen.properties_at) <= seen.label_at


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_many_packets_are_seen_as_each_of_them_is(some: list[Message], data: st.DataObject) -> None:
    packets: list[bytes] = []
    for message in some:
        packet = bytearray(serialize(message))
        packets.append(bytes(packet))
        for _ in range(data.draw(st.integers(0, 4))):  # alike, or with a byte that is another
            if data.draw(st.booleans()):
                packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
            packets.append(bytes(packet))
    try:
        looks = [summarize(packet) for packet in packets]
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            summarize_all(packets)
    else:
        assert summarize_all(packets) == looks


def test_a_body_that_is_longer_than_it_says_is_looked_at_by_itself() -> None:
    longer = edited(SEALED, 164, "<II", 9, 16)
    seen = summarize(longer)
    assert body_is_longer(longer, seen)
    assert not body_is_longer(SEALED, summarize(SEALED))
    assert not body_is_longer(edited(SEALED, 164, "<II", 16, 9), summarize(SEALED))
    assert [look is seen for look in summarize_all([longer, longer])] == [False, False]
    alike = summarize_all([SEALED, SEALED])
    assert alike[0] is alike[1]


def test_a_label_of_full_length_is_looked_at_by_itself() -> None:
    full = serialize(Message(label="x" * 249, body=b"body"))
    cut = bytearray(full)
    cut[summarize(full).extension_at - 2] = 1
    assert len(summarize_all([full, full])) == 2
    with pytest.raises(RemoteProtocolError, match="label"):
        summarize_all([full, bytes(cut)])


def test_packets_whose_labels_and_bodies_differ_look_the_same() -> None:
    one, other = (serialize(Message(label=x * 5, body=x.encode() * 9)) for x in "ab")
    looks = summarize_all([one, other])
    assert looks[0] is looks[1]
    assert looks[1] == summarize(other)
