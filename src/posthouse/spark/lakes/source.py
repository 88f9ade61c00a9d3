"""The stream of `archive`: its tasks write Parquet, and its rows are the files that they wrote.

Messages go from the queue manager's Arrow stream into the file and do not pass through Java. What
Spark gets is a row for each file, from which the driver makes an entry of the lake's log. Files of
tasks that were repeated, or whose batch was, are named by no entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import Row
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import LongType, StringType, StructField, StructType

from posthouse.model.message_columns import NAMES
from posthouse.spark.checkpoints import check_checkpoint
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.parquet_files import QueueFiles
from posthouse.spark.lakes.shared_tally import check_shared
from posthouse.spark.lakes.state import LakeFile, LakeState
from posthouse.spark.quiet_daemon import quiet_planning
from posthouse.spark.read_tasks import Portion, read_portion
from posthouse.spark.schema import message_schema
from posthouse.spark.stream import StreamReader

if TYPE_CHECKING:
    import pyarrow

FORMAT: Final = "posthouse-archive"
LAKE: Final = "lake"
KNOWN: Final = "known"  # how far the lake has each queue when the archive begins
RUN: Final = "run"  # of a command that the server of Spark Connect has to share a folder with
STORAGE: Final = "storageOptionsSecret"  # Spark shows no option whose name has that word
quiet_planning()  # of archives: no worker of theirs imports the other source
_TYPES: Final = {int: LongType(), str: StringType()}
FILES: Final = StructType(
    [StructField(field.name, _TYPES[field.type]) for field in msgspec.structs.fields(LakeFile)]
)
"""The columns of the stream: what is known of a file."""


def file_of(row: Row) -> LakeFile:
    """The file that a row of the stream shows of."""
    return LakeFile(**row.asDict())


class FilesPortion(InputPartition):
    """What one task archives, and what of it the lake has already."""

    def __init__(self, portion: Portion, through: int, schema: pyarrow.Schema) -> None:
        self.portion = portion
        self.through = through
        self.schema = schema  # of the lake, which tasks need not open

    @property
    def is_new(self) -> bool:
        """Whether any of it is."""
        return self.portion.cut.through > self.through

    def without_known(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The messages that the lake does not have."""
        import pyarrow.compute as pc

        if self.portion.cut.after >= self.through:
            return batch
        return batch.filter(pc.field("lookup_id") > self.through)


class ArchiveSource(DataSource):
    """Queues as the files of a lake. `archive` registers it; it is not for others."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of a file. A server of Spark Connect is asked here whether it sees them."""
        if RUN in self.options:
            check_shared(self.options["checkpoint"], self.options[RUN])
        return FILES

    def streamReader(self, schema: StructType) -> ArchiveReader:
        """The stream."""
        made = ArchiveReader(dict(self.options))
        check_checkpoint(made.options.checkpoint)
        return made


class ArchiveReader(StreamReader):
    """A stream of messages whose tasks write them into files."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {key.lower(): value for key, value in options.items()}
        self._lake = given.pop(LAKE)
        given.pop(RUN, None)
        self._known: Mapping[str, int] = json.loads(given.pop(KNOWN, "{}"))
        self._storage: Mapping[str, str] = json.loads(given.pop(STORAGE.lower(), "{}"))
        super().__init__(given, message_schema(NAMES, exact=True))

    def kept(self) -> Mapping[str, int]:
        """Return how far the lake has each queue: another archive may have brought that.

        Lists of queues have checkpoints of their own, and an old one wants what the group has.
        """
        state = self._files().state()
        return {queue: self._through(state, queue) for queue in self.options.queues}

    def _through(self, state: LakeState, queue: str) -> int:
        """Return how far the lake has a queue.

        What it had under former names was looked at when the archive began. What comes under these
        meanwhile is of a copy of the home.
        """
        return max(self._known.get(queue, -1), state.own_through(queue))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The portions of a batch, each with the last message of its queue that the lake has.

        A stream begins where the lake ends or before, and goes on without gaps: so whatever lies at
        or below the highest lookup id of its queue has been written.
        """
        cut = super().partitions(start, end)
        state = self._files().state()
        return [
            FilesPortion(portion, self._through(state, portion.queue), state.schema)
            for portion in cut
            if isinstance(portion, Portion)
        ]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Runs in tasks."""
        if isinstance(partition, FilesPortion):
            files = self._written(partition) if partition.is_new else []
            if files:
                yield _described(files)

    def _written(self, wanted: FilesPortion) -> list[LakeFile]:
        """The files of a portion."""
        place = self._files().place
        with QueueFiles(place, wanted.portion.queue, wanted.schema) as writer:
            for batch in read_portion(wanted.portion, self.columns):
                writer.add(wanted.without_known(batch))
            return writer.close()

    def _files(self) -> LakeFiles:
        return LakeFiles(self._lake, storage_options=self._storage)


def _described(files: list[LakeFile]) -> pyarrow.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([msgspec.structs.asdict(file) for file in files])
