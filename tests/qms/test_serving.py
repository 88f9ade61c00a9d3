"""Queue servers: what they make of jobs that upset their workers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

import posthouse
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.errors import InvalidParameter, QmsError
from posthouse.model.qms import NWQueueJobStruct
from posthouse.net import sockets
from posthouse.qms import FileServer, JobQueue
from posthouse.qms.commands import GRACE_S
from posthouse.qms.queue_server import SILENT_S, JobFailed, JobGone, QueueServer, Served, Task


class Upset:
    """Does the jobs whose file it understands."""

    types: Sequence[int] = ()

    def __call__(self, task: Task) -> str:
        return {b"known": "done"}[b"".join(task.job.chunks())]


def test_a_job_that_upsets_the_worker_fails_and_the_server_goes_on(
    qm: posthouse.QueueManagerClient, server: FileServer
) -> None:
    queue = server.create_queue("WORK", users=["SUPERVISOR"])
    server.create_server("S", queues=[queue])
    queue.submit(b"poison")
    queue.submit(b"known")
    done = QueueServer(qm, "S", NWOT_JOB_SERVER, ["WORK"], Upset(), jobs=2).run()
    assert done == Served(finished=1, failed=1)
    jobs = qm.call("GET", "/job-history")["jobs"]
    ended = [(one["outcome"], one["result"]) for one in jobs]
    assert ended == [("failed", "KeyError: b'poison'"), ("finished", "done")]


def test_jobs_change_by_the_names_that_create_takes(server: FileServer) -> None:
    queue = server.create_queue("WORK", users=["SUPERVISOR"])
    job = queue.submit(b"", "before", type=1)
    at = datetime(2030, 1, 2, 3, 4, 5)
    job.change(description="after", type=7, server=9, at=at, record=b"r")
    entry = job.entry()
    assert (entry.description, entry.job_type, entry.target_server_id) == ("after", 7, 9)
    assert entry.target_execution_time == bytes((30, 1, 2, 3, 4, 5))
    assert entry.queue_record == b"r".ljust(152, b"\0")
    job.change(at=None, job_type=8)
    assert job.entry().target_execution_time == b"\xff" * 6
    assert job.entry().job_type == 8
    with pytest.raises(InvalidParameter, match="a job has no colour"):
        job.change(colour="red")


class Impatient(threading.Event):
    """Remembers how long somebody would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.set()  # once is enough
        return True


class Failing:
    """Does nothing well."""

    types: Sequence[int] = ()

    def __call__(self, task: Task) -> str:
        raise JobFailed("no")


@pytest.fixture
def queue(server: FileServer) -> JobQueue:
    made = server.create_queue("WORK", users=["SUPERVISOR"], operators=["SUPERVISOR"])
    server.create_server("S", queues=[made])
    return made


def test_a_server_takes_one_job_after_the_other_and_waits_when_there_is_none(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    told, stop = list[str](), Impatient()
    for _ in range(3):
        queue.submit(b"known")
    server = QueueServer(
        qm, "S", NWOT_JOB_SERVER, ["job_queue:WORK"], Upset(), tell=told.append, stop=stop, poll_s=7
    )
    assert server.run() == Served(3, 0)
    assert stop.waits == [7]
    assert told[:2] == ["S services WORK.", "WORK 1: begun, for SUPERVISOR"]
    assert [line.partition(" in ")[0] for line in told[2::2]] == [
        f"WORK {number}: finished" for number in (1, 2, 3)
    ]
    assert queue.status().servers == ()


def test_a_stopped_queue_is_no_reason_to_end(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    queue.submit(b"known")
    queue.set_status(0x04)
    stop = Impatient()
    assert QueueServer(qm, "S", 5, ["WORK"], Upset(), stop=stop).run() == Served(0, 0)
    assert stop.waits == [0.5]


def due(entry: NWQueueJobStruct) -> datetime:
    year, *rest = entry.target_execution_time
    return datetime(2000 + year, *rest)


def test_a_job_that_fails_is_put_off_longer_each_time(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    job = queue.submit(b"", restart=True)
    second = timedelta(seconds=1)
    for wait_s in (200, 400, 600, 600):
        before = datetime.now().replace(microsecond=0)
        QueueServer(qm, "S", 5, ["WORK"], Failing(), jobs=1, retry_s=200).run()
        wait = timedelta(seconds=wait_s)
        entry = job.entry()
        assert before + wait <= due(entry) <= datetime.now() + wait + second
        assert entry.servicing_server_id_number == 0
        job.change(at=None)


def test_a_job_that_fails_without_the_flag_is_gone_and_one_that_waits_for_nothing_stays(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    queue.submit(b"")
    job = queue.submit(b"", restart=True)
    assert QueueServer(qm, "S", 5, ["WORK"], Failing(), jobs=2, retry_s=0).run() == (0, 2)
    assert queue.numbers() == [job.number]
    assert job.entry().target_execution_time == b"\xff" * 6


def test_a_server_that_is_not_listed_is_told_so(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    queue.remove("Q_SERVERS", ("S", 5))
    with pytest.raises(QmsError) as caught:
        QueueServer(qm, "S", 5, ["WORK"], Failing()).run()
    assert caught.value.completion == 0xD3


class Deaf:
    """Gives the first job up, as if nobody had answered; the job is its own all the same."""

    types: Sequence[int] = ()

    def __init__(self) -> None:
        self.given_up = False

    def __call__(self, task: Task) -> str:
        if not self.given_up:
            self.given_up = True
            raise JobGone("nobody answered")
        return "done"


def test_a_job_that_was_given_up_for_want_of_an_answer_is_nobodys_any_more(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    """Else it would be in service for as long as the server runs, and nobody would work on it."""
    for restart in (False, True):
        queue.submit(b"", restart=restart)
        server = QueueServer(qm, "S", 5, ["WORK"], Deaf(), jobs=1, retry_s=0, stop=Impatient())
        assert server.run() == (int(restart), 0)
    jobs = qm.call("GET", "/job-history")["jobs"]
    assert [(one["outcome"], one["result"], one["attempts"]) for one in jobs] == [
        ("failed", "nobody answered", 1),
        ("finished", "done", 2),
    ]


def test_a_server_gives_up_before_another_one_gets_its_job() -> None:
    """The queue manager gives it away when a connection was silent for this long."""
    alive = dict(sockets._KEEPALIVE)
    given_away_s = alive["TCP_KEEPIDLE"] + alive["TCP_KEEPINTVL"] * alive["TCP_KEEPCNT"]
    assert given_away_s > SILENT_S + GRACE_S


def test_a_job_that_stays_says_why_it_failed(
    qm: posthouse.QueueManagerClient, queue: JobQueue
) -> None:
    job = queue.submit(b"", restart=True)
    place = f"/job-queues/WORK/jobs/{job.number}"
    assert qm.call("GET", place)["failure"] == ""
    QueueServer(qm, "S", 5, ["WORK"], Failing(), jobs=1).run()
    assert qm.call("GET", place)["failure"] == "no"
