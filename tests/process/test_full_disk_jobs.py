"""A disk that fills up under job files: refused with its code; nothing that was taken is lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

import posthouse
from posthouse import qms
from posthouse.model.bindery import NWOT_JOB_SERVER
from posthouse.model.completion_codes import DIRECTORY_FULL, OUT_OF_DISK_SPACE
from posthouse.model.errors import QmsError
from posthouse.qms.objects import FileServer, JobQueue
from tests.process.offices import wait_until
from tests.process.spark_office import SparkOffice
from tests.support.process.small_disk import disk as disk

PIECE = 1_000_000
PIECES_MAX = 1_000  # far more than fit


def piece(number: int) -> bytes:
    return number.to_bytes(4, "big") * (PIECE // 4)


def made(manager: posthouse.QueueManagerClient) -> None:
    with qms.on(manager) as station:
        queue = station.create_queue("WORK", users=["SUPERVISOR"], operators=["SUPERVISOR"])
        station.create_server("S", queues=[queue])


def written_until_full(job: qms.OpenJob) -> int:
    """How many pieces of a job's file were taken before one was refused."""
    for number in range(PIECES_MAX):
        try:
            job.write(piece(number))
        except QmsError as refusal:
            if refusal.completion != OUT_OF_DISK_SPACE:
                raise
            return number
    raise AssertionError("the disk took everything")


def fits(queue: JobQueue) -> bool:
    """Whether there is room for one more job."""
    try:
        queue.submit(b"late")
    except QmsError as refusal:
        if refusal.completion != DIRECTORY_FULL:
            raise
        return False
    return True


def read_all(station: FileServer) -> list[bytes]:
    """The files of all jobs, each finished when it is read."""
    files = []
    with station.queue("WORK").attach() as attached:
        while (job := attached.service()) is not None:
            files.append(job.read())
            job.finish()
    return files


@pytest.mark.peer("tmpfs")
def test_a_full_disk_refuses_job_files_and_loses_none(disk: Path) -> None:
    with ExitStack() as running:
        office = SparkOffice(disk / "office", running)
        made(office.qm)
        with qms.on(office.qm) as station:
            queue = station.queue("WORK")
            small = queue.submit(b"small")
            job = queue.create()
            taken = written_until_full(job)
            assert taken > 0
            assert not fits(queue)
            assert sorted(queue.numbers()) == sorted([small.number, job.number])
            job.start()  # what was taken is a file

        office.server.kill()
        office.server.start()
        with qms.on(office.qm, "S", NWOT_JOB_SERVER) as server:
            assert read_all(server) == [b"small", b"".join(map(piece, range(taken)))]
        # The jobs are gone, and with them what filled the disk.
        with qms.on(office.qm) as station:
            queue = station.queue("WORK")
            wait_until(lambda: fits(queue), lambda: "there is no room again")
        with qms.on(office.qm, "S", NWOT_JOB_SERVER) as server:
            assert read_all(server) == [b"late"]
