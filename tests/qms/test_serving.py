"""Queue servers: what they make of jobs that upset their workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

import posthouse
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.errors import InvalidParameter
from posthouse.qms import FileServer
from posthouse.qms.serving import QueueServer, Served, Task


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
