"""Limits what a job sees of a lake to the queues that its client may read (decision 17).

Lakes are files of the server, and outlive the queues that their messages were in. So the queue
manager is asked, as the client, for each queue of a lake. Only administrators see messages of a
queue that is gone, was created again, or is of another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue, plan
from posthouse.model.errors import AccessDenied, QueueNotFound
from posthouse.spark.endpoint import http_now
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.state import US_PER_S
from posthouse.spark.lakes.table import lake
from posthouse.spark.options import CONNECTION, managers, taken
from posthouse.spark.queries.tables import LiveTables, Load

_NOT_SHOWN: Final = (AccessDenied, QueueNotFound)


def http_with(options: Mapping[str, str]) -> BulkHttp:
    """The queue manager that options lead to."""
    return http_now(managers(taken(options, CONNECTION))[0])


def tables_of(http: BulkHttp, options: Mapping[str, str], path: Path | None) -> LiveTables:
    """What a statement of a job may name."""

    def load(spark: SparkSession) -> DataFrame:
        assert path is not None
        return lake(path, spark, queues=seen_queues(http, path))

    found: Load | None = None if path is None else load
    return LiveTables(http, options, found)


def seen_queues(http: BulkHttp, path: Path) -> list[str] | None:
    """The queues of a lake that this client may look into; None: all of them."""
    try:
        http.call("GET", "/queues?outgoing=true&limit=1")  # told to administrators only
    except AccessDenied:
        pass
    else:
        return None
    firsts = dict[str, int]()
    for file in LakeFiles(path).state().files:
        firsts[file.queue] = min(file.first_us, firsts.get(file.queue, file.first_us))
    return [queue for queue, first_us in firsts.items() if _may_look(http, queue, first_us)]


def _may_look(http: BulkHttp, queue: str, first_us: int) -> bool:
    """Whether the client may look into a queue, and it is the one of which the lake has messages.

    The creator of a queue has all rights to it, but none to messages of an earlier queue with its
    name.
    """
    try:
        (found,) = plan(http, [PlannedQueue(queue)]).queues
    except _NOT_SHOWN:
        return False
    created = datetime.fromisoformat(found.created_time)
    return created.timestamp() * US_PER_S <= first_us
