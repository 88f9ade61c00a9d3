"""Stream receipts as packets ([MC-MQSRM] 2.2.5.6)."""

from __future__ import annotations

import pytest

from posthouse.model.message import Message, MessageId
from posthouse.model.message_classes import ACK_RECEIVE, NACK_PURGED, ORDER_ACK
from posthouse.wire.binary.order_acks import FinalAck, OrderAck, Origin, order_ack, order_queue_of
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.receipts import (
    StreamReceipt,
    final_stream_receipt,
    read_stream_receipt,
    stream_receipt,
)

GUID, OURS = b"g" * 16, b"o" * 16
NAME = "uid:67676767-6767-6767-6767-676767676767\\42"
TO = "DIRECT=HTTP://far/msmq/private$/order_queue$"
ORIGIN = Origin(OURS, 7, 1_700_000_000)


def test_a_stream_receipt_says_how_far_a_stream_has_come() -> None:
    packet = stream_receipt(NAME, GUID, 42, 3, TO, ORIGIN)
    view = Packet(packet)
    assert (view.message_class, view.label) == (ORDER_ACK, "QM Ordering Ack")
    assert view.identifier == MessageId(OURS, 7)
    assert not view.user_flags.delivery
    assert read_stream_receipt(packet) == StreamReceipt(NAME, 3, False, MessageId(GUID, 0))


@pytest.mark.parametrize("code", [ACK_RECEIVE, NACK_PURGED])
def test_a_final_one_says_what_became_of_a_message(code: int) -> None:
    body = FinalAck(42, 3, 2, GUID, 99)
    packet = final_stream_receipt(body, code, "a label", NAME, TO, ORIGIN)
    view = Packet(packet)
    assert (view.message_class, view.label) == (code, "a label")
    assert view.user_flags.delivery
    found = read_stream_receipt(packet, summarize(packet))
    assert found == StreamReceipt(NAME, 3, True, MessageId(GUID, 99))


def test_other_messages_are_no_stream_receipts() -> None:
    order = order_ack(OrderAck.of(42, 3), order_queue_of(GUID), ORIGIN)
    plain = {"destination_queue_format_name": TO, "body": bytes(36)}
    named = {"extension": NAME.encode()}
    assert read_stream_receipt(order) is None
    for message in (
        Message(**plain),
        Message(**plain, **named),
        Message(**plain, message_class=ORDER_ACK),
        Message(**plain, message_class=ORDER_ACK, extension=b"another extension"),
        Message(**plain | {"body": b"short"}, **named, message_class=ORDER_ACK),
        Message(
            **plain | {"destination_queue_format_name": r"DIRECT=OS:far\q"},
            **named,
            message_class=ORDER_ACK,
        ),
    ):
        assert read_stream_receipt(serialize(message)) is None
