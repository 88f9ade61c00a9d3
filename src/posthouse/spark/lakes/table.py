"""A lake as a DataFrame: what its manifest names, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from posthouse.model.message_columns import NAMES
from posthouse.spark.lakes.files import QUEUE_NAME, US_PER_S, LakeFiles, file_pattern, file_uri
from posthouse.spark.lakes.manifest import LakeFile
from posthouse.spark.schema import message_schema
from posthouse.spark.sessions import session

DAY: Final = StructField("day", DateType())
LAKE_SCHEMA: Final = StructType([*message_schema(NAMES).fields, DAY])
"""The columns of messages, and the day (UTC) on which each came."""


def lake(
    path: str | os.PathLike[str],
    spark: SparkSession | None = None,
    *,
    queues: Collection[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """The messages of a lake that `archive` has written, as they are now.

    With the columns of messages and `day`. Filters on `queue` and `day` open only the folders that
    can match; `queues`, `since` and `until` (of `arrived_time`, the end excluded) choose files by
    the manifest alone. The DataFrame can be read for an hour; a compaction may delete files then.
    """
    files = LakeFiles(path)
    manifest = files.manifests.read()
    chosen = [file for file in manifest.files if may_match(file, queues, since, until)]
    rows = read_files(spark or lake_session(), files, chosen)
    if queues is not None:
        rows = rows.where(F.col("queue").isin(*queues))
    return rows.where(arrived(since, until))


def lake_session() -> SparkSession:
    """The session that is there, else one with our settings."""
    found = SparkSession.getActiveSession()
    return found if found is not None else session("lake")


def arrived(since: datetime | None, until: datetime | None) -> Column:
    """Whether a message came in a span of time."""
    condition = F.lit(True)
    if since is not None:
        condition = condition & (
            F.col("arrived_time") >= F.timestamp_micros(F.lit(moment_us(since)))
        )
    if until is not None:
        condition = condition & (
            F.col("arrived_time") < F.timestamp_micros(F.lit(moment_us(until)))
        )
    return condition


def moment_us(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a zone is UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * US_PER_S)


def may_match(
    file: LakeFile,
    queues: Collection[str] | None,
    since: datetime | None,
    until: datetime | None,
) -> bool:
    """Whether a file can have messages of these queues and times."""
    return (
        (queues is None or file.queue in queues)
        and (since is None or file.last_us >= moment_us(since))
        and (until is None or file.first_us < moment_us(until))
    )


def read_files(spark: SparkSession, lake: LakeFiles, files: Iterable[LakeFile]) -> DataFrame:
    """The rows of these files of a lake."""
    names = [file_pattern(lake.root / file.path) for file in files]
    if not names:
        return spark.createDataFrame([], LAKE_SCHEMA)
    schema = StructType([*LAKE_SCHEMA.fields, StructField(QUEUE_NAME, StringType())])
    reader = spark.read.schema(schema).option("basePath", file_uri(lake.root))
    rows = reader.parquet(*names)
    if any(_is_shortened(file) for file in files):
        rows = rows.withColumn("queue", F.coalesce(QUEUE_NAME, "queue"))
    return rows.select(*LAKE_SCHEMA.names)


def _is_shortened(file: LakeFile) -> bool:
    """Whether the folder has not the whole name of the queue."""
    return "~" in file.path.partition("/")[0]
