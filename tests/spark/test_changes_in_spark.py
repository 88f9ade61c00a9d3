"""The change test with the real Spark: the same histories, without kills of the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conftest import Dose
from tests.spark.call_order import TRIGGERS
from tests.spark.change_history import History, Town
from tests.spark.change_sinks import access
from tests.spark.change_town import Player, town

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 120
FAILED = "the sink failed"
# Each kind of sink, streams that consume and that do not, and most of what can happen, in few runs.
SHORT = (0, 5, 48)


class SparkHistory(History):
    """A history whose runs are Spark's."""

    def __init__(self, seed: int, town: Town, folder: Path, spark: SparkSession) -> None:
        super().__init__(seed, town, folder)
        self._spark = spark

    def acts(self) -> list[tuple[int, Callable[[], None]]]:
        """Two readers at once wait for each other's leases, in a time that does not pass here."""
        return [(weight, act) for weight, act in super().acts() if act != self.second_reader]

    def _attempt(self, trigger: str, fails_at: int, killed_at: int, *, calm: bool) -> bool:
        """One query, to its end."""
        frame = self._spark.readStream.format("posthouse").options(**self.options()).load()
        writer = self._written(frame, fails_at)
        writer = writer.option("checkpointLocation", str(self.checkpoint.path))
        trigger = "availableNow" if trigger == "processingTime" else trigger
        query = writer.trigger(**TRIGGERS[trigger]).start()
        try:
            return bool(query.awaitTermination(PATIENCE_S))
        finally:
            query.stop()

    def _written(self, frame: DataFrame, fails_at: int) -> Any:
        copies, even, odd = self.targets
        target = dict(access(self.town.target))
        if self.sink == "queue":
            options = {**target, "queue": f".\\private$\\{copies}"}
            return frame.writeStream.format("posthouse").options(**options)
        steps = iter(range(1000))

        def table(rows: DataFrame, batch: int) -> None:
            batches = self.table.setdefault(self.output_name, {})
            if batches and batch < max(batches):
                raise RuntimeError(FAILED)
            bodies = [bytes(row.body) for row in rows.collect()]
            if next(steps) == fails_at:
                raise RuntimeError(FAILED)
            batches[batch] = bodies

        def two(rows: DataFrame, batch: int) -> None:
            names = {"queryId": self.output_name, "batchId": str(batch)}
            for number, queue in enumerate((even, odd)):
                some = rows.where(f"cast(right(string(body), 1) as int) % 2 = {number}")
                options = {**target, **names, "queue": f".\\private$\\{queue}"}
                some.write.format("posthouse").options(**options).mode("append").save()
                if next(steps) == fails_at:
                    raise RuntimeError(FAILED)

        return frame.writeStream.foreachBatch(table if self.sink == "table" else two)


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Town, Path]]:
    with town() as found:
        yield found


@pytest.mark.timeout(7200)
def test_changes_lose_and_repeat_nothing_in_spark(
    made: tuple[Town, Path], spark: SparkSession, dose: Dose
) -> None:
    played = Player(made, SparkHistory)
    for seed in SHORT[: dose(len(SHORT), 0)] or range(40):
        played(seed, spark=spark)
