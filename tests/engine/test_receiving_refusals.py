"""What is refused on arrival, and who is told ([MS-MQQB] 3.1.5.8.2-3, .8, .10, 3.1.7.15)."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    ACK_NEG_ARRIVAL,
    ACK_POS_ARRIVAL,
    DeliveryGuarantee,
    MessageId,
)
from posthouse.model.message_classes import (
    ACK_REACH_QUEUE,
    NACK_ACCESS_DENIED,
    NACK_BAD_DEST_QUEUE,
    NACK_NOT_TRANSACTIONAL_MESSAGE,
    NACK_NOT_TRANSACTIONAL_QUEUE,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
    class_name,
)
from posthouse.model.names import PrivateName
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.wire.packet.message import deserialize
from tests.engine.arrivals import ORDERS, PEER, PeerRig
from tests.engine.letters import ANONYMOUS, DEAD_LETTERS, FAR_GUID
from tests.support.answer_rig import ANSWERS, AnswerRig

NOWHERE = ORDERS + "x"


def full(rig: PeerRig) -> None:
    """Leaves `orders` without room for another message."""
    rig.take(rig.packet(bytes(900)))
    rig.set("orders", quota_kib=1)


def closed(rig: PeerRig) -> None:
    rig.deny("orders", EVERYONE, WRITE_MESSAGE)


def late(rig: PeerRig) -> dict[str, Any]:
    return {"sent_time": rig.clock.utc_seconds - 9, "time_to_reach_queue": 8}


CASES = [
    pytest.param(
        NACK_BAD_DEST_QUEUE, None, {"destination_queue_format_name": NOWHERE}, id="no queue"
    ),
    pytest.param(
        NACK_BAD_DEST_QUEUE,
        None,
        {"destination_queue_format_name": r"DIRECT=OS:ELSEWHERE\private$\orders"},
        id="another host",
    ),
    pytest.param(
        NACK_BAD_DEST_QUEUE,
        None,
        {"destination_queue_format_name": r"DIRECT=OS:ALPHA:99\private$\orders"},
        id="another port",
    ),
    pytest.param(
        NACK_BAD_DEST_QUEUE,
        None,
        {"destination_queue_format_name": r"DIRECT=OS:ALPHA\private$\order_queue$"},
        id="order queue",
    ),
    pytest.param(NACK_REACH_QUEUE_TIMEOUT, None, late, id="late"),
    pytest.param(NACK_ACCESS_DENIED, closed, {}, id="no right"),
    pytest.param(NACK_QUEUE_EXCEED_QUOTA, full, {"body": bytes(200)}, id="quota"),
]


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.2/8",
    "MS-MQQB 3.1.5.8/3",
    "MS-MQQB 3.1.5.8.3/28",
    "MS-MQQB 3.1.5.8.8/2",
    "MS-MQQB 3.1.5.8.8/6",
    "MS-MQQB 3.1.7.15/3",
    "MS-MQQB 3.1.5.8.5/2",
)
@pytest.mark.parametrize(("code", "prepare", "attributes"), CASES)
@pytest.mark.parametrize("express", [True, False])
def test_a_refused_message_is_dropped_and_its_sender_told(
    code: int, prepare: Any, attributes: Any, express: bool
) -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    if prepare:
        prepare(rig)
    before = rig.bodies("orders")
    wanted = attributes(rig) if callable(attributes) else attributes
    packet = rig.asking(express=express, **wanted)
    assert rig.take(packet) == Verdict(1)
    assert rig.bodies("orders") == before
    assert rig.answer_classes() == [code]
    assert rig.manager.machine.refusals[class_name(code)] == 1
    assert rig.take(packet) == Verdict(1)  # a duplicate by now
    assert rig.answer_classes() == [code]
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.7.15/2", "MS-MQQB 3.1.1.3/12")
@pytest.mark.parametrize(("code", "prepare", "attributes"), CASES)
def test_strangers_are_not_told_why(code: int, prepare: Any, attributes: Any) -> None:
    rig = AnswerRig()
    if prepare:
        prepare(rig)
    wanted = attributes(rig) if callable(attributes) else attributes
    assert rig.take(rig.asking(**wanted)) == Verdict(1)
    assert rig.answer_classes() == []
    assert rig.manager.machine.refusals[class_name(code)] == 1


def test_a_refusal_is_told_only_if_asked_for() -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    for wish in (0, ACK_POS_ARRIVAL, ACK_FULL_RECEIVE & ~ACK_NEG_ARRIVAL):
        rig.take(rig.asking(acknowledgements_requested=wish, destination_queue_format_name=NOWHERE))
    assert rig.answers() == []


@pytest.mark.spec(
    "MS-MQQB 3.1.7.15/6",
    "MS-MQQB 3.1.7.15/7",
    "MS-MQQB 3.1.7.15/8",
    "MS-MQQB 3.1.7.15/9",
    "MS-MQQB 3.1.7.15/10",
)
@pytest.mark.parametrize("express", [True, False])
def test_a_negative_acknowledgment_tells_of_which_message(express: bool) -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    rig.take(
        rig.asking(b"content", ordinal=9, express=express, destination_queue_format_name=NOWHERE)
    )
    (answer,) = rig.answers()
    assert answer.correlation_identifier == MessageId(FAR_GUID, 9)
    assert answer.response_queue_format_name == NOWHERE
    assert (answer.delivery_guarantee == DeliveryGuarantee.EXPRESS) is express
    assert answer.body == b"content"
    assert answer.time_to_reach_queue == answer.time_to_be_received == 0xFFFFFFFF
    assert not answer.acknowledgements_requested
    assert not answer.positive_journaling_requested
    assert not answer.negative_journaling_requested


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.10/1", "MS-MQQB 3.1.5.8.10/2", "MS-MQQB 3.1.7.15/10", "MS-MQQB 3.1.7.15/5"
)
@pytest.mark.parametrize("express", [True, False])
def test_an_inserted_message_is_acknowledged_positively(express: bool) -> None:
    rig = AnswerRig()
    rig.take(rig.asking(express=express), rig.packet(b"asks for nothing", express=express))
    (answer,) = rig.answers()
    assert answer.message_class == ACK_REACH_QUEUE
    assert answer.body == b""
    assert rig.bodies("orders") == [b"asks", b"asks for nothing"]


@pytest.mark.spec("MS-MQQB 3.1.7.15/1")
def test_without_an_administration_queue_nobody_is_told() -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    rig.take(rig.asking(administration_queue_format_name=""))
    rig.take(rig.asking(administration_queue_format_name="", destination_queue_format_name=NOWHERE))
    assert not rig.manager.queues.outgoing_queues()
    assert rig.bodies("orders") == [b"asks"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.1/4")
def test_a_duplicate_is_not_acknowledged_again() -> None:
    rig = AnswerRig()
    packet = rig.asking()
    rig.take(packet)
    rig.take(packet, packet)
    assert rig.answer_classes() == [ACK_REACH_QUEUE]


@pytest.mark.spec("MS-MQQB 3.1.7.15/11")
def test_an_administration_queue_that_is_not_there_costs_nothing() -> None:
    rig = AnswerRig()
    rig.take(rig.asking(administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\none"))
    assert rig.bodies("orders") == [b"asks"]
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 1


@pytest.mark.spec("MS-MQQB 3.1.7.15/4")
def test_the_administration_queue_may_be_a_private_queue_of_the_source() -> None:
    rig = AnswerRig()
    name = str(PrivateName(FAR_GUID, 0x12))
    rig.take(rig.asking(administration_queue_format_name=name))
    assert len(rig.sent(name)) == 1


@pytest.mark.spec("MS-MQQB 3.1.7.15/4")
def test_the_administration_queue_may_be_a_private_queue_of_the_destination() -> None:
    rig = AnswerRig()
    answers = rig.create("answers")
    name = str(PrivateName(rig.guid, answers.number))
    rig.take(
        rig.asking(
            destination_queue_format_name=str(PrivateName(rig.guid, rig.queue("orders").number)),
            administration_queue_format_name=name,
        )
    )
    assert rig.classes("answers") == [ACK_REACH_QUEUE]


@pytest.mark.spec("MS-MQQB 3.1.7.15/12", "MS-MQQB 3.1.7.15/13")
@pytest.mark.parametrize(
    ("name", "peer", "answered"),
    [
        (r"DIRECT=TCP:192.0.2.8\private$\answers", PEER, False),
        (r"DIRECT=TCP:127.0.0.1:22\private$\answers", PEER, False),
        (r"DIRECT=TCP:127.0.0.1:2801\private$\answers", Peer(FAR_GUID, "127.0.0.1"), True),
        (ANSWERS, PEER, True),
    ],
)
def test_a_name_from_the_wire_leads_only_where_it_may(
    name: str, peer: Peer, answered: bool
) -> None:
    rig = AnswerRig()
    assert rig.take(rig.asking(administration_queue_format_name=name), peer=peer) == Verdict(1)
    assert rig.bodies("orders") == [b"asks"]
    assert bool(rig.manager.queues.outgoing_queues()) is answered
    assert rig.manager.machine.refusals["target_not_allowed"] == (not answered)
    rig.receive("orders")
    assert bool(rig.manager.queues.outgoing_queues()) is answered


@pytest.mark.spec("MS-MQQB 3.1.7.15/12")
def test_a_computer_name_that_nobody_knows_is_answered_on_a_session_with_the_sender() -> None:
    """Decision 40: what Windows names as DIRECT=OS is its own, and no name leads us elsewhere."""
    rig = AnswerRig()
    name = r"DIRECT=OS:WINHOST\private$\answers"
    rig.take(rig.asking(administration_queue_format_name=name))
    (outgoing,) = rig.manager.queues.outgoing_queues()
    assert outgoing.definition.format_name == str(PrivateName(FAR_GUID, 4))
    (answer,) = rig.sent(str(PrivateName(FAR_GUID, 4)))
    message = deserialize(answer)
    assert message.destination_queue_format_name == name
    assert message.message_class == ACK_REACH_QUEUE


@pytest.mark.spec("MS-MQQB 3.1.7.15/12")
def test_a_computer_name_in_a_forwarded_message_is_not_answered() -> None:
    rig = AnswerRig()
    name = r"DIRECT=OS:WINHOST\private$\answers"
    rig.take(
        rig.asking(administration_queue_format_name=name), peer=Peer(bytes(15) + b"r", "192.0.2.9")
    )
    assert rig.manager.queues.outgoing_queues() == []
    assert rig.manager.machine.refusals["target_not_allowed"] == 1


@pytest.mark.spec("MS-MQQB 3.1.5.11/1", "MS-MQQB 3.1.5.11/2", "MS-MQQB 3.1.5.8.10/3")
def test_an_acknowledgment_is_delivered_and_never_acknowledged() -> None:
    rig = AnswerRig()
    rig.send(ANSWERS, b"on its way")
    (outgoing,) = rig.manager.queues.outgoing_queues()
    rig.take(
        rig.asking(message_class=ACK_REACH_QUEUE, correlation_identifier=MessageId(rig.guid, 1))
    )
    assert rig.classes("orders") == [ACK_REACH_QUEUE]
    assert outgoing.state.count == 1  # what it speaks of is still there, and no answer beside it


# -- transactional or not


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/10")
def test_a_transactional_queue_takes_no_other_messages() -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    rig.create("east", transactional=True)
    rig.take(rig.asking(destination_queue_format_name=ORDERS.replace("orders", "east")))
    assert rig.bodies("east") == []
    assert rig.answer_classes() == [NACK_NOT_TRANSACTIONAL_MESSAGE]
    assert rig.final_acks() == []


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/9", "MS-MQQB 3.1.1.1.1.8/1", "MS-MQQB 3.1.1.1.1.8/2")
def test_a_transactional_message_needs_a_transactional_queue() -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    assert rig.take(rig.transactional(1, 0, ordinal=9)).dealt_with == 1
    assert rig.bodies("orders") == []
    assert rig.final_acks() == [(NACK_NOT_TRANSACTIONAL_QUEUE, 9, 1)]


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.2/8",
    "MS-MQQB 3.1.5.8/3",
    "MS-MQQB 3.1.5.8.3/28",
    "MS-MQQB 3.1.5.8.8/4",
    "MS-MQQB 3.1.1.1.1.8/1",
    "MS-MQQB 2.2.5/1",
)
@pytest.mark.parametrize(
    ("code", "case"),
    [
        (NACK_BAD_DEST_QUEUE, "nowhere"),
        (NACK_REACH_QUEUE_TIMEOUT, "late"),
        (NACK_ACCESS_DENIED, "closed"),
        (NACK_QUEUE_EXCEED_QUOTA, "full"),
    ],
)
def test_a_refused_transactional_message_gets_a_final_answer(code: int, case: str) -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    rig.create("east", transactional=True, quota_kib=1)
    attributes: dict[str, Any] = {"destination_queue_format_name": ORDERS.replace("orders", "east")}
    if case == "nowhere":
        attributes["destination_queue_format_name"] = NOWHERE
    elif case == "late":
        attributes |= late(rig)
    elif case == "closed":
        rig.deny("east", EVERYONE, WRITE_MESSAGE)
    else:
        attributes |= {"body": bytes(2000), "negative_journaling_requested": True}
    packet = rig.transactional(1, 0, ordinal=9, **attributes)
    assert rig.take(packet).dealt_with == 1
    assert rig.final_acks() == [(code, 9, 1)]
    assert rig.bodies("east") == []
    assert rig.bodies(DEAD_LETTERS) == []
    assert rig.manager.transfer.incoming_of(rig.queue("east")) == []
    rig.restart()
    assert rig.final_acks() == [(code, 9, 1)]


def test_a_refused_transactional_message_that_comes_again_is_answered_to_its_source_only() -> None:
    rig = AnswerRig(send_insecure_nacks=True)
    packet = rig.transactional(
        1,
        0,
        ordinal=9,
        acknowledgements_requested=ACK_NEG_ARRIVAL,
        administration_queue_format_name=ANSWERS,
    )
    rig.take(packet, packet)
    rig.restart()
    rig.take(packet)
    assert rig.answer_classes() == [NACK_NOT_TRANSACTIONAL_QUEUE]
    assert rig.final_acks() == 3 * [(NACK_NOT_TRANSACTIONAL_QUEUE, 9, 1)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_transactional_message_whose_sender_heard_of_its_refusal_is_not_taken_later(
    count: int,
) -> None:
    """The sender ends it, so it must not come in when there is room again."""
    rig = AnswerRig(send_insecure_nacks=True)
    rig.create("east", transactional=True, quota_kib=1)
    east = ORDERS.replace("orders", "east")
    packets = [
        rig.transactional(n, n - 1, body=bytes(2000), destination_queue_format_name=east)
        for n in range(1, count + 1)
    ]
    rig.take(packets[0])
    assert len(rig.final_acks()) == 1
    rig.set("east", quota_kib=100)
    rig.take(*packets)
    rig.restart()
    rig.take(*packets)
    assert rig.bodies("east") == []
    assert len(rig.final_acks()) == 1
    rig.take(rig.transactional(count + 1, 0, body=b"next", destination_queue_format_name=east))
    assert rig.bodies("east") == [b"next"]


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.8/1")
def test_a_stranger_gets_no_final_answer_in_the_name_of_others() -> None:
    other = bytes(range(32, 48))
    rig = AnswerRig()
    rig.take(rig.transactional(1, 0, source=other))
    assert rig.final_acks(other) == []
    talkative = AnswerRig(send_insecure_nacks=True)
    talkative.take(talkative.transactional(1, 0, source=other))
    assert len(talkative.final_acks(other)) == 1


# -- quotas


def test_the_log_of_the_receiver_has_the_cause_beside_the_class() -> None:
    rig = PeerRig()
    full(rig)
    rig.take(rig.packet(bytes(200)))
    (line,) = [one.details for one in rig.events if one.name == "message_refused"]
    assert line["why"] == class_name(NACK_QUEUE_EXCEED_QUOTA)
    assert "the quota of 1 KiB" in line["cause"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.8/3")
@pytest.mark.parametrize("express", [True, False])
def test_what_finds_no_room_is_a_dead_letter_here_if_asked_for(express: bool) -> None:
    rig = AnswerRig()
    full(rig)
    rig.take(
        rig.packet(bytes(200), express=express),
        rig.packet(bytes(201), express=express, negative_journaling_requested=True),
    )
    assert [len(body) for body in rig.bodies(DEAD_LETTERS)] == [201]
    assert rig.reasons(DEAD_LETTERS) == [NACK_QUEUE_EXCEED_QUOTA]
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.5.8.8/5")
def test_a_full_machine_ends_the_batch_and_the_session() -> None:
    rig = AnswerRig(machine_quota_kib=2, send_insecure_nacks=True)
    packets = [rig.asking(bytes(700), ordinal=n) for n in (1, 2, 3)]
    verdict = rig.take(*packets)
    assert verdict.dealt_with == len(rig.bodies("orders")) < 3
    assert "quota" in verdict.close
    assert set(rig.answer_classes()) <= {ACK_REACH_QUEUE}
    rig.set("orders", journaling=False)
    while rig.bodies("orders"):
        rig.receive("orders")
    for queue in rig.manager.queues.outgoing_queues():
        rig.run(lambda m, q=queue: m.messages.moving.purge(q))
    assert rig.take(packets[2]) == Verdict(1)  # it was not counted as seen


@pytest.mark.spec("MS-MQQB 3.1.5.8.8/5")
def test_flow_control_ends_the_batch_too() -> None:
    rig = AnswerRig()
    rig.run(lambda m: m.machine.begin_flow_control("memory"))
    packets = [rig.packet(b"one"), rig.packet(b"two")]
    verdict = rig.take(*packets)
    assert verdict.dealt_with == 0
    assert "memory" in verdict.close
    rig.run(lambda m: m.machine.end_flow_control("memory"))
    assert rig.take(*packets) == Verdict(2)
    assert rig.bodies("orders") == [b"one", b"two"]


# -- who may send


@pytest.mark.spec("MS-MQQB 3.1.5.8.3/2", "MS-MQQB 3.1.5.8.3/24")
def test_a_message_without_claim_is_anonymous() -> None:
    rig = AnswerRig()
    rig.deny("orders", ANONYMOUS, WRITE_MESSAGE)
    rig.take(rig.packet(b"one"))
    rig.take(rig.packet(b"two"), rig.packet(b"three"))
    assert rig.bodies("orders") == []
    assert rig.manager.machine.refusals[class_name(NACK_ACCESS_DENIED)] == 3
