"""What strangers can fill gives up their own entries, and costs others little (F1, F6)."""

from __future__ import annotations

from sys import getprofile, setprofile
from typing import Any

import pytest

from posthouse.engine.ledger.records import Change
from posthouse.engine.transfer.incoming_sequences import NAMES_MAX
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_origins import INSISTS_MS
from posthouse.engine.transfer.shared_acknowledgments import HOSTS_MAX
from posthouse.model.bounded_tables import Shared
from tests.engine.arrivals import PEER
from tests.engine.letters import FAR_GUID
from tests.engine.rig import RECEIVE
from tests.support.stranger_rig import EAST, STRANGER, EastRig

SECOND = Peer(STRANGER.guid, "192.0.2.10")


@pytest.fixture
def rig() -> EastRig:
    return EastRig()


def at(host: int) -> Peer:
    """One host of a network that a stranger has."""
    return Peer(FAR_GUID, f"2001:db8::{host:x}")


def test_an_address_that_has_most_entries_gives_up_its_oldest() -> None:
    known: Shared[int, str] = Shared(lambda key, host: host, 3)
    for key, host in ((1, "a"), (2, "2001:db8::1"), (3, "2001:db8::2"), (4, "a"), (2, "b")):
        known[key] = host
    assert list(known.items()) == [(3, "2001:db8::2"), (4, "a"), (2, "b")]


def test_held_messages_of_strangers_do_not_keep_a_machine_waiting(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger fills the table of messages that are held, before the machine sends again."""
    lineages = rig.manager.transfer.outgoing.lineages
    monkeypatch.setattr(lineages.places, "entries_max", 3)
    monkeypatch.setattr(lineages._held, "_limit", 8)
    sources = [bytes([n]) * 16 for n in range(1, 12)]
    for source in (FAR_GUID, *sources):
        rig.take(*[rig.east(n, n - 1, b"evil", source=source) for n in range(1, 10)], peer=STRANGER)
    for _ in range(2):
        rig.take(rig.east(1), rig.east(2))
        for source in sources:
            rig.take(rig.east(1, body=b"held", source=source), peer=SECOND)
        rig.clock.advance(INSISTS_MS)
    assert [body for body in rig.bodies_of() if body not in ("evil", "held")] == ["1", "2"]


def test_hosts_of_one_network_share_what_is_kept_of_sequences(rig: EastRig) -> None:
    """Nor do they push out a machine in the same network that has sent for a while."""
    neighbour = at(0xFFFF)
    for number in range(1, 6):
        rig.take(rig.east(number), peer=neighbour)
    rig.take(rig.east(1, body=b"other"))
    for host in range(1, NAMES_MAX + 50):
        rig.take(rig.east(1, 0, b"evil"), peer=at(host))
    assert (
        len(rig.manager.transfer.outgoing.incoming_of(rig.queue("east"), FAR_GUID)) == NAMES_MAX + 1
    )
    rig.restart()
    rig.take(rig.east(6), peer=neighbour)
    rig.take(rig.east(2, body=b"another"))
    expected = ["1", "2", "3", "4", "5", "other", "6", "another"]
    assert [body for body in rig.bodies_of() if body != "evil"] == expected


def calls_of(action: Any) -> int:
    """How many functions of Python an action calls."""
    calls, before = 0, getprofile()

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    setprofile(count)
    try:
        action()
    finally:
        setprofile(before)
    return calls


def test_who_is_told_of_a_message_is_found_in_one_pass(rig: EastRig) -> None:
    """Each stranger who goes on from a machine's sequence is looked at once."""
    rig.take(rig.east(1, negative_journaling_requested=True))
    for host in range(1, 101):
        rig.take(rig.east(2, 1, b"evil"), peer=at(host))
    transfer, queue, place = rig.manager.transfer.outgoing, rig.queue("east"), (5 << 32 | 1, 1)
    found: list[str] = []
    calls = calls_of(lambda: found.extend(transfer.heirs(queue, FAR_GUID, EAST, PEER.host, place)))
    assert found[0] == PEER.host
    assert calls < 100 * 10
    rig.receive(rig.open("east", RECEIVE))
    assert len(rig.owed_to(PEER)) == 1


def test_what_a_deleted_queue_leaves_behind_is_cut_in_one_pass(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.incoming_sequences.LEFT_MAX", 20)
    rig.take(rig.east(1))
    for n in range(1, 201):
        rig.take(rig.east(1, body=b"evil", source=bytes([n]) * 16), peer=STRANGER)
    queue, transfer = rig.queue("east"), rig.manager.transfer.outgoing
    assert calls_of(lambda: transfer.queue_deleted(queue, Change())) < 200 * 50
    assert len(transfer._left) == 20
    assert transfer.incoming_at(queue.number, FAR_GUID, EAST, PEER.host) is not None


def test_callers_under_many_names_do_not_take_the_address_of_another_away(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is away while its message is received, and is still told."""
    monkeypatch.setattr("posthouse.engine.transfer.machine_addresses.CALLERS_MAX", 5)
    monkeypatch.setattr(rig.manager.transfer.outgoing, "is_connected", lambda guid: False)
    rig.run(lambda m: m.transfer.reached(FAR_GUID, PEER.address, None))
    rig.take(rig.east(1, negative_journaling_requested=True))
    for n in range(1, 20):
        rig.run(lambda m, guid=bytes([n]) * 16: m.transfer.reached(guid, STRANGER.address, None))
    rig.restart()
    monkeypatch.setattr(rig.manager.transfer.outgoing, "is_connected", lambda guid: False)
    rig.receive(rig.open("east", RECEIVE))
    assert len(rig.owed_to(PEER)) == 1


def waiting(rig: EastRig) -> dict[str, int]:
    """How many answers wait, by host."""
    queues = rig.manager.queues.outgoing_queues()
    return {q.definition.answers_at: q.state.count for q in queues if q.state.count}


def share(rig: EastRig, *hosts: str) -> None:
    """The machine, or somebody who claims its GUID, has sessions from these hosts."""
    rig.run(lambda m: m.transfer.share_answers(FAR_GUID, list(hosts)))


def with_final_answers(rig: EastRig, count: int) -> None:
    """The machine is away when its messages are received."""
    wants = {"negative_journaling_requested": True}
    rig.take(*[rig.east(n, **wants) for n in range(1, count + 1)])
    descriptor = rig.open("east", RECEIVE)
    for _ in range(count):
        rig.receive(descriptor)


def test_copies_of_answers_do_not_grow_however_often_addresses_change(rig: EastRig) -> None:
    """Somebody claims the GUID of a machine that is away, from two addresses in turn."""
    with_final_answers(rig, 5)
    for turn in range(6):
        share(rig, f"10.6.6.{turn % 2}")
    assert waiting(rig) == {PEER.host: 5, "10.6.6.0": 5, "10.6.6.1": 5}
    rig.restart()
    share(rig, "192.0.2.77")
    assert waiting(rig)["192.0.2.77"] == 5


def test_copies_of_answers_are_kept_for_few_hosts(rig: EastRig) -> None:
    with_final_answers(rig, 2)
    share(rig, *[f"2001:db8::{n:x}" for n in range(1, 100)])
    assert waiting(rig) == {PEER.host: 2, "2001:db8::63": 2}
    for n in range(50):
        share(rig, f"10.6.6.{n}")
    assert len(waiting(rig)) <= HOSTS_MAX + 2
    assert waiting(rig)[PEER.host] == 2  # what was not copied from elsewhere stays
    share(rig, "10.6.6.1")
    assert waiting(rig)["10.6.6.1"] == 2  # its copies were given up: it gets them again


def test_a_turn_copies_a_limited_number_of_answers(
    rig: EastRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posthouse.engine.transfer.shared_acknowledgments.COPIES_MAX", 3)
    with_final_answers(rig, 5)
    share(rig, "10.6.6.6")
    assert waiting(rig)["10.6.6.6"] == 3
    share(rig, "10.6.6.6")
    assert waiting(rig)["10.6.6.6"] == 5


def test_sources_that_nothing_waits_for_are_forgotten(rig: EastRig) -> None:
    for n in range(1, 200):
        source = bytes([n]) * 16
        wants = {"negative_journaling_requested": True, "source": source}
        rig.take(rig.east(1, **wants), peer=Peer(source, "192.0.2.9"))
        rig.receive(rig.open("east", RECEIVE))
        (queue,) = [q for q in rig.manager.queues.outgoing_queues() if q.state.count]
        rig.run(lambda m, queue=queue: m.messages.moving.purge(queue))
        rig.run(lambda m: m.queues.collection.outgoing_room.forget_idle())
    known = rig.manager.transfer.acks.shared._bound
    assert len(known) <= 2 * len(rig.manager.ledger.queues) + 1


@pytest.mark.parametrize("at_once", [True, False])
def test_a_machine_that_has_just_begun_is_not_pushed_out_by_its_network(
    rig: EastRig, at_once: bool
) -> None:
    """A stranger in the same /64 sends from more hosts than are kept of a network."""
    neighbour = at(0xFFFF)
    rig.take(rig.east(1), peer=neighbour)
    for host in range(1, NAMES_MAX + 50):
        for number in (1, 2):
            rig.take(rig.east(number, number - 1, b"evil"), peer=at(host))
    queue = rig.queue("east").number
    assert rig.manager.transfer.outgoing.incoming_at(queue, FAR_GUID, EAST, neighbour.host) is None
    rig.restart()
    again = [rig.east(number) for number in (1, 2, 3)]
    if at_once:
        rig.take(*again, peer=neighbour)
    else:
        for packet in again:
            rig.take(packet, peer=neighbour)
    assert [body for body in rig.bodies_of() if body != "evil"] == ["1", "2", "3"]
    assert rig.order(neighbour) == [(5, 3)]


def test_what_came_from_a_forgotten_host_does_not_come_in_twice(rig: EastRig) -> None:
    """Nobody else sends in the sequence, so that all of it could be one run."""
    run = [rig.east(number) for number in (1, 2, 3)]
    rig.take(*run)
    queue, transfer = rig.queue("east").number, rig.manager.transfer.outgoing
    (info,) = transfer.all_at(queue)
    name = transfer.name_of(info)
    rig.run(lambda m: transfer._forget_incoming(queue, FAR_GUID, name, Change()))
    rig.take(*run)
    assert rig.bodies_of() == ["1", "2", "3"]


def test_the_latest_of_a_network_is_known_until_it_is_acknowledged(rig: EastRig) -> None:
    """Each of its other hosts has sent more."""
    for host in range(1, NAMES_MAX + 1):
        rig.take(*[rig.east(number, number - 1, b"evil") for number in (1, 2, 3)], peer=at(host))
    rig.take(rig.east(1), peer=at(0xFFFF))
    assert rig.order(at(0xFFFF)) == [(5, 1)]
