"""Two real servers that share transactions, one of them killed while a commit is under way."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.client.errors import ClientConnectionError
from tests.conftest import Dose
from tests.process.warm import WarmServer

PATH = r".\private$\shared"
SETTLE_S = 60.0
SETTINGS = """
[admin]
port = {port}
[transactions]
prepare_s = 3
in_doubt_s = 1
peer_retry_max_s = 1
"""


class Machine:
    """A server that is found at the same address after each restart."""

    def __init__(self, folder: Path, name: str, running: ExitStack) -> None:
        folder.mkdir()
        self.name = name
        self.server = WarmServer(folder)
        self.server.home.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        settings = SETTINGS.format(port=self.port)
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        self.qm = running.enter_context(posthouse.connect(self.server.home))
        self.qm.create_queue(PATH, transactional=True)

    def trust(self, other: Machine, key: str | None) -> str | None:
        url = f"http://127.0.0.1:{other.port}"
        body = {"name": other.name, "guid": other.qm.guid, "url": url}
        added = self.qm.call("POST", "/peers", body | ({"key": key} if key else {}))
        return added["key"]  # type: ignore[no-any-return]

    def restart(self) -> None:
        self.server.kill()
        self.server.start()

    def bodies(self) -> set[bytes]:
        return {message.body for message in self.qm.queue(PATH).browse()}

    @property
    def open(self) -> list[object]:
        return self.qm.call("GET", "/transactions")["transactions"]  # type: ignore[no-any-return]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    with ExitStack() as running:
        alpha = Machine(tmp_path / "a", "ALPHA", running)
        beta = Machine(tmp_path / "b", "BETA", running)
        beta.trust(alpha, alpha.trust(beta, None))
        yield alpha, beta


def test_whoever_is_killed_during_a_commit_both_agree(
    machines: tuple[Machine, Machine], dose: Dose
) -> None:
    alpha, beta = machines
    for number in range(dose(6, 300)):
        body, told = f"{number}".encode(), list[bool | None]()
        tx = alpha.qm.transaction().begin()
        part = tx.enlist(beta.qm)
        alpha.qm.queue(PATH).send(body, tx=tx)
        beta.qm.queue(PATH).send(body, tx=part)
        client = threading.Thread(target=commit, args=(tx, told))
        client.start()
        time.sleep(number // 2 % 6 * 0.001)
        machines[number % 2].restart()
        client.join()
        settled(alpha, beta)
        done = body in alpha.bodies()
        assert (body in beta.bodies()) is done
        assert told[0] in (done, None), (told, done)


def commit(tx: posthouse.Transaction, told: list[bool | None]) -> None:
    """What the client was told: done, not done, or nothing."""
    try:
        tx.commit()
        told.append(True)
    except (posthouse.QueueError, posthouse.TransactionAborted):
        told.append(False)
    except ClientConnectionError:
        told.append(None)


def settled(*machines: Machine) -> None:
    """Nothing is open or unconfirmed any more."""
    until = time.monotonic() + SETTLE_S
    while any(machine.open for machine in machines):
        assert time.monotonic() < until, [machine.open for machine in machines]
        time.sleep(0.02)
