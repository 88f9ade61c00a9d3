"""Answers from DuckDB: a database in memory that reaches nothing but the tables it is given.

It gets statements that `translation` wrote. Should a name of it ever slip through, its second bolt
holds: no files, no network, no extensions, no variables of this program, and settings that cannot
be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any, Final

import pyarrow as pa

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import Kind
from posthouse.spark.queries.arrow_tables import TYPES
from posthouse.spark.queries.catalog import Tables, shown_tables
from posthouse.spark.queries.small.calls import PYTHON
from posthouse.spark.queries.small.parser import Shown, parse
from posthouse.spark.queries.small.tokens import NeedsSpark
from posthouse.spark.queries.small.translation import Read, Translation, translated
from posthouse.spark.queries.small.tree import KindOf

BYTES_MAX: Final = 256 << 20
"""What a statement may read without Spark, unless DuckDB is asked for by name."""
RESULT_MAX: Final = 256 << 20
"""Bytes of a result: it is held in memory."""
BATCH_ROWS: Final = 2048  # of a result that are looked at together
ROW_BYTES: Final = 256  # of a message without its body, about
_LARGE: Final = frozenset({"body", "extension"})
MEMORY: Final = "1GB"
_SETTINGS: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "threads": "2",
}
LOCKS: Final = (
    "SET python_enable_replacements = false",
    "SET disabled_filesystems = 'LocalFileSystem'",
    "SET lock_configuration = true",
)
"""What closes a database when its tables are in it."""


SQL_MAX: Final = 1 << 20
"""Characters of what DuckDB gets; nested calls can make a short statement long."""


def is_installed() -> bool:
    """Whether DuckDB is there."""
    return find_spec("duckdb") is not None


def answer(
    statement: str,
    tables: Tables,
    *,
    bytes_max: int | None = BYTES_MAX,
    rows_max: int | None = None,
    memory: str = MEMORY,
) -> pa.Table:
    """The rows of a statement, with the names and types that Spark gives; the first `rows_max`.

    `NeedsSpark` where the statement is one that only Spark answers, where it would read more than
    `bytes_max` or give more than `RESULT_MAX` bytes, or where it fails: then Spark has the last
    word.
    """
    try:
        parsed = parse(statement)
        if isinstance(parsed, Shown):
            return _shown(tables, parsed)
        made = translated(parsed, tables, datetime.now(UTC))
    except (RecursionError, OverflowError):
        raise NeedsSpark("it is very long, or has a very large number") from None
    if len(made.sql) > SQL_MAX:
        raise NeedsSpark("it is very long")
    if bytes_max is not None:
        _check_size(made.reads, bytes_max)
    with database(memory) as base:
        for read in made.reads:
            assert read.table.arrow is not None, "the translation has seen to that"
            base.register(read.relation, read.table.arrow.read(list(read.columns), read.rows_max))
        for lock in LOCKS:
            base.execute(lock)
        return _typed(_run(base, made.sql, rows_max), made)


@contextmanager
def database(memory: str = MEMORY) -> Iterator[Any]:
    """A database in memory with our functions; to be locked when its tables are in it."""
    import duckdb

    with duckdb.connect(":memory:", config={**_SETTINGS, "memory_limit": memory}) as base:
        for name, function, arguments, result in PYTHON:
            base.create_function(name, function, arguments, result)
        yield base


def _run(base: Any, sql: str, rows_max: int | None) -> pa.Table:
    """The rows as they come, and no more of them than are wanted or than memory is for."""
    import duckdb

    try:
        return _first(base.sql(sql).to_arrow_reader(BATCH_ROWS), rows_max)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise NeedsSpark(f"DuckDB fails: {' '.join(str(error).split())[:300]}") from None


def _first(reader: pa.RecordBatchReader, rows_max: int | None) -> pa.Table:
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in reader:
        kept.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows_max is not None and rows >= rows_max:
            break
        if size > RESULT_MAX:
            raise NeedsSpark(
                f"its result is larger than {RESULT_MAX >> 20:,} MiB; a LIMIT, fewer columns or "
                "a condition make it smaller"
            )
    found = pa.Table.from_batches(kept, reader.schema)
    return found if rows_max is None else found.slice(0, rows_max)


def _check_size(reads: tuple[Read, ...], bytes_max: int) -> None:
    """Leaves to Spark what is large."""
    found = sum(_size(read) for read in reads)
    if found > bytes_max:
        raise NeedsSpark(f"there are about {found >> 20:,} MiB to read")


def _size(read: Read) -> int:
    """Bytes that will be read of a table, about."""
    assert read.table.arrow is not None, "the translation has seen to that"
    rows, size = read.table.arrow.size()
    share = 1.0 if read.rows_max is None else min(1.0, read.rows_max / max(1, rows))
    narrow = not _LARGE & read.columns.keys()
    return round(share * (min(size, rows * ROW_BYTES) if narrow else max(size, rows)))


def _typed(found: pa.Table, made: Translation) -> pa.Table:
    """What came, with the names that people gave, the types of Spark and times in UTC."""
    fields = [pa.field(name, result_type(kind)) for name, kind in made.columns]
    arrays = [column.cast(field.type) for column, field in zip(found.columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def result_type(kind: KindOf) -> pa.DataType:
    """The type of a column of results."""
    return pa.timestamp("us", "UTC") if kind is Kind.TIMESTAMP else TYPES[kind]


def _shown(tables: Tables, shown: Shown) -> pa.Table:
    rows = shown_tables(tables, shown.namespace, shown.pattern)
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    names = ("namespace", "table", "reads")
    return pa.table({n: pa.array(c, pa.string()) for n, c in zip(names, columns, strict=True)})


def refused(error: NeedsSpark) -> InvalidParameter:
    """What is said where DuckDB was asked for by name."""
    return InvalidParameter(
        f"DuckDB does not answer this statement: {error}", "Leave --engine out: Spark does."
    )
