"""A client of remote transactions that dies at any step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.transactions.transaction import Transaction
from posthouse.engine.transfer import remote_reads
from posthouse.model.errors import QueueError
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.runtime.driver import Answer
from posthouse.wire.packet.message import deserialize
from tests.engine.machines import HONEST, LOSSY, Died, Machine, World

T = TypeVar("T")


ORDERS = r".\private$\orders"


POISON = r".\private$\orders;poison"


MESSAGES = [b"one", b"two"]


PATIENCE_MS = 200_000


class ClientDied(Exception):
    """Nobody is there any more who could abort anything."""


class Client:
    """One life of the client: a session with ALPHA, an association with BETA."""

    def __init__(self, world: Reading) -> None:
        self.world = world
        self.alpha, self.beta = world.machines
        self.reader: OpenQueueDescriptor | None = None
        self.transaction: Transaction | None = None
        self._connected = {machine: machine.manager for machine in world.machines}

    def at(self, machine: Machine, call: Callable[[QueueManager], T]) -> T:
        """A call over a connection, which dies with the process at its other end."""
        if self._connected[machine] is not machine.manager:
            raise Died(machine.name)
        return machine.act(call)

    def step(self) -> None:
        self.world.steps += 1
        if self.world.steps == self.world.client_dies_at:
            raise ClientDied

    def forward(self) -> None:
        """One message from BETA to ALPHA; IoTimeout when there is none."""
        world = self.world
        world.transactions += 1
        identifier = f"forward {world.transactions}".encode().ljust(16, b".")
        self.step()
        self.transaction = self.at(
            self.alpha, lambda m: m.transactions.create_transaction(identifier, self)
        )
        self.step()
        token = self.at(
            self.alpha,
            lambda m: m.transactions.coordinator.token(self.transaction, "BETA"),  # type: ignore[arg-type]
        )
        self.step()
        self.at(self.beta, lambda m: remote_reads.enlist(m, identifier, token, self))
        self.step()
        self.receive(identifier)
        self.step()
        self.commit(identifier)

    def receive(self, identifier: bytes) -> None:
        """R_StartTransactionalReceive, R_EndTransactionalReceive, and the send that follows."""
        beta, admin = self.beta, self.beta.admin
        source = self.reader = self.reader or self.at(
            beta,
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.RECEIVE, admin, association=self),
        )
        self.step()
        read = self.at(
            beta,
            lambda m: m.messages.dequeue_message(
                source,
                timeout_ms=0,
                transaction=remote_reads.transaction_of(m, source, identifier),
                two_phase=True,
            ),
        )
        assert read is not None
        body = deserialize(beta.store.read(read.number)).body
        self.step()
        self.at(beta, lambda m: remote_reads.end_read(m, source, read.lookup_id, positive=True))
        self.step()
        self.keep(body, read.lookup_id)

    def keep(self, body: bytes, lookup_id: int) -> None:
        message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
        admin = self.alpha.admin
        target = self.at(
            self.alpha,
            lambda m: m.queues.open_queue(ORDERS, QueueAccessType.SEND, admin, association=self),
        )
        self.at(
            self.alpha,
            lambda m: m.messages.enqueue_message_to_an_open_queue(
                target, message, self.transaction
            ),
        )

    def commit(self, identifier: bytes) -> None:
        answers: list[Answer] = []
        self.at(self.alpha, lambda m: m.transactions.commit(identifier, waiter=answers.append))
        self.step()
        waited_ms = 0
        while not answers and self.alpha.up and waited_ms < PATIENCE_MS:
            self.world.clock.advance(100)
            waited_ms += 100
        if answers and answers[0].error is not None:
            raise answers[0].error

    def leave(self) -> None:
        """Its connections are gone, whether it lives on or not."""
        self.alpha._quietly(lambda m: m.end_session(self))
        self.beta._quietly(lambda m: remote_reads.end_association(m, self))


class Reading(World):
    """ALPHA coordinates, BETA has the messages; machines and client may die."""

    def __init__(
        self, seed: int = 0, *, lossy: bool = False, client: type[Client] = Client
    ) -> None:
        super().__init__(seed)
        beta = self.machines[1]
        filling = beta.begin("fill")
        for body in MESSAGES:
            beta.send("orders", body, tx=filling)
        beta.commit(filling)
        self.client = client
        self.steps = self.client_dies_at = self.transactions = 0
        self.armed = True
        if lossy:
            self.network.conditions = LOSSY

    def run(self) -> None:
        """Clients, one after the other, until nothing is left and nobody is in doubt."""
        for life in range(60):
            if self._done():
                break
            if life == 40:
                self.chance, self.network.conditions = 0.0, HONEST
            self._live(self.client(self))
            self.clock.advance(5_000)
        self.armed = False
        self.network.conditions = HONEST
        self.clock.advance(1_200_000)

    def _live(self, client: Client) -> None:
        with contextlib.suppress(Died, ClientDied, QueueError):
            while True:
                client.forward()
        client.leave()

    def _done(self) -> bool:
        return all(machine.up for machine in self.machines) and not self.left()

    def left(self) -> list[bytes]:
        return self.machines[1].bodies("orders")

    def check_once(self) -> None:
        alpha, beta = self.machines
        assert self.left() == []
        assert sorted(alpha.bodies("orders")) == sorted(MESSAGES)
        for machine in (alpha, beta):
            assert machine.manager.transactions.in_doubt() == []
            assert machine.manager.transactions.collection.open == {}
            assert machine.manager.transactions.coordinator.joints == {}
            machine.check_books()
