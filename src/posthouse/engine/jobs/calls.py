"""Jobs: submitting, looking, changing, moving, removing (QMS, Submitting Jobs, Table 27)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.file_content import JobFile
from posthouse.engine.jobs.files import check_readable, check_writable
from posthouse.engine.jobs.history import ABANDONED, REMOVED
from posthouse.engine.jobs.job import EndedJob, Job, JobDetails, JobEntry, JobQueue, JobState
from posthouse.engine.jobs.job_states import JobEvent
from posthouse.engine.jobs.shared import JobGround
from posthouse.engine.ledger.records import Change
from posthouse.model.completion_codes import (
    BAD_LENGTH,
    DIRECTORY_FULL,
    NO_Q_JOB_RIGHTS,
    NO_Q_RIGHTS,
    OUT_OF_DISK_SPACE,
    Q_FULL,
    Q_HALTED,
    Q_IN_SERVICE,
)
from posthouse.model.errors import QmsError
from posthouse.model.names import parse_name
from posthouse.model.qms import (
    ANY_SERVER,
    ANY_TYPE,
    CLIENT_RECORD_SIZE,
    FLAGS_OF_CLIENTS,
    JOBS_MAX,
    NUMBER_MAX,
    NWCF_ENTRY_OPEN,
    NWCF_OPERATOR_HOLD,
    NWCF_SERVICE_AUTO_START,
    NWMAX_JOB_DESCRIPTION_LENGTH,
    NWMAX_QUEUE_JOB_TIME_SIZE,
    QS_CANT_ADD_JOBS,
    SMALL_NUMBER_MAX,
    SMALL_QUEUE,
    JobList,
    JobSize,
    NWQueueJobStruct,
    pack_time,
)

FROM_THE_HEAD = frozenset({0, 0xFFFFFFFF})  # start positions that mean 1
LIST_MAX = JOBS_MAX


class Jobs(JobGround):
    """The calls of users and operators on jobs."""

    # -- submitting

    def create_queue_file(
        self, station: Station, queue_id: int, job: NWQueueJobStruct, *, finished_queue: str = ""
    ) -> NWQueueJobStruct:
        """NWCreateQueueFile (0x68, 0x79): a job that is open until its submitter releases it."""
        queue, change = self.queue(queue_id), Change()
        self._check_submission(station, queue, job, 0)
        self._check_finished_queue(station, finished_queue)
        made = self._create(station, queue, job, finished_queue, change)
        self.files.open(station, made, readable=False)
        made.submitter = station
        station.writing[made.serial] = made
        self.core.commit(change)
        return self.describe(made, station)

    def submit_job(
        self,
        station: Station,
        queue_id: int,
        job: NWQueueJobStruct,
        data: bytes,
        *,
        finished_queue: str = "",
    ) -> NWQueueJobStruct:
        """Create, write and start in one step: there is the whole job or nothing of it."""
        queue, change = self.queue(queue_id), Change()
        if len(data) > self.core.settings.qms.file_max:
            raise QmsError(OUT_OF_DISK_SPACE, "the data is longer than a job file may be")
        self._check_submission(station, queue, job, len(data))
        self._check_finished_queue(station, finished_queue)
        made = self._create(station, queue, job, finished_queue, change)
        self.files.append(made, 0, data, change)
        self._start(made, change)
        self.core.commit(change)
        return self.describe(made)

    def _check_submission(
        self, station: Station, queue: JobQueue, job: NWQueueJobStruct, size: int
    ) -> None:
        name = self.queue_name(queue.id)
        self.require(self.is_user(station, queue), station, f"submit jobs to {name}")
        self.check_room(queue, size)
        check_fields(job)

    def check_room(self, queue: JobQueue, size: int) -> None:
        """Whether a queue takes one more job of this size (qms-facts 7.1)."""
        name = self.queue_name(queue.id)
        if queue.definition.status & QS_CANT_ADD_JOBS:
            raise QmsError(Q_HALTED, f"{name} takes no new jobs at the moment")
        if len(queue) >= min(self.core.settings.qms.jobs_max, JOBS_MAX):
            raise QmsError(Q_FULL, f"{name} holds {len(queue)} jobs, which is the limit")
        self.files.check_room(size, DIRECTORY_FULL)

    def _check_finished_queue(self, station: Station, name: str) -> None:
        """The submitter of a job must be allowed to write where its end is reported."""
        me = self.bindery.object_of(station)
        if name and me is not None:
            self._opening.check_answer_queue(parse_name(name), self.caller_of(me.id))

    def _create(
        self,
        station: Station,
        queue: JobQueue,
        job: NWQueueJobStruct,
        finished_queue: str,
        change: Change,
    ) -> Job:
        me = self.bindery.object_of(station)
        assert me is not None
        flags = job.job_control_flags & FLAGS_OF_CLIENTS
        if self.is_operator(station, queue):
            flags |= job.job_control_flags & NWCF_OPERATOR_HOLD
        entry = self.new_entry(queue, me.id, job)
        entry.client_station, entry.client_task = station.number, station.task
        entry.finished_queue = finished_queue
        return self.add_job(queue, entry, flags | NWCF_ENTRY_OPEN, change)

    def new_entry(self, queue: JobQueue, client_id: int, job: NWQueueJobStruct) -> JobEntry:
        """What the client gave and what QMS fills in (Managing 1, 2); numbered when it is added."""
        return JobEntry(
            queue.id,
            0,
            0,
            0,
            client_id,
            pack_time(self.local_now()),
            self.core.utc,
            job.target_server_id,
            job.target_execution_time,
            job.job_type,
            described(job.job_description),
            job.queue_record.ljust(CLIENT_RECORD_SIZE, b"\0"),
        )

    def add_job(self, queue: JobQueue, entry: JobEntry, flags: int, change: Change) -> Job:
        """A new job at the tail of a queue."""
        entry.number = queue.last_number = self._new_number(queue)
        state = JobState(queue.tail_place(), flags)
        job = Job(self.serials.next(), entry, state, JobFile())
        self.jobs[job.serial] = job
        queue.add(job)
        self.store_number(queue, change)
        self.store_entry(job, change)
        self.set_state(job, state, change)
        return job

    def _new_number(self, queue: JobQueue) -> int:
        """Decision 98: the next one that no job has, from 1 on again after the last."""
        small = self.core.settings.qms.jobs_max <= SMALL_QUEUE
        last = SMALL_NUMBER_MAX if small else NUMBER_MAX
        number = queue.last_number
        while True:
            number = number % last + 1
            if number not in queue.by_number:
                return number

    def close_file_and_start_queue_job(self, station: Station, queue_id: int, number: int) -> None:
        """NWCloseFileAndStartQueueJob (0x69, 0x7F): by the connection that created the job."""
        job, change = self._open_job(station, queue_id, number, "start"), Change()
        self._start(job, change)
        self.core.commit(change)

    def _open_job(self, station: Station, queue_id: int, number: int, what: str) -> Job:
        job = self.job(self.queue(queue_id), number)
        mine = job.submitter is station and bool(job.state.flags & NWCF_ENTRY_OPEN)
        self.require(mine, station, f"{what} job {number}", NO_Q_JOB_RIGHTS)
        return job

    def _start(self, job: Job, change: Change) -> None:
        self.release(job, change)
        flags = job.state.flags & ~NWCF_ENTRY_OPEN
        self.advance(job, JobEvent.START, job.state._replace(flags=flags), change)

    def submitter_lost(self, job: Job, change: Change) -> None:
        """Table 26: an open job whose connection broke is released, or removed."""
        if job.state.flags & NWCF_SERVICE_AUTO_START:
            self._start(job, change)
        else:
            self.end_job(job, ABANDONED, change)

    # -- files

    def write_file(self, station: Station, handle: int, offset: int, data: bytes) -> None:
        """NWWriteFile (0x49)."""
        opened = self.files.handle(station, handle)
        check_writable(opened, station)
        self.files.write(opened, offset, data)

    def read_file(self, station: Station, handle: int, offset: int, count: int) -> bytes:
        """NWReadFile (0x48)."""
        opened = self.files.handle(station, handle)
        check_readable(opened)
        return self.files.read(opened.job, offset, count)

    def file_size(self, station: Station, handle: int) -> int:
        """The size of an open job file (0x47)."""
        return self.files.handle(station, handle).job.file.size

    def close_file(self, station: Station, handle: int) -> None:
        """NWCloseFile (0x42): closes a handle; the job stays as it was."""
        self.files.close(station, handle)

    # -- looking

    def read_queue_job_entry(
        self, station: Station, queue_id: int, number: int
    ) -> NWQueueJobStruct:
        """NWReadQueueJobEntry (0x6C, 0x7A)."""
        queue = self.queue(queue_id)
        self.check_view(station, queue)
        return self.describe(self.job(queue, number), station)

    def get_queue_job_list(
        self,
        station: Station,
        queue_id: int,
        start: int = 1,
        count: int = LIST_MAX,
        types: Collection[int] | None = None,
    ) -> JobList:
        """NWGetQueueJobList (0x6B, 0x81; 0x89 with types): numbers in queue order."""
        queue = self.queue(queue_id)
        self.check_view(station, queue)
        first = _first(start)
        if types is None or ANY_TYPE in types:
            numbers = [job.entry.number for job in queue.jobs(first, count)]
            return JobList(len(queue), tuple(numbers))
        fitting = [job.entry.number for job in queue.jobs() if job.entry.job_type in types]
        return JobList(len(fitting), tuple(fitting[first : first + count]))

    def get_queue_job_size(self, station: Station, queue_id: int, number: int) -> JobSize:
        """NWGetQueueJobSize (0x78, 0x87)."""
        queue = self.queue(queue_id)
        self.check_view(station, queue)
        return JobSize(queue_id, number, self.job(queue, number).file.size)

    def details(self, station: Station, queue_id: int, number: int) -> JobDetails:
        """What is known of a job beside its structure, for who may see that."""
        queue = self.queue(queue_id)
        self.check_view(station, queue)
        job = self.job(queue, number)
        entry, state = job.entry, job.state
        return JobDetails(
            job.serial,
            job.file.size,
            entry.entered,
            state.begun,
            state.attempts,
            entry.finished_queue,
            job.progress,
        )

    def ended_jobs(
        self,
        station: Station,
        queue_id: int | None = None,
        *,
        after: int = 0,
        count: int | None = None,
    ) -> list[EndedJob]:
        """What became of the jobs of a queue, for who sees that queue; of all for a supervisor.

        The first to end comes first; `after` is the serial of the last one seen.
        """
        if queue_id is not None and queue_id in self.queues:
            self.check_view(station, self.queues[queue_id])
        else:
            allowed = self.bindery.is_supervisor(station)
            self.require(allowed, station, "see the jobs of all queues", NO_Q_RIGHTS)
        return self.history.rows(queue_id, after, count)

    # -- changing

    def change_queue_job_entry(
        self, station: Station, queue_id: int, job: NWQueueJobStruct
    ) -> None:
        """NWChangeQueueJobEntry (0x6D, 0x7B): the fields of Managing 3, and no others."""
        queue = self.queue(queue_id)
        found = self.job(queue, job.job_number)
        operator = self.is_operator(station, queue)
        serving = found.server is station
        allowed = operator or serving or self.is_owner(station, found)
        self.require(allowed, station, f"change job {job.job_number}", NO_Q_JOB_RIGHTS)
        if found.state.server_id and not serving:  # decision 97
            raise QmsError(Q_IN_SERVICE, f"job {job.job_number} is being serviced")
        check_fields(job)
        self._change(queue, found, job, operator)

    def _change(self, queue: JobQueue, found: Job, job: NWQueueJobStruct, operator: bool) -> None:
        settable = FLAGS_OF_CLIENTS | (NWCF_OPERATOR_HOLD if operator else 0)
        state, change = found.state, Change()
        flags = state.flags & ~settable | job.job_control_flags & settable
        queue.withdraw(found)
        found.entry = msgspec.structs.replace(
            found.entry,
            target_server_id=job.target_server_id,
            target_execution_time=job.target_execution_time,
            job_type=job.job_type,
            description=described(job.job_description),
            record=job.queue_record.ljust(CLIENT_RECORD_SIZE, b"\0"),
        )
        found.set_due()
        self.store_entry(found, change)
        self.advance(found, JobEvent.CHANGE, state._replace(flags=flags), change)
        self.core.commit(change)

    def change_queue_job_position(
        self, station: Station, queue_id: int, number: int, position: int
    ) -> None:
        """NWChangeQueueJobPosition (0x6E, 0x82): operators only; one small record."""
        queue = self.queue(queue_id)
        job = self.job(queue, number)
        operator = self.is_operator(station, queue)
        self.require(operator, station, f"move job {number}", NO_Q_JOB_RIGHTS)
        change = Change()
        place = queue.place_at(job, position)
        if place is None:
            self._make_gaps(queue, position, change)
            place = queue.place_at(job, position)
            assert place is not None
        self.advance(job, JobEvent.CHANGE, job.state._replace(place=place), change)
        self.core.commit(change)

    def _make_gaps(self, queue: JobQueue, position: int, change: Change) -> None:
        """Some jobs around a position get places further apart; their order stays."""
        spaced = queue.respaced(min(max(position, 1), len(queue)) - 1)
        for job, _ in spaced:
            queue.take(job)
        for job, place in spaced:
            job.state = job.state._replace(place=place)
            queue.put(job)
            self.advance(job, JobEvent.CHANGE, job.state, change)

    def remove_job_from_queue(self, station: Station, queue_id: int, number: int) -> None:
        """NWRemoveJobFromQueue (0x6A, 0x80): by its owner or an operator, also while serviced."""
        queue = self.queue(queue_id)
        job = self.job(queue, number)
        allowed = self.is_owner(station, job) or self.is_operator(station, queue)
        self.require(allowed, station, f"remove job {number}", NO_Q_JOB_RIGHTS)
        change = Change()
        self.end_job(job, REMOVED, change)
        self.core.commit(change)

    def move_queue_job(self, station: Station, queue_id: int, number: int, to_id: int) -> int:
        """Move Queue Job (0x88): to the tail of another queue, under a new number."""
        queue, to = self.queue(queue_id), self.queue(to_id)
        job = self.job(queue, number)
        operator = self.is_operator(station, queue) and self.is_operator(station, to)
        owner = self.is_owner(station, job) and self.is_user(station, to)
        self.require(operator or owner, station, f"move job {number}", NO_Q_JOB_RIGHTS)
        if job.state.server_id or job.state.flags & NWCF_ENTRY_OPEN:
            raise QmsError(Q_IN_SERVICE, f"job {number} is being written or serviced")
        if to is not queue:
            self.check_room(to, 0)
        change = Change()
        queue.discard(job)
        new = to.last_number = self._new_number(to)
        job.entry = msgspec.structs.replace(job.entry, queue_id=to.id, number=new)
        job.state = job.state._replace(place=to.tail_place())
        to.add(job)
        self.store_number(to, change)
        self.store_entry(job, change)
        self.advance(job, JobEvent.CHANGE, job.state, change)
        self.core.commit(change)
        return new


def _first(start: int) -> int:
    """A start position as an index: it counts from 1, and two values mean the head."""
    return 0 if start in FROM_THE_HEAD else start - 1


def described(description: bytes) -> bytes:
    """All fifty bytes, the last of which ends the text."""
    longest = NWMAX_JOB_DESCRIPTION_LENGTH - 1
    return description[:longest].ljust(NWMAX_JOB_DESCRIPTION_LENGTH, b"\0")


def check_fields(job: NWQueueJobStruct) -> None:
    """Refuses what no structure could carry."""
    sound = (
        0 <= job.target_server_id <= ANY_SERVER
        and 0 <= job.job_type <= ANY_TYPE
        and len(job.target_execution_time) == NWMAX_QUEUE_JOB_TIME_SIZE
        and len(job.job_description) <= NWMAX_JOB_DESCRIPTION_LENGTH
        and len(job.queue_record) <= CLIENT_RECORD_SIZE
    )
    if not sound:
        raise QmsError(BAD_LENGTH, "a field of the job is longer or greater than it may be")
