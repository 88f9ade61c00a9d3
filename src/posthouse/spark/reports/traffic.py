"""`traffic`: messages through queues, by queue, hour, message type and format.

It also names what it could not read, and why: formats that are not known, and bodies that break
the format that they claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from posthouse.model.message_classes import NORMAL
from posthouse.spark.queries.tables import read_queue
from posthouse.spark.reports.counting import (
    CONTENT,
    CONTENT_SCHEMAS,
    COUNTED,
    TIME,
    content_tables,
    count,
    with_content,
)
from posthouse.spark.reports.report import Report
from posthouse.spark.rows.values import Values, rows_of
from posthouse.spark.table_files import write_values

_COLUMNS: Final = ("queue", "class_code", "body_size", "sent_time", "arrived_time")
SCHEMAS: Final = {
    "by_queue": pa.schema([pa.field("queue", pa.string()), *COUNTED]),
    "by_format": pa.schema([pa.field("format", pa.string()), *COUNTED]),
    **CONTENT_SCHEMAS,
    "by_hour": pa.schema([pa.field("hour", TIME), pa.field("format", pa.string()), *COUNTED]),
}


class Traffic(Report):
    """Messages, counted by what they are; `close` frees what Spark holds of them."""

    def __init__(self, messages: DataFrame) -> None:
        normal = messages.where(F.col("class_code") == NORMAL)
        super().__init__(with_content(normal).select(*_COLUMNS, *CONTENT))

    @cached_property
    def tables(self) -> dict[str, list[Values]]:
        """Rows by the names of SCHEMAS, the most frequent first; counted when asked for."""
        hours = self._kept.withColumn("hour", F.date_trunc("hour", "sent_time"))
        by_hour = rows_of(count(hours, "hour", "format"))
        return {
            "by_queue": rows_of(count(self._kept, "queue")),
            "by_format": rows_of(count(self._kept, "format")),
            **content_tables(self._kept),
            "by_hour": sorted(by_hour, key=lambda row: (str(row["hour"]), row["format"])),
        }

    @property
    def messages(self) -> int:
        """How many there are."""
        return sum(row["messages"] for row in self.tables["by_format"])

    @property
    def unread(self) -> int:
        """How many could not be read."""
        return sum(row["messages"] for row in self.tables["unreadable"])

    def write(self, folder: Path) -> None:
        """The tables as Parquet, one file each."""
        for name, schema in SCHEMAS.items():
            write_values(folder / f"{name}.parquet", self.tables[name], schema)


def traffic(spark: SparkSession, options: Mapping[str, str], queues: Sequence[str]) -> Traffic:
    """What is in these queues; `options` lead there, as those of the source."""
    wanted = {**options, "columns": ",".join((*_COLUMNS, *CONTENT))}
    return Traffic(read_queue(spark, wanted, *queues))
