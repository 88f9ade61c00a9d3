"""Receives from another computer in transactions, with any of the three processes killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from tests.conftest import Dose
from tests.process import forwarder
from tests.process.offices import free_port
from tests.process.warm import WarmServer

SOURCE, TARGET = r"private$\orders", r".\private$\kept"
PATIENCE_S = 60.0
SETTINGS = """
[queue_manager]
name = "{name}"
default_access = {{anonymous = "full"}}
[admin]
port = {admin_port}
[rpc]
port = {rpc_port}
minimum_authentication = "none"
[epm]
enabled = false
[ping]
answer = false
[transactions]
prepare_s = 3
in_doubt_s = 1
peer_retry_max_s = 1
"""
CLIENT, ALPHA, BETA = "client", "ALPHA", "BETA"


class Machine:
    """A server that is found at the same ports after each restart."""

    def __init__(self, folder: Path, name: str, running: ExitStack) -> None:
        folder.mkdir()
        self.name = name
        self.admin_port, self.rpc_port = free_port(), free_port()
        self.server = WarmServer(folder, "tests.process.forwarder")
        self.server.home.mkdir()
        settings = SETTINGS.format(name=name, admin_port=self.admin_port, rpc_port=self.rpc_port)
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        self.qm = running.enter_context(posthouse.connect(self.server.home))

    def trust(self, other: Machine, key: str | None) -> str | None:
        url = f"http://127.0.0.1:{other.admin_port}"
        body = {"name": other.name, "guid": other.qm.guid, "url": url}
        added = self.qm.call("POST", "/peers", body | ({"key": key} if key else {}))
        return added["key"]  # type: ignore[no-any-return]

    def rise(self) -> None:
        """It was killed, by somebody else."""
        self.server.loaded.wait(self.server.pid)
        self.server.pid = 0
        self.server.start()

    @property
    def open(self) -> list[object]:
        return self.qm.call("GET", "/transactions")["transactions"]  # type: ignore[no-any-return]


class Office:
    """ALPHA forwards what BETA gets."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.alpha = Machine(folder / "a", ALPHA, running)
        self.beta = Machine(folder / "b", BETA, running)
        self.beta.trust(self.alpha, self.alpha.trust(self.beta, None))
        self.kept = self.alpha.qm.create_queue(TARGET, transactional=True)
        self.orders = self.beta.qm.create_queue(f".\\{SOURCE}", transactional=True)
        self.sent: list[bytes] = []
        self._notes = folder / "steps"

    def order(self) -> None:
        """One more message for BETA."""
        self.sent.append(f"order {len(self.sent)}".encode())
        with self.beta.qm.transaction() as tx:
            self.orders.send(self.sent[-1], tx=tx)

    def forward(self, step: int = 0, victim: int = 0) -> int:
        """The life of one client; how it ended."""
        loaded = self.alpha.server.loaded
        arguments = (str(self.alpha.server.home), str(self.beta.rpc_port), SOURCE, TARGET)
        more = (str(step), str(victim), str(self._notes))
        return loaded.wait(loaded.fork("tests.process.forwarder", *arguments, *more))

    @property
    def steps(self) -> int:
        return int(self._notes.read_text())

    def settle(self) -> None:
        until = time.monotonic() + PATIENCE_S
        while self.alpha.open or self.beta.open:
            assert time.monotonic() < until, (self.alpha.open, self.beta.open)
            time.sleep(0.01)

    def finish(self) -> None:
        """Clients forward until nothing is left, and nobody is in doubt."""
        for _ in range(100):
            self.settle()
            if not self.orders.count():
                return
            self.forward()
        raise AssertionError("it never ends")

    def check(self) -> None:
        """Every message once, and in its order."""
        assert [message.body for message in self.kept.browse()] == self.sent


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    with ExitStack() as running:
        yield Office(tmp_path, running)


@pytest.mark.spec("MS-MQRR 3.1.4.12/2", "MS-MQRR 3.1.4.13/25", "MS-MQRR 3.2.4.4.2/3")
def test_whoever_is_killed_at_any_step_messages_are_received_once(
    office: Office, dose: Dose
) -> None:
    office.order()
    assert office.forward() == forwarder.FINISHED
    steps = office.steps
    assert steps > 30
    trials = [(step, who) for step in range(1, steps + 1) for who in (CLIENT, ALPHA, BETA)]
    stride = len(trials) // 9
    for step, who in trials[:: dose(stride + (stride % 3 == 0), 1)]:  # each of the three in turn
        office.order()
        machine = {ALPHA: office.alpha, BETA: office.beta}.get(who)
        ended = office.forward(step, 0 if machine is None else machine.server.pid)
        if machine is not None:
            machine.rise()
        else:
            assert ended < 0
        office.finish()
    office.check()
