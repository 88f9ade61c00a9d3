"""`posthouse migrate pull` while the command, the source and the queue manager here are killed.

The source is a Posthouse, read as Windows would be: remote read over TCP. Whatever is killed, each
message is here once, in order, nothing is left there, and `verify` finds no difference.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

import pytest

import posthouse
from posthouse.cli.main import run
from tests.conftest import Dose
from tests.process.offices import free_port
from tests.process.warm import Loaded, WarmServer

SETTINGS = """
[queue_manager]
name = "{name}"
default_access = {{users = "full", anonymous = "full"}}
[store]
segment_size = "1MiB"
[ping]
answer = false
[binary]
port = {binary_port}
[rpc]
port = {rpc_port}
minimum_authentication = "none"
"""
ORDERS = r".\private$\orders"
NOTES = r".\private$\notes"
BATCH = 500


class Machine:
    """A server that is found at the same ports after each restart."""

    def __init__(self, folder: Path, name: str, running: ExitStack) -> None:
        folder.mkdir()
        self.binary_port, self.rpc_port = free_port(), free_port()
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, binary_port=self.binary_port, rpc_port=self.rpc_port)
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        self.qm = running.enter_context(posthouse.connect(self.server.home))

    def restart(self) -> None:
        """As `kill -9` does, and up again."""
        self.server.kill()
        self.server.start()

    def bodies(self, path: str) -> list[bytes]:
        return [one.body for one in self.qm.queue(path).browse()]


class Command:
    """`posthouse migrate`, as often as it takes."""

    def __init__(self, here: Machine, there: Machine, folder: Path) -> None:
        self._loaded = Loaded(folder, "posthouse.cli.migrate.command")
        self._words = ports_of(here, there)

    def start(self, verb: str, queue: str, *more: str) -> int:
        source = f"127.0.0.1/private$/{queue}"
        return self._loaded.fork("posthouse.cli.main", "migrate", verb, source, *more, *self._words)

    def wait(self, pid: int) -> int:
        return self._loaded.wait(pid)

    def done(self, verb: str, queue: str, *more: str) -> None:
        assert self.wait(self.start(verb, queue, *more)) == 0, self._loaded.errors.read_text()


def fill(machine: Machine, messages: int) -> None:
    """A transactional queue, and one whose journal has something already."""
    for path in (ORDERS, NOTES):
        machine.qm.create_queue(path, transactional=path == ORDERS, journal=True)
        machine.qm.call(
            "POST",
            f"/queues/{quote(path + ';journal', safe='')}/access/grant",
            {"who": "anonymous", "rights": ["full"]},
        )
    orders = machine.qm.queue(ORDERS)
    for at in range(0, messages, BATCH):
        with machine.qm.transaction() as tx:
            bodies = [b"%d" % n for n in range(at, min(at + BATCH, messages))]
            orders.send_many(bodies, tx=tx)
    with posthouse.connect(machine.server.home) as reader:
        notes = reader.queue(NOTES)
        notes.send_many([b"read %d" % n for n in range(20)], recoverable=True)
        for _ in range(20):
            notes.receive(0)
        notes.send_many([b"note %d" % n for n in range(100)], recoverable=True)
    orders.close()


class Kills:
    """Which of the three is killed, by turns, at a moment of the pull."""

    def __init__(self, here: Machine, there: Machine, command: Command) -> None:
        self._kinds = cycle(["command", "here", "source"])
        self._chance = random.Random(7)
        self._here, self._there, self._command = here, there, command
        self.half_way = 0
        self.counts: dict[str, int] = {}

    def run(self, kills: int, messages: int) -> None:
        """Kills at moments that divide the pull, as far as it has come by itself."""
        pid, done = self._command.start("pull", "orders"), 0
        for number in range(1, kills + 1):
            done = self._come_to(messages * number // (kills + 1), done)
            kind = next(self._kinds)
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.half_way += 0 < done < messages
            if kind == "command":
                os.kill(pid, signal.SIGKILL)
                self._command.wait(pid)
                pid = self._command.start("pull", "orders")
            else:
                (self._here if kind == "here" else self._there).restart()
        if code := self._command.wait(pid):
            pytest.fail(f"the pull ended with {code}")

    def _come_to(self, wanted: int, done: int) -> int:
        """Until this many messages are here; a pull that has ended comes no further."""
        until = time.monotonic() + 120
        while done < wanted:
            assert time.monotonic() < until, "the pull does not come on"
            time.sleep(self._chance.uniform(0.0, 0.02))
            done = self._here.qm.queue(ORDERS).count()
        return done


@pytest.mark.timeout(7200)
def test_each_message_is_here_once_and_in_order(tmp_path: Path, dose: Dose) -> None:
    messages, kills = dose(1_500, 100_000), dose(4, 20)
    with ExitStack() as running:
        there = Machine(tmp_path / "there", "WINHOST", running)
        here = Machine(tmp_path / "here", "ALPHA", running)
        fill(there, messages)
        here.qm.create_queue(ORDERS, transactional=True, journal=True)
        here.qm.create_queue(NOTES, journal=True)
        command = Command(here, there, tmp_path)
        killing, begun = Kills(here, there, command), time.monotonic()
        killing.run(kills, messages)
        seconds = time.monotonic() - begun
        assert [int(body) for body in here.bodies(ORDERS)] == list(range(messages))
        assert there.bodies(ORDERS) == []
        for _ in range(2):  # the journal there is the proof of what was moved, and stays
            assert sorted(map(int, there.bodies(ORDERS + ";journal"))) == list(range(messages))
            command.done("pull", "orders", "--journals")
        assert here.bodies(ORDERS + ";journal") == []
        command.done("verify", "orders", "--journals")
        command.done("pull", "notes", "--journals")
        assert here.bodies(NOTES) == [b"note %d" % n for n in range(100)]
        assert here.bodies(NOTES + ";journal") == [b"read %d" % n for n in range(20)]
        for _ in range(2):  # its own receives are in the journal there now, and stay
            assert there.bodies(NOTES + ";journal") == [b"note %d" % n for n in range(100)]
            command.done("pull", "notes", "--journals")
            assert here.bodies(NOTES + ";journal") == [b"read %d" % n for n in range(20)]
        command.done("verify", "notes", "--journals")
        (pull,) = [one for one in pulls(here) if one["source"].endswith("orders")]
        assert pull["messages"] == messages
        assert killing.half_way == kills
        print(f"{messages} messages, kills {killing.counts}, {seconds:.1f} s")


def pulls(machine: Machine) -> list[dict[str, object]]:
    found = machine.qm.call("GET", "/pulls")
    return list(json.loads(json.dumps(found))["pulls"])


def test_what_comes_late_is_forwarded_until_ctrl_c(tmp_path: Path) -> None:
    with ExitStack() as running:
        there = Machine(tmp_path / "there", "WINHOST", running)
        here = Machine(tmp_path / "here", "ALPHA", running)
        for machine in (there, here):
            machine.qm.create_queue(NOTES)
        queue = there.qm.queue(NOTES)
        queue.send(b"early", recoverable=True)
        words = ["migrate", "pull", "127.0.0.1/private$/notes", "--follow", *ports_of(here, there)]
        process = subprocess.Popen(
            [sys.executable, "-m", "posthouse.cli.main", *words], stderr=subprocess.PIPE, text=True
        )
        received = here.qm.queue(NOTES)
        assert received.receive(60).body == b"early"
        for number in range(3):
            queue.send(b"late %d" % number, recoverable=True)
            assert received.receive(60).body == b"late %d" % number
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == ""
        assert process.returncode == 0
        assert [one["running"] for one in pulls(here)] == [False]


def ports_of(here: Machine, there: Machine) -> list[str]:
    return [
        "--rpc-port", str(there.rpc_port), "--binary-port", str(there.binary_port),
        "--patience", "60s", "--home", str(here.server.home),
    ]  # fmt: skip


def test_damaged_messages_are_reported_by_every_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three bodies of the source's store are hit: it counts them, and gives them to nobody."""
    with ExitStack() as running:
        there = Machine(tmp_path / "there", "WINHOST", running)
        here = Machine(tmp_path / "here", "ALPHA", running)
        for machine in (there, here):
            machine.qm.create_queue(NOTES)
        user = {"name": "boss", "doors": ["rpc"], "administrator": True, "password": "correct 7"}
        there.qm.call("POST", "/users", user)
        queue = there.qm.queue(NOTES)
        for n in range(40):  # each in a record of its own
            queue.send(b"note %02d" % n, recoverable=True)
        there.server.stop()
        damage(there.server.home, [b"note 03", b"note 17", b"note 31"])
        there.server.start()
        inventory, password = tmp_path / "inventory.json", tmp_path / "password"
        password.write_text("correct 7\n")
        login = ["--user", "boss", "--password-file", str(password)]
        scan = ["scan", f"127.0.0.1:{there.rpc_port}", *login, "--output", str(inventory)]
        assert run(scan) == 0
        whole = ["--inventory", str(inventory), *login]
        cause = "3 messages are there that remote read does not give: damaged,"
        for words in (["pull", *whole], ["verify", *whole], ["switch", "127.0.0.1", *whole]):
            code = run(["migrate", *words, *ports_of(here, there)])
            said = capsys.readouterr()
            assert (code, cause in said.out + said.err) == (1, True), said
        assert len(here.bodies(NOTES)) == 37


def damage(home: Path, bodies: list[bytes]) -> None:
    """Flips a bit of each body, wherever the store has it."""
    for path in home.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        for body in bodies:
            data = data.replace(body, body[:-1] + bytes([body[-1] ^ 1]))
        if path.is_file() and data != path.read_bytes():
            path.write_bytes(data)
