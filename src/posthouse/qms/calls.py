"""The document's calls by their names, as thin functions over a connection.

Where the C calls fill structures and return a code, these return values and raise `QmsError`,
whose `completion` is the code; `NWCallsInit` and sequence numbers are not needed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from posthouse.client.netware_door import FIRST, Door
from posthouse.model.bindery import (
    NWBS_LOGGED_READ,
    NWBS_SUPER_WRITE,
    NWOT_USER,
    STATIC,
    AccessLevel,
    ObjectInfo,
    PropertyInfo,
    PropertyValue,
)
from posthouse.model.print_jobs import PrintJobStruct as PrintJobStruct
from posthouse.model.print_jobs import (
    convert_print_struct_to_queue_struct as NWConvertPrintStructToQueueStruct,
)
from posthouse.model.print_jobs import (
    convert_queue_struct_to_print_struct as NWConvertQueueStructToPrintStruct,
)
from posthouse.model.qms import ANY_TYPE, NWQueueJobStruct, QueueStatus

__all__ = [
    "NWAbortServicingQueueJob",
    "NWAddObjectToSet",
    "NWAttachQueueServerToQueue",
    "NWChangeObjectPassword",
    "NWChangeObjectSecurity",
    "NWChangePropertySecurity",
    "NWChangeQueueJobEntry",
    "NWChangeQueueJobPosition",
    "NWChangeToClientRights",
    "NWCloseFile",
    "NWCloseFileAndAbortQueueJob",
    "NWCloseFileAndStartQueueJob",
    "NWConvertPrintStructToQueueStruct",
    "NWConvertQueueStructToPrintStruct",
    "NWCreateObject",
    "NWCreateProperty",
    "NWCreateQueue",
    "NWCreateQueueFile",
    "NWDeleteObject",
    "NWDeleteObjectFromSet",
    "NWDeleteProperty",
    "NWDestroyQueue",
    "NWDetachQueueServerFromQueue",
    "NWFinishServicingQueueJob",
    "NWGetBinderyAccessLevel",
    "NWGetObjectID",
    "NWGetObjectName",
    "NWGetQueueJobList",
    "NWGetQueueJobSize",
    "NWIsObjectInSet",
    "NWLoginToServerPlatform",
    "NWLogoutFromServerPlatform",
    "NWMoveQueueJob",
    "NWReadFile",
    "NWReadPropertyValue",
    "NWReadQueueCurrentStatus",
    "NWReadQueueJobEntry",
    "NWReadQueueServerCurrentStatus",
    "NWRemoveJobFromQueue",
    "NWRenameObject",
    "NWRestoreQueueServerRights",
    "NWScanObject",
    "NWScanProperty",
    "NWServiceQueueJob",
    "NWSetQueueCurrentStatus",
    "NWSetQueueServerCurrentStatus",
    "NWVerifyObjectPassword",
    "NWWriteFile",
    "NWWritePropertyValue",
    "PrintJobStruct",
]

SECURITY = NWBS_LOGGED_READ | NWBS_SUPER_WRITE


# -- Creating Queues in the Bindery


def NWCreateQueue(conn: Door, queue_name: str, queue_type: int, path: str) -> int:
    """Creates a queue below a path, such as SYS:SYSTEM; returns its object id."""
    return conn.create_queue(queue_name, queue_type, path)


def NWDestroyQueue(conn: Door, queue_id: int) -> None:
    """Deletes a queue with its jobs, files, properties and directory."""
    conn.destroy_queue(queue_id)


# -- Submitting Jobs to Queues


def NWCreateQueueFile(conn: Door, queue_id: int, job: NWQueueJobStruct) -> NWQueueJobStruct:
    """Puts a job into a queue, open, with an empty file; returns it with all that QMS filled in."""
    return conn.create_queue_file(queue_id, job)


def NWWriteFile(conn: Door, file_handle: int, data: bytes, offset: int = 0) -> None:
    """Writes into a job's file."""
    conn.write_file(file_handle, offset, data)


def NWReadFile(conn: Door, file_handle: int, count: int, offset: int = 0) -> bytes:
    """Reads from a job's file; fewer bytes at its end."""
    return conn.read_file(file_handle, offset, count)


def NWCloseFile(conn: Door, file_handle: int) -> None:
    """Closes a job's file and nothing else."""
    conn.close_file(file_handle)


def NWCloseFileAndStartQueueJob(conn: Door, queue_id: int, job_number: int) -> None:
    """Closes the file and makes the job ready to be serviced."""
    conn.close_file_and_start_queue_job(queue_id, job_number)


def NWCloseFileAndAbortQueueJob(
    conn: Door, queue_id: int, job_number: int, file_handle: int
) -> None:
    """Closes the file and removes the job; nothing of it remains."""
    conn.close_file(file_handle)
    conn.remove_job_from_queue(queue_id, job_number)


# -- Monitoring and controlling the status of jobs and queues


def NWRemoveJobFromQueue(conn: Door, queue_id: int, job_number: int) -> None:
    """Deletes a job: its owner's and the operators' right."""
    conn.remove_job_from_queue(queue_id, job_number)


def NWReadQueueJobEntry(conn: Door, queue_id: int, job_number: int) -> NWQueueJobStruct:
    """Shows a job."""
    return conn.read_queue_job_entry(queue_id, job_number)


def NWChangeQueueJobEntry(conn: Door, queue_id: int, job: NWQueueJobStruct) -> None:
    """Changes how a job is to be processed; the job is the one of `job.job_number`."""
    conn.change_queue_job_entry(queue_id, job)


def NWGetQueueJobList(conn: Door, queue_id: int) -> list[int]:
    """The numbers of all jobs in queue order, however many answers that takes."""
    found: list[int] = []
    while True:
        portion = conn.get_queue_job_list(queue_id, len(found) + 1)
        found += portion.numbers
        if not portion.numbers or len(found) >= portion.total:
            return found


def NWChangeQueueJobPosition(conn: Door, queue_id: int, job_number: int, position: int) -> None:
    """Moves a job within its queue; beyond the end is the end."""
    conn.change_queue_job_position(queue_id, job_number, position)


def NWMoveQueueJob(conn: Door, queue_id: int, job_number: int, to_queue_id: int) -> int:
    """Moves a job into another queue; returns its number there."""
    return conn.move_queue_job(queue_id, job_number, to_queue_id)


def NWReadQueueCurrentStatus(conn: Door, queue_id: int) -> QueueStatus:
    """Status flags, number of jobs and attached servers."""
    return conn.read_queue_current_status(queue_id)


def NWSetQueueCurrentStatus(conn: Door, queue_id: int, status: int) -> None:
    """Sets the status flags (QS_*)."""
    conn.set_queue_current_status(queue_id, status)


def NWReadQueueServerCurrentStatus(
    conn: Door, queue_id: int, server_id: int, station: int
) -> bytes:
    """The 64 bytes of status of a queue server."""
    return conn.read_queue_server_current_status(queue_id, server_id, station)


def NWSetQueueServerCurrentStatus(conn: Door, queue_id: int, record: bytes) -> None:
    """Sets up to 64 bytes of status of this queue server."""
    conn.set_queue_server_current_status(queue_id, record)


def NWGetQueueJobSize(conn: Door, queue_id: int, job_number: int) -> int:
    """The length of a job's data."""
    return conn.get_queue_job_size(queue_id, job_number)


# -- Creating Queue Servers in the Bindery


def NWCreateObject(
    conn: Door, name: str, object_type: int, flags: int = STATIC, security: int = SECURITY
) -> None:
    """Creates an object of the bindery."""
    conn.create_object(name, object_type, flags, security)


def NWDeleteObject(conn: Door, name: str, object_type: int) -> None:
    """Deletes an object with its properties."""
    conn.delete_object(name, object_type)


def NWRenameObject(conn: Door, name: str, object_type: int, new_name: str) -> None:
    """Gives an object another name."""
    conn.rename_object(name, object_type, new_name)


def NWChangeObjectSecurity(conn: Door, name: str, object_type: int, security: int) -> None:
    """Changes who may see and change an object."""
    conn.change_object_security(name, object_type, security)


def NWGetObjectID(conn: Door, name: str, object_type: int) -> int:
    """The id of an object."""
    return conn.get_object_id(name, object_type)


def NWGetObjectName(conn: Door, object_id: int) -> tuple[str, int]:
    """Name and type of an object."""
    return conn.get_object_name(object_id)


def NWScanObject(
    conn: Door, object_type: int, pattern: str = "*", last_id: int = FIRST
) -> ObjectInfo:
    """The next object after `last_id` that fits; 0xFC after the last one."""
    return conn.scan_object(last_id, object_type, pattern)


def NWChangeObjectPassword(conn: Door, name: str, object_type: int, old: str, new: str) -> None:
    """Gives an object a password; supervisors need no old one."""
    conn.change_object_password(name, object_type, old, new)


def NWVerifyObjectPassword(conn: Door, name: str, object_type: int, password: str) -> None:
    """Refused unless it is the password."""
    conn.verify_object_password(name, object_type, password)


def NWCreateProperty(
    conn: Door,
    name: str,
    object_type: int,
    property_name: str,
    flags: int,
    security: int = SECURITY,
) -> None:
    """Gives an object a property: SET or ITEM."""
    conn.create_property(name, object_type, property_name, flags, security)


def NWDeleteProperty(conn: Door, name: str, object_type: int, property_name: str) -> None:
    """Takes a property away."""
    conn.delete_property(name, object_type, property_name)


def NWChangePropertySecurity(
    conn: Door, name: str, object_type: int, property_name: str, security: int
) -> None:
    """Changes who may read and write a property."""
    conn.change_property_security(name, object_type, property_name, security)


def NWScanProperty(
    conn: Door, name: str, object_type: int, pattern: str = "*", instance: int = FIRST
) -> PropertyInfo:
    """The next property that fits; 0xFB after the last one."""
    return conn.scan_property(name, object_type, pattern, instance)


def NWReadPropertyValue(
    conn: Door, name: str, object_type: int, property_name: str, segment: int = 1
) -> PropertyValue:
    """One segment of a value: 128 bytes, or 32 object ids of a set."""
    return conn.read_property_value(name, object_type, property_name, segment)


def NWWritePropertyValue(
    conn: Door,
    name: str,
    object_type: int,
    property_name: str,
    value: bytes,
    segment: int = 1,
    more: bool = False,
) -> None:
    """Writes one segment of an item's value."""
    conn.write_property_value(name, object_type, property_name, segment, value, more)


def NWAddObjectToSet(
    conn: Door,
    name: str,
    object_type: int,
    property_name: str,
    member_name: str,
    member_type: int = NWOT_USER,
) -> None:
    """Adds an object to a set."""
    conn.add_object_to_set(name, object_type, property_name, member_name, member_type)


def NWDeleteObjectFromSet(
    conn: Door,
    name: str,
    object_type: int,
    property_name: str,
    member_name: str,
    member_type: int = NWOT_USER,
) -> None:
    """Takes an object out of a set."""
    conn.delete_object_from_set(name, object_type, property_name, member_name, member_type)


def NWIsObjectInSet(
    conn: Door,
    name: str,
    object_type: int,
    property_name: str,
    member_name: str,
    member_type: int = NWOT_USER,
) -> bool:
    """Whether an object is in a set."""
    return conn.is_object_in_set(name, object_type, property_name, member_name, member_type)


def NWGetBinderyAccessLevel(conn: Door) -> AccessLevel:
    """What this station may do in the bindery, and as whom."""
    return conn.get_bindery_access_level()


# -- Servicing Entries in the Queue


def NWLoginToServerPlatform(
    conn: Door, name: str, object_type: int = NWOT_USER, password: str = ""
) -> None:
    """Logs the station in as an object."""
    conn.login(name, object_type, password)


def NWLogoutFromServerPlatform(conn: Door) -> None:
    """Logs it out again."""
    conn.logout()


def NWAttachQueueServerToQueue(conn: Door, queue_id: int) -> None:
    """Attaches this queue server, which has to be in Q_SERVERS."""
    conn.attach_queue_server_to_queue(queue_id)


def NWDetachQueueServerFromQueue(conn: Door, queue_id: int) -> None:
    """Detaches it; jobs that it services are aborted."""
    conn.detach_queue_server_from_queue(queue_id)


def NWServiceQueueJob(
    conn: Door, queue_id: int, job_type: int | Sequence[int] = ANY_TYPE
) -> NWQueueJobStruct:
    """The first job that may be serviced now, which is this server's from then on."""
    types = [job_type] if isinstance(job_type, int) else job_type
    return conn.service_queue_job(queue_id, [] if ANY_TYPE in types else types)


def NWFinishServicingQueueJob(conn: Door, queue_id: int, job_number: int, charge: int = 0) -> None:
    """The job is done, and gone with its file."""
    conn.finish_servicing_queue_job(queue_id, job_number, charge)


def NWAbortServicingQueueJob(conn: Door, queue_id: int, job_number: int) -> None:
    """The job is not done: its restart flag states whether it stays."""
    conn.abort_servicing_queue_job(queue_id, job_number)


def NWChangeToClientRights(conn: Door, queue_id: int, job_number: int) -> None:
    """The station has the identity and rights of the job's client."""
    conn.change_to_client_rights(queue_id, job_number)


def NWRestoreQueueServerRights(conn: Door) -> None:
    """The station has its own identity and rights again."""
    conn.restore_queue_server_rights()
