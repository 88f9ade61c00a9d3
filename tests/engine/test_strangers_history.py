"""Nobody suppresses messages of another machine by its identifiers (finding F3)."""

from __future__ import annotations

import msgspec
import pytest

from posthouse.engine.ledger.records import TABLE_HISTORY, Change
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import ACK_POS_ARRIVAL, ACK_POS_RECEIVE
from posthouse.model.message_classes import ACK_REACH_QUEUE, ACK_RECEIVE
from posthouse.wire.packet.digest import content_digest
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.patch import patch
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE

STRANGER = Peer(bytes(range(64, 80)), "192.0.2.9")
IMPOSTOR = Peer(FAR_GUID, "192.0.2.9")  # claims the GUID in its session too


@pytest.fixture
def rig() -> PeerRig:
    return PeerRig()


@pytest.mark.parametrize("express", [False, True])
@pytest.mark.parametrize("peer", [STRANGER, IMPOSTOR])
@pytest.mark.parametrize("at_once", [False, True])
def test_identifiers_that_a_stranger_has_used_first_are_still_their_owners(
    rig: PeerRig, express: bool, peer: Peer, at_once: bool
) -> None:
    rig.create("other")
    forged = [
        rig.packet(
            b"evil", ordinal=n, destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\other"
        )
        for n in range(1, 41)
    ]
    real = [rig.packet(b"%d" % n, ordinal=n, express=express) for n in range(10, 20)]
    rig.take(*forged, peer=peer)
    if at_once:
        rig.take(*real)
    else:
        rig.take_each(*real)
    bodies = [b"%d" % n for n in range(10, 20)]
    assert rig.bodies("orders") == bodies
    rig.take(*real)
    rig.take(*reversed(real), peer=peer)  # captured, and sent again from elsewhere
    assert rig.bodies("orders") == bodies
    assert len(rig.bodies("other")) == 40
    assert rig.manager.machine.conflicts["identifier"] == 10


def test_what_came_with_another_content_is_known_after_a_restart(rig: PeerRig) -> None:
    rig.take(rig.packet(b"evil", ordinal=5), peer=STRANGER)
    real = rig.packet(b"real", ordinal=5)
    rig.take(real)
    rig.restart()
    rig.take(real)
    rig.take(rig.packet(b"evil", ordinal=5), peer=STRANGER)
    assert rig.bodies("orders") == [b"evil", b"real"]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_came_second_is_known_when_what_came_first_is_forgotten(
    rig: PeerRig, at_once: bool
) -> None:
    rig.take(rig.packet(b"evil", ordinal=5, express=True), peer=STRANGER)
    real = [rig.packet(b"%d" % n, ordinal=n) for n in (5, 6)]
    rig.take(*real)
    rig.restart()  # express messages, and what is known of them, do not survive it
    for some in [real] if at_once else [real[:1], real[1:]]:
        rig.take(*some)
    assert rig.bodies("orders") == [b"5", b"6"]


@pytest.mark.parametrize("at_once", [False, True])
def test_what_came_after_an_express_message_of_another_is_known_after_a_crash(
    rig: PeerRig, at_once: bool
) -> None:
    """A crash forgets the express ones, and what is known of them."""
    real = [rig.packet(b"%d" % n, ordinal=n) for n in range(5, 8)]
    rig.take(*[rig.packet(b"evil", ordinal=n, express=True) for n in (5, 6)], peer=STRANGER)
    rig.take(*real)
    rig.restart()
    (rig.take if at_once else rig.take_each)(*real)
    assert [body for body in rig.bodies("orders") if body != b"evil"] == [b"5", b"6", b"7"]
    rig.take(rig.packet(b"evil", ordinal=5), peer=STRANGER)
    rig.restart()
    rig.take(*real)
    assert [body for body in rig.bodies("orders") if body != b"evil"] == [b"5", b"6", b"7"]


def test_what_came_second_is_known_when_the_first_is_dropped() -> None:
    rig = PeerRig(message_history_max=20)
    rig.take(rig.packet(b"evil", ordinal=5), peer=STRANGER)
    real = rig.packet(b"real", ordinal=5)
    rig.take(real)
    rig.take(*[rig.packet(b"x", source=b"E" * 16, ordinal=n) for n in range(30)], peer=STRANGER)
    history = rig.manager.transfer.receiving.history
    assert not history.knows(FAR_GUID, 5, content_digest(*_seen(rig.packet(b"evil", ordinal=5))))
    rig.take(real)
    rig.take_each(real, real)
    assert rig.bodies("orders").count(b"real") == 1
    rig.restart()
    rig.take(real)
    assert rig.bodies("orders").count(b"real") == 1


def _seen(packet: bytes) -> tuple[bytes, PacketSummary]:
    return packet, summarize(packet)


def test_two_contents_under_one_identifier_in_one_batch_are_two_messages(rig: PeerRig) -> None:
    packets = [rig.packet(body, ordinal=5) for body in (b"one", b"two", b"one", b"two")]
    rig.take(*packets)
    rig.take(*packets)
    assert rig.bodies("orders") == [b"one", b"two"]


def test_a_conflict_is_logged_once_with_both_addresses(rig: PeerRig) -> None:
    for ordinal in range(1, 6):
        rig.take(rig.packet(b"evil", ordinal=ordinal), peer=STRANGER)
        rig.take(rig.packet(b"real", ordinal=ordinal))
    told = [event for event in rig.events if event.name == "identifier_conflict"]
    assert [(event.details["address"], event.details["other"]) for event in told] == [
        (PEER.host, STRANGER.host)
    ]


def test_a_flood_from_one_address_drops_nothing_of_another() -> None:
    rig = PeerRig(message_history_max=100)
    real = [rig.packet(b"%d" % n, ordinal=1000 + n) for n in range(20)]
    rig.take(*real)
    for start in range(0, 500, 50):
        forged = [
            rig.packet(b"evil", source=b"E" * 16, ordinal=n + 1) for n in range(start, start + 50)
        ]
        rig.take(*forged, peer=STRANGER)
    rig.take(*real, peer=STRANGER)  # repeating them does not make them theirs
    rig.take(
        *[rig.packet(b"x", source=b"E" * 16, ordinal=n) for n in range(900, 999)], peer=STRANGER
    )
    assert rig.manager.transfer.receiving.history.count == 100
    before = rig.bodies("orders")
    rig.take(*real)
    rig.restart()
    rig.take(*real)
    assert rig.bodies("orders") == before


def test_addresses_of_one_ipv6_network_share_what_they_fill() -> None:
    rig = PeerRig(message_history_max=100)
    real = [rig.packet(b"%d" % n, ordinal=1000 + n) for n in range(20)]
    rig.take(*real)
    for n in range(300):
        forged = rig.packet(b"evil", source=b"E" * 16, ordinal=n + 1)
        rig.take(forged, peer=Peer(b"E" * 16, f"2001:db8::{n:x}"))
    before = len(rig.bodies("orders"))
    rig.take(*real)
    assert len(rig.bodies("orders")) == before


def test_entries_of_version_0_1_agree_with_any_content(rig: PeerRig) -> None:
    old = msgspec.msgpack.encode((rig.clock.utc_seconds, [(FAR_GUID, b"\7\0\0\0\11\0\0\0")]))
    change = Change()
    rig.manager.ledger.define(TABLE_HISTORY, bytes(7) + b"\1", old, change)
    rig.run(lambda m: m.ledger.commit(change))
    rig.restart()
    rig.take(rig.packet(b"again", ordinal=7), rig.packet(b"new", ordinal=8))
    assert rig.bodies("orders") == [b"new"]


def test_what_a_transfer_changes_is_not_in_the_digest(rig: PeerRig) -> None:
    packet = rig.transactional(7, 6)
    seen = summarize(packet)
    digest = content_digest(packet, seen)
    for changed in (
        patch(packet, hop_count=3),
        patch(packet, time_to_reach_queue=99),
        patch(packet, previous_sequence_number=2),
        packet[:32] + b"A" * 16 + packet[48:],
    ):
        assert changed != packet
        assert content_digest(changed, summarize(changed)) == digest


def test_every_other_byte_is_in_the_digest(rig: PeerRig) -> None:
    packet = rig.transactional(7, 6, label="label", body=b"body", extension=b"ext")
    seen = summarize(packet)
    digest, at = content_digest(packet, seen), seen.transaction_at
    left_out = {*range(12, 16), *range(32, 48), *range(at + 16, at + 20)}
    for place in range(len(packet)):
        changed = bytearray(packet)
        changed[place] ^= 0x80
        same = content_digest(bytes(changed), seen) == digest
        assert same is (place in left_out), place


@pytest.mark.parametrize("transactional", [False, True])
def test_answers_of_a_message_that_a_stranger_has_repeated_first_are_its_machines(
    transactional: bool,
) -> None:
    """The name for answers leads to the machine, and not to who brings the message."""
    rig = PeerRig()
    rig.create("east", transactional=True)
    wants = {
        "administration_queue_format_name": rf"DIRECT=TCP:{PEER.host}\private$\answers",
        "acknowledgements_requested": ACK_POS_ARRIVAL | ACK_POS_RECEIVE,
    }
    if transactional:
        packet = rig.transactional(
            1, 0, destination_queue_format_name=r"DIRECT=OS:ALPHA\private$\east", **wants
        )
    else:
        packet = rig.packet(b"captured", **wants)
    rig.take(packet, peer=STRANGER)
    assert not rig.manager.queues.outgoing_queues()
    rig.take(packet)
    rig.take(packet)
    descriptor = rig.open("east" if transactional else "orders", RECEIVE)
    rig.receive(descriptor)
    (queue,) = [
        each
        for each in rig.manager.queues.outgoing_queues()
        if "answers" in each.definition.format_name
    ]
    codes = [
        summarize(rig.store.read(number)).message_class for _, number in queue.state.order.forward()
    ]
    assert codes == [ACK_REACH_QUEUE, ACK_RECEIVE]
