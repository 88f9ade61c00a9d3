"""The calls about jobs, of function 23: the same for old and new, but for their forms (3.1)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import NO_Q_JOB
from posthouse.model.errors import QmsError
from posthouse.model.qms import ANY_TYPE, JobList, JobSize
from posthouse.protocols.ncp.handler import table
from posthouse.protocols.ncp.session import ServiceConnection
from posthouse.wire.ncp import queue_calls as calls
from posthouse.wire.ncp.calls import NOTHING, Empty

OLD_LISTED_MAX: Final = 32_000  # numbers that fit in one datagram (decision 98)
FROM_THE_HEAD: Final = 0, 0xFFFF_FFFF


def create_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJobStructure
) -> calls.OneJob:
    """Create Queue Job And File (0x68, 0x79)."""
    return calls.OneJob(manager.job_queues.create_queue_file(connection.of_station, *asked))


def start_job(connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob) -> Empty:
    """Close File And Start Queue Job (0x69, 0x7F)."""
    manager.job_queues.close_file_and_start_queue_job(connection.of_station, *asked)
    return NOTHING


def remove_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob
) -> Empty:
    """Remove Job From Queue (0x6A, 0x80)."""
    manager.job_queues.remove_job_from_queue(connection.of_station, *asked)
    return NOTHING


def old_list_jobs(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly
) -> calls.JobNumbers:
    """Get Queue Job List (0x6B)."""
    found = manager.job_queues.get_queue_job_list(
        connection.of_station, asked.queue, 1, OLD_LISTED_MAX
    )
    return calls.JobNumbers(found.numbers)


def list_jobs(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ListFrom
) -> JobList:
    """Get Queue Job List (0x81)."""
    return manager.job_queues.get_queue_job_list(
        connection.of_station, asked.queue, _start(asked.start), calls.LISTED_MAX
    )


def list_by_forms(
    connection: ServiceConnection, manager: QueueManager, asked: calls.FormList
) -> JobList:
    """Get Queue Jobs From Form List (0x89)."""
    return manager.job_queues.get_queue_job_list(
        connection.of_station,
        asked.queue,
        _start(asked.start),
        calls.LISTED_MAX,
        _types(asked.types),
    )


def _start(position: int) -> int:
    return 1 if position in FROM_THE_HEAD else position


def _types(types: Collection[int]) -> Collection[int] | None:
    return None if ANY_TYPE in types else types


def read_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob
) -> calls.OneJob:
    """Read Queue Job Entry (0x6C, 0x7A)."""
    return calls.OneJob(manager.job_queues.read_queue_job_entry(connection.of_station, *asked))


def change_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJobStructure
) -> Empty:
    """Change Queue Job Entry (0x6D, 0x7B)."""
    manager.job_queues.change_queue_job_entry(connection.of_station, *asked)
    return NOTHING


def change_position(
    connection: ServiceConnection, manager: QueueManager, asked: calls.JobPosition
) -> Empty:
    """Change Job Priority (0x82)."""
    manager.job_queues.change_queue_job_position(connection.of_station, *asked)
    return NOTHING


def old_change_position(
    connection: ServiceConnection, manager: QueueManager, asked: calls.JobPosition
) -> Empty:
    """Change Queue Job Position (0x6E). ncpfs sends the number the wrong way round (2.4)."""
    try:
        return change_position(connection, manager, asked)
    except QmsError as error:
        if error.completion != NO_Q_JOB:
            raise
    number = int.from_bytes(asked.number.to_bytes(2, "big"), "little")
    return change_position(connection, manager, asked._replace(number=number))


def service_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ServiceJob
) -> calls.OneJob:
    """Service Queue Job (0x71, 0x7C)."""
    types = _types((asked.job_type,))
    return calls.OneJob(
        manager.job_queues.service_queue_job(connection.of_station, asked.queue, types)
    )


def service_by_forms(
    connection: ServiceConnection, manager: QueueManager, asked: calls.FormList
) -> calls.OneJob:
    """Service Queue Job By Form List (0x8A). Choice: the start position means nothing here."""
    types = _types(asked.types)
    return calls.OneJob(
        manager.job_queues.service_queue_job(connection.of_station, asked.queue, types)
    )


def finish_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.FinishJob
) -> Empty:
    """Finish Servicing Queue Job (0x72, 0x83)."""
    manager.job_queues.finish_servicing_queue_job(connection.of_station, *asked)
    return NOTHING


def abort_job(connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob) -> Empty:
    """Abort Servicing Queue Job (0x73, 0x84)."""
    manager.job_queues.abort_servicing_queue_job(connection.of_station, *asked)
    return NOTHING


def client_rights(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob
) -> Empty:
    """Change To Client Rights (0x74, 0x85)."""
    manager.job_queues.change_to_client_rights(connection.of_station, *asked)
    return NOTHING


def file_size(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueJob
) -> JobSize:
    """Get Queue Job File Size (0x78, 0x87)."""
    return manager.job_queues.get_queue_job_size(connection.of_station, *asked)


def move_job(
    connection: ServiceConnection, manager: QueueManager, asked: calls.MoveJob
) -> calls.NewNumber:
    """Move Queue Job (0x88)."""
    return calls.NewNumber(manager.job_queues.move_queue_job(connection.of_station, *asked))


JOB_HANDLERS: Final = table(
    (calls.OLD_CREATE_JOB, create_job),
    (calls.CREATE_JOB, create_job),
    (calls.OLD_START_JOB, start_job),
    (calls.START_JOB, start_job),
    (calls.OLD_REMOVE_JOB, remove_job),
    (calls.REMOVE_JOB, remove_job),
    (calls.OLD_LIST_JOBS, old_list_jobs),
    (calls.LIST_JOBS, list_jobs),
    (calls.LIST_BY_FORMS, list_by_forms),
    (calls.OLD_READ_JOB, read_job),
    (calls.READ_JOB, read_job),
    (calls.OLD_CHANGE_JOB, change_job),
    (calls.CHANGE_JOB, change_job),
    (calls.OLD_CHANGE_POSITION, old_change_position),
    (calls.CHANGE_POSITION, change_position),
    (calls.OLD_SERVICE_JOB, service_job),
    (calls.SERVICE_JOB, service_job),
    (calls.SERVICE_BY_FORMS, service_by_forms),
    (calls.OLD_FINISH_JOB, finish_job),
    (calls.FINISH_JOB, finish_job),
    (calls.OLD_ABORT_JOB, abort_job),
    (calls.ABORT_JOB, abort_job),
    (calls.OLD_CLIENT_RIGHTS, client_rights),
    (calls.CLIENT_RIGHTS, client_rights),
    (calls.OLD_FILE_SIZE, file_size),
    (calls.FILE_SIZE, file_size),
    (calls.MOVE_JOB, move_job),
)
