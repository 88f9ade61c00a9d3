"""`calls`: how many Python calls and system calls one durable message takes. No clock is asked.

A queue manager runs in a child that counts what its loop does for each request of one client, who
has one request under way at a time. Of many alike requests the most frequent count stands here;
`share` is how many had exactly that one. So the figures are the same on a busy machine. The calls
of a client are counted in a process of its own as well, where nothing else is loaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from benchmarks.figures import Column, Goal, Outcome, Row, Table, tenths
from benchmarks.processes import Process, started
from benchmarks.run import Run
from benchmarks.samples import BODY_SIZE, body_of
from posthouse.client.connect import connect
from posthouse.protocols.http.connection import HttpConnection
from posthouse.protocols.sessions import requests
from posthouse.runtime import serve
from posthouse.runtime.endpoints import standard_doors
from posthouse.runtime.loop import SyncPolicy
from posthouse.runtime.ports import PortSet

NAME = "calls"
QUEUE = ".\\private$\\orders"
GOAL_CALLS, AIM_CALLS = 525, 200
GOAL_SYSTEM_CALLS, AIM_SYSTEM_CALLS = 5, 4
START_S = 60.0
DISK_CALLS = frozenset({"pwritev2", "pwritev", "pwrite64", "sync_file_range", "fdatasync", "fsync"})
READS = frozenset({"read", "recvfrom", "recvmsg"})
WRITES = frozenset({"sendto", "sendmsg"})
_LINE = re.compile(r"^(\d+) +(\w+)\((\d*).*?(?: = (\d+))?$")
_COLUMNS = [
    Column("case", "case"),
    Column("python", "Python calls"),
    Column("builtin", "calls of builtins"),
    Column("system", "system calls"),
    Column("disk", "of the disk"),
    Column("share", "share", tenths),
    Column("names", "which"),
]


class Count(NamedTuple):
    """Calls of one request."""

    python: int
    builtin: int


class OnTheLoop(SyncPolicy):
    """Every sync runs on the loop, however slow the disk is: in a thread it would vary."""

    def inline(self, batch_bytes: int) -> bool:
        """Always."""
        return True


class CallCounter:
    """Counts the calls of one thread, from one read of a connection to the next."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Count]] = {}
        self._handlers = {one.__code__: one.__name__ for one in requests.HANDLERS.values()}
        self._begins = HttpConnection.buffer_updated.__code__
        self._python = self._builtin = 0
        self._request = ""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        if event == "c_call":
            self._builtin += 1
        elif event == "call":
            code = frame.f_code
            if code is self._begins:
                self._next()
            elif code in self._handlers:
                self._request = self._handlers[code]
            self._python += 1

    def _next(self) -> None:
        if self._request:
            count = Count(self._python, self._builtin)
            self.counts.setdefault(self._request, Counter())[count] += 1
        self._request, self._python, self._builtin = "", 0, 0


# -- the children


def run_server(home: Path, *, counting: bool) -> None:
    """A queue manager until SIGTERM; then what was counted, as one line of JSON."""
    counter = CallCounter()

    def doors(service: serve.Service) -> list[serve.DoorAddress]:
        service.desk.policy = OnTheLoop()
        service.desk.upkeep_every_s = 3600.0  # it is due by the clock, not by messages
        if counting:
            sys.setprofile(counter)
        return standard_doors(service)

    options = serve.Options(
        home, name="BENCH", ports=PortSet.EPHEMERAL, ready_file=home.parent / "ready.json"
    )
    serve.run(options, doors)
    sys.setprofile(None)
    counted = {name: [[*c, n] for c, n in found.items()] for name, found in counter.counts.items()}
    print(json.dumps(counted), flush=True)


def run_client(home: Path, messages: int) -> None:
    """Sends durable messages one by one; then what each took, as one line of JSON."""
    counts: Counter[Count] = Counter()
    python = builtin = 0

    def counter(frame: FrameType, event: str, argument: object) -> None:
        nonlocal python, builtin
        python += event == "call"
        builtin += event == "c_call"

    with connect(home) as manager:
        queue, body = manager.create_queue(QUEUE), body_of(0)
        for _ in range(messages):
            python, builtin = 0, -1  # the last builtin call is the one that ends the count
            sys.setprofile(counter)
            queue.send(body, recoverable=True)
            sys.setprofile(None)
            counts[Count(python, builtin)] += 1
    print(json.dumps([[*count, n] for count, n in counts.items()]), flush=True)


# -- the parent


@contextmanager
def _serving(directory: Path, command: Sequence[str], *switches: str) -> Iterator[Process]:
    home = directory / "home"
    words = [*command, *_child(home, *switches)]
    ready, until = directory / "ready.json", time.monotonic() + START_S
    with started(words) as process:
        while not ready.exists():
            if process.poll() is not None or time.monotonic() > until:
                assert process.stderr is not None
                raise RuntimeError(f"the server did not start: {process.stderr.read()[-2000:]}")
            time.sleep(0.01)
        yield process


def _child(home: Path, *switches: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.calls", str(home), *switches]


def _client(directory: Path, messages: int, *command: str) -> str:
    """Runs a client to its end; returns its output."""
    words = [*command, *_child(directory / "home", "client", str(messages))]
    with started(words) as process:
        output, errors = process.communicate(timeout=START_S)
    if process.returncode:
        raise RuntimeError(f"the client failed: {errors[-2000:]}")
    return output


def _work(directory: Path, sent: int, received: int) -> None:
    with connect(directory / "home") as manager:
        manager.create_queue(QUEUE)
        queue = manager.queue(QUEUE)
        for number in range(sent):
            queue.send(body_of(number), label=f"order {number:06d}", recoverable=True)
        for _ in range(received):
            assert len(queue.receive(0).body) == BODY_SIZE


def _stop(directory: Path, process: Process) -> str:
    """Ends the server by its own pid: the process that was started may be its tracer."""
    pid = json.loads((directory / "ready.json").read_bytes())["pid"]
    os.kill(pid, signal.SIGTERM)
    output, errors = process.communicate(timeout=START_S)
    if process.returncode:
        raise RuntimeError(f"the server failed: {errors[-2000:]}")
    return output


def count_calls(run: Run, messages: int) -> dict[str, tuple[Count, float]]:
    """By request: the most frequent count, and which part of all requests had it."""
    with run.place.fresh("calls") as directory, _serving(directory, (), "count") as process:
        _work(directory, messages, messages)
        output = _stop(directory, process)
    counted: dict[str, Any] = json.loads(output.splitlines()[-1])
    return {name: _most(found) for name, found in counted.items()}


def count_client_calls(run: Run, messages: int) -> tuple[Count, float]:
    """The most frequent count of a client that sends one message, and its part of all."""
    with run.place.fresh("client") as directory, _serving(directory, ()) as process:
        output = _client(directory, messages)
        _stop(directory, process)
    return _most(json.loads(output.splitlines()[-1]))


def _most(found: list[list[int]]) -> tuple[Count, float]:
    total = sum(n for _, _, n in found)
    python, builtin, most = max(found, key=lambda each: each[2])
    return Count(python, builtin), most / total


# -- system calls


def trace_calls(run: Run, messages: int, *, receiving: bool) -> tuple[str, ...]:
    """The system calls of the loop for one message, in order; empty where nothing can be traced."""
    strace = shutil.which("strace")
    if strace is None:
        return ()
    with run.place.fresh("traced") as directory:
        trace = directory / "trace"
        command = [strace, "-f", "-qq", "-e", "signal=none", "-o", str(trace)]
        try:
            with _serving(directory, command) as process:
                _work(directory, messages, messages if receiving else 0)
                pid = json.loads((directory / "ready.json").read_bytes())["pid"]
                _stop(directory, process)
        except RuntimeError as error:
            if "ptrace" in str(error).lower():
                return ()  # a container that forbids tracing
            raise
        lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    return _usual(_requests(lines, pid), 2 if receiving else 1, messages)


def trace_client_calls(run: Run, messages: int) -> tuple[str, ...]:
    """The system calls of a client for one message, in order; empty where nothing can be traced."""
    strace = shutil.which("strace")
    if strace is None:
        return ()
    with run.place.fresh("traced") as directory, _serving(directory, ()) as process:
        trace = directory / "trace"
        command = [strace, "-f", "-qq", "-e", "signal=none", "-o", str(trace)]
        try:
            _client(directory, messages, *command)
        except RuntimeError as error:
            if "ptrace" in str(error).lower():
                return ()  # a container that forbids tracing
            raise
        finally:
            _stop(directory, process)
        lines = trace.read_text(encoding="utf-8", errors="replace").splitlines()
    found: list[tuple[str, ...]] = [()]
    for call in filter(None, map(_LINE.match, lines)):
        if call[2] in WRITES:
            found.append(())
        found[-1] += (call[2],)
    return Counter(found).most_common(1)[0][0]


def _requests(lines: list[str], pid: int) -> list[tuple[str, ...]]:
    """The calls of the main thread from one read of the client's connection to the next."""
    calls = [call for line in lines if (call := _LINE.match(line)) and int(call[1]) == pid]
    connection, found = "", [[""]]
    for call in calls:
        if call[2].startswith("accept") and call[4]:
            connection = call[4]
        elif call[3] == connection and call[2] in READS:
            found.append([])
        found[-1].append(call[2])
    return [tuple(each) for each in found[1:]]


def _usual(found: list[tuple[str, ...]], each: int, messages: int) -> tuple[str, ...]:
    """The most frequent sequence of this many requests, among the last that messages had."""
    last = found[-each * messages :]
    joined = [sum(last[at : at + each], ()) for at in range(0, len(last), each)]
    return Counter(joined).most_common(1)[0][0] if joined else ()


# -- figures

CASES = {
    "durable send": (("on_send",), False),
    "receive and durable acknowledge": (("on_receive", "on_end"), True),
}


def measure(run: Run) -> Outcome:
    """Both ways of one message."""
    messages = run.dose(200, 50)
    table = Table(NAME, "counts", "Calls for one message of 1 KiB, one at a time", _COLUMNS)
    table.note = "Upkeep of the store is left out: it is due by the clock."
    with run.bar(NAME, 3 + len(CASES)) as bar:
        bar.step("Python calls")
        counted = count_calls(run, messages)
        for case, (names, receiving) in CASES.items():
            bar.step(f"system calls, {case}")
            parts = [counted[name] for name in names]
            traced = trace_calls(run, messages, receiving=receiving)
            table.rows.append(_row(case, parts, traced))
        bar.step("Python calls, client")
        parts = [count_client_calls(run, messages)]
        bar.step("system calls, client")
        table.rows.append(_row("durable send, client", parts, trace_client_calls(run, messages)))
    first = table.rows[0]
    goals = [_goal("calls for a durable send", _calls_of(first), GOAL_CALLS, AIM_CALLS)]
    if isinstance(system := first["system"], int) and system:
        goals.append(_goal("system calls for it", system, GOAL_SYSTEM_CALLS, AIM_SYSTEM_CALLS))
    return Outcome([table], goals)


def _row(case: str, parts: list[tuple[Count, float]], traced: tuple[str, ...]) -> Row:
    disk = sum(name in DISK_CALLS for name in traced)
    names = ", ".join(f"{n} {name}" if n > 1 else name for name, n in Counter(traced).items())
    return {
        "case": case,
        "python": sum(count.python for count, _ in parts),
        "builtin": sum(count.builtin for count, _ in parts),
        "system": len(traced) - disk if traced else None,
        "disk": disk if traced else None,
        "share": min(share for _, share in parts),
        "names": names,
    }


def _calls_of(row: Row) -> int:
    python, builtin = row["python"], row["builtin"]
    assert isinstance(python, int)
    assert isinstance(builtin, int)
    return python + builtin


def _goal(name: str, value: int, required: int, aim: int) -> Goal:
    return Goal(NAME, name, value, required, aim, at_most=True)


def _run_child(home: str, *switches: str) -> None:
    match switches:
        case ("client", messages):
            run_client(Path(home), int(messages))
        case _:
            run_server(Path(home), counting="count" in switches)


if __name__ == "__main__":
    _run_child(*sys.argv[1:])
