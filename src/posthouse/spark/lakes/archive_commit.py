"""Commits the batches of `archive`: enters the files that tasks wrote into the lake's log.

In a session of this process that is done here. Over Spark Connect it is done by a worker of the
server, which gets this module by name and reports in a file that both see.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame

from posthouse.model.errors import InvalidParameter
from posthouse.spark.checkpoints import planned_offsets
from posthouse.spark.lakes.compaction import compact
from posthouse.spark.lakes.erasure import retain
from posthouse.spark.lakes.files import Added, LakeFiles
from posthouse.spark.lakes.source import file_of
from posthouse.spark.table_files import new_file

TEND_EVERY: Final = 64  # batches
NO_BATCH: Final = -1


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


class Tally(msgspec.Struct):
    """What batches over Spark Connect have brought so far, and whose run it is."""

    run: str
    messages: int = 0
    batches: int = 0
    files: int = 0
    bytes: int = 0
    last: int = NO_BATCH  # the number of the last of them


class SharedTally:
    """A file beside the checkpoint, which the command and the Connect server both have to see."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint.with_name(f"{checkpoint.name}.connect")

    def begin(self) -> str:
        """A new one; the secret of this run, by which the server finds it."""
        run = secrets.token_hex(16)
        self._write(Tally(run))
        return run

    def read(self) -> Tally:
        """As it is now."""
        return msgspec.json.decode(self.path.read_bytes(), type=Tally)

    def add(self, added: Added, number: int) -> None:
        """One more batch."""
        now = self.read()
        now.messages += added.rows
        now.batches += 1
        now.files += len(added.files)
        now.bytes += added.bytes
        now.last = number
        self._write(now)

    def end(self) -> None:
        """Deletes it."""
        self.path.unlink(missing_ok=True)

    def _write(self, tally: Tally) -> None:
        with new_file(self.path) as partial:
            partial.write_bytes(msgspec.json.encode(tally))


def check_shared(checkpoint: str, run: str) -> None:
    """Refuses a Connect server that does not see the folder that the command has written to."""
    tally = SharedTally(Path(checkpoint))
    try:
        found = tally.read().run
    except (OSError, msgspec.DecodeError):
        found = ""
    if found != run:
        raise InvalidParameter(
            f"the Spark Connect server does not see {tally.path}, which this command has written",
            "Name a folder for the lake, or with --checkpoint, that both mount under one path; or "
            "run the command on the machine of the server.",
        )


class RemoteBatches:
    """The function of `foreachBatch` over Spark Connect; runs beside the server."""

    def __init__(self, naming: Naming, checkpoint: Path) -> None:
        self._naming = naming
        self._checkpoint = checkpoint

    def __call__(self, rows: Any, number: int) -> None:
        SharedTally(self._checkpoint).add(self._naming.add(rows, number), number)
