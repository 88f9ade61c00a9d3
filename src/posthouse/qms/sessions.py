"""The calls over a client session or an embedded queue manager: `QueueManagerClient.call`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from posthouse.api import bindery as tb
from posthouse.api import jobs as tj
from posthouse.api.job_routes import JOB_ROUTES
from posthouse.api.route import PREFIX, Route
from posthouse.api.types import Done
from posthouse.client.manager import QueueManagerClient
from posthouse.client.netware_door import FIRST, Door, as_declared
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


_MEMBER: Final = "name type property body.name body.type"
_ROUTES: Final = {route.name: route for route in JOB_ROUTES}
_TEXTS: Final[dict[str, Callable[[Any], str]]] = {
    "type": str,
    "queue": lambda id: f"id:{id:08X}",
    "to": lambda id: f"id:{id:08X}",
}
P = ParamSpec("P")
R = TypeVar("R")


def asks(
    declared: Callable[Concatenate[Any, P], R], name: str, fields: str = "", answer: str = ""
) -> Callable[Concatenate[SessionDoor, P], R]:
    """A method of the door as one request: its arguments are these parameters of the route.

    A field is a parameter of the path where the path has it, else a field of the body; `body.`
    stands where both have it. `answer` is the field of the result that the method returns.
    """
    route = _ROUTES[name]

    def ask(door: SessionDoor, given: dict[str, Any]) -> Any:
        result = door._ask_route(route, given)
        return getattr(result, answer) if answer else None

    return as_declared(declared, fields.split(), ask)


def path_of(*parts: object) -> str:
    """A path below `/api/v1`; its parts are escaped."""
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

    def _ask_route(self, route: Route, given: dict[str, Any]) -> msgspec.Struct:
        """A request on a route: the path takes what it names, the body has the rest."""
        parts = list[str]()
        for segment in route.path.removeprefix(f"{PREFIX}/").split("/"):
            name = segment.strip("{}")
            if name == segment:
                parts.append(name)
            elif name == "station":
                parts.append(self.station.station)
            else:
                parts.append(_text(name, given.pop(name)))
        fields = {key.removeprefix("body."): _json(key, value) for key, value in given.items()}
        body = route.body(**fields) if route.takes_body else None
        ask = self._call if "{station}" in route.path else self._ask
        return ask(route.result, route.method, path_of(*parts), body)

    def _object(self, name: str, type: int, *more: str) -> str:
        return path_of("bindery", "objects", type, name, *more)

    def _property(self, name: str, type: int, property: str, *more: str) -> str:
        return self._object(name, type, "properties", property, *more)

    def _queue(self, id: int, *more: object) -> str:
        return path_of("job-queues", f"id:{id:08X}", *more)

    def _job(self, id: int, number: int, *more: str) -> str:
        return self._queue(id, "jobs", number, *more)

    # -- one route each: signature and documentation are those of the door

    delete_object = asks(Door.delete_object, "delete_object", "name type")
    rename_object = asks(Door.rename_object, "set_object", "name type body.name")
    change_object_security = asks(Door.change_object_security, "set_object", "name type security")
    get_object_id = asks(Door.get_object_id, "show_object", "name type", "id")
    change_object_password = asks(
        Door.change_object_password, "set_object_password", "name type old password"
    )
    verify_object_password = asks(
        Door.verify_object_password, "verify_object_password", "name type password"
    )
    delete_property = asks(Door.delete_property, "delete_property", "name type property")
    change_property_security = asks(
        Door.change_property_security, "set_property", "name type property security"
    )
    write_property_value = asks(
        Door.write_property_value, "set_property", "name type property segment value more"
    )
    add_object_to_set = asks(Door.add_object_to_set, "add_member", _MEMBER)
    delete_object_from_set = asks(Door.delete_object_from_set, "remove_member", _MEMBER)
    is_object_in_set = asks(Door.is_object_in_set, "contains_member", _MEMBER, "member")
    create_queue = asks(Door.create_queue, "create_job_queue", "name type path", "id")
    destroy_queue = asks(Door.destroy_queue, "delete_job_queue", "queue")
    change_queue_job_position = asks(
        Door.change_queue_job_position, "place_job", "queue number position"
    )
    get_queue_job_size = asks(Door.get_queue_job_size, "show_job_size", "queue number", "size")
    move_queue_job = asks(Door.move_queue_job, "move_job", "queue number to", "number")
    attach_queue_server_to_queue = asks(Door.attach_queue_server_to_queue, "attach_server", "queue")
    detach_queue_server_from_queue = asks(
        Door.detach_queue_server_from_queue, "detach_server", "queue"
    )
    change_to_client_rights = asks(
        Door.change_to_client_rights, "take_client_rights", "queue number"
    )
    restore_queue_server_rights = asks(Door.restore_queue_server_rights, "restore_rights")
    read_queue_server_current_status = asks(
        Door.read_queue_server_current_status,
        "show_server_status",
        "queue server server_station",
        "record",
    )
    set_queue_server_current_status = asks(
        Door.set_queue_server_current_status, "set_server_status", "queue record"
    )

    # -- who

    def login(self, name: str, type: int = NWOT_USER, password: str = "") -> None:
        """NWLoginToServerPlatform."""
        body = tj.LoginBody(name=name, type=str(type), password=password)
        path = path_of("stations", self.station.station, "login")
        self.station = self._call(tj.StationJson, "POST", path, body)

    def logout(self) -> None:
        """The station stays open, without a login."""
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

    # -- queues

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
        """NWCloseFile: closes the file and makes its handle invalid."""
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

    # -- servicing

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
        """NWAbortServicingQueueJob; `result` states why. With `give_back` the job stays in its
        queue, whatever its restart flag is."""
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

    def client_token(self, id: int, number: int, *, code: bool = False) -> tj.StationTokenJson:
        """A token with the rights of a job's client, while it is serviced; no call either.

        With `code` only for clients in Q_CODE_USERS, whose jobs may be programs.
        """
        body = tj.TokenBody(code=code)
        return self._ask(tj.StationTokenJson, "POST", self._job(id, number, "token"), body)


def _text(name: str, value: Any) -> str:
    """A parameter in a path."""
    return _TEXTS.get(name, str)(value)


def _json(name: str, value: Any) -> Any:
    """A field of a body: types are words or numbers in words, queues are written by their ids."""
    text = _TEXTS.get(name.removeprefix("body."))
    return value if text is None else text(value)


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
    """What an application sets of a job."""
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
