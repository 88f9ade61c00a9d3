"""The kernel's own account of NCP: its answers leave the socket when the log is synced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.wire.ncp import framing as ncp
from posthouse.wire.ncp.functions import CALLS as NCP_CALLS
from tests.process.ncp_house import client, furnish, submit
from tests.process.offices import wait_until
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

JOBS = 12
PROMISES: Final = {
    "Create Queue Job And File": JOBS,
    "Write to a File": JOBS,
    "Close File And Start Queue Job": JOBS,
    "Finish Servicing Queue Job": JOBS,
}
REPLY_HEAD: Final = 8  # in front of the message


def traced(folder: Path) -> list[Call]:
    """What a server did while jobs were submitted and serviced, one thing at a time."""
    trace, ready, home = folder / "trace", folder / "ready.json", folder / "home"
    command = ["strace", "-f", "-y", "-xx", "-s", "1000000", "-e", f"trace={CALLS}{READS}"]
    command += ["-o", str(trace), sys.executable, "-m", "posthouse.cli.main", "serve"]
    command += ["--home", str(home), "--ready-file", str(ready), "--ports", "ephemeral"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    with ExitStack() as running:
        process = subprocess.Popen(command, env=environment)
        running.callback(process.wait)
        running.callback(process.kill)
        wait_until(ready.exists, lambda: process.poll())
        told = json.loads(ready.read_text())
        running.callback(end, told["pid"])  # it outlives a tracer that is killed
        work(home, int(told["endpoints"]["ncp"].rpartition(":")[2]))
        os.kill(told["pid"], signal.SIGTERM)
        assert process.wait(START_S) == 0
    return parsed(PATH.sub(lambda found: f"<{unescaped(found[1]).decode()}>", trace.read_text()))


def work(home: Path, port: int) -> None:
    """Jobs from their creation to their end, over TCP."""
    queue = furnish(home)
    with client(port, "ALICE") as alice, client(port, "SERVER", NWOT_JOB_SERVER) as server:
        server.attach_queue_server_to_queue(queue)
        for _ in range(JOBS):
            number = submit(alice, queue, b"x" * 200)
            assert server.service_queue_job(queue).job_number == number
            server.finish_servicing_queue_job(queue, number)


class Account:
    """Goes through a trace; `early` is what left while something of the log was not synced."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.early: list[str] = []
        self.seen: Counter[str] = Counter()
        self._unsynced: set[str] = set()
        self._asked: dict[str, str] = {}  # the name of the call, by socket

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
        """One request at a time comes in, its reply goes out."""
        if data.startswith(ncp.REQUEST_MAGIC) and name not in SOCKET_WRITES:
            (message,) = ncp.Stream().feed(data)
            self._asked[path] = called(ncp.read_request(message))
        elif data.startswith(ncp.REPLY_MAGIC) and name in SOCKET_WRITES:
            assert ncp.read_reply(data[REPLY_HEAD:]).completion == 0
            self._answered(self._asked.pop(path))

    def _answered(self, call: str) -> None:
        self.seen[call] += 1
        if call in PROMISES and self._unsynced:
            self.early.append(f"{call} while {sorted(self._unsynced)} wait")


def called(request: ncp.Request) -> str:
    """The name of what is asked."""
    if request.kind != ncp.REQUEST:
        return hex(request.kind)
    number = None
    if request.function in ncp.FUNCTION_GROUPS:
        number, _ = ncp.read_subfunction(request.data)
    return NCP_CALLS[request.function, number].name


@pytest.mark.peer("strace")
@pytest.mark.spec("NCP 0x7F/1", "NCP 0x83/1")
def test_answers_leave_the_socket_when_the_kernel_has_synced(tmp_path: Path) -> None:
    calls, store = traced(tmp_path), str((tmp_path / "home" / "store").resolve())
    account = Account(store)
    account.go_through(calls)
    print(dict(account.seen))
    assert account.early == []
    assert {name: account.seen[name] for name in PROMISES} == PROMISES
    assert account.seen["log syncs"] >= sum(PROMISES.values())

    without = Account(store)  # it would have been noticed
    without.go_through([call for call in calls if call.name not in ("fdatasync", "fsync")])
    assert len(without.early) == sum(PROMISES.values())
