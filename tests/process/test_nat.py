"""Two queue managers with a NAT between them, or one as in a container at a bridge.

Messages and acknowledgments go both ways, or `doctor --peer` tells why not.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import posthouse
from tests.process.offices import TIMERS, outgoing, wait_until
from tests.support.process.network_namespaces import START_S, NatNetwork, inside

pytestmark = [pytest.mark.peer("namespaces", "nftables"), pytest.mark.timeout(600)]

QUEUES = {"orders": False, "ledger": True}
BODIES = [b"%d" % number for number in range(20)]
SETTINGS = """
[queue_manager]
name = "{name}"
listen = "0.0.0.0"
{names}
[admin]
enabled = false
[rpc]
enabled = false
[ncp]
enabled = false
[http]
enabled = false
[ping]
answer = false
[binary]
port = 1801
connect_timeout_ms = 500
"""
PROGRAM = [sys.executable, "-m", "posthouse.cli.main"]


class Office:
    """A server in one of the networks; its control socket is a file."""

    def __init__(
        self, folder: Path, name: str, place: int, running: ExitStack, names: str = ""
    ) -> None:
        self.home, ready = folder / name, folder / f"{name}.ready"
        self.home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, names=names) + TIMERS
        (self.home / "posthouse.toml").write_text(settings, encoding="ascii")
        self.place = place
        words = ["serve", "--home", str(self.home), "--ready-file", str(ready)]
        self._process = subprocess.Popen(inside(place, *PROGRAM, *words))
        running.callback(self._stop)
        until = time.monotonic() + START_S
        while not ready.exists():
            assert self._process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        self.qm = running.enter_context(posthouse.connect(self.home))
        for queue, transactional in QUEUES.items():
            self.qm.create_queue(f".\\private$\\{queue}", transactional=transactional)

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(START_S) == 0

    def send(self, address: str) -> None:
        to = f"DIRECT=TCP:{address}\\private$\\"
        self.qm.queue(f"{to}orders").send_many(BODIES, recoverable=True)
        with self.qm.transaction() as tx:
            self.qm.queue(f"{to}ledger").send_many(BODIES, tx=tx)

    def waiting(self) -> int:
        return sum(queue.messages for queue in outgoing(self.qm))

    def has_all(self) -> bool:
        """Each message is here, in order."""
        return all(
            [message.body for message in self.qm.queue(f".\\private$\\{queue}").browse()] == BODIES
            for queue in QUEUES
        )

    def doctor(self, address: str) -> dict[str, Any]:
        words = ["doctor", "--peer", address, "--home", str(self.home), "--timeout", "2s", "--json"]
        done = subprocess.run(
            inside(self.place, *PROGRAM, *words),
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return {row["check"]: row for row in rows}

    def log(self) -> str:
        return (self.home / "logs" / "posthouse.log").read_text()


def arrived(sender: Office, receiver: Office) -> None:
    """Everything is there, and the sender has heard so."""
    wait_until(receiver.has_all, lambda: (receiver.log()[-2000:], sender.log()[-2000:]))
    wait_until(lambda: sender.waiting() == 0, lambda: (sender.log()[-2000:], sender.waiting()))


@pytest.mark.parametrize(
    ("bridge", "names"),
    [(False, 'addresses = ["10.77.0.1"]'), (True, "accept_any_name = true")],
    ids=["gateway and addresses", "bridge and any name"],
)
def test_with_a_forwarded_port_messages_and_acknowledgments_go_both_ways(
    tmp_path: Path, bridge: bool, names: str
) -> None:
    with ExitStack() as running:
        network = NatNetwork(running, bridge=bridge, forwarded=True)
        alpha = Office(tmp_path, "ALPHA", network.inside, running, names)
        bravo = Office(tmp_path, "BRAVO", network.outside, running)
        alpha.send(network.OUTSIDE)
        arrived(alpha, bravo)
        bravo.send(network.GATEWAY)
        arrived(bravo, alpha)
        found = alpha.doctor(network.OUTSIDE)
        assert found["messages"]["state"] == "ok"
        assert found["own names"]["state"] in ("ok", "warning")


def test_a_machine_that_does_not_take_the_name_of_its_gateway_is_told_so(tmp_path: Path) -> None:
    with ExitStack() as running:
        network = NatNetwork(running, bridge=True, forwarded=True)
        alpha = Office(tmp_path, "ALPHA", network.inside, running)
        bravo = Office(tmp_path, "BRAVO", network.outside, running)
        bravo.send(network.GATEWAY)
        wait_until(lambda: "name_not_ours" in alpha.log(), alpha.log)
        found = alpha.doctor(network.OUTSIDE)["refused names"]
        assert network.GATEWAY in found["found"]
        assert "accept_any_name" in found["remedy"]
        assert not alpha.has_all()


def test_without_a_forwarded_port_the_way_in_is_closed_and_the_way_out_works(
    tmp_path: Path,
) -> None:
    """Acknowledgments come back on the session that carried the messages."""
    with ExitStack() as running:
        network = NatNetwork(running, bridge=False, forwarded=False)
        alpha = Office(tmp_path, "ALPHA", network.inside, running)
        bravo = Office(tmp_path, "BRAVO", network.outside, running)
        alpha.send(network.OUTSIDE)
        arrived(alpha, bravo)
        found = bravo.doctor(network.GATEWAY)["messages"]
        assert found["state"] == "failed"
        assert "1801" in found["remedy"]
