"""Counts of messages by some columns, and the tables that all reports of contents have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from posthouse.model.message_columns import DECODED_NAMES
from posthouse.spark.queries.decoding import decode_message
from posthouse.spark.rows.decoded import SOURCES
from posthouse.spark.rows.values import Values, rows_of
from posthouse.spark.schema import message_schema

ROWS_MAX: Final = 10_000
"""Rows of one table; the most frequent ones."""
TIME: Final = pa.timestamp("us", "UTC")
COUNTED: Final = (
    pa.field("messages", pa.int64()),
    pa.field("body_bytes", pa.int64()),
    pa.field("first_seen", TIME),
    pa.field("last_seen", TIME),
)
CONTENT: Final = ("format", "message_type", "exception_type", "decode_error")
"""The columns of contents that reports count by."""
TYPE_KEYS: Final = ("message_type", "exception_type", "format")
UNREAD_KEYS: Final = ("format", "why")
CONTENT_SCHEMAS: Final = {
    name: pa.schema([*(pa.field(key, pa.string()) for key in keys), *COUNTED])
    for name, keys in (("by_type", TYPE_KEYS), ("unreadable", UNREAD_KEYS))
}


def count(frame: DataFrame, *keys: str) -> DataFrame:
    """Messages, bytes and times by some columns, the most frequent first."""
    seen = F.coalesce("arrived_time", "sent_time")
    counted = frame.groupBy(*keys).agg(
        F.count("*").alias("messages"),
        F.coalesce(F.sum("body_size"), F.lit(0)).alias("body_bytes"),
        F.min(seen).alias("first_seen"),
        F.max(seen).alias("last_seen"),
    )
    return counted.orderBy(F.desc("messages"), *keys).limit(ROWS_MAX)


def with_content(messages: DataFrame) -> DataFrame:
    """The messages with the columns of their contents; those at rest are decoded here."""
    if set(CONTENT) <= set(messages.columns):
        return messages
    decoding = F.udf(decode_message, message_schema(DECODED_NAMES), useArrow=False)
    found = messages.withColumn("content", decoding(*SOURCES))
    return found.select("*", *(f"content.{name}" for name in CONTENT)).drop("content")


def content_tables(frame: DataFrame) -> dict[str, list[Values]]:
    """By message type and exception; and what could not be read, by format and reason.

    Numbers in reasons are positions in a body, which do not matter for the kind of fault.
    """
    why = F.regexp_replace("decode_error", "[0-9]+", "#")
    unread = frame.where("decode_error is not null").withColumn("why", why)
    return {
        "by_type": rows_of(count(frame, *TYPE_KEYS)),
        "unreadable": rows_of(count(unread, *UNREAD_KEYS)),
    }
