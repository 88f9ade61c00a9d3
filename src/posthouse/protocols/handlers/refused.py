"""Messages of other machines that were refused on arrival: which of them a caller may see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from posthouse.api.refused import RefusedListJson, RefusedMessageJson, RefusedParams
from posthouse.api.types import Nothing
from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.refused_arrival import RefusedArrival
from posthouse.model.errors import QueueError
from posthouse.model.message import MessageId
from posthouse.model.message_json import time_text
from posthouse.model.names import parse_name
from posthouse.protocols.handlers.context import Context
from posthouse.protocols.handlers.scanning import is_peekable

STEP_ENTRIES: Final = 1_000  # that one request looks at: strangers fill the list with names


def list_refused(
    manager: QueueManager, context: Context, params: RefusedParams, body: Nothing
) -> RefusedListJson:
    """Lists messages of other machines that were refused on arrival, the latest refusal first.

    The last 10,000 since the start of the queue manager. Administrators see all of them; other
    users those for queues here that they may look into: of these a page may have fewer than there
    are, or none, and still a next one.
    """
    found, last = list[RefusedArrival](), 0
    for looked, one in enumerate(manager.transfer.refused_arrivals(params.after)):
        if looked == STEP_ENTRIES or len(found) == params.limit:
            return RefusedListJson(messages=refused_json(found), next=last)
        if may_see(manager, context, one):
            found.append(one)
        last = one.number
    return RefusedListJson(messages=refused_json(found))


def may_see(manager: QueueManager, context: Context, one: RefusedArrival) -> bool:
    """Whether the caller may look into the queue that a refused message was sent to."""
    if context.caller.is_administrator and context.caller.scopes is None:
        return True
    try:
        queue = manager.queues.find_local(parse_name(one.queue))
    except QueueError:
        return False
    return queue is not None and is_peekable(manager, context, queue)


def refused_json(found: Iterable[RefusedArrival]) -> list[RefusedMessageJson]:
    """Return refused messages as the API shows them."""
    return [
        RefusedMessageJson(
            id=str(MessageId(one.source, one.ordinal)),
            label=one.label,
            queue=one.queue,
            reason=one.reason,
            cause=one.cause,
            address=one.address,
            first_time=time_text(one.first_utc),
            last_time=time_text(one.last_utc),
            times=one.times,
            dead_letter=one.is_kept,
        )
        for one in found
    ]
