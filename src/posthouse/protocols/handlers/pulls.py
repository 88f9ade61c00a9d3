"""Pulls over the API: begin, take messages, end, list, forget. Administrators only.

Messages come in under the identifiers and times of their source, so this is not for every sender.
"""

from __future__ import annotations

from typing import Final

from posthouse.api.pulls import (
    OfferBody,
    PullBeginBody,
    PulledJson,
    PulledListJson,
    PulledParams,
    PullEndBody,
    PullJson,
    PullListJson,
    PullParams,
    RefusedOfferJson,
    TakenJson,
)
from posthouse.api.types import Done, Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.pulls.pull import OfferedMessage, Pull
from posthouse.model.guids import format_guid, parse_guid
from posthouse.model.message_json import time_text
from posthouse.model.names import parse_name
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.refusals import error_body

LEASE_MS: Final = 60_000
"""How long a run over plain HTTP lasts after its last request."""


def list_pulls(
    manager: QueueManager, context: Context, params: Nothing, body: Nothing
) -> PullListJson:
    """Lists pulls: queues elsewhere from which messages were taken over."""
    context.require_administrator()
    return PullListJson(pulls=[pull_json(manager, pull) for pull in manager.pulls.all()])


def begin_pull(
    manager: QueueManager, context: Context, params: Nothing, body: PullBeginBody
) -> PullJson:
    """Begins a run of a pull: one at a time for each source.

    The source is a queue of the queue manager with that GUID, by its name there. A run ends with
    its client session; over plain HTTP a minute after its last request.
    """
    context.require_administrator()
    pull = manager.pulls.begin(
        parse_guid(body.guid),
        body.source,
        body.host,
        parse_name(body.queue),
        context.association,
        LEASE_MS,
        body.keep,
    )
    return pull_json(manager, pull)


def take_messages(
    manager: QueueManager, context: Context, params: PullParams, body: OfferBody
) -> TakenJson:
    """Takes messages of the source: those that are new come into the queue, in order, once.

    When this is answered they are durable, and so is which ones they are: the source may end them.
    """
    context.require_administrator()
    offered = [
        OfferedMessage(one.lookup_id, one.arrived, one.class_code, one.packet)
        for one in body.messages
    ]
    taken = manager.pulls.take(params.id, body.epoch, offered, context.association, LEASE_MS)
    return TakenJson(
        taken=taken.taken,
        known=taken.known,
        refused=[
            RefusedOfferJson(lookup_id=one.lookup_id, error=error_body(one.error))
            for one in taken.refused
        ],
        stopped=None if taken.stopped is None else error_body(taken.stopped),
        left=taken.left,
        stay=list(taken.stay),
    )


def end_pull(
    manager: QueueManager, context: Context, params: PullParams, body: PullEndBody
) -> Done:
    """Ends a run of a pull. What was taken stays known."""
    context.require_administrator()
    manager.pulls.end(params.id, body.epoch)
    return Done()


def list_pulled(
    manager: QueueManager, context: Context, params: PulledParams, body: Nothing
) -> PulledListJson:
    """Lists messages that a pull has taken, by their lookup ids at the source, with digests."""
    context.require_administrator()
    entries = manager.pulls.get(params.id).entries_after(params.after, params.limit + 1)
    more = len(entries) > params.limit
    shown = entries[: params.limit]
    return PulledListJson(
        messages=[
            PulledJson(lookup_id=entry.lookup_id, digest=f"{entry.digest:016x}", copied=copied)
            for entry, copied in shown
        ],
        next=shown[-1][0].lookup_id if more else None,
    )


def forget_pull(manager: QueueManager, context: Context, params: PullParams, body: Nothing) -> Done:
    """Forgets a pull: another run takes all that the source has. Messages stay."""
    context.require_administrator()
    manager.pulls.forget(params.id)
    context.tell(manager, "pull_forgotten", pull=params.id)
    return Done()


def pull_json(manager: QueueManager, pull: Pull) -> PullJson:
    """A pull as the API shows it."""
    definition, queue = pull.definition, manager.pulls.target_of(pull)
    return PullJson(
        id=definition.number,
        guid=format_guid(definition.guid),
        source=definition.source,
        host=definition.host,
        queue="" if queue is None else queue.name,
        epoch=definition.epoch,
        running=manager.pulls.is_running(pull),
        messages=definition.messages,
        bytes=definition.size,
        begun_time=time_text(definition.begun),
        last_time=time_text(definition.last) if definition.last else None,
        copies=pull.copied_messages,
    )
