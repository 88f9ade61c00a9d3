"""The management interface over a session: the API's own paths and types (docs/api.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypedDict, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from posthouse.api import types as t
from posthouse.api.directory_names import PublicQueueJson, PublicQueueListJson
from posthouse.api.failures import FailuresJson, ReturnBody, ReturnJson, nothing_returned
from posthouse.client import operations
from posthouse.client.core import SessionCore
from posthouse.client.errors import refused
from posthouse.client.operations import Operation
from posthouse.model.errors import QueueError
from posthouse.wire.frames.payloads import Called

PREFIX = "/api/v1"
T = TypeVar("T", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def queue_path(name: str) -> str:
    """The path of a queue."""
    return f"/queues/{quote(name, safe='')}"


def call(
    core: SessionCore,
    method: str,
    path: str,
    result: type[T],
    body: msgspec.Struct | None = None,
    **params: object,
) -> Operation[T]:
    """One call; parameters that are None are left out."""
    given = {name: _text(value) for name, value in params.items() if value is not None}
    target = PREFIX + path + (f"?{urlencode(given)}" if given else "")
    called = yield from operations.call(
        core, method, target, b"" if body is None else _encode(body)
    )
    _check(called)
    return msgspec.json.decode(called.body, type=result)


def call_plain(
    core: SessionCore, method: str, path: str, body: object, *, repeatable: bool = False
) -> Operation[Any]:
    """One call of any path, with JSON as Python has it."""
    target = path if path.startswith(PREFIX) else PREFIX + path
    called = yield from operations.call(
        core, method, target, b"" if body is None else _encode(body), repeatable=repeatable
    )
    _check(called)
    return msgspec.json.decode(called.body) if called.body else None


def call_octets(core: SessionCore, method: str, path: str, octets: bytes) -> Operation[bytes]:
    """One call of a path that takes or gives bytes as they are; an answer of JSON comes so too."""
    called = yield from operations.call(core, method, PREFIX + path, octets)
    _check(called)
    return called.body


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check(called: Called) -> None:
    if called.status < 400:
        return
    try:
        error = msgspec.json.decode(called.body, type=t.ErrorJson).error
    except msgspec.MsgspecError:
        raise QueueError(f"the management interface answered {called.status}") from None
    raise refused(error.code, error.cause, error.remedy)


def create_queue(core: SessionCore, body: t.QueueCreateBody) -> Operation[t.QueueJson]:
    """A new queue."""
    return call(core, "POST", "/queues", t.QueueJson, body)


def list_queues(core: SessionCore, *, outgoing: bool, system: bool) -> Operation[list[t.QueueJson]]:
    """All queues that the caller may look at."""
    found: list[t.QueueJson] = []
    after: int | None = None
    while True:
        page = yield from call(
            core, "GET", "/queues", t.QueueListJson, outgoing=outgoing, system=system, after=after
        )
        found += page.queues
        if page.next is None:
            return found
        after = page.next


class QueueSearch(TypedDict, total=False):
    """What public queues have to be like; what is not said may be anything."""

    label: str
    type_id: str
    machine: str
    created_after: datetime
    created_before: datetime
    modified_after: datetime
    modified_before: datetime
    limit: int


def find_queues(core: SessionCore, wanted: QueueSearch) -> Operation[list[PublicQueueJson]]:
    """Public queues of the directory that fit. A time without a zone is local time."""
    params: dict[str, object] = {
        "type" if name == "type_id" else name: value.astimezone(UTC).isoformat()
        if isinstance(value, datetime)
        else value
        for name, value in wanted.items()
    }
    page = yield from call(core, "GET", "/directory/queues", PublicQueueListJson, None, **params)
    return page.queues


def show_queue(core: SessionCore, name: str) -> Operation[t.QueueJson]:
    """A queue's properties and figures."""
    return call(core, "GET", queue_path(name), t.QueueJson)


def set_queue(core: SessionCore, name: str, changes: dict[str, Any]) -> Operation[t.QueueJson]:
    """Changes properties of a queue."""
    return call(core, "PATCH", queue_path(name), t.QueueJson, t.QueueSetBody(**changes))


def delete_queue(core: SessionCore, name: str) -> Operation[int]:
    """Deletes a queue; returns how many messages went with it."""
    deleted = yield from call(core, "DELETE", queue_path(name), t.CountJson)
    return deleted.messages


def failures(
    core: SessionCore, name: str, where: str | None, *, similar: bool
) -> Operation[FailuresJson]:
    """The messages of a queue in groups of those that failed in the same way."""
    found, after = FailuresJson(groups=[]), None
    while True:
        page = yield from call(
            core,
            "GET",
            queue_path(name) + "/failures",
            FailuresJson,
            where=where,
            similar=similar,
            after=after,
        )
        found.add_page(page)
        if page.next is None:
            return found
        after = page.next


def return_messages(core: SessionCore, name: str, body: ReturnBody) -> Operation[ReturnJson]:
    """Failed messages go back where they failed."""
    total = nothing_returned(dry_run=body.dry_run)
    while True:
        page = yield from call(core, "POST", queue_path(name) + "/return", ReturnJson, body)
        total.add_page(page)
        if page.next is None:
            return total
        body = msgspec.structs.replace(body, after=page.next, skip=page.skip)


def status(core: SessionCore) -> Operation[t.StatusJson]:
    """The queue manager in one look."""
    return call(core, "GET", "/status", t.StatusJson)


def books(core: SessionCore) -> Operation[t.BooksListJson]:
    """The books of every queue."""
    found, after = t.BooksListJson([], True), 0
    while True:
        page = yield from call(core, "GET", "/books", t.BooksListJson, after=after)
        found.books += page.books
        found.balanced = found.balanced and page.balanced
        if page.next is None:
            return found
        after = page.next
