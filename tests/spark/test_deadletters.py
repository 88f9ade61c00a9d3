"""Dead letters of a real queue manager: counted, clustered, written, sent again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from posthouse.client.admin_http import BulkHttp
from posthouse.formats.encode import nservicebus_headers
from posthouse.model.errors import InvalidParameter
from posthouse.spark.reports.common import deadletters_page
from posthouse.spark.reports.dead_letters import SCHEMAS, DeadLetters, deadletters
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOSTILE = "<script>alert(1)</script>\u202e"
ORDERS, INVOICES, ODD = 5, 3, 2
HEADERS = {
    "NServiceBus.EnclosedMessageTypes": "Acme.Invoice, Acme",
    "NServiceBus.ExceptionInfo.ExceptionType": "System.TimeoutException",
}
DEAD = r".\system$;deadletter"


@pytest.fixture(scope="module")
def letters(office: SparkOffice) -> SparkOffice:
    """Messages that a purge has made dead letters: orders, invoices and odd bytes."""
    office.qm.queue(DEAD).purge()
    office.create("dead1", "dead2")
    orders = office.qm.queue(path_of("dead1"))
    for number in range(ORDERS):
        body = f'{{"customer": {number}, "total": {number * 1.5}}}'.encode()
        orders.send(body, label=f"order {number}", recoverable=True, dead_letter=True)
    for number in range(ODD):
        orders.send(b"\x00\xff" + bytes([number]), label=HOSTILE, dead_letter=True)
    invoices = office.qm.queue(path_of("dead2"))
    for number in range(INVOICES):
        body = f"<invoice><number>{number}</number></invoice>".encode()
        headers = nservicebus_headers(HEADERS)
        invoices.send(body, label="invoice", recoverable=True, dead_letter=True, extension=headers)
    orders.purge()
    invoices.purge()
    return office


@pytest.fixture(scope="module")
def found(spark: SparkSession, letters: SparkOffice) -> Iterator[DeadLetters]:
    options = {"url": letters.url, "tokenFile": str(letters.token_file)}
    with deadletters(spark, options, [DEAD]) as counted:
        yield counted


def test_dead_letters_are_counted_by_message_type_and_exception(found: DeadLetters) -> None:
    counts = {
        (row["message_type"], row["exception_type"], row["format"]): row["messages"]
        for row in found.tables["by_type"]
    }
    assert counts == {
        ("Acme.Invoice", "System.TimeoutException", "nservicebus"): INVOICES,
        (None, None, "json"): ORDERS,
        (None, None, "bytes"): ODD,
    }
    assert found.tables["unreadable"] == []


def test_dead_letters_are_counted(found: DeadLetters) -> None:
    in_all = ORDERS + ODD + INVOICES
    assert found.messages == in_all
    (reason,) = found.tables["by_reason"]
    assert (reason["reason"], reason["messages"]) == ("nack-queue-purged", in_all)
    assert "--resend" in reason["remedy"]
    by_queue = {row["destination"]: row["messages"] for row in found.tables["by_queue"]}
    assert sorted(by_queue.values()) == [INVOICES, ORDERS + ODD]
    assert sum(row["messages"] for row in found.tables["by_sender"]) == in_all
    hours = [row["hour"] for row in found.tables["by_hour"]]
    assert all(hour.tzinfo is not None and hour.minute == 0 for hour in hours)
    assert abs((reason["first_seen"] - datetime.now(UTC)).total_seconds()) < 3600


def test_alike_bodies_are_one_cluster(found: DeadLetters) -> None:
    clusters = found.tables["clusters"]
    assert [row["messages"] for row in clusters] == [ORDERS, INVOICES, ODD]
    assert clusters[0]["shape"] == "json: customer:number total:number"
    assert clusters[0]["label"] == "order 0"
    assert clusters[1]["sample"].startswith("<invoice>")
    assert clusters[2]["sample"] == "00 ff 00"


def test_tables_and_a_report_are_written(found: DeadLetters, tmp_path: Path) -> None:
    found.write(tmp_path)
    deadletters_page(found).write(tmp_path / "report.html")
    names = {f"{name}.parquet" for name in (*SCHEMAS, "letters")} | {"report.html"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert pq.read_table(tmp_path / "clusters.parquet").num_rows == 3
    letters = pq.read_table(tmp_path / "letters.parquet").to_pylist()
    assert len(letters) == found.messages
    assert {row["cluster"] for row in letters} == {one.name for one in found.clusters}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\u202e" in page
    assert "<script" not in page


def test_a_cluster_is_sent_again(found: DeadLetters, letters: SparkOffice) -> None:
    cluster = next(one for one in found.clusters if one.leader.kind == "xml")
    with BulkHttp(letters.url, token_file=str(letters.token_file)) as http:
        trial = found.resend(cluster.name, http, dry_run=True)
        assert (trial.matched, letters.count("dead2")) == (INVOICES, 0)
        done = found.resend(cluster.name, http)
        assert (done.done, done.refused) == (INVOICES, 0)
        assert letters.count("dead2") == INVOICES
        again = found.resend(cluster.name, http)
        assert (again.done, again.gone) == (0, INVOICES)


def test_an_unknown_cluster_is_refused(found: DeadLetters, letters: SparkOffice) -> None:
    with (
        BulkHttp(letters.url, token_file=str(letters.token_file)) as http,
        pytest.raises(InvalidParameter, match=found.clusters[0].name),
    ):
        found.resend("00000000", http)


def test_no_dead_letters_are_no_trouble(
    spark: SparkSession, office: SparkOffice, access: dict[str, str], tmp_path: Path
) -> None:
    office.create("nothing")
    with deadletters(spark, access, [path_of("nothing")]) as counted:
        counted.write(tmp_path)
        assert counted.messages == 0
        assert counted.clusters == []
