"""Messages of queues and lakes held against a schema; those that do not fit are moved.

A move is one record of the queue manager's log, with its reason: a command that is killed and run
again moves each message once.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp, segment
from posthouse.client.arrow_read import PlannedQueue
from posthouse.spark.conform.drift import Drift, Judged

COLUMNS: Final = (
    *("queue", "lookup_id", "id", "label", "body", "body_type", "extension", "app_specific"),
    *("correlation_id", "arrived_time", "encrypted", "priority", "response_queue"),
)
MOVED_MAX: Final = 1000  # messages of one request
QUARANTINE: Final = ";quarantine"


class Quarantined(NamedTuple):
    """What became of messages that do not fit."""

    moved: int = 0
    gone: int = 0  # somebody else took them meanwhile
    refused: int = 0
    error: str = ""  # why


def queue_rows(http: BulkHttp, queues: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The messages that are in some queues now."""
    for queue in queues:
        (plan,) = arrow_read.plan(http, [PlannedQueue(queue)]).queues
        for batch in arrow_read.read(http, plan.queue, plan.after, plan.end, COLUMNS):
            yield from batch.to_pylist()


def lake_rows(
    path: str | os.PathLike[str],
    queues: Sequence[str] = (),
    storage_options: dict[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The messages of a lake, of all queues or of these, file by file."""
    from posthouse.spark.lakes.compaction import batches
    from posthouse.spark.lakes.files import LakeFiles
    from posthouse.spark.queue_selection import key_of

    lake = LakeFiles(path, storage_options=storage_options)
    wanted = {key_of(queue, "") for queue in queues}
    for file in lake.state().files:
        if not wanted or any(_is(key_of(file.queue, ""), one) for one in wanted):
            for batch in batches(lake, file, list(COLUMNS)):
                for row in batch.to_pylist():
                    yield {**dict.fromkeys(COLUMNS), **row, "queue": file.queue}


def _is(queue: str, wanted: str) -> bool:
    """`.` in front of a name is any computer."""
    return queue.endswith(wanted) if wanted.startswith("\\") else queue == wanted


def quarantine(http: BulkHttp, drift: Drift, queues: Sequence[str], to: str | None) -> Quarantined:
    """Looks at all messages of some queues; moves those that do not fit, if there is a place."""
    done = Quarantined()
    for queue in queues:
        waiting: dict[str, list[int]] = defaultdict(list)
        kept = 0
        for judged in filter(None, map(drift.judge, queue_rows(http, [queue]))):
            if judged.reason and to is not None:
                waiting[judged.reason].append(judged.lookup_id)
                kept += 1
            if kept >= MOVED_MAX:
                done = _moved(http, judged, to, waiting, done)
                kept = 0
        if waiting:
            done = _moved(http, Judged(0, queue, ""), to, waiting, done)
    return done


def _moved(
    http: BulkHttp,
    last: Judged,
    to: str | None,
    waiting: dict[str, list[int]],
    done: Quarantined,
) -> Quarantined:
    assert to is not None, "without a place nothing waits"
    target = last.queue + to if to.startswith(";") else to
    for reason, lookup_ids in waiting.items():
        body = {"lookup_ids": lookup_ids, "to": target, "reason": reason}
        answer = http.call("POST", f"/queues/{segment(last.queue)}/move", body)
        error = answer["error"]["cause"] if answer["error"] else ""
        done = Quarantined(
            done.moved + answer["done"],
            done.gone + answer["gone"],
            done.refused + answer["refused"],
            done.error or error,
        )
    waiting.clear()
    return done
