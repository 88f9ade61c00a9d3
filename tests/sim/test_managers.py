"""Queue managers on simulated machines: what they let out is synced, and what is synced stays."""

from __future__ import annotations

from random import Random

import pytest

from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.sim import Address, Connection, SimClock, SimNetwork
from posthouse.sim.faults import PowerLost
from posthouse.sim.machine import World
from posthouse.sim.managers import Errand, SimManager
from posthouse.sim.workload import BOSS, RECEIVE, SEND, path, waiting


def world() -> World:
    clock = SimClock()
    return World(clock, SimNetwork(1, clock), Random(1), BinarySettings())


@pytest.fixture
def machine() -> SimManager:
    machine = SimManager(world(), "ALPHA", "10.0.0.1", 7)
    machine.now(lambda m: m.queues.create_queue(path("orders"), QueueProperties(), BOSS))
    return machine


def post(answers: list[object], *, durable: bool = True) -> Errand:
    guarantee = DeliveryGuarantee.RECOVERABLE if durable else DeliveryGuarantee.EXPRESS
    opened = yield lambda m: m.queues.open_queue(path("orders"), SEND, BOSS)
    message = Message(label="one", delivery_guarantee=guarantee)
    answers.append(
        (
            yield lambda m: m.messages.enqueue_message_to_an_open_queue(opened.value, message)  # type: ignore[arg-type]
        )
    )


def labels(machine: SimManager) -> list[str]:
    return [name for _, name in waiting(machine.manager, "orders")]


def test_an_answer_comes_when_the_log_is_synced(machine: SimManager) -> None:
    answers: list[object] = []
    machine.run(post(answers))
    while not answers:
        assert machine.world.clock.run_next()
    assert machine.store.synced == machine.store.appended
    machine.crash()
    machine.boot()
    assert labels(machine) == ["one"]
    assert machine.crashes == 1


def test_what_nobody_was_told_of_may_be_gone(machine: SimManager) -> None:
    answers: list[object] = []
    before = machine.store.synced
    machine.run(post(answers))
    while machine.store.appended == before:
        assert machine.world.clock.run_next()
    assert labels(machine) == ["one"]
    machine.disk.lose_power_at(1, "sync")
    while machine.up:
        assert machine.world.clock.run_next()
    assert answers == []
    machine.disk = machine.disk.crash("nothing")
    machine.boot()
    assert labels(machine) in ([], ["one"])


def test_a_clean_stop_keeps_express_messages_and_a_crash_does_not(machine: SimManager) -> None:
    answers: list[object] = []
    machine.run(post(answers, durable=False))
    machine.world.clock.advance(1000)
    assert answers
    machine.stop()
    machine.world.clock.advance(1000)
    machine.boot()
    assert labels(machine) == ["one"]
    machine.crash()
    machine.boot()
    assert labels(machine) == []


def test_nothing_of_an_earlier_life_happens_in_a_later_one(machine: SimManager) -> None:
    happened: list[str] = []
    machine.later(10, lambda: happened.append("before"))
    machine.crash()
    machine.boot()
    machine.later(20, lambda: happened.append("after"))
    machine.world.clock.advance(100)
    assert happened == ["after"]


def test_a_machine_may_go_off_between_any_two_steps(machine: SimManager) -> None:
    machine.in_crash_mood = True
    machine.world.chances["crash"] = 1.0
    with pytest.raises(PowerLost):
        machine.point()
    machine.run(post([]))
    machine.world.clock.advance(100)
    assert not machine.up


def test_an_errand_ends_with_the_life_of_its_machine(machine: SimManager) -> None:
    answers: list[object] = []
    machine.run(post(answers))
    machine.crash()
    machine.boot()
    machine.world.clock.advance(1000)
    assert answers == []
    assert machine.now(lambda m: m.queues.open_queue(path("orders"), RECEIVE, BOSS))


class Silent:
    """An endpoint that hears how it ends."""

    def __init__(self, ends: list[str]) -> None:
        self._ends = ends

    def receive(self, data: bytes, now_ms: int) -> bytes:
        return b""

    def closed(self, reason: str, now_ms: int) -> None:
        self._ends.append(reason)


def test_who_connects_hears_when_it_is_open() -> None:
    network, heard = world().network, list[str]()
    network.listen("b", 1, lambda connection: Silent(heard))

    def factory(connection: Connection) -> Silent:
        connection.on_open = lambda: heard.append("open")
        return Silent(heard)

    network.connect("a", Address("b", 1), factory)
    network.connect("a", Address("c", 1), factory)
    assert len(network.connections()) == 2
    network.run_until_idle()
    assert heard == ["open", "refused"]
    assert [connection.local.host for connection in network.connections()] == ["a", "b"]


def test_a_connection_knows_what_it_has_not_delivered() -> None:
    network = world().network
    network.listen("b", 1, lambda connection: Silent([]))
    connection = network.connect("a", Address("b", 1), lambda connection: Silent([]))
    connection.send(b"12345")
    assert connection.unsent == 5
    network.run_until_idle()
    assert connection.unsent == 0
