"""Queue and bindery calls over NCP, by the document's names: a door of `posthouse.qms`."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from posthouse.client.ncp.link import PORT, NcpLink, Transport
from posthouse.model.bindery import (
    NWOT_USER,
    AccessLevel,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
)
from posthouse.model.completion_codes import NO_SUCH_MEMBER
from posthouse.model.errors import QmsError
from posthouse.model.qms import ANY_TYPE, JobList, NWQueueJobStruct, QueueStatus
from posthouse.security.netware_hash import keyed_answer, password_hash
from posthouse.wire.ncp import bindery_calls as bindery
from posthouse.wire.ncp import functions
from posthouse.wire.ncp import queue_calls as queues
from posthouse.wire.ncp.calls import NOTHING
from posthouse.wire.ncp.forms import NAME_ENCODING

READ_MAX: Final = 0xFFFF


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
        """NWAttachToServerPlatform: a connection, which nobody is logged in on yet."""
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

    def logout(self) -> None:
        """NWLogout: the connection stays."""
        self.link.request(functions.LOGOUT, NOTHING)

    def verify_object_password(self, name: str, type: int, password: str) -> None:
        """NWVerifyObjectPassword, keyed."""
        self.link.request(bindery.KEYED_VERIFY, self._keyed(name, type, password))

    def change_object_password(self, name: str, type: int, old: str, new: str) -> None:
        """NWChangeObjectPassword. In clear text: servers refuse it unless they are set so."""
        asked = bindery.ChangePassword(type, name, _password(old), _password(new))
        self.link.request(bindery.CHANGE_PASSWORD, asked)

    def get_bindery_access_level(self) -> AccessLevel:
        """NWGetBinderyAccessLevel."""
        level: AccessLevel = self.link.request(bindery.ACCESS_LEVEL, NOTHING)
        return level

    # -- objects

    def create_object(self, name: str, type: int, flags: int = 0, security: int = 0x31) -> None:
        """NWCreateObject."""
        asked = bindery.CreateObject(flags, security, type, name)
        self.link.request(bindery.CREATE_OBJECT, asked)

    def delete_object(self, name: str, type: int) -> None:
        """NWDeleteObject."""
        self.link.request(bindery.DELETE_OBJECT, bindery.ObjectName(type, name))

    def rename_object(self, name: str, type: int, new_name: str) -> None:
        """NWRenameObject."""
        self.link.request(bindery.RENAME_OBJECT, bindery.RenameObject(type, name, new_name))

    def get_object_id(self, name: str, type: int) -> int:
        """NWGetObjectID."""
        found: bindery.ObjectIdentity = self.link.request(
            bindery.GET_OBJECT_ID, bindery.ObjectName(type, name)
        )
        return found.object_id

    def get_object_name(self, object_id: int) -> tuple[str, int]:
        """NWGetObjectName: name and type."""
        found = self.link.request(bindery.GET_OBJECT_NAME, bindery.ObjectId(object_id))
        return found.name, found.object_type

    def scan_object(
        self, last_id: int = bindery.FIRST, type: int = 0xFFFF, pattern: str = "*"
    ) -> ObjectInfo:
        """NWScanObject: the next one; 0xFC behind the last."""
        found: ObjectInfo = self.link.request(
            bindery.SCAN_OBJECT, bindery.ScanObject(last_id, type, pattern)
        )
        return found

    def change_object_security(self, name: str, type: int, security: int) -> None:
        """NWChangeObjectSecurity."""
        asked = bindery.ObjectSecurity(security, type, name)
        self.link.request(bindery.OBJECT_SECURITY, asked)

    # -- properties

    def create_property(
        self, name: str, type: int, property: str, flags: int, security: int
    ) -> None:
        """NWCreateProperty."""
        asked = bindery.CreateProperty(type, name, flags, security, property)
        self.link.request(bindery.CREATE_PROPERTY, asked)

    def delete_property(self, name: str, type: int, property: str) -> None:
        """NWDeleteProperty."""
        self.link.request(bindery.DELETE_PROPERTY, bindery.PropertyName(type, name, property))

    def change_property_security(self, name: str, type: int, property: str, security: int) -> None:
        """NWChangePropertySecurity."""
        asked = bindery.PropertySecurity(type, name, security, property)
        self.link.request(bindery.PROPERTY_SECURITY, asked)

    def scan_property(
        self, name: str, type: int, pattern: str = "*", instance: int = bindery.FIRST
    ) -> PropertyInfo:
        """NWScanProperty: the next one; 0xFB behind the last."""
        found: PropertyInfo = self.link.request(
            bindery.SCAN_PROPERTY, bindery.ScanProperty(type, name, instance, pattern)
        )
        return found

    def read_property_value(
        self, name: str, type: int, property: str, segment: int = 1
    ) -> PropertyValue:
        """NWReadPropertyValue: one segment of 128 bytes."""
        value: PropertyValue = self.link.request(
            bindery.READ_PROPERTY, bindery.ReadProperty(type, name, segment, property)
        )
        return value

    def write_property_value(
        self,
        name: str,
        type: int,
        property: str,
        segment: int,
        value: bytes,
        more: bool = False,
    ) -> None:
        """NWWritePropertyValue: one segment."""
        asked = bindery.WriteProperty(type, name, segment, more, property, value)
        self.link.request(bindery.WRITE_PROPERTY, asked)

    def add_object_to_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWAddObjectToSet."""
        asked = bindery.SetMember(type, name, property, member_type, member_name)
        self.link.request(bindery.ADD_TO_SET, asked)

    def delete_object_from_set(
        self, name: str, type: int, property: str, member_name: str, member_type: int
    ) -> None:
        """NWDeleteObjectFromSet."""
        asked = bindery.SetMember(type, name, property, member_type, member_name)
        self.link.request(bindery.DELETE_FROM_SET, asked)

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

    # -- queues

    def create_queue(self, name: str, type: int, path: str) -> int:
        """NWCreateQueue: the ID of the new queue."""
        made: queues.QueueOnly = self.link.request(
            queues.CREATE_QUEUE, queues.CreateQueue(type, name, 0, path)
        )
        return made.queue

    def destroy_queue(self, queue: int) -> None:
        """NWDestroyQueue."""
        self.link.request(queues.DESTROY_QUEUE, queues.QueueOnly(queue))

    def read_queue_current_status(self, queue: int) -> QueueStatus:
        """NWReadQueueCurrentStatus."""
        status: QueueStatus = self.link.request(queues.READ_STATUS, queues.QueueOnly(queue))
        return status

    def set_queue_current_status(self, queue: int, status: int) -> None:
        """NWSetQueueCurrentStatus."""
        self.link.request(queues.SET_STATUS, queues.SetQueueStatus(queue, status))

    # -- jobs

    def create_queue_file(self, queue: int, job: NWQueueJobStruct) -> NWQueueJobStruct:
        """NWCreateQueueFile: the job as QMS filled it, with the handle of its file."""
        asked = queues.QueueJobStructure(queue, job)
        made: NWQueueJobStruct = self.link.request(queues.CREATE_JOB, asked).job
        return made._replace(job_description=job.job_description, queue_record=job.queue_record)

    def close_file_and_start_queue_job(self, queue: int, number: int) -> None:
        """NWCloseFileAndStartQueueJob."""
        self.link.request(queues.START_JOB, queues.QueueJob(queue, number))

    def close_file_and_abort_queue_job(self, queue: int, number: int, handle: int) -> None:
        """NWCloseFileAndAbortQueueJob: two calls (qms-facts 3.3)."""
        self.close_file(handle)
        self.remove_job_from_queue(queue, number)

    def remove_job_from_queue(self, queue: int, number: int) -> None:
        """NWRemoveJobFromQueue."""
        self.link.request(queues.REMOVE_JOB, queues.QueueJob(queue, number))

    def get_queue_job_list(self, queue: int, start: int = 1) -> JobList:
        """NWGetQueueJobList: at most 125 numbers, from a position on."""
        found: JobList = self.link.request(queues.LIST_JOBS, queues.ListFrom(queue, start))
        return found

    def get_queue_jobs_from_form_list(
        self, queue: int, job_types: Sequence[int], start: int = 1
    ) -> JobList:
        """The same of some types only (0x89)."""
        asked = queues.FormList(queue, start, tuple(job_types))
        found: JobList = self.link.request(queues.LIST_BY_FORMS, asked)
        return found

    def read_queue_job_entry(self, queue: int, number: int) -> NWQueueJobStruct:
        """NWReadQueueJobEntry."""
        job: NWQueueJobStruct = self.link.request(
            queues.READ_JOB, queues.QueueJob(queue, number)
        ).job
        return job

    def change_queue_job_entry(self, queue: int, job: NWQueueJobStruct) -> None:
        """NWChangeQueueJobEntry: the job is known by its number."""
        self.link.request(queues.CHANGE_JOB, queues.QueueJobStructure(queue, job))

    def change_queue_job_position(self, queue: int, number: int, position: int) -> None:
        """NWChangeQueueJobPosition."""
        self.link.request(queues.CHANGE_POSITION, queues.JobPosition(queue, number, position))

    def get_queue_job_size(self, queue: int, number: int) -> int:
        """NWGetQueueJobSize."""
        size: int = self.link.request(queues.FILE_SIZE, queues.QueueJob(queue, number)).size
        return size

    def move_queue_job(self, queue: int, number: int, destination: int) -> int:
        """Moves a job to another queue; its number there."""
        asked = queues.MoveJob(queue, number, destination)
        moved: queues.NewNumber = self.link.request(queues.MOVE_JOB, asked)
        return moved.number

    # -- servicing

    def attach_queue_server_to_queue(self, queue: int) -> None:
        """NWAttachQueueServerToQueue."""
        self.link.request(queues.ATTACH, queues.QueueOnly(queue))

    def detach_queue_server_from_queue(self, queue: int) -> None:
        """NWDetachQueueServerFromQueue."""
        self.link.request(queues.DETACH, queues.QueueOnly(queue))

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

    def finish_servicing_queue_job(self, queue: int, number: int, charge: int = 0) -> None:
        """NWFinishServicingQueueJob."""
        self.link.request(queues.FINISH_JOB, queues.FinishJob(queue, number, charge))

    def abort_servicing_queue_job(self, queue: int, number: int) -> None:
        """NWAbortServicingQueueJob."""
        self.link.request(queues.ABORT_JOB, queues.QueueJob(queue, number))

    def change_to_client_rights(self, queue: int, number: int) -> None:
        """NWChangeToClientRights."""
        self.link.request(queues.CLIENT_RIGHTS, queues.QueueJob(queue, number))

    def restore_queue_server_rights(self) -> None:
        """NWRestoreQueueServerRights."""
        self.link.request(queues.RESTORE_RIGHTS, NOTHING)

    def read_queue_server_current_status(self, queue: int, server_id: int, station: int) -> bytes:
        """NWReadQueueServerCurrentStatus: its record of 64 bytes."""
        asked = queues.ServerStatus(queue, server_id, station)
        record: bytes = self.link.request(queues.SERVER_STATUS, asked).record
        return record

    def set_queue_server_current_status(self, queue: int, record: bytes) -> None:
        """NWSetQueueServerCurrentStatus: one's own record."""
        self.link.request(queues.SET_SERVER_STATUS, queues.SetServerStatus(queue, record))

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

    def file_size(self, handle: int) -> int:
        """NWGetFileSize of a job's file."""
        size: int = self.link.request(functions.CURRENT_SIZE, functions.OpenFile(0, handle)).size
        return size

    def close_file(self, handle: int) -> None:
        """NWCloseFile."""
        self.link.request(functions.CLOSE_FILE, functions.OpenFile(0, handle))

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
