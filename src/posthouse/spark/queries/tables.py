"""The tables of a queue manager and of a lake, by the names that statements use."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self

from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import AccessDenied, InvalidParameter
from posthouse.model.message_columns import NAMES
from posthouse.spark.endpoint import http_now
from posthouse.spark.jobs.tables import (
    HISTORY,
    JOBS,
    history_loader,
    jobs_loader,
    queue_names,
)
from posthouse.spark.options import CONNECTION, Manager, managers, taken
from posthouse.spark.queries.arrow_tables import NARROW, QueueRows
from posthouse.spark.queries.catalog import CATALOG, ArrowReader, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES: Final = "queues"
JOURNALS: Final = "journals"
SYSTEM: Final = "system"
LAKE: Final = "lake"
SYSTEM_TABLES: Final = ("journal", "deadletter", "deadxact")
_SYSTEM_NAMES: Final = frozenset(f"system$;{name}" for name in SYSTEM_TABLES)
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
    """The paths of all queues whose messages show times, with journals and system queues.

    Dead letters are left out: their queue does not show their destination.
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


class ManagerQueues:
    """The queues of one queue manager that may be seen, as tables.

    A queue is named as it is itself, without its computer; the whole path name between backquotes
    does too, and is needed for a public queue beside a private one of the same name.
    """

    def __init__(self, http: BulkHttp, options: Mapping[str, str]) -> None:
        self.http = http
        self.options = dict(options)

    @cached_property
    def namespace(self) -> str:
        """What comes before the names of its queues in the catalog: `posthouse.alpha`.

        Empty where it shows no queue: then there is nothing to name.
        """
        computer = next((path.partition("\\")[0] for path in self.short.values()), "")
        return f"{CATALOG}.{computer.lower()}" if computer else ""

    @cached_property
    def short(self) -> dict[str, str]:
        """Paths by the names that SHOW TABLES shows."""
        return listed_names(self.http)

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Paths by every name that is understood: also the whole path, with a dot or a computer."""
        found = dict(self.short)
        for path in self.short.values():
            found[path.lower()] = path
            found["." + path[path.index("\\") :].lower()] = path
        return found

    def find(self, namespace: str, name: str) -> Table | None:
        """A queue or a part of it (`orders;journal`) under a name in a namespace."""
        short, _, inner = name.partition(";")
        path = self._paths.get(short)
        if path is None or (namespace == JOURNALS and inner):
            return None
        return self.table(namespace, name, f"{path};{inner}" if inner else path)

    def in_catalog(self, name: str) -> Table | None:
        """A queue by its name in the catalog; the system's are `system$;deadletter` and such."""
        found = self.find(self.namespace, name)
        of_system = name in _SYSTEM_NAMES and self.namespace
        return found or (self._table(self.namespace, name, f".\\{name}") if of_system else None)

    def all(self, namespace: str) -> Iterator[Table]:
        """All queues, in a namespace."""
        for short, path in self.short.items():
            yield self.table(namespace, short, path)

    def table(self, namespace: str, name: str, path: str) -> Table:
        """A queue as a table."""
        return self._table(namespace, name, f"{path};journal" if namespace == JOURNALS else path)

    def _table(self, namespace: str, name: str, path: str) -> Table:
        load = partial(_load, options=self.options, path=path)
        return Table(namespace, name, path, load, QueueRows(self.http, path), load)

    def of_system(self, name: str) -> Table:
        """A queue of the system's own."""
        return self._table(SYSTEM, name, f".\\system$;{name}")


class LiveTables:
    """What one queue manager has, a lake where one is named, and the queues of other managers.

    `options` lead to the queue managers, as those of the source do, and `http` to the first. Its
    queues are `queues.NAME`; those of each are `posthouse.MANAGER.NAME` too.
    """

    def __init__(
        self,
        http: BulkHttp,
        options: Mapping[str, str],
        lake: Load | None = None,
        lake_rows: ArrowReader | None = None,
    ) -> None:
        self._http = http
        self._managers = managers(taken(options, CONNECTION))
        self._options = _options_of(options, self._managers[0])
        self._given = dict(options)
        self._own = ManagerQueues(http, self._options)
        self._lake = lake
        self._lake_rows = lake_rows

    def find(self, namespace: str, name: str) -> Table | None:
        """The table of that name, whatever its case."""
        if namespace == SYSTEM and name in SYSTEM_TABLES:
            return self._own.of_system(name)
        if namespace == LAKE and name == "messages" and self._lake is not None:
            return Table(LAKE, name, "the lake", self._lake, self._lake_rows)
        if namespace == JOBS:
            return self._of_jobs(name)
        if namespace in (QUEUES, JOURNALS):
            return self._own.find(namespace, name)
        if not namespace.startswith(f"{CATALOG}."):
            return None
        found = (one for one in self._named() if one.namespace == namespace)
        return next((table for one in found if (table := one.in_catalog(name))), None)

    def all(self) -> Iterator[Table]:
        """All of them: queues, their journals, the system's queues, jobs, the lake, the catalog."""
        yield from self._own.all(QUEUES)
        yield from self._own.all(JOURNALS)
        for name in SYSTEM_TABLES:
            yield self._own.of_system(name)
        for name in (HISTORY, *(name for name in self._job_queues if ":" not in name)):
            found = self._of_jobs(name)
            if found is not None:
                yield found
        if self._lake is not None:
            yield Table(LAKE, "messages", "the lake", self._lake, self._lake_rows)
        for manager in self._named():
            yield from manager.all(manager.namespace)

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

    def _named(self) -> list[ManagerQueues]:
        """The queue managers; two of one name are refused, for a name would mean either."""
        found: dict[str, str] = {}
        for manager, one in zip(self._managers, [self._own, *self._others], strict=True):
            if one.namespace and one.namespace in found:
                raise InvalidParameter(
                    f"{found[one.namespace]} and {manager.url} both have the name "
                    f"{one.namespace.partition('.')[2]}",
                    "Name one of them alone.",
                )
            found[one.namespace] = manager.url
        return [self._own, *self._others]

    @cached_property
    def _others(self) -> list[ManagerQueues]:
        return [
            ManagerQueues(http_now(manager), _options_of(self._given, manager))
            for manager in self._managers[1:]
        ]

    def close(self) -> None:
        """Ends the connections to other managers; the first is the caller's."""
        for one in self.__dict__.get("_others", ()):
            one.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def _options_of(options: Mapping[str, str], manager: Manager) -> dict[str, str]:
    """The options that lead to one of the queue managers alone."""
    kept = {name: text for name, text in options.items() if name not in ("url", "tokenFile")}
    kept["url"] = json.dumps([manager.url])
    if manager.token_file is not None:
        kept["tokenFile"] = json.dumps([manager.token_file])
    return kept
