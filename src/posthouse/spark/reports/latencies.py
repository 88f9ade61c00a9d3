"""`latency`: how long messages take from send to arrival to receipt, by route and hour.

The times of a message are in many places, and are joined by its message id: waiting messages and
administration acknowledgments show arrivals, journals of queues and acknowledgments show receipts,
and reports of traced messages show every machine on the way. Times of MSMQ are seconds; clocks of
two machines differ: a span below zero is counted as such and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from posthouse.model.message_classes import ACK_REACH_QUEUE, ACK_RECEIVE, NORMAL, REPORT
from posthouse.model.message_columns import DECODED_NAMES
from posthouse.spark.queries.decoding import decode_message
from posthouse.spark.queries.tables import read_queue
from posthouse.spark.reports.report import Report
from posthouse.spark.rows.values import Values, rows_of
from posthouse.spark.schema import message_schema
from posthouse.spark.table_files import arrow_schema, write_parquet, write_values

ROWS_MAX: Final = 10_000
"""Rows of one table; the routes with most messages."""
PERCENTILES: Final = (50, 90, 99)
LEGS: Final = ("to_arrival", "to_receipt", "in_all")
"""Seconds from send to arrival, from arrival to receipt, from send to receipt."""
_COLUMNS: Final = (
    "queue_manager queue lookup_id id label class_code correlation_id sent_time arrived_time"
    " source_queue_manager destination extension app_specific"
)
_REPORT: Final = (
    r"^([0-9A-F]{4}:[0-9A-F]{8}):([0-9A-F]{2}) received by ([0-9A-F]{4})[0-9A-F-]{32}"
    r" at ([0-9]{2}:[0-9]{2}:[0-9]{2} [AP]M) [A-Za-z]{3},([A-Za-z]{3} [0-9]{2} [0-9]{2})$"
)
_REPORT_TIME: Final = "hh:mm:ss a MMM dd yy"
_TYPE: Final = ("message_type", "exception_type")
_KNOWN: Final = ("source", "destination", "sent", "arrived", "received", *_TYPE)


class Latencies(Report):
    """Journeys of messages, and their times by route, and by route and hour."""

    def __init__(self, messages: DataFrame) -> None:
        super().__init__(journeys(messages))
        self.journeys = self._kept
        self._frames = {
            "by_route": _times(self.journeys, "source", "destination").limit(ROWS_MAX),
            "by_hour": _times(self.journeys, "source", "destination", "hour").limit(ROWS_MAX),
            "by_type": _times(self.journeys, *_TYPE).limit(ROWS_MAX),
        }
        self.tables: dict[str, list[Values]] = {
            name: rows_of(frame) for name, frame in self._frames.items()
        }

    @property
    def messages(self) -> int:
        """How many messages are known."""
        return sum(row["messages"] for row in self.tables["by_route"])

    def write(self, folder: Path) -> None:
        """The tables as Parquet, and the journeys, message by message."""
        for name, frame in self._frames.items():
            write_values(folder / f"{name}.parquet", self.tables[name], arrow_schema(frame))
        write_parquet(folder / "journeys.parquet", self.journeys)


def latency(spark: SparkSession, options: Mapping[str, str], queues: Sequence[str]) -> Latencies:
    """The latencies from the messages of these queues; `options` are those of the source."""
    wanted = {**options, "columns": ",".join(_COLUMNS.split())}
    return Latencies(read_queue(spark, wanted, *queues))


# -- what is known of each message


def journeys(messages: DataFrame) -> DataFrame:
    """A row for each message: its route, when it was sent, arrived and was received, and spans."""
    seen = _of_messages(messages).unionByName(_of_acknowledgments(messages))
    by_message = seen.groupBy("message").agg(
        F.max("source").alias("source"),
        F.max("destination").alias("destination"),
        F.min("sent").alias("sent"),
        F.coalesce(F.min("acknowledged"), F.min("arrived")).alias("arrived"),
        F.min("received").alias("received"),
        F.max("traced").alias("traced"),
        *(F.max(name).alias(name) for name in _TYPE),
    )
    known = by_message.where("sent is not null").join(_reports(messages), "traced", "left")
    filled = known.withColumn("arrived", F.coalesce("arrived", "reported")).select(
        "message", *_KNOWN, F.coalesce("reports", F.lit(0)).alias("reports")
    )
    return filled.withColumns(
        {
            "hour": F.date_trunc("hour", "sent"),
            "to_arrival": _span("sent", "arrived"),
            "to_receipt": _span("arrived", "received"),
            "in_all": _span("sent", "received"),
        }
    )


def _of_messages(messages: DataFrame) -> DataFrame:
    """The times that messages show by their place: those in a journal came there when received."""
    queue = F.lower("queue")
    is_source_journal = queue.endswith("\\system$;journal")
    is_journal = queue.endswith(";journal") & ~is_source_journal
    is_waiting = ~queue.endswith(";journal") & ~queue.contains("\\system$;dead")
    normal = messages.where(F.col("class_code") == NORMAL).withColumn("bus", _of_bus())
    return normal.select(
        message_key(F.col("id")).alias("message"),
        F.col("source_queue_manager").alias("source"),
        "destination",
        F.col("sent_time").alias("sent"),
        F.lit(None).cast("timestamp").alias("acknowledged"),
        F.when(is_waiting, F.col("arrived_time")).alias("arrived"),
        F.when(is_journal, F.col("arrived_time")).alias("received"),
        _traced_key(F.col("id")).alias("traced"),
        *(F.col(f"bus.{name}").alias(name) for name in _TYPE),
    )


def _of_bus() -> Column:
    """What the headers of a message bus name: bodies are not read for this report."""
    decoding = F.udf(decode_message, message_schema(DECODED_NAMES), useArrow=False)
    named = decoding(F.lit(b""), F.lit(0), "extension", "label", "app_specific")
    has_headers = F.length("extension") > 0
    return F.when(has_headers | F.contains("label", F.lit("<CorrId>")), named)


def _of_acknowledgments(messages: DataFrame) -> DataFrame:
    """The times that acknowledgments show of other messages: each was sent when that happened."""
    code, sent = F.col("class_code"), F.col("sent_time")
    none = F.lit(None)
    chosen = messages.where(code.isin(ACK_REACH_QUEUE, ACK_RECEIVE))
    return chosen.select(
        F.lower("correlation_id").alias("message"),
        none.cast("string").alias("source"),
        none.cast("string").alias("destination"),
        none.cast("timestamp").alias("sent"),
        F.when(code == ACK_REACH_QUEUE, sent).alias("acknowledged"),
        none.cast("timestamp").alias("arrived"),
        F.when(code == ACK_RECEIVE, sent).alias("received"),
        none.cast("string").alias("traced"),
        *(none.cast("string").alias(name) for name in _TYPE),
    )


def _reports(messages: DataFrame) -> DataFrame:
    """Reports by the message that they are about: how many, and when the last machine had it.

    They name the source by four digits; its own report means that it was sent, not that it arrived.
    """
    label = F.col("label")
    parts = [F.regexp_extract(label, _REPORT, number) for number in range(1, 6)]
    traced, _, machine, clock, day = parts
    told = messages.where((F.col("class_code") == REPORT) & label.rlike(_REPORT)).select(
        traced.alias("traced"),
        (machine != F.substring(traced, 1, 4)).alias("elsewhere"),
        F.try_to_timestamp(F.concat_ws(" ", clock, day), F.lit(_REPORT_TIME)).alias("at"),
    )
    return told.groupBy("traced").agg(
        F.count("*").alias("reports"),
        F.max(F.when(F.col("elsewhere"), F.col("at"))).alias("reported"),
    )


def message_key(identifier: Column) -> Column:
    """An identifier, GUID and ordinal, as a correlation identifier is written: 40 digits."""
    guid = F.replace(F.lower(F.substring_index(identifier, "\\", 1)), F.lit("-"), F.lit(""))
    ordinal = F.lpad(F.hex(_ordinal(identifier)), 8, "0")
    turned = [guid.substr(place, 2) for place in (7, 5, 3, 1, 11, 9, 15, 13)]
    counted = [ordinal.substr(place, 2) for place in (7, 5, 3, 1)]
    return F.lower(F.concat(*turned, guid.substr(17, 16), *counted))


def _traced_key(identifier: Column) -> Column:
    """An identifier as reports write it: four digits of the GUID, and the ordinal."""
    return F.concat(
        F.upper(F.substring(identifier, 1, 4)),
        F.lit(":"),
        F.lpad(F.hex(_ordinal(identifier)), 8, "0"),
    )


def _ordinal(identifier: Column) -> Column:
    return F.substring_index(identifier, "\\", -1).try_cast("long")


def _span(start: str, end: str) -> Column:
    return F.unix_micros(end) / 1e6 - F.unix_micros(start) / 1e6


# -- tables


def _times(frame: DataFrame, *keys: str) -> DataFrame:
    """Counts and percentiles of spans, the routes with most messages first."""
    counted = frame.groupBy(*keys).agg(
        F.count("*").alias("messages"),
        F.count("arrived").alias("arrived"),
        F.count("received").alias("received"),
        F.sum(F.when(_is_skewed(), 1).otherwise(0)).alias("skewed"),
        *(_percentiles(leg) for leg in LEGS),
        *(F.max(_forward(leg)).alias(f"{leg}_max") for leg in LEGS),
    )
    shown = [
        F.get(f"{leg}_at", index).alias(f"{leg}_p{percent}")
        for leg in LEGS
        for index, percent in enumerate(PERCENTILES)
    ]
    figures = ("messages", "arrived", "received", "skewed")
    largest = [f"{leg}_max" for leg in LEGS]
    return counted.select(*keys, *figures, *shown, *largest).orderBy(F.desc("messages"), *keys)


def _percentiles(leg: str) -> Column:
    ranks = [percent / 100 for percent in PERCENTILES]
    return F.percentile_approx(_forward(leg), ranks, 10_000).alias(f"{leg}_at")


def _forward(leg: str) -> Column:
    return F.when(F.col(leg) >= 0, F.col(leg))


def _is_skewed() -> Column:
    return (F.col("to_arrival") < 0) | (F.col("to_receipt") < 0) | (F.col("in_all") < 0)
