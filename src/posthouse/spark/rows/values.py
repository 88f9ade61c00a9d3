"""Rows as the driver gets them, in plain values: times in UTC, structures as dictionaries.

PySpark hands times over in the zone of the machine and without naming it; the schema shows which
values are times of that sort.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, MapType, StructType

Values = dict[str, Any]
Convert = Callable[[Any], Any]
_JSON: Final = (str, int, float, bool, type(None))
_AT_ONCE: Final = 5000  # rows of an Arrow table that become values together


def rows_of(frame: DataFrame | pa.Table) -> list[Values]:
    """The rows of a small table, by column."""
    names = names_of(frame)
    return [dict(zip(names, cells, strict=True)) for cells in cells_of(frame)]


def names_of(frame: DataFrame | pa.Table) -> list[str]:
    """The names of the columns, in order."""
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


def cells_of(frame: DataFrame | pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of any table, partition by partition."""
    if isinstance(frame, pa.Table):
        for batch in frame.to_batches(max_chunksize=_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return
    converters = [converter(field.dataType) for field in frame.schema.fields]
    for row in frame.toLocalIterator():
        yield tuple(
            None if value is None else convert(value)
            for convert, value in zip(converters, row, strict=True)
        )


def converter(data_type: DataType) -> Convert:
    """What turns a value of this type into a plain one."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        MapType,
        StructType,
        TimestampType,
        VariantType,
    )

    if isinstance(data_type, TimestampType):
        return _in_utc
    if isinstance(data_type, BinaryType):
        return bytes
    if isinstance(data_type, VariantType):
        return lambda value: value.toJson()
    if isinstance(data_type, ArrayType):
        inner = _optional(converter(data_type.elementType))
        return lambda values: [inner(value) for value in values]
    if isinstance(data_type, MapType):
        return _of_map(data_type)
    return _of_struct(data_type) if isinstance(data_type, StructType) else _same


def _of_map(data_type: MapType) -> Convert:
    key, value = converter(data_type.keyType), _optional(converter(data_type.valueType))
    return lambda pairs: {key(one): value(other) for one, other in pairs.items()}


def _of_struct(data_type: StructType) -> Convert:
    fields = [(field.name, _optional(converter(field.dataType))) for field in data_type.fields]
    return lambda row: {
        name: convert(value) for (name, convert), value in zip(fields, row, strict=True)
    }


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _same(value: Any) -> Any:
    return value


def plain(value: Any) -> Any:
    """A value in terms of JSON: bytes in base64, times in ISO 8601."""
    if isinstance(value, dict):
        return {str(plain(name)): plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and value - value != 0:  # no number, or without end
        return None
    if isinstance(value, Decimal) or not isinstance(value, _JSON):
        return str(value)
    return value
