"""Calls about jobs, their files and the bindery that are more than one method of the engine.

All others are carried out by the method that their entry in `wire/ncp` names.
"""

from __future__ import annotations

from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import NO_Q_JOB, NO_SUCH_MEMBER
from posthouse.model.errors import QmsError
from posthouse.model.qms import JobList
from posthouse.protocols.ncp.session import ServiceConnection, table
from posthouse.wire.ncp import queue_calls as calls
from posthouse.wire.ncp.bindery_calls import IS_IN_SET, SetMember
from posthouse.wire.ncp.calls import NOTHING, Empty
from posthouse.wire.ncp.functions import READ_FILE, ReadFile, write_file_data

OLD_LISTED_MAX: Final = 32_000  # numbers that fit in one datagram (decision 98)


def is_in_set(connection: ServiceConnection, manager: QueueManager, asked: SetMember) -> Empty:
    """Is Bindery Object In Set (0x43): the completion code is the answer."""
    if not manager.bindery.is_object_in_set(connection.of_station, *asked):
        raise QmsError(NO_SUCH_MEMBER, f"{asked.member_name} is not in {asked.property_name}")
    return NOTHING


def old_list_jobs(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly
) -> calls.JobNumbers:
    """Get Queue Job List (0x6B)."""
    found = manager.jobs.get_queue_job_list(connection.of_station, asked.queue, 1, OLD_LISTED_MAX)
    return calls.JobNumbers(found.numbers)


def list_jobs(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ListFrom
) -> JobList:
    """Get Queue Job List (0x81)."""
    return manager.jobs.get_queue_job_list(
        connection.of_station, asked.queue, asked.start, calls.LISTED_MAX
    )


def list_by_forms(
    connection: ServiceConnection, manager: QueueManager, asked: calls.FormList
) -> JobList:
    """Get Queue Jobs From Form List (0x89)."""
    return manager.jobs.get_queue_job_list(
        connection.of_station, asked.queue, asked.start, calls.LISTED_MAX, asked.types
    )


def old_change_position(
    connection: ServiceConnection, manager: QueueManager, asked: calls.JobPosition
) -> Empty:
    """Change Queue Job Position (0x6E). ncpfs sends the number the wrong way round (2.4)."""
    station, change = connection.of_station, manager.jobs.change_queue_job_position
    try:
        change(station, *asked)
    except QmsError as error:
        if error.completion != NO_Q_JOB:
            raise
        number = int.from_bytes(asked.number.to_bytes(2, "big"), "little")
        change(station, asked.queue, number, asked.position)
    return NOTHING


def service_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ServiceJob
) -> calls.OneJob:
    """Service Queue Job (0x71, 0x7C), of one type or of any."""
    types = (asked.job_type,)
    return calls.OneJob(manager.jobs.service_queue_job(connection.of_station, asked.queue, types))


def old_server_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ServerStatus
) -> calls.StatusRecord:
    """Read Queue Server Current Status (0x76), which has one byte for the station.

    Old calls show the low byte of a station; so the server is the first that has it.
    """
    station, queues = connection.of_station, manager.jobs
    seen = asked.server_id, asked.station
    attached = queues.read_queue_current_status(station, asked.queue).servers
    for server, number in attached:
        if (server, number & 0xFF) == seen:
            asked = asked._replace(station=number)
            break
    return calls.StatusRecord(queues.read_queue_server_current_status(station, *asked))


def read_file(connection: ServiceConnection, manager: QueueManager, asked: ReadFile) -> bytes:
    """Read From A File (0x48): fewer bytes where the file ends, or a datagram does."""
    size = asked.size
    if connection.datagrams:
        size = min(size, connection.buffer_size_max)
    data = manager.jobs.read_file(connection.of_station, asked.handle, asked.offset, size)
    return write_file_data(asked.offset, data)


JOB_HANDLERS: Final = table(
    (IS_IN_SET, is_in_set),
    (calls.OLD_LIST_JOBS, old_list_jobs),
    (calls.LIST_JOBS, list_jobs),
    (calls.LIST_BY_FORMS, list_by_forms),
    (calls.OLD_CHANGE_POSITION, old_change_position),
    (calls.OLD_SERVICE_JOB, service_job),
    (calls.SERVICE_JOB, service_job),
    (calls.OLD_SERVER_STATUS, old_server_status),
    (READ_FILE, read_file),
)
