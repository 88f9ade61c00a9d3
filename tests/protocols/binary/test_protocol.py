"""The whole protocol of a machine: sessions by GUID, who may say what, limits, figures."""

from __future__ import annotations

import pytest

from posthouse.directory import objects
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.model.guids import format_guid
from posthouse.protocols.binary import protocol as protocol_module
from posthouse.protocols.binary.session import BinarySession, Role, SessionState
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from posthouse.wire.binary.ping import ping_request, read_ping
from tests.protocols.binary.memory_net import Cable, Machine, Net

ORDERS = r".\private$\orders"
TO_BETA = r"DIRECT=TCP:10.0.0.2\private$\orders"
STRANGER = b"\x77" * 16


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def alpha(net: Net) -> Machine:
    return net.machine("ALPHA", "10.0.0.1")


@pytest.fixture
def beta(net: Net) -> Machine:
    made = net.machine("BETA", "10.0.0.2")
    made.create(ORDERS, transactional=True)
    return made


def session_of(machine: Machine, role: Role) -> BinarySession:
    (found,) = [session for session in machine.protocol.sessions if session.role is role]
    return found


def order_queue(machine: Machine) -> str:
    return f"PRIVATE={format_guid(machine.manager.machine.identifier)}\\00000004"


# -- sessions in both directions


@pytest.mark.spec("MS-MQQB 2.1.1/6", "MS-MQQB 3.1.1.6.2/7")
def test_order_acks_travel_back_on_the_session_of_the_messages(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    """Decision 40: also where the sender cannot be reached at all."""
    net.unreachable.add("10.0.0.1")
    alpha.send_in_transaction(TO_BETA, b"one", b"two")
    assert beta.bodies(ORDERS) == [b"one", b"two"]
    net.advance(2_000)
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert net.connects == [("10.0.0.2", 1801)]
    assert beta.outgoing(order_queue(alpha)).outgoing.state is OutgoingQueueState.CONNECTED  # type: ignore[union-attr]


@pytest.mark.spec("MS-MQQB 3.1.1.6.2/7")
def test_final_and_administration_acks_travel_back_on_it_too(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.create(r".\private$\answers")
    net.names.pop("alpha")
    net.unreachable.add("10.0.0.1")
    alpha.send_in_transaction(
        TO_BETA,
        b"one",
        positive_journaling_requested=True,
        acknowledgements_requested=3,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\answers",
    )
    net.advance(2_000)
    assert alpha.outgoing(TO_BETA).state.count == 1
    beta.receive(ORDERS)
    net.advance(2_000)
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert len(alpha.bodies(r".\private$\answers")) == 2
    assert net.connects == [("10.0.0.2", 1801)]


def test_two_machines_that_connect_to_each_other_have_two_sessions(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.create(ORDERS)
    alpha.send_in_transaction(TO_BETA, b"one")
    beta.send(r"DIRECT=TCP:10.0.0.1\private$\orders", b"two")
    net.advance(2_000)
    assert (alpha.bodies(ORDERS), beta.bodies(ORDERS)) == ([b"two"], [b"one"])
    for machine, other in ((alpha, beta), (beta, alpha)):
        assert {session.role for session in machine.protocol.sessions} == set(Role)
        found = machine.protocol.sessions_with(other.manager.machine.identifier)
        assert set(found) == set(machine.protocol.sessions)


def test_an_acknowledgment_that_is_owed_goes_when_its_receiver_calls_again(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.unreachable.add("10.0.0.1")
    alpha.send_in_transaction(TO_BETA, b"one")
    net.advance(400)
    beta.cables[0].other = None  # what it sends is lost
    net.advance(200)
    queue = beta.outgoing(order_queue(alpha))
    assert queue.state.count == 1
    assert alpha.outgoing(TO_BETA).state.count == 1
    beta.cables[0].lose("cut")
    net.run()
    assert queue.outgoing is not None
    assert queue.outgoing.state is OutgoingQueueState.DISCONNECTED
    alpha.cables[0].lose("cut")
    net.advance(20_000)
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert queue.state.count == 0


def test_a_session_that_is_dead_does_not_keep_acknowledgments_from_a_new_one(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.unreachable.add("10.0.0.1")
    alpha.send_in_transaction(TO_BETA, b"one")
    beta.cables[0].other = None
    alpha.cables[0].lose("cut")
    net.advance(8_000)
    assert len(beta.protocol.sessions_with(alpha.manager.machine.identifier)) == 2
    assert alpha.outgoing(TO_BETA).state.count == 0


def test_a_private_name_finds_a_machine_where_it_was_last_reached(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\private$\plain")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", b"one")
    net.advance(900_000)
    assert not alpha.protocol.sessions
    alpha.send(
        f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}", b"two"
    )
    assert beta.bodies(r".\private$\plain") == [b"one", b"two"]
    assert session_of(alpha, Role.INITIATOR).terms.remote_guid == beta.manager.machine.identifier


def test_a_private_name_uses_a_session_that_is_open(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\private$\plain")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", b"one")
    alpha.send(
        f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}", b"two"
    )
    assert beta.bodies(r".\private$\plain") == [b"one", b"two"]
    assert len(net.connects) == 1


def test_what_travelled_on_a_session_looks_for_another_way_when_it_ends(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\private$\plain")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", b"one")
    name = f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}"
    alpha.send(name, b"two")
    alpha.cables[0].lose("cut")
    beta.cables[0].lose("cut")
    alpha.send(name, b"three")
    net.advance(20_000)
    assert beta.bodies(r".\private$\plain") == [b"one", b"two", b"three"]


def test_a_machine_that_calls_need_not_wait_for_the_timers_of_those_who_look_for_it(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    beta.create(r".\private$\plain")
    alpha.create(r".\private$\plain")
    names = [rf"DIRECT={host}\private$\plain" for host in ("OS:beta", "TCP:10.0.0.2")]
    for name in names:
        alpha.send(name, b"one")
    net.advance(1_000)
    net.unreachable.add("10.0.0.2")
    for cable in alpha.cables + beta.cables:
        cable.lose("cut")
    for name in names:
        alpha.send(name, b"two")
    net.advance(200_000)
    net.unreachable.clear()
    assert len(beta.bodies(r".\private$\plain")) == 2
    beta.send(r"DIRECT=TCP:10.0.0.1\private$\plain", b"hello")
    assert len(beta.bodies(r".\private$\plain")) == 4


# -- who may say what (decisions 24 and 40)


def accept(machine: Machine, address: str, guid: bytes) -> tuple[Cable, BinarySession]:
    """A stranger's session, up to OPEN."""
    cable = Cable(machine.net, machine, address)
    session = machine.protocol.accept(cable, address)
    session.receive(establish_connection(guid, machine.manager.machine.identifier, time_stamp=1))
    session.receive(connection_parameters(500, 20_000, 64))
    assert session.state is SessionState.OPEN
    return cable, session


def test_a_second_session_that_claims_a_guid_from_elsewhere_carries_no_acks(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send_in_transaction(TO_BETA, b"one")
    cable, _ = accept(beta, "10.6.6.6", alpha.manager.machine.identifier)
    before = len(cable.sent)
    net.advance(2_000)
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert len(cable.sent) == before


def test_messages_for_a_machine_do_not_go_to_whoever_claims_its_guid(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\private$\plain")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", b"one")
    net.advance(900_000)
    cable, _ = accept(alpha, "10.6.6.6", beta.manager.machine.identifier)
    before = len(cable.sent)
    alpha.send(
        f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}", b"two"
    )
    assert beta.bodies(r".\private$\plain") == [b"one", b"two"]
    assert len(cable.sent) == before


def may_acknowledge(machine: Machine, session: BinarySession, name: str) -> bool:
    peer = machine.protocol.peer_of(session)
    return peer.may_acknowledge(machine.outgoing(name).number)


def test_acknowledgments_count_on_the_session_to_that_destination(
    alpha: Machine, beta: Machine
) -> None:
    alpha.send(r"DIRECT=TCP:10.0.0.9\private$\orders", b"elsewhere")
    alpha.send(TO_BETA, b"one")
    session = session_of(alpha, Role.INITIATOR)
    assert may_acknowledge(alpha, session, TO_BETA)
    assert not may_acknowledge(alpha, session, r"DIRECT=TCP:10.0.0.9\private$\orders")
    peer = alpha.protocol.peer_of(session)
    assert (peer.guid, peer.address) == (beta.manager.machine.identifier, "10.0.0.2")


def test_acknowledgments_count_for_a_queue_that_was_paused_meanwhile(
    alpha: Machine, beta: Machine
) -> None:
    alpha.send(TO_BETA, b"one")
    alpha.call(lambda manager: manager.transfer.pause_queue(alpha.outgoing(TO_BETA)))
    assert may_acknowledge(alpha, session_of(alpha, Role.INITIATOR), TO_BETA)


def test_acknowledgments_count_from_where_the_name_leads(alpha: Machine, beta: Machine) -> None:
    alpha.send(TO_BETA, b"one")
    _, real = accept(alpha, "10.0.0.2", beta.manager.machine.identifier)
    _, stranger = accept(alpha, "10.6.6.6", beta.manager.machine.identifier)
    _, other = accept(alpha, "10.0.0.2", STRANGER)
    assert may_acknowledge(alpha, real, TO_BETA)
    assert not may_acknowledge(alpha, stranger, TO_BETA)
    assert not may_acknowledge(alpha, other, TO_BETA)


def test_acknowledgments_count_from_addresses_of_the_settings(net: Net) -> None:
    alpha = net.machine("ALPHA", "10.0.0.1", settings=BinarySettings(ack_from=("10.6.6.6",)))
    alpha.send(TO_BETA, b"one")
    _, session = accept(alpha, "10.6.6.6", STRANGER)
    assert may_acknowledge(alpha, session, TO_BETA)


def test_what_callers_are_remembered_of_is_bounded(
    alpha: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_module, "CALLERS_MAX", 3)
    for number in range(5):
        accept(alpha, f"10.1.0.{number}", bytes([number + 1]) * 16)
    assert list(alpha.protocol.links.callers.values()) == ["10.1.0.2", "10.1.0.3", "10.1.0.4"]


# -- limits


def test_sessions_above_the_limit_are_refused_and_told_so(net: Net) -> None:
    """Decision 74."""
    beta = net.machine("BETA", "10.0.0.2", settings=BinarySettings(sessions_max=1))
    beta.create(ORDERS)
    one, two = net.machine("ONE", "10.0.0.3"), net.machine("TWO", "10.0.0.4")
    one.send(TO_BETA, b"one")
    two.send(TO_BETA, b"two")
    net.advance(2_000)
    assert beta.bodies(ORDERS) == [b"one"]
    assert beta.protocol.figures().refused == {"too many sessions": 1}
    queue = two.outgoing(TO_BETA)
    assert queue.outgoing is not None
    assert [hex(attempt.status) for attempt in queue.outgoing.connection_history][
        -1
    ] == "0x8000000b"
    one.stop()
    net.advance(20_000)
    assert beta.bodies(ORDERS) == [b"one", b"two"]


@pytest.mark.spec("MS-MQQB 3.1.7.7/2")
def test_a_ping_is_told_when_there_is_no_room(net: Net) -> None:
    beta = net.machine("BETA", "10.0.0.2", settings=BinarySettings(sessions_max=1))
    request = ping_request(STRANGER, 1)
    assert not read_ping(beta.protocol.ping_asked(request) or b"").refused
    accept(beta, "10.0.0.3", STRANGER)
    assert read_ping(beta.protocol.ping_asked(request) or b"").refused


# -- looking for final answers


def test_a_sender_that_waits_for_final_answers_calls_from_time_to_time(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    net.unreachable.add("10.0.0.1")
    alpha.send_in_transaction(TO_BETA, b"one", positive_journaling_requested=True)
    net.advance(700_000)
    queue = alpha.outgoing(TO_BETA)
    assert queue.state.count == 1
    assert queue.outgoing is not None
    assert queue.outgoing.last_error == ""  # nothing is wrong
    assert queue.outgoing.retry_time > net.clock.utc_seconds
    connects = len(net.connects)
    net.advance(1_000_000)
    assert connects < len(net.connects) <= connects + 2
    assert queue.state.count == 1


# -- figures


def test_the_figures_add_up_over_open_and_closed_sessions(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    beta.create(r".\private$\plain")
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", *[b"x"] * 10)
    net.advance(1_000)
    now = alpha.protocol.figures()
    assert now.sessions == {("initiator", "OPEN"): 1}
    assert now.links == {"open": 1}
    assert now.opened == {"initiator": 1}
    assert now.traffic["messages_out"] == 10
    there = beta.protocol.figures()
    assert there.sessions == {("acceptor", "OPEN"): 1}
    assert there.traffic["messages_in"] == 10
    assert there.traffic["bytes_in"] == now.traffic["bytes_out"]
    net.advance(900_000)
    then = alpha.protocol.figures()
    assert (then.sessions, then.links) == ({}, {})
    assert then.traffic == now.traffic
    assert (then.pings_asked, then.pings_answered) == (0, 0)


def test_timers_of_a_closed_session_are_gone(alpha: Machine, beta: Machine, net: Net) -> None:
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\none", b"x", express=True)
    net.advance(900_000)
    for machine in (alpha, beta):
        assert not machine.protocol.sessions
        assert machine.protocol.next_deadline_ms() is None


# -- public names


@pytest.mark.spec("MS-MQQB 3.1.7.4/3", "MS-MQQB 3.1.5.2.1/3")
def test_a_public_name_finds_its_machine_by_the_directory(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\public")
    net.names["beta.example.com"] = ["10.0.0.2"]
    machine = objects.QueueManager(
        identifier=beta.manager.machine.identifier,
        computer_name="BETA",
        qualified_computer_name="beta.example.com",
    )
    published = objects.Queue(
        identifier=queue.definition.identifier,
        pathname=r"BETA\public",
        queue_manager_identifier=beta.manager.machine.identifier,
    )
    for value in (machine, published):
        alpha.call(
            lambda m, value=value: m.directory.service.create_directory_object(
                value, m.machine.now_ms, m.machine.utc
            )
        )
    name = f"PUBLIC={format_guid(queue.definition.identifier)}"
    alpha.send(name, b"one")
    assert beta.bodies(r".\public") == [b"one"]
    assert net.resolved == ["beta.example.com"]
    assert session_of(alpha, Role.INITIATOR).remote_guid == beta.manager.machine.identifier


@pytest.mark.spec("MS-MQQB 3.1.7.4/4", "MS-MQQB 3.1.5.2.1/2")
def test_a_public_queue_that_the_directory_loses_waits_until_it_is_back(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(r".\public")
    published = objects.Queue(
        identifier=queue.definition.identifier,
        pathname=r"BETA\public",
        queue_manager_identifier=beta.manager.machine.identifier,
    )
    service = alpha.manager.directory.service
    alpha.call(
        lambda m: service.create_directory_object(published, m.machine.now_ms, m.machine.utc)
    )
    alpha.call(lambda m: m.transfer.reached(beta.manager.machine.identifier, "10.0.0.2", 1801))
    net.unreachable.add("10.0.0.2")
    name = f"PUBLIC={format_guid(queue.definition.identifier)}"
    alpha.send(name, b"one")
    alpha.call(lambda m: service.delete_directory_object(published, m.machine.now_ms))
    net.unreachable.clear()
    net.advance(10_000)
    outgoing = alpha.outgoing(name).outgoing
    assert outgoing is not None
    assert outgoing.state is OutgoingQueueState.NEED_VALIDATION
    assert beta.bodies(r".\public") == []
    alpha.call(
        lambda m: service.create_directory_object(published, m.machine.now_ms, m.machine.utc)
    )
    net.advance(60_000)
    assert beta.bodies(r".\public") == [b"one"]
