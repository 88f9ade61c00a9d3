"""`[qms]`: limits of job queues and of the bindery (qms-facts 2.3; decision 98)."""

from __future__ import annotations

from typing import Annotated, Literal

from posthouse.model.qms import JOBS_MAX
from posthouse.model.settings_kinds import (
    COUNT_MAX,
    DAY_S,
    GIB,
    KIB,
    SIZE_MAX,
    Section,
    meaning,
    size,
    within,
)


class QmsSettings(Section, frozen=True):
    """Job queues and the bindery, for the clients of every protocol."""

    jobs_max: Annotated[
        int,
        within(
            1,
            JOBS_MAX,
            "Largest number of jobs in one queue. Up to 250, job numbers end at 999, as in "
            "NetWare; above it, at 65,535.",
        ),
    ] = 250
    servers_max: Annotated[
        int, within(1, 65_535, "Largest number of queue servers attached to one queue.")
    ] = 25
    queues_max: Annotated[int, within(1, COUNT_MAX, "Largest number of job queues.")] = 10_000
    objects_max: Annotated[
        int, within(16, COUNT_MAX, "Largest number of objects in the bindery, including users.")
    ] = 100_000
    properties_max: Annotated[
        int, within(16, COUNT_MAX, "Largest number of properties of one object.")
    ] = 256
    members_max: Annotated[int, within(16, COUNT_MAX, "Largest number of members of one set.")] = (
        100_000
    )
    stations_max: Annotated[
        int,
        within(
            1,
            65_534,
            "Largest number of connections at a time: NetWare clients, sessions and HTTP leases.",
        ),
    ] = 1_000
    station_lease_s: Annotated[
        int, within(1, DAY_S, "Time after which an unused station over plain HTTP ends.")
    ] = 60
    file_max: Annotated[
        int,
        size(4 * KIB, SIZE_MAX, "Largest data of one job. NetWare clients can access 4 GiB of it."),
    ] = GIB
    history_max: Annotated[
        int, within(0, COUNT_MAX, "Number of ended jobs that are kept in the history.")
    ] = 10_000
    empty_passwords: Annotated[
        bool, meaning("Allows empty passwords for objects of the bindery.")
    ] = False
    names_before_login: Annotated[
        bool,
        meaning(
            "Shows the names of job queues, and whether a user exists, to clients that have "
            "not logged in, as NetWare does."
        ),
    ] = False
    bridge_retry_s: Annotated[
        int,
        within(1, DAY_S, "Pause before a message that could not submit its job is tried again."),
    ] = 5
    clock: Annotated[
        Literal["local", "utc"],
        meaning("Clock of entry and execution times. Jobs have no time zone."),
    ] = "local"

    @property
    def local_clock(self) -> bool:
        """Whether the runtime has a time zone."""
        return self.clock == "local"
