"""Messages for other machines: passed on by routing servers only ([MS-MQQB] 3.1.5.8.2, .5)."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.records import FLAG_REMOTE, FLAG_TRANSACTIONAL
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.message import DeliveryGuarantee
from posthouse.model.message_classes import (
    NACK_BAD_DEST_QUEUE,
    NACK_HOP_COUNT_EXCEEDED,
    NACK_REACH_QUEUE_TIMEOUT,
    class_name,
)
from posthouse.model.names import PublicName
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import patch
from tests.engine.letters import DEAD_LETTERS, FAR_GUID, JOURNAL
from tests.support.routing_rig import BEYOND, BEYOND_GUID, RoutingRig


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.2/11", "MS-MQQB 3.1.5.8.5/3", "MS-MQQB 3.1.1.1.1.4/1", "MS-MQQB 3.1.5.8.3/1"
)
@pytest.mark.parametrize("express", [True, False])
def test_a_routing_server_passes_messages_on(express: bool) -> None:
    rig = RoutingRig()
    packets = [rig.through(b"one", express=express), rig.through(b"two", 7, express=express)]
    assert rig.take(*packets) == Verdict(2)
    passed = rig.passed_on()
    assert [packet.body for packet in passed] == [b"one", b"two"]
    assert [packet.user_flags.hop_count for packet in passed] == [1, 8]
    assert all(packet.summary.source_guid == FAR_GUID for packet in passed)
    assert rig.answers() == []  # it has not arrived yet
    rig.check_books()


def test_nothing_else_of_the_packet_changes() -> None:
    rig = RoutingRig()
    packet = rig.through(b"x", 3, label="label", priority=5, positive_journaling_requested=True)
    rig.take(packet)
    (passed,) = rig.passed_on()
    assert passed.data == patch(packet, hop_count=4)


def test_a_public_queue_that_the_router_has_not_heard_of_is_waited_for() -> None:
    """Its directory may be older than that of the sender; refused, the message would be lost."""
    rig = RoutingRig()
    name = str(PublicName(bytes(range(64, 80))))
    packet = bytearray(rig.asking(b"early", destination_queue_format_name=name))
    packet[32:48] = BEYOND_GUID  # QueueManagerAddress
    assert rig.take(bytes(packet)) == Verdict(1)
    assert rig.answers() == []
    assert [Packet(one).body for one in rig.sent(name)] == [b"early"]
    rig.check_books()


@pytest.mark.parametrize("host", ["TCP:198.51.100.9", "TCP:127.0.0.1:22", "OS:ANYWHERE"])
def test_a_direct_name_makes_nobody_connect_there(host: str) -> None:
    rig = RoutingRig()
    name = rf"DIRECT={host}\private$\x"
    packet = bytearray(rig.packet(b"x", destination_queue_format_name=name))
    packet[32:48] = BEYOND_GUID  # QueueManagerAddress
    assert rig.take(bytes(packet)) == Verdict(1)
    assert rig.manager.queues.outgoing_queues() == []


def test_a_message_is_passed_on_once() -> None:
    rig = RoutingRig()
    packet = rig.through()
    rig.take(packet, packet)
    rig.take(packet)
    assert len(rig.passed_on()) == 1
    rig.restart()
    rig.take(packet)
    assert len(rig.passed_on()) == 1


@pytest.mark.spec("MS-MQQB 3.1.5.8.5/4")
def test_nobody_else_passes_messages_on() -> None:
    rig = RoutingRig(routing_server=False, send_insecure_nacks=True)
    assert rig.take(rig.through()) == Verdict(1)
    assert rig.passed_on() == []
    assert rig.answer_classes() == [NACK_BAD_DEST_QUEUE]


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/12", "MS-MQQB 3.1.7.15/3")
def test_a_message_that_went_too_far_is_dropped() -> None:
    rig = RoutingRig(send_insecure_nacks=True)
    assert rig.take(rig.through(b"last", 28), rig.through(b"too far", 29)) == Verdict(2)
    assert [packet.user_flags.hop_count for packet in rig.passed_on()] == [29]
    assert rig.answer_classes() == [NACK_HOP_COUNT_EXCEEDED]


@pytest.mark.parametrize("asked", [True, False])
def test_a_message_that_went_too_far_is_a_dead_letter_here_if_asked_for(asked: bool) -> None:
    rig = RoutingRig()
    rig.take(rig.through(b"too far", 29, negative_journaling_requested=asked))
    assert rig.bodies(DEAD_LETTERS) == [b"too far"] * asked
    assert rig.reasons(DEAD_LETTERS) == [NACK_HOP_COUNT_EXCEEDED] * asked
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/12")
def test_the_source_of_a_transactional_one_learns_it() -> None:
    rig = RoutingRig(send_insecure_nacks=True)
    packet = rig.transactional(1, 0, ordinal=9, destination_queue_format_name=BEYOND)
    rig.take(patch(packet, hop_count=29))
    assert rig.final_acks() == [(NACK_HOP_COUNT_EXCEEDED, 9, 1)]


@pytest.mark.spec("MS-MQQB 3.1.5.8/3")
def test_a_late_message_is_not_passed_on() -> None:
    rig = RoutingRig()
    rig.take(rig.through(sent_time=rig.clock.utc_seconds - 9, time_to_reach_queue=8))
    assert rig.passed_on() == []
    assert rig.manager.machine.refusals[class_name(NACK_REACH_QUEUE_TIMEOUT)] == 1


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/21")
def test_a_transactional_message_keeps_its_place_on_the_way() -> None:
    rig = RoutingRig()
    packet = rig.transactional(4, 3, destination_queue_format_name=BEYOND)
    assert rig.take(packet) == Verdict(1)
    (passed,) = rig.passed_on()
    assert passed.transaction == Packet(packet).transaction
    (queue,) = rig.manager.queues.outgoing_queues()
    (number,) = [n for _, n in queue.state.order.forward()]
    row = rig.manager.messages.find_row(number)
    assert row is not None
    assert row.flags & (FLAG_REMOTE | FLAG_TRANSACTIONAL) == FLAG_REMOTE | FLAG_TRANSACTIONAL


def test_the_journal_of_a_message_is_where_it_was_sent() -> None:
    rig = RoutingRig()
    rig.take(rig.through(positive_journaling_requested=True))
    (queue,) = rig.manager.queues.outgoing_queues()
    rig.deliver(queue.definition.format_name)
    assert queue.state.count == 0
    assert rig.bodies(JOURNAL) == []


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/1")
@pytest.mark.parametrize("scarce", ["machine", "queues"])
def test_what_cannot_be_stored_stays_with_its_sender(scarce: str) -> None:
    limits = {"machine_quota_kib": 1} if scarce == "machine" else {"outgoing_queues_max": 0}
    rig = RoutingRig(**limits)
    packet = rig.through(bytes(1000))
    verdict = rig.take(rig.packet(b"first"), packet, rig.packet(b"behind"))
    assert verdict.dealt_with == 1
    assert verdict.close
    assert rig.bodies("orders") == [b"first"]
    assert not rig.manager.transfer.receiving.history.knows(FAR_GUID, 1)


def test_a_name_of_ours_with_another_address_is_not_passed_on() -> None:
    rig = RoutingRig()
    packet = bytearray(rig.packet(b"astray"))
    packet[32:48] = BEYOND_GUID
    assert rig.take(bytes(packet)) == Verdict(1)
    assert rig.bodies("orders") == []
    assert rig.manager.machine.refusals[class_name(NACK_BAD_DEST_QUEUE)] == 1


@pytest.mark.spec("MS-MQQB 3.1.5.8.5/5")
def test_a_list_of_destinations_is_not_expanded_again() -> None:
    rig = RoutingRig()
    names = (r"DIRECT=OS:ALPHA\private$\orders", r"DIRECT=OS:BRAVO\private$\far")
    rig.take(
        rig.packet(
            b"one copy",
            destination_queue_format_name=names[0],
            destination_multi_queue_format_name=names,
        )
    )
    assert rig.bodies("orders") == [b"one copy"]
    assert not rig.manager.queues.outgoing_queues()


def test_what_is_passed_on_survives_as_it_asked_to() -> None:
    rig = RoutingRig()
    rig.take(rig.through(b"kept"), rig.through(b"lost", express=True))
    rig.restart()
    assert [packet.body for packet in rig.passed_on()] == [b"kept"]
    (message,) = rig.passed_on()
    assert message.user_flags.delivery == DeliveryGuarantee.RECOVERABLE


@pytest.mark.spec("MS-MQQB 3.1.5.8.8/9", "MS-MQQB 3.1.1.3.1/21")
def test_what_is_passed_on_has_no_place_in_our_own_sequence() -> None:
    rig = RoutingRig()
    tx = rig.begin()
    rig.send(BEYOND, b"ours", tx=tx)
    rig.commit(tx)
    rig.take(rig.transactional(4, 3, destination_queue_format_name=BEYOND))
    (queue,) = rig.manager.queues.outgoing_queues()
    assert queue.state.count == 2
    report = rig.manager.transfer.report(queue)
    assert report.no_ack_count == 1
    assert report.first_non_ack == report.last_non_ack
    assert report.next_sequence.number == 2


def test_a_copy_that_dies_on_the_way_is_not_the_message_itself() -> None:
    """Somebody sends what they have captured with less time, or to another machine."""
    rig = RoutingRig()
    packet = rig.through(b"captured", ordinal=7)
    stranger = Peer(bytes(range(64, 80)), "192.0.2.9")
    rig.take(patch(packet, time_to_reach_queue=1), peer=stranger)
    rig.take(packet)
    rig.take(packet)
    assert len(rig.passed_on()) == 2


@pytest.mark.parametrize("known", [True, False])
def test_nobody_speaks_through_a_router_in_the_sequence_of_a_machine(known: bool) -> None:
    """Those that it passes messages to take all that it brings for one.

    Outside the directory not even the machine itself: the router cannot tell it from a stranger,
    and a stranger who speaks first would have its place.
    """
    rig = RoutingRig()
    source = FAR_GUID if known else bytes(range(80, 96))
    packet = rig.transactional(1, 0, destination_queue_format_name=BEYOND, source=source)
    stranger = Peer(source, "192.0.2.9", may_pass_on=lambda machine: not known)
    rig.take(packet, peer=stranger)
    assert rig.passed_on() == []
    assert rig.manager.machine.refusals["sequence_not_passed_on"] == 1
    others = rig.packet(b"plain", destination_queue_format_name=BEYOND, source=source)
    rig.take(others, peer=stranger)
    assert [packet.body for packet in rig.passed_on()] == [b"plain"]
