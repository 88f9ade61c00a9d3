"""Bindery stations for callers of the API.

A client session has its stations until it ends. Over plain HTTP there is nothing that would break,
so a station there is a lease that every use renews. Who asks for one thing only needs none: a
station is there for the length of that call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import AccessDenied
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.station_book import LABEL, StationOwner


def opened_station(manager: QueueManager, context: Context) -> tuple[str, Station]:
    """A new station of the caller, without a login, and its identifier."""
    services = context.services
    return services.stations.open(
        manager, _owner(context), context.address, services.station_lease_ms
    )


def found_station(manager: QueueManager, context: Context, key: str) -> Station:
    """A station of the caller, whose lease is renewed."""
    return context.services.stations.find(manager, _owner(context), key)


def _owner(context: Context) -> StationOwner:
    return StationOwner(context.caller.sid, context.association)


@contextmanager
def working(manager: QueueManager, context: Context, key: str | None) -> Iterator[Station]:
    """The station that is named, or one of the caller's own for the length of a call."""
    check_whole(context)
    if key is not None:
        yield found_station(manager, context, key)
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
