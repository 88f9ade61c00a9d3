"""The kernel's own account of remote read: its answers leave the socket when the log is synced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.rpc import pdu
from tests.process.offices import free_port, wait_until
from tests.process.remote_worker import HOST
from tests.support.process.remote_read_server import SETTINGS
from tests.support.process.strace_reads import READS, end
from tests.support.process.strace_server import (
    BYTES,
    CALLS,
    FIRST_ZEROS,
    PATH,
    SOCKET_WRITES,
    START_S,
    unescaped,
)
from tests.support.strace_lines import Call, parsed

RECEIVES, MOVES, PURGES = 20, 8, 4
PROMISES = (Opnum.END_RECEIVE, Opnum.MOVE_MESSAGE, Opnum.PURGE_QUEUE)


def traced(folder: Path) -> list[Call]:
    """What a server did while somebody read from afar, one thing at a time."""
    trace, ready, home = folder / "trace", folder / "ready.json", folder / "home"
    port = free_port()
    home.mkdir(mode=0o700)
    (home / "posthouse.toml").write_text(SETTINGS.format(port=port), encoding="ascii")
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}{READS}"]
    command += ["-o", str(trace), sys.executable, "-m", "posthouse.cli.main", "serve"]
    command += ["--home", str(home), "--ready-file", str(ready), "--ports", "ephemeral"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as running:
        process = subprocess.Popen(command, env=environment)
        running.callback(process.wait)
        running.callback(process.kill)
        wait_until(ready.exists, lambda: process.poll())
        pid = json.loads(ready.read_text())["pid"]
        running.callback(end, pid)  # it outlives a tracer that is killed
        work(home, port)
        os.kill(pid, signal.SIGTERM)
        assert process.wait(START_S) == 0
    return parsed(PATH.sub(lambda found: f"<{unescaped(found[1]).decode()}>", trace.read_text()))


def work(home: Path, port: int) -> None:
    """Receives, moves and purges of recoverable messages."""
    with (
        posthouse.connect(home) as qm,
        posthouse.msmq(HOST, rpc_port=port, authentication="none") as far,
    ):
        orders = qm.create_queue(r".\private$\orders", journal=True)
        source, target = far.queue(r"private$\orders"), far.queue(r"private$\orders;later")
        orders.send_many([b"x" * 200] * (RECEIVES + MOVES), recoverable=True)
        for _ in range(RECEIVES):
            source.receive(0)
        for _ in range(MOVES):
            source.move(source.peek(0), target)
        for _ in range(PURGES):
            orders.send(b"x", recoverable=True)
            source.purge()


class Account:
    """Goes through a trace; `early` is what left while something of the log was not synced."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.early: list[str] = []
        self.seen: Counter[str] = Counter()
        self._unsynced: set[str] = set()
        self._asked: dict[tuple[str, int], Opnum] = {}  # by socket and call

    def go_through(self, calls: list[Call]) -> None:
        for call in calls:
            name, path, text = call
            if path.startswith(self.store) and path.endswith(".log"):
                self._log(name, path, text)
            elif name == "fsync" and path == self.store:
                self._unsynced.discard(path)
            elif path.startswith("socket:"):
                self._socket(name, path, b"".join(map(unescaped, BYTES.findall(text))))

    def _log(self, name: str, path: str, text: str) -> None:
        if name.startswith("pwrite") and not FIRST_ZEROS.search(text):
            self._unsynced.add(path)
            self.seen["log writes"] += 1
        elif name == "openat" and "O_CREAT" in text:
            self._unsynced.add(self.store)
        elif name in ("fdatasync", "fsync"):
            self._unsynced.discard(path)
            self.seen["log syncs"] += 1

    def _socket(self, name: str, path: str, data: bytes) -> None:
        """Requests that come in, responses that go out; other protocols begin otherwise."""
        while len(data) >= pdu.CALL_HEADER_SIZE and data[:2] == b"\5\0":
            size = int.from_bytes(data[8:10], "little")
            call = path, int.from_bytes(data[12:16], "little")
            if data[2] == pdu.REQUEST and name not in SOCKET_WRITES:
                self._asked[call] = Opnum(int.from_bytes(data[22:24], "little"))
            elif data[2] == pdu.RESPONSE and name in SOCKET_WRITES:
                self._answered(self._asked.pop(call))
            data = data[size:]

    def _answered(self, opnum: Opnum) -> None:
        self.seen[opnum.name] += 1
        if opnum in PROMISES and self._unsynced:
            self.early.append(f"{opnum.name} while {sorted(self._unsynced)} wait")


@pytest.mark.peer("strace")
@pytest.mark.spec("MS-MQRR 3.1.4.9/3", "MS-MQRR 3.1.4.9/12")
def test_answers_leave_the_socket_when_the_kernel_has_synced(tmp_path: Path) -> None:
    calls, store = traced(tmp_path), str((tmp_path / "home" / "store").resolve())
    account = Account(store)
    account.go_through(calls)
    print(dict(account.seen))
    assert account.early == []
    wanted = {"END_RECEIVE": RECEIVES, "MOVE_MESSAGE": MOVES, "PURGE_QUEUE": PURGES}
    assert {name: account.seen[name] for name in wanted} == wanted
    assert account.seen["log syncs"] >= sum(wanted.values())

    without = Account(store)  # it would have been noticed
    without.go_through([call for call in calls if call.name not in ("fdatasync", "fsync")])
    assert len(without.early) == sum(wanted.values())
