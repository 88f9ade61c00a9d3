"""The kernel's own account of HTTP: answers and posts leave when their messages are synced."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from benchmarks.srmp_client import FIRST_ID, request
from tests.process.offices import free_port, wait_until
from tests.process.srmp_offices import HOST, HttpOffice
from tests.process.srmp_offices import SETTINGS as HTTP_SETTINGS
from tests.support.process.strace_server import (
    BYTES,
    CALLS,
    PATH,
    SOCKET_WRITES,
    START_S,
    unescaped,
)
from tests.support.strace_lines import Call, parsed

POSTS, TOGETHER, SENDS = 20, 8, 20
IN, OUT = re.compile(rb"came-in-(\d{5})"), re.compile(rb"goes-out-(\d{5})")
POSITIVE = re.compile(rb"HTTP/1.1 200 ")
SETTINGS = '[queue_manager]\nname = "ALPHA"\n[ping]\nanswer = false\n'


class Peer:
    """Connections that each post one message at a time; knows which message went where."""

    def __init__(self, port: int, connections: int) -> None:
        self.address = f"{HOST}:{port}"
        self._sockets = [
            socket.create_connection((HOST, port), timeout=START_S) for _ in range(connections)
        ]
        self.inodes = [inode_of(port, each.getsockname()[1]) for each in self._sockets]
        self.posted: list[list[bytes]] = [[] for _ in self._sockets]
        self._count = 0

    def post(self) -> None:
        """One on each connection; returns when all are answered."""
        for one, mine in zip(self._sockets, self.posted, strict=True):
            self._count += 1
            body = b"came-in-%05d" % self._count
            one.sendall(request(self.address, FIRST_ID + self._count, body))
            mine.append(body)
        for one in self._sockets:
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += one.recv(1 << 16)
            assert POSITIVE.match(answer), answer

    def close(self) -> None:
        for each in self._sockets:
            each.close()


def inode_of(here: int, there: int) -> str:
    """What the kernel calls the server's end of a connection, once the server has taken it."""
    wait_until(lambda: bool(find_inode(here, there)), lambda: "a connection is not taken")
    return find_inode(here, there)


def find_inode(here: int, there: int) -> str:
    """The same; empty: the server has not taken it yet."""
    wanted = f":{here:04X}", f":{there:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if (fields[1][-5:], fields[2][-5:]) == wanted and fields[9] != "0":
            return f"socket:[{fields[9]}]"
    return ""


def traced(folder: Path) -> tuple[list[Call], dict[str, list[bytes]]]:
    """What a server did, and which messages came on which of its sockets."""
    port, home = free_port(), folder / "home"
    trace, ready = folder / "trace", folder / "ready.json"
    home.mkdir(mode=0o700)
    (home / "posthouse.toml").write_text(SETTINGS + HTTP_SETTINGS.format(port=port))
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}"]
    command += ["-o", str(trace), sys.executable, "-m", "posthouse.cli.main", "serve"]
    command += ["--home", str(home), "--ready-file", str(ready), "--ports", "ephemeral"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as running:
        process = subprocess.Popen(command, env=environment)
        running.callback(process.wait)
        running.callback(process.kill)
        wait_until(ready.exists, lambda: process.poll())
        posted = work(home, port, HttpOffice(folder / "BRAVO", "BRAVO", running))
        os.kill(json.loads(ready.read_text())["pid"], signal.SIGTERM)
        assert process.wait(START_S) == 0
    text = PATH.sub(lambda found: f"<{unescaped(found[1]).decode()}>", trace.read_text())
    return parsed(text), posted


def work(home: Path, port: int, bravo: HttpOffice) -> dict[str, list[bytes]]:
    """Messages come in on some connections and go out on another."""
    bravo.create("plain")
    bravo.create("ledger", transactional=True)
    posted: dict[str, list[bytes]] = {}
    with posthouse.connect(home) as qm:
        qm.create_queue(r".\private$\orders")
        for connections, rounds in ((1, POSTS), (TOGETHER, POSTS // 2)):
            peer = Peer(port, connections)
            for _ in range(rounds):
                peer.post()
            posted.update(zip(peer.inodes, peer.posted, strict=True))
            peer.close()
        for number in range(SENDS):
            body = b"goes-out-%05d" % number
            if number % 2:
                qm.queue(bravo.name_of("plain")).send(body, recoverable=True)
            else:
                qm.queue(bravo.name_of("ledger")).send(body, transactional=True)
    half = SENDS // 2
    wait_until(lambda: len(bravo.bodies("plain")) == half, lambda: bravo.bodies("plain"))
    wait_until(lambda: len(bravo.bodies("ledger")) == half, lambda: bravo.bodies("ledger"))
    return posted


class Account:
    """Goes through a trace; `early` is what left too soon."""

    def __init__(self, store: str, posted: dict[str, list[bytes]]) -> None:
        self.store = store
        self.early: list[bytes] = []
        self.seen: Counter[str] = Counter()
        self._expected = {path: iter(bodies) for path, bodies in posted.items()}
        self._written: dict[str, set[bytes]] = {}
        self._synced: set[bytes] = set()

    def go_through(self, calls: list[Call]) -> None:
        for call in calls:
            log = call.path.startswith(self.store) and call.path.endswith(".log")
            if log and call.name.startswith("pwrite"):
                found = (match[0] for kind in (IN, OUT) for match in kind.finditer(data_of(call)))
                self._written.setdefault(call.path, set()).update(found)
            elif log and call.name in ("fdatasync", "fsync"):
                self._synced |= self._written.pop(call.path, set())
            elif call.name in SOCKET_WRITES and call.path.startswith("socket:"):
                self._left(call.path, data_of(call))

    def _left(self, path: str, data: bytes) -> None:
        """Bytes for somebody: answers on the sockets of posts, posts on others."""
        if path in self._expected:
            for _ in POSITIVE.findall(data):
                self.seen["answers"] += 1
                self._require(next(self._expected[path]))
        elif data.startswith(b"POST ") or OUT.search(data):
            for found in OUT.finditer(data):
                self.seen["posts"] += 1
                self._require(found[0])

    def _require(self, marker: bytes) -> None:
        if marker not in self._synced:
            self.early.append(marker)


def data_of(call: Call) -> bytes:
    return b"".join(map(unescaped, BYTES.findall(call.text)))


@pytest.mark.peer("strace")
@pytest.mark.spec("MC-MQSRM 2.2.5.2.1/3", "MC-MQSRM 2.2.5.2.1/4", "MC-MQSRM 3.1.5.1.6.2/1")
def test_no_answer_and_no_post_leaves_before_its_sync(tmp_path: Path) -> None:
    calls, posted = traced(tmp_path)
    store = str((tmp_path / "home" / "store").resolve())
    account = Account(store, posted)
    account.go_through(calls)
    print(dict(account.seen))
    assert account.early == []
    assert account.seen["answers"] == POSTS + POSTS // 2 * TOGETHER
    assert account.seen["posts"] >= SENDS

    without = Account(store, posted)  # it would have been noticed
    without.go_through([call for call in calls if call.name not in ("fdatasync", "fsync")])
    assert len(without.early) == account.seen["answers"] + account.seen["posts"]
