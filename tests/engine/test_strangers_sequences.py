"""Nobody stops, eats or acknowledges the exactly-once messages of another machine (F1, F2)."""

from __future__ import annotations

import pytest
from msgspec.msgpack import encode
from msgspec.structs import replace

from posthouse.directory import objects
from posthouse.engine.ledger.records import TABLE_INCOMING, TABLE_PLACES, Change
from posthouse.engine.machine import health
from posthouse.engine.messages.acknowledgments import ORDER_ACK_S
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_origins import INSISTS_MS, LASTING_S
from posthouse.engine.transfer.shared_acknowledgments import AWAY_S
from posthouse.wire.packet.packet_fields import summarize_all
from tests.engine.arrivals import PEER
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE, START_UTC
from tests.support.stranger_rig import EAST, STRANGER, EastRig

IMPOSTOR = Peer(FAR_GUID, "192.0.2.9")  # claims the GUID in its session too
MOVED = Peer(FAR_GUID, "192.0.2.77")
NAME = "PRIVATE=10111213-1415-1617-1819-1a1b1c1d1e1f\\00000004"
NUMBER_MAX = 2**32 - 1


@pytest.fixture
def rig() -> EastRig:
    return EastRig()


@pytest.mark.parametrize("peer", [STRANGER, IMPOSTOR])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("number", "sequence"), [(NUMBER_MAX, (START_UTC + 3600, 2**32 - 1)), (1, (6, 1)), (3, (5, 1))]
)
def test_a_message_from_elsewhere_stops_no_stream(
    rig: EastRig, peer: Peer, first: bool, at_once: bool, number: int, sequence: tuple[int, int]
) -> None:
    forged = rig.east(number, 0, b"evil", sequence=sequence)
    real = [rig.east(n) for n in range(1, 11)]
    if first:
        rig.take(forged, peer=peer)
    rig.take(*real[:5])
    rig.take(forged, peer=peer)
    rig.restart()
    if at_once:
        rig.take(*real[5:])
    else:
        for packet in real[5:]:
            rig.take(packet)
    rig.take(*real)
    assert [body for body in rig.bodies_of() if body != "evil"] == [str(n) for n in range(1, 11)]
    # It may send, and no more; what leaves numbers out is held for a while.
    assert rig.bodies_of().count("evil") == (first or number == 1)
    assert rig.order() == [(5, 10)]


@pytest.mark.parametrize("peer", [STRANGER, IMPOSTOR])
def test_what_a_stranger_sends_is_acknowledged_to_him_alone(rig: EastRig, peer: Peer) -> None:
    """Finding F2: the acknowledgment that fits what the machine has sent, and nobody stored."""
    rig.take(*[rig.east(n, n - 1, b"evil") for n in range(1, 6)], peer=peer)
    assert rig.order(peer) == [(5, 5)]
    assert not rig.owed_to(PEER)
    rig.take(rig.east(1), rig.east(2))
    assert rig.order() == [(5, 2)]
    assert rig.order(peer) == [(5, 5), (5, 5)]
    assert rig.manager.machine.conflicts["sequence"] == 2
    told = [event.details for event in rig.events if event.name == "sequence_conflict"]
    assert [(each["address"], each["other"]) for each in told] == [(PEER.host, peer.host)]


def test_a_stranger_who_is_first_in_each_place_eats_nothing(rig: EastRig) -> None:
    for number in range(1, 9):
        rig.take(rig.east(number, number - 1, b"evil"), peer=STRANGER)
        rig.take(rig.east(number))
    bodies = rig.bodies_of()
    assert bodies[1::2] == [str(n) for n in range(1, 9)]
    assert rig.order() == [(5, 8)]


def test_a_message_that_a_stranger_has_repeated_is_delivered_once(rig: EastRig) -> None:
    rig.take(rig.east(1))
    rig.take(rig.east(2), peer=STRANGER)  # captured, and faster
    rig.take(rig.east(3, 2, b"evil"), peer=STRANGER)
    rig.take(rig.east(2), rig.east(3), rig.east(4))
    assert rig.bodies_of() == ["1", "2", "evil", "3", "4"]
    assert rig.order() == [(5, 4)]


@pytest.mark.parametrize("acknowledged", [0, 3, 5])
@pytest.mark.parametrize("restarts", [True, False])
@pytest.mark.parametrize("forged", [True, False])
def test_a_machine_that_moves_goes_on(
    rig: EastRig, acknowledged: int, restarts: bool, forged: bool
) -> None:
    if forged:
        rig.take(*[rig.east(n, n - 1, b"evil") for n in range(1, 10)], peer=STRANGER)
    rig.take(*[rig.east(n) for n in range(1, 6)])
    if forged:
        rig.take(rig.east(6, 5, b"evil"), peer=Peer(FAR_GUID, "192.0.2.10"))
    if restarts:
        rig.restart()
    again = [rig.east(n) for n in range(acknowledged + 1, 9)]
    rig.take(*again, peer=MOVED)
    rig.take(*again, peer=MOVED)
    rig.take(rig.east(9), peer=MOVED)
    real = [body for body in rig.bodies_of() if body != "evil"]
    assert real == [str(n) for n in range(1, 10)]
    assert rig.order(MOVED) == [(5, 9)]
    rig.take(rig.east(8), rig.east(9), rig.east(10))  # and back
    rig.take(rig.east(1, 0, b"new", sequence=(6, 2)))
    assert [body for body in rig.bodies_of() if body != "evil"][9:] == ["10", "new"]


def test_a_machine_that_moves_begins_its_next_sequence_where_it_is(rig: EastRig) -> None:
    rig.take(*[rig.east(n) for n in range(1, 6)])
    rig.take(*[rig.east(n, sequence=(6, 2), body=b"+%d" % n) for n in range(1, 4)], peer=MOVED)
    rig.take(*[rig.east(n, sequence=(6, 2), body=b"+%d" % n) for n in range(1, 5)])
    assert rig.bodies_of() == ["1", "2", "3", "4", "5", "+1", "+2", "+3", "+4"]


def test_a_captured_message_does_not_come_before_those_in_front_of_it(rig: EastRig) -> None:
    """Its previous number is changed on the way: that is not part of what it is known by."""
    real, captured = [rig.east(n) for n in range(1, 6)], rig.east(4, 1)
    rig.take(real[0])
    rig.take(captured, peer=STRANGER)
    rig.take(*real)
    rig.clock.advance(INSISTS_MS)
    rig.take(captured, peer=STRANGER)
    assert rig.bodies_of() == ["1", "2", "3", "4", "5"]


def test_a_machine_that_moves_and_leaves_numbers_out_goes_on_after_a_while(rig: EastRig) -> None:
    rig.take(rig.east(1))
    packets = [rig.east(4, 1), rig.east(5)]  # what was in between has expired
    rig.take(*packets, peer=MOVED)
    assert rig.bodies_of() == ["1"]
    rig.clock.advance(INSISTS_MS)
    rig.take(*packets, peer=MOVED)
    assert rig.bodies_of() == ["1", "4", "5"]
    assert rig.order(MOVED) == [(5, 5)]


def test_what_a_machine_has_left_out_does_not_come_in_with_what_a_stranger_insists_on(
    rig: EastRig,
) -> None:
    """Seed 799 of the trials with a stranger: a full queue has refused 4 to 8, and not 9."""
    rig.take(*[rig.east(n) for n in (1, 2, 3)])
    rig.take(rig.east(5, 3), rig.east(8), peer=STRANGER)  # captured, and held
    rig.take(rig.east(9, 3))
    captured = rig.east(7, 3), rig.east(5, 3), rig.east(8)
    for _ in range(3):
        rig.clock.advance(INSISTS_MS)
        for packet in captured:
            rig.take(packet, peer=STRANGER)
    rig.take(rig.east(10))
    assert rig.bodies_of() == ["1", "2", "3", "9", "10"]
    assert rig.order() == [(5, 10)]


def test_sources_of_one_address_are_apart(rig: EastRig) -> None:
    """Many machines behind one address that translates theirs."""
    guids = [bytes([n]) * 16 for n in range(1, 6)]
    for number in range(1, 4):
        for guid in guids:
            peer = Peer(guid, "198.51.100.1")
            rig.take(rig.east(number, body=b"%d-%d" % (guid[0], number), source=guid), peer=peer)
    bodies = rig.bodies_of()
    for guid in guids:
        mine = [body for body in bodies if body.startswith(f"{guid[0]}-")]
        assert mine == [f"{guid[0]}-{n}" for n in range(1, 4)]


def test_what_is_forgotten_is_held_until_its_sender_insists(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger who fills the table of places delays a machine by one resend interval."""
    monkeypatch.setattr(rig.manager.transfer.outgoing.lineages.places, "entries_max", 3)
    rig.take(*[rig.east(n, n - 1, b"evil") for n in range(1, 10)], peer=STRANGER)
    real = [rig.east(n) for n in range(1, 4)]
    rig.take(*real)
    rig.take(*real)
    assert rig.bodies_of().count("evil") == 9 == len(rig.bodies_of())
    rig.clock.advance(INSISTS_MS)
    rig.take(*real)
    rig.take(*real)
    assert rig.bodies_of()[9:] == ["1", "2", "3"]
    assert rig.order() == [(5, 3)]


def test_what_is_forgotten_of_a_machine_that_moved_is_known_by_what_is_not(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.manager.transfer.outgoing.lineages.places, "entries_max", 3)
    rig.take(*[rig.east(n) for n in range(1, 10)])
    rig.take(*[rig.east(n) for n in range(1, 12)], peer=MOVED)
    assert rig.bodies_of() == [str(n) for n in range(1, 12)]


def test_nothing_overtakes_a_message_that_is_held(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.manager.transfer.outgoing.lineages.places, "entries_max", 3)
    rig.take(*[rig.east(n) for n in range(1, 10)])
    rig.take(rig.east(5), rig.east(10), peer=MOVED)
    assert rig.bodies_of() == [str(n) for n in range(1, 10)]
    rig.take(rig.east(7), rig.east(10), peer=MOVED)  # it was the machine
    assert rig.bodies_of() == [str(n) for n in range(1, 11)]


def test_a_flood_of_sequences_forgets_nothing_of_others(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.incoming_sequences.INCOMING_MAX", 20)
    rig.take(rig.east(1), rig.east(2))
    for n in range(1, 60):
        rig.take(rig.east(1, body=b"evil", source=bytes([n]) * 16), peer=STRANGER)
    rig.take(rig.east(2), rig.east(3))
    assert [body for body in rig.bodies_of() if body != "evil"] == ["1", "2", "3"]


@pytest.mark.parametrize("first", [True, False])
def test_what_became_of_a_message_is_told_to_the_host_that_sent_it(
    rig: EastRig, first: bool
) -> None:
    wants = {"negative_journaling_requested": True, "ordinal": 77}
    forged, real = rig.east(1, 0, b"evil", **wants), rig.east(1, 0, b"real", **wants)
    for packet, peer in ((forged, STRANGER), (real, PEER))[:: 1 if first else -1]:
        rig.take(packet, peer=peer)
    rig.restart()
    assert rig.bodies_of() == (["evil", "real"] if first else ["real", "evil"])
    descriptor = rig.open("east", RECEIVE)
    rig.receive(descriptor)
    assert len(rig.owed_to(STRANGER if first else PEER)) == 1
    assert not rig.owed_to(PEER if first else STRANGER)
    rig.receive(descriptor)
    assert len(rig.owed_to(PEER)) == len(rig.owed_to(STRANGER)) == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_a_run_of_messages_keeps_who_is_told(rig: EastRig, at_once: bool) -> None:
    """Messages that come together are taken together, and cost no more for asking."""
    real = [rig.east(n, None, b"", negative_journaling_requested=True) for n in range(1, 8)]
    forged = rig.east(1, 0, b"evil", negative_journaling_requested=True)
    if at_once:
        assert rig.manager.transfer.receiving._run(PEER, real, summarize_all(real)) is not None
        rig.take(*real)
    else:
        for packet in real:
            rig.take(packet)
    rig.take(forged, peer=STRANGER)
    rig.restart()
    descriptor = rig.open("east", RECEIVE)
    for _ in range(8):
        rig.receive(descriptor)
    assert [final.sequence_number for final in rig.owed_to(PEER)] == list(range(1, 8))
    assert [final.sequence_number for final in rig.owed_to(STRANGER)] == [1]
    rig.restart()
    assert len(rig.owed_to(PEER)) == 7


def test_a_machine_that_moved_is_told_what_became_of_what_it_sent_before(rig: EastRig) -> None:
    wants = {"negative_journaling_requested": True}
    rig.take(rig.east(1, **wants), rig.east(2, **wants))
    rig.take(rig.east(3, **wants), peer=MOVED)
    descriptor = rig.open("east", RECEIVE)
    for _ in range(3):
        rig.receive(descriptor)
    assert [final.sequence_number for final in rig.owed_to(MOVED)] == [1, 2, 3]
    assert [final.sequence_number for final in rig.owed_to(PEER)] == [1, 2]


def test_a_machine_is_told_of_each_message_that_strangers_have_sent_before_it(rig: EastRig) -> None:
    """From several hosts in turn: it has gone on from each of them."""
    wants = {"negative_journaling_requested": True}
    real = [rig.east(n, **wants) for n in range(1, 7)]
    other = Peer(FAR_GUID, "198.51.100.9")
    for at, packet in enumerate(real):
        if at % 2:
            rig.take(packet, peer=STRANGER if at % 4 == 1 else other)
        rig.take(packet)
    rig.restart()
    descriptor = rig.open("east", RECEIVE)
    for _ in real:
        rig.receive(descriptor)
    assert [final.sequence_number for final in rig.owed_to(PEER)] == [1, 2, 3, 4, 5, 6]


def test_a_machine_of_the_directory_is_told_of_what_a_stranger_has_sent_before_it(
    rig: EastRig,
) -> None:
    """Its answers may go over routers, where nobody has a session to get copies on."""
    rig.enter_machine()
    eve = Peer(FAR_GUID, "192.0.2.9", may_pass_on=lambda source: False)
    router = Peer(bytes(range(80, 96)), "192.0.2.5")
    packet = rig.east(1, negative_journaling_requested=True)
    rig.take(packet, peer=eve)
    rig.take(packet, peer=router)
    rig.receive(rig.open("east", RECEIVE))
    rig.restart()
    assert [final.sequence_number for final in rig.owed_to(eve)] == [1]
    rig.advance(AWAY_S + 1)
    assert not rig.owed_to(eve)
    assert [final.sequence_number for final in rig.owed_to(Peer(FAR_GUID, ""))] == [1]


def test_a_machine_that_has_left_the_directory_is_answered_at_its_host_alone(rig: EastRig) -> None:
    """Nothing shows the way to where it was, and whoever comes next would get what waits there."""
    entry = objects.QueueManager(identifier=FAR_GUID, computer_name="FAR")
    eve = Peer(FAR_GUID, "192.0.2.9", may_pass_on=lambda source: False)
    packet = rig.east(1, negative_journaling_requested=True)
    rig.enter_machine()
    rig.take(packet, peer=eve)
    rig.take(packet)
    service, clock = rig.manager.directory.service, rig.clock
    rig.run(lambda m: service.delete_directory_object(entry, clock.now_ms))
    rig.receive(rig.open("east", RECEIVE))
    assert not rig.owed_to(Peer(FAR_GUID, ""))
    assert [final.sequence_number for final in rig.owed_to(eve)] == [1]


def test_a_refusal_is_told_to_the_host_that_sent_the_message() -> None:
    """A queue that is not there, in the name and at the place of another machine's message."""
    rig = EastRig(send_insecure_nacks=True)
    rig.take(rig.east(1))
    nowhere = r"DIRECT=OS:ALPHA\private$\none"
    evil = rig.transactional(2, 1, destination_queue_format_name=nowhere, ordinal=102)
    rig.take(evil, peer=IMPOSTOR)
    assert not rig.owed_to(PEER)
    assert len(rig.owed_to(IMPOSTOR)) == 1


def opened_after_version_0_1(rig: EastRig) -> None:
    """Two messages have come in; what is known of their sequence is as version 0.1 wrote it."""
    rig.take(rig.east(1), rig.east(2))
    (info,) = rig.manager.transfer.incoming_of(rig.queue("east"))
    change = Change()
    key = rig.queue("east").number.to_bytes(4, "little") + FAR_GUID
    old = replace(info, host="", accepted=0)
    rig.manager.ledger.define(TABLE_INCOMING, key + EAST[7:].lower().encode(), encode(old), change)
    for table, name in list(rig.manager.ledger.state.definitions):
        if table in (TABLE_INCOMING, TABLE_PLACES) and name[-1:] == b"7":
            rig.manager.ledger.define(table, name, None, change)
    rig.run(lambda m: m.ledger.commit(change))
    rig.restart()
    assert [info.host for info in rig.manager.transfer.incoming_of(rig.queue("east"))] == [""]


def test_a_sequence_of_version_0_1_is_of_the_host_that_it_came_from_last(rig: EastRig) -> None:
    opened_after_version_0_1(rig)
    rig.take(rig.east(3, 2, b"evil"), peer=STRANGER)
    rig.take(rig.east(2), rig.east(3))
    assert rig.bodies_of() == ["1", "2", "evil", "3"]


@pytest.mark.parametrize("resent", [1, 2, 3])
def test_a_machine_that_moves_while_version_0_1_is_replaced_goes_on(
    rig: EastRig, resent: int
) -> None:
    """Containers that are started again have other addresses; what 0.1 accepted is not doubled."""
    opened_after_version_0_1(rig)
    real = [rig.east(n) for n in range(resent, 5)]
    rig.take(*real, peer=MOVED)
    assert rig.order(MOVED) == [(5, 4)]
    rig.clock.advance(2 * INSISTS_MS)
    rig.take(*real, rig.east(5), peer=MOVED)
    assert rig.bodies_of() == ["1", "2", "3", "4", "5"]


def test_a_machine_that_moved_and_sends_nothing_gets_what_waits_for_it_elsewhere(
    rig: EastRig,
) -> None:
    wants = {"negative_journaling_requested": True}
    rig.take(rig.east(1, **wants), rig.east(2, **wants))
    descriptor = rig.open("east", RECEIVE)
    rig.receive(descriptor)
    rig.receive(descriptor)
    rig.restart()
    for _ in range(2):
        assert rig.run(lambda m: m.transfer.share_answers(FAR_GUID, [MOVED.host]))
    assert [final.sequence_number for final in rig.owed_to(MOVED)] == [1, 2]
    assert len(rig.owed_to(PEER)) == 2
    rig.advance(AWAY_S + 1)
    assert not rig.owed_to(PEER)
    assert len(rig.owed_to(MOVED)) == 2


def test_order_acknowledgments_that_nobody_takes_are_not_kept(rig: EastRig) -> None:
    rig.take(rig.east(1))
    assert rig.order() == [(5, 1)]
    rig.advance(ORDER_ACK_S + 1)
    assert not rig.owed_to(PEER)
    rig.take(rig.east(1))
    assert rig.order() == [(5, 1)]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_sequence_that_begins_in_the_future_is_refused(at_once: bool) -> None:
    rig = EastRig(sequence_ahead_s=60)
    late = START_UTC + 61
    packets = [rig.east(n, sequence=(late, 1)) for n in (1, 2)]
    for some in [packets] if at_once else [packets[:1], packets[1:]]:
        rig.take(*some)
    assert rig.bodies_of() == []
    assert rig.manager.machine.refusals["sequence_of_the_future"] == 2
    rig.clock.advance(1000)
    rig.take(*packets)
    assert rig.bodies_of() == ["1", "2"]


def test_a_sequence_goes_on_when_our_clock_is_put_back() -> None:
    rig = EastRig(sequence_ahead_s=60)
    rig.take(rig.east(1, sequence=(START_UTC + 60, 1)))
    rig.clock.step_utc(-86_400)
    rig.take(rig.east(2, sequence=(START_UTC + 60, 1)))
    assert rig.bodies_of() == ["1", "2"]


# -- what operators can do


def test_a_sequence_that_was_reset_goes_on_with_whatever_comes(rig: EastRig) -> None:
    rig.take(rig.east(1), rig.east(2))
    rig.take(rig.east(9))
    assert rig.bodies_of() == ["1", "2"]
    queue = rig.queue("east")
    ((key, one),) = rig.manager.transfer.outgoing.lineages.turned_away.items()
    assert key == (queue.number, FAR_GUID, EAST, PEER.host)
    assert (one.place[1], one.previous, one.messages) == (9, 8, 1)
    reset = rig.manager.transfer.reset
    assert len(rig.run(lambda m: reset(queue, FAR_GUID, PEER.host, dry_run=True))) == 1
    rig.take(rig.east(9))
    assert not rig.run(lambda m: reset(queue, None, "192.0.2.200", dry_run=False))
    assert len(rig.run(lambda m: m.transfer.reset(queue, None, None, dry_run=False))) == 1
    rig.restart()
    rig.take(rig.east(9), rig.east(10))
    assert rig.bodies_of() == ["1", "2", "9", "10"]
    assert not rig.manager.transfer.outgoing.lineages.turned_away


def test_a_sequence_that_is_rejected_for_a_while_is_logged_once(rig: EastRig) -> None:
    rig.take(rig.east(1))
    for _ in range(4):
        rig.take(rig.east(9))
        rig.clock.advance(LASTING_S * 1000)
    told = [event.details for event in rig.events if event.name == "sequence_rejected"]
    assert [(each["address"], each["number"]) for each in told] == [(PEER.host, 9)]
    (disputed,) = health.sequences(rig.manager, [rig.queue("east")])  # in the status
    assert (disputed.address, disputed.messages) == (PEER.host, 4)
    rig.take(rig.east(2))
    assert not health.sequences(rig.manager, [rig.queue("east")])
