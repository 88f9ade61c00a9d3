"""Tables and streams to queues of any MSMQ: straight from the tasks, and by way of a manager."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from posthouse.model.errors import IllegalPropertyValue, InvalidParameter
from posthouse.spark.msmq.sink import Straight
from posthouse.spark.schema import message_schema
from posthouse.spark.sink import Sink, stream_writer, writer
from tests.process.spark_office import SparkOffice
from tests.spark.msmq_office import MsmqOffice


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MsmqOffice]:
    with ExitStack() as running:
        yield MsmqOffice(tmp_path_factory.mktemp("far") / "far", running)


def write(table: DataFrame, options: dict[str, str], **more: Any) -> None:
    texts = {name: str(value) for name, value in more.items()}
    table.write.format("posthouse").options(**options, **texts).mode("append").save()


def straight(options: dict[str, str], columns: str, **more: str) -> Any:
    """The writer as Spark has it planned; bodies are text."""
    fields = [field for field in message_schema(columns.split()) if field.name != "body"]
    schema = StructType([StructField("body", StringType()), *fields])
    return writer({**options, **more}, schema, False)


def batch(table: dict[str, list[Any]]) -> Any:
    return pa.RecordBatch.from_pydict(table)


def test_table_is_sent_straight(spark: SparkSession, far: MsmqOffice) -> None:
    name = far.new()
    table = spark.range(0, 100, 1, 2).selectExpr(
        "cast(id as string) as body", "concat('label ', id) as label", "3600 time_to_be_received"
    )
    write(table, far.options, queue=name, priority=6)
    found = list(far.queue(name).browse())
    assert sorted(int(message.body) for message in found) == list(range(100))
    assert {message.priority for message in found} == {6}
    assert {message.delivery for message in found} == {"recoverable"}
    assert {message.label for message in found} == {f"label {number}" for number in range(100)}


def test_stream_is_sent_straight(spark: SparkSession, far: MsmqOffice, tmp_path: Path) -> None:
    name = far.new()
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.txt").write_text("first\nsecond\n")
    query = (
        spark.readStream.text(str(tmp_path / "files"))
        .selectExpr("value as body")
        .writeStream.format("posthouse")
        .options(**far.options, queue=name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert far.queue(name).count() == 2


def test_table_goes_by_way_of_a_local_queue_manager(
    spark: SparkSession, far: MsmqOffice, office: SparkOffice, access: dict[str, str]
) -> None:
    """Staged and published here, delivered exactly once and in order to a transactional queue."""
    name = far.new(transactional=True)
    table = spark.range(0, 50, 1, 1).selectExpr("cast(id as string) as body")
    options = {**access, **far.options, "delivery": "transactional"}
    write(table, options, queue=name)
    received = [far.queue(name).receive(timeout=60) for _ in range(50)]
    assert [int(message.body) for message in received] == list(range(50))
    assert {message.delivery for message in received} == {"transactional"}


# -- without Spark around it


def test_properties_travel(far: MsmqOffice) -> None:
    name = far.new()
    made = straight(
        far.options,
        "label delivery journal acknowledge admin_queue correlation_id extension",
        queue=name,
        bodyType="8",
    )
    rows = {
        "body": ["ä", "b"],
        "label": ["one", None],
        "delivery": ["express", None],
        "journal": [["negative"], None],
        "acknowledge": [["neg-receive"], []],
        "admin_queue": ["DIRECT=OS:near\\private$\\acks", ""],
        "correlation_id": ["01" * 20, ""],
        "extension": [b"\0", None],
    }
    made.write(iter([batch(rows)]))
    first, second = far.queue(name).browse()
    assert (first.text, first.label, first.delivery) == ("ä", "one", "express")
    assert (first.correlation_id, first.extension) == ("01" * 20, b"\0")
    assert (first.to_json().journal, first.acknowledge) == (["negative"], ["neg-receive"])
    assert first.admin_queue == "DIRECT=OS:near\\private$\\acks"
    assert (second.text, second.label, second.delivery) == ("b", "", "recoverable")


def test_nothing_of_a_task_is_sent_before_all_its_rows_were_checked(far: MsmqOffice) -> None:
    name = far.new()
    made = straight(far.options, "", queue=name)
    rows = [batch({"body": ["good"]}), batch({"body": ["good", None]})]
    with pytest.raises(IllegalPropertyValue, match="row 2 of partition 0, column body: null"):
        made.write(iter(rows))
    assert far.queue(name).count() == 0


def test_bad_rows_are_dead_letters_there(far: MsmqOffice) -> None:
    name, dead = far.new(), far.new()
    made = straight(far.options, "", queue=name, badRows="deadletter", deadLetterQueue=dead)
    made.write(iter([batch({"body": ["good", None]})]))
    assert far.queue(name).receive(0).body == b"good"
    letter = far.queue(dead).receive(0)
    assert letter.label == "bad row: body: null is not a body"
    assert json.loads(letter.body)["row"] == 1


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        ("destination", {}, "all messages of a write go to one queue"),
        ("", {"queue": "private$\\q", "delivery": "transactional"}, "needs a queue man"),
        ("", {"queue": "x\\y\\z"}, "option queue"),
        ("", {"queue": "private$\\q", "rpcport": "x"}, "whole number"),
        ("", {"queue": "private$\\q", "hosts": "x"}, "did you mean host"),
    ],
)
def test_write_that_cannot_be_is_refused_when_planned(
    columns: str, more: dict[str, str], said: str
) -> None:
    with pytest.raises((InvalidParameter, IllegalPropertyValue), match=said):
        straight({"transport": "msmq", "host": "far"}, columns, **more)


def test_by_way_of_a_manager_names_lead_to_the_other_computer() -> None:
    options = {"transport": "MSMQ", "host": "winhost", "url": "http://127.0.0.1:1"}
    schema = StructType([StructField("body", StringType())])
    made = stream_writer({**options, "queue": "private$/orders"}, schema, False)._sink  # type: ignore[attr-defined]
    assert isinstance(made, Sink)
    assert made.options.writing.queue == "DIRECT=OS:winhost\\private$\\orders"
    plain = straight({"transport": "msmq", "host": "h"}, "", queue="private$\\q")
    assert isinstance(plain._straight, Straight)
