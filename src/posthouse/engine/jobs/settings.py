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
    """Job queues and the bindery, whatever door their clients come through."""

    jobs_max: Annotated[
        int,
        within(
            1,
            JOBS_MAX,
            "Jobs in one queue. Up to 250 their numbers end at 999, as in NetWare, above it "
            "at 65,535.",
        ),
    ] = 250
    servers_max: Annotated[int, within(1, 65_535, "Queue servers attached to one queue.")] = 25
    queues_max: Annotated[int, within(1, COUNT_MAX, "Job queues.")] = 10_000
    objects_max: Annotated[
        int, within(16, COUNT_MAX, "Objects in the bindery; users are some.")
    ] = 100_000
    properties_max: Annotated[int, within(16, COUNT_MAX, "Properties of one object.")] = 256
    members_max: Annotated[int, within(16, COUNT_MAX, "Members of one set.")] = 100_000
    stations_max: Annotated[
        int,
        within(1, 65_534, "Connections at a time: of NetWare clients, sessions and HTTP leases."),
    ] = 1_000
    station_lease_s: Annotated[
        int, within(1, DAY_S, "A station over plain HTTP ends when nobody has used it for so long.")
    ] = 60
    file_max: Annotated[
        int, size(4 * KIB, SIZE_MAX, "Data of one job. NetWare clients reach 4 GiB of it.")
    ] = GIB
    history_max: Annotated[
        int, within(0, COUNT_MAX, "Jobs that have ended and are remembered.")
    ] = 10_000
    empty_passwords: Annotated[
        bool, meaning("Lets objects of the bindery have an empty password.")
    ] = False
    names_before_login: Annotated[
        bool,
        meaning(
            "Shows clients that have not logged in the names of job queues, and whether a "
            "user exists, as NetWare does."
        ),
    ] = False
    bridge_retry_s: Annotated[
        int,
        within(1, DAY_S, "Pause before a message is tried again that could not submit its job."),
    ] = 5
    clock: Annotated[
        Literal["local", "utc"],
        meaning("The clock of entry and execution times; jobs carry no time zone."),
    ] = "local"

    @property
    def local_clock(self) -> bool:
        """Whether the runtime tells the time zone."""
        return self.clock == "local"
