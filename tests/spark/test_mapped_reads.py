"""`posthouse.spark.table`: the rows of the source, read as a mapping of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark import register_views, table
from posthouse.spark.failures import cause_of
from tests.process.spark_office import SparkOffice, path_of

MakeQueue = Callable[..., str]
Read = Callable[..., DataFrame]


def numbered(count: int, word: str = "body") -> list[bytes]:
    return [f"{word} {number:03}".encode() for number in range(count)]


@pytest.fixture
def read(spark: SparkSession, office: SparkOffice) -> Read:
    """`read(name, ...)`: a queue of the office by `table`."""

    def made(queue: str | list[str], *columns: str, **more: Any) -> DataFrame:
        access: Any = {"url": office.url, "token_file": office.token_file}
        return table(spark, queue, columns or None, **access, **more)

    return made


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.collect())


def test_rows_types_and_nullability_are_those_of_the_source(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession, read: Read, options: Any
) -> None:
    name = queue(transactional=True)
    office.qm.queue(path_of(name)).send_many(numbered(40), transactional=True, label="ünï")
    ours = read(name, maxRecordsPerPartition="7")
    theirs = spark.read.format("posthouse").options(**options(name)).load()
    assert "MapInArrow" in plan_of(ours)
    assert ours.schema == theirs.schema
    assert ours.rdd.getNumPartitions() == 6
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert ours.orderBy("lookup_id").collect() == theirs.orderBy("lookup_id").collect()
        some = ours.where("lookup_id % 2 = 0").selectExpr("hour(arrived_time)", "transaction.id")
        assert some.count() == 20
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_each_portion_is_read_once_whatever_spark_does_with_the_rows(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    first, second = queue(), queue()
    office.send(first, numbered(30))
    office.send(second, numbered(5, "other"))
    both = read([first, second], maxRecordsPerPartition="4")
    assert bodies(both) == sorted([*numbered(30), *numbered(5, "other")])
    assert bodies(both.union(both).coalesce(1)) == sorted(bodies(both) * 2)
    assert both.repartition(3).count() == both.select("queue").count() == 35
    assert len(both.limit(3).collect()) == 3


def test_a_table_is_what_was_there_when_it_was_made(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    name = queue()
    assert read(name).count() == 0
    office.send(name, numbered(3))
    found = read(name)
    office.send(name, [b"later"])
    assert bodies(found) == bodies(found) == numbered(3)
    assert read(name, since=datetime.now(UTC) + timedelta(days=1)).collect() == []


def test_a_table_is_not_sent_to_every_task_of_a_join(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    """Spark does not see how large it is, and must not take it for small."""
    name = queue()
    office.send(name, numbered(8))
    found = read(name, maxRecordsPerPartition="3")
    joined = found.join(found.select("id"), "id")
    assert "BroadcastExchange" not in plan_of(joined)
    assert joined.count() == 8


def test_views_of_all_queues_are_read_by_the_source(
    office: SparkOffice, queue: MakeQueue, spark: SparkSession
) -> None:
    name = queue()
    views = register_views(spark, "seen", url=office.url, token_file=office.token_file)
    office.send(name, numbered(2))
    try:
        assert f"seen_{name}" in views
        assert spark.table(f"seen_{name}").count() == 2  # planned at its first query
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def test_what_is_wrong_is_one_error_of_ours_before_any_task(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    with pytest.raises(QueueNotFound, match="nowhere"):
        read("nowhere")
    with pytest.raises(InvalidParameter, match="did you mean minPartitions"):
        read(queue(), minPartition="2")
    with pytest.raises(PySparkException, match="Read a stream"):
        read(queue(), consume="onCommit", group="archive").collect()


def test_what_goes_wrong_in_a_task_comes_without_its_trace(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    name = queue()
    office.send(name, numbered(3))
    found = read(name)
    office.qm.delete_queue(path_of(name))
    with pytest.raises(PySparkException) as refused:
        found.collect()
    assert "Traceback" not in str(refused.value)
    assert isinstance(cause_of(refused.value), QueueNotFound)


def test_what_a_mapping_cannot_do_is_left_to_the_source(
    office: SparkOffice, queue: MakeQueue, read: Read
) -> None:
    name = queue()
    office.send(name, [b'{"a": 1}'])
    for more in ({"decode": "true"}, {"pushdown": "true"}):
        found = read(name, **more)
        assert "MapInArrow" not in plan_of(found)
        assert found.count() == 1
