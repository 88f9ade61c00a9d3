"""What is in queues, counted by what it is; what cannot be read is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from posthouse.formats.encode import nservicebus_headers
from posthouse.spark.reports.common import traffic_page
from posthouse.spark.reports.traffic import SCHEMAS, Traffic, traffic
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACED = {"NServiceBus.EnclosedMessageTypes": "Acme.OrderPlaced, Acme"}
FAILED = PLACED | {"NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException"}


def send_some(office: SparkOffice, name: str) -> None:
    queue = office.qm.queue(path_of(name))
    for headers in (PLACED, PLACED, FAILED):
        queue.send(b"{}", extension=nservicebus_headers(headers))
    for length in (3, 30):  # one kind of fault at two places
        queue.send(b"<a>" + b"x" * length)
    queue.send(b"\0\1\2\3", body_type=768)
    queue.send(b"\x80\0\x81")


def test_messages_are_counted_by_what_they_are(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    name = queue()
    send_some(office, name)
    with traffic(spark, access, [path_of(name)]) as found:
        assert (found.messages, found.unread) == (7, 3)
        tables = found.tables
        assert [row["messages"] for row in tables["by_queue"]] == [7]
        formats = {row["format"]: row["messages"] for row in tables["by_format"]}
        assert formats == {"nservicebus": 3, "xml": 2, "nrbf": 1, "bytes": 1}
        types = {
            (row["message_type"], row["exception_type"]): row["messages"]
            for row in tables["by_type"]
            if row["message_type"]
        }
        assert types == {
            ("Acme.OrderPlaced", None): 2,
            ("Acme.OrderPlaced", "System.TimeoutException"): 1,
        }
        unread = [(row["format"], row["messages"]) for row in tables["unreadable"]]
        assert unread == [("xml", 2), ("nrbf", 1)]
        assert "line #, column #" in tables["unreadable"][0]["why"]
        assert sum(row["messages"] for row in tables["by_hour"]) == 7
        found.write(tmp_path)
        assert {path.stem for path in tmp_path.iterdir()} == set(SCHEMAS)
        assert pq.read_table(tmp_path / "unreadable.parquet").num_rows == 2
        assert "3 messages break the format that they claim" in traffic_page(found).html()


def test_messages_at_rest_are_counted_too(
    spark: SparkSession, office: SparkOffice, queue: Callable[..., str], access: dict[str, str]
) -> None:
    """As they are in a lake: without the columns of their contents."""
    name = queue()
    send_some(office, name)
    reader = spark.read.format("posthouse").options(**access, queue=path_of(name))
    with Traffic(reader.load()) as at_rest, traffic(spark, access, [path_of(name)]) as live:
        assert at_rest.tables == live.tables
