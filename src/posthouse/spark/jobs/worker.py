"""The worker of a Spark queue server: SQL and pipelines in one session, programs beside it.

Everything is read and written with the rights of the job's client, by a token that ends with the
job. Files lie where the server puts them; nothing that a submitter wrote becomes part of a path.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from posthouse.client.errors import ClientConnectionError
from posthouse.model.errors import QueueError
from posthouse.model.job_types import PIPELINE, PYSPARK, SPARK_TYPES, SQL
from posthouse.qms.queue_server import JobFailed, JobGone, Pulse, Task
from posthouse.spark import pipelines
from posthouse.spark.failures import cause_of
from posthouse.spark.jobs.lakes import http_with, seen_queues, tables_of
from posthouse.spark.jobs.pipeline_requests import (
    ORDER_MAX,
    ArchiveOrder,
    DeadLettersOrder,
    LatencyOrder,
    ReplayOrder,
    SqlOrder,
    read_order,
)
from posthouse.spark.jobs.programs import Programs
from posthouse.spark.lakes.archiving import archive
from posthouse.spark.progress import Progress
from posthouse.spark.queries import query as sql_query
from posthouse.spark.replaying import replay
from posthouse.spark.reports.common import deadletters_page, latency_page
from posthouse.spark.table_files import write_parquet

ROWS_SHOWN: Final = 100
RESULT_MAX: Final = 3500  # characters of rows in a result
LOOK_S: Final = 0.5  # between two looks whether the job is still wanted
DEFAULT_LAKE: Final = "lake"
REPORT: Final = "report.html"


class SparkWorker:
    """Does jobs in one long-lived session.

    `lakes` are folders by the names that jobs use; results of statements and reports go to folders
    of their own below `out`, if there is one.
    """

    types: Sequence[int] = SPARK_TYPES

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        *,
        lakes: Mapping[str, Path] | None = None,
        out: Path | None = None,
        programs: Programs | None = None,
    ) -> None:
        self._spark = spark
        self._url = url
        self._lakes = dict(lakes or {})
        self._out = out
        self._programs = programs
        self._at_once = False  # whether a stop breaks the job off; else it sees to that itself
        self._kinds: dict[int, Callable[[Task], str]] = {
            SQL: self._sql,
            PIPELINE: self._pipeline,
            PYSPARK: self._program,
        }

    def __call__(self, task: Task) -> str:
        """Does one job."""
        run = self._kinds.get(task.job.taken.job_type)
        if run is None:
            raise JobFailed(f"{task.job.taken.job_type} is not a type of job for Spark")
        self._at_once = False
        try:
            with _watched(task, self._spark, lambda: self._at_once):
                return run(task)
        except PySparkException as error:
            raise JobFailed(str(cause_of(error))) from error
        except (QueueError, ClientConnectionError, ValueError, OSError) as error:
            raise JobFailed(str(error)) from error

    # -- SQL

    def _sql(self, task: Task) -> str:
        lake = self._lakes.get(DEFAULT_LAKE)
        return self._query(task, _text(_whole(task)), lake)

    def _query(self, task: Task, statement: str, lake: Path | None) -> str:
        self._at_once = True
        task.report(0, 1, "reading")
        with self._access(task) as token_file:
            options = pipelines.access(self._url, token_file)
            with http_with(options) as http:
                frame = sql_query.sql(self._spark, statement, tables_of(http, options, lake))
            return self._kept(task, frame)

    def _kept(self, task: Task, frame: DataFrame) -> str:
        """The rows: all of them in a file, if there is a folder for it; the first in the result."""
        if self._out is None:
            rows = frame.limit(ROWS_SHOWN + 1).collect()
            counted = f"{len(rows)}" if len(rows) <= ROWS_SHOWN else f"more than {ROWS_SHOWN}"
            return _summary({"rows": counted, "columns": frame.columns}, rows[:ROWS_SHOWN])
        folder = self._folder(task)
        folder.mkdir(parents=True)
        path = folder / "rows.parquet"
        count = write_parquet(path, frame)
        known = {"rows": count, "columns": frame.columns, "file": str(path)}
        return _summary(known, self._spark.read.parquet(str(path)).limit(ROWS_SHOWN).collect())

    def _folder(self, task: Task) -> Path:
        """A folder of its own for each service of each job, by numbers alone."""
        assert self._out is not None
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        return self._out / f"{task.queue.id:08X}-{task.number}-{stamp}"

    # -- pipelines

    def _pipeline(self, task: Task) -> str:
        order = read_order(_whole(task))
        if isinstance(order, SqlOrder):
            lake = None if order.lake is None else self._lake(order.lake)
            return self._query(task, order.statement, lake)
        if isinstance(order, ArchiveOrder):
            return self._archive(task, order)
        if isinstance(order, ReplayOrder):
            return self._replay(task, order)
        return self._report(task, order)

    def _lake(self, name: str) -> Path:
        found = self._lakes.get(name)
        if found is None:
            raise JobFailed(f"this server has no lake {name}: {', '.join(self._lakes) or 'none'}")
        return found

    def _archive(self, task: Task, order: ArchiveOrder) -> str:
        lake = self._lake(order.lake)
        with self._access(task) as token_file:
            done = archive(
                order.queues,
                lake,
                url=self._url,
                token_file=token_file,
                consume=order.consume,
                journals=order.journals,
                spark=self._spark,
                progress=_shown(task),
                stop=task.stop,
            )
        _check_whole(done.stopped)
        told = {"messages": done.messages, "batches": done.batches, "files": done.files}
        return json.dumps({"pipeline": "archive", "lake": order.lake, **told})

    def _replay(self, task: Task, order: ReplayOrder) -> str:
        lake = self._lake(order.lake)
        with self._access(task) as token_file:
            with http_with(pipelines.access(self._url, token_file)) as http:
                seen = seen_queues(http, lake)
            done = replay(
                lake,
                order.to,
                mapping=order.mapping,
                since=_moment(order.since),
                until=_moment(order.until),
                where=order.where,
                queues=seen,
                owner=task.owner,
                job=_name(task),
                dry_run=order.dry_run,
                url=self._url,
                token_file=token_file,
                spark=self._spark,
                progress=_shown(task),
                stop=task.stop,
            )
        _check_whole(done.stopped)
        told = {"messages": done.messages, "sent": done.sent, "dry_run": done.dry_run}
        return json.dumps({"pipeline": "replay", "lake": order.lake, **told})

    def _report(self, task: Task, order: DeadLettersOrder | LatencyOrder) -> str:
        """Tables and a page below `out`; without it there is nowhere to put them."""
        if self._out is None:
            raise JobFailed("this server keeps no reports: start it with --out")
        self._at_once = True
        folder = self._folder(task)
        task.report(0, 1, "reading")
        with self._access(task) as token_file, ExitStack() as stack:
            access: dict[str, Any] = {
                "url": self._url,
                "token_file": token_file,
                "spark": self._spark,
            }
            if order.queues:
                access["queues"] = order.queues
            if isinstance(order, DeadLettersOrder):
                letters = stack.enter_context(pipelines.deadletters(**access))
                folder.mkdir(parents=True)
                letters.write(folder)
                deadletters_page(letters).write(folder / REPORT)
                return json.dumps({"pipeline": "deadletters", "folder": str(folder)})
            times = stack.enter_context(pipelines.latency(**access))
            folder.mkdir(parents=True)
            times.write(folder)
            latency_page(times).write(folder / REPORT)
            return json.dumps({"pipeline": "latency", "folder": str(folder)})

    # -- programs

    def _program(self, task: Task) -> str:
        if self._programs is None:
            raise JobFailed("this server runs no programs")
        return self._programs.run(task, self._url)

    # -- access

    @contextmanager
    def _access(self, task: Task) -> Iterator[str]:
        """The client's rights, as a file with a token that ends with the job."""
        token = task.door.client_token(task.queue.id, task.number)
        with tempfile.TemporaryDirectory(prefix="posthouse-") as folder:
            path = Path(folder, "token")
            path.touch(0o600)
            path.write_text(token.token, encoding="ascii")
            yield os.fspath(path)


@contextmanager
def _watched(task: Task, spark: SparkSession, at_once: Callable[[], bool]) -> Iterator[None]:
    """Watches a job while it runs: cancels it if it is gone from the queue, or if it is to stop.

    Work that was finished anyway stays finished: the final call shows whether the job still belongs
    to this server. To do it again would send a replay twice.
    """
    over = threading.Event()
    gone: list[JobGone] = []

    def look(pulse: Pulse) -> None:
        while not over.wait(LOOK_S):
            try:
                pulse.check()
                _check_whole(at_once() and task.stop.is_set())
            except JobGone as error:
                gone.append(error)
                spark.sparkContext.cancelAllJobs()  # until the end: it may be about to begin others

    try:
        with Pulse(task) as pulse:
            thread = threading.Thread(target=look, args=(pulse,), daemon=True)
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join()
    except Exception as error:
        if gone:
            raise gone[0] from error
        raise


def _whole(task: Task) -> bytes:
    """The job's file, which is small."""
    parts, size = list[bytes](), 0
    for piece in task.job.chunks():
        size += len(piece)
        if size > ORDER_MAX:
            raise JobFailed(f"the file of such a job has at most {ORDER_MAX} bytes")
        parts.append(piece)
    return b"".join(parts)


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise JobFailed("the statement is not UTF-8") from None


def _name(task: Task) -> str:
    """A name that is equal for every service of a job and unlike that of any other job."""
    taken = task.job.taken
    return f"{task.queue.id:08X}-{task.number}-{taken.job_entry_time.hex()}"


def _check_whole(stopped: bool) -> None:
    """Raises if the server is stopping: the job is not done, and the next server goes on with
    it.
    """
    if stopped:
        raise JobGone("the server stops")


def _shown(task: Task) -> Callable[[Progress], None]:
    def watch(progress: Progress) -> None:
        task.note(progress.done, progress.total, f"{progress.batches:,} batches")

    return watch


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _summary(known: dict[str, object], rows: list[Row]) -> str:
    """What is known of a result, and as many of its rows as fit."""
    shown, size = list[Any](), 0
    for row in rows:
        values = row.asDict(recursive=True)
        size += len(json.dumps(values, default=_shown_value, ensure_ascii=False)) + 2
        if size > RESULT_MAX:
            break
        shown.append(values)
    return json.dumps({**known, "first": shown}, default=_shown_value, ensure_ascii=False)


def _shown_value(value: object) -> str:
    """What JSON has no form for."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "replace")
    return value.isoformat() if isinstance(value, date) else str(value)
