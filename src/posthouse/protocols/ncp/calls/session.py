"""The small functions of a connection: clock, sizes, who is there (qms-facts 1.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from posthouse.engine.manager import QueueManager
from posthouse.model.completion_codes import FAILURE
from posthouse.model.errors import QmsError
from posthouse.protocols.ncp.session import ServiceConnection, table
from posthouse.wire.ncp.bindery_calls import (
    SERVER_INFORMATION,
    STATION_INFORMATION,
    ServerInformation,
    Station,
    StationInformation,
)
from posthouse.wire.ncp.calls import NOTHING, Empty
from posthouse.wire.ncp.functions import (
    CLOCK_SIZE,
    END_OF_JOB,
    NEGOTIATE,
    NEGOTIATE_SIZE,
    SERVER_CLOCK,
    AcceptedSize,
    BufferSize,
    ProposedSize,
    ServerClock,
)

VERSION: Final = 3, 12  # calls choose the new family from 3.11 on
BUFFER_SIZE_MIN: Final = 512
QUEUE_VERSION: Final = 1


def pack_clock(local_s: int) -> bytes:
    """Year, month, day, hour, minute, second, and the day of the week from Sunday."""
    at = datetime.fromtimestamp(local_s, UTC)
    clock = at.month, at.day, at.hour, at.minute, at.second, at.isoweekday() % 7
    return bytes((at.year % 100, *clock))


def server_clock(connection: ServiceConnection, manager: QueueManager, asked: Empty) -> ServerClock:
    """Get File Server Date And Time (0x14)."""
    return ServerClock(pack_clock(manager.jobs.local_now()))


def end_of_job(connection: ServiceConnection, manager: QueueManager, asked: Empty) -> Empty:
    """End of Job (0x18). Choice: what a task has open belongs to its connection and stays."""
    return NOTHING


def negotiate(
    connection: ServiceConnection, manager: QueueManager, asked: BufferSize
) -> BufferSize:
    """Negotiate Buffer Size (0x21)."""
    return BufferSize(_accepted(connection, asked.size))


def negotiate_size(
    connection: ServiceConnection, manager: QueueManager, asked: ProposedSize
) -> AcceptedSize:
    """Get Big Packet NCP Max Packet Size (0x61). No flags: signing is refused."""
    return AcceptedSize(_accepted(connection, asked.size), 0, 0)


def _accepted(connection: ServiceConnection, proposed: int) -> int:
    return min(max(proposed, BUFFER_SIZE_MIN), connection.buffer_size_max)


def server_information(
    connection: ServiceConnection, manager: QueueManager, asked: Empty
) -> ServerInformation:
    """Get File Server Information (0x11)."""
    protocol = connection.protocol
    return ServerInformation(
        name=protocol.server_name.upper(),
        major=VERSION[0],
        minor=VERSION[1],
        connections_max=protocol.limits.connections_max,
        connections=len(protocol.services),
        volumes=0,
        revision=0,
        sft_level=0,
        tts_level=0,
        peak=protocol.peak,
        accounting=1,
        vap=0,
        queue_version=QUEUE_VERSION,
        print_version=0,
        console_version=0,
        restriction_level=0,
        bridge_version=0,
        reserved=b"",
    )


def station_information(
    connection: ServiceConnection, manager: QueueManager, asked: Station
) -> StationInformation:
    """Get Station's Logged Info (0x1C); of others only for who has logged in."""
    own = connection.of_station
    found = manager.stations.find(asked.connection)
    if found is None or (found is not own and not own.object_id):
        raise QmsError(FAILURE, f"there is no connection {asked.connection}")
    if not found.object_id:
        return StationInformation(0, 0, "", bytes(CLOCK_SIZE), 0)
    known = manager.bindery.get_object_name(own, found.object_id)
    at_utc = found.logged_in_utc
    logged_in = pack_clock(at_utc + manager.jobs.utc_offset_s(at_utc))
    return StationInformation(known.id, known.type, known.name, logged_in, 0)


SESSION_HANDLERS: Final = table(
    (SERVER_CLOCK, server_clock),
    (END_OF_JOB, end_of_job),
    (NEGOTIATE, negotiate),
    (NEGOTIATE_SIZE, negotiate_size),
    (SERVER_INFORMATION, server_information),
    (STATION_INFORMATION, station_information),
)
