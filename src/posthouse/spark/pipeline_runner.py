"""`run`: runs a pipeline of your own, a file with decorated functions (`posthouse.spark.flows`).

Outputs are made one after the other; streams run until what was there is done, or side by side
until they are told to stop. Each stream has a checkpoint, so that whatever stops it, the next run
goes on where it was.
"""

from __future__ import annotations

import json
import runpy
import threading
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from posthouse.model.errors import InvalidParameter
from posthouse.spark.failures import cause_of
from posthouse.spark.flows import Step, steps_of
from posthouse.spark.last_batch import settle
from posthouse.spark.progress import Meter, Watch
from posthouse.spark.replay_map import not_loaded
from posthouse.spark.table_folders import check_snapshot, check_stream

CHECKPOINTS: Final = "_checkpoints"
LOOK_S: Final = 1


class Output(NamedTuple):
    """The result of a step: rows written, or read by a stream."""

    name: str
    kind: str
    place: str
    rows: int


class Flow:
    """The steps of one file, checked: every parameter is a step, and none waits for itself."""

    def __init__(self, steps: Mapping[str, Step]) -> None:
        self.steps = steps
        self.outputs = [step for step in steps.values() if step.is_output]
        if not self.outputs:
            raise InvalidParameter(
                "the file has no output", "Decorate a function with @table or @sends(...)."
            )
        for step in self.outputs:
            list(self.sources(step))
        self._check_consumers()

    def sources(self, step: Step, above: tuple[str, ...] = ()) -> Iterator[Step]:
        """The reads that a step depends on."""
        if step.name in above:
            raise InvalidParameter(
                f"{' -> '.join((*above, step.name))} is a circle", "Remove one of these references."
            )
        if step.kind == "read":
            yield step
            return
        for name in step.parameters:
            if name != "spark":
                yield from self.sources(self.step(name, step), (*above, step.name))

    def step(self, name: str, wanting: Step) -> Step:
        """The step that a parameter names."""
        if name in self.steps:
            return self.steps[name]
        near = get_close_matches(name, self.steps, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.steps)}"
        raise InvalidParameter(f"{wanting.name} needs {name}, which is not a step", hint)

    def _check_consumers(self) -> None:
        """What is received once can be in one place: two would each get a part."""
        consumers: dict[str, str] = {}
        for output in self.outputs:
            for source in self.sources(output):
                if source.consume and consumers.setdefault(source.name, output.name) != output.name:
                    raise InvalidParameter(
                        f"{source.name} consumes, and both {consumers[source.name]} and "
                        f"{output.name} want it",
                        "Let one of them have it, or use stream=True instead of consume=True.",
                    )


def load(path: str | Path) -> Flow:
    """The pipeline in a file. Its code is run."""
    try:
        made = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        raise not_loaded(Path(path), error) from None
    return Flow(steps_of(made))


class Runner:
    """Runs one flow in one session."""

    def __init__(
        self, flow: Flow, spark: SparkSession, options: Mapping[str, str], out: Path
    ) -> None:
        self._flow = flow
        self._spark = spark
        self._options = dict(options)
        self._out = out

    def run(self, *, follow: bool, meter: Meter, stop: threading.Event) -> list[Output]:
        """Makes all outputs: snapshots first, then streams."""
        streams = [step for step in self._flow.outputs if self._is_stream(step)]
        self._check_folders(streams)
        found = [self._written(step, meter) for step in self._flow.outputs if step not in streams]
        if follow:
            return found + self._streamed(streams, meter, stop, follow=True)
        for step in streams:
            if not stop.is_set():
                found += self._streamed([step], meter, stop, follow=False)
        return found

    def _check_folders(self, streams: Sequence[Step]) -> None:
        """Before anything is written or sent."""
        for step in self._flow.outputs:
            if step.kind != "table":
                continue
            if step in streams:
                check_stream(self._out / step.name, self._checkpoint(step))
            else:
                check_snapshot(self._out / step.name)

    def _is_stream(self, step: Step) -> bool:
        return any(source.stream for source in self._flow.sources(step))

    # -- snapshots

    def _written(self, step: Step, meter: Meter) -> Output:
        seen = Observation(step.name)
        frame = self._frame(step, "", {}).observe(seen, F.count(F.lit(1)).alias("rows"))
        if step.kind == "table":
            writer = frame.write.mode("overwrite").partitionBy(*step.partition_by)
            writer.parquet(str(self._out / step.name))
        else:
            writer = frame.write.format("posthouse").mode("append")
            writer.options(**self._sink(step)).save()
        rows = int(seen.get["rows"])
        meter.add(rows)
        return Output(step.name, step.kind, self._place(step), rows)

    # -- streams

    def _streamed(
        self, steps: Sequence[Step], meter: Meter, stop: threading.Event, *, follow: bool
    ) -> list[Output]:
        running: list[tuple[Step, StreamingQuery]] = []
        rows: dict[str, dict[int, int]] = {step.name: {} for step in steps}
        try:
            for step in steps:
                running += [(step, self._started(step, follow=follow))]
            while _are_well(running) and not stop.is_set():
                running[0][1].awaitTermination(LOOK_S)
                _count(running, rows, meter)
            _check(running)
        except PySparkException as error:
            raise cause_of(error) from None
        finally:
            for _, query in running:
                query.stop()
        _count(running, rows, meter)
        self._settle(steps)
        return [
            Output(step.name, step.kind, self._place(step), sum(rows[step.name].values()))
            for step in steps
        ]

    def _started(self, step: Step, *, follow: bool) -> StreamingQuery:
        checkpoint = str(self._checkpoint(step))
        frame = self._frame(step, checkpoint, {})
        writer = frame.writeStream.option("checkpointLocation", checkpoint)
        writer = writer if follow else writer.trigger(availableNow=True)
        if step.kind == "send":
            return writer.format("posthouse").options(**self._sink(step)).start()
        writer = writer.partitionBy(*step.partition_by) if step.partition_by else writer
        return writer.format("parquet").start(str(self._out / step.name))

    def _settle(self, steps: Sequence[Step]) -> None:
        """Acknowledges the last batch of each stream, which Spark itself does not do."""
        for step in steps:
            if any(source.consume for source in self._flow.sources(step)):
                files = self._options.get("tokenFile")
                settle(str(self._checkpoint(step)), self._options.get("url"), files)

    def _checkpoint(self, step: Step) -> Path:
        return self._out / CHECKPOINTS / step.name

    # -- frames

    def _frame(self, step: Step, checkpoint: str, made: dict[str, DataFrame]) -> DataFrame:
        """What a step returns; each function is called once for an output."""
        if step.name not in made:
            made[step.name] = self._called(step, checkpoint, made)
        return made[step.name]

    def _called(self, step: Step, checkpoint: str, made: dict[str, DataFrame]) -> DataFrame:
        given: list[Any] = []
        for number, name in enumerate(step.parameters):
            if name == "spark":
                given.append(self._spark)
            elif step.kind == "read":
                given.append(self._messages(step, checkpoint, number))
            else:
                given.append(self._frame(self._flow.step(name, step), checkpoint, made))
        result = step.function(*given)
        if not isinstance(result, DataFrame):
            raise InvalidParameter(
                f"{step.name} returned {type(result).__name__}", "Return a DataFrame."
            )
        return result

    def _messages(self, step: Step, checkpoint: str, number: int) -> DataFrame:
        if number:
            raise InvalidParameter(
                f"{step.name} has more than one parameter", "Join them in another step."
            )
        options = {**self._options, "queue": json.dumps(list(step.queues)), **step.options}
        if not step.stream:
            return self._spark.read.format("posthouse").options(**options).load()
        options["checkpoint"] = checkpoint
        if step.consume:
            options |= {"consume": "onCommit", "group": step.group or step.name}
        return self._spark.readStream.format("posthouse").options(**options).load()

    def _sink(self, step: Step) -> dict[str, str]:
        named = {"queue": step.queues[0]} if step.queues else {}
        return {**self._options, **named, **step.options}

    def _place(self, step: Step) -> str:
        if step.kind == "table":
            return str(self._out / step.name)
        return step.queues[0] if step.queues else "by destination"


def _are_well(running: Sequence[tuple[Step, StreamingQuery]]) -> bool:
    """Some run, and none has failed."""
    failed = any(query.exception() is not None for _, query in running)
    return not failed and any(query.isActive for _, query in running)


def _check(running: Sequence[tuple[Step, StreamingQuery]]) -> None:
    for _, query in running:
        error = query.exception()
        if error is not None:
            raise error


def _count(
    running: Sequence[tuple[Step, StreamingQuery]], rows: dict[str, dict[int, int]], meter: Meter
) -> None:
    """Counts rows by batch: Spark's progress may list a batch twice, and drops old ones."""
    for step, query in running:
        for progress in query.recentProgress:
            batch, read = int(progress["batchId"]), int(progress["numInputRows"])
            if batch not in rows[step.name]:
                rows[step.name][batch] = read
                meter.add(read)
            elif read > rows[step.name][batch]:
                rows[step.name][batch] = read


def run(
    file: str | Path,
    out: str | Path,
    *,
    spark: SparkSession,
    options: Mapping[str, str] | None = None,
    follow: bool = False,
    progress: Watch | None = None,
    stop: threading.Event | None = None,
) -> list[Output]:
    """Runs the pipeline in a file; tables and checkpoints go to `out`.

    `options` lead to the queue manager, as those of the source do.
    """
    runner = Runner(load(file), spark, options or {}, Path(out).absolute())
    return runner.run(follow=follow, meter=Meter(progress, 0), stop=stop or threading.Event())
