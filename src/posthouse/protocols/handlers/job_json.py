"""Job queues, jobs and their ends as the API shows them; what requests set of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import UnsetType

from posthouse.api.jobs import (
    AttachedJson,
    JobBody,
    JobChangeBody,
    JobEndJson,
    JobJson,
    JobQueueJson,
    ProgressJson,
)
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.job import EndedJob, Job, JobQueue
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import (
    NWOT_ARCHIVE_QUEUE,
    NWOT_ARCHIVE_SERVER,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_PRINT_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    Q_DIRECTORY,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    object_name,
    parse_type,
    type_name,
)
from posthouse.model.completion_codes import NO_QUEUE, NO_SUCH_OBJECT
from posthouse.model.errors import InvalidParameter, QmsError
from posthouse.model.message_json import parse_time, time_text
from posthouse.model.qms import (
    ANY_SERVER,
    AT_ONCE,
    FLAG_NAMES,
    STATUS_NAMES,
    NWQueueJobStruct,
    QueueStatus,
    pack_target_time,
)
from posthouse.model.text import excerpt

QUEUE_TYPES = (NWOT_JOB_QUEUE, NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE)
SERVER_TYPES = (NWOT_JOB_SERVER, NWOT_PRINT_SERVER, NWOT_ARCHIVE_SERVER)
_SHOWN_SETS = {"users": Q_USERS, "operators": Q_OPERATORS, "listed_servers": Q_SERVERS}


# -- names


def queue_id_of(manager: QueueManager, text: str) -> int:
    """The queue that a request names: by id, by type and name, or by its name alone."""
    word, colon, rest = text.partition(":")
    if colon and word == "id":
        try:
            return int(rest, 16)
        except ValueError:
            raise QmsError(NO_QUEUE, f"{excerpt(text)} is not an id of a queue") from None
    name = object_name(rest if colon else text)
    kinds = (parse_type(word),) if colon else QUEUE_TYPES
    bindery, queues = manager.bindery, manager.jobs.queue_ids()
    for kind in kinds:
        found = bindery.object_named(kind, name)
        if found is not None and found.id in queues:
            return found.id
    if not colon:
        named = (one for one in map(bindery.find_object, queues) if one is not None)
        for one in named:
            if one.name == name:
                return one.id
    raise QmsError(NO_QUEUE, f"there is no job queue {excerpt(text)}")


def member_of(text: str) -> tuple[int, str]:
    """Type and name of an object: TYPE:NAME, a group EVERYONE, or a user."""
    word, colon, name = text.partition(":")
    if colon:
        return parse_type(word), object_name(name)
    kind = NWOT_USER_GROUP if text.upper() == "EVERYONE" else NWOT_USER
    return kind, object_name(text)


def server_id_of(manager: QueueManager, text: str) -> int:
    """The queue server that a request names; an empty name stands for any."""
    if not text:
        return ANY_SERVER
    word, colon, name = text.partition(":")
    kinds = (parse_type(word),) if colon else SERVER_TYPES
    for kind in kinds:
        found = manager.bindery.object_named(kind, object_name(name if colon else text))
        if found is not None:
            return found.id
    raise QmsError(NO_SUCH_OBJECT, f"there is no queue server {excerpt(text)}")


def shown_name(manager: QueueManager, id: int) -> str:
    """An object for people: users by name, others with their type."""
    found = manager.bindery.find_object(id)
    if found is None:
        return ""
    return found.name if found.type == NWOT_USER else f"{type_name(found.type)}:{found.name}"


# -- queues


def queue_json(manager: QueueManager, station: Station, queue: JobQueue) -> JobQueueJson:
    """A queue, as far as the station may look."""
    own = manager.bindery.object_with_id(queue.id)
    status = _status(manager, station, queue.id)
    inside = status is not None or manager.bindery.is_supervisor(station)
    return JobQueueJson(
        id=queue.id,
        name=own.name,
        type=type_name(own.type),
        status=None if status is None else status_words(status.status),
        jobs=None if status is None else status.jobs,
        servers=None if status is None else attached_json(manager, status),
        directory=_directory(manager, station, own.type, own.name),
        submit_from=queue.definition.submit_from if inside else "",
        response_queue=queue.definition.finished_queue if inside else "",
        **{
            name: None if status is None else _members(manager, queue.id, property)
            for name, property in _SHOWN_SETS.items()
        },
    )


def _status(manager: QueueManager, station: Station, queue_id: int) -> QueueStatus | None:
    try:
        return manager.jobs.read_queue_current_status(station, queue_id)
    except QmsError:
        return None


def status_words(status: int) -> Any:
    """Status flags by their words."""
    return [word for bit, word in STATUS_NAMES.items() if status & bit]


def attached_json(manager: QueueManager, status: QueueStatus) -> list[AttachedJson]:
    """The servers that are attached."""
    found = []
    for id, number in status.servers:
        own = manager.bindery.find_object(id)
        name, kind = ("", "") if own is None else (own.name, type_name(own.type))
        found.append(AttachedJson(id=id, name=name, type=kind, station=number))
    return found


def _members(manager: QueueManager, id: int, property: str) -> list[str]:
    return [
        shown_name(manager, one) for one in manager.bindery.object_with_id(id).members(property)
    ]


def _directory(manager: QueueManager, station: Station, kind: int, name: str) -> str | None:
    try:
        found = manager.bindery.read_property_value(station, kind, name, Q_DIRECTORY, 1)
    except QmsError:
        return None
    return found.value.split(b"\0", 1)[0].decode("ascii", "replace")


# -- jobs


def job_json(manager: QueueManager, station: Station, job: Job) -> JobJson:
    """A job; whether the station may see it was looked at before."""
    made, queues = manager.jobs.describe(job, station), manager.jobs
    return JobJson(
        queue=queues.queue_name(job.entry.queue_id),
        queue_id=job.entry.queue_id,
        number=made.job_number,
        position=made.job_position,
        next=made.next_record,
        type=made.job_type,
        description=made.description,
        description_bytes=made.job_description,
        flags=flag_words(made.job_control_flags),
        owner=shown_name(manager, made.client_id),
        owner_id=made.client_id,
        station=made.client_station,
        task=made.client_task,
        target_server=_target(manager, made.target_server_id),
        target_server_id=made.target_server_id,
        target_time=_target_time(manager, job),
        target_execution_time=made.target_execution_time.hex(),
        entry_time=time_text(job.entry.entered),
        job_entry_time=made.job_entry_time.hex(),
        file_name=made.job_file_name,
        file_handle=made.job_file_handle,
        file_size=job.file.size,
        record=made.queue_record,
        server=shown_name(manager, made.servicing_server_id_number),
        server_id=made.servicing_server_id_number,
        server_station=made.servicing_server_station,
        server_task=made.servicing_server_task_number,
        progress=_progress(job),
        attempts=job.state.attempts,
        failure=job.entry.failure,
        response_queue=job.entry.finished_queue,
        id=job.serial,
    )


def flag_words(flags: int) -> Any:
    """Control flags by their words."""
    return [word for bit, word in FLAG_NAMES.items() if flags & bit]


def _target(manager: QueueManager, id: int) -> str:
    return "" if id == ANY_SERVER else shown_name(manager, id) or f"id:{id:08X}"


def _target_time(manager: QueueManager, job: Job) -> str | None:
    """The server's own clock states when; people are told in UTC."""
    if job.due is None:
        return None
    return time_text(job.due - manager.jobs.utc_offset_s(job.due))


def _progress(job: Job) -> ProgressJson | None:
    if job.server is None:
        return None
    done, total, text = job.progress
    return ProgressJson(done=done, total=total, text=text)


def end_json(row: EndedJob) -> JobEndJson:
    """A job that has ended."""
    return JobEndJson(
        id=row.serial,
        queue=row.queue,
        queue_id=row.queue_id,
        number=row.number,
        type=row.job_type,
        description=row.description,
        owner=row.client,
        owner_id=row.client_id,
        entry_time=time_text(row.entered),
        begin_time=time_text(row.begun) if row.begun else None,
        end_time=time_text(row.ended),
        server=row.server,
        server_id=row.server_id,
        outcome=row.outcome,
        charge=row.charge,
        attempts=row.attempts,
        file_size=row.size,
        result=row.result,
    )


# -- what is asked for


def wanted_job(manager: QueueManager, body: JobBody) -> NWQueueJobStruct:
    """A new job as the caller wants it."""
    flags = {word: getattr(body, word) for word in FLAG_NAMES.values() if word != "entry_open"}
    server_id = body.target_server_id
    if server_id is None:
        server_id = server_id_of(manager, body.target_server)
    described = body.description_bytes
    if described is None:
        described = body.description.encode("ascii")
    return NWQueueJobStruct(
        target_server_id=server_id,
        target_execution_time=_moment(manager, body.target_time, body.target_execution_time),
        job_type=body.type,
        job_control_flags=sum(bit for bit, word in FLAG_NAMES.items() if flags.get(word)),
        job_description=described,
        queue_record=body.record,
    )


def _moment(manager: QueueManager, text: str | None, hexadecimal: str | None) -> bytes:
    if hexadecimal is not None:
        return bytes.fromhex(hexadecimal)
    if text is None:
        return AT_ONCE
    utc = parse_time(text)
    local = utc + manager.jobs.utc_offset_s(utc)
    try:
        return pack_target_time(datetime.fromtimestamp(local, UTC))
    except (OverflowError, ValueError):
        raise InvalidParameter(f"{excerpt(text)} is not a time that jobs can have") from None


def changed_job(
    manager: QueueManager, entry: NWQueueJobStruct, body: JobChangeBody
) -> NWQueueJobStruct:
    """A job with what is to change in it."""
    changes: dict[str, Any] = {}
    flags = entry.job_control_flags
    for bit, word in FLAG_NAMES.items():
        given = getattr(body, word, None)
        if isinstance(given, bool):
            flags = flags | bit if given else flags & ~bit
    changes["job_control_flags"] = flags
    if not isinstance(body.type, UnsetType):
        changes["job_type"] = body.type
    if not isinstance(body.description, UnsetType):
        changes["job_description"] = body.description.encode("ascii")
    if not isinstance(body.description_bytes, UnsetType):
        changes["job_description"] = body.description_bytes
    if not isinstance(body.target_server, UnsetType):
        changes["target_server_id"] = server_id_of(manager, body.target_server)
    if not isinstance(body.target_server_id, UnsetType):
        changes["target_server_id"] = body.target_server_id
    if not isinstance(body.target_time, UnsetType):
        changes["target_execution_time"] = _moment(manager, body.target_time, None)
    if not isinstance(body.target_execution_time, UnsetType):
        changes["target_execution_time"] = bytes.fromhex(body.target_execution_time)
    if not isinstance(body.record, UnsetType):
        changes["queue_record"] = body.record
    return entry._replace(**changes)
