"""The tables of a queue manager and of a lake, by the names that statements use."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import AccessDenied
from posthouse.model.message_columns import NAMES
from posthouse.spark.jobs.tables import (
    HISTORY,
    JOBS,
    history_loader,
    jobs_loader,
    queue_names,
)
from posthouse.spark.queries.arrow_tables import NARROW, QueueRows
from posthouse.spark.queries.catalog import ArrowReader, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES: Final = "queues"
JOURNALS: Final = "journals"
SYSTEM: Final = "system"
LAKE: Final = "lake"
SYSTEM_TABLES: Final = ("journal", "deadletter", "deadxact")
_PRIVATE: Final = "private$\\"
_UNTOLD: Final = ("internal", "outgoing")
SOURCE_JOURNAL: Final = ".\\system$;journal"

Load = Callable[["SparkSession"], "DataFrame"]


def read_queue(
    spark: SparkSession, options: Mapping[str, str], *queues: str, columns: Sequence[str] = ()
) -> DataFrame:
    """A snapshot of some queues, of some columns or all; it consumes nothing."""
    reader = spark.read.format("posthouse").options(**options)
    if columns:
        reader = reader.option("columns", ",".join(columns))
    return reader.option("queue", json.dumps(list(queues))).load()


def _load(
    spark: SparkSession,
    columns: Collection[str] | None = None,
    pushes: bool = False,
    *,
    options: Mapping[str, str],
    path: str,
) -> DataFrame:
    options = {**options, "pushdown": "true"} if pushes else options
    if columns is None:
        return read_queue(spark, options, path)
    named = [name for name in NAMES if name in columns]
    return read_queue(spark, options, path, columns=named or [NARROW])


def lake_loader(
    path: str | os.PathLike[str],
    as_of: int | datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Load:
    """The lake at a path, for `LiveTables`; read when a statement names it."""

    def load(spark: SparkSession) -> DataFrame:
        from posthouse.spark.lakes.table import lake

        return lake(path, spark, as_of=as_of, storage_options=storage_options)

    return load


def told_queues(http: BulkHttp) -> list[str]:
    """The paths of all queues with messages that tell of times, journals and the system's too.

    Dead letters are left out: where they lie says nothing of where they should be.
    """
    found = [
        str(queue["path"])
        for queue in _listed(http, system=True)
        if queue["messages"] and queue["kind"] not in _UNTOLD
    ]
    return [path for path in found if "\\system$;dead" not in path.lower()] or [SOURCE_JOURNAL]


def _listed(http: BulkHttp, *, system: bool) -> Iterator[dict[str, Any]]:
    """Every queue as the API shows it."""
    after: int | None = 0
    while after is not None:
        page = http.call("GET", f"/queues?system={str(system).lower()}&after={after}")
        yield from page["queues"]
        after = page["next"]


def listed_names(http: BulkHttp) -> dict[str, str]:
    """Paths of all queues by short names: a private queue comes before a public one."""
    found: dict[str, str] = {}
    listed = [str(one["path"]) for one in _listed(http, system=False)]
    plain = [path for path in listed if ";" not in path]
    for path in sorted(plain, key=lambda path: _PRIVATE not in path.lower()):
        name = path.rpartition("\\")[2].lower()
        found.setdefault(name, path)
        if found[name] != path:
            found[path.lower()] = path
    return found


class LiveTables:
    """What one queue manager has, and a lake where one is named.

    `options` lead to the queue manager, as those of the source do. A queue is named as it is
    itself, without its computer; the whole path name between backquotes does too, and is needed
    for a public queue beside a private one of the same name.
    """

    def __init__(
        self,
        http: BulkHttp,
        options: Mapping[str, str],
        lake: Load | None = None,
        lake_rows: ArrowReader | None = None,
    ) -> None:
        self._http = http
        self._options = dict(options)
        self._lake = lake
        self._lake_rows = lake_rows

    def find(self, namespace: str, name: str) -> Table | None:
        """The table of that name, whatever its case."""
        if namespace == SYSTEM and name in SYSTEM_TABLES:
            return self._table(SYSTEM, name, f".\\system$;{name}")
        if namespace == LAKE and name == "messages" and self._lake is not None:
            return Table(LAKE, name, "the lake", self._lake, self._lake_rows)
        if namespace == JOBS:
            return self._of_jobs(name)
        if namespace not in (QUEUES, JOURNALS):
            return None
        short, _, inner = name.partition(";")
        path = self._paths.get(short)
        if path is None or (namespace == JOURNALS and inner):
            return None
        return self._of_queue(namespace, name, f"{path};{inner}" if inner else path)

    def all(self) -> Iterator[Table]:
        """All of them: queues, their journals, the system's queues, jobs, the lake."""
        for short, path in self._short.items():
            yield self._of_queue(QUEUES, short, path)
            yield self._of_queue(JOURNALS, short, path)
        for name in SYSTEM_TABLES:
            yield self._table(SYSTEM, name, f".\\system$;{name}")
        for name in (HISTORY, *(name for name in self._job_queues if ":" not in name)):
            found = self._of_jobs(name)
            if found is not None:
                yield found
        if self._lake is not None:
            yield Table(LAKE, "messages", "the lake", self._lake, self._lake_rows)

    def _of_jobs(self, name: str) -> Table | None:
        """A job queue, or the history; a queue of that name is `type:history`."""
        if name == HISTORY:
            return Table(JOBS, HISTORY, "jobs that have ended", history_loader(self._options))
        reference = self._job_queues.get(name)
        if reference is None:
            return None
        return Table(
            JOBS, name, f"the job queue {name.upper()}", jobs_loader(self._options, reference)
        )

    @cached_property
    def _job_queues(self) -> dict[str, str]:
        try:
            return queue_names(self._http)
        except AccessDenied:  # a token for some queues
            return {}

    def _of_queue(self, namespace: str, name: str, path: str) -> Table:
        return self._table(namespace, name, f"{path};journal" if namespace == JOURNALS else path)

    def _table(self, namespace: str, name: str, path: str) -> Table:
        load = partial(_load, options=self._options, path=path)
        rows = QueueRows(self._http, path)
        return Table(namespace, name, path, load, rows, load)

    @cached_property
    def _short(self) -> dict[str, str]:
        """Paths by the names that SHOW TABLES shows."""
        return listed_names(self._http)

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Paths by every name that is understood: also the whole path, with a dot or a computer."""
        found = dict(self._short)
        for path in self._short.values():
            found[path.lower()] = path
            found["." + path[path.index("\\") :].lower()] = path
        return found
