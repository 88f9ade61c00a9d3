"""Queues of any MSMQ as tables and streams, read over remote read by a real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import posthouse
from posthouse.model.errors import InvalidParameter, SharingViolation
from posthouse.model.message_columns import NAMES
from posthouse.spark.msmq_options import msmq_source
from tests.process.rpc_house import PASSWORD, USER
from tests.spark.msmq_office import MsmqOffice


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MsmqOffice]:
    with ExitStack() as running:
        yield MsmqOffice(tmp_path_factory.mktemp("far") / "far", running)


def table(spark: SparkSession, far: MsmqOffice, queue: str, **more: Any) -> DataFrame:
    reading = spark.read.format("posthouse").options(**far.options, queue=queue)
    return reading.options(**more).load()


class Streaming:
    """A stream from one queue into files, run until it is drained as often as one likes."""

    def __init__(self, spark: SparkSession, far: MsmqOffice, queue: str, folder: Path) -> None:
        self._spark = spark
        self._options = {**far.options, "queue": queue}
        self._checkpoint = str(folder / "checkpoint")
        self._out = str(folder / "out")

    def run(self, **more: Any) -> None:
        """AvailableNow."""
        options = {**self._options, **{name: str(value) for name, value in more.items()}}
        stream = self._spark.readStream.format("posthouse").options(**options).load()
        query = (
            stream.select("body", "lookup_id")
            .writeStream.format("parquet")
            .option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._out)
        )
        assert query.awaitTermination(120)

    def bodies(self) -> list[bytes]:
        """What came out, sorted."""
        rows = self._spark.read.parquet(self._out).collect()
        return sorted(bytes(row.body) for row in rows)


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
    with pytest.raises(Exception, match="only a stream consumes"):
        table(spark, far, far.new(), consume="onCommit").count()


def test_stream_that_looks_shows_each_message_once(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    streaming = Streaming(spark, far, name, tmp_path)
    sent = [b"%03d" % number for number in range(50)]
    for at in range(0, 50, 25):
        far.queue(name).send_many(sent[at : at + 25], recoverable=True)
        streaming.run(maxMessagesPerTrigger=10, minPartitions=2)
    far.queue(name).send(b"urgent", priority=7, recoverable=True)
    streaming.run()
    assert streaming.bodies() == sorted([*sent, b"urgent"])
    assert far.queue(name).count() == 51


def test_stream_that_begins_with_the_latest_skips_what_is_there(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    far.queue(name).send(b"old", recoverable=True)
    streaming = Streaming(spark, far, name, tmp_path)
    streaming.run(startingOffsets="latest")
    far.queue(name).send(b"new", recoverable=True)
    streaming.run(startingOffsets="latest")
    assert streaming.bodies() == [b"new"]


def test_stream_that_consumes_drains_the_queue(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    streaming = Streaming(spark, far, name, tmp_path)
    sent = [b"%03d" % number for number in range(130)]
    for at in (0, 65):
        far.queue(name).send_many(sent[at : at + 65], recoverable=True)
        streaming.run(consume="onCommit", maxMessagesPerTrigger=50, minPartitions=2)
        assert far.queue(name).count() == 0
    assert streaming.bodies() == sent


def test_batch_that_failed_is_read_again_and_nothing_is_lost(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    far.queue(name).send_many([b"%03d" % number for number in range(20)], recoverable=True)
    options = {**far.options, "queue": name, "consume": "onCommit", "maxMessagesPerTrigger": "8"}
    seen: list[list[bytes]] = []

    def collects(rows: DataFrame, batch: int) -> None:
        bodies = sorted(bytes(row.body) for row in rows.select("body").collect())
        seen.append(bodies)
        if len(seen) == 2:
            raise RuntimeError("the second batch fails once")

    for _ in range(2):
        stream = spark.readStream.format("posthouse").options(**options).load()
        query = (
            stream.writeStream.foreachBatch(collects)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        if not seen:
            with pytest.raises(Exception, match="fails once"):
                query.awaitTermination(120)
            assert far.queue(name).count() == 12
        else:
            query.awaitTermination(120)
    assert seen[1] == seen[2]
    assert [body for bodies in (seen[0], *seen[2:]) for body in bodies] == [
        b"%03d" % number for number in range(20)
    ]
    assert far.queue(name).count() == 0


def test_nobody_else_receives_while_a_stream_consumes(
    spark: SparkSession, far: MsmqOffice, tmp_path: Path
) -> None:
    name = far.new()
    far.queue(name).send(b"mine", recoverable=True)
    options = {**far.options, "queue": name, "consume": "onCommit"}
    refused: list[type[Exception]] = []

    def tries(rows: DataFrame, batch: int) -> None:
        other = posthouse.msmq(
            "127.0.0.1", rpc_port=int(far.options["rpcPort"]), user=USER, password=PASSWORD
        )
        with other:
            try:
                other.queue(name).receive(0)
            except SharingViolation as error:
                refused.append(type(error))

    stream = spark.readStream.format("posthouse").options(**options).load()
    query = (
        stream.writeStream.foreachBatch(tries)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert refused == [SharingViolation]
    assert far.queue(name).count() == 0
