"""Stations: open, log in and out, end; the rights of clients whose jobs are serviced."""

from __future__ import annotations

from posthouse.api.jobs import (
    LoginBody,
    StationBody,
    StationJson,
    StationParams,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.manager import QueueManager
from posthouse.model.bindery import parse_type, type_name
from posthouse.protocols.handlers.caller_stations import check_whole, found_station, opened_station
from posthouse.protocols.handlers.context import Context


def open_station(
    manager: QueueManager, context: Context, params: Nothing, body: StationBody
) -> StationJson:
    """Opens a station: a connection to job queues and bindery, for what takes several calls.

    It is the caller's user object, or another object with its password; administrators may be any
    object. Jobs that it writes or services end with it by their flags.
    """
    check_whole(context)
    key, station = opened_station(manager, context)
    try:
        if body.name:
            _login(manager, context, station, body.type, body.name, body.password)
        else:
            manager.bindery.enter(station, context.caller)
    except BaseException:
        manager.stations.end(station)
        raise
    station.task = body.task
    return _station_json(manager, context, key, station)


def _login(
    manager: QueueManager,
    context: Context,
    station: Station,
    kind: str,
    name: str,
    password: str | None,
) -> None:
    number = parse_type(kind)
    if password is None:
        manager.bindery.enter(station, context.caller, number, name)
    else:
        manager.bindery.login(station, number, name, password)


def _station_json(
    manager: QueueManager, context: Context, key: str, station: Station
) -> StationJson:
    own = manager.bindery.find_object(station.object_id)
    lease_s = context.services.station_lease_ms / 1000
    return StationJson(
        station=key,
        number=station.number,
        task=station.task,
        object_id=station.object_id,
        name="" if own is None else own.name,
        type="" if own is None else type_name(own.type),
        lease_s=lease_s if context.association is None else 0.0,
    )


def renew_station(
    manager: QueueManager, context: Context, params: StationParams, body: Nothing
) -> StationJson:
    """Renews the lease of a station, as every use of it does, and shows it."""
    station = found_station(manager, context, params.station)
    return _station_json(manager, context, params.station, station)


def login_station(
    manager: QueueManager, context: Context, params: StationParams, body: LoginBody
) -> StationJson:
    """Logs a station in as an object with its password; administrators need none."""
    station = found_station(manager, context, params.station)
    _login(manager, context, station, body.type, body.name, body.password)
    return _station_json(manager, context, params.station, station)


def logout_station(
    manager: QueueManager, context: Context, params: StationParams, body: Nothing
) -> StationJson:
    """Logs a station out; it stays open, without a login."""
    station = found_station(manager, context, params.station)
    manager.stations.logout(station)
    return _station_json(manager, context, params.station, station)


def end_station(
    manager: QueueManager, context: Context, params: StationParams, body: Nothing
) -> Done:
    """Ends a station: jobs that it writes or services are treated by their flags."""
    station = found_station(manager, context, params.station)
    manager.stations.end(station)
    context.services.stations.forget(params.station)
    return Done()


def restore_rights(
    manager: QueueManager, context: Context, params: StationParams, body: Nothing
) -> Done:
    """Gives a station its own rights back (NWRestoreQueueServerRights)."""
    station = found_station(manager, context, params.station)
    manager.jobs.restore_queue_server_rights(station)
    return Done()
