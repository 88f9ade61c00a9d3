"""Stations of callers of the API that stay open between requests."""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import InvalidHandle

ID_SIZE: Final = 16
LABEL: Final = "api"


class StationOwner(NamedTuple):
    """A user, in a client session or, without an association, over plain HTTP."""

    sid: bytes
    association: object | None


class StationBook:
    """Stations that stay, by identifiers that cannot be guessed."""

    def __init__(self) -> None:
        self._opened: dict[str, tuple[Station, StationOwner]] = {}

    def open(
        self, manager: QueueManager, owner: StationOwner, address: str, lease_ms: int
    ) -> tuple[str, Station]:
        """A new station without a login; the lease is for owners without an association."""
        for key, (station, _) in list(self._opened.items()):
            if station.ended:
                del self._opened[key]
        leased = owner.association is None
        station = manager.stations.begin(
            LABEL, address, owner=owner.association, lease_ms=lease_ms if leased else 0
        )
        key = manager.machine.random_bytes(ID_SIZE).hex()
        self._opened[key] = station, owner
        return key, station

    def find(self, manager: QueueManager, owner: StationOwner, key: str) -> Station:
        """A station of that owner, whose lease is renewed."""
        station, whose = self._opened.get(key, (None, None))
        if station is None or station.ended or whose != owner:
            raise InvalidHandle("there is no such station, or it has ended", "Open another one.")
        manager.stations.touch(station)
        return station

    def forget(self, key: str) -> None:
        """The station has ended."""
        self._opened.pop(key, None)
