"""Packets of another machine on a store that loses its power anywhere.

A message that was taken in is never taken in again when it is resent, also when an application has
received it meanwhile and compaction has forgotten it; one that was not taken in is when resent.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message import INFINITE, DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.sim import SimDisk
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize_all
from tests.conftest import Dose
from tests.store.faults.harness import crashed, without_conveniences
from tests.store.faults.world import World

PEER = Peer(bytes(range(16)), "192.0.2.7")
ROUNDS = 6
QUEUES = ("plain", "east")


def packet(queue: str, ordinal: int, **attributes: Any) -> bytes:
    return serialize(
        Message(
            body=b"%s %d" % (queue.encode(), ordinal),
            identifier=MessageId(PEER.guid, ordinal),
            delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
            time_to_reach_queue=INFINITE,
            destination_queue_format_name=f"DIRECT=OS:ALPHA\\private$\\{queue}",
            **attributes,
        )
    )


def in_sequence(number: int) -> bytes:
    return packet(
        "east",
        number,
        transaction_identifier=1,
        transactional_message_sequence_identifier=TxSequenceId(1, 1),
        transaction_sequence_number=number,
        transaction_previous_sequence_number=number - 1,
    )


def batches() -> list[list[bytes]]:
    """Runs, single ones and mixtures of both kinds."""
    found = []
    for at in range(ROUNDS):
        first = 10 * at
        found.append([packet("plain", first + n) for n in (1, 2, 3)])
        found.append([packet("plain", first + 4)])
        found.append([in_sequence(3 * at + 1), packet("plain", first + 5)])
        found.append([in_sequence(3 * at + n) for n in (2, 3)])
    return found


class Arrivals:
    """The peer's messages, and what an application has made of them."""

    def __init__(self) -> None:
        self.asked: set[bytes] = set()  # a receive was on its way
        self.received: set[bytes] = set()  # and its answer came

    def now(self) -> Arrivals:
        copy = Arrivals()
        copy.asked, copy.received = set(self.asked), set(self.received)
        return copy

    def play(self, world: World) -> None:
        for name in QUEUES:
            world.create(name, transactional=name == "east")
        for at, batch in enumerate(batches()):
            take(world, batch)
            world.tidy(2)
            if at % 2:
                for name in QUEUES:
                    self.receive(world, name)

    def receive(self, world: World, name: str) -> None:
        for body in world.bodies(name)[:1]:
            self.asked.add(body)
            world.receive(name)
            self.received.add(body)

    def check(self, world: World) -> None:
        """Everything is sent again, and each message is here once or was received."""
        world.check()
        for name in QUEUES:
            if not any(q.name.endswith(name) for q in world.manager.queues.all()):
                return  # it was not yet made
        for batch in batches():
            take(world, batch)
        for name in QUEUES:
            numbers = range(1, 10 * ROUNDS) if name == "plain" else range(1, 3 * ROUNDS + 1)
            every = [b"%s %d" % (name.encode(), n) for n in numbers]
            wanted = [b for b in every if name == "east" or b[-1] in b"12345"]
            here = Counter(world.bodies(name))
            assert max(here.values()) == 1
            assert not here.keys() & self.received
            assert set(wanted) - here.keys() <= self.asked
        world.check_books()


def take(world: World, packets: list[bytes]) -> None:
    looks = summarize_all(packets)
    verdict = world.run(lambda m: m.transfer.receive_packets(PEER, packets, looks))
    assert verdict.dealt_with == len(packets)


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.7/3", "MS-MQQB 3.1.5.8.6/6", "MS-MQQB 3.1.1.3/7", "MS-MQQB 3.1.1.3.2/1"
)
@pytest.mark.parametrize("bare", [False, True], ids=["all files", "log only"])
def test_power_loss_anywhere_takes_no_message_and_doubles_none(dose: Dose, bare: bool) -> None:
    disk, arrivals, seen = SimDisk(), Arrivals(), Counter[str]()
    world = World(disk)

    def operated(operation: object) -> None:
        seen["operations"] += 1
        if seen["operations"] % dose(7, 1):
            return
        told = arrivals.now()
        for label, found in crashed(disk.clone(), dose(1, 3)):
            after = World(without_conveniences(found) if bare else found, world.witness.now())
            try:
                told.check(after.start())
            except Exception as error:
                error.add_note(f"after operation {seen['operations']}, {label}")
                raise
            seen["crashes"] += 1

    disk.on_operation = operated
    arrivals.play(world.start())
    print(dict(seen))
    assert seen["crashes"] > 50
