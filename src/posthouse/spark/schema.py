"""The schema of messages, in Spark's types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from posthouse.model.errors import InvalidParameter, RemoteProtocolError
from posthouse.model.message_columns import READABLE, Kind

try:
    from pyspark.sql.types import VariantType
except ImportError:  # before Spark 4
    VALUE_TYPE: DataType = StringType()
else:
    VALUE_TYPE = VariantType()
BODY_JSON: Final = "body_json"

if TYPE_CHECKING:
    import pyarrow


@cache
def spark_type(kind: Kind) -> DataType:
    """The type of a kind of column."""
    return {
        Kind.LONG: LongType(),
        Kind.INT: IntegerType(),
        Kind.BOOLEAN: BooleanType(),
        Kind.STRING: StringType(),
        Kind.BINARY: BinaryType(),
        Kind.TIMESTAMP: TimestampType(),
        Kind.STRINGS: ArrayType(StringType()),
        Kind.HEADERS: MapType(StringType(), StringType()),
        Kind.VALUE: VALUE_TYPE,
        Kind.TRANSACTION: StructType(
            [
                StructField("id", LongType()),
                StructField("first", BooleanType()),
                StructField("last", BooleanType()),
            ]
        ),
    }[kind]


def message_schema(
    columns: Iterable[str], *, exact: bool = False, as_text: bool = False
) -> StructType:
    """The schema of these columns of messages.

    An `exact` one states which of them are never null: that spares Spark a look at every value.
    With `as_text` JSON values are texts.
    """
    chosen = [READABLE[name] for name in columns]
    return StructType(
        [
            StructField(
                column.name,
                StringType() if as_text and column.kind is Kind.VALUE else spark_type(column.kind),
                column.nullable or not exact,
            )
            for column in chosen
        ]
    )


def check_schema(schema: StructType) -> Sequence[str]:
    """The columns of a schema that a user gave: some of ours, with our types."""
    for field in schema.fields:
        if field.name not in READABLE:
            raise InvalidParameter(
                f"messages have no column {field.name!r}",
                f"The columns are {', '.join(READABLE)}.",
            )
        kind = READABLE[field.name].kind
        wanted = spark_type(kind)
        if field.dataType != wanted and not (kind is Kind.VALUE and is_text(field)):
            raise InvalidParameter(
                f"the column {field.name} is {wanted.simpleString()}, "
                f"not {field.dataType.simpleString()}",
                "Leave the schema out, and cast what was read.",
            )
        if not field.nullable and READABLE[field.name].nullable:
            raise InvalidParameter(
                f"the schema states that the column {field.name} is never null, and some messages "
                "have none",
                "Leave NOT NULL out there, or the whole schema; keep the rows you want with "
                f"where({field.name} IS NOT NULL).",
            )
    return schema.names


def is_text(field: StructField) -> bool:
    """Whether a column is of texts."""
    return field.dataType == StringType()


def values_are_texts(schema: StructType) -> bool:
    """Whether JSON values are asked for as texts."""
    kinds = {field.name: is_text(field) for field in schema.fields}
    return kinds.get(BODY_JSON, False)


def never_null(schema: StructType) -> frozenset[str]:
    """The columns of which Spark was told so."""
    return frozenset(field.name for field in schema.fields if not field.nullable)


def promised(batch: pyarrow.RecordBatch, sure: Collection[str]) -> pyarrow.RecordBatch:
    """A record batch with the columns of the schema, which Spark compares."""
    import pyarrow

    fields = [field.with_nullable(field.name not in sure) for field in batch.schema]
    for field, column in zip(fields, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise RemoteProtocolError(f"the queue manager sent messages without {field.name}")
    return pyarrow.RecordBatch.from_arrays(batch.columns, schema=pyarrow.schema(fields))
