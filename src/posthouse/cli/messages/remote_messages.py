"""Work on many messages of another computer's queue, one after the other."""

from __future__ import annotations

from posthouse.api.types import BulkJson, ErrorBody
from posthouse.cli.messages.selection import check
from posthouse.client.msmq import RemoteQueue
from posthouse.formats.search import content_of
from posthouse.model.errors import MessageNotFound, QueueError
from posthouse.model.filters import parse_filter


def chosen_far(queue: RemoteQueue, where: str | None, lookup_ids: list[int] | None) -> list[int]:
    """The lookup ids of the messages meant; a filter is applied here."""
    check(where, lookup_ids)
    if lookup_ids:
        return list(dict.fromkeys(lookup_ids))
    if where is None:
        return [message.lookup_id for message in queue.browse(body_max=0)]
    matches = parse_filter(where, content_of).matches
    return [message.lookup_id for message in queue.browse() if matches(message.to_json())]


def move_far(
    source: RemoteQueue,
    target: RemoteQueue,
    where: str | None,
    lookup_ids: list[int] | None,
    *,
    dry_run: bool,
) -> BulkJson:
    """Moves messages; one that is gone is counted, one that is refused stays and is told of."""
    meant = chosen_far(source, where, lookup_ids)
    done = gone = refused = 0
    first: QueueError | None = None
    for lookup_id in () if dry_run else meant:
        try:
            source.move(lookup_id, target)
            done += 1
        except MessageNotFound:
            gone += 1
        except QueueError as error:
            refused += 1
            first = first or error
            if not done:
                break  # the same would be said to all of them
    told = None
    if first is not None:
        told = ErrorBody(code=first.code, name=first.name, cause=first.cause, remedy=first.remedy)
    return BulkJson(
        matched=len(meant), done=done, gone=gone, refused=refused, error=told, dry_run=dry_run
    )
