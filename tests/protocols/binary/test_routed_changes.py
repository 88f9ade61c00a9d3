"""Ways that change while messages travel, and acknowledgments that come back on others."""

from __future__ import annotations

import pytest

from posthouse.directory.objects import Queue, RoutingLink
from posthouse.engine.manager import QueueManager as Engine
from posthouse.model.guids import format_guid
from posthouse.model.message import ACK_POS_RECEIVE
from posthouse.protocols.binary.network import BinaryAttempt
from posthouse.protocols.binary.next_hop_lookup import get_next_hops
from posthouse.protocols.binary.peer_addresses import LOOK_UP_MS
from posthouse.protocols.binary.session import Role
from tests.protocols.binary.memory_net import Machine
from tests.support.enterprise import (
    BODIES,
    NORTH,
    ORDERS,
    QUICK,
    SOUTH,
    Enterprise,
    entry_of,
    guid_of,
)

GATES = {"10.0.0.2", "10.0.0.3"}
OTHERS = {"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}


@pytest.fixture
def enterprise() -> Enterprise:
    return Enterprise()


def waiting(enterprise: Enterprise) -> list[int]:
    return [enterprise.waiting(machine) for machine in enterprise.machines]


def look(machine: Machine) -> None:
    """As after an import: what waits looks for its way again."""

    def run(manager: Engine) -> None:
        for queue in manager.queues.outgoing_queues():
            manager.transfer.retry(queue)

    machine.call(run)


def cut_off(machine: Machine, address: str) -> None:
    """The machine does not reach this address, though others do."""
    net, honest = machine.net, machine._connect

    def connect(to: str, port: int, attempt: BinaryAttempt) -> None:
        net.unreachable.add(address)
        honest(to, port, attempt)
        net.unreachable.discard(address)

    machine._connect = connect  # type: ignore[method-assign, assignment]


@pytest.mark.spec("MS-MQQB 3.1.7.5/1")
def test_acknowledgments_come_over_gates_of_other_sites(enterprise: Enterprise) -> None:
    """A gate sends; the answers come from a gate of another site, which has opened the session."""
    gate = enterprise.gates[0]
    gate.send_in_transaction(enterprise.to_omega, *BODIES, positive_journaling_requested=True)
    enterprise.net.advance(5_000)
    assert enterprise.arrived() == BODIES
    enterprise.net.advance(900_000)  # sessions have ended, so that it is SOUTH that connects
    gate.protocol.links.callers.clear()
    for _ in BODIES:
        enterprise.omega.receive(ORDERS)
    enterprise.net.advance(60_000)
    assert waiting(enterprise) == [0] * 5


@pytest.mark.parametrize("named", [False, True])
def test_answers_of_a_machine_that_is_known_by_its_name_count(
    enterprise: Enterprise, named: bool
) -> None:
    """ALPHA sends through a gate, and its neighbour answers on its own."""
    net, alpha, gate = enterprise.net, enterprise.alpha, enterprise.gates[0]
    enterprise.change(entry_of(enterprise.omega, NORTH))
    enterprise.enter(gate, [entry_of(enterprise.omega, NORTH, addresses=("10.0.0.5",))], again=True)
    entry = entry_of(alpha, NORTH, out_routing_server_identifier_list=(guid_of(gate),))
    enterprise.change(entry)
    where = net.names.pop("omega")
    if named:
        net.names["omega"] = where
    alpha.send_in_transaction(enterprise.to_omega, *BODIES, positive_journaling_requested=True)
    net.advance(5_000)
    assert enterprise.arrived() == BODIES
    for _ in BODIES:
        enterprise.omega.receive(ORDERS)
    net.advance(5_000)
    # Where nobody can tell where OMEGA is, its answers wait there: nobody says them twice.
    assert enterprise.waiting(alpha) == (0 if named else len(BODIES))
    assert bool(enterprise.waiting(enterprise.omega)) is not named
    net.names["omega"] = where
    net.advance(900_000)
    assert waiting(enterprise) == [0] * 5


def test_what_comes_while_a_name_is_looked_up_waits_but_not_for_ever(
    enterprise: Enterprise, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = enterprise.gates[0]
    notes = gate.create(r".\private$\notes")
    to_gate = f"PRIVATE={format_guid(guid_of(gate))}\\{notes.number:08x}"
    monkeypatch.setattr(gate, "resolve", lambda host, done: None)  # no answer ever comes
    enterprise.alpha.send(to_gate, b"one", b"two")
    assert gate.bodies(r".\private$\notes") == []
    enterprise.net.advance(LOOK_UP_MS)
    assert gate.bodies(r".\private$\notes") == [b"one", b"two"]


def test_answers_for_queues_named_by_their_host_come_over_routers(enterprise: Enterprise) -> None:
    direct = r"DIRECT=TCP:10.0.0.5\private$\orders"
    enterprise.alpha.send_in_transaction(direct, *BODIES, positive_journaling_requested=True)
    enterprise.net.advance(1_000)
    assert enterprise.arrived() == BODIES
    cut_off(enterprise.alpha, "10.0.0.5")
    enterprise.net.advance(900_000)
    for _ in BODIES:
        enterprise.omega.receive(ORDERS)
    enterprise.net.advance(60_000)
    assert {s.remote_address for s in enterprise.omega.protocol.sessions} == {"10.0.0.4"}
    assert waiting(enterprise) == [0] * 5


def test_a_new_way_is_taken_at_once(enterprise: Enterprise) -> None:
    """While messages wait on the old one, the directory takes its gate out."""
    enterprise.net.unreachable.add("10.0.0.5")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    enterprise.net.advance(1_000)
    (session,) = [s for s in enterprise.alpha.protocol.sessions if s.role is Role.INITIATOR]
    old = next(gate for gate in enterprise.gates if guid_of(gate) == session.remote_guid)
    new = next(gate for gate in enterprise.gates if gate is not old)
    enterprise.change(entry_of(old, SOUTH))
    look(enterprise.alpha)
    enterprise.net.advance(100)
    (session,) = [s for s in enterprise.alpha.protocol.sessions if s.role is Role.INITIATOR]
    assert session.remote_guid == guid_of(new)
    enterprise.net.unreachable.clear()
    enterprise.net.advance(900_000)
    assert enterprise.arrived() == [b"one"]
    assert waiting(enterprise) == [0] * 5


def test_a_change_that_leaves_the_way_as_it_is_breaks_nothing(enterprise: Enterprise) -> None:
    enterprise.net.unreachable.add("10.0.0.5")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    enterprise.net.advance(1_000)
    before = list(enterprise.alpha.protocol.sessions)
    link = next(value for value in enterprise.objects() if isinstance(value, RoutingLink))
    enterprise.change(link)
    look(enterprise.alpha)
    enterprise.net.advance(100)
    assert list(enterprise.alpha.protocol.sessions) == before


def test_a_machine_of_the_site_that_does_not_answer_is_tried_through_a_router(
    enterprise: Enterprise,
) -> None:
    """The line between ALPHA and its neighbour is cut, but both reach the routing servers."""
    enterprise.change(entry_of(enterprise.omega, NORTH))
    cut_off(enterprise.alpha, "10.0.0.5")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(250)
    assert enterprise.arrived() == []
    guid = guid_of(enterprise.omega)
    assert {hop.guid for hop in get_next_hops(enterprise.alpha.manager, guid)} == {guid}
    enterprise.net.advance(10_000)
    assert enterprise.arrived() == BODIES


def test_routers_ask_no_other_routers_for_a_machine_that_is_down(enterprise: Enterprise) -> None:
    """Else its messages would go round among them until their hops are used up."""
    enterprise.change(entry_of(enterprise.omega, NORTH))
    enterprise.net.unreachable.add("10.0.0.5")
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(3_600_000)
    refused = [m.manager.machine.refusals["nack-hop-count-exceeded"] for m in enterprise.machines]
    assert refused == [0] * 5
    enterprise.net.unreachable.clear()
    enterprise.net.advance(900_000)
    assert enterprise.arrived() == BODIES
    assert waiting(enterprise) == [0] * 5


def test_who_listens_in_the_place_of_another_is_told(enterprise: Enterprise) -> None:
    gate = enterprise.gates[0]
    enterprise.change(entry_of(gate, NORTH, addresses=("10.0.0.4",)))
    name = f"PRIVATE={format_guid(guid_of(gate))}\\00000099"
    enterprise.alpha.send(name, b"one")
    enterprise.net.advance(100)
    outgoing = enterprise.alpha.outgoing(name).outgoing
    assert outgoing is not None
    assert "10.0.0.4 is not queue manager" in outgoing.last_error
    assert format_guid(guid_of(gate)) in outgoing.last_error


def test_a_machine_to_which_there_is_no_way_any_more_is_not_reached_past_the_gates(
    enterprise: Enterprise,
) -> None:
    """That it was reached before does not count: the directory knows it, and no way."""
    enterprise.change(entry_of(enterprise.omega, NORTH))
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"one")
    enterprise.net.advance(900_000)
    assert enterprise.arrived() == [b"one"]
    enterprise.change(entry_of(enterprise.omega))
    enterprise.alpha.send_in_transaction(enterprise.to_omega, b"two")
    enterprise.net.advance(60_000)
    assert enterprise.arrived() == [b"one"]
    outgoing = enterprise.alpha.outgoing(enterprise.to_omega).outgoing
    assert outgoing is not None
    assert "OMEGA is in no site" in outgoing.last_error


def test_what_has_no_way_takes_the_first_that_there_is(enterprise: Enterprise) -> None:
    """Nobody has to ask for it: the timer would let it wait for minutes."""
    enterprise.change(entry_of(enterprise.omega))
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(3_600_000)
    assert enterprise.arrived() == []
    enterprise.change(entry_of(enterprise.omega, SOUTH))
    enterprise.net.advance(1_000)
    assert enterprise.arrived() == BODIES


def test_a_machine_that_has_moved_is_tried_where_it_is_now(enterprise: Enterprise) -> None:
    enterprise.change(entry_of(enterprise.omega, NORTH, addresses=("10.0.0.9",)))
    enterprise.net.unreachable.add("10.0.0.9")
    enterprise.net.unreachable |= GATES  # no detour
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(3_600_000)
    enterprise.change(entry_of(enterprise.omega, NORTH, addresses=("10.0.0.5",)))
    enterprise.net.advance(1_000)
    assert enterprise.arrived() == BODIES


def test_a_change_that_says_nothing_new_does_not_end_a_pause(enterprise: Enterprise) -> None:
    enterprise.change(entry_of(enterprise.omega, NORTH))
    enterprise.net.unreachable |= OTHERS
    enterprise.alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    enterprise.net.advance(3_600_000)
    (link,) = enterprise.alpha.protocol.links.all()
    before = link.attempt
    enterprise.change(entry_of(enterprise.gates[0], NORTH))
    enterprise.net.advance(1_000)
    assert link.attempt == before


def test_a_change_ends_a_pause_once(enterprise: Enterprise) -> None:
    """Nobody knows the address of what it brought, and that will be so for a while."""
    net, alpha = enterprise.net, enterprise.alpha
    enterprise.change(entry_of(enterprise.omega, NORTH))
    net.names.pop("omega")
    net.unreachable |= GATES  # no detour
    alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    net.advance(3_600_000)
    (link,) = alpha.protocol.links.all()
    before = link.attempt
    enterprise.change(entry_of(enterprise.omega, NORTH))
    tried = link.attempt
    assert tried > before
    alpha.send(r"DIRECT=TCP:10.0.0.4\private$\none", b"something else happens")
    assert link.attempt == tried


def test_a_public_queue_that_the_directory_learns_of_gets_what_waits(
    enterprise: Enterprise,
) -> None:
    """The entry was taken out behind the sender's back, and comes again."""
    alpha, identifier = enterprise.alpha, b"\x07" * 16
    place = rf"{enterprise.omega.name}\orders"
    entry = Queue(
        identifier=identifier,
        pathname=place,
        queue_manager_identifier=guid_of(enterprise.omega),
        transactional=True,
    )
    enterprise.enter(alpha, [entry])
    name = f"PUBLIC={format_guid(identifier)}"
    enterprise.net.unreachable |= OTHERS
    alpha.send_in_transaction(name, *BODIES)

    def forget(manager: Engine) -> None:
        manager.directory.service.delete_directory_object(entry, manager.machine.now_ms)

    alpha.call(forget)
    enterprise.net.advance(3_600_000)
    outgoing = alpha.outgoing(name).outgoing
    assert outgoing is not None
    assert "the directory has no queue" in outgoing.last_error
    enterprise.enter(alpha, [entry])
    enterprise.net.advance(1_000)
    assert "the directory has no queue" not in outgoing.last_error


def test_routers_wait_until_they_have_heard_of_a_public_queue(enterprise: Enterprise) -> None:
    """A sender looks into a directory server at another time than routers do."""
    alpha, omega, net = enterprise.alpha, enterprise.omega, enterprise.net
    queue = omega.create(rf"{omega.name}\news", transactional=True)
    entry = Queue(
        identifier=queue.definition.identifier,
        pathname=queue.definition.pathname,
        queue_manager_identifier=guid_of(omega),
        transactional=True,
    )
    enterprise.enter(alpha, [entry])
    alpha.send_in_transaction(f"PUBLIC={format_guid(entry.identifier)}", *BODIES)
    net.advance(60_000)
    assert omega.bodies(entry.pathname) == []
    assert sum(map(enterprise.waiting, enterprise.gates)) == len(BODIES)
    for machine in (*enterprise.gates, enterprise.south):
        enterprise.enter(machine, [entry])
    net.advance(900_000)
    assert omega.bodies(entry.pathname) == BODIES
    assert waiting(enterprise) == [0] * 5


def test_one_session_with_a_next_hop_serves_all_behind_it(enterprise: Enterprise) -> None:
    """Also if each of them has tried to reach it on its own."""
    net, alpha = enterprise.net, enterprise.alpha
    notes = enterprise.south.create(r".\private$\notes")
    to_south = f"PRIVATE={format_guid(guid_of(enterprise.south))}\\{notes.number:08x}"
    net.unreachable |= GATES
    alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    net.advance(777)  # so that they do not try at the same time
    alpha.send(to_south, b"one")
    net.advance(20_000)
    net.unreachable.discard(min(GATES))
    net.advance(600_000)
    assert enterprise.arrived() == BODIES
    assert enterprise.south.bodies(r".\private$\notes") == [b"one"]
    assert alpha.protocol.figures().opened == {Role.INITIATOR.value: 1}


@pytest.mark.parametrize("answered", [True, False])
def test_new_messages_do_not_wait_with_those_that_were_sent(
    enterprise: Enterprise, answered: bool
) -> None:
    """Their session has ended: they wait for somebody to read them, or for acknowledgments."""
    net, alpha = enterprise.net, enterprise.alpha
    alpha.send_in_transaction(enterprise.to_omega, b"one", positive_journaling_requested=True)
    if not answered:
        net.unreachable.add("10.0.0.5")
    net.advance(900_000)
    net.unreachable.clear()
    while any(session.role is Role.INITIATOR for session in alpha.protocol.sessions):
        net.advance(1_000)
    assert enterprise.waiting(alpha) == 1
    alpha.send_in_transaction(enterprise.to_omega, b"two")
    net.advance(1_000)
    assert enterprise.arrived() == [b"one", b"two"]


def test_a_session_that_was_of_no_use_leaves_its_place_to_others(enterprise: Enterprise) -> None:
    """Those who bring the acknowledgments may need it: a gate takes this many sessions and no more.

    The gate ends it, for routers wait less; who hears of that does not come back at once.
    """
    net, alpha = enterprise.net, enterprise.alpha
    net.unreachable.add("10.0.0.5")
    alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    net.advance(1_000)
    while alpha.protocol.sessions:
        net.advance(1_000)
    opened = alpha.protocol.figures().opened[Role.INITIATOR.value]
    net.advance(QUICK.cleanup_ms - 10_000)
    assert alpha.protocol.figures().opened[Role.INITIATOR.value] == opened
    outgoing = alpha.outgoing(enterprise.to_omega).outgoing
    assert outgoing is not None
    assert outgoing.last_error == "what was sent is not acknowledged yet"
    net.advance(20_000)
    assert alpha.protocol.figures().opened[Role.INITIATOR.value] == opened + 1


@pytest.mark.parametrize("answered", [True, False])
def test_what_travelled_with_others_needs_no_session_of_its_own_at_once(
    enterprise: Enterprise, answered: bool
) -> None:
    """All of it was sent on a session with a gate that was there, and only waits to hear of it."""
    net, alpha, gate = enterprise.net, enterprise.alpha, enterprise.gates[0]
    notes = gate.create(r".\private$\notes")
    alpha.send(f"PRIVATE={format_guid(guid_of(gate))}\\{notes.number:08x}", b"hello")
    if not answered:
        net.unreachable.add("10.0.0.5")
    alpha.send_in_transaction(enterprise.to_omega, *BODIES, positive_journaling_requested=True)
    net.advance(1_000)
    while alpha.protocol.sessions:
        net.advance(1_000)
    pause_ms = QUICK.final_ack_look_ms if answered else QUICK.cleanup_ms
    (link,) = alpha.protocol.links.all()
    assert link.is_resting
    net.advance(pause_ms - 10_000)
    assert alpha.protocol.figures().opened[Role.INITIATOR.value] == 1
    net.advance(20_000)
    assert alpha.protocol.figures().opened[Role.INITIATOR.value] == 2


def test_what_travelled_with_others_finds_another_way_when_their_session_breaks(
    enterprise: Enterprise,
) -> None:
    """Also if nothing of it was sent: the engine knows of no session that it was on."""
    net, alpha, gate = enterprise.net, enterprise.alpha, enterprise.gates[0]
    notes = gate.create(r".\private$\notes")
    alpha.send(f"PRIVATE={format_guid(guid_of(gate))}\\{notes.number:08x}", b"hello")
    alpha.cables[-1].writable = False
    alpha.send_in_transaction(enterprise.to_omega, *BODIES)
    assert len(alpha.protocol.sessions) == 1
    gate.kill()
    net.advance(5_000)
    assert enterprise.arrived() == BODIES


@pytest.mark.parametrize("known", [False, True])
def test_who_sends_to_a_direct_name_hears_of_it_whether_the_directory_knows_him_or_not(
    enterprise: Enterprise, known: bool
) -> None:
    """Also if they know no directory themselves: every queue manager knows its own GUID."""
    net, omega = enterprise.net, enterprise.omega
    lone = net.machine("LONE", "10.0.0.9", settings=QUICK)
    lone.create(r".\private$\admin")
    if known:
        enterprise.enter(omega, [entry_of(lone, SOUTH, addresses=("10.0.0.9",))])
    lone.send_in_transaction(
        r"DIRECT=TCP:10.0.0.5\private$\orders",
        *BODIES,
        positive_journaling_requested=True,
        acknowledgements_requested=ACK_POS_RECEIVE,
        administration_queue_format_name=r"DIRECT=TCP:10.0.0.9\private$\admin",
    )
    net.advance(5_000)
    for _ in BODIES:
        omega.receive(ORDERS)
    net.advance(900_000)
    assert enterprise.waiting(lone) == enterprise.waiting(omega) == 0
    assert len(lone.bodies(r".\system$;journal")) == len(BODIES)
    assert len(lone.bodies(r".\private$\admin")) == len(BODIES)


def test_a_session_that_opens_when_there_is_a_better_way_is_left_at_once(
    enterprise: Enterprise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two routers that hand each other what they had on the way would go on with that for ever."""
    alpha, begun = enterprise.alpha, list[tuple[str, int, BinaryAttempt]]()
    with monkeypatch.context() as patched:
        patched.setattr(alpha, "connect", lambda *attempt: begun.append(attempt))
        alpha.send_in_transaction(enterprise.to_omega, *BODIES)
        enterprise.change(entry_of(enterprise.omega, NORTH))
    ((address, port, attempt),) = begun
    assert address in GATES
    alpha.connect(address, port, attempt)
    enterprise.net.advance(1_000)
    assert enterprise.arrived() == BODIES
    assert enterprise.net.connects[-1] == ("10.0.0.5", 1801)
    assert [session.remote_address for session in alpha.protocol.sessions] == ["10.0.0.5"]


def test_a_final_acknowledgment_survives_a_circle_that_lasts(enterprise: Enterprise) -> None:
    """It makes a round in every five minutes, and nobody takes the second for the first."""
    net, alpha, omega = enterprise.net, enterprise.alpha, enterprise.omega
    orders = alpha.create(ORDERS, transactional=True)
    name = f"PRIVATE={format_guid(guid_of(alpha))}\\{orders.number:08x}"
    omega.send_in_transaction(name, b"one", positive_journaling_requested=True)
    net.advance(1_000)
    for gate, other in (enterprise.gates, reversed(enterprise.gates)):
        leads = (guid_of(other),)
        entry = entry_of(omega, NORTH, in_routing_server_identifier_list=leads)
        enterprise.enter(gate, [entry], again=True)
    alpha.receive(ORDERS)
    net.advance(700_000)
    assert enterprise.waiting(omega) == 1
    assert sum(map(enterprise.waiting, enterprise.gates)) == 1
    enterprise.change(entry_of(omega, SOUTH))
    net.advance(1_000)
    assert enterprise.waiting(omega) == 0
    assert sum(map(enterprise.waiting, enterprise.machines)) == 0
