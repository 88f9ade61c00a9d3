"""The schema of messages, in Spark's types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import BY_NAME, Kind


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
        Kind.TRANSACTION: StructType(
            [
                StructField("id", LongType()),
                StructField("first", BooleanType()),
                StructField("last", BooleanType()),
            ]
        ),
    }[kind]


def message_schema(columns: Iterable[str]) -> StructType:
    """The schema of these columns of messages."""
    return StructType([StructField(name, spark_type(BY_NAME[name].kind)) for name in columns])


def check_schema(schema: StructType) -> Sequence[str]:
    """The columns of a schema that a user gave: some of ours, with our types."""
    for field in schema.fields:
        if field.name not in BY_NAME:
            raise InvalidParameter(
                f"messages have no column {field.name!r}",
                f"The columns are {', '.join(BY_NAME)}.",
            )
        wanted = spark_type(BY_NAME[field.name].kind)
        if field.dataType != wanted:
            raise InvalidParameter(
                f"the column {field.name} is {wanted.simpleString()}, "
                f"not {field.dataType.simpleString()}",
                "Leave the schema out, and cast what was read.",
            )
    return schema.names
