"""Streams of a real server's queues in a real Spark."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from posthouse.spark import settle
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

Options = Callable[..., dict[str, str]]
MakeQueue = Callable[..., str]
PATIENCE_S = 120


class Streams:
    """Streams into a list, with one checkpoint; each batch is there once."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.batches: dict[int, list[bytes]] = {}
        self.fail_at = -1
        self._running = ExitStack()

    def start(self, options: dict[str, str], **trigger: Any) -> StreamingQuery:
        frame = self.spark.readStream.format("posthouse").options(**options).load()
        writer = frame.select("body").writeStream.foreachBatch(self._take)
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(**trigger)
        query = writer.start()
        self._running.callback(query.stop)
        return query

    def run(self, options: dict[str, str]) -> list[dict[str, Any]]:
        """Until the queue is read; the progress of its batches."""
        query = self.start(options, availableNow=True)
        assert query.awaitTermination(PATIENCE_S)
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def _take(self, frame: DataFrame, batch: int) -> None:
        rows = [bytes(row.body) for row in frame.collect()]
        self.batches[batch] = rows
        if batch == self.fail_at:
            self.fail_at = -1
            raise RuntimeError("the sink failed")

    @property
    def rows(self) -> list[bytes]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    def close(self) -> None:
        self._running.close()


@pytest.fixture
def streams(spark: SparkSession, checkpoint: str) -> Iterator[Streams]:
    made = Streams(spark, checkpoint)
    yield made
    made.close()


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


def failure(query: Callable[[], Any]) -> str:
    """The one error that a stream ends with."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 the class is Spark's choice
        query()
    return str(caught.value)


def test_a_run_ends_with_what_was_there_and_is_settled(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    name = queue()
    office.send(name, numbered(0, 25))
    wanted = options(name, consume="onCommit", group="archive", maxMessagesPerTrigger=10)
    progress = streams.run(wanted)
    assert [one["numInputRows"] for one in progress] == [10, 10, 5]
    assert streams.rows == numbered(0, 25)
    assert office.count(name) == 0
    (group,) = office.qm.call("GET", f"/queues/{path_of(name)}/groups")["groups"]
    assert (group["claimed_messages"], group["leased"]) == (0, False)
    (settled,) = settle(streams.checkpoint, token_file=str(office.token_file))
    assert (settled.group, settled.received) == ("archive", 0)
    office.send(name, numbered(25, 30))
    streams.run(wanted)
    assert streams.rows == numbered(0, 30)


def test_a_batch_that_failed_is_read_again_the_same(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    name = queue()
    office.send(name, numbered(0, 6))
    wanted = options(name, consume="onCommit", group="archive", checkpoint=streams.checkpoint)
    streams.fail_at = 0
    assert "the sink failed" in failure(lambda: streams.run(wanted))
    office.send(name, numbered(6, 8))
    streams.run(wanted)
    assert streams.batches[0] == numbered(0, 6)
    assert streams.rows == numbered(0, 8)
    settle(streams.checkpoint, token_file=str(office.token_file))
    assert office.count(name) == 0


def test_a_stream_follows_its_queue_and_locks_nothing(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    name = queue()
    query = streams.start(options(name), processingTime="0 seconds")
    for at in range(0, 9, 3):
        office.send(name, numbered(at, at + 3))
        query.processAllAvailable()
    assert streams.rows == numbered(0, 9)
    assert office.qm.queue(path_of(name)).receive(timeout=0).body == b"0"
    query.stop()
    office.send(name, [b"9"])
    streams.run(options(name))
    assert streams.rows == numbered(0, 10)


def test_what_is_wrong_is_said_when_the_stream_starts(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    name = queue()
    unknown = options(name, maxMessagePerTrigger=1)
    assert "did you mean maxMessagesPerTrigger?" in failure(lambda: streams.run(unknown))
    missing = options("nowhere")
    assert "MQ_ERROR_QUEUE_NOT_FOUND" in failure(lambda: streams.run(missing))
    endless = options(name, endingOffsets='{"a": 1}')
    refused = failure(lambda: streams.run(endless))
    assert "only batch reads can end" in refused
    assert "UnboundLocalError" not in refused, "Spark's program for streams failed once more"
    away = options(name, url="http://127.0.0.1:9", retryFor=0)
    assert "no queue manager answers" in failure(lambda: streams.run(away))


def test_a_checkpoint_that_a_power_failure_cut_short_loses_and_repeats_nothing(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    name, folder = queue(), Path(streams.checkpoint)
    office.send(name, numbered(0, 6))
    given = options(name, consume="onCommit", group="frail", maxMessagesPerTrigger=3)
    given["checkpoint"] = streams.checkpoint
    streams.fail_at = 1
    assert "the sink failed" in failure(lambda: streams.run(given))
    assert streams.batches == {0: numbered(0, 3), 1: numbered(3, 6)}
    office.send(name, numbered(6, 8))
    planned = (folder / "offsets" / "1").read_bytes()
    (folder / "offsets" / "1").write_bytes(planned[:9])
    told = failure(lambda: streams.run(given))
    assert "offsets/1 is empty or cut short" in told
    for entry in ("1", ".1.crc"):  # it is lost: what was claimed tells where it ended
        (folder / "offsets" / entry).unlink(missing_ok=True)
    streams.run({**given, "maxMessagesPerTrigger": "100"})
    assert streams.batches == {0: numbered(0, 3), 1: numbered(3, 6), 2: numbered(6, 8)}
    assert office.count(name) == 0


def test_asynchronous_progress_tracking_is_refused(
    office: SparkOffice, queue: MakeQueue, options: Options, spark: SparkSession, tmp_path: Path
) -> None:
    """The reader cannot see the setting; it sees that a batch is read before the last is committed.

    Claims stay, so nothing that Spark's log does not have is taken by others.
    """
    name = queue()
    office.send(name, numbered(0, 40))
    wanted = options(name, consume="onCommit", group="aside", maxMessagesPerTrigger=1)
    frame = spark.readStream.format("posthouse").options(**wanted).load()
    writer = frame.writeStream.format("noop").option("asyncProgressTrackingEnabled", True)
    writer = writer.option("asyncProgressTrackingCheckpointIntervalMs", 60_000)
    query = writer.option("checkpointLocation", str(tmp_path / "aside")).start()
    try:
        assert "tracks its progress asynchronously" in failure(
            lambda: query.awaitTermination(PATIENCE_S)
        )
    finally:
        query.stop()
    assert office.count(name) >= 38


def test_a_killed_reader_makes_way_for_its_successor_at_once(
    office: SparkOffice, queue: MakeQueue, options: Options, streams: Streams
) -> None:
    """Its process is gone, and the successor on the same machine can see that."""
    name = queue()
    office.send(name, numbered(0, 2))
    wanted = options(name, consume="onCommit", group="heirs")
    query = streams.start(wanted, processingTime="0 seconds")
    query.processAllAvailable()
    (group,) = office.qm.call("GET", f"/queues/{path_of(name)}/groups")["groups"]
    reader = re.fullmatch(r"reader \w+ of process (\d+)\..*", group["owner"])
    assert reader is not None
    os.kill(int(reader[1]), signal.SIGKILL)
    failure(query.processAllAvailable)
    office.send(name, numbered(2, 4))
    streams.run(wanted)
    assert streams.rows == numbered(0, 4)
    assert office.count(name) == 0
