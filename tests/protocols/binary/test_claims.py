"""Strangers who claim the GUID of a queue manager: what they get, and what they do not stop."""

from __future__ import annotations

import pytest

from posthouse.directory import objects
from posthouse.engine.ledger.records import Change
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.guids import format_guid
from posthouse.protocols.binary.session import BinarySession
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from tests.protocols.binary.memory_net import Cable, Machine, Net
from tests.support.stranger_cable import stranger

ORDERS = r".\private$\orders"
PLAIN = r".\private$\plain"
TO_BETA = r"DIRECT=TCP:10.0.0.2\private$\orders"


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


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("reachable", [False, True])
def test_order_acks_go_to_who_sent_the_messages_and_not_to_who_came_first(
    alpha: Machine, beta: Machine, net: Net, known: bool, reachable: bool
) -> None:
    if known:
        alpha.send_in_transaction(TO_BETA, b"before")
        net.advance(900_000)
    if not reachable:
        net.unreachable.add("10.0.0.1")
    cable = stranger(beta, alpha.manager.machine.identifier)
    alpha.send_in_transaction(TO_BETA, b"one")
    net.advance(5_000)
    assert alpha.outgoing(TO_BETA).state.count == 0
    assert cable.sent == []


def test_messages_for_a_machine_of_the_directory_go_where_that_says(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    queue = beta.create(PLAIN)
    machine = objects.QueueManager(identifier=beta.manager.machine.identifier, computer_name="BETA")
    alpha.call(
        lambda m: m.directory.service.create_directory_object(
            machine, m.machine.now_ms, m.machine.utc
        )
    )
    cable = stranger(alpha, beta.manager.machine.identifier)
    alpha.send(
        f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}", b"one"
    )
    net.advance(2_000)
    assert beta.bodies(PLAIN) == [b"one"]
    assert cable.sent == []


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_machine_that_we_know_acknowledges_nothing_of_others(
    alpha: Machine, beta: Machine, net: Net, restarted: bool, plain: bool
) -> None:
    evil = net.machine("EVIL", "10.6.6.6")
    evil.create(ORDERS, transactional=True)
    bank = r"DIRECT=OS:BETA\private$\orders"
    for name in (r"DIRECT=OS:EVIL\private$\orders", bank):
        if plain:
            alpha.send(name, b"before")
        alpha.send_in_transaction(name, b"before")
    net.advance(900_000)
    alpha.call(lambda manager: manager.transfer.pause_queue(alpha.outgoing(bank)))
    alpha.send_in_transaction(bank, b"one")
    if restarted:
        alpha.restart()
    number = alpha.outgoing(bank).number
    allowed = []
    for machine in (evil, beta):
        cable = Cable(net, alpha, machine.addresses[0])
        cable.session = alpha.protocol.accept(cable, machine.addresses[0])
        cable.session.receive(
            establish_connection(machine.manager.machine.identifier, time_stamp=1)
        )
        cable.session.receive(connection_parameters(500, 20_000, 64))
        allowed.append(alpha.protocol.peer_of(cable.session).may_acknowledge(number))
    assert allowed == [False, True]


def test_a_queue_of_answers_that_is_gone_troubles_nobody_who_comes(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    alpha.send_in_transaction(TO_BETA, b"one")
    net.advance(30_000)
    name = f"PRIVATE={format_guid(alpha.manager.machine.identifier)}\\00000004"
    answers = beta.outgoing(name)
    beta.call(lambda m: m.queues.collection.remove(answers, Change()))
    assert answers.number not in beta.manager.ledger.queues
    stranger(beta, alpha.manager.machine.identifier)
    net.run()


@pytest.mark.parametrize("moved", [False, True])
def test_a_destination_that_claims_the_guid_of_another_gets_nothing_of_it(
    alpha: Machine, beta: Machine, net: Net, moved: bool
) -> None:
    queue = beta.create(PLAIN)
    evil = net.machine("EVIL", "10.6.6.6")
    evil.create(PLAIN)
    alpha.send(r"DIRECT=TCP:10.0.0.2\private$\plain", b"one")
    net.advance(900_000)
    evil.manager.machine.record.identifier = beta.manager.machine.identifier  # it lies
    alpha.send(r"DIRECT=TCP:10.6.6.6\private$\plain", b"bait")
    net.advance(5_000)
    if moved:
        beta.addresses[:] = ["10.0.0.7"]
    alpha.send(
        f"PRIVATE={format_guid(beta.manager.machine.identifier)}\\{queue.number:08x}", b"two"
    )
    net.advance(5_000)
    if moved:
        alpha.send(r"DIRECT=OS:BETA\private$\plain", b"here")  # and is found again by its name
        net.advance(900_000)
    assert sorted(beta.bodies(PLAIN)) == sorted([b"one", b"two", *([b"here"] * moved)])
    assert evil.bodies(PLAIN) == [b"bait"]


@pytest.mark.parametrize("still_open", [False, True])
def test_a_machine_that_the_directory_has_moved_gets_nothing_in_its_old_place(
    alpha: Machine, beta: Machine, net: Net, still_open: bool
) -> None:
    """Somebody else has the address by now, and answers under the GUID."""
    queue = beta.create(PLAIN)
    guid = beta.manager.machine.identifier
    name = f"PRIVATE={format_guid(guid)}\\{queue.number:08x}"
    enter(alpha, guid, "10.6.6.6")
    evil = net.machine("EVIL", "10.6.6.6")
    evil.manager.machine.record.identifier = guid  # it lies
    alpha.send(name, b"one")
    net.advance(1_000 if still_open else 900_000)
    assert alpha.outgoing(name).state.count == 0  # that one is lost
    enter(alpha, guid, "10.0.0.2")
    alpha.send(name, b"two")
    net.advance(5_000)
    assert beta.bodies(PLAIN) == [b"two"]


def enter(machine: Machine, guid: bytes, *addresses: str) -> None:
    """The directory of a machine says where BETA is."""
    value = objects.QueueManager(identifier=guid, computer_name="BETA", addresses=addresses)

    def run(manager: QueueManager) -> None:
        service, now_ms, utc = (
            manager.directory.service,
            manager.machine.now_ms,
            manager.machine.utc,
        )
        if not manager.transfer.knows_machine(guid):
            service.create_directory_object(value, now_ms, utc)
        else:
            service.write_directory(value, now_ms, utc, ["addresses"])

    machine.call(run)


def test_what_a_name_led_to_counts_while_the_directory_says_that_name(
    alpha: Machine, beta: Machine, net: Net
) -> None:
    guid = beta.manager.machine.identifier
    enter(alpha, guid, "old.example")
    net.names |= {"old.example": ["10.6.6.6"], "new.example": ["10.0.0.2"]}
    peer = alpha.protocol.peer_of(come(alpha, guid, "10.6.6.6"))
    assert peer.may_pass_on(guid)
    enter(alpha, guid, "new.example")
    with pytest.raises(RemoteProtocolError, match="cannot be resolved now"):
        peer.may_pass_on(guid)
    again = alpha.protocol.peer_of(come(alpha, guid, "10.6.6.6"))
    assert not again.may_pass_on(guid)
    assert alpha.protocol.peer_of(come(alpha, guid, "10.0.0.2")).may_pass_on(guid)


def come(machine: Machine, claimed: bytes, address: str) -> BinarySession:
    """A session that somebody opens from an address."""
    cable = Cable(machine.net, machine, address)
    session = cable.session = machine.protocol.accept(cable, address)
    session.receive(establish_connection(claimed, machine.manager.machine.identifier, time_stamp=1))
    session.receive(connection_parameters(500, 20_000, 64))
    machine.net.run()
    return session
