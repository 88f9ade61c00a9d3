"""[MC-MQSRM] 3.1.5.1.4 and 3.1.5.1.5: when a message expires, and what kind of message it is."""

from __future__ import annotations

import pytest

from posthouse.model.message import NULL_MESSAGE_ID
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    MESSAGE_CLASSES,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
    NORMAL,
    ORDER_ACK,
)
from posthouse.wire.packet.headers import INFINITE
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import (
    FOREVER,
    CommitmentReceipt,
    DeliveryReceipt,
    SrmpKind,
    SrmpMessage,
    StreamReceipt,
    decision_of,
    kind_of,
)
from tests.wire.srmp import GUID, NOW_S, SENT_S, STREAM_ID, example

NEGATIVE = (
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
)
DELIVERY = DeliveryReceipt(SENT_S, NULL_MESSAGE_ID)
POSITIVE = CommitmentReceipt(SENT_S, "positive", NULL_MESSAGE_ID)
NO = CommitmentReceipt(SENT_S, "negative", NULL_MESSAGE_ID)
STREAM = StreamReceipt(STREAM_ID, GUID, 5, 3)
ORDERING = "MSMQ:QM Ordering Ack"


def kind(message_class: int = NORMAL, action: str = "MSMQ:", **receipts: object) -> SrmpKind:
    return kind_of(SrmpMessage(action=action, message_class=message_class, **receipts))  # type: ignore[arg-type]


@pytest.mark.spec("MC-MQSRM 2.2.5.1.1/3")
@pytest.mark.parametrize("at", [FOREVER, FOREVER + 1, 2**40])
def test_2038_is_no_expiry(at: int) -> None:
    assert SrmpMessage(expires_at=at, sent_at=SENT_S).expires() == INFINITE
    assert SrmpMessage(expires_at=at, sent_at=SENT_S).time_to_reach_queue(NOW_S) == INFINITE
    assert SrmpMessage(expires_at=SENT_S, reach_by=at).expires() == INFINITE


@pytest.mark.spec("MC-MQSRM 2.2.6.17/2", "MC-MQSRM 3.1.5.1.1/45")
def test_the_time_of_msmq_beats_the_other() -> None:
    message = SrmpMessage(expires_at=SENT_S + 10, reach_by=SENT_S + 99, sent_at=SENT_S)
    assert message.expires() == SENT_S + 99
    assert message.time_to_reach_queue(NOW_S) == 99


@pytest.mark.spec("MC-MQSRM 3.1.5.1.1/13")
def test_without_msmq_the_expiry_counts() -> None:
    message = SrmpMessage(expires_at=SENT_S + 10, sent_at=SENT_S)
    assert message.expires() == SENT_S + 10
    assert message.time_to_reach_queue(NOW_S) == 10


def test_without_a_time_of_sending_the_arrival_stands_in() -> None:
    assert SrmpMessage(expires_at=NOW_S + 7).time_to_reach_queue(NOW_S) == 7


def test_what_expired_before_it_was_sent_has_no_time_left() -> None:
    assert SrmpMessage(expires_at=-5, sent_at=SENT_S).time_to_reach_queue(NOW_S) == 0


@pytest.mark.spec("MC-MQSRM 2.2.6.1/2")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/2", "MC-MQSRM 3.1.5.1.5/12")
def test_a_plain_message_of_class_normal_is_a_user_message() -> None:
    assert kind() is SrmpKind.USER
    for entry in MESSAGE_CLASSES[1:]:
        assert kind(entry.code) is SrmpKind.IGNORED
    assert kind(77) is kind(2**64 - 1) is SrmpKind.IGNORED


@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/3")
def test_a_delivery_receipt_is_alone_and_of_its_class() -> None:
    assert kind(ACK_REACH_QUEUE, delivery_receipt=DELIVERY) is SrmpKind.DELIVERY_RECEIPT
    assert kind(NORMAL, delivery_receipt=DELIVERY) is SrmpKind.IGNORED
    for other in ({"commitment_receipt": POSITIVE}, {"stream_receipt": STREAM}):
        both = kind(ACK_REACH_QUEUE, delivery_receipt=DELIVERY, **other)
        assert both is SrmpKind.IGNORED


@pytest.mark.spec("MC-MQSRM 2.2.4.1/6")
@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/4")
def test_a_stream_receipt_has_its_action_and_class() -> None:
    assert kind(ORDER_ACK, ORDERING, stream_receipt=STREAM) is SrmpKind.STREAM_RECEIPT
    assert kind(ORDER_ACK, "MSMQ:", stream_receipt=STREAM) is SrmpKind.IGNORED
    assert kind(ACK_RECEIVE, ORDERING, stream_receipt=STREAM) is SrmpKind.IGNORED


@pytest.mark.parametrize("action", [ORDERING, "MSMQ:the label of the original"])
@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/5", "MC-MQSRM 3.1.5.1.5/6", "MC-MQSRM 3.1.5.1.5/7")
def test_a_final_stream_receipt_may_have_any_action(action: str) -> None:
    final = {"stream_receipt": STREAM, "commitment_receipt": POSITIVE}
    assert kind(ACK_RECEIVE, action, **final) is SrmpKind.FINAL_STREAM_RECEIPT
    final["commitment_receipt"] = NO
    for code in NEGATIVE:
        assert kind(code, action, **final) is SrmpKind.FINAL_STREAM_RECEIPT


def test_class_and_decision_of_a_receipt_agree() -> None:
    for more in ({}, {"stream_receipt": STREAM}):
        assert kind(ACK_RECEIVE, commitment_receipt=NO, **more) is SrmpKind.IGNORED
        assert kind(NORMAL, commitment_receipt=POSITIVE, **more) is SrmpKind.IGNORED
        for code in NEGATIVE:
            assert kind(code, commitment_receipt=POSITIVE, **more) is SrmpKind.IGNORED


@pytest.mark.spec("MC-MQSRM 3.1.5.1.5/9", "MC-MQSRM 3.1.5.1.5/10")
def test_commitment_receipts_tell_of_six_ends() -> None:
    assert kind(ACK_RECEIVE, commitment_receipt=POSITIVE) is SrmpKind.COMMITMENT_RECEIPT
    for entry in MESSAGE_CLASSES:
        if entry.code != ACK_RECEIVE:
            told = kind(entry.code, commitment_receipt=NO) is SrmpKind.COMMITMENT_RECEIPT
            assert told is (entry.code in NEGATIVE)
            assert decision_of(entry.code) == ("negative" if told else "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1.3.12-example", SrmpKind.USER),
        ("4.1-simple", SrmpKind.USER),
        ("4.2-msmq-element", SrmpKind.USER),
        ("4.3-request", SrmpKind.USER),
        ("4.3-delivery-receipt", SrmpKind.DELIVERY_RECEIPT),
        ("4.3-commitment-receipt", SrmpKind.COMMITMENT_RECEIPT),
        ("4.4-message-1", SrmpKind.USER),
        ("4.4-receipt-1", SrmpKind.STREAM_RECEIPT),
        ("4.5-multicast", SrmpKind.USER),
    ],
)
def test_the_examples_are_what_they_are_called(name: str, expected: SrmpKind) -> None:
    assert kind_of(read_envelope(example(name).parts.envelope)) is expected
