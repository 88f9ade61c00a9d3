"""The steps of the document by its headings, in its own calls, over any door.

Each takes doors of stations that nobody has logged in on, or that are administrators already.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from posthouse.model.bindery import (
    ACCOUNT_BALANCE,
    ITEM,
    NWBS_LOGGED_READ,
    NWBS_OBJECT_WRITE,
    NWOT_ARCHIVE_QUEUE,
    NWOT_FILE_SERVER,
    NWOT_JOB_QUEUE,
    NWOT_JOB_SERVER,
    NWOT_PRINT_QUEUE,
    NWOT_PRINT_SERVER,
    NWOT_USER,
    NWOT_USER_GROUP,
    SET,
    is_set,
)
from posthouse.model.errors import QmsError
from posthouse.model.qms import (
    NWCF_ENTRY_OPEN,
    NWCF_SERVICE_RESTART,
    NWCF_USER_HOLD,
    QS_CANT_ADD_JOBS,
    NWQueueJobStruct,
)
from posthouse.qms import Door
from posthouse.qms import calls as nw

PASSWORD = "OPEN SESAME"
Enter = Callable[[str, int], Door]
"""A new station, logged in as an object whose password is PASSWORD, or as SUPERVISOR."""


def refused(completion: int, call: Callable[..., object], *arguments: object) -> None:
    """The call answers with a completion code."""
    with pytest.raises(QmsError) as info:
        call(*arguments)
    assert info.value.completion == completion


def user(supervisor: Door, name: str) -> None:
    """A user who can log in, in the group EVERYONE."""
    nw.NWCreateObject(supervisor, name, NWOT_USER)
    nw.NWChangeObjectPassword(supervisor, name, NWOT_USER, "", PASSWORD)
    if not nw.NWIsObjectInSet(
        supervisor, "EVERYONE", NWOT_USER_GROUP, "GROUP_MEMBERS", name, NWOT_USER
    ):
        nw.NWAddObjectToSet(supervisor, "EVERYONE", NWOT_USER_GROUP, "GROUP_MEMBERS", name)


def creating_queues_in_the_bindery(enter: Enter) -> None:
    supervisor = enter("SUPERVISOR", NWOT_USER)
    user(supervisor, "WALKER")
    walker = enter("WALKER", NWOT_USER)
    refused(0xD3, nw.NWCreateQueue, walker, "WALK", NWOT_JOB_QUEUE, "SYS:SYSTEM")
    for type in (NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE, NWOT_JOB_QUEUE):
        queue = nw.NWCreateQueue(supervisor, "WALK", type, "SYS:SYSTEM")
        assert nw.NWGetObjectID(supervisor, "WALK", type) == queue
        assert nw.NWGetObjectName(walker, queue) == ("WALK", type)
        flags = {}
        instance, more = 0xFFFFFFFF, True
        while more:
            found = nw.NWScanProperty(supervisor, "WALK", type, "Q_*", instance)
            flags[found.name] = is_set(found.flags)
            instance, more = found.instance, found.more
        assert flags.items() >= {
            ("Q_DIRECTORY", False),
            ("Q_SERVERS", True),
            ("Q_OPERATORS", True),
            ("Q_USERS", True),
        }
        refused(0xF9, nw.NWReadPropertyValue, walker, "WALK", type, "Q_DIRECTORY")
        value = nw.NWReadPropertyValue(supervisor, "WALK", type, "Q_DIRECTORY").value
        assert value.rstrip(b"\0") == b"SYS:SYSTEM\\%08X" % queue
    refused(0xEE, nw.NWCreateQueue, supervisor, "WALK", NWOT_JOB_QUEUE, "SYS:SYSTEM")
    # Q_USERS is empty: nobody can submit a job, not even the supervisor.
    queue = nw.NWGetObjectID(supervisor, "WALK", NWOT_JOB_QUEUE)
    refused(0xD3, nw.NWCreateQueueFile, supervisor, queue, NWQueueJobStruct())
    everyone = ("EVERYONE", NWOT_USER_GROUP)
    nw.NWAddObjectToSet(supervisor, "WALK", NWOT_JOB_QUEUE, "Q_USERS", *everyone)
    nw.NWAddObjectToSet(supervisor, "WALK", NWOT_JOB_QUEUE, "Q_OPERATORS", "SUPERVISOR")
    refused(0xF8, nw.NWAddObjectToSet, walker, "WALK", NWOT_JOB_QUEUE, "Q_USERS", "WALKER")
    nw.NWCreateProperty(supervisor, "WALK", NWOT_JOB_QUEUE, "DEVICE", ITEM)
    nw.NWWritePropertyValue(
        supervisor, "WALK", NWOT_JOB_QUEUE, "DEVICE", b"plotter".ljust(128, b"\0")
    )
    value = nw.NWReadPropertyValue(walker, "WALK", NWOT_JOB_QUEUE, "DEVICE").value
    assert value.rstrip(b"\0") == b"plotter"
    for type in (NWOT_PRINT_QUEUE, NWOT_ARCHIVE_QUEUE):
        nw.NWDestroyQueue(supervisor, nw.NWGetObjectID(supervisor, "WALK", type))
        refused(0xFC, nw.NWGetObjectID, supervisor, "WALK", type)
    refused(0xD3, nw.NWDestroyQueue, walker, queue)


def submitting_jobs_to_queues(enter: Enter) -> None:
    supervisor, walker = enter("SUPERVISOR", NWOT_USER), enter("WALKER", NWOT_USER)
    queue = nw.NWGetObjectID(supervisor, "WALK", NWOT_JOB_QUEUE)
    # 1) and 2): the fields that an application assigns, queueRecord by the conversion.
    printed = nw.PrintJobStruct(copies=2, banner_name=b"WALKER", form_number=7, description=b"memo")
    wanted = nw.NWConvertPrintStructToQueueStruct(printed)
    # 3) to 5)
    made = nw.NWCreateQueueFile(walker, queue, wanted._replace(client_id=1, job_number=99))
    assert made.job_control_flags & NWCF_ENTRY_OPEN
    assert made.client_id == nw.NWGetObjectID(walker, "WALKER", NWOT_USER)
    assert made.job_file_name == f"Q${queue & 0xFFFF:04X}.{made.job_number:03d}"
    nw.NWWriteFile(walker, made.job_file_handle, b"dear all, ")
    nw.NWWriteFile(walker, made.job_file_handle, b"good bye", offset=10)
    refused(0x88, nw.NWWriteFile, supervisor, made.job_file_handle, b"?")
    refused(0xD6, nw.NWCloseFileAndStartQueueJob, supervisor, queue, made.job_number)
    nw.NWCloseFileAndStartQueueJob(walker, queue, made.job_number)
    refused(0x88, nw.NWWriteFile, walker, made.job_file_handle, b"too late")
    entry = nw.NWReadQueueJobEntry(walker, queue, made.job_number)
    assert not entry.job_control_flags & NWCF_ENTRY_OPEN
    assert nw.NWConvertQueueStructToPrintStruct(entry) == printed
    assert nw.NWGetQueueJobSize(walker, queue, made.job_number) == 18
    # If an error occurs
    other = nw.NWCreateQueueFile(walker, queue, NWQueueJobStruct())
    handle = other.job_file_handle
    nw.NWCloseFileAndAbortQueueJob(walker, queue, other.job_number, handle)
    refused(0xD5, nw.NWReadQueueJobEntry, walker, queue, other.job_number)


def monitoring_and_controlling_the_status_of_jobs_and_queues(enter: Enter) -> None:
    supervisor, walker = enter("SUPERVISOR", NWOT_USER), enter("WALKER", NWOT_USER)
    user(supervisor, "OTHER")
    other = enter("OTHER", NWOT_USER)
    queue = nw.NWGetObjectID(supervisor, "WALK", NWOT_JOB_QUEUE)
    (first,) = nw.NWGetQueueJobList(walker, queue)
    made = nw.NWCreateQueueFile(walker, queue, NWQueueJobStruct(job_description=b"second"))
    nw.NWCloseFileAndStartQueueJob(walker, queue, made.job_number)
    # A user sees the jobs of others, and controls only its own.
    assert nw.NWGetQueueJobList(other, queue) == [first, made.job_number]
    entry = nw.NWReadQueueJobEntry(other, queue, made.job_number)
    refused(0xD6, nw.NWChangeQueueJobEntry, other, queue, entry)
    refused(0xD6, nw.NWRemoveJobFromQueue, other, queue, made.job_number)
    held = entry._replace(job_control_flags=NWCF_USER_HOLD, job_description=b"changed")
    nw.NWChangeQueueJobEntry(walker, queue, held)
    entry = nw.NWReadQueueJobEntry(other, queue, made.job_number)
    assert (entry.description, entry.job_control_flags) == ("changed", NWCF_USER_HOLD)
    nw.NWChangeQueueJobEntry(walker, queue, entry._replace(job_control_flags=0))
    # The order is the operators'.
    refused(0xD6, nw.NWChangeQueueJobPosition, walker, queue, made.job_number, 1)
    nw.NWChangeQueueJobPosition(supervisor, queue, made.job_number, 1)
    assert nw.NWGetQueueJobList(walker, queue) == [made.job_number, first]
    # So is the status.
    refused(0xD3, nw.NWSetQueueCurrentStatus, walker, queue, QS_CANT_ADD_JOBS)
    nw.NWSetQueueCurrentStatus(supervisor, queue, QS_CANT_ADD_JOBS)
    assert nw.NWReadQueueCurrentStatus(walker, queue).status == QS_CANT_ADD_JOBS
    refused(0xDA, nw.NWCreateQueueFile, walker, queue, NWQueueJobStruct())
    nw.NWSetQueueCurrentStatus(supervisor, queue, 0)
    assert nw.NWReadQueueCurrentStatus(walker, queue).jobs == 2
    nw.NWRemoveJobFromQueue(supervisor, queue, made.job_number)
    # Who is in neither set sees nothing.
    everyone = ("EVERYONE", NWOT_USER_GROUP)
    nw.NWDeleteObjectFromSet(supervisor, "WALK", NWOT_JOB_QUEUE, "Q_USERS", *everyone)
    refused(0xD3, nw.NWReadQueueCurrentStatus, walker, queue)
    refused(0xD3, nw.NWGetQueueJobList, walker, queue)
    refused(0xD3, nw.NWReadQueueJobEntry, walker, queue, first)
    nw.NWAddObjectToSet(supervisor, "WALK", NWOT_JOB_QUEUE, "Q_USERS", *everyone)


def creating_queue_servers_in_the_bindery(enter: Enter) -> None:
    supervisor, walker = enter("SUPERVISOR", NWOT_USER), enter("WALKER", NWOT_USER)
    name, type = "HELPER", NWOT_JOB_SERVER
    refused(0xF5, nw.NWCreateObject, walker, name, type)
    nw.NWCreateObject(supervisor, name, type)
    server = nw.NWGetObjectID(supervisor, name, type)
    nw.NWChangeObjectPassword(supervisor, name, type, "", PASSWORD)
    levels = NWBS_LOGGED_READ | NWBS_OBJECT_WRITE
    for property in ("PS_USERS", "PS_OPERATORS"):
        nw.NWCreateProperty(supervisor, name, type, property, SET, levels)
    files = nw.NWScanObject(supervisor, NWOT_FILE_SERVER)
    refused(0xFB, nw.NWScanProperty, supervisor, files.name, NWOT_FILE_SERVER, "ACCOUNT_SERVERS")
    nw.NWCreateProperty(supervisor, name, type, ACCOUNT_BALANCE, ITEM)
    nw.NWWritePropertyValue(supervisor, name, type, ACCOUNT_BALANCE, bytes(128))
    nw.NWAddObjectToSet(supervisor, name, type, "PS_OPERATORS", "SUPERVISOR")
    nw.NWAddObjectToSet(supervisor, name, type, "PS_USERS", "EVERYONE", NWOT_USER_GROUP)
    assert nw.NWIsObjectInSet(walker, name, type, "PS_USERS", "EVERYONE", NWOT_USER_GROUP)
    helper = enter(name, type)
    assert nw.NWGetBinderyAccessLevel(helper).id == server
    # One that is deleted again
    nw.NWCreateObject(supervisor, "SPARE", NWOT_PRINT_SERVER)
    nw.NWDeleteObject(supervisor, "SPARE", NWOT_PRINT_SERVER)
    refused(0xFC, nw.NWGetObjectID, supervisor, "SPARE", NWOT_PRINT_SERVER)


def servicing_entries_in_the_queue(enter: Enter) -> None:
    supervisor, walker = enter("SUPERVISOR", NWOT_USER), enter("WALKER", NWOT_USER)
    helper = enter("HELPER", NWOT_JOB_SERVER)
    queue = nw.NWGetObjectID(supervisor, "WALK", NWOT_JOB_QUEUE)
    # 2) not before it is in Q_SERVERS
    refused(0xD3, nw.NWAttachQueueServerToQueue, helper, queue)
    member = ("HELPER", NWOT_JOB_SERVER)
    nw.NWAddObjectToSet(supervisor, "WALK", NWOT_JOB_QUEUE, "Q_SERVERS", *member)
    nw.NWAttachQueueServerToQueue(helper, queue)
    # 3) to 5)
    status = nw.NWReadQueueCurrentStatus(helper, queue)
    assert [id for id, _ in status.servers] == [nw.NWGetObjectID(helper, *member)]
    (number,) = nw.NWGetQueueJobList(helper, queue)
    assert nw.NWReadQueueJobEntry(helper, queue, number).servicing_server_id_number == 0
    assert nw.NWGetQueueJobSize(helper, queue, number) == 18
    # 6) and 7)
    refused(0xD5, nw.NWServiceQueueJob, helper, queue, 8)  # of another type
    taken = nw.NWServiceQueueJob(helper, queue, 7)
    assert taken.job_number == number
    refused(0xD5, nw.NWServiceQueueJob, helper, queue)
    assert nw.NWReadFile(helper, taken.job_file_handle, 100) == b"dear all, good bye"
    assert nw.NWReadFile(helper, taken.job_file_handle, 4, offset=10) == b"good"
    entry = nw.NWReadQueueJobEntry(walker, queue, number)
    assert entry.servicing_server_id_number == nw.NWGetObjectID(helper, *member)
    refused(0xD7, nw.NWChangeQueueJobEntry, walker, queue, entry)
    # 8) as the client
    nw.NWChangeToClientRights(helper, queue, number)
    walkers = nw.NWGetObjectID(supervisor, "WALKER", NWOT_USER)
    assert nw.NWGetBinderyAccessLevel(helper).id == walkers
    nw.NWRestoreQueueServerRights(helper)
    assert nw.NWGetBinderyAccessLevel(helper).id == nw.NWGetObjectID(helper, *member)
    refused(0xD9, nw.NWRestoreQueueServerRights, helper)
    ((_, station),) = status.servers
    nw.NWSetQueueServerCurrentStatus(helper, queue, b"half done".ljust(64, b"\0"))
    record = nw.NWReadQueueServerCurrentStatus(
        walker, queue, nw.NWGetObjectID(helper, *member), station
    )
    assert record.rstrip(b"\0") == b"half done"
    # 9) and 10)
    nw.NWFinishServicingQueueJob(helper, queue, number)
    assert nw.NWGetQueueJobList(helper, queue) == []
    for flags in (NWCF_SERVICE_RESTART, 0):
        made = nw.NWCreateQueueFile(walker, queue, NWQueueJobStruct(job_control_flags=flags))
        nw.NWCloseFileAndStartQueueJob(walker, queue, made.job_number)
        nw.NWServiceQueueJob(helper, queue)
        nw.NWAbortServicingQueueJob(helper, queue, made.job_number)
        left = nw.NWGetQueueJobList(walker, queue)
        assert left == ([made.job_number] if flags else [])
        if flags:
            nw.NWRemoveJobFromQueue(walker, queue, made.job_number)
    nw.NWDetachQueueServerFromQueue(helper, queue)
    refused(0xD2, nw.NWDetachQueueServerFromQueue, helper, queue)
    refused(0xD9, nw.NWServiceQueueJob, helper, queue)


HEADINGS = (
    creating_queues_in_the_bindery,
    submitting_jobs_to_queues,
    monitoring_and_controlling_the_status_of_jobs_and_queues,
    creating_queue_servers_in_the_bindery,
    servicing_entries_in_the_queue,
)
"""In the order of the document; each goes on where the one before ended."""
