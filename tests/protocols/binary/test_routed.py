"""Messages that travel over routing servers and site gates, end to end."""

from __future__ import annotations

import pytest

from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.guids import format_guid
from posthouse.protocols.binary.next_hop_lookup import Candidate, Unresolved, get_next_hops
from posthouse.protocols.binary.session import Role
from tests.support.enterprise import BODIES, NORTH, ORDERS, SOUTH, Enterprise, entry_of, guid_of
from tests.support.stranger_cable import stranger


@pytest.fixture
def enterprise() -> Enterprise:
    return Enterprise()


@pytest.mark.spec("MS-MQQB 3.1.7.5/1")
def test_transactions_pass_gates_and_are_acknowledged_end_to_end(enterprise: Enterprise) -> None:
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    assert enterprise.arrived() == BODIES
    enterprise.net.advance(5_000)
    # Nobody went past the gates, and everything is acknowledged on the same ways back.
    by_alpha = [s.remote_address for s in enterprise.alpha.protocol.sessions]
    assert "10.0.0.5" not in by_alpha
    assert {s.remote_address for s in enterprise.omega.protocol.sessions} == {"10.0.0.4"}
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5


def test_a_dead_gate_is_passed_by(enterprise: Enterprise) -> None:
    service = enterprise.alpha.manager.directory.service
    first = service.next_hops(guid_of(enterprise.omega), 0).candidates[0]
    dead = next(gate for gate in enterprise.gates if guid_of(gate) == first)
    dead.kill()
    enterprise.net.machines.remove(dead)
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(5_000)
    assert enterprise.arrived() == BODIES
    assert enterprise.waiting(enterprise.alpha) == 0


@pytest.mark.parametrize("name", ["GATE1", "GATE2", "SOUTH"])
def test_a_router_that_restarts_loses_nothing(enterprise: Enterprise, name: str) -> None:
    router = next(machine for machine in enterprise.machines if machine.name == name)
    enterprise.net.unreachable.add("10.0.0.5")  # the router has to keep them
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(1_000)
    router.restart()
    enterprise.net.unreachable.clear()
    enterprise.net.advance(120_000)
    assert enterprise.arrived() == BODIES
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5


def test_destinations_behind_one_router_share_a_session(enterprise: Enterprise) -> None:
    gate, *others = enterprise.gates
    for other in others:
        other.kill()
        enterprise.net.machines.remove(other)
    enterprise.net.advance(1_000)
    notes = enterprise.south.create(r".\private$\notes")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    enterprise.net.advance(1_000)
    to_south = f"PRIVATE={format_guid(guid_of(enterprise.south))}\\{notes.number:08x}"
    enterprise.alpha.send(to_south, b"two")
    enterprise.net.advance(1_000)
    assert enterprise.south.bodies(r".\private$\notes") == [b"two"]
    (session,) = [s for s in enterprise.alpha.protocol.sessions if s.role is Role.INITIATOR]
    assert session.remote_guid == guid_of(gate)


def test_messages_of_the_own_site_go_straight(enterprise: Enterprise) -> None:
    gate = enterprise.gates[0]
    gate.create(ORDERS)
    found = get_next_hops(enterprise.alpha.manager, guid_of(gate))
    assert found[-1] == Candidate("GATE1", 1801, guid_of(gate))


def test_a_place_in_the_directory_beats_the_name(enterprise: Enterprise) -> None:
    entry = entry_of(enterprise.gates[0], NORTH, addresses=("10.0.0.2:2801", "gate.example"))
    enterprise.change(entry)
    guid = guid_of(enterprise.gates[0])
    assert get_next_hops(enterprise.alpha.manager, guid) == [
        Candidate("10.0.0.2", 2801, guid),
        Candidate("gate.example", 1801, guid),
    ]


def test_why_there_is_no_way_is_said_where_operators_look(enterprise: Enterprise) -> None:
    enterprise.change(entry_of(enterprise.omega))  # in no site
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    enterprise.net.advance(1_000)
    queue = enterprise.alpha.outgoing(enterprise.to_omega)
    assert queue.outgoing is not None
    assert "OMEGA is in no site" in queue.outgoing.last_error
    enterprise.change(entry_of(enterprise.omega, SOUTH))
    enterprise.net.advance(60_000)
    assert enterprise.arrived() == [b"one"]


def test_only_a_router_where_it_belongs_brings_acknowledgments_of_others(
    enterprise: Enterprise,
) -> None:
    enterprise.net.unreachable.add("10.0.0.5")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    number = enterprise.alpha.outgoing(enterprise.to_omega).number
    protocol = enterprise.alpha.protocol
    (own,) = [link.session for link in protocol.links.all()]
    assert own is not None
    other = next(gate for gate in enterprise.gates if guid_of(gate) != own.remote_guid)
    other.send(f"PRIVATE={format_guid(guid_of(enterprise.alpha))}\\00000099", b"refused")
    (came,) = protocol.sessions_with(guid_of(other))
    assert protocol.peer_of(came).may_acknowledge(number)

    for claimed in (guid_of(other), guid_of(enterprise.south), b"\x66" * 16):
        stranger(enterprise.alpha, claimed)
        enterprise.net.run()  # names are looked up
        session = protocol.sessions_with(claimed)[-1]
        assert not protocol.peer_of(session).may_acknowledge(number)


def test_a_router_brings_nothing_for_queues_named_by_their_host(enterprise: Enterprise) -> None:
    direct = r"DIRECT=TCP:10.0.0.5\private$\orders"
    enterprise.net.unreachable.add("10.0.0.5")
    enterprise.alpha.send_in_transaction(direct, b"one")
    gate = enterprise.gates[0]
    gate.send(f"PRIVATE={format_guid(guid_of(enterprise.alpha))}\\00000099", b"refused")
    (came,) = enterprise.alpha.protocol.sessions_with(guid_of(gate))
    number = enterprise.alpha.outgoing(direct).number
    assert not enterprise.alpha.protocol.peer_of(came).may_acknowledge(number)


def test_hops_that_the_directory_does_not_have_are_no_way(enterprise: Enterprise) -> None:
    entry = entry_of(enterprise.alpha, NORTH, out_routing_server_identifier_list=(b"\x66" * 16,))
    enterprise.change(entry)
    with pytest.raises(Unresolved, match="no next hop") as failed:
        get_next_hops(enterprise.alpha.manager, guid_of(enterprise.omega))
    assert failed.value.status is ConnectionStatus.ROUTING_DATA_NOT_AVAILABLE


def test_messages_that_go_round_in_circles_end_with_a_reason(enterprise: Enterprise) -> None:
    """Each of two routers believes that the other one is the entrance to OMEGA."""
    one, other = enterprise.gates
    for machine in enterprise.machines:
        entrance = other if machine is one else one
        entry = entry_of(
            enterprise.omega, NORTH, in_routing_server_identifier_list=(guid_of(entrance),)
        )
        enterprise.enter(machine, [entry], again=True)
    enterprise.alpha.send(enterprise.to_omega, b"lost")
    enterprise.net.advance(60_000)
    assert enterprise.arrived() == []
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5
    refused = [m.manager.machine.refusals["nack-hop-count-exceeded"] for m in (one, other)]
    assert sum(refused) == 1
