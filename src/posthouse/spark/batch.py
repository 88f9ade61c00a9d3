"""Batch reads: queues as they are now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from posthouse.client.arrow_read import Cut, QueuePlan
from posthouse.model.errors import InvalidParameter
from posthouse.spark.endpoint import Endpoint
from posthouse.spark.options import LATEST, SourceOptions, source_options
from posthouse.spark.places import Place, found_places, number_of
from posthouse.spark.portions import Extent, check_loss, counted, portions, read_portion
from posthouse.spark.schema import check_schema, never_null, values_are_texts

if TYPE_CHECKING:
    import pyarrow

ALL = (1 << 63) - 1


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """A read of queues; one that takes filters only where the option pushdown asks for it.

    A reader that merely has the method is refused by Spark while its setting for that is off.
    """
    read = source_options(options)
    if read.consume:
        raise InvalidParameter(
            "a table is a snapshot and consumes nothing",
            "Read a stream, with trigger(availableNow=True) for what is there now.",
        )
    kind = PushdownReader if read.pushdown else BatchReader
    return kind(read, check_schema(schema), never_null(schema), values_are_texts(schema))


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
        self.bounds = Bounds()

    def partitions(self) -> list[InputPartition]:
        """Looks what is there, and cuts it."""
        endpoints = [Endpoint(manager) for manager in self.options.managers]
        try:
            found = found_places(self.options, endpoints)
            chosen = [self._extent(place, plan) for place, plan in found.values()]
            return list(portions([extent for extent in chosen if extent], self.options))
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
    """Behind which id a read begins, and which purges it does not mind."""
    given = number_of(options.starting, place.queue, place.endpoint.name)
    if given is not None and given > 0:
        return given, 0
    if given == -1 or (given is None and options.starting == LATEST):
        return plan.latest, plan.purged_through
    return plan.after, plan.purged_through


class Bounds:
    """What filters leave over: lookup ids and queues. Spark looks at every row again."""

    def __init__(self) -> None:
        self.after = 0
        self.through = ALL
        self.queues: frozenset[str] | None = None
        self.managers: frozenset[str] | None = None

    def admit(self, place: Place) -> bool:
        """Whether rows of this queue can pass."""
        if self.queues is not None and place.queue not in self.queues:
            return False
        return self.managers is None or place.endpoint.name in self.managers

    def narrow(self, condition: Filter) -> None:
        """Takes in one condition; those that say nothing about a place change nothing."""
        attribute = getattr(condition, "attribute", ())
        value = getattr(condition, "value", None)
        if attribute == ("lookup_id",) and isinstance(value, int):
            self._narrow_ids(condition, value)
        elif attribute in (("queue",), ("queue_manager",)):
            self._narrow_names(attribute[0], condition, value)

    def _narrow_ids(self, condition: Filter, value: int) -> None:
        match condition:
            case GreaterThan():
                self.after = max(self.after, value)
            case GreaterThanOrEqual():
                self.after = max(self.after, value - 1)
            case LessThan():
                self.through = min(self.through, value - 1)
            case LessThanOrEqual():
                self.through = min(self.through, value)
            case EqualTo():
                self.after, self.through = max(self.after, value - 1), min(self.through, value)

    def _narrow_names(self, column: str, condition: Filter, value: Any) -> None:
        match condition:
            case EqualTo():
                names = frozenset([value])
            case In():
                names = frozenset(value)
            case _:
                return
        name = f"{column}s" if column == "queue" else "managers"
        known = getattr(self, name)
        setattr(self, name, names if known is None else known & names)


class PushdownReader(BatchReader):
    """A batch read that filters narrow."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what it can use, and leaves every filter to Spark as well."""
        for condition in filters:
            self.bounds.narrow(condition)
        return filters
