"""A lake as a DataFrame: the files that a version of its table names, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, StringType, StructField, StructType

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import NAMES
from posthouse.spark.lakes.files import LakeFiles, file_pattern, file_uri
from posthouse.spark.lakes.state import US_PER_S, LakeFile
from posthouse.spark.schema import message_schema
from posthouse.spark.sessions import session

QUEUE_NAME: Final = "queue_name"
"""In files of version 0.1: the whole name of a queue whose folder could not have it."""
OLD_FOLDER: Final = "queue="
STATISTICS_US: Final = 999  # what other writers may cut off a time: Delta has milliseconds there
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
    as_of: int | datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The messages of a lake that `archive` has written, as they are now.

    With the columns of messages and `day`. `queues`, `since` and `until` (of `arrived_time`, the
    end excluded) choose files by the log alone. `as_of` is a version of the table, or a time: what
    it had then. The DataFrame can be read for seven days; files that were replaced go then. Of an
    object store Spark reads with its own libraries, and needs those of that store.
    """
    files = LakeFiles(path, storage_options=storage_options)
    state = files.state() if as_of is None else files.state_as_of(as_of)
    chosen = [file for file in state.files if may_match(file, queues, since, until)]
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
        and (since is None or file.last_us + STATISTICS_US >= moment_us(since))
        and (until is None or file.first_us < moment_us(until))
    )


def read_files(spark: SparkSession, lake: LakeFiles, files: Iterable[LakeFile]) -> DataFrame:
    """The rows of these files of a lake."""
    found = list(files)
    old = [file for file in found if file.path.startswith(OLD_FOLDER)]
    new = [file for file in found if not file.path.startswith(OLD_FOLDER)]
    if old and new:
        return read_files(spark, lake, old).union(read_files(spark, lake, new))
    if not found:
        return spark.createDataFrame([], LAKE_SCHEMA)
    return _read_old(spark, lake, old) if old else _read(spark, lake, new)


def _read(spark: SparkSession, lake: LakeFiles, files: Iterable[LakeFile]) -> DataFrame:
    if lake.place.folder is None:
        names = [f"{lake.place.uri}/{file.path}" for file in files]
    else:
        names = [file_pattern(lake.place.folder / file.path) for file in files]
    return spark.read.schema(LAKE_SCHEMA).parquet(*names)


def _read_old(spark: SparkSession, lake: LakeFiles, files: Iterable[LakeFile]) -> DataFrame:
    """Files of version 0.1 have queue and day in the names of their folders only."""
    if lake.place.folder is None:
        raise InvalidParameter(
            f"{lake.place} has files of version 0.1, which lay in folders only",
            "Compact it where it was: posthouse.spark.compact(path, files_min=1).",
        )
    root = lake.place.folder
    schema = StructType([*LAKE_SCHEMA.fields, StructField(QUEUE_NAME, StringType())])
    reader = spark.read.schema(schema).option("basePath", file_uri(root))
    rows = reader.parquet(*(file_pattern(root / file.path) for file in files))
    if any("~" in file.path.partition("/")[0] for file in files):  # a shortened name
        rows = rows.withColumn("queue", F.coalesce(QUEUE_NAME, "queue"))
    return rows.select(*LAKE_SCHEMA.names)
