"""Shared code of all calls on job queues: finding, rights, records, the end of a job."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection

from posthouse.engine.jobs.bindery.calls import Bindery
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.files import JobFiles
from posthouse.engine.jobs.history import RESULT_MAX, JobHistory
from posthouse.engine.jobs.job import KEY, EndedJob, Job, JobQueue, JobState, encode, pack_state
from posthouse.engine.jobs.job_states import JOB_STATES, JobEvent, phase_of
from posthouse.engine.ledger.ledger import Ledger, ReservedCounter
from posthouse.engine.ledger.parts import OpenedQueues, PacketReads
from posthouse.engine.ledger.records import TABLE_JOB, TABLE_JOB_QUEUE, Change
from posthouse.engine.messages.admission import Admission
from posthouse.model.bindery import Q_OPERATORS, Q_SERVERS, Q_USERS, SUPERVISOR_ID
from posthouse.model.completion_codes import NO_Q_JOB, NO_Q_RIGHTS, NO_QUEUE
from posthouse.model.errors import QmsError
from posthouse.model.qms import NWQueueJobStruct, job_file_name
from posthouse.security.access import Caller

DEFINITION, NUMBER = b"d", b"n"
ENTRY, STATE, PAGE = b"j", b"s", b"f"
_ID = struct.Struct(">cI")
_U32 = struct.Struct(">I")


def queue_key(kind: bytes, queue_id: int) -> bytes:
    """The key of a record of a queue."""
    return _ID.pack(kind, queue_id)


class JobGround:
    """Queues, jobs and what may be done with them."""

    tell_end: Callable[[Job, EndedJob, Change], None]  # of the bridge
    utc_offset_s: Callable[[int], int]  # of the server's own clock

    def __init__(
        self,
        core: Ledger,
        bindery: Bindery,
        admission: Admission,
        reading: PacketReads,
        opening: OpenedQueues,
    ) -> None:
        self.core = core
        self.bindery = bindery
        self._opening = opening
        self.stations = bindery.stations
        self.files = JobFiles(core, admission, reading)
        self.history = JobHistory(core)
        self.queues: dict[int, JobQueue] = {}
        self.jobs: dict[int, Job] = {}
        self.utc_offset_s = lambda utc: 0
        self.serials = ReservedCounter(core, b"job", 64)

    def local_now(self) -> int:
        """The second on the server's own clock."""
        return self.core.utc + self.utc_offset_s(self.core.utc)

    # -- finding

    def queue_ids(self) -> Collection[int]:
        """The IDs of all job queues."""
        return self.queues.keys()

    def handle_of(self, station: Station, job: Job) -> int:
        """The handle that a station has to the file of a job; 0: none."""
        return self.files.handle_of(station, job)

    def queue(self, queue_id: int) -> JobQueue:
        """A job queue by its ID."""
        queue = self.queues.get(queue_id)
        if queue is None:
            raise QmsError(NO_QUEUE, f"there is no job queue {queue_id:08X}")
        return queue

    def job(self, queue: JobQueue, number: int) -> Job:
        """A job of a queue by its number."""
        job = queue.by_number.get(number)
        if job is None:
            raise QmsError(NO_Q_JOB, f"{self.queue_name(queue.id)} has no job {number}")
        return job

    def queue_name(self, queue_id: int) -> str:
        """A queue for people."""
        one = self.bindery.objects.by_id.get(queue_id)
        return f"queue {queue_id:08X}" if one is None else one.name

    def object_name(self, object_id: int) -> str:
        """Any object for people; empty for none."""
        one = self.bindery.objects.by_id.get(object_id)
        return "" if one is None else one.name

    # -- rights (qms-facts 6)

    def _is_in(self, station: Station, queue: JobQueue, name: str) -> bool:
        prop = self.bindery.objects.by_id[queue.id].properties.get(name)
        return self.bindery.is_listed(self.bindery.identity_of(station), prop)

    def is_user(self, station: Station, queue: JobQueue) -> bool:
        """In Q_USERS; without that property anybody who has logged in is."""
        if Q_USERS not in self.bindery.objects.by_id[queue.id].properties:
            return self.bindery.object_of(station) is not None
        return self._is_in(station, queue, Q_USERS)

    def is_operator(self, station: Station, queue: JobQueue) -> bool:
        """In Q_OPERATORS."""
        return self._is_in(station, queue, Q_OPERATORS)

    def is_server(self, station: Station, queue: JobQueue) -> bool:
        """In Q_SERVERS."""
        return self._is_in(station, queue, Q_SERVERS)

    def is_owner(self, station: Station, job: Job) -> bool:
        """Whether the job is its own."""
        me = self.bindery.object_of(station)
        return me is not None and me.id == job.entry.client_id

    def check_view(self, station: Station, queue: JobQueue) -> None:
        """Users, operators and servers of a queue see it; others do not."""
        allowed = (
            self.is_user(station, queue)
            or self.is_operator(station, queue)
            or self.is_server(station, queue)
        )
        self.require(allowed, station, f"see {self.queue_name(queue.id)}")

    def require(
        self, allowed: bool, station: Station, what: str, completion: int = NO_Q_RIGHTS
    ) -> None:
        """Refuses what is not allowed."""
        self.bindery.require(allowed, completion, what, station)

    def caller_of(self, object_id: int) -> Caller:
        """An object as message queues see it: an account, the administrator, or none."""
        one = self.bindery.objects.by_id.get(object_id)
        if one is not None and one.stored.sid:
            account = self.bindery.accounts.of_sid(one.stored.sid)
            if account is not None and not account.disabled:
                return self.bindery.accounts.caller(account.name)
        elif one is not None and one.id == SUPERVISOR_ID:
            return self.core.system
        return Caller.anonymous()

    # -- records

    def store_queue(self, queue: JobQueue, change: Change) -> None:
        """Its definition has changed."""
        key = queue_key(DEFINITION, queue.id)
        self.core.define(TABLE_JOB_QUEUE, key, encode(queue.definition), change)

    def store_number(self, queue: JobQueue, change: Change) -> None:
        """A number was given."""
        key = queue_key(NUMBER, queue.id)
        self.core.define(TABLE_JOB_QUEUE, key, _U32.pack(queue.last_number), change)

    def store_entry(self, job: Job, change: Change) -> None:
        """What was asked for has changed."""
        self.core.define(TABLE_JOB, KEY.pack(ENTRY, job.serial), encode(job.entry), change)

    def advance(self, job: Job, event: JobEvent, state: JobState, change: Change) -> None:
        """One transition of the table: how the job stands from now on."""
        after = JOB_STATES.after(phase_of(job.state), event)
        assert after is phase_of(state), (after, state)
        self.set_state(job, state, change)

    def set_state(self, job: Job, state: JobState, change: Change) -> None:
        """Keeps how a job stands, and puts it where servers look for it."""
        queue = self.queues[job.entry.queue_id]
        if state.place != job.state.place:
            queue.take(job)
            job.state = state
            queue.put(job)
        else:
            queue.withdraw(job)
            job.state = state
            queue.offer(job)
        self.core.define(TABLE_JOB, KEY.pack(STATE, job.serial), pack_state(state), change)

    def describe(self, job: Job, station: Station | None = None) -> NWQueueJobStruct:
        """The structure of a job; the handle is that of the station that asks, if it has one."""
        entry, state, queue = job.entry, job.state, self.queues[job.entry.queue_id]
        return NWQueueJobStruct(
            entry.target_server_id,
            entry.target_execution_time,
            entry.job_type,
            state.flags,
            entry.description,
            entry.record,
            entry.client_station,
            entry.client_task,
            entry.client_id,
            entry.entry_time,
            entry.number,
            queue.position(job),
            job_file_name(queue.id, entry.number),
            0 if station is None else self.files.handle_of(station, job),
            state.server_station,
            state.server_task,
            state.server_id,
            queue.next_number(job),
        )

    # -- the end

    def end_job(
        self, job: Job, outcome: str, change: Change, *, charge: int = 0, result: str = ""
    ) -> None:
        """The job is gone with its file; its history and its message are in the same step."""
        entry, state, core = job.entry, job.state, self.core
        assert JOB_STATES.allows(phase_of(state), JobEvent(outcome)), (outcome, state)
        queue = self.queues[entry.queue_id]
        row = EndedJob(
            job.serial,
            queue.id,
            self.queue_name(queue.id),
            entry.number,
            outcome,
            entry.client_id,
            self.object_name(entry.client_id),
            entry.job_type,
            self.describe(job).description,
            job.file.size,
            entry.entered,
            state.begun,
            core.utc,
            state.attempts,
            state.server_id,
            self.object_name(state.server_id),
            charge,
            result[:RESULT_MAX],
        )
        self.release(job, change)
        self.files.remove(job, change, serviced=outcome == "finished")
        for kind in (ENTRY, STATE):
            core.define(TABLE_JOB, KEY.pack(kind, job.serial), None, change)
        queue.discard(job)
        del self.jobs[job.serial]
        self.history.add(row, change)
        self.tell_end(job, row, change)

    def release(self, job: Job, change: Change) -> None:
        """It is no longer written or serviced; handles to it are closed."""
        job.end_service(change)
        for station in (job.submitter, job.server):
            self.files.close_all(station, job)
            if station is not None:
                station.writing.pop(job.serial, None)
                station.servicing.pop(job.serial, None)
                if station.client_of is job:
                    station.client_of = None
        job.submitter = job.server = None
