"""Batches of a real Spark that are known by more than their number: nothing is left out unsaid."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeQueue = Callable[..., str]
Write = Callable[["DataFrame", int], None]
PATIENCE_S = 120


class Files:
    """A stream of files with a line each: a file is a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._files = folder / "files"
        self.checkpoint = folder / "checkpoint"
        self._files.mkdir()

    def add(self, *lines: str) -> None:
        for line in lines:
            (self._files / f"{line}.txt").write_text(line)

    @property
    def _stream(self) -> DataFrame:
        return self._spark.readStream.option("maxFilesPerTrigger", 1).text(str(self._files))

    def run(self, write: Write) -> None:
        """All files that are new, through a function for each batch."""
        writer = self._stream.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)

    def run_into(self, options: dict[str, str]) -> None:
        """The same, through the sink of a stream."""
        rows = self._stream.selectExpr("value as body")
        writer = rows.writeStream.format("posthouse").options(**options)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)

    def forget_last_commit(self) -> None:
        """As after a crash between the publish and Spark's own note of it."""
        last = max(int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*"))
        for path in (self.checkpoint / "commits").glob(f"*{last}*"):
            path.unlink()

    def reset(self) -> None:
        """The usual way to begin again: everything but the id of the query."""
        for part in self.checkpoint.iterdir():
            if part.is_dir():
                shutil.rmtree(part)


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Files:
    return Files(spark, tmp_path)


@pytest.fixture
def writing(access: dict[str, str]) -> Callable[[DataFrame, str, int], None]:
    """`writing(rows, queue, batch)`: a write of `foreachBatch`, all under one name."""

    def write(rows: DataFrame, queue: str, batch: int) -> None:
        named = {**access, "queryId": "orders", "batchId": str(batch), "queue": path_of(queue)}
        rows.write.format("posthouse").options(**named).mode("append").save()

    return write


def test_two_writes_of_a_batch_to_two_queues_both_arrive(
    office: SparkOffice,
    queue: MakeQueue,
    files: Files,
    writing: Callable[[DataFrame, str, int], None],
) -> None:
    """L1 of the review: the second write counted as done, and ten of twenty messages were lost."""
    large, small = queue(), queue()

    def write(batch: DataFrame, number: int) -> None:
        rows = batch.selectExpr("value as body")
        writing(rows.where("cast(body as int) > 10"), large, number)
        writing(rows.where("cast(body as int) <= 10"), small, number)

    files.add("1", "12")
    files.run(write)
    files.forget_last_commit()
    files.add("2", "13")
    files.run(write)
    assert sorted(office.bodies(large)) == [b"12", b"13"]
    assert sorted(office.bodies(small)) == [b"1", b"2"]


def test_two_writes_that_cannot_be_told_apart_end_in_an_error(
    office: SparkOffice,
    queue: MakeQueue,
    files: Files,
    writing: Callable[[DataFrame, str, int], None],
) -> None:
    name = queue()

    def write(batch: DataFrame, number: int) -> None:
        writing(batch.selectExpr("value as body"), name, number)
        writing(batch.selectExpr("concat(value, '!') as body"), name, number)

    files.add("1")
    with pytest.raises(Exception, match=r"a second write.*a queryId of its own"):
        files.run(write)
    assert office.bodies(name) == [b"1"]


@pytest.mark.parametrize("batches", [1, 2])
def test_a_checkpoint_that_was_reset_is_refused(
    batches: int, office: SparkOffice, queue: MakeQueue, files: Files, access: dict[str, str]
) -> None:
    """L4 of the review: its batches counted as published, and their messages were lost."""
    name = queue()
    files.add(*map(str, range(batches)))
    files.run_into({**access, "queue": path_of(name)})
    files.reset()
    files.add("new")
    with pytest.raises(Exception, match=r"and now comes with .*posthouse stage forget"):
        files.run_into({**access, "queue": path_of(name)})
    assert sorted(office.bodies(name)) == [b"%d" % number for number in range(batches)]


def test_a_new_checkpoint_under_an_old_name_is_refused(
    office: SparkOffice,
    queue: MakeQueue,
    files: Files,
    writing: Callable[[DataFrame, str, int], None],
) -> None:
    """Its batch has the number and the size of the last one that was written, and other rows."""
    name = queue()

    def write(batch: DataFrame, number: int) -> None:
        writing(batch.selectExpr("value as body"), name, number)

    files.add("1")
    files.run(write)
    shutil.rmtree(files.checkpoint)
    with pytest.raises(Exception, match=r"of another checkpoint.*posthouse stage forget"):
        files.run(write)
    assert office.bodies(name) == [b"1"]
