"""Filter pushdown: turns filters of a read into ranges and row filters."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from math import ceil, floor
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from posthouse.client.arrow_read import RowChoice
from posthouse.model.errors import QueueError
from posthouse.model.message_classes import CLASS_CODE_MAX, class_code
from posthouse.spark.queue_selection import Place

ALL: Final = (1 << 63) - 1
SECONDS_MAX: Final = (1 << 32) - 1
PRIORITIES: Final = range(8)
CLASSES_MAX: Final = 64
_NAMES: Final = {"queue": "queues", "queue_manager": "managers"}


class Bounds:
    """Lookup ids, queues, times, priorities and classes.

    What options ask for is left out exactly. Of filters Spark looks at every row again.
    """

    def __init__(
        self,
        until_s: float | None = None,
        priorities: Collection[int] = (),
        classes: Collection[int] = (),
    ) -> None:
        self.after = 0
        self.through = ALL
        self.since = 0
        self.until = SECONDS_MAX if until_s is None else _second(ceil(until_s) - 1)
        self.is_empty = until_s is not None and until_s <= 0
        self.queues: frozenset[str] | None = None
        self.managers: frozenset[str] | None = None
        self.priorities = frozenset(priorities) or None
        self.classes = frozenset(classes) or None

    def admit(self, place: Place) -> bool:
        """Whether rows of this queue can pass."""
        if (
            self.is_empty
            or self.since > self.until
            or frozenset() in (self.priorities, self.classes)
        ):
            return False
        if self.queues is not None and place.queue not in self.queues:
            return False
        return self.managers is None or place.endpoint.name in self.managers

    def choice(self) -> RowChoice:
        """What the queue manager is to leave out by itself."""
        return RowChoice(
            self.since,
            None if self.until >= SECONDS_MAX else self.until,
            tuple(sorted(self.priorities or ())),
            tuple(sorted(self.classes or ())),
        )

    def narrow(self, condition: Filter) -> None:
        """Takes in one condition; those that are about something else change nothing."""
        attribute = getattr(condition, "attribute", ())
        value = getattr(condition, "value", None)
        match attribute:
            case ("lookup_id",) if isinstance(value, int):
                self._narrow_ids(condition, value)
            case ("arrived_time",) if isinstance(value, datetime) and value.tzinfo is not None:
                self._narrow_times(condition, value.timestamp())
            case ("queue",) | ("queue_manager",):
                self._keep(_NAMES[attribute[0]], _listed(condition, value))
            case ("priority",):
                self._keep("priorities", _fitting(condition, value, PRIORITIES))
            case ("class_code",):
                self._keep("classes", _few(_fitting(condition, value, range(CLASS_CODE_MAX + 1))))
            case ("class",):
                self._keep("classes", _codes(_listed(condition, value)))
            case _:
                pass

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

    def _narrow_times(self, condition: Filter, moment: float) -> None:
        """To whole seconds, which is all that the queue manager has of a time."""
        if isinstance(condition, GreaterThan | GreaterThanOrEqual | EqualTo):
            self.since = max(self.since, _second(floor(moment)))
        if isinstance(condition, LessThan | LessThanOrEqual | EqualTo):
            self.until = min(self.until, _second(ceil(moment)))

    def _keep(self, name: str, values: frozenset[Any] | None) -> None:
        if values is not None:
            known = getattr(self, name)
            setattr(self, name, values if known is None else known & values)


def _second(moment: int) -> int:
    return min(max(moment, 0), SECONDS_MAX)


def _listed(condition: Filter, value: Any) -> frozenset[Any] | None:
    """The values that a condition names; None where it names none."""
    match condition:
        case EqualTo():
            return frozenset([value])
        case In():
            return frozenset(value)
        case _:
            return None


def _fitting(condition: Filter, value: Any, numbers: range) -> frozenset[int] | None:
    """Those of some numbers that a condition leaves over."""
    listed = _listed(condition, value)
    if listed is not None:
        return frozenset(number for number in listed if number in numbers)
    if not isinstance(value, int):
        return None
    match condition:
        case GreaterThan():
            return frozenset(numbers[max(0, value + 1) :])
        case GreaterThanOrEqual():
            return frozenset(numbers[max(0, value) :])
        case LessThan():
            return frozenset(numbers[: max(0, value)])
        case LessThanOrEqual():
            return frozenset(numbers[: max(0, value + 1)])
        case _:
            return None


def _few(values: frozenset[int] | None) -> frozenset[int] | None:
    """Not thousands of them: those are left to Spark."""
    return values if values is None or len(values) <= CLASSES_MAX else None


def _codes(words: frozenset[Any] | None) -> frozenset[int] | None:
    """The codes of classes; a word that is none fits no message."""
    if words is None or len(words) > CLASSES_MAX:
        return None
    found = set()
    for word in words:
        try:
            found.add(class_code(word))
        except (QueueError, TypeError, AttributeError):
            continue
    return frozenset(found)
