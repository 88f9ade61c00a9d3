"""Receives from another machine in a transaction, over lines that die at every step: exactly once.

The engines of `tests.engine.test_remote_transactions`, with the wire between the client and BETA:
our client's own code there, our server's here, and every PDU of theirs a place to be cut at.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from posthouse.client.errors import ClientConnectionError
from posthouse.client.remote.login import RemoteLogin, RemotePlace
from posthouse.client.remote.reader import QueueReader, RemoteReader
from posthouse.client.remote.state import MOVE_ACCESS, PEEK_CURRENT, RECEIVE_ACCESS, Want
from posthouse.model.errors import QueueError
from posthouse.model.names import parse_format_name
from posthouse.rpc.security import Level
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import ANONYMOUS
from tests.conftest import Dose
from tests.engine.machines import Died, Machine
from tests.protocols.remote_read.lines import MortalDesk, Net, Noticed, Server, SimSocket
from tests.protocols.remote_read.rights import grant
from tests.support.remote_transactions import MESSAGES, POISON, Client, ClientDied, Reading

ORDERS = r"DIRECT=OS:BETA\private$\orders"


class MachineNet(Net):
    """Lines to a machine that dies and rises by a clock of its own."""

    fatal = (Died,)

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__(lambda net: self._served())

    def _served(self) -> Server | None:  # type: ignore[override]
        machine = self.machine
        if not machine.up:
            return None
        desk = MortalDesk(machine.driver, machine._point)
        return Server(desk, lambda: machine.clock.now_ms)

    def connect(self) -> SimSocket:
        self.look()
        if self.server is None:
            self.server = self._served()
        return super().connect()

    def look(self) -> None:
        """The machine may have died of something else."""
        server, machine = self.server, self.machine
        if server is not None and not (machine.up and server.desk.manager is machine.manager):
            self._die()

    def carry(self, line: Any, patience_ms: float = 0) -> bool:
        self.look()
        return super().carry(line, patience_ms)

    def hang_up(self) -> None:
        """A client is gone, and its lines with it."""
        self.look()
        for line in self.lines:
            line.broken = True
            line.tell_server()
        self.lines.clear()
        self._settle()
        if self.machine.up:
            self.machine._arm()


class WireClient(Client):
    """One life of a client that reads BETA over a line."""

    world: WireReading

    def __init__(self, world: WireReading) -> None:
        super().__init__(world)
        login = RemoteLogin(level=Level.NONE)
        self.far = RemoteReader(RemotePlace("BETA", 2103), login, timeout_s=5, reconnect_s=0)
        self.source = self.queue(ORDERS, RECEIVE_ACCESS)

    def queue(self, name: str, access: int) -> QueueReader:
        return self.far.queue(name, parse_format_name(name), access, 0)

    def forward(self) -> None:
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
        self.source.enlist(identifier, token)
        self.step()
        self.receive(identifier)
        self.step()
        self.commit(identifier)

    def receive(self, identifier: bytes) -> None:
        message = self.source.read(Want(transaction=identifier), 0)
        assert not message.in_doubt
        self.step()
        self.keep(message.body, message.lookup_id)

    def leave(self) -> None:
        self.alpha._quietly(lambda m: m.end_session(self))
        self.world.net.hang_up()


class WireMover(WireClient):
    """Moves every message into a subqueue in the transaction that brings a copy of it."""

    def receive(self, identifier: bytes) -> None:
        target = self.queue(f"{ORDERS};poison", MOVE_ACCESS)
        message = self.source.read(Want(PEEK_CURRENT), 0)
        self.step()
        self.source.move(message.lookup_id, target, identifier)
        self.step()
        self.keep(message.body, message.lookup_id)


class WireReading(Reading):
    """ALPHA coordinates, BETA is read over lines; everything may die."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        client: type[WireClient] = WireClient,
        **plan: Any,
    ) -> None:
        super().__init__(client=client)
        beta = self.machines[1]
        self.armed = False
        grant(beta, "orders", ANONYMOUS, QUEUE_GENERIC_ALL)  # type: ignore[arg-type]
        self.armed = True
        self.net = MachineNet(beta)
        for name, value in plan.items():
            setattr(self if hasattr(self, name) else self.net, name, value)
        self.net.install(monkeypatch)

    def _live(self, client: Client) -> None:
        with contextlib.suppress(Died, ClientDied, QueueError, ClientConnectionError):
            while True:
                client.forward()
        client.leave()

    def played(self) -> WireReading:
        self.run()
        self.check_once()
        server = self.net.server
        assert server is None or server.bugs == []
        return self


def tried(monkeypatch: pytest.MonkeyPatch, client: type[WireClient], **plan: Any) -> WireReading:
    world = WireReading(monkeypatch, client, **plan)
    try:
        return world.played()
    except BaseException as error:
        error.add_note(f"{client.__name__} with {plan}")
        raise


CLIENTS = pytest.mark.parametrize("client", [WireClient, WireMover])


@pytest.mark.spec("MS-MQRR 3.1.4.12/2", "MS-MQRR 3.1.4.13/25", "MS-MQRR 3.1.4.15/3")
@pytest.mark.parametrize("noticed", Noticed)
@CLIENTS
def test_a_line_that_is_cut_anywhere_receives_once(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, client: type[WireClient], noticed: Noticed
) -> None:
    count, figures = tried(monkeypatch, client).net.places, Counter[str]()
    for place in range(1, count + 1, dose(1 if noticed is Noticed.BOTH else 3, 1)):
        world = tried(monkeypatch, client, cut_at=place, noticed=noticed)
        figures += Counter(runs=1, transactions=world.transactions)
        if client is WireMover:
            assert sorted(world.machines[1].bodies(POISON)) == sorted(MESSAGES)
    print(count, dict(figures))
    assert figures["runs"] > 10
    assert figures["transactions"] > figures["runs"] * (len(MESSAGES) + 1)


@CLIENTS
def test_whichever_machine_dies_at_any_step_messages_are_received_once(
    monkeypatch: pytest.MonkeyPatch, dose: Dose, client: type[WireClient]
) -> None:
    points = tried(monkeypatch, client).points
    assert points > 60
    for point in range(1, points + 1, dose(2, 1)):
        tried(monkeypatch, client, deaths={point})


def test_a_machine_the_client_and_the_line_die_together(
    monkeypatch: pytest.MonkeyPatch, dose: Dose
) -> None:
    quiet = tried(monkeypatch, WireClient)
    steps, places = quiet.steps, quiet.net.places
    for number in range(dose(40, 500)):
        tried(
            monkeypatch,
            WireClient,
            client_dies_at=1 + number * 7 % steps,
            deaths={1 + number * 13 % quiet.points},
            cut_at=1 + number * 11 % places,
        )
