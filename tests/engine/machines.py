"""Several queue managers on a bad network that share transactions and die at chosen moments."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from posthouse.engine.ledger.effects import Event, PeerRequest
from posthouse.engine.manager import QueueManager
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import QueueError
from posthouse.runtime.driver import Answer
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.sim.network import Address, Conditions, SimNetwork
from tests.engine.rig import Rig
from tests.engine.settings import engine_settings
from tests.support.memory_store import MemoryStore

T = TypeVar("T")
PORT = 8816
DEAD_MS = 4_000
HONEST = Conditions(delay_ms=(1, 20))
LOSSY = Conditions(delay_ms=(1, 400), datagram_loss=0.2, datagram_double=0.2)


class Died(Exception):
    """The machine is off; whoever spoke to it hears nothing."""


class Machine(Rig):
    """A queue manager that speaks to others over the network, turn by turn."""

    def __init__(self, world: World, name: str, seed: int, **settings: Any) -> None:
        self.world = world
        self.name = name
        self.up = False
        self.settings = engine_settings(name, **settings)
        self.clock = world.clock
        self.random = random.Random(seed)
        self.admin = Caller.administrator()
        self.events: list[Event] = []
        self.active: set[int] = set()
        self.store = MemoryStore()
        self.start()

    @property
    def url(self) -> str:
        return f"http://{self.name.lower()}:{PORT}"

    def start(self) -> None:
        self._boot(self.store.recover().state)
        self.up = True
        self.driver.on_asks = self._send
        self.manager.transactions.coordinator.url = self.url
        self.world.network.bind(Address(self.name, PORT), self._received)
        self._arm()

    def die(self) -> None:
        """Nothing that was not synced is left, and nobody is told."""
        self.up = False
        self.world.network.kill(self.name)
        self.world.clock.call_later(DEAD_MS, self._rise)
        self.store = self.store.crash()

    def _rise(self) -> None:
        self.world.network.revive(self.name)
        self.start()

    # -- turns with places to die at

    def act(self, call: Callable[[QueueManager], T]) -> T:
        """One turn; the machine may die before or after each of its steps."""
        answers: list[Answer] = []
        self._point()
        self.driver.begin_turn()
        self.driver.decide(call, answers.append)
        self.driver.end_turn()
        self._point()
        self.driver.sync()
        self._point()
        self.driver.release()
        self._arm()
        self._point()
        (answer,) = answers
        if answer.error is not None:
            raise answer.error
        return answer.value  # type: ignore[return-value]

    def _point(self) -> None:
        if not self.up:
            raise Died(self.name)
        if self.world.dies_now(self):
            self.die()
            raise Died(self.name)

    def _arm(self) -> None:
        deadline_ms = self.manager.next_deadline_ms()
        if deadline_ms is not None:
            self.clock.call_at(deadline_ms, partial(self._due, self.manager))

    def _due(self, manager: QueueManager) -> None:
        if self.up and self.manager is manager:
            self._quietly(lambda m: None)

    def _quietly(self, call: Callable[[QueueManager], object]) -> None:
        with contextlib.suppress(Died, QueueError):
            self.act(call)

    # -- the network

    def _send(self, asks: list[PeerRequest]) -> None:
        for ask in asks:
            name = ask.url.partition("://")[2].partition(":")[0].upper()
            self.world.asks[ask.text] = ask
            self._datagram(name, f"?{ask.text}")

    def _datagram(self, to: str, text: str) -> None:
        network, here = self.world.network, Address(self.name, PORT)
        network.send_datagram(here, Address(to, PORT), text.encode())

    def _received(self, data: bytes, sender: Address, now_ms: int) -> None:
        text = data.decode()
        if text.startswith("?"):
            self._asked(text[1:], sender.host)
        else:
            reply, _, asked = text[1:].partition(" ")
            ask = self.world.asks[asked]
            self._quietly(lambda m: m.transactions.answered(ask, reply))

    def _asked(self, text: str, sender: str) -> None:
        try:
            reply = self.act(lambda m: m.transactions.called(text))
        except (Died, QueueError):
            return
        self._datagram(sender, f"!{reply} {text}")


class World:
    """ALPHA coordinates, the others take part; one of them may die at a certain point."""

    def __init__(
        self, seed: int = 0, names: tuple[str, ...] = ("ALPHA", "BETA"), *, lossy: bool = False
    ) -> None:
        self.clock = SimClock()
        self.network = SimNetwork(seed, self.clock, LOSSY if lossy else HONEST)
        self.random = random.Random(seed)
        self.asks: dict[str, PeerRequest] = {}
        self.points = 0
        self.deaths: set[int] = set()  # at these points
        self.chance = 0.0  # or at any, in this many of a hundred
        self.armed = False
        self.machines = [Machine(self, name, seed * 10 + i) for i, name in enumerate(names)]
        self.heard: list[QueueError | None] = []  # what the client was told
        for machine in self.machines:
            machine.create("orders", transactional=True)
        self._introduce()

    def _introduce(self) -> None:
        alpha, *others = self.machines
        for other in others:
            key = self.random.randbytes(32)
            for one, two in ((alpha, other), (other, alpha)):
                guid, url = two.manager.machine.identifier, two.url
                one.run(
                    lambda m, n=two.name, g=guid, u=url, k=key: m.transactions.add_peer(n, g, u, k)  # type: ignore[misc]
                )

    def dies_now(self, machine: Machine) -> bool:
        if not self.armed:
            return False
        self.points += 1
        return self.points in self.deaths or self.random.random() * 100 < self.chance

    # -- what a client does

    def work(self) -> Transaction:
        """A message for every machine's queue, in one transaction."""
        alpha, *others = self.machines
        transaction = alpha.begin("joint", self)
        alpha.send("orders", b"of ALPHA", tx=transaction)
        for other in others:
            token = alpha.run(
                lambda m, n=other.name: m.transactions.coordinator.token(transaction, n)  # type: ignore[misc]
            )
            part = other.run(lambda m, t=token: m.transactions.enlist(t, self))  # type: ignore[misc]
            other.send("orders", f"of {other.name}".encode(), tx=part)
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Asks ALPHA to commit; what the client hears is in `heard`."""
        self.armed = True

        def told(answer: Answer) -> None:
            self.heard.append(answer.error)

        with contextlib.suppress(Died):
            self.machines[0].act(
                lambda m: m.transactions.commit(transaction.identifier, waiter=told)
            )

    def settle(self) -> None:
        """Everybody lives on, long enough for every timer."""
        self.clock.advance(60_000)
        self.armed = False
        self.network.conditions = HONEST
        self.clock.advance(1_200_000)

    # -- what must hold

    def check(self) -> bool:
        """All have it or none, nobody is in doubt, nobody keeps anything. Whether it is done."""
        outcomes = set()
        for machine in self.machines:
            assert machine.up
            assert machine.manager.transactions.in_doubt() == []
            assert machine.manager.transactions.coordinator.joints == {}
            assert machine.manager.ledger.state.of_table(12) == []
            assert len(machine.manager.transactions.asks._retries) == 0
            outcomes.add(machine.bodies("orders") == [f"of {machine.name}".encode()])
            assert machine.bodies("orders") in ([], [f"of {machine.name}".encode()])
            machine.check_books()
        assert len(outcomes) == 1, [m.bodies("orders") for m in self.machines]
        (done,) = outcomes
        assert len(self.heard) <= 1
        if self.heard:
            assert (self.heard[0] is None) is done, self.heard
        return done
