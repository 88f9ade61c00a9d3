"""The options of `replay`: which messages of a lake go where, and how they change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import NAMES
from posthouse.model.text import excerpt
from posthouse.spark.failures import cause_of
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.table import arrived, may_match, read_files
from posthouse.spark.options import whole_name
from posthouse.spark.queries.guard import Guard, Statement
from posthouse.spark.queue_selection import key_of

ORIGIN: Final = "origin"
"""As a destination: the queue that each message was in; its queue, if that was a journal."""
JOURNAL: Final = ";journal"
# Receipts and copies were made when the messages were sent; their senders do not wait for more.
REPLAYED: Final = tuple(
    name for name in NAMES if name not in ("journal", "acknowledge", "admin_queue")
)
TABLE: Final = "lake_messages"
LABEL_MAX: Final = 249
U32_MAX: Final = 0xFFFFFFFF
_NUMBERS: Final = {"priority": 7, "app_specific": U32_MAX, "time_to_be_received": U32_MAX}
_TEXTS: Final = ("label", "response_queue", "correlation_id")
SETTABLE: Final = (*_TEXTS, *_NUMBERS)
"""Columns that a replay may set."""
_CORRELATION: Final = re.compile(r"([0-9a-fA-F]{40})?")
Value = str | int


class Selection(NamedTuple):
    """Messages by time, condition and queue; each of these queues has a destination."""

    destinations: Mapping[str, str]
    through: Mapping[str, int]  # the last message of each queue when the replay was planned
    since: datetime | None
    until: datetime | None
    where: str | None

    def rows(
        self, spark: SparkSession, lake: LakeFiles, after: int = -1, last: int | None = None
    ) -> DataFrame:
        """The messages with lookup ids above `after`, up to `last`, as the sink takes them."""
        files = [
            file
            for file in lake.state().files
            if may_match(file, self.destinations, self.since, self.until)
            and file.last_id > after
            and (last is None or file.first_id <= last)
        ]
        found = read_files(spark, lake, files).where(self._condition(after, last))
        if self.where:
            found = filtered(found, self.where)
        return found.select(*REPLAYED).withColumns(
            {"destination": _mapped(self.destinations), "delivery": _delivery()}
        )

    def _condition(self, after: int, last: int | None) -> Column:
        known = [
            (F.col("queue") == queue) & (F.col("lookup_id") <= through)
            for queue, through in self.through.items()
        ]
        condition = arrived(self.since, self.until) & (F.col("lookup_id") > after)
        if last is not None:
            condition = condition & (F.col("lookup_id") <= last)
        return condition & reduce(or_, known, F.lit(False))


def _mapped(destinations: Mapping[str, str]) -> Column:
    pairs = [F.lit(word) for pair in destinations.items() for word in pair]
    return F.element_at(F.create_map(*pairs), F.col("queue")) if pairs else F.lit(None)


def _delivery() -> Column:
    """What the lake has is durable: nothing of it is sent so that a crash may lose it."""
    return F.when(F.col("delivery") != "express", F.col("delivery"))


def check_where(spark: SparkSession, where: str) -> None:
    """Refuses what is not a condition over the columns of a message (decision 17)."""
    seen = Guard(spark).parsed(f"SELECT 1 FROM {TABLE} WHERE (\n{where}\n)")
    if not isinstance(seen, Statement) or len(seen.relations) != 1:
        raise InvalidParameter(
            "a filter looks at one message at a time", "Write it without another SELECT."
        )


def filtered(messages: DataFrame, where: str) -> DataFrame:
    """Return the messages for which a condition holds that `check_where` has let pass."""
    try:
        return messages.where(F.expr(where))
    except PySparkException as error:
        raise InvalidParameter(
            f"the filter does not fit: {cause_of(error)}", "Its columns are those of a message."
        ) from None


def destinations_of(
    queues: Iterable[str], to: str | None, mapping: Mapping[str, str] | None
) -> dict[str, str]:
    """Where the messages of each queue of a lake go; queues without a destination stay out."""
    there = {key_of(queue, ""): queue for queue in queues}
    found = {} if to is None else {queue: _resolved(to, queue) for queue in there.values()}
    for given, destination in (mapping or {}).items():
        for queue in _named(given, there):
            found[queue] = _resolved(destination, queue)
    if to is None and not mapping:
        raise InvalidParameter("a replay needs a destination", "Name it with `to` or a map.")
    return dict(sorted(found.items()))


def _resolved(destination: str, queue: str) -> str:
    if destination.lower() == ORIGIN:
        return queue.removesuffix(JOURNAL)
    is_bare = not any(sign in destination for sign in "\\/=")
    return whole_name(destination) if is_bare else destination


def _named(given: str, there: Mapping[str, str]) -> list[str]:
    """The queues that a name means; `.` is any computer."""
    key = key_of(whole_name(given), "")
    if key.startswith("\\"):
        found = [queue for name, queue in there.items() if name.endswith(key)]
    else:
        found = [there[key]] if key in there else []
    if not found:
        near = get_close_matches(key, there, n=1)
        hint = f"Did you mean {there[near[0]]}?" if near else "See what it has with --dry-run."
        raise InvalidParameter(f"the lake has no messages of {given}", hint)
    return found


# -- what a replay sets in the messages that it sends


def checked_changes(changes: Mapping[str, str]) -> dict[str, Value]:
    """The values, in their types; what a message cannot have is refused."""
    return {name: _value(name, text) for name, text in changes.items()}


def _value(name: str, text: str) -> Value:
    if name in _NUMBERS:
        if not re.fullmatch("[0-9]{1,10}", text) or int(text) > _NUMBERS[name]:
            raise InvalidParameter(
                f"{name} cannot be {excerpt(text)}", f"Set a number from 0 to {_NUMBERS[name]}."
            )
        return int(text)
    if name not in _TEXTS:
        near = get_close_matches(name, SETTABLE, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Set {', '.join(SETTABLE)}."
        raise InvalidParameter(f"a replay cannot set {excerpt(name)}", hint)
    if name == "label" and len(text) > LABEL_MAX:
        raise InvalidParameter(f"a label has {LABEL_MAX} characters at most", "Shorten it.")
    if name == "correlation_id" and not _CORRELATION.fullmatch(text):
        raise InvalidParameter(
            "a correlation identifier has 40 hexadecimal digits", "Give all of them."
        )
    return text


def changed(messages: DataFrame, values: Mapping[str, Value]) -> DataFrame:
    """The messages with these values, in the types of their columns."""
    types = {field.name: field.dataType for field in messages.schema.fields}
    return messages.withColumns(
        {name: F.lit(value).cast(types[name]) for name, value in values.items()}
    )
