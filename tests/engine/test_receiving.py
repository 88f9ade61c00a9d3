"""Receiving UserMessage packets ([MS-MQQB] 3.1.5.8): the plain ways."""

from __future__ import annotations

import pytest

from posthouse.engine.transfer.protocol_interface import Verdict
from posthouse.model.message import MessageId
from posthouse.model.message_classes import NACK_REACH_QUEUE_TIMEOUT, class_name
from posthouse.model.names import PrivateName
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from tests.engine.arrivals import ORDERS, PEER, PeerRig
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE


@pytest.mark.spec("MS-MQQB 3.1.5.8.8/1", "MS-MQQB 3.1.7.10/1", "MS-MQQB 3.1.5.8.5/1")
@pytest.mark.parametrize("express", [True, False])
@pytest.mark.parametrize("count", [1, 3])
def test_packets_become_messages_of_the_queue_they_name(express: bool, count: int) -> None:
    rig = PeerRig()
    contents = [b"%d" % at for at in range(count)]
    packets = [rig.packet(body, express=express, label="an order") for body in contents]
    assert rig.take(*packets) == Verdict(count)
    assert rig.bodies("orders") == contents
    assert {message.label for message in rig.messages("orders")} == {"an order"}
    first = rig.messages("orders")[0]
    assert first.identifier == MessageId(FAR_GUID, 1)
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/13")
def test_recoverable_packets_survive_and_express_ones_do_not() -> None:
    rig = PeerRig()
    rig.take(rig.packet(b"lost", express=True), rig.packet(b"kept"), rig.packet(b"kept too"))
    rig.restart()
    assert rig.bodies("orders") == [b"kept", b"kept too"]
    rig.check_books()


def test_a_waiting_reader_gets_what_arrives() -> None:
    rig = PeerRig()
    for packets in ([rig.packet(b"one")], [rig.packet(b"two"), rig.packet(b"three")]):
        answers = rig.wait(rig.open("orders", RECEIVE), timeout_ms=1000)
        rig.take(*packets)
        assert len(answers) == 1
    assert rig.bodies("orders") == [b"three"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.1/2", "MS-MQQB 3.1.5.8.1/4", "MS-MQQB 3.1.1.1.1.6/1")
@pytest.mark.parametrize("express", [True, False])
def test_a_duplicate_is_dealt_with_and_not_inserted(express: bool) -> None:
    rig = PeerRig()
    packets = [rig.packet(b"%d" % at, express=express) for at in range(3)]
    rig.take(*packets)
    assert rig.take(packets[1]) == Verdict(1)
    assert rig.take(*packets, rig.packet(b"new", express=express)) == Verdict(4)
    assert rig.bodies("orders") == [b"0", b"1", b"2", b"new"]


def test_a_duplicate_in_the_same_batch_is_not_inserted() -> None:
    rig = PeerRig()
    packet = rig.packet(b"once")
    assert rig.take(packet, packet, rig.packet(b"other"), packet) == Verdict(4)
    assert rig.bodies("orders") == [b"once", b"other"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.1/2")
def test_the_same_ordinal_of_another_source_is_another_message() -> None:
    rig = PeerRig()
    rig.take(rig.packet(b"one", ordinal=7))
    rig.take(rig.packet(b"two", ordinal=7, source=bytes(15) + b"x"))
    assert rig.bodies("orders") == [b"one", b"two"]


def test_copies_of_a_message_to_a_list_are_not_duplicates_of_each_other() -> None:
    rig = PeerRig()
    rig.create("others")
    others = ORDERS.replace("orders", "others")
    copies = [
        rig.packet(
            b"to both",
            ordinal=5,
            destination_queue_format_name=name,
            destination_multi_queue_format_name=(ORDERS, others),
        )
        for name in (ORDERS, others)
    ]
    rig.take(*copies)
    rig.take(*copies)
    assert rig.bodies("orders") == rig.bodies("others") == [b"to both"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/7", "MS-MQQB 3.1.5.8.5/1")
@pytest.mark.parametrize("own", [True, False])
def test_a_private_queue_is_found_by_number(own: bool) -> None:
    rig = PeerRig()
    guid = rig.guid if own else bytes(16)
    name = str(PrivateName(guid, rig.queue("orders").number))
    packet = rig.packet(b"by number", destination_queue_format_name=name)
    assert packet[32:48] == guid  # QueueManagerAddress
    rig.take(packet)
    assert rig.bodies("orders") == [b"by number"]


@pytest.mark.spec("MS-MQQB 3.1.5.8/3", "MS-MQQB 3.1.5.8.8/6")
def test_a_message_whose_time_to_reach_the_queue_is_over_is_discarded() -> None:
    rig = PeerRig()
    sent = rig.clock.utc_seconds - 10
    late = rig.packet(b"late", sent_time=sent, time_to_reach_queue=9)
    just = rig.packet(b"just", sent_time=sent, time_to_reach_queue=10)
    later = rig.packet(b"later", sent_time=sent, time_to_reach_queue=9)
    assert rig.take(late, just, later) == Verdict(3)
    assert rig.take(late, later) == Verdict(2)  # refused before: once is enough
    assert rig.take(late) == Verdict(1)
    assert rig.bodies("orders") == [b"just"]
    assert rig.manager.machine.refusals == {class_name(NACK_REACH_QUEUE_TIMEOUT): 2}


def test_what_is_in_front_of_a_malformed_packet_is_taken_and_the_rest_is_not() -> None:
    rig = PeerRig()
    good, after = rig.packet(b"good"), rig.packet(b"after")
    bad = bytearray(rig.packet(b"bad", destination_queue_format_name="DIRECT=OS:X\\private$\\y"))
    bad[66:68] = b"\x00\xd8"  # half a character
    verdict = rig.take(good, bytes(bad), after)
    assert verdict.dealt_with == 1
    assert verdict.close
    assert rig.bodies("orders") == [b"good"]
    assert rig.take(good, after, peer=PEER) == Verdict(2)
    assert rig.bodies("orders") == [b"good", b"after"]


def test_a_name_means_what_it_means_now() -> None:
    rig = PeerRig()
    rig.take(rig.packet(b"one"))
    rig.delete("orders")
    rig.take(rig.packet(b"two"))
    rig.create("orders")
    rig.take(rig.packet(b"three"))
    assert rig.bodies("orders") == [b"three"]
    rig.deny("orders", EVERYONE, WRITE_MESSAGE)
    rig.take(rig.packet(b"four"))
    assert rig.bodies("orders") == [b"three"]
