"""OrderAck and FinalAck packets: built, recognised among other messages, read, damaged."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message_classes import (
    ACK_RECEIVE,
    MESSAGE_CLASSES,
    NACK_BAD_DEST_QUEUE,
    NACK_RECEIVE_REJECTED,
    NORMAL,
    ORDER_ACK,
)
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    OrderQueue,
    Origin,
    final_ack,
    order_ack,
    order_queue_at,
    order_queue_of,
    read_final_ack,
    read_order_ack,
)
from posthouse.wire.binary.stream import PacketKind, packet_kind
from posthouse.wire.packet.headers import INFINITE, BaseFlags
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize

from .strategies import U32
from .vectors import DESTINATION, SESSION, SOURCE, TRANSACTIONAL, edited, resized, with_base_flags

ORIGIN = Origin(SOURCE, 77, 1_600_000_000)
BY_GUID = order_queue_of(DESTINATION)
BY_ADDRESS = order_queue_at("10.1.2.3")
SEQUENCE = 0x5F5E0FF0_00000007
ORDER = order_ack(OrderAck.of(SEQUENCE, 9), BY_GUID, ORIGIN)
FINAL = FinalAck(SEQUENCE, 9, 6, DESTINATION, 0x8EE)
guids = st.binary(min_size=16, max_size=16)
each_destination = pytest.mark.parametrize("destination", [BY_GUID, BY_ADDRESS], ids=str)


def refused(message_class: int, destination: OrderQueue = BY_GUID) -> bytes:
    return final_ack(FINAL, message_class, destination, ORIGIN)


@pytest.mark.spec(
    "MS-MQQB 2.2.4/1",
    "MS-MQQB 2.2.4/2",
    "MS-MQQB 2.2.4/3",
    "MS-MQQB 2.2.4/6",
    "MS-MQQB 2.2.4.1/1",
    "MS-MQQB 2.2.4.1/4",
    "MS-MQQB 2.2.4.1/5",
    "MS-MQQB 3.1.7.17/1",
    "MS-MQQB 3.1.7.17/2",
)
def test_an_order_ack_byte_for_byte() -> None:
    expected = bytes.fromhex(
        "10000000 4c494f52 c0000000 ffffffff"  # BaseHeader
        "11111111 11111111 11111111 11111111 22222222 22222222 22222222 22222222"
        "ffffffff 00105e5f 4d000000 000c2000 04000000"  # UserHeader: MP, DQ 3, queue 4
        "00 10 ff00 0000000000000000000000000000000000000000"
        "00000000 00000000 24000000 24000000 00000000 04800000 01680000 00000000"
        "51004d00 20004f00 72006400 65007200 69006e00 67002000 41006300 6b000000"
        "07000000 f00f5e5f 09000000 08000000 0000000000000000000000000000000000000000"
    )
    assert order_ack(OrderAck.of(SEQUENCE, 9), BY_GUID, ORIGIN) == expected


@pytest.mark.spec(
    "MS-MQQB 2.2.5/2",
    "MS-MQQB 2.2.5/3",
    "MS-MQQB 2.2.5/4",
    "MS-MQQB 2.2.5/5",
    "MS-MQQB 2.2.5.1/1",
    "MS-MQQB 2.2.5.1/3",
    "MS-MQQB 2.2.5.1/4",
    "MS-MQQB 3.1.7.17/3",
)
def test_a_final_ack_differs_in_delivery_class_and_body() -> None:
    packet = refused(ACK_RECEIVE)
    expected = edited(ORDER, 60, "<I", 0x00200C20)
    expected = edited(expected, 70, "<H", 0x4000)
    body = "07000000 f00f5e5f 09000000 06000000 22222222 22222222 22222222 22222222 ee080000"
    assert packet == expected[:-36] + bytes.fromhex(body)
    assert read_final_ack(packet) == FINAL


@pytest.mark.spec("MS-MQQB 2.2.4/4", "MS-MQQB 2.2.5/3")
@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.1.2.3", r"TCP:10.1.2.3\PRIVATE$\order_queue$"),
        ("fe80::1a", r"TCP:FE80::1A\PRIVATE$\order_queue$"),
    ],
)
def test_a_direct_order_queue_is_written_as_the_grammar_has_it(address: str, text: str) -> None:
    for packet in (
        order_ack(OrderAck.of(SEQUENCE, 9), order_queue_at(address), ORIGIN),
        refused(ACK_RECEIVE, order_queue_at(address)),
    ):
        raw = text.encode("utf-16-le") + b"\0\0"
        assert packet[64:66] == len(raw).to_bytes(2, "little")
        assert packet[66 : 66 + len(raw)] == raw
        assert packet[32:48] == bytes(16)
        assert Packet(packet).user_flags.destination_type == 7
        assert summarize(packet).packet_size == len(packet)


@pytest.mark.spec("MS-MQQB 3.1.7.17/1", "MS-MQQB 2.2.4/2", "MS-MQQB 2.2.5/2")
@each_destination
def test_acknowledgments_ask_for_nothing(destination: OrderQueue) -> None:
    for packet, delivery in (
        (order_ack(OrderAck.of(SEQUENCE, 9), destination, ORIGIN), 0),
        (refused(NACK_BAD_DEST_QUEUE, destination), 1),
    ):
        read = Packet(packet)
        read.check()
        assert read.base.flags == 0
        assert read.base.time_to_reach_queue == INFINITE
        code = read.user_flags.destination_type
        assert read.user.flags == 1 << 21 | code << 10 | delivery << 5
        assert (read.label, read.body_type, read.summary.ack_flags) == ("QM Ordering Ack", 0, 0)
        assert len(read.body) == 0x24
        assert (read.administration_queue, read.response_queue) == (None, None)
        assert read.identifier == (SOURCE, 77)


@pytest.mark.spec("MS-MQQB 3.1.5.1.1/2", "MS-MQQB 2.2.4/6")
@each_destination
def test_an_order_ack_is_recognised(destination: OrderQueue) -> None:
    packet = order_ack(OrderAck.of(SEQUENCE, 9), destination, ORIGIN)
    assert packet_kind(packet) is PacketKind.ORDER_ACK
    assert read_order_ack(packet) == (SEQUENCE, 9, 8, bytes(20))


@pytest.mark.spec("MS-MQQB 3.1.5.1.1/3", "MS-MQQB 2.2.5/6")
@pytest.mark.parametrize("code", [code for code, *_ in MESSAGE_CLASSES] + [0x3FFF, 0x4001, 0xFFFF])
def test_every_class_from_0x4000_is_a_final_ack(code: int) -> None:
    packet = edited(refused(NACK_RECEIVE_REJECTED), 70, "<H", code)
    kind = PacketKind.FINAL_ACK if code >= 0x4000 else PacketKind.USER_MESSAGE
    assert packet_kind(packet) is (PacketKind.ORDER_ACK if code == ORDER_ACK else kind)


@pytest.mark.spec("MS-MQQB 2.2.4/2")
def test_an_order_ack_may_come_as_recoverable() -> None:
    assert packet_kind(edited(ORDER, 60, "<I", 0x00200C20)) is PacketKind.ORDER_ACK


@pytest.mark.spec("MS-MQQB 2.2.4.1/5", "MS-MQQB 2.2.4.1/1")
def test_garbage_in_the_reserved_bytes_is_ignored() -> None:
    odd = read_order_ack(ORDER[:-20] + b"x" * 20)
    assert odd[:3] == (SEQUENCE, 9, 8)


def test_letter_case_of_the_order_queue_does_not_matter() -> None:
    packet = order_ack(OrderAck.of(SEQUENCE, 9), BY_ADDRESS, ORIGIN)
    name = r"\PRIVATE$\order_queue$".encode("utf-16-le")
    shouted = packet.replace(name, r"\private$\ORDER_QUEUE$".encode("utf-16-le"))
    assert packet_kind(shouted) is PacketKind.ORDER_ACK


def test_a_session_header_does_not_hide_an_acknowledgment() -> None:
    packet = with_base_flags(ORDER, on=BaseFlags.of(session_header=1)) + SESSION
    assert packet_kind(packet) is PacketKind.ORDER_ACK
    assert read_order_ack(packet) == read_order_ack(ORDER)


@pytest.mark.spec("MS-MQQB 3.1.5.1.1/2", "MS-MQQB 3.1.5.1.1/3", "MS-MQQB 3.1.5.1.1/4")
@pytest.mark.parametrize("ack", [ORDER, refused(ACK_RECEIVE)], ids=["order", "final"])
def test_what_only_looks_like_an_acknowledgment_is_a_user_message(ack: bytes) -> None:
    direct = order_ack(OrderAck.of(SEQUENCE, 9), BY_ADDRESS, ORIGIN)
    name = "order_queue$".encode("utf-16-le")
    for packet in (
        with_base_flags(ack, on=3),
        edited(ack, 64, "<I", 5),
        edited(ack, 70, "<H", NORMAL),
        edited(ack, 124, "<H", ord("q")),
        direct.replace(name, "other_queue$".encode("utf-16-le")),
        direct.replace("PRIVATE$".encode("utf-16-le"), "SYSTEM$;".encode("utf-16-le")),
        TRANSACTIONAL,
    ):
        assert packet_kind(packet) is PacketKind.USER_MESSAGE


@pytest.mark.spec("MS-MQQB 3.1.5.1.1/2")
def test_an_order_ack_of_another_size_is_a_user_message() -> None:
    longer = edited(resized(ORDER + bytes(4)), 100, "<II", 0x28, 0x28)
    assert packet_kind(longer) is PacketKind.USER_MESSAGE


@pytest.mark.spec("MS-MQQB 2.2.5.1/1", "MS-MQQB 3.1.5.1.3/1")
def test_a_final_ack_of_another_size_is_refused() -> None:
    longer = edited(resized(refused(ACK_RECEIVE) + bytes(4)), 100, "<II", 0x28, 0x28)
    assert packet_kind(longer) is PacketKind.FINAL_ACK
    with pytest.raises(RemoteProtocolError, match="40 bytes"):
        read_final_ack(longer)
    with pytest.raises(RemoteProtocolError, match="40 bytes"):
        read_order_ack(longer)


@pytest.mark.spec("MS-MQQB 2.2.4.1/3", "MS-MQQB 2.2.4.1/4", "MS-MQQB 2.2.5.1/2")
def test_nothing_is_acknowledged_under_number_zero() -> None:
    for number in (0, 1 << 32):
        with pytest.raises(AssertionError):
            OrderAck.of(SEQUENCE, number)
        with pytest.raises(AssertionError):
            final_ack(FINAL._replace(sequence_number=number), ACK_RECEIVE, BY_GUID, ORIGIN)
    assert OrderAck.of(SEQUENCE, 0xFFFFFFFF).previous_sequence_number == 0xFFFFFFFE


@pytest.mark.spec("MS-MQQB 2.2.5.1/3", "MS-MQQB 2.2.5/6")
def test_a_final_ack_needs_a_class_and_a_previous_number_in_range() -> None:
    assert refused(ACK_RECEIVE)
    with pytest.raises(AssertionError):
        refused(0x3FFF)
    last = FINAL._replace(previous_sequence_number=0xFFFFFFFF)
    with pytest.raises(AssertionError):
        final_ack(last, ACK_RECEIVE, BY_GUID, ORIGIN)


def test_numbers_that_make_no_sense_are_left_to_the_sequence() -> None:
    packet = ORDER[:-36] + bytes(36)
    assert read_order_ack(packet) == (0, 0, 0, bytes(20))
    assert read_final_ack(refused(ACK_RECEIVE)[:-36] + b"\xff" * 36).message_id == 0xFFFFFFFF


@given(st.builds(FinalAck, st.integers(0, 2**64 - 1), U32, U32, guids, U32), guids)
def test_any_final_ack_goes_both_ways(body: FinalAck, manager: bytes) -> None:
    number = max(body.sequence_number, 1)
    previous = min(body.previous_sequence_number, 0xFFFFFFFE)
    body = body._replace(sequence_number=number, previous_sequence_number=previous)
    packet = final_ack(body, NACK_BAD_DEST_QUEUE, order_queue_of(manager), ORIGIN)
    assert packet_kind(packet) is PacketKind.FINAL_ACK
    assert read_final_ack(packet) == body
    assert Packet(packet).destination_queue == order_queue_of(manager)


@given(st.lists(st.tuples(st.integers(0, 191), st.integers(0, 255)), max_size=4), st.booleans())
def test_damage_gives_a_kind_and_a_body_or_the_protocol_error(
    damage: list[tuple[int, int]], direct: bool
) -> None:
    destination = BY_ADDRESS if direct else BY_GUID
    data = bytearray(order_ack(OrderAck.of(SEQUENCE, 9), destination, ORIGIN))
    for at, value in damage:
        data[at] = value
    with suppress(RemoteProtocolError):
        if packet_kind(bytes(data)) is PacketKind.ORDER_ACK:
            assert read_order_ack(bytes(data))
