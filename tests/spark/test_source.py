"""Batch reads of a real server's queues."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from posthouse.model.message_columns import NAMES
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Options = Callable[..., dict[str, str]]
MakeQueue = Callable[..., str]


def bodies(frame: DataFrame) -> list[bytes]:
    """In the order of the queue."""
    return [bytes(row.body) for row in frame.orderBy("lookup_id").select("body").collect()]


@pytest.fixture
def table(spark: SparkSession, options: Options) -> Callable[..., DataFrame]:
    """`table(name, **options)`: a queue as a table."""
    return lambda name, **more: (
        spark.read.format("posthouse").options(**options(name, **more)).load()
    )


Table = Callable[..., "DataFrame"]


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def refusal(frame: Callable[[], Any]) -> str:
    """The one error that a read ends with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 the class is Spark's choice
        frame()
    return str(caught.value)


def ids_of(office: SparkOffice, name: str) -> list[int]:
    return [message.lookup_id for message in office.qm.queue(path_of(name)).browse()]


def test_a_queue_is_a_table(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    office.qm.queue(path_of(name)).send(b"<order/>", label="order 1", recoverable=True, priority=5)
    (row,) = table(name).collect()
    assert tuple(row.asDict()) == NAMES
    assert row.queue_manager == "ALPHA"
    assert row.queue == f"ALPHA\\private$\\{name}"
    assert (bytes(row.body), row.label, row.priority) == (b"<order/>", "order 1", 5)
    (message,) = office.qm.queue(path_of(name)).browse()
    assert (row.lookup_id, row.id) == (message.lookup_id, str(message.id))
    assert office.count(name) == 1


def test_columns_say_whether_they_can_be_null(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    name = queue()
    office.send(name, [b"\1"])
    frame = table(name, includeBodyText="true")
    nullable = {field.name for field in frame.schema.fields if field.nullable}
    assert nullable == {"body_text", "time_to_be_received", "transaction"}
    (row,) = frame.collect()
    assert {key for key, value in row.asDict().items() if value is None} == nullable


def test_a_read_has_many_partitions(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    office.send(name, numbered(1000))
    frame = table(name, minPartitions=4)
    assert frame.rdd.getNumPartitions() >= 4
    assert bodies(frame) == numbered(1000)
    assert table(name, maxRecordsPerPartition=100).rdd.getNumPartitions() >= 10


def test_an_empty_queue_is_an_empty_table(queue: MakeQueue, table: Table) -> None:
    assert table(queue()).collect() == []


def test_a_table_can_be_read_again(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    office.send(name, numbered(3))
    frame = table(name)
    assert frame.count() == frame.count() == 3
    assert frame.select("label").distinct().count() == 1


def test_columns_are_chosen_by_options_and_by_schema(
    office: SparkOffice, queue: MakeQueue, table: Table, spark: SparkSession, options: Options
) -> None:
    name = queue()
    office.send(name, [b"text"])
    slim = table(name, includeBody="false", includeExtension="false", includeBodyText="true")
    assert set(NAMES) - set(slim.columns) == {"body", "extension"}
    assert slim.collect()[0].body_text == "text"
    assert table(name, columns="label,priority").columns == ["label", "priority"]
    given = (
        spark.read.format("posthouse").options(**options(name)).schema("priority int, id string")
    )
    assert [len(row) for row in given.load().collect()] == [2]
    wrong = spark.read.format("posthouse").options(**options(name)).schema("priority long")
    assert "column priority is int" in refusal(lambda: wrong.load().collect())


def test_offsets_bound_a_read(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    office.send(name, numbered(10))
    ids = ids_of(office, name)
    after, through = {path_of(name): ids[2]}, {f"ALPHA\\private$\\{name}": ids[6]}
    chosen = table(name, startingOffsets=json.dumps(after), endingOffsets=json.dumps(through))
    assert bodies(chosen) == numbered(10)[3:7]
    assert bodies(table(name, startingOffsets="latest")) == []
    other = json.dumps({"ALPHA\\private$\\other": 1})
    assert "which is not read" in refusal(lambda: table(name, startingOffsets=other).collect())


def test_a_timestamp_bounds_a_read(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    office.send(name, numbered(3))
    (row, *_) = table(name).collect()
    assert table(name, startingTimestamp="2020-01-01").count() == 3
    arrived = row.arrived_time.isoformat()
    assert table(name, startingTimestamp=arrived).count() == 3
    assert table(name, startingTimestamp="2100-01-01T00:00:00Z").count() == 0


def test_several_queues_of_several_queue_managers_are_one_table(
    spark: SparkSession, office: SparkOffice, branch: SparkOffice, queue: MakeQueue
) -> None:
    name, other = queue(), queue()
    branch.create(name)
    office.send(name, [b"alpha"])
    office.send(other, [b"other"])
    branch.send(name, [b"bravo"])
    reader = spark.read.format("posthouse").options(
        url=f"{office.url}, {branch.url}",
        tokenFile=f"{office.token_file}, {branch.token_file}",
    )
    rows = reader.options(queue=f"{path_of(name)}, ALPHA\\private$\\{other}").load().collect()
    found = {(row.queue_manager, row.queue, bytes(row.body)) for row in rows}
    assert found == {
        ("ALPHA", f"ALPHA\\private$\\{name}", b"alpha"),
        ("ALPHA", f"ALPHA\\private$\\{other}", b"other"),
        ("BRAVO", f"BRAVO\\private$\\{name}", b"bravo"),
    }
    foreign = reader.options(queue="CHARLIE\\private$\\x").load()
    assert "ALPHA, BRAVO has CHARLIE" in refusal(foreign.collect)


def test_a_pattern_names_queues(
    spark: SparkSession, office: SparkOffice, access: dict[str, str]
) -> None:
    office.create("pattern-one", "pattern-two", "patter")
    office.send("pattern-one", [b"1"])
    office.send("pattern-two", [b"2"])
    office.send("patter", [b"3"])
    reader = spark.read.format("posthouse").options(**access)
    rows = reader.options(queuePattern=r".\private$\PATTERN-*").load().collect()
    assert sorted(bytes(row.body) for row in rows) == [b"1", b"2"]
    office.create("order-pattern", journal=True)
    office.send("order-pattern", [b"4"])
    office.qm.queue(path_of("order-pattern")).receive(timeout=0)
    assert reader.options(queuePattern="./private$/order*").load().collect() == []
    journals = reader.options(queuePattern="./private$/order*;journal").load().collect()
    assert [bytes(row.body) for row in journals] == [b"4"]
    nothing = reader.options(queuePattern="nothing-*").load()
    assert "no queue matches nothing-*" in refusal(nothing.collect)


def test_a_journal_is_a_table(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession, access: dict[str, str]
) -> None:
    name = queue(journal=True)
    office.send(name, [b"done"])
    office.qm.queue(path_of(name)).receive(timeout=0)
    journal = spark.read.format("posthouse").options(**access, queue=f"{path_of(name)};journal")
    (row,) = journal.load().collect()
    assert bytes(row.body) == b"done"
    assert row.queue.endswith(f"{name};journal")


def test_filters_narrow_a_read_where_that_is_asked_for(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    name = queue()
    office.send(name, numbered(10))
    ids = ids_of(office, name)
    frame = table(name, pushdown="true")
    assert bodies(frame.where(f"lookup_id > {ids[3]} and lookup_id <= {ids[5]}")) == [b"4", b"5"]
    assert bodies(frame.where(f"lookup_id = {ids[7]} and label = ''")) == [b"7"]
    assert frame.where("queue = 'elsewhere'").count() == 0
    assert frame.where(f"queue in ('x', 'ALPHA\\\\private$\\\\{name}')").count() == 10
    assert frame.where("queue_manager = 'BRAVO' or priority = 3").count() == 10


def test_a_token_is_handed_out_by_spark_or_the_environment(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession
) -> None:
    """As a cluster hands it out: no executor has the file of the driver's."""
    name = queue()
    office.send(name, numbered(3))
    spark.sparkContext.addFile(str(office.token_file))
    reader = spark.read.format("posthouse").option("url", office.url)
    assert reader.option("tokenFile", "files:token").load(name).count() == 3
    missing = reader.option("tokenFile", "env:POSTHOUSE_NO_SUCH_TOKEN")
    said = refusal(lambda: missing.load(name).count())
    assert "the variable POSTHOUSE_NO_SUCH_TOKEN" in said
    assert "Traceback" not in said


def test_rows_that_are_not_asked_for_are_not_sent(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession, access: dict[str, str]
) -> None:
    name = queue()
    target = office.qm.queue(path_of(name))
    for number in range(16):
        target.send(str(number).encode(), priority=number % 8)
    from posthouse.spark import table

    found = table(
        spark,
        name,
        ["priority", "lookup_id"],
        priorities=[7, 1],
        until=datetime(2100, 1, 1),
        url=access["url"],
        token_file=access["tokenFile"],
    )
    assert found.columns == ["priority", "lookup_id"]
    assert sorted(row.priority for row in found.collect()) == [1, 1, 7, 7]
    assert found.where("priority = 7").count() == 2
    assert found.count() == 4


def test_sql_reads_queues(office: SparkOffice, queue: MakeQueue, spark: SparkSession) -> None:
    name = queue()
    office.send(name, numbered(3))
    words = f"url '{office.url}', tokenFile '{office.token_file}', queue './private$/{name}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} USING posthouse OPTIONS ({words})")
    assert spark.sql(f"SELECT sum(body_size) AS n FROM {name}").collect()[0].n == 3
    spark.sql(f"DROP VIEW {name}")
    table = f"CREATE TABLE {name} USING posthouse OPTIONS ({words})"
    assert "CREATE TEMPORARY VIEW" in refusal(lambda: spark.sql(table))


def test_a_table_consumes_nothing(queue: MakeQueue, table: Table) -> None:
    consuming = table(queue(), consume="onCommit", group="archive")
    assert "Read a stream" in refusal(consuming.collect)


def test_hostile_bodies_stay_bytes(office: SparkOffice, queue: MakeQueue, table: Table) -> None:
    name = queue()
    odd = [b"", b"\x00\xff\xfe", "ünïcode\u202e".encode(), b"<?xml version='1.0'?><!DOCTYPE x>"]
    office.send(name, odd)
    assert bodies(table(name)) == odd


def test_purged_messages_fail_a_read_that_asked_for_them(
    office: SparkOffice, queue: MakeQueue, table: Table
) -> None:
    name = queue()
    office.send(name, numbered(3))
    ids = ids_of(office, name)
    office.qm.queue(path_of(name)).purge()
    office.send(name, [b"new"])
    since = json.dumps({path_of(name): ids[0]})
    message = refusal(lambda: table(name, startingOffsets=since).collect())
    assert f"purged up to lookup id {ids[-1]}" in message
    assert "failOnDataLoss" in message
    lenient = table(name, startingOffsets=since, failOnDataLoss="false")
    assert bodies(lenient) == bodies(table(name)) == [b"new"]


def test_an_unknown_option_is_refused_when_the_table_is_named(
    queue: MakeQueue, table: Table
) -> None:
    assert "did you mean minPartitions?" in refusal(lambda: table(queue(), minPartition=2))


def test_an_unknown_queue_is_named_when_the_read_is_planned(table: Table) -> None:
    message = refusal(lambda: table("nowhere").collect())
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in message
    assert "nowhere" in message


def test_a_missing_right_is_named(
    office: SparkOffice, queue: MakeQueue, table: Table, tmp_path: Any
) -> None:
    name = queue()
    scoped = office.qm.call("POST", "/tokens", {"role": "read", "queues": ["private$\\x=peek"]})
    file = tmp_path / "scoped"
    file.write_text(scoped["token"])
    assert "MQ_ERROR_ACCESS_DENIED" in refusal(lambda: table(name, tokenFile=file).collect())


def test_a_revoked_token_is_named(
    office: SparkOffice, queue: MakeQueue, table: Table, tmp_path: Any
) -> None:
    made = office.qm.call("POST", "/tokens", {"role": "read"})
    office.qm.call("DELETE", f"/tokens/{made['info']['id']}")
    file = tmp_path / "revoked"
    file.write_text(made["token"])
    assert "token" in refusal(lambda: table(queue(), tokenFile=file).collect())
    missing = tmp_path / "missing"
    assert f"token file {missing} cannot be read" in refusal(
        lambda: table(queue(), tokenFile=missing).collect()
    )


def test_a_queue_manager_out_of_reach_is_named(queue: MakeQueue, table: Table) -> None:
    message = refusal(lambda: table(queue(), url="http://127.0.0.1:9", retryFor=0).collect())
    assert "no queue manager answers at http://127.0.0.1:9" in message
