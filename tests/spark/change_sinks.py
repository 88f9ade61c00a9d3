"""The sinks of the change test: a queue, two queues by `foreachBatch`, and a table of batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, StructField, StructType

from posthouse.spark import sink as queue_sink
from tests.spark.change_servers import Server
from tests.spark.model_spark import Checkpoint, Steps

SCHEMA = StructType([StructField("body", BinaryType())])


class SinkFailed(Exception):
    """A sink that fails for a reason of its own."""


class Tasks(Protocol):
    """What reads the partitions of a batch."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


class Attempt:
    """One start of a query, as its tasks and its sink see it."""

    def __init__(self, checkpoint: Checkpoint, tasks: Tasks, run: str, fails_at: int) -> None:
        self.checkpoint = checkpoint
        self.run = run
        self._tasks = tasks
        self._fails_at = fails_at  # the step of the sink that fails; below 0: none

    def rows(self, partition: InputPartition) -> list[pa.RecordBatch]:
        """What a task reads."""
        return list(self._tasks.read(partition))

    def step(self) -> None:
        """The sink does something; this may be where it fails."""
        self._fails_at -= 1
        if self._fails_at == -1:
            raise SinkFailed

    @contextmanager
    def task(self, batch: int, partition: int) -> Iterator[None]:
        """A task of the batch, in this process."""
        context = TaskContext._getOrCreate()
        context._partitionId = partition
        context._localProperties = {
            "sql.streaming.queryId": self.checkpoint.query,
            "streaming.sql.batchId": str(batch),
            "spark.jobGroup.id": self.run,
        }
        try:
            yield
        finally:
            TaskContext._setTaskContext(None)


class QueueSink:
    """`writeStream.format("posthouse")` into one queue."""

    def __init__(self, target: Server, queue: str, attempt: Attempt) -> None:
        self._attempt = attempt
        self._options = {
            **access(target),
            "queue": f".\\private$\\{queue}",
            "checkpointLocation": str(attempt.checkpoint.path),
        }

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Steps:
        attempt = self._attempt
        writer: Any = queue_sink.stream_writer(self._options, SCHEMA, False)
        messages = []
        try:
            for number, partition in enumerate(partitions):
                yield "task"
                with attempt.task(batch, number):
                    messages.append(writer.write(iter(attempt.rows(partition))))
            attempt.step()
        except SinkFailed:
            writer.abort(messages, batch)
            raise
        yield "publish"
        writer.commit(messages, batch)
        yield "published"
        attempt.step()


class TwoQueues:
    """`foreachBatch` with two writes under one name: odd ones to one queue, others to another."""

    def __init__(
        self, target: Server, queues: tuple[str, str], query: str, attempt: Attempt
    ) -> None:
        self._attempt = attempt
        self._target = target
        self._queues = queues
        self._query = query

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Steps:
        yield "tasks"
        attempt = self._attempt
        rows = [rows for partition in partitions for rows in attempt.rows(partition)]
        bodies = [body for one in rows for body in one.column("body").to_pylist()]
        for odd, queue in enumerate(self._queues):
            some = [body for body in bodies if body[-1] % 2 == odd]
            yield "write"
            options = {
                **access(self._target),
                "queue": f".\\private$\\{queue}",
                "queryId": self._query,
                "batchId": str(batch),
            }
            with attempt.task(batch, 0):
                writer: Any = queue_sink.writer(options, SCHEMA, False)
                batches = [pa.record_batch({"body": pa.array(some, pa.binary())})]
                message = writer.write(iter(batches))
                yield "publish"
                writer.commit([message])
            attempt.step()


class TableSink:
    """A table to which a query adds its batches once, by number, as careful sinks do.

    Spark repeats the last batch of a query, so that one is replaced. An earlier one is refused.
    """

    def __init__(self, batches: dict[int, list[bytes]], attempt: Attempt) -> None:
        self._attempt = attempt
        self._batches = batches

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Steps:
        yield "tasks"
        attempt = self._attempt
        rows = [rows for partition in partitions for rows in attempt.rows(partition)]
        if self._batches and batch < max(self._batches):
            raise SinkFailed
        attempt.step()
        yield "write"
        self._batches[batch] = [body for one in rows for body in one.column("body").to_pylist()]
        yield "written"
        attempt.step()


def access(server: Server) -> Mapping[str, str]:
    """The options that lead to a server; nothing waits for it."""
    return {"url": server.url, "tokenFile": str(server.token_file), "retryFor": "0"}
