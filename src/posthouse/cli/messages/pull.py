"""Pulls selected messages of another computer's queue into a queue here, each once."""

from __future__ import annotations

from posthouse.api.types import BulkJson, ErrorBody
from posthouse.cli.connection import Remote
from posthouse.cli.messages.selection import check
from posthouse.cli.migrate.machines import Machines, machines
from posthouse.cli.migrate.sources import Reach, SourceQueue, named_source
from posthouse.cli.output import partly
from posthouse.cli.remote_queue import Far
from posthouse.client.remote.consumer import browse
from posthouse.client.remote.pull.queue_pull import CHUNK, QueuePull
from posthouse.client.remote.pull.run import PullRun
from posthouse.client.remote.state import INFINITE
from posthouse.formats.search import content_of
from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.filters import parse_filter
from posthouse.model.text import counted


def pull_some(
    remote: Remote,
    far: Far,
    source: str,
    target: str,
    where: str | None,
    lookup_ids: list[int] | None,
    *,
    dry_run: bool,
    keep: bool = False,
) -> BulkJson:
    """Moves or copies the messages meant; all of them, where nothing else is said."""
    check(where, lookup_ids)
    reach = Reach(**far._asdict())
    place, name = named_source(source, reach)
    reach = reach._replace(binary_port=name.port or reach.binary_port)
    queue = SourceQueue(place, name, target)
    with machines(reach) as found:
        meant = _meant(found, queue, where, lookup_ids)
        if dry_run:
            return _result(len(meant), None)
        run = PullRun(remote.client, found.source(queue), target, reach.patience, keep=keep)
        run.begin()
        reader = found.queue(queue, takes=not keep, shared=True)
        pull = QueuePull(reader, run)

        def stopped() -> str:
            """Each message is known here, so that none is taken twice."""
            done = pull.counts.taken + pull.counts.known
            verb = "Copied" if keep else "Moved"
            of = counted(len(meant), "message")
            return f"{verb} {done:,} of {of}. Run it again to continue: none is taken twice."

        try:
            with partly(lambda: "", stopped):
                _ = pull.copy_some(meant) if keep else pull.move_some(meant)
        finally:
            reader.close()
            run.end()
        return _result(len(meant), pull)


def _meant(
    found: Machines, queue: SourceQueue, where: str | None, lookup_ids: list[int] | None
) -> list[int]:
    if lookup_ids:
        return list(dict.fromkeys(lookup_ids))
    reader = found.queue(queue, takes=False)
    if where is None:
        return [message.lookup_id for message in browse(reader, CHUNK, 0)]
    matches = parse_filter(where, content_of).matches
    messages = browse(reader, CHUNK, INFINITE)
    return [message.lookup_id for message in messages if matches(message.to_json())]


def _result(matched: int, pull: QueuePull | None) -> BulkJson:
    done = gone = refused = 0
    told: ErrorBody | None = None
    if pull is not None:
        counts = pull.counts
        done, refused = counts.taken + counts.known, counts.refused + counts.stay
        gone = max(matched - counts.read, 0)
        refusal = pull.refusal or (_of_pulls(counts.stay) if counts.stay else None)
        told = None if refusal is None else ErrorBody.of(refusal)
    return BulkJson(
        matched=matched, done=done, gone=gone, refused=refused, error=told, dry_run=pull is None
    )


def _of_pulls(count: int) -> QueueError:
    return InvalidParameter(
        f"{counted(count, 'message')} of that journal came to it because pulls received them",
        "They are here already. To take them from there, forget that pull: posthouse migrate "
        "forget.",
    )
