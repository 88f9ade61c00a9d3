"""`qms`: jobs submitted, serviced and finished, embedded and over NCP; long queues of jobs.

What listing and moving cost for each job must not grow with the number of jobs that wait.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import posthouse
from benchmarks.figures import Column, Goal, Outcome, Row, Table, tenths, thousands
from benchmarks.ncp_jobs import Login, ncp_rates
from benchmarks.processes import started
from benchmarks.run import Bar, Run
from posthouse import qms
from posthouse.qms import JobQueue

NAME = "qms"
PASSWORD = "measured"
QUEUE = "BENCH"
SIZE = 1024
JOBS_MAX = 20_000
WAITING = (1_000, 8_000)
WAITING_QUICK = (50, 400)
GOAL_RATIO = 2.0  # what a job costs with eight times as many of them
START_S = 60.0
CLIENTS = (1, 8)

RATES = [
    Column("door", "door"),
    Column("clients", "clients"),
    Column("submits_per_s", "submits/s", thousands),
    Column("services_per_s", "services/s", thousands),
    Column("finishes_per_s", "finishes/s", thousands),
]
LONG = [
    Column("waiting", "jobs waiting", thousands),
    Column("list_us", "listing, µs a job", tenths),
    Column("move_us", "a move, µs", tenths),
    Column("service_us", "a service, µs", tenths),
]


def measure(run: Run) -> Outcome:
    """All of it."""
    rates = Table(NAME, "rates", "qms: jobs of 1 KiB, each durable when answered", RATES)
    long = Table(NAME, "long", "qms: a queue with many jobs waiting, over a client session", LONG)
    waiting = WAITING_QUICK if run.quick else WAITING
    with run.bar(NAME, 2 + len(CLIENTS) + len(waiting)) as bar:
        bar.step("embedded")
        rates.rows.append(_embedded(run))
        rates.rows += _over_ncp(run, bar)
        for count in waiting:
            bar.step(f"{count:,} jobs waiting")
            long.rows.append(_long(run, count))
    first, last = long.rows[0], long.rows[-1]
    goals = [
        Goal(
            NAME,
            f"{key} with {last['waiting']} jobs",
            _ratio(first, last, key),
            GOAL_RATIO,
            at_most=True,
        )
        for key in ("list_us", "move_us")
    ]
    return Outcome([rates, long], goals)


def _ratio(first: Row, last: Row, key: str) -> float:
    less, more = first[key], last[key]
    assert isinstance(less, float)
    assert isinstance(more, float)
    return more / less


def _settings(home: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    text = f'[queue_manager]\nname = "BENCH"\n[qms]\njobs_max = {JOBS_MAX}\n'
    (home / "posthouse.toml").write_text(text, encoding="ascii")


def _prepare(manager: posthouse.QueueManagerClient) -> JobQueue:
    server = qms.on(manager)
    queue = server.create_queue(QUEUE, users=["EVERYONE"], operators=["SUPERVISOR"])
    server.create_server("HAND", PASSWORD, queues=[queue])
    return queue


def _timed(call: Callable[[], object], count: int) -> float:
    """Microseconds for each of this many."""
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e6 / count


def _embedded(run: Run) -> Row:
    count, data = run.dose(240, 40), bytes(SIZE)  # embedded, the limit is the usual one
    with run.place.fresh("qms") as folder, posthouse.open(folder / "home") as manager:
        queue = _prepare(manager)
        station = qms.on(manager, "HAND", "job_server").queue(QUEUE)
        taken = []

        def submit() -> None:
            for _ in range(count):
                queue.submit(data)

        def service() -> None:
            attached = station.attach()
            for _ in range(count):
                job = attached.service()
                assert job is not None
                taken.append(job)

        def finish() -> None:
            for job in taken:
                job.finish()

        cost = [_timed(step, count) for step in (submit, service, finish)]
    return _row("embedded", 1, *(1e6 / each for each in cost))


def _row(door: str, clients: int, submits: float, services: float, finishes: float) -> Row:
    return {
        "door": door,
        "clients": clients,
        "submits_per_s": submits,
        "services_per_s": services,
        "finishes_per_s": finishes,
    }


def _over_ncp(run: Run, bar: Bar) -> list[Row]:
    """Over TCP, with one connection and with several that share the syncs."""
    rows, count = list[Row](), run.dose(2_000, 40)
    with run.place.fresh("ncp") as folder, _served(folder) as (home, port):
        with posthouse.connect(home) as manager:
            queue = _prepare(manager)
            user = {"name": "alice", "doors": ["ncp"], "password": PASSWORD}
            manager.call("POST", "/users", user)
        logins = Login("ALICE", PASSWORD), Login("HAND", PASSWORD)
        for clients in CLIENTS:
            bar.step(f"NCP, {clients} connections")
            found = ncp_rates(port, queue.id, *logins, count=count, clients=clients, size=SIZE)
            rows.append(_row("NCP over TCP", clients, *found))
    return rows


@contextmanager
def _served(folder: Path) -> Iterator[tuple[Path, int]]:
    """A server that takes long queues: its home, and its port for NCP."""
    home, ready = folder / "home", folder / "ready.json"
    _settings(home)
    words = ["serve", "--home", str(home), "--ports", "ephemeral", "--ready-file", str(ready)]
    command = [sys.executable, "-m", "posthouse.cli.main", *words]
    with started(command, log=folder / "log.txt"):
        yield home, _port(ready)


def _port(ready: Path) -> int:
    until = time.monotonic() + START_S
    while not ready.exists():
        assert time.monotonic() < until, "the server did not start"
        time.sleep(0.02)
    endpoint: str = json.loads(ready.read_text())["endpoints"]["ncp"]
    return int(endpoint.rpartition(":")[2])


def _long(run: Run, count: int) -> Row:
    """This many jobs wait: all are listed, some are moved anywhere, some serviced."""
    moves, drawn = run.dose(500, 20), Random(8)
    with (
        run.place.fresh("long") as folder,
        _served(folder) as (home, _),
        posthouse.connect(home) as manager,
    ):
        queue = _prepare(manager)
        for _ in range(count):
            manager.call("POST", f"/job-queues/{QUEUE}/jobs", {"file": "eA=="})
        attached = qms.on(manager, "HAND", "job_server").queue(QUEUE).attach()
        numbers = queue.numbers()

        def move() -> None:
            for _ in range(moves):
                queue.job(drawn.choice(numbers)).move(drawn.randrange(1, count + 1))

        def service() -> None:
            for _ in range(moves):
                job = attached.service()
                assert job is not None
                job.finish()

        return {
            "waiting": count,
            "list_us": _timed(lambda: _listed(manager, count), count),
            "move_us": _timed(move, moves),
            "service_us": _timed(service, moves),
        }


def _listed(manager: posthouse.QueueManagerClient, count: int) -> None:
    """Whole entries, page by page."""
    start: int | None = 1
    seen = 0
    while start is not None:
        page = manager.call("GET", f"/job-queues/{QUEUE}/jobs?start={start}&limit=1000")
        seen += len(page["jobs"])
        start = page["next"]
    assert seen == count
