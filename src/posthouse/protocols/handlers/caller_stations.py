"""Bindery stations for callers of the API.

A client session has its stations until it ends. Over plain HTTP there is nothing that would break,
so a station there is a lease that every use renews. Who asks for one thing only needs none: a
station is there for the length of that call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.model.errors import AccessDenied, InvalidHandle

if TYPE_CHECKING:
    from posthouse.engine.manager import QueueManager
    from posthouse.protocols.handlers.context import Context

ID_SIZE: Final = 16
LABEL: Final = "api"


class CallerStation(NamedTuple):
    """A station and whose it is."""

    station: Station
    sid: bytes
    association: object | None


class StationBook:
    """Stations that stay, by identifiers that cannot be guessed."""

    def __init__(self) -> None:
        self._opened: dict[str, CallerStation] = {}

    def open(self, manager: QueueManager, context: Context) -> tuple[str, Station]:
        """A new station without a login."""
        for key, one in list(self._opened.items()):
            if one.station.ended:
                del self._opened[key]
        leased = context.association is None
        lease_ms = context.services.station_lease_ms if leased else 0
        station = manager.stations.begin(
            LABEL, context.address, owner=context.association, lease_ms=lease_ms
        )
        key = manager.machine.random_bytes(ID_SIZE).hex()
        self._opened[key] = CallerStation(station, context.caller.sid, context.association)
        return key, station

    def find(self, manager: QueueManager, context: Context, key: str) -> Station:
        """A station of the caller, whose lease is renewed."""
        found = self._opened.get(key)
        whose = (context.caller.sid, context.association)
        if found is None or found.station.ended or (found.sid, found.association) != whose:
            raise InvalidHandle("there is no such station, or it has ended", "Open another one.")
        manager.stations.touch(found.station)
        return found.station

    def forget(self, key: str) -> None:
        """The station has ended."""
        self._opened.pop(key, None)


@contextmanager
def working(manager: QueueManager, context: Context, key: str | None) -> Iterator[Station]:
    """The station that is named, or one of the caller's own for the length of a call."""
    check_whole(context)
    if key is not None:
        yield context.services.stations.find(manager, context, key)
        return
    station = manager.stations.begin(LABEL, context.address)
    try:
        manager.bindery.enter(station, context.caller)
        yield station
    finally:
        manager.stations.end(station)


def check_whole(context: Context) -> None:
    """A token that is cut to some queues of messages is not for job queues."""
    if context.caller.scopes is not None:
        raise AccessDenied("this token is limited to some queues, and not for job queues")
