"""The calls over a client session or an embedded queue manager: `QueueManagerClient.call`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from posthouse.api import bindery as tb
from posthouse.api import jobs as tj
from posthouse.api.types import Done
from posthouse.client.manager import QueueManagerClient
from posthouse.client.netware_door import FIRST
from posthouse.model.bindery import (
    DYNAMIC,
    MEMBERS_OF_SEGMENT,
    NWOT_USER,
    NWOT_WILD,
    SEGMENT_SIZE,
    SET,
    AccessLevel,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
    matches,
    scan_pattern,
)
from posthouse.model.completion_codes import (
    INVALID_FILE_HANDLE,
    NO_PROPERTY_READ,
    NO_SUCH_OBJECT,
    NO_SUCH_PROPERTY,
    NO_SUCH_SEGMENT,
)
from posthouse.model.errors import QmsError
from posthouse.model.qms import (
    FLAG_NAMES,
    STATUS_NAMES,
    JobList,
    NWQueueJobStruct,
    QueueStatus,
)

T = TypeVar("T")
PIECE: Final = tj.PIECE_MAX
LIST_MAX: Final = 125  # numbers in one answer, as over NCP


def path_of(*parts: object) -> str:
    """A path behind `/api/v1`; names in it may hold anything."""
    return "/" + "/".join(quote(str(part), safe="") for part in parts)


class Entry(NamedTuple):
    """A job, and how often a server had it."""

    struct: NWQueueJobStruct
    attempts: int


class SessionDoor:
    """A station of a session; it ends with `close` or with the session."""

    def __init__(
        self,
        manager: QueueManagerClient,
        name: str = "",
        type: int = 1,
        password: str | None = None,
    ) -> None:
        self._manager = manager
        body = tj.StationBody(name=name, type=str(type), password=password)
        self.station = self._call(tj.StationJson, "POST", "/stations", body)
        self._files: dict[int, tuple[int, int]] = {}  # by handle: queue and number

    def close(self) -> None:
        """Ends the station."""
        self._call(Done, "DELETE", path_of("stations", self.station.station))

    # -- asking

    def _call(
        self,
        result: type[T],
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        **query: object,
    ) -> T:
        target = f"{path}?{urlencode(query)}" if query else path
        return msgspec.convert(self._manager.call(method, target, body), result)

    def _ask(
        self,
        result: type[T],
        method: str,
        path: str,
        body: msgspec.Struct | None = None,
        **query: object,
    ) -> T:
        return self._call(result, method, path, body, station=self.station.station, **query)

    def _object(self, name: str, type: int, *more: str) -> str:
        return path_of("bindery", "objects", type, name, *more)

    def _property(self, name: str, type: int, property: str, *more: str) -> str:
        return self._object(name, type, "properties", property, *more)

    def _queue(self, id: int, *more: object) -> str:
        return path_of("job-queues", f"id:{id:08X}", *more)

    def _job(self, id: int, number: int, *more: str) -> str:
        return self._queue(id, "jobs", number, *more)

    # -- who

    def login(self, name: str, type: int = NWOT_USER, password: str = "") -> None:
        """NWLoginToServerPlatform."""
        body = tj.LoginBody(name=name, type=str(type), password=password)
        path = path_of("stations", self.station.station, "login")
        self.station = self._call(tj.StationJson, "POST", path, body)

    def logout(self) -> None:
        """The station stays, and is nobody."""
        path = path_of("stations", self.station.station, "logout")
        self.station = self._call(tj.StationJson, "POST", path)

    def get_bindery_access_level(self) -> AccessLevel:
        """NWGetBinderyAccessLevel."""
        found = self._ask(tb.BinderyAccessJson, "GET", "/bindery/access")
        return AccessLevel(found.write_level << 4 | found.read_level, found.object_id)

    # -- objects

    def create_object(self, name: str, type: int, flags: int = 0, security: int = 0x31) -> None:
        """NWCreateObject."""
        dynamic = bool(flags & DYNAMIC)
        body = tb.ObjectCreateBody(name=name, type=str(type), security=security, dynamic=dynamic)
        self._ask(tb.ObjectJson, "POST", "/bindery/objects", body)

    def delete_object(self, name: str, type: int) -> None:
        """NWDeleteObject."""
        self._ask(Done, "DELETE", self._object(name, type))

    def rename_object(self, name: str, type: int, new_name: str) -> None:
        """NWRenameObject."""
        body = tb.ObjectSetBody(name=new_name)
        self._ask(tb.ObjectJson, "PATCH", self._object(name, type), body)

    def change_object_security(self, name: str, type: int, security: int) -> None:
        """NWChangeObjectSecurity."""
        body = tb.ObjectSetBody(security=security)
        self._ask(tb.ObjectJson, "PATCH", self._object(name, type), body)

    def get_object_id(self, name: str, type: int) -> int:
        """NWGetObjectID."""
        return self._ask(tb.ObjectJson, "GET", self._object(name, type)).id

    def get_object_name(self, id: int) -> tuple[str, int]:
        """NWGetObjectName."""
        found = self._ask(tb.ObjectJson, "GET", path_of("bindery", "ids", id))
        return found.name, found.type_number

    def scan_object(
        self, last_id: int = FIRST, type: int = NWOT_WILD, pattern: str = "*"
    ) -> ObjectInfo:
        """NWScanObject."""
        after = 0 if last_id == FIRST else last_id
        query = {"type": type, "name": pattern, "after": after, "limit": 1}
        found = self._ask(tb.ObjectListJson, "GET", "/bindery/objects", None, **query).objects
        if not found:
            raise QmsError(NO_SUCH_OBJECT, "no other object fits")
        one = found[0]
        flags = DYNAMIC if one.dynamic else 0
        return ObjectInfo(one.id, one.type_number, one.name, flags, one.security, one.properties)

    def change_object_password(self, name: str, type: int, old: str, new: str) -> None:
        """NWChangeObjectPassword."""
        body = tb.ObjectPasswordBody(password=new, old=old)
        self._ask(Done, "POST", self._object(name, type, "password"), body)

    def verify_object_password(self, name: str, type: int, password: str) -> None:
        """NWVerifyObjectPassword."""
        body = tb.ObjectPasswordBody(password=password)
        self._ask(Done, "POST", self._object(name, type, "verify"), body)

    # -- properties

    def create_property(
        self, name: str, type: int, property: str, flags: int, security: int
    ) -> None:
        """NWCreateProperty."""
        body = tb.PropertyCreateBody(
            property=property,
            set=bool(flags & SET),
            security=security,
            dynamic=bool(flags & DYNAMIC),
        )
        self._ask(tb.PropertyJson, "POST", self._object(name, type, "properties"), body)

    def delete_property(self, name: str, type: int, property: str) -> None:
        """NWDeleteProperty."""
        self._ask(Done, "DELETE", self._property(name, type, property))

    def change_property_security(self, name: str, type: int, property: str, security: int) -> None:
        """NWChangePropertySecurity."""
        body = tb.PropertySetBody(security=security)
        self._ask(tb.PropertyJson, "PATCH", self._property(name, type, property), body)

    def scan_property(
        self, name: str, type: int, pattern: str = "*", instance: int = FIRST
    ) -> PropertyInfo:
        """NWScanProperty; here an instance is a place in the list of those that fit."""
        wanted = scan_pattern(pattern)
        listed = self._ask(tb.PropertyListJson, "GET", self._object(name, type, "properties"))
        fitting = [one for one in listed.properties if matches(wanted, one.property)]
        at = 0 if instance == FIRST else instance
        if at >= len(fitting):
            raise QmsError(NO_SUCH_PROPERTY, "no other property fits")
        one = fitting[at]
        has_value = bool(one.value or one.members)
        more = at + 1 < len(fitting)
        return PropertyInfo(one.property, _flags(one), one.security, at + 1, has_value, more)

    def read_property_value(
        self, name: str, type: int, property: str, segment: int = 1
    ) -> PropertyValue:
        """NWReadPropertyValue."""
        found = self._ask(tb.PropertyJson, "GET", self._property(name, type, property))
        if found.value is None and found.members is None:
            raise QmsError(NO_PROPERTY_READ, f"{property} may not be read")
        parts = _segments(found)
        if not 1 <= segment <= len(parts):
            raise QmsError(NO_SUCH_SEGMENT, f"{property} has {len(parts)} segments")
        return PropertyValue(parts[segment - 1], segment < len(parts), _flags(found))

    def write_property_value(
        self,
        name: str,
        type: int,
        property: str,
        segment: int,
        value: bytes,
        more: bool = False,
    ) -> None:
        """NWWritePropertyValue."""
        body = tb.PropertySetBody(value=value, segment=segment, more=more)
        self._ask(tb.PropertyJson, "PATCH", self._property(name, type, property), body)

    def add_object_to_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWAddObjectToSet."""
        body = tb.MemberBody(name=member_name, type=str(member_type))
        self._ask(Done, "POST", self._property(name, type, property, "add"), body)

    def delete_object_from_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWDeleteObjectFromSet."""
        body = tb.MemberBody(name=member_name, type=str(member_type))
        self._ask(Done, "POST", self._property(name, type, property, "remove"), body)

    def is_object_in_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> bool:
        """NWIsObjectInSet."""
        body = tb.MemberBody(name=member_name, type=str(member_type))
        path = self._property(name, type, property, "contains")
        return self._ask(tb.MembershipJson, "POST", path, body).member

    # -- queues

    def create_queue(self, name: str, type: int, path: str) -> int:
        """NWCreateQueue."""
        body = tj.JobQueueCreateBody(name=name, type=str(type), path=path)
        return self._ask(tj.JobQueueJson, "POST", "/job-queues", body).id

    def destroy_queue(self, id: int) -> None:
        """NWDestroyQueue."""
        self._ask(Done, "DELETE", self._queue(id))

    def read_queue_current_status(self, id: int) -> QueueStatus:
        """NWReadQueueCurrentStatus."""
        found = self._ask(tj.JobQueueStatusJson, "GET", self._queue(id, "status"))
        status = sum(bit for bit, word in STATUS_NAMES.items() if word in found.status)
        servers = tuple((one.id, one.station) for one in found.servers)
        return QueueStatus(found.id, status, found.jobs, servers)

    def set_queue_current_status(self, id: int, status: int) -> None:
        """NWSetQueueCurrentStatus."""
        words: Any = [word for bit, word in STATUS_NAMES.items() if status & bit]
        self._ask(tj.JobQueueJson, "PATCH", self._queue(id), tj.JobQueueSetBody(status=words))

    # -- submitting

    def create_queue_file(self, id: int, job: NWQueueJobStruct) -> NWQueueJobStruct:
        """NWCreateQueueFile."""
        body = tj.JobBody(**_wanted(job))
        made = job_struct(self._ask(tj.JobJson, "POST", self._queue(id, "jobs"), body))
        self._files[made.job_file_handle] = (id, made.job_number)
        return made

    def write_file(self, handle: int, offset: int, data: bytes) -> None:
        """NWWriteFile."""
        path, view = self._file(handle), memoryview(data)
        for at in range(0, len(view), PIECE):
            query = urlencode({"station": self.station.station, "offset": offset + at})
            self._manager.call_octets("PUT", f"{path}?{query}", bytes(view[at : at + PIECE]))

    def read_file(self, handle: int, offset: int, count: int) -> bytes:
        """NWReadFile."""
        path, parts = self._file(handle), list[bytes]()
        while count > 0:
            query = {"station": self.station.station, "offset": offset, "count": min(count, PIECE)}
            piece = self._manager.call_octets("GET", f"{path}?{urlencode(query)}")
            if not piece:
                break
            parts.append(piece)
            offset, count = offset + len(piece), count - len(piece)
        return b"".join(parts)

    def file_size(self, handle: int) -> int:
        """The size of an open job file."""
        id, number = self._opened(handle)
        return self.get_queue_job_size(id, number)

    def close_file(self, handle: int) -> None:
        """NWCloseFile: the handle is good for nothing any more."""
        id, number = self._opened(handle)
        self._ask(Done, "POST", self._job(id, number, "close"))
        del self._files[handle]

    def _opened(self, handle: int) -> tuple[int, int]:
        found = self._files.get(handle)
        if found is None:
            raise QmsError(INVALID_FILE_HANDLE, f"no open job file has the handle {handle}")
        return found

    def _file(self, handle: int) -> str:
        return self._job(*self._opened(handle), "file")

    def close_file_and_start_queue_job(self, id: int, number: int) -> None:
        """NWCloseFileAndStartQueueJob."""
        self._ask(tj.JobJson, "POST", self._job(id, number, "start"))
        self._forget(id, number)

    def _forget(self, id: int, number: int) -> None:
        """The job's handles are closed."""
        self._files = {key: job for key, job in self._files.items() if job != (id, number)}

    # -- monitoring

    def remove_job_from_queue(self, id: int, number: int) -> None:
        """NWRemoveJobFromQueue."""
        self._ask(Done, "DELETE", self._job(id, number))
        self._forget(id, number)

    def get_queue_job_list(self, id: int, start: int = 1) -> JobList:
        """NWGetQueueJobList."""
        query = {"start": start, "limit": LIST_MAX}
        found = self._ask(tj.JobNumbersJson, "GET", self._queue(id, "numbers"), None, **query)
        return JobList(found.total, tuple(found.numbers))

    def read_queue_job_entry(self, id: int, number: int) -> NWQueueJobStruct:
        """NWReadQueueJobEntry."""
        return job_struct(self._ask(tj.JobJson, "GET", self._job(id, number)))

    def change_queue_job_entry(self, id: int, job: NWQueueJobStruct) -> None:
        """NWChangeQueueJobEntry."""
        body = tj.JobChangeBody(**_wanted(job))
        self._ask(tj.JobJson, "PATCH", self._job(id, job.job_number), body)

    def change_queue_job_position(self, id: int, number: int, position: int) -> None:
        """NWChangeQueueJobPosition."""
        body = tj.JobPositionBody(position=position)
        self._ask(tj.JobJson, "POST", self._job(id, number, "position"), body)

    def get_queue_job_size(self, id: int, number: int) -> int:
        """NWGetQueueJobSize."""
        return self._ask(tj.JobSizeJson, "GET", self._job(id, number, "size")).size

    def move_queue_job(self, id: int, number: int, destination_id: int) -> int:
        """Moves a job to another queue."""
        body = tj.MoveBody(to=f"id:{destination_id:08X}")
        return self._ask(tj.MovedJson, "POST", self._job(id, number, "move"), body).number

    # -- servicing

    def attach_queue_server_to_queue(self, id: int) -> None:
        """NWAttachQueueServerToQueue."""
        self._ask(Done, "POST", self._queue(id, "attach"))

    def detach_queue_server_from_queue(self, id: int) -> None:
        """NWDetachQueueServerFromQueue."""
        self._ask(Done, "POST", self._queue(id, "detach"))

    def service_queue_job(self, id: int, job_types: Sequence[int] = ()) -> NWQueueJobStruct:
        """NWServiceQueueJob."""
        body = tj.ServiceBody(types=list(job_types))
        job = job_struct(self._ask(tj.JobJson, "POST", self._queue(id, "service"), body))
        self._files[job.job_file_handle] = (id, job.job_number)
        return job

    def finish_servicing_queue_job(
        self, id: int, number: int, charge: int = 0, result: str = ""
    ) -> None:
        """NWFinishServicingQueueJob; `result` goes into the history and to the response queue."""
        body = tj.FinishBody(charge=charge, result=result)
        self._ask(Done, "POST", self._job(id, number, "finish"), body)
        self._forget(id, number)

    def abort_servicing_queue_job(
        self, id: int, number: int, result: str = "", *, give_back: bool = False
    ) -> None:
        """NWAbortServicingQueueJob; `result` says why. With `give_back` the job stays in its queue,
        whatever its restart flag says."""
        body = tj.AbortBody(result=result, give_back=give_back)
        self._ask(Done, "POST", self._job(id, number, "abort"), body)
        self._forget(id, number)

    def report_progress(self, id: int, number: int, done: int, total: int, text: str) -> None:
        """How far the server is; no call of the document."""
        body = tj.ProgressBody(done=done, total=total, text=text)
        self._ask(Done, "POST", self._job(id, number, "progress"), body)

    def read_entry(self, id: int, number: int) -> Entry:
        """A job, and how often a server had it."""
        found = self._ask(tj.JobJson, "GET", self._job(id, number))
        return Entry(job_struct(found), found.attempts)

    def put_off(self, id: int, number: int, moment: datetime) -> None:
        """The job is not to be serviced before then."""
        body = tj.JobChangeBody(target_time=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._ask(tj.JobJson, "PATCH", self._job(id, number), body)

    def change_to_client_rights(self, id: int, number: int) -> None:
        """NWChangeToClientRights."""
        self._ask(Done, "POST", self._job(id, number, "client-rights"))

    def restore_queue_server_rights(self) -> None:
        """NWRestoreQueueServerRights."""
        self._call(Done, "POST", path_of("stations", self.station.station, "restore-rights"))

    def client_token(self, id: int, number: int, *, code: bool = False) -> tj.StationTokenJson:
        """A token with the rights of a job's client, while it is serviced; no call either.

        With `code` only for clients in Q_CODE_USERS, whose jobs may be programs.
        """
        body = tj.TokenBody(code=code)
        return self._ask(tj.StationTokenJson, "POST", self._job(id, number, "token"), body)

    def read_queue_server_current_status(self, id: int, server_id: int, station: int) -> bytes:
        """NWReadQueueServerCurrentStatus."""
        path = self._queue(id, "servers", server_id, station)
        return self._ask(tj.ServerStatusJson, "GET", path).record

    def set_queue_server_current_status(self, id: int, record: bytes) -> None:
        """NWSetQueueServerCurrentStatus."""
        body = tj.ServerStatusBody(record=record)
        self._ask(Done, "POST", self._queue(id, "server-status"), body)


def _flags(property: tb.PropertyJson) -> int:
    return (SET if property.set else 0) | (DYNAMIC if property.dynamic else 0)


def _segments(property: tb.PropertyJson) -> list[bytes]:
    if property.members is not None:
        ids = [one.id.to_bytes(4, "big") for one in property.members]
        runs = range(0, max(len(ids), 1), MEMBERS_OF_SEGMENT)
        whole = [b"".join(ids[at : at + MEMBERS_OF_SEGMENT]) for at in runs]
    else:
        value = property.value or b""
        whole = [value[at : at + SEGMENT_SIZE] for at in range(0, len(value), SEGMENT_SIZE)]
    return [part.ljust(SEGMENT_SIZE, b"\0") for part in whole]


def _wanted(job: NWQueueJobStruct) -> dict[str, Any]:
    """What an application says of a job."""
    words = {word: bool(job.job_control_flags & bit) for bit, word in FLAG_NAMES.items()}
    del words["entry_open"]
    return {
        "type": job.job_type,
        "description_bytes": job.job_description,
        "target_server_id": job.target_server_id,
        "target_execution_time": job.target_execution_time.hex(),
        "record": job.queue_record,
        **words,
    }


def job_struct(job: tj.JobJson) -> NWQueueJobStruct:
    """A job as the document's structure."""
    return NWQueueJobStruct(
        target_server_id=job.target_server_id,
        target_execution_time=bytes.fromhex(job.target_execution_time),
        job_type=job.type,
        job_control_flags=sum(bit for bit, word in FLAG_NAMES.items() if word in job.flags),
        job_description=job.description_bytes,
        queue_record=job.record,
        client_station=job.station,
        client_task=job.task,
        client_id=job.owner_id,
        job_entry_time=bytes.fromhex(job.job_entry_time),
        job_number=job.number,
        job_position=job.position,
        job_file_name=job.file_name,
        job_file_handle=job.file_handle,
        servicing_server_station=job.server_station,
        servicing_server_task_number=job.server_task,
        servicing_server_id_number=job.server_id,
        next_record=job.next,
    )
