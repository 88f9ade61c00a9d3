"""`srmp`: durable messages of 1 KiB in over HTTP, each connection with one on its way.

Beside it the same requests to a bare aiohttp handler, which keeps nothing, and as many connections
to RabbitMQ with confirms, each with one persistent message on its way.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import ClassVar, Final, NamedTuple

from benchmarks.figures import (
    Beside,
    Column,
    Goal,
    Outcome,
    Row,
    Table,
    hundredths,
    tenths,
    thousands,
)
from benchmarks.peers.brokers import RabbitServer
from benchmarks.peers.driver import make_driver
from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.server import Command, Server, serving
from benchmarks.peers.work import Mode
from benchmarks.processes import Child, started
from benchmarks.run import Run
from benchmarks.srmp_client import LIMIT_S, QUEUE
from benchmarks.witness import NotSynced
from posthouse.client.connect import connect

NAME = "srmp"
CONNECTIONS: Final = (1, 16)
OURS, BARE, RABBIT = "posthouse", "bare", "rabbitmq"
REQUIRED, AIM = 0.65, 0.8  # of the bare handler, at sixteen connections

COLUMNS = [
    Column("connections", "connections"),
    Column("peer", "server"),
    Column("rate_per_s", "messages/s", thousands),
    Column("server_us", "server CPU µs", tenths),
    Column("client_us", "client CPU µs", tenths),
    Column("ratio", "Posthouse, times", hundredths),
]


class SrmpServer(PosthouseServer):
    """Our server with its door for HTTP, and one queue."""

    title: ClassVar[str] = "Posthouse, SRMP"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._http = ""

    def settle(self) -> None:
        """Where it listens for messages."""
        super().settle()
        self._http = json.loads(self._ready_file.read_bytes())["endpoints"]["http"]
        with connect(self.home) as manager:
            manager.create_queue(self.queue)

    @property
    def queue(self) -> str:
        """Where they go."""
        return f".\\private$\\{QUEUE}"

    @property
    def address(self) -> str:
        """Where they are posted."""
        return self._http


class BareServer(Server):
    """HTTP and nothing else."""

    title: ClassVar[str] = "bare aiohttp handler"
    durable: ClassVar[str] = "nothing is kept"

    def command(self) -> Command:
        """See `benchmarks.bare_http`."""
        return Command([sys.executable, "-m", "benchmarks.bare_http", str(self.port)], {})


class Entrant(NamedTuple):
    """Who takes part, and how its clients speak."""

    way: str
    server: Server


class Figures(NamedTuple):
    """One round of one server."""

    rate: float
    server_us: float
    client_us: float

    @property
    def cpu_us(self) -> float:
        """Processor time of a message, both sides together."""
        return self.server_us + self.client_us


Results = dict[tuple[int, str], list[Figures]]


def measure(run: Run) -> Outcome:
    """All servers in every round."""
    results: Results = {}
    with run.place.fresh(NAME) as directory, ExitStack() as stack:
        names = [OURS, BARE, *([RABBIT] if _rabbit_is_there() else [])]
        bar = stack.enter_context(run.bar(NAME, len(names) * (1 + run.rounds * len(CONNECTIONS))))
        entrants: dict[str, Entrant] = {}
        for name in names:
            bar.step(f"starting {name}")
            entrants[name] = _enter(stack, directory, name)
        for number in range(run.rounds):
            first = number % len(names)
            for connections in CONNECTIONS:
                for name in [*names[first:], *names[:first]]:
                    bar.step(f"{name}, {connections} connections")
                    count = run.dose(4_000 * min(connections, 5), 10 * connections)
                    figures = _measured(entrants[name], connections, count)
                    results.setdefault((connections, name), []).append(figures)
                    _empty(entrants[name].server, count)
    return Outcome([_table(results, entrants)], [_goal(results)])


def _rabbit_is_there() -> bool:
    return RabbitServer.missing() is None and find_spec("pika") is not None


def _enter(stack: ExitStack, directory: Path, name: str) -> Entrant:
    made = {OURS: SrmpServer, BARE: BareServer, RABBIT: RabbitServer}[name]
    folder = directory / name
    folder.mkdir()
    server = stack.enter_context(serving(made(folder)))
    if name == RABBIT:
        make_driver(name, server.address).prepare(QUEUE, Mode.SINGLE)
    return Entrant("amqp" if name == RABBIT else "http", server)


def _measured(entrant: Entrant, connections: int, count: int) -> Figures:
    way, server = entrant
    words = [way, server.address, str(connections), str(count)]
    with started([sys.executable, "-m", "benchmarks.srmp_client", *words]) as process:
        client = Child(f"{way} to {server.title}", process, time.monotonic())
        timer = threading.Timer(LIMIT_S, client.kill)
        timer.start()
        try:
            client.report("ready")
            syncs, before = server.syncs(), server.cpu_s()
            client.tell("go")
            done = client.report("done")
            spent = server.cpu_s() - before
        finally:
            timer.cancel()
    if syncs is not None and (server.syncs() or 0) - syncs < count // connections:
        raise NotSynced(f"{server.title}: fewer syncs than a connection had answers")
    return Figures(count / done["wall_s"], spent / count * 1e6, done["cpu_s"] / count * 1e6)


def _empty(server: Server, count: int) -> None:
    """Everything has arrived, and goes."""
    if isinstance(server, SrmpServer):
        with connect(server.home) as manager:
            queue = manager.queue(server.queue)
            assert queue.count() == count, "a message is missing"
            queue.purge()


def _table(results: Results, entrants: dict[str, Entrant]) -> Table:
    title = f"{NAME}: durable messages of 1 KiB in over HTTP, keep-alive, one at a time on each"
    table = Table(NAME, "rates", title, COLUMNS)
    if RABBIT not in entrants:
        table.note = "RabbitMQ or its client pika is not installed here"
    for connections in CONNECTIONS:
        for name, entrant in entrants.items():
            table.rows.append(_row(results, connections, name, entrant.server.title))
    return table


def _row(results: Results, connections: int, name: str, title: str) -> Row:
    rounds = results[connections, name]
    return {
        "connections": connections,
        "peer": title,
        "rate_per_s": _middle(rounds, lambda figures: figures.rate),
        "server_us": _middle(rounds, lambda figures: figures.server_us),
        "client_us": _middle(rounds, lambda figures: figures.client_us),
        "ratio": _ratio(results[connections, OURS], rounds),
    }


def _middle(rounds: list[Figures], of: Callable[[Figures], float]) -> float:
    return median(map(of, rounds))


def _ratio(ours: list[Figures], theirs: list[Figures]) -> float:
    """How many times faster, round by round."""
    return median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))


def _goal(results: Results) -> Goal:
    most = CONNECTIONS[-1]
    ours, theirs = results[most, OURS], results[most, BARE]
    found = sorted(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))
    beside = Beside(
        found[0], found[-1], *(_middle(side, lambda one: one.cpu_us) for side in (ours, theirs))
    )
    name = f"{most} connections, beside the bare handler"
    return Goal(NAME, name, _ratio(ours, theirs), REQUIRED, AIM, beside=beside)
