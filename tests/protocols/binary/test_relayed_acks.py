"""Whom routers, and those behind them, take for a router: nobody who only says so."""

from __future__ import annotations

import pytest

from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.protocols.binary.next_hop_lookup import get_next_hops
from posthouse.wire.binary.order_acks import (
    FinalAck,
    OrderAck,
    Origin,
    final_ack,
    order_ack,
    order_queue_of,
)
from tests.protocols.binary.memory_net import Machine
from tests.support.enterprise import BODIES, NORTH, ORDERS, SOUTH, Enterprise, entry_of, guid_of
from tests.support.stranger_cable import stranger

EVIL = "10.6.6.6"


@pytest.fixture
def enterprise() -> Enterprise:
    return Enterprise()


def liar(enterprise: Enterprise, machine: Machine) -> Machine:
    """Somebody elsewhere who says that they are this machine."""
    evil = enterprise.net.machine("EVIL", EVIL, routing_server=True)
    evil.create(ORDERS, transactional=True)
    evil.manager.machine.record.identifier = guid_of(machine)
    return evil


def forged(enterprise: Enterprise, source: bytes) -> list[bytes]:
    """Acknowledgments of ALPHA's only message, by one who guesses well."""
    manager = enterprise.alpha.manager
    queue = enterprise.alpha.outgoing(enterprise.to_omega)
    first = manager.transfer.outgoing.sequences.report(queue).first_non_ack
    assert first is not None
    name, utc = order_queue_of(manager.machine.identifier), manager.machine.utc
    order = OrderAck.of(first.sequence_id, first.number)
    final = FinalAck(first.sequence_id, first.number, 0, manager.machine.identifier, 1)
    return [
        order_ack(order, name, Origin(source, 1, utc)),
        final_ack(final, ACK_RECEIVE, name, Origin(source, 2, utc)),
    ]


@pytest.mark.parametrize("claimed", ["NOBODY", "OMEGA", "SOUTH", "GATE2"])
def test_a_stranger_acknowledges_nothing_through_a_router(
    enterprise: Enterprise, claimed: str
) -> None:
    """ALPHA believes its gates; so the gates do not believe everybody."""
    net, alpha = enterprise.net, enterprise.alpha
    net.unreachable.add("10.0.0.5")
    alpha.send_in_transaction(enterprise.to_omega, b"one")
    net.advance(1_000)
    guids = {machine.name: guid_of(machine) for machine in enterprise.machines}
    guid = guids.get(claimed, b"\x66" * 16)
    cable = stranger(enterprise.gates[0], guid)
    net.advance(1_000)
    for packet in forged(enterprise, guid):
        assert cable.session is not None
        cable.session.receive(packet)
    net.advance(1_000)
    assert enterprise.gates[0].manager.machine.refusals["acknowledgment_not_passed_on"] == 2
    assert alpha.outgoing(enterprise.to_omega).state.count == 1
    net.unreachable.clear()
    net.advance(60_000)
    assert enterprise.arrived() == [b"one"]


def test_routers_that_are_entered_by_address_pass_on_what_others_bring(
    enterprise: Enterprise,
) -> None:
    southern = (enterprise.south, enterprise.omega)
    for machine in enterprise.machines:
        site = SOUTH if machine in southern else NORTH
        enterprise.change(entry_of(machine, site, addresses=tuple(machine.addresses)))
    enterprise.alpha.send_in_transaction(
        enterprise.to_omega, *BODIES, positive_journaling_requested=True
    )
    enterprise.net.advance(5_000)
    for _ in BODIES:
        enterprise.omega.receive(ORDERS)
    enterprise.net.advance(60_000)
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5


@pytest.mark.parametrize("router", [0, 1])
def test_who_answers_under_the_guid_of_a_router_gets_nothing_of_it(
    enterprise: Enterprise, router: int
) -> None:
    """Anybody can make us connect to their own address, and say anything there."""
    net, alpha = enterprise.net, enterprise.alpha
    liar(enterprise, enterprise.gates[router])
    alpha.send(rf"DIRECT=TCP:{EVIL}\private$\anything", b"hello")
    net.advance(1_000)
    alpha.send_in_transaction(enterprise.to_omega, b"one")
    net.advance(5_000)
    assert enterprise.arrived() == [b"one"]
    hops = get_next_hops(alpha.manager, guid_of(enterprise.omega))
    assert EVIL not in [hop.host for hop in hops]


@pytest.mark.parametrize("router", [0, 1])
def test_who_calls_under_the_guid_of_a_router_gets_nothing_of_it(
    enterprise: Enterprise, router: int
) -> None:
    """Also not by transactional messages, whose acknowledgments have to find them again."""
    net, alpha = enterprise.net, enterprise.alpha
    alpha.create(ORDERS, transactional=True)
    evil = liar(enterprise, enterprise.gates[router])
    evil.send_in_transaction(r"DIRECT=TCP:10.0.0.1\private$\orders", b"bait")
    net.advance(5_000)
    alpha.send_in_transaction(enterprise.to_omega, b"one")
    net.advance(5_000)
    assert enterprise.arrived() == [b"one"]
    hops = get_next_hops(alpha.manager, guid_of(enterprise.omega))
    assert EVIL not in [hop.host for hop in hops]


def test_names_are_looked_up_once_however_often_a_machine_is_claimed(
    enterprise: Enterprise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name servers may be slow, and everybody waits for the same few threads."""
    omega, alpha = enterprise.omega, enterprise.alpha
    asked = []
    monkeypatch.setattr(
        type(omega), "resolve", lambda self, host, done: asked.append((self, host, done))
    )
    for _ in range(20):
        stranger(omega, guid_of(alpha))
    enterprise.net.run()
    hosts = [host for machine, host, _ in asked if machine is omega]
    assert len(hosts) == 1
    (done,) = [each for machine, _, each in asked if machine is omega]
    done(["10.0.0.1"], "")
    enterprise.net.run()
    assert not omega.protocol._whereabouts._waiting
