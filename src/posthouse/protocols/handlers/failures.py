"""The failed messages of a queue in groups: by exception, its message, and the first own frame."""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import UnsetType

from posthouse.api.failures import ExampleJson, FailureGroupJson, FailuresJson, FailuresParams
from posthouse.api.types import Nothing
from posthouse.model.filters import Filter
from posthouse.model.message_json import time_text
from posthouse.model.properties import QueueAccessType
from posthouse.protocols.handlers.context import Context, find_queue
from posthouse.protocols.handlers.failed_messages import (
    Failed,
    FailedPages,
    beside_the_loop,
    failed_of,
    is_meant,
)
from posthouse.protocols.handlers.message_json import clean
from posthouse.protocols.handlers.request_steps import Steps, at_once
from posthouse.protocols.handlers.scanning import ScannedMessage

_SHOWN_MAX: Final = 1000  # characters of an exception message


def list_failures(context: Context, params: FailuresParams, body: Nothing) -> Steps[FailuresJson]:
    """Groups the messages of a queue by exception type, message and first own stack frame.

    A page at a time; `next` goes on. The messages stay where they are.
    """
    where = None
    if not isinstance(params.where, UnsetType):
        where = context.view.filter(params.where)
    with context.services.scans.running(context.caller):
        return (yield from _grouped(context, params, where))


def _grouped(context: Context, params: FailuresParams, where: Filter | None) -> Steps[FailuresJson]:
    yield from at_once(
        lambda manager: context.view.require_whole(find_queue(manager, params.queue).name)
    )
    after = None if isinstance(params.after, UnsetType) else params.after
    pages = FailedPages(context, params.queue, QueueAccessType.PEEK, after)
    total = FailuresJson(groups=[])
    while not pages.done:
        batch = yield from pages.step()
        look = partial(_groups_of, context, batch, where, params.similar)
        total.add_page((yield from beside_the_loop(context, look)))
    total.scanned, total.next = pages.scanned, pages.next
    return total


def _groups_of(
    context: Context, batch: list[ScannedMessage], where: Filter | None, similar: bool
) -> FailuresJson:
    groups: dict[str, FailureGroupJson] = {}
    for found in batch:
        if is_meant(context, found, where):
            group = _group_of(failed_of(found), similar)
            if group.key in groups:
                groups[group.key].add(group)
            else:
                groups[group.key] = group
    return FailuresJson(groups=list(groups.values()))


def _group_of(failed: Failed, similar: bool) -> FailureGroupJson:
    """The group of one message, with that message alone."""
    read, failure = failed.found.read, failed.failure
    time = failure.time or time_text(read.arrived)
    destination = failed.message.destination_queue_format_name if failed.reason else ""
    queue = clean(failed.address or destination)
    return FailureGroupJson(
        key=failed.key(similar=similar),
        exception_type=clean(failure.type) or None,
        exception_message=clean(failure.message)[:_SHOWN_MAX] or None,
        frame=clean(failure.frame) or None,
        class_=failed.reason,
        message_type=clean(failed.message_type) or None,
        count=1,
        first_time=time,
        last_time=time,
        failed_queues=[queue] if queue else [],
        examples=[ExampleJson(lookup_id=read.lookup_id, id=str(failed.message.identifier))],
    )
