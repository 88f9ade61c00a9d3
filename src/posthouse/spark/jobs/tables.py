"""Job queues and the history of jobs as tables: `jobs.QUEUE` and `jobs.history`."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from posthouse.client.admin_http import BulkHttp, segment
from posthouse.spark.endpoint import http_now
from posthouse.spark.options import CONNECTION, managers, taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS: Final = "jobs"
HISTORY: Final = "history"
_PAGE: Final = 1000

JOB_SCHEMA: Final = (
    "queue string, number int, position int, type int, description string, flags array<string>, "
    "owner string, entry_time timestamp, target_time timestamp, target_server string, "
    "server string, progress_done bigint, progress_total bigint, progress_text string, "
    "attempts int, file_size bigint, response_queue string, record binary, id bigint"
)
HISTORY_SCHEMA: Final = (
    "queue string, number int, type int, description string, owner string, outcome string, "
    "entry_time timestamp, begin_time timestamp, end_time timestamp, server string, charge bigint, "
    "attempts int, file_size bigint, result string, id bigint"
)


def queue_names(http: BulkHttp) -> dict[str, str]:
    """Job queues by the names that statements use, with how the API names each."""
    found: dict[str, str] = {}
    for one in _pages(http, "/job-queues?", "queues"):
        name, reference = str(one["name"]).lower(), f"id:{one['id']:08X}"
        found.setdefault(name, reference)
        found[f"{one['type']}:{name}"] = reference
    return found


def _pages(
    http: BulkHttp, path: str, name: str, start: str = "after=0"
) -> Iterator[dict[str, Any]]:
    """All of a list that comes in pages."""
    word = start.partition("=")[0]
    while True:
        page = http.call("GET", f"{path}{start}&limit={_PAGE}")
        yield from page[name]
        if page["next"] is None:
            return
        start = f"{word}={page['next']}"


def load_jobs(spark: SparkSession, *, options: Mapping[str, str], reference: str) -> DataFrame:
    """The jobs of a queue as they are now."""
    with http_now(managers(taken(dict(options), CONNECTION))[0]) as http:
        path = f"/job-queues/{segment(reference)}/jobs?"
        rows = [_job(one) for one in _pages(http, path, "jobs", "start=1")]
    return spark.createDataFrame(rows, JOB_SCHEMA)


def load_history(spark: SparkSession, *, options: Mapping[str, str]) -> DataFrame:
    """What became of jobs, as far back as it is known."""
    with http_now(managers(taken(dict(options), CONNECTION))[0]) as http:
        rows = [_end(one) for one in _pages(http, "/job-history?", "jobs")]
    return spark.createDataFrame(rows, HISTORY_SCHEMA)


def jobs_loader(options: Mapping[str, str], reference: str) -> partial[DataFrame]:
    """A table of the jobs of a queue; read when a statement names it."""
    return partial(load_jobs, options=dict(options), reference=reference)


def history_loader(options: Mapping[str, str]) -> partial[DataFrame]:
    """The table of jobs that have ended."""
    return partial(load_history, options=dict(options))


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _job(one: dict[str, Any]) -> tuple[Any, ...]:
    progress = one["progress"] or {"done": None, "total": None, "text": None}
    return (
        one["queue"],
        one["number"],
        one["position"],
        one["type"],
        one["description"],
        one["flags"],
        one["owner"],
        _time(one["entry_time"]),
        _time(one["target_time"]),
        one["target_server"],
        one["server"],
        progress["done"],
        progress["total"],
        progress["text"],
        one["attempts"],
        one["file_size"],
        one["response_queue"],
        _record(one["record"]),
        one["id"],
    )


def _record(text: str) -> bytearray:
    return bytearray(b64decode(text))


def _end(one: dict[str, Any]) -> tuple[Any, ...]:
    return (
        one["queue"],
        one["number"],
        one["type"],
        one["description"],
        one["owner"],
        one["outcome"],
        _time(one["entry_time"]),
        _time(one["begin_time"]),
        _time(one["end_time"]),
        one["server"],
        one["charge"],
        one["attempts"],
        one["file_size"],
        one["result"],
        one["id"],
    )
