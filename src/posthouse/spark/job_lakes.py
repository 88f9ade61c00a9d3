"""What a job sees of a lake: the queues that its client may look into (decision 17).

Lakes are files of the server, and outlive the queues that their messages were in. So the queue
manager is asked, as the client, for each queue of a lake. Administrators see all of it; of a queue
that is gone, or of another machine, nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from posthouse.client.bulk_http import BulkHttp
from posthouse.model.errors import QueueError
from posthouse.spark.endpoint import http_of
from posthouse.spark.lake_files import LakeFiles
from posthouse.spark.lake_table import lake, rows_by_queue
from posthouse.spark.options import CONNECTION, managers, taken
from posthouse.spark.sql_tables import LiveTables, Load


def http_with(options: Mapping[str, str]) -> BulkHttp:
    """The queue manager that options lead to."""
    return http_of(managers(taken(options, CONNECTION))[0])


def tables_of(http: BulkHttp, options: Mapping[str, str], path: Path | None) -> LiveTables:
    """What a statement of a job may name."""

    def load(spark: SparkSession) -> DataFrame:
        assert path is not None
        return lake(path, spark, queues=seen_queues(http, path))

    found: Load | None = None if path is None else load
    return LiveTables(http, options, found)


def seen_queues(http: BulkHttp, path: Path) -> list[str] | None:
    """The queues of a lake that this client may look into; None: all of them."""
    if _allows(http, "/queues?outgoing=true&limit=1"):  # told to administrators only
        return None
    there = rows_by_queue(LakeFiles(path).manifests.read())
    return [queue for queue in there if _may_peek(http, queue)]


def _may_peek(http: BulkHttp, queue: str) -> bool:
    return _allows(http, f"/queues/{quote(queue, safe='')}/messages?limit=1&bodies=false")


def _allows(http: BulkHttp, path: str) -> bool:
    try:
        http.call("GET", path)
    except QueueError:
        return False
    return True
