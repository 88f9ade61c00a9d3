"""Queue servers: attaching, servicing, finishing, acting as the client (QMS, Servicing Entries)."""

from __future__ import annotations

from collections.abc import Collection

from posthouse.engine.jobs.bindery.objects import BinderyObject
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.calls import Jobs
from posthouse.engine.jobs.history import FAILED, FINISHED
from posthouse.engine.jobs.job import Attachment, Job, JobProgress, JobQueue
from posthouse.engine.jobs.job_states import JobEvent
from posthouse.engine.ledger.records import Change
from posthouse.model.bindery import Q_SERVERS
from posthouse.model.completion_codes import (
    BAD_LENGTH,
    NO_Q_JOB,
    NO_Q_JOB_RIGHTS,
    NO_Q_SERVER,
    Q_HALTED,
    Q_MAX_SERVERS,
    Q_STN_NOT_SERVER,
)
from posthouse.model.errors import QmsError
from posthouse.model.qms import (
    ANY_TYPE,
    NWCF_SERVICE_RESTART,
    QS_CANT_SERVICE_JOBS,
    QS_SERVERS_CANT_ATTACH,
    SERVER_STATUS_SIZE,
    NWQueueJobStruct,
)

ATTEMPTS_MAX = 0xFFFF
PROGRESS_MAX = 200
FAILURE_MAX = 1000  # characters


class JobService(Jobs):
    """The calls of queue servers."""

    # -- attaching

    def attach_queue_server_to_queue(self, station: Station, queue_id: int) -> None:
        """NWAttachQueueServerToQueue (0x6F): for members of Q_SERVERS; once is enough."""
        queue = self.queue(queue_id)
        name = self.queue_name(queue_id)
        # not as its client either: an attachment outlives those rights
        me = None if station.client_of is not None else self._server_object(station, queue)
        self.require(me is not None, station, f"attach to {name}")
        assert me is not None
        if station.number in queue.attached:
            return
        if queue.definition.status & QS_SERVERS_CANT_ATTACH:
            raise QmsError(Q_HALTED, f"{name} takes no further servers at the moment")
        if len(queue.attached) >= self.core.settings.qms.servers_max:
            raise QmsError(Q_MAX_SERVERS, f"{len(queue.attached)} servers are attached to {name}")
        attachment = Attachment(station, me.id)
        queue.attached[station.number] = station.attached[queue_id] = attachment

    def _server_object(self, station: Station, queue: JobQueue) -> BinderyObject | None:
        """Who has logged in, if they still may and are a server of the queue."""
        me = self.bindery.own_object(station)
        listed = self.bindery.objects.by_id[queue.id].properties.get(Q_SERVERS)
        is_server = me is not None and self.bindery.is_listed(self.bindery.identity(me.id), listed)
        return me if is_server else None

    def detach_queue_server_from_queue(self, station: Station, queue_id: int) -> None:
        """NWDetachQueueServerFromQueue (0x70): what it services of the queue is aborted."""
        queue = self.queue(queue_id)
        if station.number not in queue.attached:
            raise QmsError(NO_Q_SERVER, "the connection is not attached to the queue")
        change = Change()
        self.detach(station, queue, change)
        self.core.commit(change)

    def detach(self, station: Station, queue: JobQueue, change: Change) -> None:
        """Detach a queue server, as part of the caller's change."""
        for job in list(station.servicing.values()):
            if job.entry.queue_id == queue.id:
                self.service_lost(job, change, "its server has left the queue")
        del queue.attached[station.number], station.attached[queue.id]

    def _attachment(self, station: Station, queue: JobQueue) -> Attachment:
        found = queue.attached.get(station.number)
        if found is None:
            raise QmsError(Q_STN_NOT_SERVER, "the connection is not attached to the queue")
        return found

    # -- servicing

    def service_queue_job(
        self, station: Station, queue_id: int, types: Collection[int] | None = None
    ) -> NWQueueJobStruct:
        """NWServiceQueueJob (0x71, 0x7C; 0x8A with several types): the first that fits (7.2)."""
        queue = self.queue(queue_id)
        attachment = self._attachment(station, queue)
        if queue.definition.status & QS_CANT_SERVICE_JOBS:
            raise QmsError(Q_HALTED, f"{self.queue_name(queue_id)} is not serviced at the moment")
        allowed = self._server_object(station, queue) is not None
        self.require(allowed, station, f"service {self.queue_name(queue_id)}")
        wanted = None if types is None or ANY_TYPE in types else frozenset(types)
        job = self._next_job(queue, attachment.server_id, wanted)
        if job is None:
            raise QmsError(NO_Q_JOB, f"{self.queue_name(queue_id)} has no job for this server")
        change = Change()
        state = job.state._replace(
            server_station=station.number,
            server_task=station.task,
            server_id=attachment.server_id,
            begun=self.core.utc,
            attempts=min(job.state.attempts + 1, ATTEMPTS_MAX),
        )
        self.advance(job, JobEvent.SERVICE, state, change)
        job.server, job.progress = station, JobProgress()
        station.servicing[job.serial] = job
        self.files.open(station, job, readable=True)
        self.core.commit(change)
        return self.describe(job, station)

    def _next_job(
        self, queue: JobQueue, server_id: int, types: frozenset[int] | None
    ) -> Job | None:
        now = self.local_now()
        queue.promote(now, self.jobs)
        while True:
            job = queue.find(server_id, types)
            if job is None or job.due is None or job.due <= now:
                return job
            queue.withdraw(job)  # the clock was put back since
            queue.offer(job)

    def _serviced(self, station: Station, queue_id: int, number: int) -> Job:
        """The job that this connection services; 0xD9 not attached, 0xD6 not its job."""
        queue = self.queue(queue_id)
        self._attachment(station, queue)
        job = self.job(queue, number)
        mine = job.server is station
        self.require(mine, station, f"end the service of job {number}", NO_Q_JOB_RIGHTS)
        return job

    def finish_servicing_queue_job(
        self, station: Station, queue_id: int, number: int, charge: int = 0, result: str = ""
    ) -> None:
        """NWFinishServicingQueueJob (0x72, 0x83): job and file are gone, its client pays."""
        job, change = self._serviced(station, queue_id, number), Change()
        server_id = job.state.server_id
        booked = self.bindery.charge(server_id, job.entry.client_id, charge, change)
        self.end_job(job, FINISHED, change, charge=charge if booked else 0, result=result)
        self.core.commit(change)

    def abort_servicing_queue_job(
        self,
        station: Station,
        queue_id: int,
        number: int,
        reason: str = "",
        *,
        give_back: bool = False,
    ) -> None:
        """NWAbortServicingQueueJob (0x73, 0x84): the restart flag decides what becomes of it.

        With `give_back`, of servers that have not begun with the job, it stays in any case.
        """
        job, change = self._serviced(station, queue_id, number), Change()
        self.service_lost(job, change, reason, stays=give_back)
        self.core.commit(change)

    def service_lost(self, job: Job, change: Change, reason: str, *, stays: bool = False) -> None:
        """Table 26: a job whose service failed stays where it stands, or is removed."""
        if not (stays or job.state.flags & NWCF_SERVICE_RESTART):
            self.end_job(job, FAILED, change, result=reason)
            return
        self.release(job, change)
        state = job.state._replace(server_station=0, server_task=0, server_id=0)
        self.advance(job, JobEvent.GIVE_BACK, state, change)
        if job.entry.failure != reason[:FAILURE_MAX]:
            job.entry.failure = reason[:FAILURE_MAX]
            self.store_entry(job, change)

    def report_progress(
        self, station: Station, queue_id: int, number: int, done: int, total: int, text: str = ""
    ) -> None:
        """How far the server has come with a job. Nothing is kept of it but in memory."""
        job = self._serviced(station, queue_id, number)
        job.progress = JobProgress(max(done, 0), max(total, 0), text[:PROGRESS_MAX])

    # -- rights of the client

    def end_service(self, job: Job) -> None:
        """Ends what a service has made for its time, before it is made again."""
        change = Change()
        job.end_service(change)
        self.core.commit(change)

    def change_to_client_rights(self, station: Station, queue_id: int, number: int) -> None:
        """NWChangeToClientRights (0x74, 0x85): it acts as the job's client until restored."""
        station.client_of = self._serviced(station, queue_id, number)

    def restore_queue_server_rights(self, station: Station) -> None:
        """NWRestoreQueueServerRights (0x75)."""
        if station.client_of is None:
            raise QmsError(Q_STN_NOT_SERVER, "the connection acts for no client")
        station.client_of = None

    # -- status records of servers

    def read_queue_server_current_status(
        self, station: Station, queue_id: int, server_id: int, server_station: int
    ) -> bytes:
        """NWReadQueueServerCurrentStatus (0x76, 0x86): for users and operators."""
        queue = self.queue(queue_id)
        allowed = self.is_user(station, queue) or self.is_operator(station, queue)
        self.require(allowed, station, f"see the servers of {self.queue_name(queue_id)}")
        found = queue.attached.get(server_station)
        if found is None or found.server_id != server_id:
            raise QmsError(NO_Q_SERVER, f"server {server_id:08X} is not attached there")
        return found.record

    def set_queue_server_current_status(
        self, station: Station, queue_id: int, record: bytes
    ) -> None:
        """NWSetQueueServerCurrentStatus (0x77): the caller's own record (qms-facts 8.1)."""
        attachment = self._attachment(station, self.queue(queue_id))
        if len(record) != SERVER_STATUS_SIZE:
            raise QmsError(BAD_LENGTH, f"a status record has {SERVER_STATUS_SIZE} bytes")
        attachment.record = record
