"""Spark calls a stream reader in the recorded order: what the planner relies on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import InputPartition

from posthouse.spark.worker_home import spark_home
from tests.process.offices import wait_until
from tests.process.spark_cluster import descendants
from tests.spark import call_order
from tests.spark.call_order import (
    PROCESSING_TIME,
    SCENARIOS,
    CountingReader,
    Folder,
    Run,
    Sink,
    collapsed,
    recorded,
)
from tests.spark.model_spark import IDLE, Checkpoint, MicroBatches, Steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE_S = 120
IDLE_TRIGGERS = 2  # that find nothing new
KILLED = "killed"


def run_in_spark(spark: SparkSession, folder: Folder, run: Run) -> None:
    """One run, to its end."""
    folder.offer(run.available[0])
    query = call_order.start(spark, folder, run)
    try:
        if run.fails_at >= 0:
            with pytest.raises(StreamingQueryException, match=call_order.FAILED):
                query.awaitTermination(PATIENCE_S)
        elif run.trigger == PROCESSING_TIME:
            for count in run.available:
                folder.offer(count)
                query.processAllAvailable()
                wait_for_idle_triggers(folder)
        else:
            assert query.awaitTermination(PATIENCE_S)
    finally:
        query.stop()


def wait_for_idle_triggers(folder: Folder) -> None:
    """Spark looks for something new, and finds nothing."""
    goal = looks(folder) + IDLE_TRIGGERS
    wait_until(lambda: looks(folder) >= goal, folder.calls, PATIENCE_S)


def looks(folder: Folder) -> int:
    return sum(call[0] == "latestOffset" for call in folder.calls())


def kill_in_batch(folder: Folder) -> None:
    """A driver of its own, killed in the sink of a batch."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.call_order", str(folder.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(spark_home())},
    )
    with program:
        assert program.stdout is not None
        line = program.stdout.readline()
        for pid in (*descendants(program.pid), program.pid):
            os.kill(pid, signal.SIGKILL)
    assert line == b"kill me\n"


@pytest.mark.parametrize("name", SCENARIOS)
def test_spark_calls_a_reader_in_the_recorded_order(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "stream")
    for run in SCENARIOS[name]:
        if run.killed_at >= 0:
            folder.path.mkdir()
            kill_in_batch(folder)
        else:
            run_in_spark(spark, folder, run)
        folder.note("ended")
    assert collapsed(folder.calls()) == recorded()[name]


def test_a_batch_is_in_the_commit_log_before_the_next_is_asked_for() -> None:
    """The planner receives the messages of the batch that ends at `start`, in `latestOffset`."""
    for name, calls in recorded().items():
        ends: dict[int, int] = {}  # by batch
        for call in calls:
            if call[0] == "latestOffset" and call[1] > 0:
                *_, start, _end, offsets, commits = call
                assert start in {ends[batch] for batch in commits}, (name, call)
                assert offsets == commits
            elif call[0] == "sink":
                ends[call[1]] = call[3]


class NumberSink:
    """A sink of the model that does what the sink in Spark does."""

    def __init__(self, reader: CountingReader, sink: Sink) -> None:
        self._reader = reader
        self._sink = sink

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Steps:
        rows = [row for partition in partitions for row in self._reader.read(partition)]
        if batch == self._sink.run.killed_at:
            self._sink.note([number for (number,) in rows], batch)
            yield KILLED
        self._sink.take([number for (number,) in rows], batch)
        yield "written"


def run_in_model(folder: Folder, run: Run) -> None:
    """One run, to its end or its kill."""
    reader = CountingReader(str(folder.path))
    sink = NumberSink(reader, Sink(folder, run))
    counts = iter(run.available)
    folder.offer(next(counts))
    for step in MicroBatches(Checkpoint(folder.checkpoint), reader, sink).run(run.trigger):
        if step == KILLED:
            return
        if step == IDLE:
            count = next(counts, None)
            if count is None:
                return
            folder.offer(count)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_model_of_spark_calls_a_reader_in_the_recorded_order(name: str, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "stream")
    for run in SCENARIOS[name]:
        with pytest.raises(RuntimeError) if run.fails_at >= 0 else nullcontext():
            run_in_model(folder, run)
        folder.note("ended")
    assert collapsed(folder.calls()) == recorded()[name]
