"""Commits the batches of `archive`: enters the files that tasks wrote into the lake's log.

In a session of this process that is done here. Over Spark Connect it is done by a worker of the
server, which gets this module by name and reports in a file that both see.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

from posthouse.spark.checkpoints import planned_offsets
from posthouse.spark.lakes.compaction import compact
from posthouse.spark.lakes.erasure import retain
from posthouse.spark.lakes.files import Added, LakeFiles
from posthouse.spark.lakes.shared_tally import SharedTally
from posthouse.spark.lakes.source import file_of

TEND_EVERY: Final = 64  # batches


class Naming:
    """Names the files of batches of one stream. Pickled for Spark Connect: it holds no connection.

    It is for one lake, and for the stream whose checkpoint lies in a folder.
    """

    def __init__(
        self,
        lake: str,
        storage_options: Mapping[str, str] | None,
        checkpoint: Path,
        keep: timedelta | None,
    ) -> None:
        self._lake = lake
        self._options = None if storage_options is None else dict(storage_options)
        self._checkpoint = checkpoint
        self._keep = keep

    def add(self, rows: DataFrame, number: int) -> Added:
        """Names what the tasks have written, unless the lake has the batch."""
        files = [file_of(row) for row in rows.collect()]
        lake = LakeFiles(self._lake, storage_options=self._options)
        added = lake.add(files, self.stream(), number, self._incarnations(number))
        if number % TEND_EVERY == TEND_EVERY - 1:
            self.tend()
        return added

    def tend(self) -> None:
        """Small files become large ones, and what is too old goes."""
        if self._keep is not None:
            retain(LakeFiles(self._lake, storage_options=self._options), self._keep)
        compact(self._lake, storage_options=self._options)

    def _incarnations(self, number: int) -> dict[str, str]:
        """Which starts of their queue managers gave the last ids of a batch, by queue."""
        planned = planned_offsets(str(self._checkpoint), number)
        return {queue: name for one in planned for queue, name in one.incarnations.items()}

    def stream(self) -> str:
        """The stream's id, as its checkpoint has it: its batches are counted there."""
        return str(json.loads((self._checkpoint / "metadata").read_bytes())["id"])


class RemoteBatches:
    """The function of `foreachBatch` over Spark Connect; runs beside the server."""

    def __init__(self, naming: Naming, checkpoint: Path) -> None:
        self._naming = naming
        self._checkpoint = checkpoint

    def __call__(self, rows: Any, number: int) -> None:
        SharedTally(self._checkpoint).add(self._naming.add(rows, number), number)
