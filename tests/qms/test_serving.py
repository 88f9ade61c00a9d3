"""Queue servers: what they make of jobs that upset their workers."""

from __future__ import annotations

from collections.abc import Sequence

import posthouse
from posthouse.model.bindery import NWOT_JOB_SERVER
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
