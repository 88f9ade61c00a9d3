"""Transactional messages come in once and in order ([MS-MQQB] 3.1.5.8.6, state-machines 4.2)."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.transfer.protocol_interface import Verdict
from posthouse.model.message import ACK_RECEIVE
from posthouse.model.message_classes import (
    NACK_BAD_DEST_QUEUE,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    ORDER_ACK,
)
from posthouse.model.names import PrivateName
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.security.sids import EVERYONE
from posthouse.wire.binary.order_acks import FinalAck, Origin, final_ack, order_queue_of
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.sequence_places import place_of
from tests.engine.arrivals import ORDERS
from tests.engine.letters import FAR, FAR_GUID
from tests.engine.rig import RECEIVE
from tests.support.run_rig import contents
from tests.support.sequence_rig import EAST, EastRig

FIRST, SECOND = 5 << 32 | 1, 5 << 32 | 2


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/2", "MS-MQQB 3.1.5.8.6/1", "MS-MQQB 3.1.5.8.6/7")
def test_messages_of_a_sequence_come_in_in_order() -> None:
    rig = EastRig()
    assert rig.take_tx(1) == Verdict(1, rig.due)
    assert rig.take_tx(2, 3, 4) == Verdict(3, rig.due)
    assert rig.bodies("east") == [b"1", b"2", b"3", b"4"]
    assert rig.place == (FIRST, 4)
    rig.check_books()


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/7")
@pytest.mark.parametrize("own", [True, False])
def test_the_same_holds_for_messages_addressed_by_guid(own: bool) -> None:
    rig = EastRig()
    name = str(PrivateName(rig.guid if own else bytes(16), rig.queue("east").number))
    packets = [rig.tx(n, n - 1, destination_queue_format_name=name) for n in (1, 2)]
    assert rig.take(*packets) == Verdict(2, rig.due)
    assert rig.take(*packets) == Verdict(2, rig.due)
    assert rig.bodies("east") == [b"1", b"2"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/4", "MS-MQQB 3.1.5.8.1/1", "MS-MQQB 3.1.5.8.6/1")
def test_duplicates_and_gaps_are_rejected_and_acknowledged_again() -> None:
    rig = EastRig()
    rig.take_tx(1, 2)
    for number in (1, 2, 4, 9):
        assert rig.take_tx(number) == Verdict(1, rig.due)
    assert rig.bodies("east") == [b"1", b"2"]
    assert rig.place == (FIRST, 2)
    assert rig.take_tx(3) == Verdict(1, rig.due)
    assert rig.bodies("east") == [b"1", b"2", b"3"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.1/1")
def test_the_ordinal_of_a_transactional_message_does_not_matter() -> None:
    rig = EastRig()
    rig.take(rig.tx(1, 0, ordinal=7))
    rig.take(rig.tx(2, 1, ordinal=7))
    assert rig.bodies("east") == [b"1", b"2"]
    assert not rig.manager.transfer.receiving.history.count


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/2")
def test_a_gap_is_bridged_by_the_previous_number() -> None:
    rig = EastRig()
    rig.take_tx(1, 2)
    rig.take(rig.tx(5, 2), rig.tx(8, 1))
    assert rig.bodies("east") == [b"1", b"2", b"5", b"8"]
    assert rig.place == (FIRST, 8)


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/3")
def test_a_new_sequence_begins_with_nothing_in_front_of_it() -> None:
    rig = EastRig()
    rig.take_tx(1, 2)
    assert rig.take(rig.tx(3, 2, (5, 2))) == Verdict(1, rig.due)
    assert rig.place == (FIRST, 2)
    rig.take(rig.tx(3, 0, (5, 2)))
    assert rig.place == (SECOND, 3)
    rig.take(rig.tx(3, 2, (5, 1)))  # an older sequence
    rig.take(rig.tx(9, 0, (4, 9)))
    assert rig.bodies("east") == [b"1", b"2", b"3"]
    assert rig.place == (SECOND, 3)


def test_the_number_zero_is_never_accepted() -> None:
    rig = EastRig()
    rig.take_tx(1)
    assert rig.take(rig.tx(0, 0)) == Verdict(1, rig.due)
    assert rig.take(rig.tx(0, 0, (9, 9))) == Verdict(1, rig.due)
    assert rig.bodies("east") == [b"1"]
    assert rig.place == (FIRST, 1)


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/5", "MS-MQQB 3.1.5.8.6/4", "MS-MQQB 3.1.1.3.1/11")
def test_rejections_are_counted_until_a_message_is_accepted() -> None:
    rig = EastRig()
    rig.take_tx(1)
    rig.advance(5)
    rig.take_tx(1, 1, 3)
    (info,) = rig.manager.transfer.incoming_of(rig.queue("east"))
    assert (info.reject_count, info.last_access_time) == (3, rig.clock.utc_seconds)
    rig.restart()
    rig.advance(5)
    rig.take_tx(1)
    (info,) = rig.manager.transfer.incoming_of(rig.queue("east"))
    assert (info.reject_count, info.last_access_time) == (4, rig.clock.utc_seconds)
    rig.take_tx(2)
    (info,) = rig.manager.transfer.incoming_of(rig.queue("east"))
    assert info.rejected == 0


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/6", "MS-MQQB 3.1.1.3.1/9")
def test_the_sequence_survives_with_its_messages() -> None:
    rig = EastRig()
    rig.take_tx(1, 2)
    rig.restart()
    assert rig.place == (FIRST, 2)
    rig.take_tx(2, 3)
    assert rig.bodies("east") == [b"1", b"2", b"3"]


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/6")
def test_a_refused_message_does_not_move_the_sequence() -> None:
    rig = EastRig()
    rig.take_tx(1)
    late = {"sent_time": rig.clock.utc_seconds - 9, "time_to_reach_queue": 8}
    rig.take(rig.tx(2, 1, ordinal=99, **late), rig.tx(3, 2))
    assert rig.place == (FIRST, 1)
    assert rig.final_acks() == [(NACK_REACH_QUEUE_TIMEOUT, 99, 2)]
    rig.take(rig.tx(3, 1))  # its sender bridged the gap
    assert rig.bodies("east") == [b"1", b"3"]


def test_what_is_here_already_is_never_refused_afterwards() -> None:
    rig = EastRig()
    packet = rig.tx(1, 0, time_to_reach_queue=5)
    rig.take(packet)
    rig.advance(10)
    rig.deny("east", EVERYONE, WRITE_MESSAGE)
    assert rig.take(packet) == Verdict(1, rig.due)
    assert rig.final_acks() == []
    assert rig.bodies("east") == [b"1"]


def test_strangers_leave_no_trace_of_their_sequences() -> None:
    rig = EastRig()
    rig.deny("east", EVERYONE, WRITE_MESSAGE)
    for number in range(5):
        rig.take(rig.tx(3, 2, source=bytes(15) + bytes([number])))
        rig.take(rig.tx(0, 0, (0, 0), source=bytes(15) + bytes([number])))
    assert rig.manager.transfer.incoming_of(rig.queue("east")) == []


def test_of_sources_that_nothing_was_accepted_of_nothing_is_kept() -> None:
    rig = EastRig()
    for number in range(5):
        packet = rig.tx(3, 2, source=bytes(15) + bytes([number]))
        assert rig.take(packet) == Verdict(1)  # nor is an acknowledgment due
    assert rig.manager.transfer.incoming_of(rig.queue("east")) == []


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/10", "MS-MQQB 3.1.5.8.8/8", "MS-MQQB 3.1.5.8.8/7")
def test_sequences_are_kept_by_source_and_queue() -> None:
    rig = EastRig()
    rig.create("west", transactional=True)
    west = EAST.replace("east", "west")
    other = bytes(range(32, 48))
    rig.take(
        rig.tx(1, 0),
        rig.tx(1, 0, destination_queue_format_name=west),
        rig.tx(1, 0, source=other),
        rig.tx(1, 0),
    )
    assert rig.bodies("east") == [b"1", b"1"]
    assert rig.bodies("west") == [b"1"]
    infos = rig.manager.transfer.incoming_of(rig.queue("east"))
    assert [(info.source, info.sequence_id, info.format_name) for info in infos] == [
        (FAR_GUID, FIRST, EAST),
        (other, FIRST, EAST),
    ]
    assert rig.manager.transfer.outgoing.incoming(rig.queue("west"), FAR_GUID)


@pytest.mark.spec(
    "MS-MQQB 3.1.1.1.1.8/3",
    "MS-MQQB 3.1.7.2.2/1",
    "MS-MQQB 2.2.5/1",
    "MS-MQQB 3.1.1.7.3/2",
)
def test_the_end_of_a_transactional_message_is_told_to_its_source() -> None:
    rig = EastRig()
    rig.take(
        rig.tx(1, 0, ordinal=11, positive_journaling_requested=True),
        rig.tx(2, 1, ordinal=12, negative_journaling_requested=True),
        rig.tx(3, 2, ordinal=13),
    )
    assert rig.final_acks() == []
    rig.receive("east")
    assert rig.final_acks() == [(ACK_RECEIVE, 11, 1)]
    rig.purge("east")
    assert rig.final_acks() == [(ACK_RECEIVE, 11, 1), (NACK_QUEUE_PURGED, 12, 2)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/3", "MS-MQQB 3.1.1.3.1/20")
@pytest.mark.parametrize("direct", [True, False])
def test_the_order_queue_is_named_as_the_destination_was(direct: bool) -> None:
    rig = EastRig()
    name = EAST if direct else str(PrivateName(rig.guid, rig.queue("east").number))
    rig.take(rig.tx(1, 0, destination_queue_format_name=name))
    rig.run(lambda m: m.transfer.acks.order(rig.queue("east").number, FAR_GUID))
    (packet,) = rig.sent(str(PrivateName(FAR_GUID, 4)))
    named = Packet(packet).destination_queue
    assert str(named) == (
        r"DIRECT=TCP:192.0.2.7\private$\order_queue$" if direct else str(PrivateName(FAR_GUID, 4))
    )


def test_an_acknowledgment_in_a_batch_serves_nobody_before_the_batch_is_whole() -> None:
    """A reader served in between would end a message that the log does not have yet."""
    rig = EastRig()
    rig.create("kept", journaling=True)
    kept = ORDERS.replace("orders", "kept")
    tx = rig.begin()
    rig.send(FAR, b"outgoing", tx=tx, negative_journaling_requested=True)
    rig.commit(tx)
    outgoing, _ = rig.outgoing()
    (sent,) = rig.run(lambda m: m.transfer.begin_sending(outgoing.number).take(9, 1 << 20))
    sequence_id, number, previous = place_of(sent.packet)
    ordinal = summarize(sent.packet).ordinal
    body = FinalAck(sequence_id, number, previous, rig.guid, ordinal)
    origin = Origin(FAR_GUID, 900, rig.clock.utc_seconds)
    final = final_ack(body, NACK_QUEUE_PURGED, order_queue_of(rig.guid), origin)
    answers = rig.wait(rig.open("kept", RECEIVE), timeout_ms=1000)
    rig.take(rig.packet(b"read at once", destination_queue_format_name=kept), final)
    assert len(answers) == 1
    assert outgoing.state.count == 0  # the acknowledgment counted
    before = contents(rig.manager.ledger.state)
    assert rig.bodies("kept") == []
    rig.restart()
    assert contents(rig.manager.ledger.state) == before
    assert rig.bodies("kept;journal") == [b"read at once"]


# -- exactly once and in order, whatever is sent


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.booleans()), max_size=8
    )
)
def test_any_resending_brings_each_message_once_and_in_order(
    batches: list[tuple[list[int], bool]],
) -> None:
    rig = EastRig()
    expected: list[bytes] = []
    for numbers, crash in batches:
        rig.take_tx(*numbers)
        for number in numbers:
            if number == len(expected) + 1:
                expected.append(b"%d" % number)
        if crash:
            rig.restart()
        assert rig.bodies("east") == expected
        assert (rig.place or (0, 0))[1] == len(expected)


def test_each_name_of_a_queue_has_a_sequence_of_its_own() -> None:
    """Its sender has one for each, and the later one may come first."""
    rig = EastRig()
    other = EAST.replace("OS:ALPHA", "OS:localhost")
    rig.take(rig.tx(1, 0, sequence=(5, 9), destination_queue_format_name=other))
    rig.take(rig.tx(1, 0), rig.tx(2, 1))
    rig.take(rig.tx(2, 1, sequence=(5, 9), destination_queue_format_name=other.upper()))
    for _ in range(2):
        infos = rig.manager.transfer.outgoing.incoming_of(rig.queue("east"), FAR_GUID)
        assert sorted(info.sequence_number for info in infos) == [2, 2]
        rig.restart()
    assert rig.bodies("east") == [b"1", b"1", b"2", b"2"]
    rig.run(lambda m: m.transfer.send_order_ack(rig.queue("east").number, FAR_GUID))
    assert len(rig.owed()) == 2


# -- queues that are deleted, and made again


def orders_in(rig: EastRig) -> list[bytes]:
    """The order acknowledgments that wait for the peer: sequence and number."""
    return [body[:12] for code, body in rig.owed() if code == ORDER_ACK]


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
def test_a_deleted_queue_still_tells_what_it_accepted(again: bool) -> None:
    rig = EastRig()
    rig.take_tx(1, 2)
    number = rig.queue("east").number
    rig.delete("east")
    if again:
        rig.restart()
    assert rig.run(lambda m: m.transfer.send_order_ack(number, FAR_GUID))
    assert orders_in(rig) == [struct.pack("<QI", FIRST, 2)]
    rig.check_books()


@pytest.mark.parametrize("again", [False, True], ids=["at once", "after a restart"])
def test_a_queue_made_anew_goes_on_where_the_last_one_was(again: bool) -> None:
    """Else what its sender has not heard of comes twice, and what follows waits for ever."""
    rig = EastRig()
    rig.take_tx(1, 2)
    rig.delete("east")
    if again:
        rig.restart()
    rig.create("east", transactional=True)
    assert rig.take_tx(1) == Verdict(1, rig.due)
    assert rig.take_tx(2, 3) == Verdict(2, rig.due)
    assert rig.take_tx(4, 5) == Verdict(2, rig.due)
    assert rig.bodies("east") == [b"3", b"4", b"5"]
    rig.restart()
    assert rig.place == (FIRST, 5)
    assert len(rig.manager.transfer.outgoing.all_incoming()) == 1
    rig.check_books()


def test_what_a_deleted_queue_accepted_is_not_refused_when_it_comes_again() -> None:
    """Its sender would have a dead letter of what was received."""
    rig = EastRig()
    rig.take_tx(1)
    number = rig.queue("east").number
    rig.receive("east")
    rig.delete("east")
    assert rig.take_tx(1) == Verdict(1, ((number, FAR_GUID),))
    assert rig.final_acks() == []
    rig.create("east")  # of the other kind
    assert rig.take_tx(1) == Verdict(1, ((number, FAR_GUID),))
    assert rig.final_acks() == []
    rig.delete("east")
    rig.take(rig.tx(2, 1, ordinal=12))
    assert rig.final_acks() == [(NACK_BAD_DEST_QUEUE, 12, 2)]
    rig.check_books()
