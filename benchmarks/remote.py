"""`remote`: receives from another computer over remote read, one client, 1 KiB, durable.

The client is a process of this machine like the server, so both have one core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.figures import Column, Goal, Outcome, Row, Table, tenths, thousands
from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.server import LOOPBACK, serving
from benchmarks.run import Run
from benchmarks.samples import body_of
from posthouse.client.connect import connect
from posthouse.client.manager import QueueManagerClient
from posthouse.client.msmq import RemoteQueue, msmq

NAME = "remote"
WINDOW = 64
USER, PASSWORD = "reader", "reader's password"
QUEUE = "private$\\orders"

COLUMNS = [
    Column("case", "receives"),
    Column("rate_per_s", "per second", thousands),
    Column("client_us", "client CPU µs", tenths),
    Column("server_us", "server CPU µs", tenths),
]


class Case(NamedTuple):
    """How messages are received, and what is promised of it."""

    name: str
    authentication: str
    windowed: bool
    required: float | None = None
    aim: float | None = None


CASES = (
    Case("one at a time, none", "none", False),
    Case("one at a time, privacy", "privacy", False),
    Case(f"window of {WINDOW}, none", "none", True, 6_000, 10_000),
    Case(f"window of {WINDOW}, privacy", "privacy", True, 2_500, 4_000),
)


class Figures(NamedTuple):
    """One case, one round."""

    rate: float
    client_us: float
    server_us: float


class RemoteServer(PosthouseServer):
    """A server that lets anybody read, if they ask for no more."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.rpc_port = 0

    def configure(self) -> None:
        """Level none has to be allowed."""
        self.home.mkdir()
        settings = '[rpc]\nminimum_authentication = "none"\n[epm]\nenabled = false\n'
        (self.home / "posthouse.toml").write_text(settings, encoding="ascii")

    def settle(self) -> None:
        """A user, and a queue that they and strangers may read."""
        super().settle()
        endpoints = json.loads(self._ready_file.read_bytes())["endpoints"]
        self.rpc_port = int(endpoints["rpc"].rpartition(":")[2])
        with connect(self.home) as manager:
            manager.create_queue(f".\\{QUEUE}")
            account = {"name": USER, "password": PASSWORD, "doors": ["rpc"]}
            manager.call("POST", "/users", account)
            for who in ("anonymous", USER):
                grant = {"who": who, "rights": ["receive", "peek"]}
                manager.call("POST", "/queues/.%5Cprivate$%5Corders/access/grant", grant)


def measure(run: Run) -> Outcome:
    """All cases in every round."""
    count = run.dose(6_000, 40)
    results: dict[str, list[Figures]] = {case.name: [] for case in CASES}
    with run.bar(NAME, run.rounds * len(CASES) + 1) as bar, run.place.fresh(NAME) as directory:
        bar.step("starting a server")
        server = RemoteServer(directory)
        with serving(server), connect(server.home) as manager:
            for _ in range(run.rounds):
                for case in CASES:
                    bar.step(case.name)
                    some = count if case.windowed else max(count // 4, 10)
                    results[case.name].append(_measured(server, manager, case, some))
    title = "remote: receives of 1 KiB by one client (R_StartReceive and R_EndReceive)"
    table = Table(NAME, "rates", title, COLUMNS, [_row(case, results[case.name]) for case in CASES])
    return Outcome([table], [_goal(case, results[case.name]) for case in CASES if case.required])


def _measured(server: RemoteServer, manager: QueueManagerClient, case: Case, count: int) -> Figures:
    manager.queue(f".\\{QUEUE}").send_many(body_of(number) for number in range(count))
    proof = {} if case.authentication == "none" else {"user": USER, "password": PASSWORD}
    with msmq(LOOPBACK, rpc_port=server.rpc_port, mechanism="ntlm", **proof) as far:  # type: ignore[arg-type]
        queue = far.queue(QUEUE)
        receive = _in_a_window if case.windowed else _one_by_one
        queue.peek(timeout=0)  # connected, logged in, open
        cpu, began, busy = server.cpu_s(), time.perf_counter(), time.process_time()
        bodies = receive(queue, count)
        wall = time.perf_counter() - began
        client, served = time.process_time() - busy, server.cpu_s() - cpu
    assert bodies == count * 1024, "a message is missing"
    return Figures(count / wall, client / count * 1e6, served / count * 1e6)


def _one_by_one(queue: RemoteQueue, count: int) -> int:
    return sum(len(queue.receive(timeout=0).body) for _ in range(count))


def _in_a_window(queue: RemoteQueue, count: int) -> int:
    size = 0
    with queue.consume(timeout=5, prefetch=WINDOW) as consumer:
        for _ in range(count):
            message = consumer.next()
            assert message is not None
            size += len(message.body)
        consumer.done()
    return size


def _row(case: Case, rounds: list[Figures]) -> Row:
    return {
        "case": case.name,
        "rate_per_s": _middle(rounds, lambda figures: figures.rate),
        "client_us": _middle(rounds, lambda figures: figures.client_us),
        "server_us": _middle(rounds, lambda figures: figures.server_us),
    }


def _middle(rounds: list[Figures], of: Callable[[Figures], float]) -> float:
    return median(map(of, rounds))


def _goal(case: Case, rounds: list[Figures]) -> Goal:
    assert case.required is not None
    rate = _middle(rounds, lambda figures: figures.rate)
    return Goal(NAME, f"{case.name}, a second", rate, case.required, case.aim)
