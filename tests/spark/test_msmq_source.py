"""Queues of any MSMQ as tables and streams, read over remote read by a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

import posthouse
from posthouse.formats.encode import nservicebus_headers
from posthouse.model.errors import InvalidParameter, IoTimeout, SharingViolation
from posthouse.model.message_columns import NAMES
from posthouse.spark.msmq.options import msmq_source
from posthouse.spark.msmq.source import stream_reader
from posthouse.spark.schema import message_schema
from tests.process.rpc_house import PASSWORD, USER
from tests.spark.msmq_office import MsmqOffice


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MsmqOffice]:
    with ExitStack() as running:
        yield MsmqOffice(tmp_path_factory.mktemp("far") / "far", running)


def table(spark: SparkSession, far: MsmqOffice, queue: str, **more: Any) -> DataFrame:
    reading = spark.read.format("posthouse").options(**far.options, queue=queue)
    return reading.options(**more).load()


def test_queue_is_a_table_with_all_columns(spark: SparkSession, far: MsmqOffice) -> None:
    name = far.new()
    far.queue(name).send("text", label="first", priority=5, recoverable=True, app_specific=7)
    far.queue(name).send(b"\0bytes", recoverable=True)
    rows = table(spark, far, name).collect()
    assert list(rows[0].__fields__) == list(NAMES)
    first, second = rows
    assert (first.queue_manager, first.queue) == ("127.0.0.1", f"127.0.0.1\\{name}")
    assert (first.label, first.priority, first.app_specific) == ("first", 5, 7)
    assert (first["class"], first.delivery, first.transaction) == ("normal", "recoverable", None)
    assert (bytes(second.body), second.body_size) == (b"\0bytes", 6)
    assert first.lookup_id < second.lookup_id
    shown = far.queue(name).peek(0).to_json()
    assert first.sent_time.astimezone(UTC) == datetime.fromisoformat(shown.sent_time)
    assert far.queue(name).count() == 2


def test_several_queues_and_few_columns(spark: SparkSession, far: MsmqOffice) -> None:
    first, second = far.new(), far.new(transactional=True)
    far.queue(first).send_many([b"%d" % number for number in range(100)], recoverable=True)
    with far.qm.transaction() as tx:
        far.queue(second).send(b"x" * 1000, tx=tx)
    found = table(spark, far, f"{first},{second}", includeBody="false", includeBodyText="false")
    assert "body" not in found.columns
    sums = found.groupBy("queue").sum("body_size").collect()
    counted = {row.queue: row["sum(body_size)"] for row in sums}
    assert counted == {f"127.0.0.1\\{first}": 190, f"127.0.0.1\\{second}": 1000}
    row = table(spark, far, second, columns="delivery,transaction").collect()[0]
    assert row.delivery == "transactional"
    assert row.transaction is not None


def test_queue_that_is_not_there_is_told_of_when_planned(
    spark: SparkSession, far: MsmqOffice
) -> None:
    with pytest.raises(Exception, match=r"MQ_ERROR_QUEUE_NOT_FOUND|MQ_ERROR_ACCESS_DENIED"):
        table(spark, far, "private$\\nowhere").count()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"host": ""}, "it is empty"),
        ({"queues": "x"}, "did you mean queue"),
        ({"rpcPort": "70000"}, "a port from 1 to 65535"),
        ({"consume": "onCommit", "startingOffsets": "latest"}, "begins with what is there"),
        ({"passwordFile": None}, "a user needs a password"),
        ({"queue": None}, "a read names its queues"),
    ],
)
def test_wrong_options_are_refused(more: dict[str, str | None], said: str) -> None:
    given = {"transport": "msmq", "host": "h", "queue": "q", "user": "u", "passwordFile": "f"}
    options = {name: text for name, text in {**given, **more}.items() if text is not None}
    with pytest.raises(InvalidParameter, match=said):
        msmq_source(options)


def test_table_does_not_consume(spark: SparkSession, far: MsmqOffice) -> None:
    with pytest.raises(Exception, match="only a stream can consume messages"):
        table(spark, far, far.new(), consume="onCommit").count()


class Collected:
    """The batches of a stream, as foreachBatch gets them."""

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        self._spark = spark
        self._options = options
        self._checkpoint = str(folder / "checkpoint")
        self.batches: list[list[bytes]] = []
        self.fails_at = -1

    def _add(self, rows: DataFrame, batch: int) -> None:
        self.batches.append(sorted(bytes(row.body) for row in rows.select("body").collect()))
        if len(self.batches) == self.fails_at:
            raise RuntimeError("this batch fails once")

    def run(self, **more: str) -> None:
        """Until what is there now is drained."""
        stream = self._spark.readStream.format("posthouse").options(**self._options, **more).load()
        query = (
            stream.writeStream.foreachBatch(self._add)
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)


BODIES = [b"%03d" % number for number in range(20)]


def test_stream_that_looks_shows_each_message_once(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    collected = Collected(spark, {**far.options, "queue": name}, tmp_path)
    far.queue(name).send_many(BODIES, recoverable=True)
    collected.run(maxMessagesPerTrigger="12", minPartitions="2")
    far.queue(name).send(b"urgent", priority=7, recoverable=True)
    collected.run()
    assert collected.batches == [BODIES[:12], BODIES[12:], [b"urgent"]]
    assert far.queue(name).count() == 21


def test_stream_that_consumes_loses_nothing_when_a_batch_fails(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    far.queue(name).send_many(BODIES, recoverable=True)
    options = {**far.options, "queue": name, "consume": "onCommit", "maxMessagesPerTrigger": "8"}
    collected = Collected(spark, options, tmp_path)
    collected.fails_at = 2
    with pytest.raises(Exception, match="fails once"):
        collected.run()
    assert far.queue(name).count() == 12
    collected.run()
    assert collected.batches == [BODIES[:8], BODIES[8:16], BODIES[8:16], BODIES[16:]]
    assert far.queue(name).count() == 0


# -- without Spark around it


def test_nobody_else_receives_while_a_stream_consumes(far: MsmqOffice) -> None:
    name = far.new()
    far.queue(name).send(b"mine", recoverable=True)
    options = {**far.options, "queue": name, "consume": "onCommit"}
    made = stream_reader(options, message_schema(("body",)))
    start = made.initialOffset()
    end = made.latestOffset(start, ReadAllAvailable())
    with posthouse.msmq(
        "127.0.0.1", rpc_port=int(far.options["rpcPort"]), user=USER, password=PASSWORD
    ) as other:
        with pytest.raises(SharingViolation):
            other.queue(name).receive(0)
        (part,) = made.partitions(start, end)
        assert [batch.to_pylist() for batch in made.read(part)] == [[{"body": b"mine"}]]
        made.commit(end)
        made.stop()
        with pytest.raises(IoTimeout):
            other.queue(name).receive(0)


def test_stream_that_begins_with_the_latest_skips_what_is_there(far: MsmqOffice) -> None:
    name = far.new()
    far.queue(name).send(b"old", recoverable=True)
    options = {**far.options, "queue": name, "startingOffsets": "latest"}
    made = stream_reader(options, message_schema(("body",)))
    start = made.initialOffset()
    far.queue(name).send(b"new", recoverable=True)
    (part,) = made.partitions(start, made.latestOffset(start, ReadAllAvailable()))
    assert [batch.to_pylist() for batch in made.read(part)] == [[{"body": b"new"}]]
    made.stop()


def test_what_is_in_messages_is_in_columns(spark: SparkSession, far: MsmqOffice) -> None:
    name = far.new()
    far.queue(name).send(b"<int>42</int>", recoverable=True)
    far.queue(name).send(
        b"{}", extension=nservicebus_headers({"NServiceBus.EnclosedMessageTypes": "A.B, A"})
    )
    first, second = table(spark, far, name, decode="true").orderBy("lookup_id").collect()
    assert (first.format, first.body_json.toPython()) == ("xml", 42)
    assert (second.format, second.message_type) == ("nservicebus", "A.B")
    assert second.headers == {"NServiceBus.EnclosedMessageTypes": "A.B, A"}
    few = table(spark, far, name, columns="lookup_id,body_json", bodyJson="string")
    assert [row.body_json for row in few.orderBy("lookup_id").collect()] == ["42", "{}"]
