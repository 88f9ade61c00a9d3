"""`[limits]`: what the doors allow their clients, beside the limits of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from posthouse.engine.settings import EngineLimits
from posthouse.model.settings_kinds import (
    GIB,
    MIB,
    SIZE_MAX,
    Fault,
    size,
    within,
)
from posthouse.net.connections import CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX
from posthouse.protocols.memory import MEMORY_LIMIT, UNSYNCED_MAX


class LimitSettings(EngineLimits, frozen=True):
    """What clients together, or one of them, may take."""

    memory: Annotated[
        int,
        size(
            16 * MIB,
            SIZE_MAX,
            "All buffers of all connections, with what peers have announced and not brought "
            "yet; one address has at most a quarter. Neither the index of messages nor "
            "`express_memory` counts.",
        ),
    ] = MEMORY_LIMIT
    unsynced: Annotated[
        int, size(MIB, 16 * GIB, "What may wait for a sync; above it senders wait for the disk.")
    ] = UNSYNCED_MAX
    connections_max: Annotated[int, within(1, 1_000_000, "Connections of one listener.")] = (
        CONNECTIONS_MAX
    )
    connections_per_address_max: Annotated[
        int, within(1, 1_000_000, "Connections of one listener from one address.")
    ] = CONNECTIONS_PER_ADDRESS_MAX
    bulk_read_share_percent: Annotated[
        int,
        within(
            1,
            100,
            "The part of the time that bulk reads, such as Spark's, and searches have while "
            "others keep the queue manager busy, at least; 100: they wait for nobody.",
        ),
    ] = 10
    scans_per_user: Annotated[
        int,
        within(
            1,
            10_000,
            "Searches through queues, by a filter or an identifier, that one user has at a "
            "time; more are refused.",
        ),
    ] = 4
    stop_s: Annotated[int, within(1, 600, "How long a stop waits for calls that have begun.")] = 5

    @property
    def bulk_read_share(self) -> float:
        """The part of the time of bulk reads, of 1."""
        return self.bulk_read_share_percent / 100

    def faults(self) -> Iterator[Fault]:
        """More that waits for a sync than may be held."""
        if self.unsynced > self.memory:
            yield "unsynced", "this is more than memory allows"
