"""A model of Spark's micro-batches: the order of its calls, its offset log and its commit log.

`test_call_order.py` holds the model and the real Spark to the same recorded order. A run is an
iterator that stops before every call: who drives it may let time pass there, change something, or
drop it, which is a driver that is killed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from tests.spark.call_order import AVAILABLE_NOW, ONCE, PROCESSING_TIME

IDLE = "idle"  # between two triggers, of which the first found nothing new
Steps = Iterator[str]


class Reader(Protocol):
    """A stream reader as Spark has it in the driver."""

    def initialOffset(self) -> dict[str, Any]: ...
    def getDefaultReadLimit(self) -> ReadLimit: ...
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...
    def reportLatestOffset(self) -> dict[str, Any] | None: ...
    def prepareForTriggerAvailableNow(self) -> None: ...
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]: ...
    def commit(self, end: dict[str, Any]) -> None: ...


class Sink(Protocol):
    """Where the batches of a query go."""

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Steps: ...


class Checkpoint:
    """The folder in which a query has its name, its planned batches and its committed ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for part in ("offsets", "commits"):
            (path / part).mkdir(parents=True, exist_ok=True)
        self._metadata = path / "metadata"
        if not self._metadata.exists():
            self._metadata.write_text(json.dumps({"id": str(uuid4())}))

    @property
    def query(self) -> str:
        """The id of the query, which outlives what is planned and committed."""
        return str(json.loads(self._metadata.read_text())["id"])

    def last(self, part: str) -> int:
        """The last batch in a log; -1 where there is none."""
        names = (file.name for file in (self.path / part).iterdir())
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def offset(self, batch: int) -> dict[str, Any]:
        """Where a batch ends."""
        text = (self.path / "offsets" / str(batch)).read_text().splitlines()[2]
        found: dict[str, Any] = json.loads(text)
        return found

    def plan(self, batch: int, end: dict[str, Any]) -> None:
        """A batch has an end from now on."""
        (self.path / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(end)}")

    def commit(self, batch: int) -> None:
        """A batch is done."""
        (self.path / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


class MicroBatches:
    """One start of a query: a reader and a sink around a checkpoint."""

    def __init__(self, checkpoint: Checkpoint, reader: Reader, sink: Sink) -> None:
        self._log = checkpoint
        self._reader = reader
        self._sink = sink

    def run(self, trigger: str) -> Steps:
        """Runs until the trigger has no more to do; stops before every call, and names it."""
        reader, log = self._reader, self._log
        if trigger == AVAILABLE_NOW:
            yield "prepareForTriggerAvailableNow"
            reader.prepareForTriggerAvailableNow()
        limit = ReadAllAvailable() if trigger == ONCE else reader.getDefaultReadLimit()
        if log.last("offsets") > log.last("commits"):
            yield from self._execute(log.last("offsets"))
            if trigger == ONCE:
                return
        while True:
            batch = log.last("commits") + 1
            start = yield from self._start(batch)
            yield "latestOffset"
            end = reader.latestOffset(start, limit)
            reader.reportLatestOffset()
            if batch == 0 or json.dumps(end) != json.dumps(start):
                yield "offsets"
                log.plan(batch, end)
                if batch:
                    yield "commit"
                    reader.commit(log.offset(batch - 1))
                yield from self._execute(batch)
            elif trigger == PROCESSING_TIME:
                yield IDLE
            if trigger == ONCE or (trigger == AVAILABLE_NOW and log.last("commits") < batch):
                return

    def _start(self, batch: int) -> Generator[str, None, dict[str, Any]]:
        if batch:
            return self._log.offset(batch - 1)
        yield "initialOffset"
        return self._reader.initialOffset()

    def _execute(self, batch: int) -> Steps:
        start = yield from self._start(batch)
        yield "partitions"
        partitions = self._reader.partitions(start, self._log.offset(batch))
        yield from self._sink.take(batch, partitions)
        yield "commits"
        self._log.commit(batch)
