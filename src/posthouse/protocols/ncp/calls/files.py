"""The file of a job: read, write, size, close (qms-facts 1.5)."""

from __future__ import annotations

from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.protocols.ncp.handler import table
from posthouse.protocols.ncp.session import ServiceConnection
from posthouse.wire.ncp.calls import NOTHING, Empty
from posthouse.wire.ncp.functions import (
    CLOSE_FILE,
    CURRENT_SIZE,
    READ_FILE,
    WRITE_FILE,
    FileSize,
    OpenFile,
    ReadFile,
    WriteFile,
    write_file_data,
)


def close_file(connection: ServiceConnection, manager: QueueManager, asked: OpenFile) -> Empty:
    """Close File (0x42)."""
    manager.job_queues.close_file(connection.of_station, asked.handle)
    return NOTHING


def current_size(connection: ServiceConnection, manager: QueueManager, asked: OpenFile) -> FileSize:
    """Get Current Size of File (0x47)."""
    return FileSize(manager.job_queues.file_size(connection.of_station, asked.handle))


def read_file(connection: ServiceConnection, manager: QueueManager, asked: ReadFile) -> bytes:
    """Read From A File (0x48): fewer bytes where the file ends, or a datagram does."""
    size = asked.size
    if connection.datagrams:
        size = min(size, connection.buffer_size_max)
    data = manager.job_queues.read_file(connection.of_station, asked.handle, asked.offset, size)
    return write_file_data(asked.offset, data)


def write_file(connection: ServiceConnection, manager: QueueManager, asked: WriteFile) -> Empty:
    """Write to a File (0x49)."""
    manager.job_queues.write_file(connection.of_station, asked.handle, asked.offset, asked.data)
    return NOTHING


FILE_HANDLERS: Final = table(
    (CLOSE_FILE, close_file),
    (CURRENT_SIZE, current_size),
    (READ_FILE, read_file),
    (WRITE_FILE, write_file),
)
