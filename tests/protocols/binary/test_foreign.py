"""Messages for foreign systems, over gates into the connector queue of another machine."""

from __future__ import annotations

import pytest

from posthouse.directory.objects import DirectoryObject, Queue, QueueManager, Site
from posthouse.engine.manager import QueueManager as Engine
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import ACK_RECEIVE, NACK_ACCESS_DENIED
from posthouse.wire.packet.message import deserialize
from tests.support.enterprise import BODIES, SOUTH, Enterprise, entry_of, guid_of

BEYOND, STREAMS, ORDERS, LEDGER, SHOP = (bytes([number]) * 16 for number in range(16, 21))
TO_ORDERS, TO_LEDGER, TO_SHOP = (f"PUBLIC={format_guid(one)}" for one in (ORDERS, LEDGER, SHOP))
CONNECTOR = f"CONNECTOR={format_guid(BEYOND)}"
XACTONLY = f"{CONNECTOR};XACTONLY"
DEAD = r".\system$;deadxact"


class Foreign(Enterprise):
    """The gate SOUTH belongs to a foreign site as well, in which STREAMS is."""

    def objects(self) -> list[DirectoryObject]:
        found = super().objects()
        own = entry_of(self.south, SOUTH, BEYOND)
        return [
            *(one for one in found if one.identifier != own.identifier),
            own,
            Site(identifier=BEYOND, name="Beyond", foreign_site=True),
            QueueManager(
                identifier=STREAMS,
                computer_name="STREAMS",
                foreign_system=True,
                site_identifier_list=(BEYOND,),
            ),
            _queue(ORDERS, r"STREAMS\orders", STREAMS),
            _queue(LEDGER, r"STREAMS\ledger", STREAMS, transactional=True),
        ]

    def end_all(self, name: str, message_class: int) -> list[bytes]:
        """What a connector does: reads all, and says the same of each."""
        bodies: list[bytes] = []

        def run(manager: Engine) -> None:
            caller = manager.ledger.system
            reader = manager.queues.open_queue(name, QueueAccessType.RECEIVE, caller)
            for read in manager.messages.dequeue_messages(reader, 100, two_phase=True):
                bodies.append(deserialize(manager.messages.packet(read.number)).body)
                manager.messages.dequeue_message_end(
                    reader, read.lookup_id, positive=True, message_class=message_class
                )
            manager.queues.close_queue(reader)

        self.south.call(run)
        self.net.advance(10_000)
        return bodies


def _queue(guid: bytes, name: str, owner: bytes, *, transactional: bool = False) -> Queue:
    return Queue(
        identifier=guid,
        pathname=name,
        queue_manager_identifier=owner,
        transactional=transactional,
    )


@pytest.fixture
def enterprise() -> Foreign:
    return Foreign()


def test_messages_for_a_foreign_queue_reach_the_connector_queue(enterprise: Foreign) -> None:
    enterprise.alpha.send(TO_ORDERS, b"public")
    enterprise.alpha.send(rf"PRIVATE={format_guid(STREAMS)}\21", b"private")
    enterprise.net.advance(5_000)
    assert sorted(enterprise.end_all(CONNECTOR, ACK_RECEIVE)) == [b"private", b"public"]
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5


def test_transactions_reach_it_in_order_and_are_answered_finally(enterprise: Foreign) -> None:
    enterprise.alpha.send_in_transaction(TO_LEDGER, *BODIES)
    enterprise.net.advance(5_000)
    assert enterprise.end_all(XACTONLY, ACK_RECEIVE) == BODIES
    assert [enterprise.waiting(machine) for machine in enterprise.machines] == [0] * 5


def test_what_the_connector_refuses_is_a_dead_letter_of_its_sender(enterprise: Foreign) -> None:
    enterprise.alpha.send_in_transaction(TO_LEDGER, b"bad", negative_journaling_requested=True)
    enterprise.net.advance(5_000)
    assert enterprise.end_all(XACTONLY, NACK_ACCESS_DENIED) == [b"bad"]
    assert enterprise.alpha.bodies(DEAD) == [b"bad"]
    assert enterprise.waiting(enterprise.alpha) == 0


@pytest.mark.parametrize("name", ["GATE1", "GATE2", "SOUTH"])
def test_nothing_is_lost_or_doubled_on_the_way(enterprise: Foreign, name: str) -> None:
    router = next(machine for machine in enterprise.machines if machine.name == name)
    enterprise.alpha.send_in_transaction(TO_LEDGER, *BODIES[:3])
    router.restart()
    enterprise.alpha.send_in_transaction(TO_LEDGER, *BODIES[3:])
    enterprise.net.advance(60_000)
    assert enterprise.end_all(XACTONLY, ACK_RECEIVE) == BODIES
    assert enterprise.waiting(enterprise.alpha) == 0


def test_a_machine_that_becomes_connector_server_takes_what_it_was_to_pass_on(
    enterprise: Foreign,
) -> None:
    enterprise.change(entry_of(enterprise.south, SOUTH))
    enterprise.alpha.send_in_transaction(TO_LEDGER, *BODIES)
    enterprise.net.advance(5_000)
    assert enterprise.waiting(enterprise.alpha) == len(BODIES)
    enterprise.change(entry_of(enterprise.south, SOUTH, BEYOND))
    enterprise.net.advance(60_000)
    assert enterprise.end_all(XACTONLY, ACK_RECEIVE) == BODIES
    assert enterprise.waiting(enterprise.alpha) == 0


def test_a_public_queue_is_found_behind_routers(enterprise: Foreign) -> None:
    """Clients do not know whose queue it is, and routers go by that."""
    enterprise.omega.create(r".\shop")
    (shop,) = [
        queue.definition.identifier
        for queue in enterprise.omega.manager.queues.all()
        if queue.definition.pathname.endswith("shop")
    ]
    for machine in enterprise.machines:
        if machine is not enterprise.omega:
            enterprise.enter(machine, [_queue(shop, r"OMEGA\shop", guid_of(enterprise.omega))])
    enterprise.alpha.send(f"PUBLIC={format_guid(shop)}", b"found")
    enterprise.net.advance(5_000)
    assert enterprise.omega.bodies(r".\shop") == [b"found"]


@pytest.mark.parametrize("router", [False, True])
def test_messages_for_a_public_queue_that_moves_follow_it(
    enterprise: Foreign, router: bool
) -> None:
    """What waits at a router, or here, has the address of the machine that had the queue before."""
    net, omega = enterprise.net, enterprise.omega
    omega.create(r".\shop")
    (shop,) = [
        queue.definition.identifier
        for queue in omega.manager.queues.all()
        if queue.definition.pathname.endswith("shop")
    ]
    others = [machine for machine in enterprise.machines if machine is not omega]
    for machine in others:
        enterprise.enter(machine, [_queue(shop, r"SOUTH\shop", guid_of(enterprise.south))])
    net.unreachable.update({"10.0.0.4"} if router else {"10.0.0.2", "10.0.0.3"})
    enterprise.alpha.send(f"PUBLIC={format_guid(shop)}", b"found")
    net.advance(5_000)
    assert enterprise.waiting(enterprise.alpha) == (0 if router else 1)
    for machine in others:
        machine.call(lambda m: _forget(m, shop))
        enterprise.enter(machine, [_queue(shop, r"OMEGA\shop", guid_of(omega))])
    net.unreachable.clear()
    net.advance(60_000)
    assert omega.bodies(r".\shop") == [b"found"]


def _forget(manager: Engine, shop: bytes) -> None:
    service, now_ms = manager.directory.service, manager.machine.now_ms
    service.delete_directory_object(_queue(shop, r"SOUTH\shop", b""), now_ms)
