"""Two real servers, each in a network of its own, with a cable between them that is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from tests.conftest import Dose
from tests.process import shop
from tests.process.offices import TIMERS, outgoing, wait_until
from tests.support.process.body_order import in_order
from tests.support.process.network_namespaces import START_S, Network, inside

QUEUES = {"orders": False, "ledger": True}  # by name: whether it is transactional
SETTINGS = """
[queue_manager]
name = "{name}"
listen = "{address}"
[admin]
enabled = false
[ping]
answer = false
[binary]
port = 1801
connect_timeout_ms = 500
"""


class Office:
    """A server in one of the networks. Its control socket is a file, so anybody here finds it."""

    def __init__(self, folder: Path, name: str, place: int, address: str, running: ExitStack):
        home, ready = folder / name, folder / f"{name}.ready"
        home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, address=address) + TIMERS
        (home / "posthouse.toml").write_text(settings, encoding="ascii")
        self.name, self.address = name, address
        program = [sys.executable, "-m", "posthouse.cli.main", "serve", "--home", str(home)]
        self._process = subprocess.Popen(inside(place, *program, "--ready-file", str(ready)))
        running.callback(self._stop)
        until = time.monotonic() + START_S
        while not ready.exists():
            assert self._process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        self.qm = running.enter_context(posthouse.connect(home))
        for queue, transactional in QUEUES.items():
            self.qm.create_queue(f".\\private$\\{queue}", transactional=transactional)

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(START_S) == 0

    def send(self, other: Office, count: int, names: shop.Names) -> list[bytes]:
        """As many to each queue of the other one."""
        bodies = names.take(count)
        to = f"DIRECT=TCP:{other.address}\\private$\\"
        self.qm.queue(f"{to}orders").send_many(bodies, recoverable=True)
        with self.qm.transaction() as tx:
            self.qm.queue(f"{to}ledger").send_many(bodies, tx=tx)
        return bodies

    def waiting(self) -> int:
        return sum(queue.messages for queue in outgoing(self.qm))

    def states(self) -> set[str]:
        return {queue.state for queue in outgoing(self.qm) if queue.messages}

    def has(self, bodies: list[bytes]) -> None:
        """Each of these is here once, and in order."""
        for queue in QUEUES:
            found = shop.drain(self.qm, f".\\private$\\{queue}")
            shop.each_once(found, set(bodies), set())
            assert in_order(found)


@pytest.mark.peer("namespaces")
@pytest.mark.spec("MS-MQQB 3.1.1.1.1.1/3", "MS-MQQB 3.1.1.1.1.3/2", "MS-MQQB 3.1.1.6/1")
@pytest.mark.timeout(3600)
def test_messages_wait_for_the_cable_and_arrive_once(tmp_path: Path, dose: Dose) -> None:
    with ExitStack() as running:
        network = Network(running)
        one = Office(tmp_path, "ALPHA", network.one, "10.77.0.1", running)
        two = Office(tmp_path, "BRAVO", network.two, "10.77.0.2", running)
        names = {office.name: shop.Names(office.name) for office in (one, two)}
        sent: dict[str, list[bytes]] = {"ALPHA": [], "BRAVO": []}

        def send(count: int) -> None:
            for office, other in ((one, two), (two, one)):
                sent[office.name] += office.send(other, count, names[office.name])

        for _ in range(dose(2, 40)):
            send(500)  # on their way when the cable is cut
            network.cut()
            send(50)
            wait_until(lambda: "connected" not in one.states() | two.states(), one.states)
            assert one.waiting() >= 100
            assert two.waiting() >= 100
            network.mend()
            wait_until(
                lambda: one.waiting() + two.waiting() == 0, lambda: (one.states(), two.states())
            )
        two.has(sent["ALPHA"])
        one.has(sent["BRAVO"])
        for office in (one, two):
            shop.check_balance(office.qm, locked=0)
        print({name: len(bodies) for name, bodies in sent.items()}, os.uname().release)
