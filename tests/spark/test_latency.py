"""Latencies: made-up journeys with known times, and real messages of a queue manager."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from posthouse.client.admin_http import BulkHttp
from posthouse.engine.transfer.tracing import time_date
from posthouse.formats.encode import nservicebus_headers
from posthouse.model.message import MessageId
from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.spark.queries.tables import told_queues
from posthouse.spark.reports.common import latency_page
from posthouse.spark.reports.latencies import Latencies, journeys, latency, message_key
from posthouse.spark.rows.values import rows_of
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GUID = "5b7a4a3e-7d0c-4f5e-9a51-0f5a4e6c2b11"
OTHER = "0c0ffee0-7d0c-4f5e-9a51-0f5a4e6c2b11"
QUEUE = "ALPHA\\private$\\orders"
SCHEMA = (
    "queue string, id string, label string, class_code int, correlation_id string,"
    " sent_time timestamp, arrived_time timestamp, source_queue_manager string, destination string"
)


TYPED = "order with headers"
FAILED = {
    "NServiceBus.EnclosedMessageTypes": "Acme.OrderPlaced, Acme",
    "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
}


def at(seconds: int) -> datetime:
    return NOON + timedelta(seconds=seconds)


def message(ordinal: int, queue: str, sent: int, arrived: int) -> tuple[Any, ...]:
    identifier = f"{GUID}\\{ordinal}"
    return (queue, identifier, "order", 0, "0" * 40, at(sent), at(arrived), GUID, "DIRECT=OS:x\\q")


def acknowledgment(ordinal: int, code: int, sent: int) -> tuple[Any, ...]:
    about = MessageId.parse(f"{GUID}\\{ordinal}").pack().hex()
    moment = at(sent)
    return ("A\\private$\\acks", f"{OTHER}\\1", "", code, about, moment, moment, OTHER, "acks")


def report(ordinal: int, machine: str, seconds: int) -> tuple[Any, ...]:
    when = time_date(int(at(seconds).timestamp()))
    label = f"5B7A:{ordinal:08X}:00 received by {machine.upper()} at {when}"
    return ("A\\private$\\reports", f"{OTHER}\\2", label, 1, "", NOON, NOON, OTHER, "reports")


def frame(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    made = spark.createDataFrame([row[:9] for row in rows], SCHEMA)
    headers = nservicebus_headers(FAILED)
    extension = F.when(F.col("label") == TYPED, F.lit(headers)).otherwise(F.lit(b""))
    return made.withColumns({"extension": extension, "app_specific": F.lit(0)})


def test_an_identifier_is_a_correlation_identifier(spark: SparkSession) -> None:
    texts = [f"{GUID}\\17", f"{OTHER}\\4294967295", f"{GUID.upper()}\\305419896"]
    rows = spark.createDataFrame([(text,) for text in texts], "id string")
    keys = [row[0] for row in rows.select(message_key(F.col("id"))).collect()]
    assert keys == [MessageId.parse(text).pack().hex() for text in texts]


def test_times_are_grouped_by_message_type_and_exception(spark: SparkSession) -> None:
    typed = message(1, QUEUE, 0, 5)
    rows = frame(
        spark,
        (*typed[:2], TYPED, *typed[3:]),
        acknowledgment(1, ACK_RECEIVE, 8),  # of the same message: its type is known
        message(2, QUEUE, 0, 3),
    )
    with Latencies(rows) as found:
        times = {
            (row["message_type"], row["exception_type"]): (row["messages"], row["in_all_p50"])
            for row in found.tables["by_type"]
        }
    assert times == {
        ("Acme.OrderPlaced", "System.TimeoutException"): (1, 8.0),
        (None, None): (1, None),
    }


def test_what_is_known_of_a_message_comes_together(spark: SparkSession) -> None:
    rows = frame(
        spark,
        message(1, QUEUE, 0, 5),  # waits
        message(2, f"{QUEUE};journal", 0, 9),  # was received at 9
        acknowledgment(2, 0x0002, 4),
        message(3, "ALPHA\\system$;journal", 0, 1),  # the source's copy
        acknowledgment(3, 0x0002, 3),
        acknowledgment(3, 0x4000, 10),
        message(4, "ALPHA\\system$;journal", 0, 1),
        report(4, GUID, 1),  # it was sent
        report(4, OTHER, 7),  # it was received elsewhere
        message(5, "ALPHA\\system$;deadletter", 0, 3),
        acknowledgment(6, 0x0002, 3),  # of a message that nobody knows
        ("A\\private$\\reports", "", "not a report", 1, "", NOON, NOON, "", ""),
        ("A\\private$\\x", "nonsense", "x", 0, "", NOON, NOON, "", ""),
    )
    found = {row["message"]: row for row in rows_of(journeys(rows))}

    def spans(ordinal: int) -> tuple[float | None, ...]:
        row = found[MessageId.parse(f"{GUID}\\{ordinal}").pack().hex()]
        return row["to_arrival"], row["to_receipt"], row["in_all"]

    assert spans(1) == (5, None, None)
    assert spans(2) == (4, 5, 9)
    assert spans(3) == (3, 7, 10)
    assert spans(4) == (7, None, None)
    assert spans(5) == (None, None, None)
    assert found[MessageId.parse(f"{GUID}\\4").pack().hex()]["reports"] == 2
    assert MessageId.parse(f"{GUID}\\6").pack().hex() not in found


def test_percentiles_are_by_route_and_hour(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message(number, QUEUE, 0, number) for number in range(1, 101)]
    rows += [message(200, QUEUE, 3600, 3602), message(201, QUEUE, 50, 40)]  # a clock is wrong
    with Latencies(frame(spark, *rows)) as found:
        (route,) = found.tables["by_route"]
        assert (route["messages"], route["arrived"], route["received"]) == (102, 102, 0)
        assert (route["to_arrival_p50"], route["to_arrival_p90"]) == (50, 90)
        assert route["to_arrival_max"] == 100
        assert route["in_all_p50"] is None
        assert route["skewed"] == 1
        hours = {row["hour"]: row for row in found.tables["by_hour"]}
        assert hours[at(3600)]["to_arrival_p99"] == 2
        found.write(tmp_path)
        assert pq.read_table(tmp_path / "journeys.parquet").num_rows == 102
        assert "compare the clocks" in latency_page(found).html()


def test_real_messages_have_latencies(
    spark: SparkSession, office: SparkOffice, access: dict[str, str]
) -> None:
    office.create("timed", journal=True)
    office.create("acks")
    queue = office.qm.queue(path_of("timed"))
    acks = ("pos-arrival", "pos-receive")
    for _ in range(4):
        queue.send(b"x", recoverable=True, admin_queue=path_of("acks"), ack=acks)
    for _ in range(3):
        queue.receive(timeout=5)
    with BulkHttp(office.url, token_file=str(office.token_file)) as http:
        queues = told_queues(http)
    assert {path.rpartition("\\")[2] for path in queues} >= {"timed", "timed;journal", "acks"}
    own = [path for path in queues if path.rpartition("\\")[2].startswith(("timed", "acks"))]
    with latency(spark, access, own) as found:
        (route,) = found.tables["by_route"]
        assert (route["messages"], route["arrived"], route["received"]) == (4, 4, 3)
        assert 0 <= route["in_all_max"] < 60
