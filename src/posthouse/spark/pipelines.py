"""Reports, SQL and your own pipelines as functions: `posthouse.spark.deadletters` and others.

Without a session of the caller's one is made, or the one that is active is taken.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from posthouse.client.admin_http import BulkHttp
from posthouse.spark import pipeline_runner
from posthouse.spark.endpoint import http_now
from posthouse.spark.options import CONNECTION, managers, taken
from posthouse.spark.progress import Watch
from posthouse.spark.queries import query as sql_query
from posthouse.spark.queries.tables import LiveTables, lake_loader, told_queues
from posthouse.spark.reports import dead_letters, latencies
from posthouse.spark.reports import traffic as traffic_report
from posthouse.spark.sessions import classic, session

OVER_CONNECT: Final = frozenset({"sql"})
PathLike = str | os.PathLike[str]


def deadletters(
    queues: Sequence[str] = dead_letters.QUEUES,
    *,
    url: str | None = None,
    token_file: PathLike | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
) -> dead_letters.DeadLetters:
    """Dead letters by reason, sender, queue and hour, and in clusters of alike ones.

    The result has `tables`, can `write` them and `resend` a cluster; `close` it, or use `with`.
    """
    found = _session("deadletters", spark, master)
    return dead_letters.deadletters(found, access(url, token_file), queues)


def latency(
    queues: Sequence[str] = (),
    *,
    url: str | None = None,
    token_file: PathLike | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
) -> latencies.Latencies:
    """Times from send to arrival to receipt by route and hour.

    From these queues, else from all that may be looked into. `close` the result, or use `with`.
    """
    options = access(url, token_file)
    if not queues:
        with _http(options) as http:
            queues = told_queues(http)
    return latencies.latency(_session("latency", spark, master), options, queues)


def traffic(
    queues: Sequence[str] = (),
    *,
    lake: PathLike | None = None,
    url: str | None = None,
    token_file: PathLike | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
) -> traffic_report.Traffic:
    """What is in these queues, in all that may be looked into, or in a lake.

    By queue, format, message type, exception and hour, with what could not be read and why.
    `close` the result, or use `with`.
    """
    found = _session("traffic", spark, master)
    if lake is not None:
        return traffic_report.Traffic(lake_loader(lake)(found))
    options = access(url, token_file)
    if not queues:
        with _http(options) as http:
            queues = told_queues(http)
    return traffic_report.traffic(found, options, queues)


def sql(
    statement: str,
    *,
    lake: PathLike | None = None,
    as_of: int | datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
    url: str | None = None,
    token_file: PathLike | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    remote: str | None = None,
) -> DataFrame:
    """The rows of one SELECT over queues.NAME, journals.NAME, system.* and lake.messages.

    `posthouse.MANAGER.NAME` is a queue of one of the queue managers that `url` names, several
    between commas; of each only the columns that the statement names are read. It reads, and
    nothing else: any other statement is refused. SHOW TABLES lists the tables. With `as_of`, a
    version or a time, the lake is as it was then. `remote` is a Spark Connect server.
    """
    options = access(url, token_file)
    load = None if lake is None else lake_loader(lake, as_of, storage_options)
    with _http(options) as http, LiveTables(http, options, load) as tables:
        return sql_query.sql(_session("sql", spark, master, remote), statement, tables)


def run(
    file: PathLike,
    out: PathLike = ".",
    *,
    url: str | None = None,
    token_file: PathLike | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    follow: bool = False,
    progress: Watch | None = None,
    stop: threading.Event | None = None,
) -> list[pipeline_runner.Output]:
    """Runs a file of functions decorated by `posthouse.spark.flows`; tables go to `out`."""
    return pipeline_runner.run(
        os.fspath(file),
        os.fspath(out),
        spark=_session("run", spark, master),
        options=access(url, token_file),
        follow=follow,
        progress=progress,
        stop=stop,
    )


def access(url: str | None, token_file: PathLike | None) -> dict[str, str]:
    """The options that lead to a queue manager."""
    options = {} if url is None else {"url": url}
    return options if token_file is None else options | {"tokenFile": os.fspath(token_file)}


def _http(options: dict[str, str]) -> BulkHttp:
    return http_now(managers(taken(options, CONNECTION))[0])


def _session(
    name: str, spark: SparkSession | None, master: str | None, remote: str | None = None
) -> SparkSession:
    found = spark or SparkSession.getActiveSession() or session(name, master, remote)
    return found if name in OVER_CONNECT else classic(found, name)
