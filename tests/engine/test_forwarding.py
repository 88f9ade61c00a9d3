"""What a router holds: final acknowledgments that went in circles, and what is sent twice."""

from __future__ import annotations

import pytest

from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.forwarding import REST_MS
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.model.message import ACK_RECEIVE
from posthouse.model.message_classes import NACK_HOP_COUNT_EXCEEDED, class_name
from posthouse.model.names import PrivateName
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_of,
    read_final_ack,
)
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import patch
from tests.engine.letters import FAR_GUID
from tests.support.routing_rig import BEYOND, BEYOND_GUID, RoutingRig

FURTHEST = 29
REST_S = REST_MS / 1000


class CircleRig(RoutingRig):
    """A router with an acknowledgment for BEYOND that has come as far as one may."""

    def final(self, hops: int = FURTHEST) -> bytes:
        body = FinalAck(7, 1, 0, BEYOND_GUID, 9)
        origin = Origin(FAR_GUID, 3, self.clock.utc_seconds)
        packet = final_ack(body, ACK_RECEIVE, order_queue_of(BEYOND_GUID), origin)
        return patch(packet, hop_count=hops)

    def sender(self) -> OutgoingCursor:
        """A session that takes what there is for BEYOND."""
        return self.run(lambda m: m.transfer.begin_sending(self.waiting().number))

    def waiting(self) -> Queue:
        (queue,) = self.manager.queues.outgoing_queues()
        return queue

    def taken(self, sender: OutgoingCursor) -> list[Packet]:
        return [Packet(each.packet) for each in self.run(lambda m: sender.take(99, 1 << 20))]

    def change_directory(self) -> None:
        service = self.manager.directory.service
        self.run(lambda m: setattr(service, "version", service.version + 1))


# -- circles


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/12")
def test_a_final_acknowledgment_that_went_in_circles_rests_and_sets_out_anew() -> None:
    rig = CircleRig()
    rig.take(rig.final())
    sender = rig.sender()
    assert rig.taken(sender) == []
    assert rig.manager.machine.refusals[class_name(NACK_HOP_COUNT_EXCEEDED)] == 0
    rig.advance(REST_S - 1)
    assert rig.taken(sender) == []
    rig.advance(1)
    (sent,) = rig.taken(sender)
    assert sent.user_flags.hop_count == 0
    assert sent.message_class == ACK_RECEIVE
    assert read_final_ack(sent.data) == read_final_ack(rig.final())
    assert sent.summary.source_guid == rig.guid  # its first round is known under the old identifier
    rig.check_books()


def test_each_round_has_an_identifier_of_its_own() -> None:
    rig, known = CircleRig(), set()
    packet = rig.final()
    sender = None
    for _ in range(3):
        rig.take(packet)
        sender = sender or rig.sender()
        rig.advance(REST_S)
        (sent,) = rig.taken(sender)
        known.add(sent.identifier)
        packet = patch(sent.data, hop_count=FURTHEST)
    assert len(known) == 3


def test_one_that_has_hops_left_goes_on_at_once() -> None:
    rig = CircleRig()
    rig.take(rig.final(FURTHEST - 1))
    assert [packet.user_flags.hop_count for packet in rig.taken(rig.sender())] == [FURTHEST]


def test_an_order_acknowledgment_that_went_in_circles_is_dropped() -> None:
    """It comes again when the message does."""
    rig = CircleRig()
    origin = Origin(FAR_GUID, 3, rig.clock.utc_seconds)
    packet = order_ack(OrderAck.of(7, 1), order_queue_of(BEYOND_GUID), origin)
    rig.take(patch(packet, hop_count=FURTHEST))
    assert rig.manager.queues.outgoing_queues() == []
    assert rig.manager.machine.refusals[class_name(NACK_HOP_COUNT_EXCEEDED)] == 1


def test_whoever_looks_at_the_queue_is_told_why_it_waits() -> None:
    rig = CircleRig()
    resting = rig.manager.transfer.receiving.forwarding.resting
    rig.take(rig.through())
    (other,) = rig.manager.queues.outgoing_queues()
    rig.take(rig.final())
    (queue,) = [each for each in rig.manager.queues.outgoing_queues() if each is not other]
    assert "circle" in resting.reason_of(queue)
    assert resting.reason_of(other) == ""
    assert [event.name for event in rig.events] == ["hop_count_exceeded"]
    rig.advance(REST_S)
    assert resting.reason_of(queue) == ""
    assert resting.next_deadline_ms() is None


def test_a_directory_that_changes_ends_the_rest() -> None:
    rig = CircleRig()
    rig.take(rig.final())
    sender = rig.sender()
    rig.change_directory()
    assert rig.manager.next_deadline_ms() == rig.manager.machine.now_ms
    rig.turn()
    assert len(rig.taken(sender)) == 1


def test_what_rests_is_there_behind_a_restart() -> None:
    rig = CircleRig()
    rig.take(rig.final())
    rig.restart()
    assert len(rig.taken(rig.sender())) == 1


def test_what_rests_can_be_purged() -> None:
    rig = CircleRig()
    rig.take(rig.final())
    rig.run(lambda m: m.messages.moving.purge(rig.waiting()))
    rig.advance(REST_S)
    assert rig.waiting().state.count == 0
    rig.check_books()


# -- resends


def numbered(rig: CircleRig, number: int, previous: int) -> bytes:
    """The message has the same identifier each time."""
    return rig.transactional(
        number, previous, ordinal=100 + number, destination_queue_format_name=BEYOND
    )


def numbers(rig: CircleRig) -> list[int]:
    return [int(packet.body) for packet in rig.passed_on()]


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/21")
def test_a_resend_of_what_still_waits_is_not_stored_again() -> None:
    rig = CircleRig()
    packets = [numbered(rig, 1, 0), numbered(rig, 2, 1)]
    rig.take(*packets)
    rig.take_each(*packets)
    rig.take(*packets, numbered(rig, 3, 2))
    assert numbers(rig) == [1, 2, 3]
    assert rig.manager.machine.refusals["resend_still_waiting"] == 4
    rig.check_books()


def test_one_that_comes_twice_at_once_is_stored_once() -> None:
    rig = CircleRig()
    rig.take(numbered(rig, 1, 0), numbered(rig, 1, 0))
    assert numbers(rig) == [1]


def test_a_resend_of_what_has_left_is_stored() -> None:
    rig = CircleRig()
    rig.take(numbered(rig, 1, 0))
    queue = rig.waiting()
    rig.deliver(queue.definition.format_name)
    assert queue.state.count == 0
    rig.take(numbered(rig, 1, 0))
    assert numbers(rig) == [1]


def test_a_resend_of_what_a_session_has_sent_is_stored() -> None:
    """Nobody knows yet whether that one was of any use."""
    rig = CircleRig()
    rig.take(numbered(rig, 1, 0))
    assert len(rig.taken(rig.sender())) == 1
    rig.take(numbered(rig, 1, 0))
    assert numbers(rig) == [1, 1]


def test_a_resend_that_says_something_else_is_stored() -> None:
    """The one before it has expired: what waits here would never be taken for the next."""
    rig = CircleRig()
    rig.take(numbered(rig, 2, 1))
    rig.take(numbered(rig, 2, 0))
    assert numbers(rig) == [2, 2]


def test_a_resend_follows_what_comes_in_front_of_it() -> None:
    """Those that wait in front of the first are turned away where they go to."""
    rig = CircleRig()
    later = [numbered(rig, 2, 1), numbered(rig, 3, 2)]
    rig.take(*later)
    rig.take(numbered(rig, 1, 0), *later)
    rig.take(numbered(rig, 1, 0), *later)
    assert numbers(rig) == [2, 3, 1, 2, 3]


def test_behind_a_restart_copies_are_stored() -> None:
    rig = CircleRig()
    rig.take(numbered(rig, 1, 0))
    rig.restart()
    rig.take(numbered(rig, 1, 0))
    assert numbers(rig) == [1, 1]


def test_a_copy_that_took_another_way_is_stored() -> None:
    """Its hops count: what comes round in a circle has to end."""
    rig = CircleRig()
    rig.take(numbered(rig, 1, 0))
    rig.take(patch(numbered(rig, 1, 0), hop_count=5))
    assert numbers(rig) == [1, 1]


def test_the_same_message_on_its_way_to_another_queue_is_no_copy() -> None:
    """An identifier proves nothing: only one and the same message is dropped."""
    rig = CircleRig()
    other = str(PrivateName(BEYOND_GUID, 0x22))
    rig.take(numbered(rig, 1, 0))
    rig.take(rig.transactional(1, 0, ordinal=101, destination_queue_format_name=other))
    assert numbers(rig) == [1]
    assert len(rig.sent(other)) == 1
    rig.take(numbered(rig, 1, 0))
    assert numbers(rig) == [1, 1]


def test_copies_of_the_oldest_are_stored_where_very_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.forwarding.WAITING_MAX", 2)
    rig = CircleRig()
    packets = [numbered(rig, 1, 0), numbered(rig, 2, 1), numbered(rig, 3, 2)]
    rig.take(*packets)
    rig.take(packets[2], packets[1])
    assert numbers(rig) == [1, 2, 3]
    rig.take(packets[0])
    assert numbers(rig) == [1, 2, 3, 1]


def test_a_message_that_is_stored_again_is_among_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.forwarding.WAITING_MAX", 2)
    rig = CircleRig()
    again = patch(numbered(rig, 1, 0), hop_count=5)
    rig.take(numbered(rig, 1, 0), numbered(rig, 2, 1), again, numbered(rig, 3, 2))
    rig.take(again)
    assert numbers(rig) == [1, 2, 1, 3]


def test_only_so_many_sequences_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.forwarding.WAITING_MAX", 2)
    rig = CircleRig()
    for sequence in range(4):
        rig.take(
            rig.transactional(1, 0, (5, sequence), ordinal=7, destination_queue_format_name=BEYOND)
        )
    assert len(rig.manager.transfer.receiving.forwarding._waiting._runs) == 2
    assert rig.waiting().state.count == 4
