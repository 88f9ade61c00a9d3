"""Senders whose clock is days off: both ends learn of it (F19)."""

from __future__ import annotations

import pytest

from posthouse.engine.transfer.peer_clocks import SLACK_S, ClockDifference
from posthouse.model.message_classes import NACK_REACH_QUEUE_TIMEOUT, class_name
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_of,
)
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.letters import FAR_GUID
from tests.engine.web import FAR, WebRig
from tests.support.answer_rig import AnswerRig
from tests.support.queue_urls import at

DAY = 86_400
FOUR_DAYS = 4 * DAY


def events(rig: PeerRig | WebRig, name: str) -> list[dict[str, object]]:
    return [dict(one.details) for one in rig.events if one.name == name]


@pytest.mark.parametrize("transactional", [False, True])
def test_the_receiver_notes_a_sender_whose_clock_is_behind(transactional: bool) -> None:
    rig = AnswerRig()
    rig.create("exact", transactional=True)
    long_ago = rig.clock.utc_seconds - 30 * DAY
    times = {"sent_time": long_ago, "time_to_reach_queue": FOUR_DAYS}
    for number in (1, 2):
        packet = rig.packet(b"x", **times)
        if transactional:
            name = at("exact")
            packet = rig.transactional(
                number, number - 1, destination_queue_format_name=name, **times
            )
        rig.take(packet)
    late = class_name(NACK_REACH_QUEUE_TIMEOUT)
    assert rig.manager.machine.refusals[late] == 2
    assert rig.manager.machine.refusals["sender_clock_behind"] == 2
    told = {"address": PEER.address, "seconds": 26 * DAY}
    assert events(rig, "sender_clock_behind") == [told] * 2
    (known,) = rig.manager.transfer.clocks_that_differ()
    assert known == ClockDifference(PEER.address, 26 * DAY, 2, rig.clock.utc_seconds)
    # Its time has nothing to do with the queue, so a stranger may know; it carries our clock.
    assert [code for code, _, _ in rig.final_acks()] == [NACK_REACH_QUEUE_TIMEOUT] * (
        2 * transactional
    )


def test_a_message_that_is_a_little_late_is_not_a_wrong_clock() -> None:
    rig = PeerRig()
    for late in (1, SLACK_S):
        rig.take(
            rig.packet(b"x", sent_time=rig.clock.utc_seconds - 10 - late, time_to_reach_queue=10)
        )
    assert rig.bodies("orders") == []
    assert rig.manager.transfer.clocks_that_differ() == []


def test_over_http_as_well() -> None:
    rig = WebRig()
    sent = rig.utc - 30 * DAY
    assert rig.post(rig.message(sent_at=sent, reach_by=sent + FOUR_DAYS)) == [200]
    assert rig.bodies("orders") == []
    (known,) = rig.manager.transfer.clocks_that_differ()
    assert (known.address, known.behind_s, known.messages) == (FAR, 26 * DAY, 1)


@pytest.mark.parametrize("ahead", [30 * DAY, SLACK_S])
@pytest.mark.parametrize("final", [False, True])
def test_the_sender_learns_it_from_acknowledgments_written_later_than_now(
    ahead: int, final: bool
) -> None:
    rig = PeerRig()
    tx = rig.begin("round")
    rig.send(r"DIRECT=OS:BANK\private$\ledger", b"1", tx=tx)
    rig.commit(tx)
    queue = rig.outgoing(r"DIRECT=OS:BANK\private$\ledger")[0]
    sender = rig.run(lambda m: m.transfer.begin_sending(queue.number, FAR_GUID))
    (sent,) = rig.run(lambda m: sender.take(10, 1 << 20))
    sequence = rig.manager.transfer.info(queue).sequence_id
    origin = Origin(FAR_GUID, 5, rig.clock.utc_seconds + ahead)
    place = order_queue_of(rig.guid)
    if final:
        body = FinalAck(sequence, 1, 0, rig.guid, summarize(sent.packet).ordinal)
        packet = final_ack(body, NACK_REACH_QUEUE_TIMEOUT, place, origin)
    else:
        packet = order_ack(OrderAck.of(sequence, 1), place, origin)
    rig.take(packet)
    known = rig.manager.transfer.clocks_that_differ()
    if ahead == SLACK_S:
        assert known == []
        return
    assert [(one.address, one.behind_s) for one in known] == [(PEER.address, -ahead)]
    assert events(rig, "own_clock_behind") == [{"address": PEER.address, "seconds": ahead}]


def test_acknowledgments_that_fit_nothing_show_nothing() -> None:
    rig = PeerRig()
    origin = Origin(FAR_GUID, 5, rig.clock.utc_seconds + 30 * DAY)
    rig.take(order_ack(OrderAck.of(77, 1), order_queue_of(rig.guid), origin))
    assert rig.manager.transfer.clocks_that_differ() == []


def test_a_difference_that_does_not_show_again_is_forgotten() -> None:
    rig = PeerRig()
    sent = rig.clock.utc_seconds - 30 * DAY
    rig.take(rig.packet(b"x", sent_time=sent, time_to_reach_queue=FOUR_DAYS))
    assert rig.manager.transfer.clocks_that_differ()
    rig.clock.advance(DAY * 1000 + 1000)
    rig.turn()
    assert rig.manager.transfer.clocks_that_differ() == []
