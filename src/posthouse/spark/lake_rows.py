"""Messages into the Parquet files of a lake: a DataFrame's rows, by queue and day."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lake_files import QUEUE_NAME, Added, LakeFiles, file_uri

# A folder has a name of 255 bytes, and a Java without a locale knows ASCII only.
PLAIN_NAME: Final = r"^[A-Za-z0-9 ._$;-]{1,64}(\\[A-Za-z0-9 ._$;-]{1,130}){0,2}$"
PLAIN_BYTES_MAX: Final = 200
SHORT_LENGTH: Final = 64
NAMELESS: Final = "unknown"
NEEDED: Final = ("queue", "lookup_id", "arrived_time")
DAY_US: Final = 86_400_000_000
# Other types of a timestamp have no statistics, and not every reader knows them.
PARQUET: Final = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


def add_batch(lake: LakeFiles, messages: DataFrame, query: str, batch: int) -> Added:
    """Writes one batch of a stream; one that is there already is skipped.

    Durable when this returns: the files are synced, and the manifest names them.
    """
    if lake.manifests.read().has(query, batch):
        return Added(skipped=True)
    with lake.staging() as folder:
        rows = save(messages, folder)
        return lake.add(folder, rows, query, batch)


def save(messages: DataFrame, folder: Path) -> int:
    """Writes rows as Parquet, in folders by queue and day, in order of lookup id; says how many."""
    missing = [name for name in NEEDED if name not in messages.columns]
    if missing:
        raise InvalidParameter(
            f"a lake needs the column {missing[0]}", "Leave it in what is archived."
        )
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
