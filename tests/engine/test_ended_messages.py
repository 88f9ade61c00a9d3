"""A machine is told how its message ended, also where it ended before the machine had brought it.

Seed 357 of the routed trials with a stranger: somebody has captured a message and is faster; it is
received, and its own machine brings it afterwards.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.engine.ledger.records import TABLE_ENDED, Change
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_origins import INSISTS_MS
from posthouse.engine.transfer.shared_acknowledgments import AWAY_S
from posthouse.model.message_classes import ACK_RECEIVE, NACK_QUEUE_DELETED, NACK_QUEUE_PURGED
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.srmp.message import SrmpMessage
from tests.engine.arrivals import PEER
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE
from tests.engine.web import FAR, RECEIPTS_NAME, STREAMED, WebRig
from tests.engine.web import STRANGER as WEB_STRANGER
from tests.support.stranger_rig import STRANGER, EastRig

ROUTER = Peer(bytes(range(80, 96)), "192.0.2.5")
DIRECTORY = Peer(FAR_GUID, "")  # where the directory shows the way
MOVED = Peer(FAR_GUID, "192.0.2.77")
ENDED_MAX = "posthouse.engine.transfer.ended_messages.ENDED_MAX"


@pytest.fixture
def rig() -> EastRig:
    return EastRig()


def asking(rig: EastRig, number: int, body: bytes = b"", **more: Any) -> bytes:
    """A message that asks what becomes of it."""
    return rig.east(number, None, body, negative_journaling_requested=True, **more)


def finals(rig: EastRig, peer: Peer = PEER) -> list[tuple[int, int]]:
    """The final acknowledgments that wait for a host: class, and number in the sequence."""
    found = []
    for queue in rig.manager.queues.outgoing_queues():
        if queue.definition.answers_at == peer.host:
            for _, number in queue.state.order.forward():
                message_class = summarize(rig.store.read(number)).message_class
                if message_class >= ACK_RECEIVE:
                    found.append(message_class)
    numbers = [ack.sequence_number for ack in rig.owed_to(peer) if hasattr(ack, "message_id")]
    return list(zip(found, numbers, strict=True))


def end_all(rig: EastRig, how: str) -> None:
    if how == "received":
        descriptor = rig.open("east", RECEIVE)
        while rig.queue("east").state.count:
            rig.receive(descriptor)
    elif how == "purged":
        rig.purge("east")
    else:
        rig.delete("east")


CLASSES = {"received": ACK_RECEIVE, "purged": NACK_QUEUE_PURGED, "deleted": NACK_QUEUE_DELETED}


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("how", CLASSES)
def test_a_machine_is_told_how_a_message_has_ended_that_a_stranger_has_sent_before_it(
    rig: EastRig, how: str, restarts: bool
) -> None:
    packets = [asking(rig, number) for number in (1, 2)]
    rig.take(*packets, peer=STRANGER)
    end_all(rig, how)
    if restarts:
        rig.restart()
    rig.take(*packets)
    assert finals(rig) == [(CLASSES[how], 1), (CLASSES[how], 2)]
    rig.check_books()


def test_a_machine_of_the_directory_is_told_so_wherever_its_message_comes_from(
    rig: EastRig,
) -> None:
    rig.enter_machine()
    eve = Peer(FAR_GUID, "192.0.2.9", may_pass_on=lambda source: False)
    rig.take(asking(rig, 1), peer=eve)
    end_all(rig, "received")
    rig.restart()
    rig.take(asking(rig, 1), peer=ROUTER)
    assert finals(rig, DIRECTORY) == [(ACK_RECEIVE, 1)]


def test_a_machine_is_told_once(rig: EastRig) -> None:
    packet = asking(rig, 1)
    rig.take(packet, peer=STRANGER)
    end_all(rig, "received")
    for _ in range(3):
        rig.take(packet, packet)
        rig.take(packet, peer=STRANGER)
    assert finals(rig) == finals(rig, STRANGER) == [(ACK_RECEIVE, 1)]


def test_who_has_brought_a_message_before_it_ended_is_told_then_and_once(rig: EastRig) -> None:
    packet = asking(rig, 1)
    rig.take(packet)
    rig.take(packet, peer=MOVED)
    end_all(rig, "received")
    rig.take(packet, peer=MOVED)
    rig.take(packet)
    assert finals(rig) == finals(rig, MOVED) == [(ACK_RECEIVE, 1)]


def test_who_has_sent_into_a_deleted_queue_was_told_when_it_was_deleted(rig: EastRig) -> None:
    rig.take(asking(rig, 1))
    end_all(rig, "deleted")
    rig.take(asking(rig, 1))
    assert finals(rig) == [(NACK_QUEUE_DELETED, 1)]


def test_a_machine_that_moves_gets_each_answer_where_it_is(rig: EastRig) -> None:
    """It sends again what was not acknowledged, and all of it was received by then."""
    packets = [asking(rig, number) for number in range(1, 4)]
    rig.take(*packets)
    end_all(rig, "received")
    rig.take(*packets, peer=MOVED)
    assert finals(rig, MOVED) == [(ACK_RECEIVE, number) for number in (1, 2, 3)]


def test_how_the_message_of_a_stranger_ended_is_not_told_of_that_of_the_machine(
    rig: EastRig,
) -> None:
    """Two messages at one place: each has an end of its own."""
    rig.take(asking(rig, 1, b"evil"), peer=STRANGER)
    end_all(rig, "received")
    rig.take(asking(rig, 1))
    assert rig.bodies_of() == ["1"]
    assert finals(rig) == []
    end_all(rig, "purged")
    assert finals(rig) == [(NACK_QUEUE_PURGED, 1)]
    rig.take(asking(rig, 1), peer=MOVED)
    rig.take(asking(rig, 1, b"evil"), peer=ROUTER)
    assert finals(rig, MOVED) == [(NACK_QUEUE_PURGED, 1)]
    assert finals(rig, ROUTER) == [(ACK_RECEIVE, 1)]


def test_a_message_that_does_not_ask_is_not_kept(rig: EastRig) -> None:
    rig.take(rig.east(1), peer=STRANGER)
    end_all(rig, "received")
    assert len(rig.manager.transfer.outgoing.ended) == 0
    rig.take(rig.east(1))
    assert finals(rig) == []


def test_a_flood_of_messages_that_ended_drops_nothing_of_others(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ENDED_MAX, 8)
    captured = [asking(rig, number) for number in (1, 2, 3)]
    rig.take(*captured, peer=STRANGER)
    flood = Peer(bytes(16), "192.0.2.66")
    for number in range(1, 40):
        rig.take(asking(rig, number, source=b"flood...........", sequence=(5, 9)), peer=flood)
    end_all(rig, "received")
    rig.restart()
    ended = rig.manager.transfer.outgoing.ended
    assert len(ended) == len(list(rig.manager.ledger.state.of_table(TABLE_ENDED))) == 8
    for number in range(40, 50):
        rig.take(asking(rig, number, source=b"flood...........", sequence=(5, 9)), peer=flood)
    end_all(rig, "received")
    rig.take(*captured)
    assert finals(rig) == [(ACK_RECEIVE, number) for number in (1, 2, 3)]


def test_what_ended_first_is_given_up_first_also_after_a_restart(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ENDED_MAX, 8)
    packets = [asking(rig, number) for number in range(1, 12)]
    for packet in packets:
        rig.take(packet, peer=STRANGER)
        end_all(rig, "received")
        rig.advance(1)
        rig.restart()
    rig.take(*packets)
    assert [number for _, number in finals(rig)] == [4, 5, 6, 7, 8, 9, 10, 11]


def test_who_takes_no_answers_gets_no_more_of_them(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.messages.acknowledgments.ANSWERS_MAX", 2)
    packets = [asking(rig, number) for number in range(1, 6)]
    rig.take(*packets, peer=STRANGER)
    end_all(rig, "received")
    rig.take(*packets)
    assert len(finals(rig)) == 2


def test_homes_without_such_a_table_open(rig: EastRig) -> None:
    """As those of versions 0.1 and 0.2 are."""
    packet = asking(rig, 1)
    rig.take(packet, peer=STRANGER)
    end_all(rig, "received")
    change = Change()
    for key, _ in list(rig.manager.ledger.state.of_table(TABLE_ENDED)):
        rig.manager.ledger.define(TABLE_ENDED, key, None, change)
    rig.run(lambda m: m.ledger.commit(change))
    rig.restart()
    rig.take(packet)
    assert rig.bodies_of() == []
    assert finals(rig) == []
    rig.clock.advance(INSISTS_MS)
    rig.take(packet, asking(rig, 2))
    assert rig.bodies_of() == ["2"]


# -- over HTTP


def web_finals(rig: WebRig, host: str) -> list[tuple[int, int]]:
    found = rig.receipts(RECEIPTS_NAME.replace(FAR, host))
    packets = rig.waiting(RECEIPTS_NAME.replace(FAR, host))
    classes = [packet.message_class for packet in packets]
    both = zip(classes, found, strict=True)
    return [(code, receipt.last_ordinal) for code, receipt in both if receipt.final]


def ended_under_a_stranger(rig: WebRig, count: int) -> list[SrmpMessage]:
    """Messages that a stranger has sent, and that were received."""
    messages = [rig.streamed(number, dead_letter=True) for number in range(1, count + 1)]
    assert rig.post(*messages, peer=WEB_STRANGER) == [200] * count
    rig.advance(1)
    for _ in messages:
        rig.receive("streamed")
    return messages


@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("taken", [True, False])
def test_a_machine_is_told_over_http_how_a_message_has_ended(restarts: bool, taken: bool) -> None:
    rig = WebRig()
    messages = ended_under_a_stranger(rig, 3)
    if taken:
        rig.collect(RECEIPTS_NAME.replace(FAR, WEB_STRANGER.host))
    if restarts:
        rig.restart()
    assert rig.post(*messages) == [200] * 3
    rig.advance(1)
    expected = [(ACK_RECEIVE, number) for number in (1, 2, 3)]
    assert web_finals(rig, FAR) == expected
    assert rig.post(*messages) == [200] * 3
    rig.advance(1)
    assert web_finals(rig, FAR) == expected
    rig.check_books()


def test_who_takes_no_receipts_gets_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = WebRig()
    monkeypatch.setattr("posthouse.engine.transfer.srmp.streams.ANSWERS_MAX", 2)
    messages = ended_under_a_stranger(rig, 5)
    rig.collect(RECEIPTS_NAME.replace(FAR, WEB_STRANGER.host))
    assert rig.post(*messages) == [200] * 5
    rig.advance(1)
    assert len(web_finals(rig, FAR)) == 2


def test_such_a_receipt_waits_for_its_machine_and_the_first_one_for_a_while() -> None:
    rig = WebRig()
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2, 3)]
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(*messages) == [200] * 3
    assert rig.post(messages[1], peer=moved) == [200]
    rig.advance(1)
    for _ in messages:
        rig.receive("streamed")
    assert rig.post(messages[2], peer=moved) == [200]
    rig.advance(1)
    assert web_finals(rig, moved.host)[-1] == (ACK_RECEIVE, 3)
    assert web_finals(rig, FAR)[-1] == (ACK_RECEIVE, 3)
    rig.advance(AWAY_S + 1)
    assert web_finals(rig, moved.host) == [(ACK_RECEIVE, 3)]
    assert web_finals(rig, FAR) == []


def test_how_a_copy_ended_in_another_queue_does_not_count() -> None:
    """What is known of a message over HTTP does not have the name of its queue in it."""
    rig = WebRig()
    rig.create("other", transactional=True)
    messages = [rig.streamed(number, dead_letter=True) for number in (1, 2)]
    copies = [replace(one, to=STREAMED.replace("streamed", "other")) for one in messages]
    assert rig.post(*copies, peer=WEB_STRANGER) == [200] * 2
    rig.purge("other")
    assert rig.post(*messages) == [200] * 2
    moved = Peer(b"", "192.0.2.99")
    assert rig.post(messages[1], peer=moved) == [200]
    assert web_finals(rig, moved.host) == []
    rig.receive("streamed")
    rig.receive("streamed")
    assert web_finals(rig, moved.host) == [(ACK_RECEIVE, 1), (ACK_RECEIVE, 2)]
