"""The columns of a lake as Arrow has them: those of messages, and the day on which each came."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from posthouse.model.message_columns import COLUMNS, Kind

DAY: Final = "day"
PARTED_BY: Final = ("queue", DAY)
_TYPES: Final = {
    Kind.LONG: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.STRINGS: pa.list_(pa.string()),
    Kind.TRANSACTION: pa.struct(
        [("id", pa.int64()), ("first", pa.bool_()), ("last", pa.bool_())],
    ),
}
LAKE_COLUMNS: Final = pa.schema(
    [*(pa.field(column.name, _TYPES[column.kind]) for column in COLUMNS), (DAY, pa.date32())]
)
"""Every value may be null: columns that come later are null in files that were written before."""


def with_more(schema: pa.Schema) -> pa.Schema:
    """Our columns, then those that a table has beside them, as a newer version may have made."""
    names = set(LAKE_COLUMNS.names)
    return pa.schema([*LAKE_COLUMNS, *(field for field in schema if field.name not in names)])


def conformed(batch: pa.RecordBatch, schema: pa.Schema, queue: str, day: pa.Scalar) -> pa.Table:
    """Rows of one queue and day with all columns of a schema; those that they lack are null."""
    there = {name: batch.column(name) for name in batch.schema.names}
    there["queue"] = pa.repeat(pa.scalar(queue), batch.num_rows)
    there[DAY] = pa.repeat(day, batch.num_rows)
    columns = [
        there[field.name].cast(field.type)
        if field.name in there
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
