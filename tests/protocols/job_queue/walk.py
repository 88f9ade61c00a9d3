"""A job queue and those who use it, over NCP."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from posthouse.client.ncp.calls import NcpCalls
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct
from tests.protocols.job_queue.rig import JOB_SERVER, Line, NcpRig


class Walk:
    """ALICE submits, OSCAR operates, SERVER services, MALLORY has no right at all."""

    def __init__(self, rig: NcpRig, queue: int) -> None:
        self.rig = rig
        self.queue = queue

    @cached_property
    def alice(self) -> NcpCalls:
        return self.rig.logged_in("ALICE")

    @cached_property
    def oscar(self) -> NcpCalls:
        return self.rig.logged_in("OSCAR")

    @cached_property
    def mallory(self) -> NcpCalls:
        return self.rig.logged_in("MALLORY")

    @cached_property
    def server(self) -> NcpCalls:
        calls = self.rig.logged_in("SERVER", JOB_SERVER)
        calls.attach_queue_server_to_queue(self.queue)
        return calls

    def created(self, data: bytes = b"data", **fields: Any) -> NWQueueJobStruct:
        """A job that its submitter still writes."""
        job = self.alice.create_queue_file(self.queue, NWQueueJobStruct(**fields))
        self.alice.write_file(job.job_file_handle, 0, data)
        return job

    def submitted(self, data: bytes = b"data", **fields: Any) -> int:
        """The number of a job that waits."""
        number = self.created(data, **fields).job_number
        self.alice.close_file_and_start_queue_job(self.queue, number)
        return number

    def serviced(self) -> NWQueueJobStruct:
        """A job in service."""
        self.submitted()
        return self.server.service_queue_job(self.queue)

    @property
    def numbers(self) -> tuple[int, ...]:
        return self.oscar.get_queue_job_list(self.queue).numbers

    def entry(self, number: int) -> NWQueueJobStruct:
        return self.oscar.read_queue_job_entry(self.queue, number)


def line_of(calls: NcpCalls) -> Line:
    """The line under the calls."""
    link: Any = calls.link
    assert isinstance(link, Line)
    return link


def refused(code: int, call: Callable[..., object], *args: Any, **options: Any) -> None:
    """A call gets this completion code."""
    with pytest.raises(QmsError) as caught:
        call(*args, **options)
    assert caught.value.completion == code, f"0x{caught.value.completion:02X}"
