"""Queue and bindery calls over NCP, by the document's names; implements `posthouse.qms` calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

from posthouse.client.ncp.link import PORT, NcpLink, Transport
from posthouse.client.netware_door import Door, as_declared
from posthouse.model.bindery import NWOT_USER
from posthouse.model.completion_codes import NO_SUCH_MEMBER
from posthouse.model.errors import QmsError
from posthouse.model.qms import ANY_TYPE, JobList, NWQueueJobStruct
from posthouse.security.netware_hash import keyed_answer, password_hash
from posthouse.wire.ncp import bindery_calls as bindery
from posthouse.wire.ncp import functions
from posthouse.wire.ncp import queue_calls as queues
from posthouse.wire.ncp.calls import NOTHING, NcpCall
from posthouse.wire.ncp.forms import NAME_ENCODING

READ_MAX: Final = 0xFFFF
_MEMBER: Final = "name object_type property_name member_name member_type"
P = ParamSpec("P")
R = TypeVar("R")


def asks(
    declared: Callable[Concatenate[Any, P], R], call: NcpCall[Any, Any], fields: str = ""
) -> Callable[Concatenate[NcpCalls, P], R]:
    """A method of the door as one call: its arguments are these fields of the request.

    Without `fields` they are the fields of the request, in their order. A field that the door does
    not have (reserved bytes, directory handles) is 0.
    """
    record = call.request.record
    names = fields.split() or record._fields
    absent = dict.fromkeys(set(record._fields).difference(names), 0)

    def ask(door: NcpCalls, given: dict[str, Any]) -> Any:
        return _plain(door.link.request(call, record(**given, **absent)))

    return as_declared(declared, names, ask)


def _plain(reply: Any) -> Any:
    """What a door returns for a reply: nothing, its only field, or the record."""
    return None if not reply else reply[0] if len(reply) == 1 else reply


class NcpCalls:
    """One connection to a file server, and what can be asked of it.

    Every method is one call of the document; refusals are `QmsError`, a connection that broke is
    a `ClientConnectionError`. Jobs are handed over as they are: fields that QMS fills are ignored.
    """

    def __init__(self, link: NcpLink) -> None:
        self.link = link

    @classmethod
    def connect(
        cls,
        host: str,
        port: int = PORT,
        *,
        transport: Transport = "tcp",
        timeout_s: float = 60.0,
    ) -> Self:
        """NWAttachToServerPlatform: a connection without a login."""
        return cls(NcpLink(host, port, transport=transport, timeout_s=timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Logs out and ends the connection."""
        self.link.close()

    @property
    def connection_number(self) -> int:
        """The station that other calls and jobs show."""
        return self.link.connection

    # -- one call of the table each: signature and documentation are those of the door

    logout = asks(Door.logout, functions.LOGOUT)
    get_bindery_access_level = asks(Door.get_bindery_access_level, bindery.ACCESS_LEVEL)
    create_object = asks(
        Door.create_object, bindery.CREATE_OBJECT, "name object_type flags security"
    )
    delete_object = asks(Door.delete_object, bindery.DELETE_OBJECT, "name object_type")
    rename_object = asks(Door.rename_object, bindery.RENAME_OBJECT, "name object_type new_name")
    scan_object = asks(Door.scan_object, bindery.SCAN_OBJECT, "last_id object_type name")
    change_object_security = asks(
        Door.change_object_security, bindery.OBJECT_SECURITY, "name object_type security"
    )
    create_property = asks(
        Door.create_property,
        bindery.CREATE_PROPERTY,
        "name object_type property_name flags security",
    )
    delete_property = asks(
        Door.delete_property, bindery.DELETE_PROPERTY, "name object_type property_name"
    )
    change_property_security = asks(
        Door.change_property_security,
        bindery.PROPERTY_SECURITY,
        "name object_type property_name security",
    )
    scan_property = asks(
        Door.scan_property, bindery.SCAN_PROPERTY, "name object_type property_name instance"
    )
    read_property_value = asks(
        Door.read_property_value, bindery.READ_PROPERTY, "name object_type property_name segment"
    )
    write_property_value = asks(
        Door.write_property_value,
        bindery.WRITE_PROPERTY,
        "name object_type property_name segment value more",
    )
    add_object_to_set = asks(Door.add_object_to_set, bindery.ADD_TO_SET, _MEMBER)
    delete_object_from_set = asks(Door.delete_object_from_set, bindery.DELETE_FROM_SET, _MEMBER)
    create_queue = asks(Door.create_queue, queues.CREATE_QUEUE, "name queue_type path")
    destroy_queue = asks(Door.destroy_queue, queues.DESTROY_QUEUE)
    read_queue_current_status = asks(Door.read_queue_current_status, queues.READ_STATUS)
    set_queue_current_status = asks(Door.set_queue_current_status, queues.SET_STATUS)
    close_file_and_start_queue_job = asks(Door.close_file_and_start_queue_job, queues.START_JOB)
    remove_job_from_queue = asks(Door.remove_job_from_queue, queues.REMOVE_JOB)
    get_queue_job_list = asks(Door.get_queue_job_list, queues.LIST_JOBS)
    read_queue_job_entry = asks(Door.read_queue_job_entry, queues.READ_JOB)
    change_queue_job_entry = asks(Door.change_queue_job_entry, queues.CHANGE_JOB)
    change_queue_job_position = asks(Door.change_queue_job_position, queues.CHANGE_POSITION)
    move_queue_job = asks(Door.move_queue_job, queues.MOVE_JOB)
    attach_queue_server_to_queue = asks(Door.attach_queue_server_to_queue, queues.ATTACH)
    detach_queue_server_from_queue = asks(Door.detach_queue_server_from_queue, queues.DETACH)
    finish_servicing_queue_job = asks(Door.finish_servicing_queue_job, queues.FINISH_JOB)
    abort_servicing_queue_job = asks(Door.abort_servicing_queue_job, queues.ABORT_JOB)
    change_to_client_rights = asks(Door.change_to_client_rights, queues.CLIENT_RIGHTS)
    restore_queue_server_rights = asks(Door.restore_queue_server_rights, queues.RESTORE_RIGHTS)
    read_queue_server_current_status = asks(
        Door.read_queue_server_current_status, queues.SERVER_STATUS
    )
    set_queue_server_current_status = asks(
        Door.set_queue_server_current_status, queues.SET_SERVER_STATUS
    )
    file_size = asks(Door.file_size, functions.CURRENT_SIZE, "handle")
    close_file = asks(Door.close_file, functions.CLOSE_FILE, "handle")

    # -- who

    def login(
        self, name: str, type: int = NWOT_USER, password: str = "", *, clear_text: bool = False
    ) -> None:
        """NWLoginToServerPlatform: keyed, so that the password stays here."""
        if clear_text:
            asked = bindery.ObjectPassword(type, name, _password(password))
            self.link.request(bindery.LOGIN, asked)
            return
        asked_keyed = self._keyed(name, type, password)
        self.link.request(bindery.KEYED_LOGIN, asked_keyed)

    def _keyed(self, name: str, type: int, password: str) -> bindery.KeyedObject:
        """The answer to a fresh key (qms-facts 4.3)."""
        key = self.link.request(bindery.LOGIN_KEY, NOTHING).key
        verifier = password_hash(self.get_object_id(name, type), password)
        return bindery.KeyedObject(keyed_answer(key, verifier), type, name)

    def verify_object_password(self, name: str, type: int, password: str) -> None:
        """NWVerifyObjectPassword, keyed."""
        self.link.request(bindery.KEYED_VERIFY, self._keyed(name, type, password))

    def change_object_password(self, name: str, type: int, old: str, new: str) -> None:
        """NWChangeObjectPassword. In clear text: servers refuse it unless they are set so."""
        asked = bindery.ChangePassword(type, name, _password(old), _password(new))
        self.link.request(bindery.CHANGE_PASSWORD, asked)

    # -- answers and requests that the door has in another form

    def get_object_id(self, name: str, type: int) -> int:
        """NWGetObjectID."""
        found: bindery.ObjectIdentity = self.link.request(
            bindery.GET_OBJECT_ID, bindery.ObjectName(type, name)
        )
        return found.object_id

    def get_object_name(self, id: int) -> tuple[str, int]:
        """NWGetObjectName: name and type."""
        found = self.link.request(bindery.GET_OBJECT_NAME, bindery.ObjectId(id))
        return found.name, found.object_type

    def is_object_in_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> bool:
        """NWIsObjectInSet."""
        asked = bindery.SetMember(type, name, property, member_type, member_name)
        try:
            self.link.request(bindery.IS_IN_SET, asked)
        except QmsError as error:
            if error.completion == NO_SUCH_MEMBER:
                return False
            raise
        return True

    def create_queue_file(self, queue: int, job: NWQueueJobStruct) -> NWQueueJobStruct:
        """NWCreateQueueFile: the job as QMS filled it, with the handle of its file."""
        asked = queues.QueueJobStructure(queue, job)
        made: NWQueueJobStruct = self.link.request(queues.CREATE_JOB, asked).job
        return made._replace(job_description=job.job_description, queue_record=job.queue_record)

    def close_file_and_abort_queue_job(self, queue: int, number: int, handle: int) -> None:
        """NWCloseFileAndAbortQueueJob: two calls (qms-facts 3.3)."""
        self.close_file(handle)
        self.remove_job_from_queue(queue, number)

    def get_queue_jobs_from_form_list(
        self, queue: int, job_types: Sequence[int], start: int = 1
    ) -> JobList:
        """Get Queue Jobs From Form List (0x89): jobs of some types only."""
        asked = queues.FormList(queue, start, tuple(job_types))
        found: JobList = self.link.request(queues.LIST_BY_FORMS, asked)
        return found

    def get_queue_job_size(self, queue: int, number: int) -> int:
        """NWGetQueueJobSize."""
        size: int = self.link.request(queues.FILE_SIZE, queues.QueueJob(queue, number)).size
        return size

    def service_queue_job(self, queue: int, job_types: Sequence[int] = ()) -> NWQueueJobStruct:
        """NWServiceQueueJob: the first job of one of these types, or of any; 0xD5 without one."""
        job: NWQueueJobStruct
        if len(job_types) > 1:
            forms = queues.FormList(queue, 1, tuple(job_types))
            job = self.link.request(queues.SERVICE_BY_FORMS, forms).job
        else:
            asked = queues.ServiceJob(queue, *job_types or (ANY_TYPE,))
            job = self.link.request(queues.SERVICE_JOB, asked).job
        return job

    # -- the file of a job

    def write_file(self, handle: int, offset: int, data: bytes) -> None:
        """NWWriteFile, in as many calls as the packets of this connection need."""
        step = self.link.buffer_size
        for at in range(0, len(data), step):
            asked = functions.WriteFile(0, handle, offset + at, data[at : at + step])
            self.link.request(functions.WRITE_FILE, asked)

    def read_file(self, handle: int, offset: int, count: int) -> bytes:
        """NWReadFile: fewer bytes only where the file ends."""
        parts: list[bytes] = []
        while count > 0:
            size = min(count, self.link.buffer_size, READ_MAX)
            part = self._read(handle, offset, size)
            parts.append(part)
            offset, count = offset + len(part), count - len(part)
            if len(part) < size:
                break
        return b"".join(parts)

    def _read(self, handle: int, offset: int, size: int) -> bytes:
        asked = functions.ReadFile(0, handle, offset, size)
        return functions.read_file_data(offset, self.link.ask(functions.READ_FILE, asked))

    # -- the server

    def get_file_server_information(self) -> bindery.ServerInformation:
        """NWGetFileServerInformation."""
        found: bindery.ServerInformation = self.link.request(bindery.SERVER_INFORMATION, NOTHING)
        return found

    def get_file_server_date_and_time(self) -> bytes:
        """NWGetFileServerDateAndTime: year, month, day, hour, minute, second, weekday."""
        clock: bytes = self.link.request(functions.SERVER_CLOCK, NOTHING).clock
        return clock


def _password(text: str) -> bytes:
    return text.upper().encode(NAME_ENCODING, "replace")
