"""`kill -9` of queue manager, servers and submitters with jobs in flight: flags are obeyed."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse import qms
from tests.conftest import Dose
from tests.process import job_hands
from tests.process.job_hands import PASSWORD, QUEUE, SERVER, Event
from tests.process.warm import WarmServer

HANDS = "tests.process.job_hands"
PATIENCE_S = 120.0
DOORS = ("session", "ncp")
TARGETS = ("manager", "serve", "submit", "serve", "manager", "submit")
OF_A_ROUND = 20  # jobs that end between two kills


class Yard:
    """A queue manager with one submitter and one queue server for each door."""

    def __init__(self, folder: Path, running: ExitStack, drawn: random.Random) -> None:
        self.folder = folder
        self.drawn = drawn
        self.server = running.enter_context(WarmServer(folder, HANDS))
        self.server.start()
        self.hands: dict[tuple[str, str], int] = {}
        self.paths: list[Path] = []
        with self.connect() as qm:
            self._prepare(qm)

    def connect(self) -> posthouse.QueueManagerClient:
        return posthouse.connect(self.server.home, reconnect=60.0)

    def _prepare(self, qm: posthouse.QueueManagerClient) -> None:
        qm.call("POST", "/users", {"name": "alice", "doors": ["ncp"], "password": PASSWORD})
        with qms.on(qm) as server:
            queue = server.create_queue(QUEUE, users=["ALICE"], operators=["SUPERVISOR"])
            queue.add("Q_USERS", "SUPERVISOR")
            server.create_server(SERVER, PASSWORD, queues=[queue])

    def send(self, kind: str, door: str) -> None:
        """One more process of a kind."""
        who = f"{kind}{len(self.paths)}"
        path = self.folder / who
        self.paths.append(path)
        seed = str(self.drawn.getrandbits(32))
        words = (kind, str(self.folder), door, str(path), who, seed)
        self.hands[kind, door] = self.server.loaded.fork(HANDS, *words)

    def kill(self, kind: str, door: str) -> None:
        self.server.loaded.kill(self.hands.pop((kind, door)))

    def events(self) -> list[Event]:
        """What all of them told, in the order of time."""
        found = [event for path in self.paths for event in job_hands.read(path)]
        return sorted(found, key=lambda event: event.at_ns)


def ends(qm: posthouse.QueueManagerClient) -> list[dict[str, Any]]:
    """The whole history."""
    found, after = list[dict[str, Any]](), 0
    while True:
        page = qm.call("GET", f"/job-history?after={after}&limit=1000")
        found += page["jobs"]
        if page["next"] is None:
            return found
        after = page["next"]


def jobs_of(qm: posthouse.QueueManagerClient) -> list[dict[str, Any]]:
    """All jobs; their positions have no gaps."""
    page = qm.call("GET", f"/job-queues/{QUEUE}/jobs?limit=1000")
    assert [job["position"] for job in page["jobs"]] == list(range(1, page["total"] + 1))
    following = [job["number"] for job in page["jobs"]][1:]
    assert [job["next"] for job in page["jobs"]] == [*following, 0][: len(page["jobs"])]
    return list(page["jobs"])


def wait(true: Callable[[], bool], yard: Yard) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, yard.server.loaded.errors.read_text()[-2000:]
        time.sleep(0.05)


def flags(job: str) -> tuple[bool, bool]:
    """Restart and auto-start, as the name of a job tells them."""
    words = job.rpartition("-")[2]
    return words[0] == "r", words[1] == "a"


def check(yard: Yard, history: list[dict[str, Any]]) -> Counter[str]:
    """What the processes were told, against what became of the jobs."""
    rows = {row["description"]: row for row in history}
    assert len(rows) == len(history), "a job ended twice"
    told: dict[str, list[tuple[str, int]]] = {}
    for what, job, at_ns in yard.events():
        told.setdefault(job, []).append((what, at_ns))
    seen = Counter[str]()
    for job, lines in told.items():
        words = [what for what, _ in lines]
        restart, auto_start = flags(job)
        row = rows.get(job)
        outcome = "" if row is None else row["outcome"]
        seen[outcome or "never there"] += 1
        if "started" in words:
            assert row is not None, f"{job} is lost"
            assert outcome == "finished" or not restart, (job, row)
        if "created" in words and "starting" not in words:  # its submitter was lost meanwhile
            assert outcome == "abandoned" or auto_start, (job, row)
        if "finished" in words:
            assert outcome == "finished", (job, row)
            assert "begun" not in words[words.index("finished") :], f"{job} ran after its end"
        if outcome == "abandoned":
            assert not auto_start, job
            assert "begun" not in words, job
        if outcome == "failed":
            assert not restart, job
            assert "begun" in words or row is not None, job
        if outcome == "finished":
            assert "finishing" in words, job
        begun = words.count("begun")
        assert restart or begun <= 1, f"{job} was serviced {begun} times"
        seen["serviced again"] += begun > 1
    assert rows.keys() <= told.keys()
    return seen


@pytest.mark.spec(
    "QMS Table 26/1",
    "QMS Table 26/2",
    "QMS Table 26/3",
    "QMS Table 26/4",
    "QMS jobPosition/2",
    "NCP lost connections/1",
    "NCP lost connections/2",
    "NCP lost connections/3",
)
def test_no_kill_loses_a_job_or_runs_one_after_its_end(
    tmp_path: Path, dose: Dose, record_property: Callable[[str, object], None]
) -> None:
    wanted = dose(300, soak=5000)
    drawn = random.Random(8)
    with ExitStack() as running:
        yard = Yard(tmp_path, running, drawn)
        for kind in ("serve", "submit"):
            for door in DOORS:
                yard.send(kind, door)
        for number in rounds():
            goal = (number + 1) * OF_A_ROUND
            wait(lambda goal=goal: finished(yard) >= goal, yard)  # type: ignore[misc]
            if goal >= wanted:
                break
            target, door = TARGETS[number % len(TARGETS)], DOORS[number % len(DOORS)]
            if target == "manager":
                yard.server.kill()
                yard.server.start()
            else:
                yard.kill(target, door)
                yard.send(target, door)
        for kind, door in list(yard.hands):
            if kind == "submit":
                yard.kill(kind, door)
        with yard.connect() as qm:
            wait(lambda: not jobs_of(qm), yard)
            seen = check(yard, ends(qm))
        for kind, door in list(yard.hands):
            yard.kill(kind, door)
    record_property("jobs", dict(seen))
    assert seen["finished"] >= wanted
    assert seen["serviced again"] > 0
    assert seen["abandoned"] + seen["failed"] > 0


def rounds() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def finished(yard: Yard) -> int:
    return sum(event.what == "finished" for event in yard.events())
