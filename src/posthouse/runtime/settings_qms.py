"""The section `[qms]` of `posthouse.toml`: limits of job queues and of the bindery."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from posthouse.engine.settings import QmsSettings
from posthouse.model.qms import JOBS_MAX
from posthouse.model.settings_kinds import COUNT_MAX, DAY_S, SIZE, SIZE_MAX, Section
from posthouse.store.settings import KIB

_qms = QmsSettings()


class QmsSection(Section, frozen=True):
    """Job queues and the bindery, whatever door their clients come through."""

    jobs_max: Annotated[
        int,
        Meta(
            ge=1,
            le=JOBS_MAX,
            description="Jobs in one queue. Up to 250 their numbers end at 999, as in NetWare, "
            "above it at 65,535.",
        ),
    ] = _qms.jobs_max
    servers_max: Annotated[
        int, Meta(ge=1, le=65_535, description="Queue servers attached to one queue.")
    ] = _qms.servers_max
    queues_max: Annotated[int, Meta(ge=1, le=COUNT_MAX, description="Job queues.")] = (
        _qms.queues_max
    )
    objects_max: Annotated[
        int, Meta(ge=16, le=COUNT_MAX, description="Objects in the bindery; users are some.")
    ] = _qms.objects_max
    properties_max: Annotated[
        int, Meta(ge=16, le=COUNT_MAX, description="Properties of one object.")
    ] = _qms.properties_max
    members_max: Annotated[int, Meta(ge=16, le=COUNT_MAX, description="Members of one set.")] = (
        _qms.members_max
    )
    stations_max: Annotated[
        int,
        Meta(
            ge=1,
            le=65_534,
            description="Connections at a time: of NetWare clients, sessions and HTTP leases.",
        ),
    ] = _qms.stations_max
    station_lease_s: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_S,
            description="A station over plain HTTP ends when nobody has used it for so long.",
        ),
    ] = 60
    file_max: Annotated[
        int,
        Meta(
            ge=4 * KIB,
            le=SIZE_MAX,
            extra={"unit": SIZE},
            description="Data of one job. NetWare clients reach 4 GiB of it.",
        ),
    ] = _qms.file_max
    history_max: Annotated[
        int,
        Meta(ge=0, le=COUNT_MAX, description="Jobs that have ended and are remembered."),
    ] = _qms.history_max
    empty_passwords: Annotated[
        bool, Meta(description="Lets objects of the bindery have an empty password.")
    ] = _qms.empty_passwords
    names_before_login: Annotated[
        bool,
        Meta(
            description="Shows clients that have not logged in the names of job queues, and "
            "whether a user exists, as NetWare does."
        ),
    ] = _qms.names_before_login
    bridge_retry_s: Annotated[
        int,
        Meta(
            ge=1,
            le=DAY_S,
            description="Pause before a message is tried again that could not submit its job.",
        ),
    ] = _qms.bridge_retry_s
    clock: Annotated[
        Literal["local", "utc"],
        Meta(description="The clock of entry and execution times; jobs carry no time zone."),
    ] = "local"

    def settings(self) -> QmsSettings:
        """What the engine gets of it."""
        return QmsSettings(
            jobs_max=self.jobs_max,
            servers_max=self.servers_max,
            queues_max=self.queues_max,
            objects_max=self.objects_max,
            properties_max=self.properties_max,
            members_max=self.members_max,
            stations_max=self.stations_max,
            file_max=self.file_max,
            history_max=self.history_max,
            empty_passwords=self.empty_passwords,
            names_before_login=self.names_before_login,
            bridge_retry_s=self.bridge_retry_s,
            local_clock=self.clock == "local",
        )
