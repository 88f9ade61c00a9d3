"""Tables of a few rows with odd values, which Spark and DuckDB both read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from posthouse.model.message_columns import Kind
from posthouse.spark.queries.arrow_tables import TYPES
from posthouse.spark.queries.catalog import Table, TableSize
from posthouse.spark.queries.small.tree import DATE, KindOf

KINDS: dict[str, KindOf] = {
    "lookup_id": Kind.LONG,
    "label": Kind.STRING,
    "body": Kind.BINARY,
    "priority": Kind.INT,
    "arrived_time": Kind.TIMESTAMP,
    "authenticated": Kind.BOOLEAN,
    "journal": Kind.STRINGS,
    "transaction": Kind.TRANSACTION,
    "day": DATE,
}
SPARK_SCHEMA = (
    "lookup_id long, label string, body binary, priority int, arrived_time timestamp, "
    "authenticated boolean, journal array<string>, "
    "transaction struct<id: long, first: boolean, last: boolean>, day date"
)


def _row(
    number: int,
    label: str | None,
    body: bytes | None,
    priority: int | None,
    at: str | None,
    sure: bool | None,
    journal: list[str] | None,
) -> tuple[Any, ...]:
    time = None if at is None else datetime.fromisoformat(at).replace(tzinfo=UTC)
    inner = {"id": number, "first": True, "last": None} if number % 2 else None
    return number, label, body, priority, time, sure, journal, inner, time and time.date()


ROWS = [
    _row(1, "straße", b"alpha", 5, "2026-01-31 23:59:59.999999", True, ["positive"]),
    _row(2, "Étoile", b"", 3, "2026-02-01 00:00:00", False, []),
    _row(3, None, None, None, None, None, None),
    _row(4, 'it\'s 100% _"x"', "ünï😀".encode(), 0, "1969-12-31 23:59:58.5", True, ["a", "b"]),
    _row(5, "", b"42", 7, "2026-03-29 01:30:00.123", None, ["negative"]),
    _row(6, "straße", b" 17 ", 5, "2024-02-29 12:00:00", False, ["positive", "negative"]),
    _row(1 << 62, "ZETA", b"{}", -2147483647, "2026-12-28 06:07:08.000001", True, []),
    _row(8, "line\nbreak\ttab", b"-3", 1, "2026-02-01 00:00:00", True, None),
]


class Rows:
    """Some rows as Arrow; `asked` notes the columns that were read."""

    def __init__(self, rows: Sequence[tuple[Any, ...]] = ROWS, size: int = 1000) -> None:
        self._rows = rows
        self._size = size
        self.asked: list[tuple[list[str], int | None]] = []

    def kinds(self) -> Mapping[str, KindOf]:
        return KINDS

    def size(self) -> TableSize:
        return TableSize(len(self._rows), self._size)

    def read(self, columns: Sequence[str], rows_max: int | None = None) -> pa.Table:
        self.asked.append((list(columns), rows_max))
        names = list(KINDS)
        return pa.table(
            {
                name: pa.array(
                    [_plain(row[names.index(name)]) for row in self._rows][:rows_max],
                    TYPES[KINDS[name]],
                )
                for name in columns or ["lookup_id"]
            }
        )


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class Samples:
    """Tables of both engines."""

    def __init__(self, size: int = 1000) -> None:
        self.rows = Rows(size=size)

    def find(self, namespace: str, name: str) -> Table | None:
        return next(
            (one for one in self.all() if (one.namespace, one.name) == (namespace, name)), None
        )

    def all(self) -> Iterator[Table]:
        for namespace, name in (
            ("queues", "orders"),
            ("queues", "odd name"),
            ("journals", "orders"),
            ("system", "deadletter"),
            ("posthouse.alpha", "orders"),
            ("posthouse.alpha", "orders;journal"),
        ):
            yield Table(namespace, name, f"{namespace} {name}", _load, self.rows)
        yield Table("jobs", "history", "jobs", _load)


def _load(spark: Any) -> Any:
    rows = [
        tuple(bytearray(value) if isinstance(value, bytes) else value for value in row)
        for row in ROWS
    ]
    return spark.createDataFrame(rows, SPARK_SCHEMA)
