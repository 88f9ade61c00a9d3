"""The calls about queues and their servers, of function 23 (qms-facts 3.1, 3.2)."""

from __future__ import annotations

from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.qms import QueueStatus
from posthouse.protocols.ncp.handler import table
from posthouse.protocols.ncp.session import ServiceConnection
from posthouse.wire.ncp import queue_calls as calls
from posthouse.wire.ncp.calls import NOTHING, Empty


def create_queue(
    connection: ServiceConnection, manager: QueueManager, asked: calls.CreateQueue
) -> calls.QueueOnly:
    """Create Queue (0x64)."""
    kind, name, handle, path = asked
    station = connection.of_station
    return calls.QueueOnly(
        manager.job_queues.create_queue(station, kind, name, path, directory_handle=handle)
    )


def destroy_queue(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly
) -> Empty:
    """Destroy Queue (0x65)."""
    manager.job_queues.destroy_queue(connection.of_station, asked.queue)
    return NOTHING


def read_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly
) -> QueueStatus:
    """Read Queue Current Status (0x66, 0x7D)."""
    return manager.job_queues.read_queue_current_status(connection.of_station, asked.queue)


def set_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.SetQueueStatus
) -> Empty:
    """Set Queue Current Status (0x67, 0x7E)."""
    manager.job_queues.set_queue_current_status(connection.of_station, *asked)
    return NOTHING


def attach(connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly) -> Empty:
    """Attach Queue Server To Queue (0x6F)."""
    manager.job_queues.attach_queue_server_to_queue(connection.of_station, asked.queue)
    return NOTHING


def detach(connection: ServiceConnection, manager: QueueManager, asked: calls.QueueOnly) -> Empty:
    """Detach Queue Server From Queue (0x70)."""
    manager.job_queues.detach_queue_server_from_queue(connection.of_station, asked.queue)
    return NOTHING


def restore_rights(connection: ServiceConnection, manager: QueueManager, asked: Empty) -> Empty:
    """Restore Queue Server Rights (0x75)."""
    manager.job_queues.restore_queue_server_rights(connection.of_station)
    return NOTHING


def server_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ServerStatus
) -> calls.StatusRecord:
    """Read Queue Server Current Status (0x86)."""
    return calls.StatusRecord(
        manager.job_queues.read_queue_server_current_status(connection.of_station, *asked)
    )


def old_server_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.ServerStatus
) -> calls.StatusRecord:
    """Read Queue Server Current Status (0x76), which has one byte for the station.

    Old calls show the low byte of a station; so the server is the first that has it.
    """
    station, queues = connection.of_station, manager.job_queues
    seen = asked.server_id, asked.station
    attached = queues.read_queue_current_status(station, asked.queue).servers
    for server, number in attached:
        if (server, number & 0xFF) == seen:
            asked = asked._replace(station=number)
            break
    return server_status(connection, manager, asked)


def set_server_status(
    connection: ServiceConnection, manager: QueueManager, asked: calls.SetServerStatus
) -> Empty:
    """Set Queue Server Current Status (0x77)."""
    manager.job_queues.set_queue_server_current_status(connection.of_station, *asked)
    return NOTHING


QUEUE_HANDLERS: Final = table(
    (calls.CREATE_QUEUE, create_queue),
    (calls.DESTROY_QUEUE, destroy_queue),
    (calls.OLD_READ_STATUS, read_status),
    (calls.READ_STATUS, read_status),
    (calls.OLD_SET_STATUS, set_status),
    (calls.SET_STATUS, set_status),
    (calls.ATTACH, attach),
    (calls.DETACH, detach),
    (calls.RESTORE_RIGHTS, restore_rights),
    (calls.OLD_SERVER_STATUS, old_server_status),
    (calls.SERVER_STATUS, server_status),
    (calls.SET_SERVER_STATUS, set_server_status),
)
