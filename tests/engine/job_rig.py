"""A queue manager with users, groups, servers and a job queue: what tests of QMS stand on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.engine.ledger.books import lines_of
from posthouse.engine.queues.queue import JOB_FILES
from posthouse.model.bindery import (
    GROUP_MEMBERS,
    GROUPS_IM_IN,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
)
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct
from tests.engine.rig import Rig

PATH = "SYS:SYSTEM"


class JobRig(Rig):
    """ANNA and BERT use the queue, OTTO operates it, SRV1 and SRV2 service it, EVA is a stranger.

    SUPERVISOR has made everything and is in none of the sets. Names are shown before a login, as
    the documents have it; `names=False` is the default of the product.
    """

    def __init__(self, names: bool = True, **settings: Any) -> None:
        qms = settings.pop("qms", QmsSettings())
        super().__init__(qms=replace(qms, names_before_login=names), **settings)
        self.begin_stations()
        for name in ("ANNA", "BERT", "OTTO", "EVA"):
            self.bindery("create_object", self.super, NWOT_USER, name)
        for name in ("SRV1", "SRV2"):
            self.bindery("create_object", self.super, NWOT_JOB_SERVER, name)
        self.q = self.create_jobs("JOBS")

    def _boot(self, state: Any) -> None:
        super()._boot(state)
        self.manager.certificates.key_file = lambda: b"s" * 32
        self.begin_stations()

    def begin_stations(self) -> None:
        self.named: dict[tuple[int, str], Station] = {}
        self.super = self.station()
        self.run(lambda m: m.bindery.enter(self.super, self.admin))

    def create_jobs(self, name: str, kind: int = NWOT_JOB_QUEUE) -> int:
        """A queue with the usual members."""
        queue = self.jobs("create_queue", self.super, kind, name, PATH)
        for prop, member_kind, member in (
            (Q_USERS, NWOT_USER, "ANNA"),
            (Q_USERS, NWOT_USER, "BERT"),
            (Q_OPERATORS, NWOT_USER, "OTTO"),
            (Q_SERVERS, NWOT_JOB_SERVER, "SRV1"),
            (Q_SERVERS, NWOT_JOB_SERVER, "SRV2"),
        ):
            self.bindery("add_object_to_set", self.super, kind, name, prop, member_kind, member)
        return int(queue)

    # -- calls

    def bindery(self, method: str, *args: Any, **kw: Any) -> Any:
        return self.run(lambda m: getattr(m.bindery, method)(*args, **kw))

    def jobs(self, method: str, *args: Any, **kw: Any) -> Any:
        return self.run(lambda m: getattr(m.jobs, method)(*args, **kw))

    def station(self) -> Station:
        return self.run(lambda m: m.stations.begin("test"))

    def user(self, name: str) -> Station:
        """The connection of a user; made when it is asked for first."""
        return self._logged_in(NWOT_USER, name)

    def server(self, name: str) -> Station:
        """The connection of a queue server."""
        return self._logged_in(NWOT_JOB_SERVER, name)

    def _logged_in(self, kind: int, name: str) -> Station:
        found = self.named.get((kind, name))
        if found is None or found.ended:
            found = self.named[kind, name] = self.station()
            station = found
            self.run(lambda m: m.bindery.enter(station, self.admin, kind, name))
        return found

    def lose(self, station: Station) -> None:
        """The connection breaks."""
        self.run(lambda m: m.stations.end(station))

    def group(self, name: str, *members: str) -> None:
        self.bindery("create_object", self.super, NWOT_USER_GROUP, name)
        for member in members:
            self.membership("add_object_to_set", name, member)

    def membership(self, call: str, group: str, member: str) -> None:
        """Both sides of a membership, as a client makes or ends it: a call for each."""
        one, other = (NWOT_USER_GROUP, group), (NWOT_USER, member)
        self.bindery(call, self.super, *one, GROUP_MEMBERS, *other)
        self.bindery(call, self.super, *other, GROUPS_IM_IN, *one)

    # -- jobs

    def submit(
        self, data: bytes = b"data", who: str = "ANNA", queue: int | None = None, **fields: Any
    ) -> int:
        """A job that is ready; returns its number."""
        station, queue = self.user(who), queue or self.q
        job = self.jobs("create_queue_file", station, queue, NWQueueJobStruct(**fields))
        if data:
            self.jobs("write_file", station, job.job_file_handle, 0, data)
        self.jobs("close_file_and_start_queue_job", station, queue, job.job_number)
        return int(job.job_number)

    def open_job(self, who: str = "ANNA", **fields: Any) -> NWQueueJobStruct:
        """A job that is being written."""
        job: NWQueueJobStruct = self.jobs(
            "create_queue_file", self.user(who), self.q, NWQueueJobStruct(**fields)
        )
        return job

    def attach(self, name: str = "SRV1", queue: int | None = None) -> Station:
        station = self.server(name)
        self.jobs("attach_queue_server_to_queue", station, queue or self.q)
        return station

    def service(self, name: str = "SRV1", types: Any = None) -> NWQueueJobStruct:
        job: NWQueueJobStruct = self.jobs("service_queue_job", self.server(name), self.q, types)
        return job

    def finish(self, number: int, name: str = "SRV1", **kw: Any) -> None:
        self.jobs("finish_servicing_queue_job", self.server(name), self.q, number, **kw)

    def entry(self, number: int, who: str = "ANNA") -> NWQueueJobStruct:
        job: NWQueueJobStruct = self.jobs("read_queue_job_entry", self.user(who), self.q, number)
        return job

    def numbers(self, queue: int | None = None) -> list[int]:
        """Job numbers in queue order."""
        return [job.entry.number for job in self.manager.jobs.queues[queue or self.q].jobs()]

    def outcomes(self) -> dict[int, str]:
        """What became of jobs, by number."""
        return {row.number: row.outcome for row in self.manager.jobs.history.rows()}

    @contextmanager
    def completion(self, code: int) -> Iterator[None]:
        """The block is refused with this completion code, and nothing changes."""
        before = self.manager.ledger.state.dump()
        with pytest.raises(QmsError) as caught:
            yield
        assert caught.value.completion == code, caught.value
        assert caught.value.cause
        assert caught.value.remedy
        assert self.manager.ledger.state.dump() == before

    def check(self) -> None:
        """Books balance, positions are dense, every chunk belongs to a job."""
        self.check_books()
        core, queues = self.manager.ledger, self.manager.jobs
        files = core.queues[JOB_FILES]
        for books in lines_of(core.state, core.locks, files):
            assert books.balanced
        chunks = [number for job in queues.jobs.values() for number in job.file.chunks]
        assert sorted(chunks) == sorted(n for _, n in files.state.order.forward())
        for queue in queues.queues.values():
            jobs = queue.jobs()
            assert [queue.position(job) for job in jobs] == list(range(1, len(jobs) + 1))
            assert {job.entry.number for job in jobs} == set(queue.by_number)
            assert len(queue.by_number) == len(jobs)
