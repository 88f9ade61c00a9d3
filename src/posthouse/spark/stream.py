"""Streams: reads queues as they fill, in micro-batches.

Spark keeps one reader in the driver for offsets, and pickles another one into tasks. The first one
keeps its state in its `Course`; the tasks have their portions and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from posthouse.model.errors import InvalidParameter
from posthouse.spark.limits import default_limit, limits_of
from posthouse.spark.offsets import offset_of
from posthouse.spark.options import LATEST, source_options
from posthouse.spark.plain_errors import plain_errors
from posthouse.spark.read_tasks import read_portion
from posthouse.spark.schema import check_schema, never_null, values_are_texts
from posthouse.spark.stream_planner import Course

if TYPE_CHECKING:
    import pyarrow


@plain_errors(
    "initialOffset",
    "latestOffset",
    "reportLatestOffset",
    "prepareForTriggerAvailableNow",
    "partitions",
    "read",
    "commit",
)
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of messages. Reading is a pure peek; `commit` is what receives."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = source_options(options)
        self.columns = check_schema(schema)
        self.sure = never_null(schema)
        self.as_text = values_are_texts(schema)
        self._course: Course | None = None
        self._ends = False
        if self.options.ending != LATEST or self.options.ending_time_s is not None:
            raise InvalidParameter(
                "only batch reads can end at a position",
                "Leave endingOffsets and endingTimestamp out.",
            )
        if self.options.priorities or self.options.classes:
            raise InvalidParameter(
                "only batch reads can choose priorities and classes", "Filter its rows in Spark."
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_course": None}

    @property
    def course(self) -> Course:
        """The stream's course, begun when it is first needed: only in the driver."""
        return self._begun(is_new=False)

    def _begun(self, *, is_new: bool) -> Course:
        if self._course is None:
            self._course = Course(self.options, self.kept())
            self._course.begin(is_new=is_new)
            if self._ends:
                self._course.set_goal()
        return self._course

    def kept(self) -> Mapping[str, int]:
        """Return the last message of each queue that the sink has, whichever stream brought it."""
        return {}

    def initialOffset(self) -> dict[str, Any]:
        """Where a stream without a checkpoint begins."""
        return self._begun(is_new=True).first().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options allow for one micro-batch."""
        return default_limit(self.options)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next micro-batch ends; the start itself while nothing is new."""
        end = self.course.next(offset_of(start), limits_of(limit, self.options))
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The last message of every queue, for those who look at the stream's progress.

        Queue managers that do not answer are in it as `away`.
        """
        last, away = self.course.last().to_json(), self.course.away()
        return {**last, "away": away} if away else last

    def prepareForTriggerAvailableNow(self) -> None:
        """From now on the stream ends where the queues end at this moment.

        Spark calls this first. The next call comes at once, and shows whether there is a
        checkpoint.
        """
        self._ends = True
        if self._course is not None:
            self._course.set_goal()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Claims what the micro-batch will read, where it is to be consumed, and cuts it."""
        return list(self.course.portions(offset_of(start), offset_of(end)))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Runs in tasks."""
        return read_portion(partition, self.columns, self.sure, self.as_text)

    def commit(self, end: dict[str, Any]) -> None:
        """The micro-batch up to here is done: its messages are received."""
        self.course.commit(offset_of(end))

    def stop(self) -> None:
        """Spark rarely gets to call this; leases lapse without it."""
        if self._course is not None:
            self._course.close()


class RefusedStream(StreamReader):
    """A stream that does not begin: whatever it is asked for, its answer is the error."""

    def __init__(self, error: Exception) -> None:
        self._course, self._error, self._ends = None, error, False

    def _begun(self, *, is_new: bool) -> Course:
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Asked for before anything that may fail."""
        return ReadAllAvailable()
