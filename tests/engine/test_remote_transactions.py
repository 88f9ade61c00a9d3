"""Receives from another machine in a transaction: exactly once, whoever dies between two steps.

A client takes messages of BETA over remote read and sends a copy of each to ALPHA, its own queue
manager, which decides. It is as naive as a client may be: whatever fails, it begins again.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.transfer import remote_reads
from posthouse.model.errors import IoTimeout
from posthouse.wire.packet.message import deserialize
from tests.conftest import SOAK
from tests.support.remote_transactions import MESSAGES, ORDERS, POISON, Client, Reading

STEPS = 9  # of a client for one message


class Mover(Client):
    """Moves every message into a subqueue in the transaction that brings a copy of it."""

    def receive(self, identifier: bytes) -> None:
        beta, admin = self.beta, self.beta.admin
        source = self.at(
            beta,
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, admin, association=self),
        )
        target = self.at(
            beta,
            lambda m: m.queues.open_queue(POISON, QueueAccessType.MOVE, admin, association=self),
        )
        self.step()
        read = self.at(beta, lambda m: m.messages.peek_message(source, timeout_ms=0))
        assert read is not None
        body = deserialize(beta.store.read(read.number)).body
        self.step()
        self.at(
            beta,
            lambda m: remote_reads.move_message(
                m, source, target.context, read.lookup_id, identifier
            ),
        )
        self.step()
        self.keep(body, read.lookup_id)


def played(world: Reading) -> Reading:
    world.run()
    world.check_once()
    return world


def test_without_trouble_every_message_is_forwarded_in_order() -> None:
    world = played(Reading())
    assert world.machines[0].bodies("orders") == MESSAGES
    assert world.transactions == len(MESSAGES) + 1


@pytest.mark.spec(
    "MS-MQRR 3.1.4.12/2", "MS-MQRR 3.1.4.12/6", "MS-MQRR 3.1.4.13/25", "MS-MQRR 3.1.4.15/3"
)
def test_whichever_machine_dies_at_any_step_messages_are_received_once() -> None:
    points = played(Reading()).points
    assert points > 60
    for point in range(1, points + 1):
        world = Reading()
        world.deaths = {point}
        played(world)


@pytest.mark.spec("MS-MQRR 3.1.4.12/2", "MS-MQRR 3.1.4.13/25")
def test_a_client_that_dies_between_any_two_steps_loses_and_doubles_nothing() -> None:
    steps = played(Reading()).steps
    assert steps >= STEPS * len(MESSAGES)
    for step in range(1, steps + 1):
        world = Reading()
        world.client_dies_at = step
        played(world)


@pytest.mark.spec("MS-MQRR 3.1.4.10/8", "MS-MQRR 3.1.4.12/2")
def test_moves_from_afar_happen_once_whoever_dies() -> None:
    quiet = Reading(client=Mover)
    played(quiet)
    for point in range(1, quiet.points + 1, 1 if SOAK else 2):
        world = Reading(client=Mover)
        world.deaths = {point}
        played(world)
        assert sorted(world.machines[1].bodies(POISON)) == sorted(MESSAGES)


def test_a_machine_and_the_client_die_together() -> None:
    steps = played(Reading()).steps
    for step in range(1, steps + 1, 1 if SOAK else 3):
        for point in range(1, 100, 3 if SOAK else 17):
            world = Reading()
            world.client_dies_at, world.deaths = step, {point, point + 20}
            played(world)


@given(st.integers(0, 10**6), st.sampled_from((0.0, 1.0, 3.0)), st.booleans())
def test_loss_and_death_by_chance(seed: int, chance: float, lossy: bool) -> None:
    world = Reading(seed, lossy=lossy)
    world.chance = chance
    played(world)


def test_an_empty_queue_says_so_and_keeps_no_transaction() -> None:
    world = played(Reading())
    client = Client(world)
    with pytest.raises(IoTimeout):
        client.forward()
    client.leave()
    world.clock.advance(1000)
    assert world.machines[1].manager.transactions.collection.open == {}
