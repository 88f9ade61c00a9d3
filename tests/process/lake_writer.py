"""Archives a queue with the order of Spark's calls and without Spark, and kills itself on the way.

Each line of its input is the number of steps that a child may make, and the child's end is answered
by a line: its exit status, which is negative for the signal that ended it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import InputPartition

from posthouse.spark.checkpoints import planned_offsets
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.source import LAKE, ArchiveReader, file_of
from tests.spark.call_order import AVAILABLE_NOW
from tests.spark.model_spark import Checkpoint, MicroBatches


class Mortal:
    """Counts steps, and ends the process by SIGKILL before one of them."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


class LakeSink:
    """What `archive` does with a batch, with a step between any two things."""

    def __init__(self, lake: LakeFiles, checkpoint: Checkpoint, reader: ArchiveReader) -> None:
        self._lake = lake
        self._checkpoint = checkpoint
        self._reader = reader

    def take(self, batch: int, partitions: Sequence[InputPartition]) -> Iterator[str]:
        yield "tasks"
        files = []
        for partition in partitions:
            for found in self._reader.read(partition):
                files += [file_of(Row(**row)) for row in found.to_pylist()]
        yield "entry"
        planned = planned_offsets(str(self._checkpoint.path), batch)
        starts = {queue: name for one in planned for queue, name in one.incarnations.items()}
        self._lake.add(files, self._checkpoint.query, batch, starts)


def archive(folder: Path, options: dict[str, str], steps: int) -> None:
    """One run; every step of the disk and every call of Spark's counts."""
    mortal = Mortal(steps)
    for name in ("create", "sync_file", "sync_folder", "link", "move"):
        setattr(Disk, name, _counted(getattr(Disk, name), mortal))
    lake = LakeFiles(folder / "lake")
    lake.create()
    checkpoint = Checkpoint(folder / "checkpoint")
    reader = ArchiveReader({**options, "checkpoint": str(checkpoint.path), LAKE: str(lake.place)})
    for _ in MicroBatches(checkpoint, reader, LakeSink(lake, checkpoint, reader)).run(
        AVAILABLE_NOW
    ):
        mortal.step()
    reader.stop()


def _counted(method: Any, mortal: Mortal) -> Any:
    def counted(disk: Disk, *given: Any) -> Any:
        mortal.step()
        return method(disk, *given)

    return counted


def main(folder: Path, options: dict[str, str]) -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            archive(folder, options, int(line))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
