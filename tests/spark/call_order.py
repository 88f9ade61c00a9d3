"""The order in which Spark calls a stream reader, and what is in its checkpoint at each call.

`CountingSource` is a stream of numbers whose reader writes each call into a file, with the entries
that the folders `offsets` and `commits` have at that moment. `SCENARIOS` are runs of such a stream.
`call_order.json` has the calls that were recorded. As a program this module runs the first run of
`killed` and waits to be killed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDED = Path(__file__).with_name("call_order.json")
LIMIT = 10  # numbers in a batch
FAILED = "the sink failed"

AVAILABLE_NOW = "availableNow"
ONCE = "once"
PROCESSING_TIME = "processingTime"
TRIGGERS: Mapping[str, Mapping[str, Any]] = {
    AVAILABLE_NOW: {"availableNow": True},
    ONCE: {"once": True},
    PROCESSING_TIME: {"processingTime": "0 seconds"},
}


class Run(NamedTuple):
    """One run of a stream: how many numbers there are at each step, and how it ends."""

    trigger: str
    available: Sequence[int]
    fails_at: int = -1  # the batch in whose sink it fails
    killed_at: int = -1  # the batch in whose sink its driver is killed


SCENARIOS: Mapping[str, Sequence[Run]] = {
    "available now": [Run(AVAILABLE_NOW, [25]), Run(AVAILABLE_NOW, [31])],
    "once": [Run(ONCE, [25]), Run(ONCE, [31])],
    "processing time, with idle triggers": [
        Run(PROCESSING_TIME, [8, 25, 27]),
        Run(PROCESSING_TIME, [27, 30]),
    ],
    "restart after a failed batch": [
        Run(AVAILABLE_NOW, [25], fails_at=1),
        Run(AVAILABLE_NOW, [31]),
    ],
    "restart after a failed first batch": [
        Run(PROCESSING_TIME, [5], fails_at=0),
        Run(PROCESSING_TIME, [31]),
    ],
    "empty runs": [
        Run(AVAILABLE_NOW, [0]),
        Run(AVAILABLE_NOW, [5]),
        Run(AVAILABLE_NOW, [5]),
    ],
    "restart after a kill": [
        Run(PROCESSING_TIME, [25], killed_at=1),
        Run(AVAILABLE_NOW, [31]),
    ],
}


class Folder:
    """Where a stream of numbers has its checkpoint, its log of calls and how far it goes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / "checkpoint"
        self._calls = self.path / "calls"
        self._available = self.path / "available"

    def offer(self, count: int) -> None:
        """From now on there are this many numbers."""
        self.path.mkdir(exist_ok=True)
        aside = self.path / "aside"
        aside.write_text(str(count))
        aside.replace(self._available)

    def available(self) -> int:
        return int(self._available.read_text())

    def entries(self, part: str) -> list[int]:
        """The batches that a folder of the checkpoint has."""
        folder = self.checkpoint / part
        files = folder.iterdir() if folder.is_dir() else ()
        return sorted(int(file.name) for file in files if file.name.isdecimal())

    def note(self, call: str, *values: int | None) -> None:
        """Writes down a call, after what is in the checkpoint."""
        line = [call, *values, self.entries("offsets"), self.entries("commits")]
        with self._calls.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def calls(self) -> list[Any]:
        """All calls so far."""
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


def collapsed(calls: Iterable[Any]) -> list[Any]:
    """Without repetitions of idle triggers: how many there are is a matter of time."""
    return [call for call, _ in groupby(calls)]


class CountingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Numbers from 0 on; an offset is how many were planned."""

    def __init__(self, path: str) -> None:
        self.folder = Folder(path)
        self._goal: int | None = None

    def initialOffset(self) -> dict[str, int]:
        self.folder.note("initialOffset")
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(LIMIT)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else sys.maxsize
        last = self.folder.available() if self._goal is None else self._goal
        end = min(start["at"] + most, last)
        self.folder.note("latestOffset", start["at"], end)
        return {"at": end}

    def reportLatestOffset(self) -> dict[str, int]:
        return {"at": self.folder.available()}

    def prepareForTriggerAvailableNow(self) -> None:
        self._goal = self.folder.available()
        self.folder.note("prepareForTriggerAvailableNow")

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self.folder.note("partitions", start["at"], end["at"])
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(*partition.value):
            yield (number,)

    def commit(self, end: dict[str, int]) -> None:
        self.folder.note("commit", end["at"])

    def stop(self) -> None:
        """When this comes is a matter of luck, and whether: it is not noted."""


class CountingSource(DataSource):
    """`format("counting")` with the option `folder`."""

    @classmethod
    def name(cls) -> str:
        return "counting"

    def schema(self) -> str:
        return "number int"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return CountingReader(self.options["folder"])


class Sink:
    """Notes the batches that it gets, and fails or waits for the kill where the run wants it."""

    def __init__(self, folder: Folder, run: Run) -> None:
        self._folder = folder
        self.run = run

    def note(self, numbers: Sequence[int], batch: int) -> None:
        first, end = (numbers[0], numbers[-1] + 1) if numbers else (None, None)
        self._folder.note("sink", batch, first, end)

    def take(self, numbers: Sequence[int], batch: int) -> None:
        self.note(numbers, batch)
        if batch == self.run.fails_at:
            raise RuntimeError(FAILED)
        if batch == self.run.killed_at:
            print("kill me", flush=True)
            sys.stdin.read()


def start(spark: SparkSession, folder: Folder, run: Run) -> StreamingQuery:
    """Starts a run in Spark."""
    sink = Sink(folder, run)
    spark.dataSource.register(CountingSource)
    stream = spark.readStream.format("counting").option("folder", str(folder.path)).load()
    writer = stream.writeStream.foreachBatch(
        lambda frame, batch: sink.take(sorted(row.number for row in frame.collect()), batch)
    )
    writer = writer.option("checkpointLocation", str(folder.checkpoint))
    return writer.trigger(**TRIGGERS[run.trigger]).start()


def recorded() -> dict[str, list[Any]]:
    """The calls of each scenario as they are kept."""
    kept: dict[str, list[Any]] = json.loads(RECORDED.read_text())
    return kept


def main(path: str) -> None:
    """The run that is killed."""
    from posthouse.spark import session

    run = SCENARIOS["restart after a kill"][0]
    folder = Folder(path)
    folder.offer(run.available[0])
    with session("killed", "local[2]") as spark:
        start(spark, folder, run).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
