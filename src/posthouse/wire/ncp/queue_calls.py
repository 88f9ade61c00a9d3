"""The queue calls 0x64 to 0x8A of function 23, old and new (qms-facts 3.1, 3.2)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from posthouse.model.errors import Truncated
from posthouse.model.qms import (
    SERVER_STATUS_SIZE,
    JobList,
    JobSize,
    NWQueueJobStruct,
    QueueStatus,
)
from posthouse.wire.layout import Reader
from posthouse.wire.ncp.calls import EMPTY, QUEUES_AND_BINDERY, NcpCall
from posthouse.wire.ncp.forms import (
    BE16,
    BE32,
    CAPPED8,
    CAPPED16,
    LE16,
    LE32,
    TEXT,
    U8,
    Fixed,
    Form,
    Kind,
    Many,
    Number,
)
from posthouse.wire.ncp.jobs import NEW_JOB, NEW_REPLY, OLD_JOB, OLD_REPLY

LISTED_MAX: Final = 125  # numbers in one answer of 0x81 and 0x89 (qms-facts 2.3)


class CreateQueue(NamedTuple):
    """Create Queue."""

    queue_type: int
    name: str
    directory_handle: int
    path: str


class QueueOnly(NamedTuple):
    """A call that names a queue, or an answer that does."""

    queue: int


class SetQueueStatus(NamedTuple):
    """Set Queue Current Status."""

    queue: int
    status: int


class QueueJob(NamedTuple):
    """A call about one job."""

    queue: int
    number: int


class QueueJobStructure(NamedTuple):
    """Create Queue Job And File, Change Queue Job Entry."""

    queue: int
    job: NWQueueJobStruct


class OneJob(NamedTuple):
    """An answer that is a job structure."""

    job: NWQueueJobStruct


class JobNumbers(NamedTuple):
    """The answer of the old Get Queue Job List."""

    numbers: tuple[int, ...]


class ListFrom(NamedTuple):
    """The new Get Queue Job List; positions count from 1."""

    queue: int
    start: int


class JobPosition(NamedTuple):
    """Change Queue Job Position, Change Job Priority."""

    queue: int
    number: int
    position: int


class ServiceJob(NamedTuple):
    """Service Queue Job; type FFFF takes any."""

    queue: int
    job_type: int


class FinishJob(NamedTuple):
    """Finish Servicing Queue Job."""

    queue: int
    number: int
    charge: int


class ServerStatus(NamedTuple):
    """Read Queue Server Current Status."""

    queue: int
    server_id: int
    station: int


class StatusRecord(NamedTuple):
    """Its answer."""

    record: bytes


class SetServerStatus(NamedTuple):
    """Set Queue Server Current Status."""

    queue: int
    record: bytes


class MoveJob(NamedTuple):
    """Move Queue Job."""

    source: int
    number: int
    destination: int


class NewNumber(NamedTuple):
    """Its answer: the number that the job has in the other queue."""

    number: int


class FormList(NamedTuple):
    """Get Queue Jobs From Form List, Service Queue Job By Form List."""

    queue: int
    start: int
    types: tuple[int, ...]


class _Charge:
    """Four bytes, or two as tshark has them (NCP 0x83/2)."""

    def read(self, reader: Reader) -> int:
        return (BE32 if reader.remaining >= 4 else BE16).read(reader)

    def write(self, value: int) -> bytes:
        return BE32.write(value)


class _Servers:
    """How many servers are attached, their IDs, then their stations."""

    def __init__(self, count: Number, station: Number, station_size: int) -> None:
        self._count = count
        self._station = station
        self._size = 4 + station_size

    def read(self, reader: Reader) -> tuple[tuple[int, int], ...]:
        count = self._count.read(reader)
        if count * self._size > reader.remaining:
            raise Truncated(f"{count} servers, {reader.remaining} bytes are left")
        ids = [BE32.read(reader) for _ in range(count)]
        return tuple([(server, self._station.read(reader)) for server in ids])

    def write(self, value: tuple[tuple[int, int], ...]) -> bytes:
        ids = b"".join([BE32.write(server) for server, _ in value])
        stations = b"".join([self._station.write(station) for _, station in value])
        return self._count.write(len(value)) + ids + stations


def _call(
    subfunction: int, name: str, request: Form[Any], reply: Form[Any], engine: str = ""
) -> NcpCall[Any, Any]:
    engine = engine and f"jobs.{engine}"
    section = "qms-facts 3.1"
    return NcpCall(QUEUES_AND_BINDERY, subfunction, name, request, reply, section, engine)


def _job(number: Kind[int]) -> Form[QueueJob]:
    return Form(QueueJob, BE32, number)


_RECORD: Final = Fixed(SERVER_STATUS_SIZE)
_QUEUE: Final = Form(QueueOnly, BE32)
_SET_STATUS: Final = Form(SetQueueStatus, BE32, U8)  # of four bytes the first counts (3.1)
_SERVICE: Final = Form(ServiceJob, BE32, BE16)
_LIST: Final = Form(JobList, LE32, Many(LE32, LE32, 4))
_FORM_LIST: Final = Form(FormList, BE32, LE32, Many(LE32, LE16, 2))
_OLD_STATUS: Final = Form(QueueStatus, BE32, U8, CAPPED8, _Servers(U8, U8, 1))
_NEW_STATUS: Final = Form(QueueStatus, BE32, LE32, LE32, _Servers(LE32, LE32, 4))

CREATE_QUEUE: Final = _call(
    0x64,
    "Create Queue",
    Form(CreateQueue, BE16, TEXT, U8, TEXT),
    _QUEUE,
    "create_queue(queue_type, name, path, directory_handle)",
)
DESTROY_QUEUE: Final = _call(0x65, "Destroy Queue", _QUEUE, EMPTY, "destroy_queue")
RESTORE_RIGHTS: Final = _call(
    0x75, "Restore Queue Server Rights", EMPTY, EMPTY, "restore_queue_server_rights"
)
ATTACH: Final = _call(
    0x6F, "Attach Queue Server To Queue", _QUEUE, EMPTY, "attach_queue_server_to_queue"
)
DETACH: Final = _call(
    0x70, "Detach Queue Server From Queue", _QUEUE, EMPTY, "detach_queue_server_from_queue"
)
SET_SERVER_STATUS: Final = _call(
    0x77,
    "Set Queue Server Current Status",
    Form(SetServerStatus, BE32, _RECORD),
    EMPTY,
    "set_queue_server_current_status",
)

OLD_READ_STATUS: Final = _call(
    0x66, "Read Queue Current Status (old)", _QUEUE, _OLD_STATUS, "read_queue_current_status"
)
OLD_SET_STATUS: Final = _call(
    0x67, "Set Queue Current Status (old)", _SET_STATUS, EMPTY, "set_queue_current_status"
)
OLD_CREATE_JOB: Final = _call(
    0x68,
    "Create Queue Job And File (old)",
    Form(QueueJobStructure, BE32, OLD_JOB),
    Form(OneJob, OLD_REPLY),
    "create_queue_file",
)
OLD_START_JOB: Final = _call(
    0x69,
    "Close File And Start Queue Job (old)",
    _job(BE16),
    EMPTY,
    "close_file_and_start_queue_job",
)
OLD_REMOVE_JOB: Final = _call(
    0x6A, "Remove Job From Queue (old)", _job(BE16), EMPTY, "remove_job_from_queue"
)
OLD_LIST_JOBS: Final = _call(
    0x6B, "Get Queue Job List (old)", _QUEUE, Form(JobNumbers, Many(BE16, CAPPED16, 2))
)
OLD_READ_JOB: Final = _call(
    0x6C, "Read Queue Job Entry (old)", _job(BE16), Form(OneJob, OLD_JOB), "read_queue_job_entry"
)
OLD_CHANGE_JOB: Final = _call(
    0x6D,
    "Change Queue Job Entry (old)",
    Form(QueueJobStructure, BE32, OLD_JOB),
    EMPTY,
    "change_queue_job_entry",
)
OLD_CHANGE_POSITION: Final = _call(
    0x6E, "Change Queue Job Position (old)", Form(JobPosition, BE32, BE16, U8), EMPTY
)
OLD_SERVICE_JOB: Final = _call(0x71, "Service Queue Job (old)", _SERVICE, Form(OneJob, OLD_REPLY))
OLD_FINISH_JOB: Final = _call(
    0x72,
    "Finish Servicing Queue Job (old)",
    Form(FinishJob, BE32, BE16, _Charge()),
    EMPTY,
    "finish_servicing_queue_job",
)
OLD_ABORT_JOB: Final = _call(
    0x73, "Abort Servicing Queue Job (old)", _job(BE16), EMPTY, "abort_servicing_queue_job"
)
OLD_CLIENT_RIGHTS: Final = _call(
    0x74, "Change To Client Rights (old)", _job(BE16), EMPTY, "change_to_client_rights"
)
OLD_SERVER_STATUS: Final = _call(
    0x76,
    "Read Queue Server Current Status (old)",
    Form(ServerStatus, BE32, BE32, U8),
    Form(StatusRecord, _RECORD),
)
OLD_FILE_SIZE: Final = _call(
    0x78,
    "Get Queue Job File Size (old)",
    _job(BE16),
    Form(JobSize, BE32, BE16, BE32),
    "get_queue_job_size",
)

CREATE_JOB: Final = _call(
    0x79,
    "Create Queue Job And File",
    Form(QueueJobStructure, BE32, NEW_JOB),
    Form(OneJob, NEW_REPLY),
    "create_queue_file",
)
READ_JOB: Final = _call(
    0x7A, "Read Queue Job Entry", _job(LE32), Form(OneJob, NEW_JOB), "read_queue_job_entry"
)
CHANGE_JOB: Final = _call(
    0x7B,
    "Change Queue Job Entry",
    Form(QueueJobStructure, BE32, NEW_JOB),
    EMPTY,
    "change_queue_job_entry",
)
SERVICE_JOB: Final = _call(0x7C, "Service Queue Job", _SERVICE, Form(OneJob, NEW_REPLY))
READ_STATUS: Final = _call(
    0x7D, "Read Queue Current Status", _QUEUE, _NEW_STATUS, "read_queue_current_status"
)
SET_STATUS: Final = _call(
    0x7E, "Set Queue Current Status", _SET_STATUS, EMPTY, "set_queue_current_status"
)
START_JOB: Final = _call(
    0x7F, "Close File And Start Queue Job", _job(LE32), EMPTY, "close_file_and_start_queue_job"
)
REMOVE_JOB: Final = _call(0x80, "Remove Job From Queue", _job(LE32), EMPTY, "remove_job_from_queue")
LIST_JOBS: Final = _call(0x81, "Get Queue Job List", Form(ListFrom, BE32, LE32), _LIST)
CHANGE_POSITION: Final = _call(
    0x82,
    "Change Job Priority",
    Form(JobPosition, BE32, LE32, LE32),
    EMPTY,
    "change_queue_job_position",
)
FINISH_JOB: Final = _call(
    0x83,
    "Finish Servicing Queue Job",
    Form(FinishJob, BE32, LE32, _Charge()),
    EMPTY,
    "finish_servicing_queue_job",
)
ABORT_JOB: Final = _call(
    0x84, "Abort Servicing Queue Job", _job(LE32), EMPTY, "abort_servicing_queue_job"
)
CLIENT_RIGHTS: Final = _call(
    0x85, "Change To Client Rights", _job(LE32), EMPTY, "change_to_client_rights"
)
SERVER_STATUS: Final = _call(
    0x86,
    "Read Queue Server Current Status",
    Form(ServerStatus, BE32, BE32, LE32),
    Form(StatusRecord, _RECORD),
    "read_queue_server_current_status",
)
FILE_SIZE: Final = _call(
    0x87,
    "Get Queue Job File Size",
    _job(LE32),
    Form(JobSize, BE32, LE32, BE32),
    "get_queue_job_size",
)
MOVE_JOB: Final = _call(
    0x88, "Move Queue Job", Form(MoveJob, BE32, LE32, BE32), Form(NewNumber, LE32), "move_queue_job"
)
LIST_BY_FORMS: Final = _call(0x89, "Get Queue Jobs From Form List", _FORM_LIST, _LIST)
SERVICE_BY_FORMS: Final = _call(  # Choice: the start position has no meaning here
    0x8A,
    "Service Queue Job By Form List",
    _FORM_LIST,
    Form(OneJob, NEW_REPLY),
    "service_queue_job(queue, types)",
)

QUEUE_CALLS: Final = {
    call.key: call for call in list(globals().values()) if isinstance(call, NcpCall)
}
