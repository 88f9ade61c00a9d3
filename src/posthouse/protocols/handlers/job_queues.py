"""Job queues: create, list, show, set, delete; who services them; what became of their jobs."""

from __future__ import annotations

from msgspec import UnsetType

from posthouse.api.bindery import BinderyParams
from posthouse.api.jobs import (
    HistoryParams,
    JobHistoryJson,
    JobQueueCreateBody,
    JobQueueJson,
    JobQueueListJson,
    JobQueueParams,
    JobQueueSetBody,
    JobQueuesParams,
    JobQueueStatusJson,
    ServerParams,
    ServerStatusBody,
    ServerStatusJson,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.job import EndedJob
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import (
    NWOT_USER,
    NWOT_USER_GROUP,
    Q_OPERATORS,
    Q_SERVERS,
    Q_USERS,
    object_name,
    parse_type,
)
from posthouse.model.completion_codes import NO_SUCH_OBJECT
from posthouse.model.errors import QmsError
from posthouse.model.qms import STATUS_NAMES
from posthouse.protocols.handlers.caller_stations import working
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.job_json import (
    attached_json,
    end_json,
    member_of,
    queue_id_of,
    queue_json,
    status_words,
)


def list_job_queues(
    manager: QueueManager, context: Context, params: JobQueuesParams, body: Nothing
) -> JobQueueListJson:
    """Lists the job queues; of those that the caller may not see, only what the bindery shows."""
    found = sorted(id for id in manager.jobs.queue_ids() if id > params.after)
    page = found[: params.limit]
    with working(manager, context, params.station) as station:
        queues = [_shown(manager, station, id) for id in page]
    more = len(found) > len(page)
    return JobQueueListJson(queues=queues, next=page[-1] if more else None)


def _shown(manager: QueueManager, station: Station, id: int) -> JobQueueJson:
    return queue_json(manager, station, manager.jobs.queue(id))


def show_job_queue(
    manager: QueueManager, context: Context, params: JobQueueParams, body: Nothing
) -> JobQueueJson:
    """Shows a job queue: status, attached servers, who may what."""
    with working(manager, context, params.station) as station:
        return _shown(manager, station, queue_id_of(manager, params.queue))


def show_job_queue_status(
    manager: QueueManager, context: Context, params: JobQueueParams, body: Nothing
) -> JobQueueStatusJson:
    """Shows status flags, number of jobs and attached servers (NWReadQueueCurrentStatus)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        status = manager.jobs.read_queue_current_status(station, id)
    return JobQueueStatusJson(
        id=id,
        status=status_words(status.status),
        jobs=status.jobs,
        servers=attached_json(manager, status),
    )


def create_job_queue(
    manager: QueueManager, context: Context, params: BinderyParams, body: JobQueueCreateBody
) -> JobQueueJson:
    """Creates a job queue (NWCreateQueue), and fills its sets: who may use, operate, service it."""
    members = [
        (property, *_existing(manager, property, member))
        for property, names in (
            (Q_USERS, body.users),
            (Q_OPERATORS, body.operators),
            (Q_SERVERS, body.servers),
        )
        for member in names
    ]
    kind, name = parse_type(body.type), object_name(body.name)
    with working(manager, context, params.station) as station, manager.machine.one_step():
        id = manager.jobs.create_queue(station, kind, name, body.path)
        for property, member_kind, member in dict.fromkeys(members):
            manager.bindery.add_object_to_set(station, kind, name, property, member_kind, member)
        context.tell(manager, "job_queue_created", queue=name, type=kind)
        return _shown(manager, station, id)


def _existing(manager: QueueManager, property: str, text: str) -> tuple[int, str]:
    """A member that is there and fits: before anything is created for nothing."""
    kind, name = member_of(text)
    if manager.bindery.object_named(kind, name) is None:
        raise QmsError(NO_SUCH_OBJECT, f"there is no object {name} of type {kind}")
    if property == Q_OPERATORS and kind not in (NWOT_USER, NWOT_USER_GROUP):
        raise QmsError(NO_SUCH_OBJECT, f"{name} is neither a user nor a group")
    return kind, name


def set_job_queue(
    manager: QueueManager, context: Context, params: JobQueueParams, body: JobQueueSetBody
) -> JobQueueJson:
    """Sets the status of a queue (NWSetQueueCurrentStatus), or binds it to queues of messages.

    All of what is asked, or nothing.
    """
    submit_from, tells = _given(body.submit_from), _given(body.response_queue)
    binds = submit_from is not None or tells is not None
    with working(manager, context, params.station) as station, manager.machine.one_step():
        id, queues = queue_id_of(manager, params.queue), manager.jobs
        if binds:
            queues.may_bind(station, id, submit_from or "", tells or "")
        if not isinstance(body.status, UnsetType):
            flags = sum(bit for bit, word in STATUS_NAMES.items() if word in body.status)
            queues.set_queue_current_status(station, id, flags)
        if binds:
            queues.set_bridge(station, id, submit_from=submit_from, finished_queue=tells)
        context.tell(manager, "job_queue_changed", queue=queues.queue_name(id))
        return _shown(manager, station, id)


def _given(name: str | UnsetType) -> str | None:
    return None if isinstance(name, UnsetType) else name


def delete_job_queue(
    manager: QueueManager, context: Context, params: JobQueueParams, body: Nothing
) -> Done:
    """Deletes a queue with its jobs (NWDestroyQueue)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        name = manager.jobs.queue_name(id)
        manager.jobs.destroy_queue(station, id)
    context.tell(manager, "job_queue_deleted", queue=name)
    return Done()


# -- servers


def show_server_status(
    manager: QueueManager, context: Context, params: ServerParams, body: Nothing
) -> ServerStatusJson:
    """Shows the status record of an attached server (NWReadQueueServerCurrentStatus)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        record = manager.jobs.read_queue_server_current_status(
            station, id, params.server, params.server_station
        )
    return ServerStatusJson(record=record)


def set_server_status(
    manager: QueueManager, context: Context, params: JobQueueParams, body: ServerStatusBody
) -> Done:
    """Sets the station's own status record (NWSetQueueServerCurrentStatus)."""
    with working(manager, context, params.station) as station:
        id = queue_id_of(manager, params.queue)
        record = body.record.ljust(64, b"\0")
        manager.jobs.set_queue_server_current_status(station, id, record)
    return Done()


# -- history


def list_job_history(
    manager: QueueManager, context: Context, params: HistoryParams, body: Nothing
) -> JobHistoryJson:
    """Lists what became of jobs, in the order of their ends: of a queue, or of all one may see."""
    with working(manager, context, params.station) as station:
        rows = _ended(manager, station, params)
    page = rows[: params.limit]
    return JobHistoryJson(
        jobs=[end_json(row) for row in page],
        next=page[-1].serial if len(rows) > len(page) else None,
    )


def _ended(manager: QueueManager, station: Station, params: HistoryParams) -> list[EndedJob]:
    """One more than are asked for. Supervisors see those too whose queues are gone."""
    queues, after, count = manager.jobs, params.after, params.limit + 1
    if params.queue is not None:
        id = queue_id_of(manager, params.queue)
        return queues.ended_jobs(station, id, after=after, count=count)
    if manager.bindery.is_supervisor(station):
        return queues.ended_jobs(station, after=after, count=count)
    return queues.ended_jobs_in_sight(station, after, count)
