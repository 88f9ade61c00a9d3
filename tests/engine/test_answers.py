"""Administration queues of ours in messages for other machines ([MS-MQQB] 3.1.7.15)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.message import ACK_POS_ARRIVAL, ACK_REACH_QUEUE, Message
from posthouse.model.names import PrivateName
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.message import deserialize, serialize
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.letters import ALICE, FAR, PostRig

OWN = r"DIRECT=OS:ALPHA\private$\answers"


def sent(rig: PostRig, administration: str, *, packets: bool, acks: int = ACK_POS_ARRIVAL) -> str:
    """The name that goes out."""
    message = Message(
        body=b"content",
        label="label",
        acknowledgements_requested=acks,
        administration_queue_format_name=administration,
        destination_queue_format_name=FAR,
    )
    descriptor = rig.open(FAR)
    if packets:
        rig.run(lambda m: m.messages.send_packets(descriptor, [serialize(message)] * 2))
    else:
        rig.run(lambda m: m.messages.enqueue_message_to_an_open_queue(descriptor, message))
    queue, _ = rig.outgoing()
    found = [deserialize(rig.store.read(number)) for _, number in queue.state.order.forward()]
    assert {(m.body, m.label) for m in found} == {(b"content", "label")}
    (name,) = {m.administration_queue_format_name for m in found}
    return name


@pytest.mark.parametrize("packets", [True, False])
def test_a_private_queue_of_ours_goes_by_our_guid(packets: bool) -> None:
    rig = PostRig()
    number = rig.create("answers").number
    assert sent(rig, OWN, packets=packets) == str(PrivateName(rig.guid, number))


@pytest.mark.parametrize("packets", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        r"DIRECT=OS:ALPHA\private$\none",
        r"DIRECT=OS:ALPHA\published",
        r"DIRECT=OS:CHARLIE\private$\answers",
        str(PrivateName(bytes(range(16)), 9)),
    ],
)
def test_other_names_stay_as_they_are(name: str, packets: bool) -> None:
    rig = PostRig()
    rig.create("answers")
    rig.create(".\\published")
    assert sent(rig, name, packets=packets) == name


def test_what_asks_for_nothing_stays_as_it_is() -> None:
    rig = PostRig()
    rig.create("answers")
    assert sent(rig, OWN, packets=True, acks=0) == OWN


def test_a_message_for_this_machine_stays_as_it_is() -> None:
    rig = PostRig()
    rig.create("answers")
    rig.create("orders")
    rig.send("orders", acknowledgements_requested=1, administration_queue_format_name=OWN)
    assert rig.messages("orders")[0].administration_queue_format_name == OWN


@pytest.mark.parametrize("packets", [True, False])
def test_its_sender_must_be_allowed_to_write_there(packets: bool) -> None:
    rig = PostRig()
    rig.create("answers")
    rig.deny("answers", ALICE, WRITE_MESSAGE)
    message = Message(
        acknowledgements_requested=1,
        administration_queue_format_name=OWN,
        destination_queue_format_name=FAR,
    )
    descriptor = rig.open(FAR, caller=ALICE)
    with rig.refused(0xC00E0025):
        if packets:
            rig.run(lambda m: m.messages.send_packets(descriptor, [serialize(message)]))
        else:
            rig.run(lambda m: m.messages.enqueue_message_to_an_open_queue(descriptor, message))


@pytest.mark.spec("MS-MQQB 3.1.7.15/5", "MS-MQQB 3.1.5.11/1")
def test_the_answer_of_another_machine_finds_its_way_back() -> None:
    alpha, beta = PostRig(), PostRig()
    beta.settings = replace(beta.settings, computer_name="BRAVO")
    beta.random = random.Random(9)
    beta.restart([])
    alpha.create("answers")
    beta.create("far")
    sent(alpha, OWN, packets=False)
    (there,) = alpha.manager.queues.outgoing_queues()
    carry(alpha, there, beta)
    assert beta.bodies("far") == [b"content"]
    (back,) = beta.manager.queues.outgoing_queues()
    carry(beta, back, alpha)
    assert alpha.classes("answers") == [ACK_REACH_QUEUE]


def carry(source: PostRig, queue: Queue, target: PostRig) -> None:
    """Everything in an outgoing queue arrives at the other side."""
    packets = [source.store.read(number) for _, number in queue.state.order.forward()]
    peer = Peer(source.guid, "192.0.2.1")
    verdict = target.run(
        lambda m: m.transfer.receive_packets(peer, packets, summarize_all(packets))
    )
    assert verdict == Verdict(len(packets))
