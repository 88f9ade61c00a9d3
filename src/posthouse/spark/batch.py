"""Batch reads: queues as they are now."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from posthouse.client.arrow_read import Cut, QueuePlan
from posthouse.model.errors import InvalidParameter
from posthouse.spark.bounds import Bounds
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.options import LATEST, SourceOptions, source_options
from posthouse.spark.plain_errors import plain_errors
from posthouse.spark.queue_selection import Place, beside_each_other, found_places, number_of
from posthouse.spark.read_tasks import Extent, check_loss, counted, portions, read_portion
from posthouse.spark.schema import check_schema, never_null, values_are_texts

if TYPE_CHECKING:
    import pyarrow

PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program in which Spark asks what filters a source takes; its setting for that is on then."""


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """A read of queues; one that takes filters where Spark asks for it.

    A reader that merely has the method is refused by Spark while its setting for that is off.
    """
    read = source_options(options)
    if read.consume:
        raise InvalidParameter(
            "a batch read cannot consume messages",
            "Read a stream, with trigger(availableNow=True) for what is there now.",
        )
    pushes = read.pushdown and sys.argv[1:2] == [PUSHING]
    kind = PushdownReader if pushes else BatchReader
    return kind(read, check_schema(schema), never_null(schema), values_are_texts(schema))


@plain_errors("partitions", "read")
class BatchReader(DataSourceReader):
    """A read of the messages that are there when it is planned."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        sure: Collection[str] = (),
        as_text: bool = False,
    ) -> None:
        self.options = options
        self.columns = columns
        self.sure = sure
        self.as_text = as_text
        self.bounds = Bounds(options.ending_time_s, options.priorities, options.classes)

    def partitions(self) -> list[InputPartition]:
        """Looks what is there, and cuts it."""
        endpoints = [Endpoint(manager) for manager in self.options.managers]
        try:
            beside_each_other(Endpoint.meet, endpoints)
            found = found_places(self.options, endpoints)
            chosen = [self._extent(place, plan) for place, plan in found.values()]
            extents = [extent for extent in chosen if extent]
            return list(portions(extents, self.options, self.bounds.choice()))
        finally:
            for endpoint in endpoints:
                endpoint.close()

    def _extent(self, place: Place, plan: QueuePlan) -> Extent | None:
        """From where to where a queue is read."""
        if not self.bounds.admit(place):
            return None
        after, known = starting(self.options, place, plan)
        if self.options.fail_on_data_loss:
            check_loss(place.queue, after, known, plan.purged_through)
        through = self._through(place, plan)
        after, through = max(after, self.bounds.after), min(through, self.bounds.through)
        if through <= after:
            return None
        if (after, through) == (plan.after, plan.end):
            cut = Cut(after, through, plan.messages, plan.bytes)
        else:
            cut = counted(place.endpoint, place.queue, after, through)
        return Extent(place, cut, plan.purged_through)

    def _through(self, place: Place, plan: QueuePlan) -> int:
        given = number_of(self.options.ending, place.queue, place.endpoint.name)
        return plan.end if given is None or given < 0 else min(given, plan.end)

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Runs in tasks."""
        return read_portion(partition, self.columns, self.sure, self.as_text)


def starting(options: SourceOptions, place: Place, plan: QueuePlan) -> tuple[int, int]:
    """The id after which a read begins, and the highest purged id that it accepts."""
    given = number_of(options.starting, place.queue, place.endpoint.name)
    if given is not None and given > 0:
        return given, 0
    if given == -1 or (given is None and options.starting == LATEST):
        return plan.latest, plan.purged_through
    return plan.after, plan.purged_through


class PushdownReader(BatchReader):
    """A batch read that filters narrow."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what it can use, and leaves every filter to Spark as well."""
        for condition in filters:
            self.bounds.narrow(condition)
        return filters
