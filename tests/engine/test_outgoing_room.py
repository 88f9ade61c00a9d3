"""The room for outgoing queues: that of strangers ends, and what is sent from here finds some."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.errors import InsufficientResources
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueAccessType
from posthouse.wire.packet.message import deserialize
from tests.engine.cost import steps
from tests.engine.rig import SEND
from tests.support.answer_rig import AnswerRig

BETA = r"DIRECT=OS:BETA\private$\far"


def ask(rig: AnswerRig, address: str, *queues: str, **attributes: Any) -> None:
    """A machine at this address sends messages that name queues of its own for their answers."""
    guid = address.encode().ljust(16)[-16:]
    names = [rf"DIRECT=TCP:{address}\private$\{queue}" for queue in queues]
    packets = [
        rig.asking(administration_queue_format_name=name, source=guid, **attributes)
        for name in names
    ]
    rig.take(*packets, peer=Peer(guid, address))


def waiting(rig: AnswerRig) -> list[str]:
    """Address and queue of what is sent to other machines, the oldest first."""
    names = [queue.name for queue in rig.manager.queues.outgoing_queues()]
    return [name.partition(":")[2].replace("\\private$\\", " ") for name in names]


def test_answers_to_strangers_have_half_of_the_room() -> None:
    """The address with the most queues gives them up, the oldest first."""
    rig = AnswerRig(outgoing_queues_max=8)
    ask(rig, "192.0.2.1", "honest")
    for address in ("192.0.2.8", "192.0.2.9"):
        ask(rig, address, "a", "b", "c")
    flood = ["192.0.2.8 c", "192.0.2.9 b", "192.0.2.9 c"]
    assert waiting(rig) == ["192.0.2.1 honest", *flood]
    assert rig.manager.machine.refusals["answers_given_up"] == 3
    told = [event.details for event in rig.events if event.name == "answers_given_up"]
    name = r"DIRECT=TCP:192.0.2.8\private$\a"
    assert told[0] == {"queue": name, "address": "192.0.2.8", "answers": 1}
    ask(rig, "192.0.2.9", "d")
    assert waiting(rig) == ["192.0.2.1 honest", "192.0.2.8 c", "192.0.2.9 c", "192.0.2.9 d"]
    rig.check_books()
    rig.restart()
    assert waiting(rig) == ["192.0.2.1 honest", "192.0.2.8 c", "192.0.2.9 c", "192.0.2.9 d"]
    ask(rig, "192.0.2.9", "e")
    assert waiting(rig)[0] == "192.0.2.1 honest"
    rig.check_books()


def test_an_ipv6_network_is_one_stranger() -> None:
    rig = AnswerRig(outgoing_queues_max=6)
    ask(rig, "192.0.2.1", "honest")
    for n in range(1, 9):
        ask(rig, f"2001:db8:0:7::{n}", "answers")
    assert len(waiting(rig)) == 3
    assert waiting(rig)[0] == "192.0.2.1 honest"


def test_answers_to_strangers_give_way_to_what_is_sent_from_here() -> None:
    rig = AnswerRig(outgoing_queues_max=4)
    for n in range(3):
        rig.send(rf"DIRECT=OS:BETA\private$\{n}", b"x")
    ask(rig, "192.0.2.9", "a")
    rig.send(BETA, b"mine")
    assert waiting(rig) == ["BETA 0", "BETA 1", "BETA 2", "BETA far"]
    ask(rig, "192.0.2.9", "b")
    assert waiting(rig)[-1] == "BETA far"
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 1
    with pytest.raises(InsufficientResources, match="4 outgoing queues") as refused:
        rig.open(r"DIRECT=OS:BETA\private$\more", SEND)
    assert "posthouse queue list --outgoing" in refused.value.remedy
    rig.restart()
    assert waiting(rig) == ["BETA 0", "BETA 1", "BETA 2", "BETA far"]
    rig.check_books()


def test_a_list_of_queues_finds_room_too() -> None:
    rig = AnswerRig(outgoing_queues_max=4)
    ask(rig, "192.0.2.9", "a", "b")
    rig.open(",".join(rf"DIRECT=OS:B\private$\{n}" for n in range(4)), SEND)
    assert waiting(rig) == [f"B {n}" for n in range(4)]


def test_the_queues_of_a_list_do_not_give_way_to_each_other() -> None:
    rig = AnswerRig(outgoing_queues_max=2)
    ask(rig, "192.0.2.9", "a")
    rig.send(BETA, b"x")
    answers, idle = r"DIRECT=TCP:192.0.2.9\private$\a", r"DIRECT=OS:IDLE\private$\q"
    with pytest.raises(InsufficientResources):
        rig.open(rf"DIRECT=OS:NEW\private$\q,{answers}", SEND)
    assert waiting(rig) == ["192.0.2.9 a", "BETA far"]
    rig = AnswerRig(outgoing_queues_max=2)
    rig.send(BETA, b"x")
    rig.close(rig.open(idle, SEND))
    with pytest.raises(InsufficientResources):
        rig.open(rf"DIRECT=OS:NEW\private$\q,{idle}", SEND)
    rig.send(f"{BETA},{idle}", b"both")
    assert [deserialize(packet).body for packet in rig.sent(idle)] == [b"both"]
    assert not rig.manager.queues.find_outgoing(parse_format_name(idle)).descriptors
    rig.check_books()


def test_a_queue_that_is_used_from_here_gives_way_no_longer() -> None:
    """Also after a restart: the message waits as any other does."""
    rig = AnswerRig(outgoing_queues_max=2)
    ask(rig, "192.0.2.9", "answers")
    name = r"DIRECT=TCP:192.0.2.9\private$\answers"
    rig.close(rig.open(name, SEND))
    rig.send(name, b"mine")
    rig.restart()
    rig.send(BETA, b"mine, too")
    with pytest.raises(InsufficientResources):
        rig.open(r"DIRECT=OS:BETA\private$\more", SEND)
    assert [deserialize(packet).body for packet in rig.sent(name)][1:] == [b"mine"]


def test_a_queue_with_a_session_on_hold_or_open_does_not_go() -> None:
    rig = AnswerRig(outgoing_queues_max=6)
    ask(rig, "192.0.2.9", "a", "b", "c")
    held, connected, looked_at = rig.manager.queues.outgoing_queues()
    rig.run(lambda m: m.transfer.pause_queue(held))
    sender = rig.run(lambda m: m.transfer.begin_sending(connected.number))
    descriptor = rig.open(looked_at.name, QueueAccessType.PEEK_ADMIN)
    ask(rig, "192.0.2.9", "d")
    assert waiting(rig) == ["192.0.2.9 a", "192.0.2.9 b", "192.0.2.9 c"]
    assert rig.manager.machine.refusals["acknowledgment_dropped"] == 1
    rig.close(descriptor)
    ask(rig, "192.0.2.9", "d")
    assert waiting(rig) == ["192.0.2.9 a", "192.0.2.9 b", "192.0.2.9 d"]
    assert held.outgoing is not None
    assert held.outgoing.state is OutgoingQueueState.ON_HOLD
    rig.run(lambda m: sender.end())


def test_an_address_whose_queues_are_in_use_keeps_no_room_of_others() -> None:
    rig = AnswerRig(outgoing_queues_max=4)
    ask(rig, "192.0.2.8", "a")
    ask(rig, "192.0.2.9", "b")
    held, _ = rig.manager.queues.outgoing_queues()
    sender = rig.run(lambda m: m.transfer.begin_sending(held.number))
    for n in range(3):
        rig.send(rf"DIRECT=OS:BETA\private$\{n}", b"mine")
    assert waiting(rig) == ["192.0.2.8 a", "BETA 0", "BETA 1", "BETA 2"]
    rig.run(lambda m: sender.end())
    rig.check_books()


def test_many_answers_of_a_queue_that_goes_end_in_further_turns() -> None:
    rig = AnswerRig(outgoing_queues_max=2)
    for _ in range(60):
        ask(rig, "192.0.2.9", *["a"] * 50)
    assert rig.manager.messages.count == 6_000
    rig.send(r"DIRECT=OS:BETA\private$\one", b"x")
    rig.send(r"DIRECT=OS:BETA\private$\two", b"x")
    rig.advance(1)
    assert rig.manager.messages.count == 3_002
    assert waiting(rig) == ["BETA one", "BETA two"]
    rig.check_books()
    rig.restart()
    assert rig.manager.messages.count == 3_002


def test_a_stranger_with_many_addresses_costs_no_search_through_them() -> None:
    few, many = AnswerRig(outgoing_queues_max=20), AnswerRig(outgoing_queues_max=800)
    for rig, addresses in ((few, 10), (many, 400)):
        for n in range(addresses):
            ask(rig, f"192.0.{n // 200}.{n % 200 + 1}", "answers")
        ask(rig, "198.51.100.1", "first")  # looks for idle ones
    costs = [steps(lambda rig=rig: ask(rig, "198.51.100.2", "second")) for rig in (few, many)]
    assert costs[1] < costs[0] + 100
