"""Jobs: submit, look at, change, move, remove, service; their files as bytes."""

from __future__ import annotations

from posthouse.api.jobs import (
    AbortBody,
    FileParams,
    JobBody,
    JobChangeBody,
    JobJson,
    JobListJson,
    JobNumbersJson,
    JobParams,
    JobPositionBody,
    JobQueueParams,
    JobSizeJson,
    JobsParams,
    MoveBody,
    MovedJson,
    ServiceBody,
    StationTokenJson,
    TokenBody,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.job import Job
from posthouse.engine.ledger.records import Change
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import NWOT_USER, Q_CODE_USERS
from posthouse.model.completion_codes import INVALID_FILE_HANDLE, NO_Q_JOB_RIGHTS, NO_Q_RIGHTS
from posthouse.model.errors import QmsError
from posthouse.model.message_json import time_text
from posthouse.model.roles import Role
from posthouse.protocols.handlers.caller_stations import working
from posthouse.protocols.handlers.context import Context, Services
from posthouse.protocols.handlers.job_json import changed_job, job_json, queue_id_of, wanted_job

TOKEN_LIFE_S = 12 * 3600
_ANONYMOUS = (
    "a job without `file` is created empty, and only the station that created it may write to it"
)

# -- looking


def list_jobs(
    manager: QueueManager, context: Context, params: JobsParams, body: Nothing
) -> JobListJson:
    """Lists jobs in queue order, from a position on."""
    with working(manager, context, params.station) as station:
        queues = manager.jobs
        queue = queues.queue(queue_id_of(manager, params.queue))
        queues.check_view(station, queue)
        start = max(params.start, 1)
        jobs = [job_json(manager, station, job) for job in queue.jobs(start - 1, params.limit)]
        end = start + len(jobs)
        return JobListJson(jobs=jobs, total=len(queue), next=end if end <= len(queue) else None)


def list_job_numbers(
    manager: QueueManager, context: Context, params: JobsParams, body: Nothing
) -> JobNumbersJson:
    """Lists numbers of jobs in queue order, from a position on (NWGetQueueJobList)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        found = manager.jobs.get_queue_job_list(station, id, params.start, params.limit)
    return JobNumbersJson(total=found.total, numbers=list(found.numbers))


def show_job(manager: QueueManager, context: Context, params: JobParams, body: Nothing) -> JobJson:
    """Shows a job (NWReadQueueJobEntry)."""
    with working(manager, context, params.station) as station:
        return job_json(manager, station, _seen(manager, station, params))


def _shown(manager: QueueManager, station: Station, id: int, number: int) -> JobJson:
    queues = manager.jobs
    return job_json(manager, station, queues.job(queues.queue(id), number))


def _seen(manager: QueueManager, station: Station, params: JobParams) -> Job:
    """A job that the station may look at."""
    queues = manager.jobs
    queue = queues.queue(queue_id_of(manager, params.queue))
    queues.check_view(station, queue)
    return queues.job(queue, params.number)


def show_job_size(
    manager: QueueManager, context: Context, params: JobParams, body: Nothing
) -> JobSizeJson:
    """Shows how long the file of a job is (NWGetQueueJobSize)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        found = manager.jobs.get_queue_job_size(station, id, params.number)
    return JobSizeJson(size=found.size)


# -- submitting


def submit_job(
    manager: QueueManager, context: Context, params: JobQueueParams, body: JobBody
) -> JobJson:
    """Submits a job: whole, with its file; or open, to be written and started by its station."""
    wanted, tells = wanted_job(manager, body), body.response_queue
    with working(manager, context, params.station) as station:
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        if body.file is not None:
            made = queues.submit_job(station, id, wanted, body.file, finished_queue=tells)
        elif params.station is None:
            raise QmsError(NO_Q_JOB_RIGHTS, _ANONYMOUS, "Give `file`, or open a station first.")
        else:
            made = queues.create_queue_file(station, id, wanted, finished_queue=tells)
        return _shown(manager, station, id, made.job_number)


def write_job_file(
    manager: QueueManager, context: Context, params: FileParams, body: bytes
) -> Done:
    """Writes a piece of a job's file, up to 1 MiB (NWWriteFile)."""
    with working(manager, context, params.station) as station:
        handle = _handle(manager, station, params)
        manager.jobs.write_file(station, handle, params.offset, body)
    return Done()


def read_job_file(
    manager: QueueManager, context: Context, params: FileParams, body: Nothing
) -> bytes:
    """Reads a piece of a job's file, for the server that services it (NWReadFile)."""
    with working(manager, context, params.station) as station:
        handle = _handle(manager, station, params)
        return manager.jobs.read_file(station, handle, params.offset, params.count)


def _handle(manager: QueueManager, station: Station, params: JobParams) -> int:
    """The station's own handle to a job; it has one while it writes or services it."""
    queues = manager.jobs
    job = queues.job(queues.queue(queue_id_of(manager, params.queue)), params.number)
    handle = queues.handle_of(station, job)
    if not handle:
        raise QmsError(INVALID_FILE_HANDLE, f"job {params.number} is not open at this station")
    return handle


def close_job_file(
    manager: QueueManager, context: Context, params: JobParams, body: Nothing
) -> Done:
    """Closes the file of a job and nothing else (NWCloseFile)."""
    with working(manager, context, params.station) as station:
        manager.jobs.close_file(station, _handle(manager, station, params))
    return Done()


def start_job(manager: QueueManager, context: Context, params: JobParams, body: Nothing) -> JobJson:
    """Releases a job that its station has written (NWCloseFileAndStartQueueJob)."""
    with working(manager, context, params.station) as station:
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        queues.close_file_and_start_queue_job(station, id, params.number)
        return _shown(manager, station, id, params.number)


# -- changing


def change_job(
    manager: QueueManager, context: Context, params: JobParams, body: JobChangeBody
) -> JobJson:
    """Changes how a job is to be processed (NWChangeQueueJobEntry)."""
    with working(manager, context, params.station) as station:
        job, queues = _seen(manager, station, params), manager.jobs
        changed = changed_job(manager, queues.describe(job), body)
        queues.change_queue_job_entry(station, job.entry.queue_id, changed)
        return job_json(manager, station, job)


def place_job(
    manager: QueueManager, context: Context, params: JobParams, body: JobPositionBody
) -> JobJson:
    """Moves a job to another position (NWChangeQueueJobPosition)."""
    with working(manager, context, params.station) as station:
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        queues.change_queue_job_position(station, id, params.number, body.position)
        return _shown(manager, station, id, params.number)


def move_job(
    manager: QueueManager, context: Context, params: JobParams, body: MoveBody
) -> MovedJson:
    """Moves a job to the end of another queue, where it gets another number."""
    with working(manager, context, params.station) as station:
        id, to = queue_id_of(manager, params.queue), queue_id_of(manager, body.to)
        return MovedJson(number=manager.jobs.move_queue_job(station, id, params.number, to))


# -- servicing


def service_job(
    manager: QueueManager, context: Context, params: JobQueueParams, body: ServiceBody
) -> JobJson:
    """Takes the next job that fits; it is this station's from then on (NWServiceQueueJob)."""
    with working(manager, context, params.station) as station:
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        taken = queues.service_queue_job(station, id, body.types or None)
        return _shown(manager, station, id, taken.job_number)


def abort_job(manager: QueueManager, context: Context, params: JobParams, body: AbortBody) -> Done:
    """The job is not done: its restart flag decides what follows (NWAbortServicingQueueJob)."""
    with working(manager, context, params.station) as station:
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        queues.abort_servicing_queue_job(
            station, id, params.number, body.result, give_back=body.give_back
        )
    return Done()


def make_client_token(
    manager: QueueManager, context: Context, params: JobParams, body: TokenBody
) -> StationTokenJson:
    """Makes a token with the rights of the client whose job this station services.

    It ends with the service, and after twelve hours at the latest. For a job whose file is a
    program the client has to be in Q_CODE_USERS of the queue.
    """
    with working(manager, context, params.station) as station:
        job = _own(manager, station, params)
        if body.code:
            _check_code(manager, job)
        user = _user(manager, job)
    services = context.services
    manager.jobs.end_service(job)
    expires_s = manager.machine.utc + TOKEN_LIFE_S
    token, text = services.tokens.create(
        user, role=Role.OPERATE, expires_s=expires_s, of_service=True
    )
    job.over = lambda change: _withdraw(services, token.id, change)
    context.tell(manager, "job_token_created", id=token.id, user=user, job=params.number)
    return StationTokenJson(token=text, user=user, expires=time_text(expires_s))


def _own(manager: QueueManager, station: Station, params: JobParams) -> Job:
    queues = manager.jobs
    job = queues.job(queues.queue(queue_id_of(manager, params.queue)), params.number)
    if job.server is not station:
        raise QmsError(NO_Q_JOB_RIGHTS, f"job {params.number} is not serviced by this station")
    return job


def _check_code(manager: QueueManager, job: Job) -> None:
    """Decision 17: programs come from members of Q_CODE_USERS only."""
    bindery = manager.bindery
    listed = bindery.object_with_id(job.entry.queue_id).properties.get(Q_CODE_USERS)
    if not bindery.is_listed(bindery.identity(job.entry.client_id), listed):
        name = manager.jobs.object_name(job.entry.client_id)
        raise QmsError(
            NO_Q_RIGHTS,
            f"{name or 'its client'} is not in {Q_CODE_USERS} of the queue",
            "Let a supervisor add the user: posthouse job queue allow QUEUE code-users NAME.",
        )


def _user(manager: QueueManager, job: Job) -> str:
    """The account of a job's client; SUPERVISOR without one is the administrator."""
    found = manager.bindery.find_object(job.entry.client_id)
    if found is not None and found.type == NWOT_USER:
        caller = manager.jobs.caller_of(found.id)
        if caller.authenticated:
            return caller.name
    raise QmsError(NO_Q_RIGHTS, "the client of the job has no account that could have a token")


def _withdraw(services: Services, token_id: str, change: Change) -> None:
    """The service is over, and its token good for nothing."""
    if services.tokens.remove(token_id, change):
        services.revoked([token_id])
