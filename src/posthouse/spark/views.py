"""Queues as DataFrames and views of a session, with only the columns that are needed.

Spark reads every column that the schema of a Python source has. So the columns are chosen first: by
the caller, or from the statement that is run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from posthouse.model.errors import InvalidParameter
from posthouse.spark.endpoint import http_now
from posthouse.spark.mapped_reads import mapped
from posthouse.spark.options import CONNECTION, managers, taken
from posthouse.spark.pipelines import access
from posthouse.spark.queries.tables import listed_names


def table(
    spark: SparkSession,
    queue: str | Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    priorities: Iterable[int] = (),
    classes: Iterable[str] = (),
    url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    **options: str,
) -> DataFrame:
    """The messages of queues as they are now, with these columns; a bare name is a private queue.

    The queue manager sends only what arrived from `since` on and before `until`, and only these
    priorities and classes (`normal`, `nack-queue-purged`, ...). Further options are those of
    `format("posthouse")`.

    What is read is planned here: later queries of the DataFrame do not see new messages. It costs
    less than `format("posthouse")`, except over Spark Connect and with `decode`, `pushdown` or
    `transport`, where it is that source.
    """
    queues = [queue] if isinstance(queue, str) else list(queue)
    if not queues:
        raise InvalidParameter("no queue is named", "Name one, or several in a list.")
    given = {
        "columns": ",".join(columns or ()),
        "startingTimestamp": "" if since is None else _moment(since),
        "endingTimestamp": "" if until is None else _moment(until),
        "priorities": ",".join(map(str, priorities)),
        "classes": ",".join(classes),
    }
    chosen = {name: text for name, text in given.items() if text}
    chosen |= access(url, token_file) | options | {"queue": json.dumps(queues)}
    found = mapped(spark, chosen)
    return spark.read.format("posthouse").options(**chosen).load() if found is None else found


def _moment(moment: datetime) -> str:
    """As the options take it; a moment without a zone is UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def register_views(
    spark: SparkSession,
    prefix: str = "",
    *,
    url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> list[str]:
    """Makes a temporary view of each queue that may be seen: `PREFIX_orders`; returns their names.

    A catalog (`posthouse.alpha.orders`) has to be written in Java, which Python packages cannot
    bring into any Spark; views are what Python can register. Each reads all columns, and keeps what
    was there at its first query; call this again to see new messages.
    """
    options = access(url, token_file)
    with http_now(managers(taken(options, CONNECTION))[0]) as http:
        paths = listed_names(http)
    made = []
    for name, path in paths.items():
        view = f"{prefix}_{name}" if prefix else name
        quoted = view.replace("`", "``")
        reader = spark.read.format("posthouse").options(**options)  # planned when it is queried
        reader.load(path).createOrReplaceTempView(f"`{quoted}`")
        made.append(view)
    return made
