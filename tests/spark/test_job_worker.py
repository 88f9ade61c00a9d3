"""The worker of a Spark queue server, in the session of the tests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from pyspark.sql import SparkSession

from posthouse import qms
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.errors import AccessDenied, InsufficientResources
from posthouse.model.job_types import PIPELINE, SQL
from posthouse.qms.objects import ServicedJob
from posthouse.qms.queue_server import JobGone, Pulse, QueueServer, Task
from posthouse.qms.sessions import SessionDoor
from posthouse.spark.jobs import worker as job_worker
from posthouse.spark.jobs.lakes import http_with, seen_queues
from posthouse.spark.jobs.worker import SparkWorker, _shown
from posthouse.spark.lakes.archiving import archive
from posthouse.spark.progress import Progress
from posthouse.spark.replaying import replay
from tests.process.spark_office import SparkOffice, path_of

PATIENCE_S = 30.0
QUEUE = "REPORTS"
COUNT = b"SELECT queue, count(*) AS n FROM lake.messages GROUP BY queue ORDER BY queue"


class Lake(NamedTuple):
    """What a lake has: messages of a queue that ALICE may look into, of one that she may not, of
    one that is gone, and of one that was made again, into which she may look."""

    folder: Path
    shown: str
    hidden: str
    gone: str
    anew: str

    @property
    def counts(self) -> dict[str, int]:
        return {self.shown: 2, self.hidden: 3, self.gone: 4, self.anew: 5}


@pytest.fixture(scope="module")
def lake(
    office: SparkOffice, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    names = ("lake_shown", "lake_hidden", "lake_gone", "lake_anew")
    folder = tmp_path_factory.mktemp("lakes") / "lake"
    office.create(*names)
    for count, name in enumerate(names, 2):
        office.send(name, [b"%d" % n for n in range(count)])
    queues = [path_of(name) for name in names]
    archive(queues, folder, url=office.url, token_file=office.token_file, spark=spark)
    # Queues and messages have times in seconds: one that is made again in the second in which the
    # first message of the earlier one came is taken for that.
    threading.Event().wait(1 - time.time() % 1)
    for name in ("lake_gone", "lake_anew"):
        office.qm.call("DELETE", f"/queues/.%5Cprivate$%5C{name}")
    office.create("lake_anew")
    office.qm.call("POST", "/users", {"name": "alice", "password": "correct horse"})
    grant = {"who": "alice", "rights": ["peek"]}
    for name in ("lake_shown", "lake_anew"):
        office.qm.call("POST", f"/queues/.%5Cprivate$%5C{name}/access/grant", grant)
    return Lake(folder, *(f"ALPHA\\private$\\{name}" for name in names))


@pytest.fixture
def served(
    office: SparkOffice, spark: SparkSession, lake: Lake
) -> Iterator[Callable[..., dict[str, Any]]]:
    """`served(owner, type, data)`: a job of somebody, serviced; its line in the history."""
    worker = SparkWorker(spark, office.url, lakes={"lake": lake.folder})
    with qms.on(office.qm) as server:
        queue = server.create_queue(QUEUE, users=["EVERYONE"])
        server.create_server("SPARK1", queues=[queue])

        def serve(owner: str, type: int, data: bytes) -> dict[str, Any]:
            with qms.on(office.qm, owner) as station:
                number = station.queue(QUEUE).submit(data, type=type).number
            QueueServer(office.qm, "SPARK1", NWOT_JOB_SERVER, [QUEUE], worker, jobs=1).run()
            rows = office.qm.call("GET", f"/job-history?queue={QUEUE}&limit=1000")["jobs"]
            (found,) = [row for row in rows if row["number"] == number]
            return dict(found)

        yield serve
        server.door.delete_object("SPARK1", NWOT_JOB_SERVER)
        queue.destroy()


def result(row: dict[str, Any]) -> dict[str, Any]:
    assert row["outcome"] == "finished", row
    found: dict[str, Any] = json.loads(row["result"])
    return found


def counted(row: dict[str, Any]) -> dict[str, int]:
    return {one["queue"]: one["n"] for one in result(row)["first"]}


@pytest.mark.spec("QMS Servicing/14")
def test_statements_see_of_a_lake_what_their_submitter_may_look_into(
    served: Callable[..., dict[str, Any]], lake: Lake
) -> None:
    """Decision 17. Of a queue that is gone only administrators have the messages; whoever makes
    one of the same name does not get them either."""
    assert counted(served("ALICE", SQL, COUNT)) == {lake.shown: 2}
    order = {"pipeline": "sql", "statement": COUNT.decode(), "lake": "lake"}
    assert counted(served("ALICE", PIPELINE, json.dumps(order).encode())) == {lake.shown: 2}
    assert counted(served("SUPERVISOR", SQL, COUNT)) == lake.counts


def test_replays_see_of_a_lake_what_their_submitter_may_look_into(
    served: Callable[..., dict[str, Any]], lake: Lake
) -> None:
    order = {"pipeline": "replay", "to": path_of("copies"), "dry_run": True}
    data = json.dumps(order).encode()
    assert result(served("ALICE", PIPELINE, data))["messages"] == 2
    assert result(served("SUPERVISOR", PIPELINE, data))["messages"] == sum(lake.counts.values())
    named = order | {"to": None, "mapping": {lake.hidden: path_of("copies")}}
    refused = served("ALICE", PIPELINE, json.dumps(named).encode())
    assert (refused["outcome"], "has no messages of" in refused["result"]) == ("failed", True)


def test_who_may_see_less_does_not_go_on_with_the_replay_of_another(
    served: Callable[..., dict[str, Any]], lake: Lake, office: SparkOffice, spark: SparkSession
) -> None:
    """Both ask for the same; the plan of an administrator names queues that ALICE may not see."""
    office.create("taken")
    grant = {"who": "alice", "rights": ["send"]}
    office.qm.call("POST", "/queues/.%5Cprivate$%5Ctaken/access/grant", grant)
    at_once = threading.Event()
    at_once.set()
    access: dict[str, Any] = {"url": office.url, "token_file": office.token_file, "spark": spark}
    replay(lake.folder, path_of("taken"), mapping={}, stop=at_once, **access)  # its plan is kept
    data = json.dumps({"pipeline": "replay", "to": path_of("taken")}).encode()
    assert result(served("ALICE", PIPELINE, data))["sent"] == 2
    assert office.count("taken") == 2
    # Nor with that of somebody who sees as much: its batches are their at the queue manager.
    once = threading.Event()
    known: dict[str, Any] = {"mapping": {}, "queues": [lake.shown], "owner": "BOB", "batch": 1}
    replay(
        lake.folder, path_of("taken"), stop=once, progress=lambda one: once.set(), **known, **access
    )
    assert office.count("taken") == 3
    assert result(served("ALICE", PIPELINE, data))["sent"] == 2


MANY = f"SELECT count(*) FROM {', '.join(f'lake.messages AS m{n}' for n in range(7))}".encode()
"""A hundred million rows: seconds, also where nobody cuts it off."""


@pytest.mark.parametrize("kind", ["replay", "statement"])
def test_a_job_that_a_stop_cuts_off_is_not_finished(
    kind: str,
    served: Callable[..., Any],
    lake: Lake,
    office: SparkOffice,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is given back, and done by whoever comes next; nobody waits for a long statement."""
    monkeypatch.setattr(job_worker, "LOOK_S", 0.02)
    stop = threading.Event()

    class Stopped(SparkWorker):
        def __call__(self, task: Task) -> str:
            stop.set()
            return super().__call__(task)

    office.create(f"cut_{kind}")
    order = json.dumps({"pipeline": "replay", "to": path_of(f"cut_{kind}")}).encode()
    type, data = (PIPELINE, order) if kind == "replay" else (SQL, MANY)
    with qms.on(office.qm) as station:
        job = station.queue(QUEUE).submit(data, type=type, restart=True)
    worker = Stopped(spark, office.url, lakes={"lake": lake.folder})
    server = QueueServer(office.qm, "SPARK1", NWOT_JOB_SERVER, [QUEUE], worker, stop=stop)
    assert server.run() == (0, 0)
    with qms.on(office.qm) as station:
        queue = station.queue(QUEUE)
        assert (queue.numbers(), office.count(f"cut_{kind}")) == ([job.number], 0)
        queue.job(job.number).remove()


def test_a_server_with_a_lake_that_is_not_there_yet_runs_other_statements(
    served: Callable[..., dict[str, Any]], lake: Lake, tmp_path: Path
) -> None:
    folder = lake.folder.rename(tmp_path / "away")
    try:
        assert result(served("ALICE", SQL, b"SELECT 1 AS one"))["first"] == [{"one": 1}]
        refused = served("ALICE", SQL, COUNT)
        assert (refused["outcome"], "is not a lake" in refused["result"]) == ("failed", True)
    finally:
        folder.rename(lake.folder)


def test_what_cannot_be_told_hides_no_queue(lake: Lake) -> None:
    """A queue manager that is short of something has not said that somebody may not look."""

    class Short(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._refuse(403, AccessDenied.code)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._refuse(507, InsufficientResources.code)

        def _refuse(self, status: int, code: int) -> None:
            data = json.dumps({"error": {"code": code, "cause": "so", "remedy": ""}}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Short) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with http_with({"url": url}) as http, pytest.raises(InsufficientResources):
            seen_queues(http, lake.folder)
        server.shutdown()


def test_progress_of_a_pipeline_is_that_of_its_job(office: SparkOffice) -> None:
    with qms.on(office.qm) as server:
        queue = server.create_queue("PROGRESS", users=["SUPERVISOR"])
        server.create_server("SPARK2", queues=[queue])
        number = queue.submit(b"").number
        door = SessionDoor(office.qm, "SPARK2", NWOT_JOB_SERVER)
        door.attach_queue_server_to_queue(queue.id)
        taken = door.service_queue_job(queue.id, ())
        task = Task(door, ServicedJob(queue, taken), threading.Event())
        _shown(task)(Progress(2000, 5000, 1, 2.0))
        task.alive()
        told = office.qm.call("GET", f"/job-queues/PROGRESS/jobs/{number}")["progress"]
        door.close()
        server.door.delete_object("SPARK2", NWOT_JOB_SERVER)
        queue.destroy()
    assert told == {"done": 2000, "total": 5000, "text": "1 batches"}


class CutOff(Task):
    """A job whose queue manager no longer answers."""

    def alive(self) -> None:
        self.stop.wait(PATIENCE_S)


def test_what_was_done_all_the_same_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answered for a while, and the work came to its end: it is not done once more."""
    monkeypatch.setattr(job_worker, "Pulse", partial(Pulse, beat_s=0.01, silent_s=0.05))
    monkeypatch.setattr(job_worker, "LOOK_S", 0.01)
    cancelled = threading.Event()
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(cancelAllJobs=cancelled.set))
    task = CutOff(cast(Any, None), cast(Any, None), threading.Event())

    def work(failure: Exception | None) -> None:
        cancelled.clear()
        with job_worker._watched(task, session, lambda: False):
            assert cancelled.wait(PATIENCE_S)
            if failure is not None:
                raise failure

    work(None)
    with pytest.raises(JobGone):
        work(ValueError("a job of Spark was cancelled"))
    task.stop.set()
