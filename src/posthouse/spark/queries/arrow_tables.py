"""Queues and lakes as Arrow tables of this process: for statements that need no Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from posthouse.client import arrow_read
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue, QueuePlan
from posthouse.model.message_columns import BY_NAME, COLUMNS, Kind
from posthouse.spark.queries.catalog import TableSize
from posthouse.spark.queries.small.tree import DATE, DOUBLE, KindOf

if TYPE_CHECKING:
    from posthouse.spark.lakes.files import LakeFiles
    from posthouse.spark.lakes.state import LakeFile

NARROW: Final = "lookup_id"
"""What is read of a table of which a statement names no column, as `count(*)` does."""
TYPES: Final[dict[KindOf, pa.DataType]] = {
    Kind.LONG: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us"),  # UTC; a zone would ask DuckDB for an extension
    Kind.STRINGS: pa.list_(pa.field("element", pa.string())),  # as Spark names it
    Kind.TRANSACTION: pa.struct([("id", pa.int64()), ("first", pa.bool_()), ("last", pa.bool_())]),
    DATE: pa.date32(),
    DOUBLE: pa.float64(),
}

LAKE_KINDS: Final[Mapping[str, KindOf]] = {
    **{column.name: column.kind for column in COLUMNS},
    "day": DATE,
}
"""The columns of a lake: those of messages, and the day on which each came."""


def _gathered(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows_max: int | None
) -> pa.Table:
    """Rows as one table, up to a number of them."""
    kept: list[pa.Table] = []
    rows = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]).select(schema.names)
        kept.append(
            pa.Table.from_arrays(
                [_as(c, f) for c, f in zip(table, schema, strict=True)], schema=schema
            )
        )
        rows += batch.num_rows
        if rows_max is not None and rows >= rows_max:
            break
    found = pa.concat_tables(kept) if kept else schema.empty_table()
    return found if rows_max is None else found.slice(0, rows_max)


def _as(column: Any, field: pa.Field) -> Any:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(field.type)


class QueueRows:
    """The messages of a queue that are there when it is planned."""

    def __init__(self, http: BulkHttp, path: str) -> None:
        self._http = http
        self._path = path

    def kinds(self) -> Mapping[str, KindOf]:
        """The columns of messages."""
        return {column.name: column.kind for column in COLUMNS}

    @cached_property
    def _plan(self) -> QueuePlan:
        return arrow_read.plan(self._http, [PlannedQueue(self._path)]).queues[0]

    def size(self) -> TableSize:
        """Messages and their bytes."""
        return TableSize(self._plan.messages, self._plan.bytes)

    def read(self, columns: Sequence[str], rows_max: int | None = None) -> pa.Table:
        """Their rows."""
        names = list(columns) or [NARROW]
        schema = pa.schema([(name, TYPES[BY_NAME[name].kind]) for name in names])
        plan = self._plan
        if rows_max == 0 or plan.end <= plan.after:
            return schema.empty_table()
        through = plan.end
        if rows_max is not None:
            through = self._near_end(rows_max)
        rows = arrow_read.read(self._http, plan.queue, plan.after, through, names)
        return _gathered(rows, schema, rows_max)

    def _near_end(self, rows_max: int) -> int:
        """Where this many messages end, or somewhat after that."""
        wanted = PlannedQueue(self._path, after=self._plan.after, max_messages=rows_max)
        found = arrow_read.plan(self._http, [wanted]).queues[0]
        return min(max(found.end, self._plan.after), self._plan.end)


class FileRows:
    """The messages in some files of a lake."""

    def __init__(self, lake: LakeFiles, files: Sequence[LakeFile]) -> None:
        self._lake = lake
        self._files = files

    def kinds(self) -> Mapping[str, KindOf]:
        """The columns of messages, and the day on which each came."""
        return LAKE_KINDS

    def size(self) -> TableSize:
        """Messages, and the bytes that they had before they were packed, roughly."""
        files = self._files
        return TableSize(sum(file.rows for file in files), 4 * sum(file.bytes for file in files))

    def read(self, columns: Sequence[str], rows_max: int | None = None) -> pa.Table:
        """Their rows."""
        schema = pa.schema([(name, TYPES[LAKE_KINDS[name]]) for name in columns or [NARROW]])
        return _gathered(self._batches(schema), schema, rows_max)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        from posthouse.spark.lakes.compaction import batches

        for file in self._files:
            for batch in batches(self._lake, file, schema.names):
                yield _completed(batch, file, schema)


class LakeRows:
    """The messages of a lake as it is now, or was; the lake is opened when they are asked for."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        as_of: int | datetime | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._path = path
        self._as_of = as_of
        self._options = storage_options

    @cached_property
    def _rows(self) -> FileRows:
        from posthouse.spark.lakes.files import LakeFiles

        lake = LakeFiles(self._path, storage_options=self._options)
        state = lake.state() if self._as_of is None else lake.state_as_of(self._as_of)
        return FileRows(lake, state.files)

    def kinds(self) -> Mapping[str, KindOf]:
        """The columns of messages, and the day; nothing is opened for them."""
        return LAKE_KINDS

    def size(self) -> TableSize:
        """Messages, and about their bytes."""
        return self._rows.size()

    def read(self, columns: Sequence[str], rows_max: int | None = None) -> pa.Table:
        """Their rows."""
        return self._rows.read(columns, rows_max)


def _completed(batch: pa.RecordBatch, file: LakeFile, schema: pa.Schema) -> pa.RecordBatch:
    """Rows with queue and day, which files of version 0.1 have in the names of their folders."""
    there = {name: batch.column(name) for name in batch.schema.names}
    known = {"queue": pa.scalar(file.queue), "day": pa.scalar(date.fromisoformat(file.day))}
    arrays = [
        pa.repeat(known[field.name], batch.num_rows)
        if field.name in known
        else there.get(field.name, pa.nulls(batch.num_rows, field.type))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)
