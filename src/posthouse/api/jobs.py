"""The types of the API for job queues: queues, jobs, their files, servicing, history."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from posthouse.api.bindery import (
    ObjectId,
    ObjectName,
    Password,
    StationId,
    TypeWord,
)
from posthouse.api.transfer import U32_MAX, Part
from posthouse.model.bindery import OBJECT_NAME_MAX
from posthouse.model.qms import (
    CLIENT_RECORD_SIZE,
    NUMBER_MAX,
    NWMAX_JOB_DESCRIPTION_LENGTH,
    QUEUE_PATH_MAX,
    SERVER_STATUS_SIZE,
)

PIECE_MAX = 1 << 20
RESULT_MAX = 4096
_SUBMITTED_MAX = 768 << 10  # of a file that comes with its job, in base64
_PAGE_MAX = 1000
_ID_MAX = (1 << 63) - 1
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_HEX_TIME = "^[0-9a-fA-F]{12}$"

QueueRef = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=OBJECT_NAME_MAX + 33,
        description="NAME, TYPE:NAME or id:HEX of a job queue.",
    ),
]
Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
Position = Annotated[int, Meta(ge=0, le=U32_MAX)]
JobType = Annotated[int, Meta(ge=0, le=0xFFFF)]
Description = Annotated[
    str, Meta(max_length=NWMAX_JOB_DESCRIPTION_LENGTH - 1, pattern="^[\\x20-\\x7e]*$")
]
DescriptionBytes = Annotated[
    bytes,
    Meta(max_length=NWMAX_JOB_DESCRIPTION_LENGTH, extra_json_schema={"pattern": _BASE64}),
]
Record = Annotated[
    bytes, Meta(max_length=CLIENT_RECORD_SIZE, extra_json_schema={"pattern": _BASE64})
]
StatusRecord = Annotated[
    bytes, Meta(max_length=SERVER_STATUS_SIZE, extra_json_schema={"pattern": _BASE64})
]
File = Annotated[bytes, Meta(max_length=_SUBMITTED_MAX, extra_json_schema={"pattern": _BASE64})]
HexTime = Annotated[
    str,
    Meta(
        pattern=_HEX_TIME,
        description="Time as six bytes of NetWare: year, month, day, hour, minute, second.",
    ),
]
Time = Annotated[str, Meta(min_length=10, max_length=32, description="ISO 8601, UTC")]
MessageQueue = Annotated[str, Meta(max_length=1024)]
Text = Annotated[str, Meta(max_length=RESULT_MAX)]
Path = Annotated[str, Meta(min_length=1, max_length=QUEUE_PATH_MAX)]
ServerName = Annotated[str, Meta(max_length=OBJECT_NAME_MAX + 33)]
Names = Annotated[list[ServerName], Meta(max_length=200)]
Flag = Literal["auto_start", "restart", "entry_open", "user_hold", "operator_hold"]
Status = Literal["no_new_jobs", "no_new_servers", "no_service"]
Charge = Annotated[int, Meta(ge=0, le=U32_MAX)]
Count = Annotated[int, Meta(ge=0, le=_ID_MAX)]


# -- stations


class StationBody(Part):
    """As whom a station works: the caller, or another object with its password.

    Administrators open one for any object without a password.
    """

    name: Annotated[str, Meta(max_length=OBJECT_NAME_MAX)] = ""
    type: TypeWord = "user"
    password: Password | None = None
    task: Annotated[int, Meta(ge=0, le=255)] = 1


class StationParams(Part):
    """A station by the identifier that its opening gave."""

    station: StationId


class LoginBody(Part):
    """Another object, with its password; administrators need none."""

    name: ObjectName
    type: TypeWord = "user"
    password: Password | None = None


class StationJson(Part):
    """A station: a connection as the document has it. Keep `station` to yourself.

    Over plain HTTP it ends `lease_s` seconds after its last use; 0: with the session.
    """

    station: str
    number: int
    task: int
    object_id: int
    name: str
    type: str
    lease_s: float


class StationTokenJson(Part):
    """A token with the rights of the client whose job the station services."""

    token: str
    user: str
    expires: str


# -- queues


class JobQueuesParams(Part):
    """Job queues after an object id."""

    after: ObjectId = 0
    limit: Annotated[int, Meta(ge=1, le=_PAGE_MAX)] = 200
    station: StationId | None = None


class JobQueueParams(Part, kw_only=True):
    """A job queue; `station` for whom it is looked at or used."""

    queue: QueueRef
    station: StationId | None = None


class JobQueueCreateBody(Part):
    """A new queue, and who is in its sets: names of users, or TYPE:NAME, such as group:EVERYONE."""

    name: ObjectName
    type: TypeWord = "job_queue"
    path: Path = "SYS:SYSTEM"
    users: Names = msgspec.field(default_factory=list)
    operators: Names = msgspec.field(default_factory=list)
    servers: Names = msgspec.field(default_factory=list)


class JobQueueSetBody(Part):
    """What changes of a queue.

    Jobs are submitted from the messages of `submit_from`; the end of each job is told to
    `response_queue`, unless the job names another. An empty name ends either.
    """

    status: list[Status] | UnsetType = UNSET
    submit_from: MessageQueue | UnsetType = UNSET
    response_queue: MessageQueue | UnsetType = UNSET


class AttachedJson(Part):
    """A queue server that is attached."""

    id: int
    name: str
    type: str
    station: int


class JobQueueJson(Part):
    """A job queue; null where the caller may not look."""

    id: int
    name: str
    type: str
    status: list[Status] | None
    jobs: int | None
    servers: list[AttachedJson] | None
    users: list[str] | None
    operators: list[str] | None
    listed_servers: list[str] | None
    directory: str | None
    submit_from: str
    response_queue: str


class JobQueueStatusJson(Part):
    """Status, number of jobs and attached servers of a queue."""

    id: int
    status: list[Status]
    jobs: int
    servers: list[AttachedJson]


class JobQueueListJson(Part):
    """Job queues, and the id to go on after; null when these were the last."""

    queues: list[JobQueueJson]
    next: int | None


# -- jobs


class JobsParams(JobQueueParams, kw_only=True):
    """Jobs from a position on."""

    start: Position = 1
    limit: Annotated[int, Meta(ge=1, le=_PAGE_MAX)] = 200


class JobParams(JobQueueParams, kw_only=True):
    """A job by its number."""

    number: Number


class FileParams(JobParams, kw_only=True):
    """A piece of the job's file."""

    offset: Annotated[int, Meta(ge=0, le=U32_MAX)] = 0
    count: Annotated[int, Meta(ge=0, le=PIECE_MAX)] = PIECE_MAX


class JobBody(Part):
    """What a submitter sets of a job.

    With `file` the job is written and started at once; without, it is open until it is started by
    the station that made it.
    """

    type: JobType = 0
    description: Description = ""
    description_bytes: DescriptionBytes | None = None
    target_server: ServerName = ""
    target_server_id: ObjectId | None = None
    target_time: Time | None = None
    target_execution_time: HexTime | None = None
    auto_start: bool = False
    restart: bool = False
    user_hold: bool = False
    operator_hold: bool = False
    record: Record = b""
    response_queue: MessageQueue = ""
    file: File | None = None


class JobChangeBody(Part):
    """What changes of a job: by its owner, by operators, by the server that services it."""

    type: JobType | UnsetType = UNSET
    description: Description | UnsetType = UNSET
    description_bytes: DescriptionBytes | UnsetType = UNSET
    target_server: ServerName | UnsetType = UNSET
    target_server_id: ObjectId | UnsetType = UNSET
    target_time: Time | UnsetType | None = UNSET
    target_execution_time: HexTime | UnsetType = UNSET
    auto_start: bool | UnsetType = UNSET
    restart: bool | UnsetType = UNSET
    user_hold: bool | UnsetType = UNSET
    operator_hold: bool | UnsetType = UNSET
    record: Record | UnsetType = UNSET


class ProgressJson(Part):
    """How far the server is, in its own words."""

    done: int
    total: int
    text: str


class JobJson(Part):
    """A job with all the fields of its structure, and what we keep beside them.

    `failure` states why its last service came to nothing.
    """

    queue: str
    queue_id: int
    number: int
    position: int
    next: int
    type: int
    description: str
    description_bytes: bytes
    flags: list[Flag]
    owner: str
    owner_id: int
    station: int
    task: int
    target_server: str
    target_server_id: int
    target_time: str | None
    target_execution_time: str
    entry_time: str
    job_entry_time: str
    file_name: str
    file_handle: int
    file_size: int
    record: bytes
    server: str
    server_id: int
    server_station: int
    server_task: int
    progress: ProgressJson | None
    attempts: int
    failure: str
    response_queue: str
    id: int


class JobListJson(Part):
    """Jobs in queue order, how many there are in all, and the position to go on at."""

    jobs: list[JobJson]
    total: int
    next: int | None


class JobNumbersJson(Part):
    """Numbers of jobs in queue order, and how many jobs there are in all."""

    total: int
    numbers: list[int]


class JobSizeJson(Part):
    """How long a job's file is."""

    size: int


class JobPositionBody(Part):
    """Where a job is to be; beyond the end is the end."""

    position: Position


class MoveBody(Part):
    """Another job queue."""

    to: QueueRef


class MovedJson(Part):
    """The number that the job has in its new queue."""

    number: int


# -- servicing


class ServiceBody(Part):
    """Which types of jobs are wanted; none named: any."""

    types: Annotated[list[JobType], Meta(max_length=100)] = msgspec.field(default_factory=list)


class ProgressBody(Part):
    """How far the server is."""

    done: Count = 0
    total: Count = 0
    text: Text = ""


class FinishBody(Part):
    """The job is done: what the client is charged, and what came of it."""

    charge: Charge = 0
    result: Text = ""


class AbortBody(Part):
    """The job is not done, and why; `give_back`: it stays, whatever its restart flag is."""

    result: Text = ""
    give_back: bool = False


class TokenBody(Part):
    """Whether the job's file is a program that is to be run."""

    code: bool = False


class ServerParams(JobQueueParams, kw_only=True):
    """A queue server that is attached."""

    server: ObjectId
    server_station: Annotated[int, Meta(ge=0, le=U32_MAX)]


class ServerStatusBody(Part):
    """The caller's own status record."""

    record: StatusRecord


class ServerStatusJson(Part):
    """The status record of a queue server: 64 bytes."""

    record: bytes


# -- history


class HistoryParams(Part):
    """What became of jobs, oldest first, after an identifier; of one queue, or of all."""

    queue: QueueRef | None = None
    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=_PAGE_MAX)] = 200
    station: StationId | None = None


class JobEndJson(Part):
    """A job that has ended, and how."""

    id: int
    queue: str
    queue_id: int
    number: int
    type: int
    description: str
    owner: str
    owner_id: int
    entry_time: str
    begin_time: str | None
    end_time: str
    server: str
    server_id: int
    outcome: str
    charge: int
    attempts: int
    file_size: int
    result: str


class JobHistoryJson(Part):
    """Ends of jobs, and the identifier to go on after; null when these were the last."""

    jobs: list[JobEndJson]
    next: int | None
