"""Messages into the Parquet files of a lake: a DataFrame's rows, by queue and day."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.files import (
    NO_INCARNATIONS,
    QUEUE_NAME,
    Added,
    LakeFiles,
    file_uri,
)

# A folder has a name of 255 bytes, and a Java without a locale knows ASCII only.
PLAIN_NAME: Final = r"^[A-Za-z0-9 ._$;-]{1,64}(\\[A-Za-z0-9 ._$;-]{1,130}){0,2}$"
PLAIN_BYTES_MAX: Final = 200
SHORT_LENGTH: Final = 64
NAMELESS: Final = "unknown"
NEEDED: Final = ("queue", "lookup_id", "arrived_time")
DAY_US: Final = 86_400_000_000
# Other types of a timestamp have no statistics, and not every reader knows them.
PARQUET: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def add_batch(
    lake: LakeFiles,
    messages: DataFrame,
    query: str,
    batch: int,
    incarnations: Mapping[str, str] = NO_INCARNATIONS,
) -> Added:
    """Writes one batch of a stream; messages that are there already are skipped.

    Not by the number of the batch: Spark does not sync its checkpoints, so after a power failure it
    may plan a batch anew, with another end. A stream begins where the lake ends or before, and goes
    on without gaps: so whatever lies at or below the highest lookup id of its queue has been
    written. Durable when this returns: the files are synced, and the manifest names them.
    """
    manifest = lake.manifests.read()
    _check_columns(messages.columns)
    with lake.staging() as folder:
        rows = save(messages.where(_is_new(manifest.through)), folder)
        return lake.add(folder, rows, query, batch, incarnations)


def _check_columns(names: Collection[str]) -> None:
    for name in NEEDED:
        if name not in names:
            raise InvalidParameter(
                f"a lake needs the column {name}", "Leave it in what is archived."
            )


def _is_new(through: Mapping[str, int]) -> Column:
    """Whether a message lies behind what the lake has of its queue."""
    conditions = (
        ~F.col("queue").eqNullSafe(F.lit(queue)) | (F.col("lookup_id") > last)
        for queue, last in through.items()
    )
    return reduce(and_, conditions, F.lit(True))


def save(messages: DataFrame, folder: Path) -> int:
    """Writes rows as Parquet, in folders by queue and day, in order of lookup id; says how many."""
    counted = Observation()
    parted = with_parts(messages).observe(counted, F.count(F.lit(1)).alias("rows"))
    ordered = parted.sortWithinPartitions("queue", "day", "lookup_id")
    with _settings(messages.sparkSession, PARQUET):
        writer = ordered.write.partitionBy("queue", "day").option("compression", "zstd")
        writer.mode("append").parquet(file_uri(folder))
    return int(counted.get["rows"])


def with_parts(messages: DataFrame) -> DataFrame:
    """The rows with the columns that name their folders."""
    name = F.coalesce(F.nullif("queue", F.lit("")), F.lit(NAMELESS))
    plain = name.rlike(PLAIN_NAME) & (F.octet_length(name) <= PLAIN_BYTES_MAX)
    return messages.withColumns(
        {
            QUEUE_NAME: F.when(~plain, name),
            "queue": F.when(plain, name).otherwise(short_name(name)),
            "day": utc_day(),
        }
    )


def short_name(name: Column) -> Column:
    """ASCII that tells a queue from others and leaves a hint for people."""
    hint = F.left(F.regexp_replace(name, "[^A-Za-z0-9._-]+", "-"), F.lit(SHORT_LENGTH))
    return F.concat(hint, F.lit("~"), F.left(F.sha2(name, 256), F.lit(32)))


def utc_day() -> Column:
    """The day on which a message came, whatever the session's time zone is."""
    moment = F.coalesce("arrived_time", F.timestamp_micros(F.lit(0)))
    days = F.floor(F.unix_micros(moment) / F.lit(DAY_US)).cast("int")
    return F.date_from_unix_date(days)


@contextmanager
def _settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
