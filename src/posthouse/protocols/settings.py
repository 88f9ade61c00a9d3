"""`[limits]`: limits of the protocols on their clients, beside those of the engine."""

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
    """Limits for all clients together, and for each of them."""

    memory: Annotated[
        int,
        size(
            16 * MIB,
            SIZE_MAX,
            "Memory for the buffers of all connections, including data that peers have "
            "announced but not sent yet. One address may use a quarter. The index of messages"
            " and `express_memory` are not included.",
        ),
    ] = MEMORY_LIMIT
    unsynced: Annotated[
        int,
        size(MIB, 16 * GIB, "Data that may wait for a sync. Above it, senders wait for the disk."),
    ] = UNSYNCED_MAX
    connections_max: Annotated[
        int, within(1, 1_000_000, "Largest number of connections of one listener.")
    ] = CONNECTIONS_MAX
    connections_per_address_max: Annotated[
        int, within(1, 1_000_000, "Largest number of connections of one listener from one address.")
    ] = CONNECTIONS_PER_ADDRESS_MAX
    bulk_read_share_percent: Annotated[
        int,
        within(
            1,
            100,
            "Smallest part of the time for bulk reads, such as Spark's, and searches while "
            "the queue manager is busy with other calls. 100: they never wait.",
        ),
    ] = 10
    scans_per_user: Annotated[
        int,
        within(
            1,
            10_000,
            "Largest number of searches through queues, by filter or identifier, that one "
            "user may run at a time. More are refused.",
        ),
    ] = 4
    stop_s: Annotated[
        int, within(1, 600, "Longest time that a stop waits for calls in progress.")
    ] = 5

    @property
    def bulk_read_share(self) -> float:
        """The part of the time of bulk reads, of 1."""
        return self.bulk_read_share_percent / 100

    def faults(self) -> Iterator[Fault]:
        """More that waits for a sync than may be held."""
        if self.unsynced > self.memory:
            yield "unsynced", "this is more than memory allows"
