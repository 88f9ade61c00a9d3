"""Users, public queues and places of the directory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import msgspec

from posthouse.api.directory import DirectoryChangeJson
from posthouse.api.directory_names import (
    DirectoryUserBody,
    PlaceParams,
    PublicQueueJson,
    PublicQueueListJson,
    QueuePlaceJson,
    QueueSearchParams,
)
from posthouse.api.types import Nothing
from posthouse.directory.base import Filter, Operator
from posthouse.directory.objects import Queue
from posthouse.engine.manager import QueueManager
from posthouse.model.errors import (
    AccessDenied,
    InvalidParameter,
    QueueError,
    StatusNotFound,
)
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message_json import time_text
from posthouse.model.text import excerpt
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.directory import told
from posthouse.protocols.handlers.refusals import NoSuchUser
from posthouse.security.certificates import read_key_pair
from posthouse.security.sids import parse_sid

TIME_MAX_S = 0xFFFF_FFFF


def find_queues(
    manager: QueueManager, context: Context, params: QueueSearchParams, body: Nothing
) -> PublicQueueListJson:
    """Finds public queues by type, label, machine, and times of creation and change."""
    _require_user(context)
    filters = list(_filters(params))
    found = manager.directory.find_queues(filters, context.caller, params.limit)
    return PublicQueueListJson(queues=[*map(_json, found.queues)], left_off=found.left_off)


def _require_user(context: Context) -> None:
    """Every caller may look; a token that was cut to some queues may not."""
    if context.caller.scopes is not None:
        raise AccessDenied("this token is limited to some queues")


def _filters(params: QueueSearchParams) -> Iterator[Filter]:
    if params.type is not None:
        yield Filter("type", Operator.EQUALS, parse_guid(params.type))
    if params.label is not None:
        yield Filter("label", Operator.EQUALS, params.label)
    if params.machine is not None:
        # Its paths are those between the backslash and the character after that.
        yield Filter("pathname", Operator.GREATER_THAN, f"{params.machine}\\")
        yield Filter("pathname", Operator.LESS_THAN, f"{params.machine}]")
    for attribute, operator, time in (
        ("create_time", Operator.GREATER_THAN, params.created_after),
        ("create_time", Operator.LESS_THAN, params.created_before),
        ("modify_time", Operator.GREATER_THAN, params.modified_after),
        ("modify_time", Operator.LESS_THAN, params.modified_before),
    ):
        if time is not None:
            yield Filter(attribute, operator, _seconds(time))


def _seconds(text: str) -> int:
    try:
        time = msgspec.convert(text, Annotated[datetime, msgspec.Meta(tz=True)])
    except msgspec.ValidationError:
        raise InvalidParameter(
            f"{excerpt(text)} is not a time", "Write it as 2026-01-31T12:00:00Z."
        ) from None
    return min(max(int(time.timestamp()), 0), TIME_MAX_S)


def _json(queue: Queue) -> PublicQueueJson:
    guid = format_guid(queue.identifier)
    return PublicQueueJson(
        path=queue.pathname,
        guid=guid,
        format_name=f"PUBLIC={guid}",
        machine_guid=format_guid(queue.queue_manager_identifier),
        label=queue.label,
        type=format_guid(queue.type),
        transactional=queue.transactional,
        authenticated=queue.authentication,
        journaling=queue.journaling,
        created_time=time_text(min(queue.create_time, TIME_MAX_S)),
        modified_time=time_text(min(queue.modify_time, TIME_MAX_S)),
    )


def enter_user(
    manager: QueueManager, context: Context, params: Nothing, body: DirectoryUserBody
) -> DirectoryChangeJson:
    """Enters a user, adds certificates by which their signatures are known, or takes some out."""
    context.require_administrator()
    sid, name = _whom(manager, body.user)
    certificates = [read_key_pair(file).certificate for file in body.certificates]
    found = manager.directory.register(
        sid,
        body.name or name,
        certificates,
        map(bytes.fromhex, body.withdraw),
        dry_run=body.dry_run,
    )
    return told(manager, context, found, dry_run=body.dry_run)


def _whom(manager: QueueManager, text: str) -> tuple[bytes, str]:
    """A SID as it is; a name is that of an account here, or of a user of the directory."""
    if text.upper().startswith("S-1-"):
        try:
            return parse_sid(text), ""
        except QueueError as error:
            raise InvalidParameter(error.cause, "Write it as `posthouse user list` does.") from None
    try:
        return manager.accounts.find(text).sid, text
    except QueueError:
        pass
    try:
        return manager.directory.user(text).security_identifier, ""
    except StatusNotFound:
        raise NoSuchUser(
            f"neither this queue manager nor the directory has a user {text}",
            "Name them by their SID, as `posthouse user list` on their machine shows it.",
        ) from None


def show_place(
    manager: QueueManager, context: Context, params: PlaceParams, body: Nothing
) -> QueuePlaceJson:
    """Shows where a queue can be read: the name it has there, its machine, the hosts of that."""
    _require_user(context)
    place = manager.directory.place(params.queue)
    path = manager.directory.get_queue_path(place.format_name).path_name
    return QueuePlaceJson(
        format_name=place.format_name, path=path, machine=place.machine, hosts=[*place.hosts]
    )
