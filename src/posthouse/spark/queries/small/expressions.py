"""Expressions of a statement with their types, translated for DuckDB.

Types are strict here: where Spark would convert a value silently, the statement is left to Spark,
but for a time that is compared with a text that shows one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import Kind
from posthouse.model.text import excerpt
from posthouse.spark.queries.functions import ALLOWED
from posthouse.spark.queries.small import calls, tree
from posthouse.spark.queries.small.calls import Typed, as_kind, cast, common_kind, quoted
from posthouse.spark.queries.small.tokens import NeedsSpark
from posthouse.spark.queries.small.tree import DATE, DOUBLE, NOTHING, KindOf

INT_MAX: Final = (1 << 31) - 1
Resolve = Callable[[tree.Reference], Typed]
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)(Z|\+00:00)?)?", re.ASCII
)
_WHOLE: Final = "'[+-]?[0-9]{1,18}'"
_CASTS: Final[dict[str, KindOf]] = {
    "string": Kind.STRING,
    "int": Kind.INT,
    "integer": Kind.INT,
    "bigint": Kind.LONG,
    "long": Kind.LONG,
    "double": DOUBLE,
    "boolean": Kind.BOOLEAN,
    "date": DATE,
    "timestamp": Kind.TIMESTAMP,
    "binary": Kind.BINARY,
}
_FROM: Final[dict[KindOf, tuple[KindOf, ...]]] = {
    Kind.INT: (Kind.LONG, Kind.BOOLEAN),
    Kind.LONG: (Kind.INT, Kind.BOOLEAN),
    DOUBLE: (Kind.INT, Kind.LONG),
    Kind.STRING: (Kind.INT, Kind.LONG, Kind.BOOLEAN, DATE),
    DATE: (Kind.TIMESTAMP,),
    Kind.TIMESTAMP: (DATE,),
}
"""Conversions that both engines make alike, without texts."""


class Writer:
    """Writes values of one SELECT; `resolve` finds columns, `now` is when the statement came."""

    def __init__(self, resolve: Resolve, now: datetime) -> None:
        self._resolve = resolve
        self._now = now

    def condition(self, value: tree.Expression) -> Typed:
        """A value that is true or not."""
        found = self.write(value)
        if found.kind is not Kind.BOOLEAN:
            raise NeedsSpark("only Spark takes a condition that is not a truth value")
        return found

    def write(self, value: tree.Expression) -> Typed:
        """Any value."""
        match value:
            case tree.Constant():
                return _constant(value.value)
            case tree.Moment():
                return _moment(value.text, value.kind)
            case tree.Reference():
                return self._resolve(value)
            case tree.Unary():
                return self._unary(value)
            case tree.Binary():
                return self._binary(value)
            case tree.IsNull():
                return self._is_null(value)
            case tree.Among():
                return self._among(value)
            case tree.Between():
                return self._between(value)
            case tree.Case():
                return self._case(value)
            case tree.Cast():
                return self._cast(value)
            case tree.Call():
                return self._call(value)
            case tree.Span():
                raise NeedsSpark("only Spark has intervals alone")

    # -- signs

    def _unary(self, value: tree.Unary) -> Typed:
        if value.sign == "NOT":
            found = self.condition(value.value)
            return found._replace(sql=f"(NOT {found.sql})", constant=None)
        found = self.write(value.value)
        if found.kind not in calls.NUMBERS:
            raise NeedsSpark("only Spark negates what is not a number")
        return found._replace(sql=cast(f"(- {found.sql})", found.kind), constant=None)

    def _binary(self, value: tree.Binary) -> Typed:
        if value.sign in ("AND", "OR"):
            left, right = self.condition(value.left), self.condition(value.right)
            return _joined(f"({left.sql} {value.sign} {right.sql})", Kind.BOOLEAN, left, right)
        if isinstance(value.right, tree.Span):
            return self._shifted(value)
        left, right = self.write(value.left), self.write(value.right)
        if value.sign == "LIKE":
            return _like(left, right)
        if value.sign == "||":
            return _concatenated(left, right)
        if value.sign in ("+", "-", "*", "/", "%"):
            return _computed(value.sign, left, right)
        return _compared(value.sign, left, right)

    def _shifted(self, value: tree.Binary) -> Typed:
        """A time and an interval."""
        left, span = self.write(value.left), value.right
        assert isinstance(span, tree.Span)
        if value.sign not in ("+", "-") or left.kind is not Kind.TIMESTAMP:
            raise NeedsSpark("only Spark has intervals there")
        if span.number > INT_MAX:
            raise NeedsSpark("only Spark has intervals of that length")
        micros = timedelta(**{f"{span.unit}s": span.number}) // timedelta(microseconds=1)
        shift = f"to_microseconds(CAST({micros} AS BIGINT))"
        return left._replace(sql=f"({left.sql} {value.sign} {shift})", constant=None)

    # -- conditions

    def _is_null(self, value: tree.IsNull) -> Typed:
        found = self.write(value.value)
        word = "IS NOT NULL" if value.negated else "IS NULL"
        return _joined(f"({found.sql} {word})", Kind.BOOLEAN, found)

    def _among(self, value: tree.Among) -> Typed:
        found = self.write(value.value)
        some = [self.write(choice) for choice in value.choices]
        pairs = [_alike(found, one) for one in some]
        kinds = {left.kind for left, _ in pairs}
        if len(kinds) != 1:
            raise NeedsSpark("only Spark compares values of different types")
        word = "NOT IN" if value.negated else "IN"
        choices = ", ".join(right.sql for _, right in pairs)
        return _joined(f"({pairs[0][0].sql} {word} ({choices}))", Kind.BOOLEAN, found, *some)

    def _between(self, value: tree.Between) -> Typed:
        low = _compared(">=", self.write(value.value), self.write(value.low))
        high = _compared("<=", self.write(value.value), self.write(value.high))
        found = _joined(f"({low.sql} AND {high.sql})", Kind.BOOLEAN, low, high)
        return found._replace(sql=f"(NOT {found.sql})") if value.negated else found

    def _case(self, value: tree.Case) -> Typed:
        conditions = [
            self.condition(one)
            if value.subject is None
            else _compared("=", self.write(value.subject), self.write(one))
            for one, _ in value.branches
        ]
        results = [self.write(result) for _, result in value.branches]
        results.append(_constant(None) if value.otherwise is None else self.write(value.otherwise))
        kind = common_kind(results)
        pairs = zip(conditions, results, strict=False)
        whens = (f"WHEN {one.sql} THEN {as_kind(result, kind)}" for one, result in pairs)
        sql = f"CASE {' '.join(whens)} ELSE {as_kind(results[-1], kind)} END"
        return _joined(sql, kind, *conditions, *results)

    # -- functions

    def _cast(self, value: tree.Cast) -> Typed:
        kind = _CASTS.get(value.kind)
        found = self.write(value.value)
        if kind is None:
            raise NeedsSpark(f"only Spark casts to {excerpt(value.kind)}")
        if found.kind == kind:
            return found._replace(constant=None)
        return _joined(_converted(found, kind), kind, found)

    def _call(self, value: tree.Call) -> Typed:
        name = value.name
        if name not in ALLOWED or name not in calls.NAMES:
            raise NeedsSpark(f"only Spark has the function {excerpt(name)}")
        if name in calls.AGGREGATES or name == "count_if":
            return self._aggregate(value)
        if value.star or value.distinct or value.where is not None:
            raise NeedsSpark(f"only Spark has {name} like that")
        if name in calls.NOW or name in calls.TODAY:
            return self._present(value)
        arguments = [self.write(argument) for argument in value.arguments]
        sql, kind = calls.SCALARS[name](arguments)
        return _joined(sql, kind, *arguments)

    def _present(self, value: tree.Call) -> Typed:
        if value.arguments:
            raise NeedsSpark(f"only Spark has {value.name} with arguments")
        if value.name in calls.NOW:
            return Typed(calls.moment_literal(self._now), Kind.TIMESTAMP)
        return Typed(calls.date_literal(self._now.date()), DATE)

    def _aggregate(self, value: tree.Call) -> Typed:
        where = None if value.where is None else self.condition(value.where)
        found = [self.write(argument) for argument in value.arguments]
        if any(one.is_aggregate for one in (*found, *([where] if where else []))):
            raise InvalidParameter(
                f"{value.name} has another aggregate inside", "Nest queries instead."
            )
        kept = "" if where is None else f" FILTER (WHERE {where.sql})"
        if value.star:
            return Typed(self._starred(value) + kept, Kind.LONG, is_aggregate=True)
        if len(found) != 1 or (value.distinct and value.name not in calls.DISTINCT):
            raise NeedsSpark(f"only Spark has {value.name} like that")
        if value.name == "count_if":
            return self._counted(found[0], kept)
        template, kind = calls.AGGREGATES[value.name](found[0])
        if value.name == "count" and found[0].kind not in calls.ORDERED:
            raise NeedsSpark("only Spark counts values of that type")
        inner = template.format(f"DISTINCT {found[0].sql}" if value.distinct else found[0].sql)
        if value.distinct and value.name == "avg":
            inner = f"avg(DISTINCT CAST({found[0].sql} AS DOUBLE))"
        return Typed(cast(inner + kept, kind), kind, is_aggregate=True)

    def _starred(self, value: tree.Call) -> str:
        if value.name != "count" or value.distinct:
            raise NeedsSpark(f"only Spark has {value.name}(*)")
        return "count(*)"

    def _counted(self, found: Typed, kept: str) -> Typed:
        if found.kind is not Kind.BOOLEAN or kept:
            raise NeedsSpark("only Spark has count_if like that")
        return Typed(f"count(*) FILTER (WHERE {found.sql})", Kind.LONG, is_aggregate=True)


def _joined(sql: str, kind: KindOf, *parts: Typed) -> Typed:
    return Typed(sql, kind, is_aggregate=any(part.is_aggregate for part in parts))


def _constant(value: Any) -> Typed:
    if value is None:
        return Typed("NULL", NOTHING)
    if isinstance(value, bool):
        return Typed("TRUE" if value else "FALSE", Kind.BOOLEAN, value)
    if isinstance(value, int):
        kind = Kind.INT if -INT_MAX <= value <= INT_MAX else Kind.LONG
        return Typed(cast(f"({value})", kind), kind, value)
    return Typed(quoted(value), Kind.STRING, value)


def _moment(text: str, kind: str) -> Typed:
    """A time that is written down, in one of the forms that leave no doubt."""
    found = _MOMENT.fullmatch(text.strip(" "))
    try:
        if found is None:
            raise ValueError
        day = date.fromisoformat(found[1])
        moment = datetime.fromisoformat(f"{found[1]} {_whole_time(found[2])}").replace(tzinfo=UTC)
    except ValueError:
        raise NeedsSpark(f"only Spark reads the time {excerpt(text)}") from None
    if kind == DATE:
        if found[2]:
            raise NeedsSpark(f"only Spark reads the date {excerpt(text)}")
        return Typed(calls.date_literal(day), DATE)
    return Typed(calls.moment_literal(moment), Kind.TIMESTAMP)


def _whole_time(text: str | None) -> str:
    """Hours, minutes, seconds and six digits."""
    clock, _, fraction = (text or "00:00:00").partition(".")
    return f"{clock}{':00' if clock.count(':') == 1 else ''}.{fraction.ljust(6, '0')}"


def _alike(left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Two values that can be compared; the text of a time becomes one."""
    if left.kind == right.kind and left.kind in calls.ORDERED:
        return left, right
    if left.kind in calls.NUMBERS and right.kind in calls.NUMBERS:
        kind = common_kind((left, right))
        return (
            left._replace(sql=as_kind(left, kind), kind=kind),
            right._replace(sql=as_kind(right, kind), kind=kind),
        )
    times = (Kind.TIMESTAMP, DATE)
    if left.kind in times and right.kind is Kind.STRING and right.constant is not None:
        return left, _moment(right.constant, DATE if left.kind == DATE else "timestamp")
    if right.kind in times and left.kind is Kind.STRING and left.constant is not None:
        return _moment(left.constant, DATE if right.kind == DATE else "timestamp"), right
    raise NeedsSpark("only Spark compares values of different types")


def _compared(sign: str, left: Typed, right: Typed) -> Typed:
    one, other = _alike(left, right)
    word = "IS NOT DISTINCT FROM" if sign == "<=>" else sign
    return _joined(f"({one.sql} {word} {other.sql})", Kind.BOOLEAN, left, right)


def _like(left: Typed, right: Typed) -> Typed:
    """A pattern that is written down: without a backslash, as the parser saw to."""
    if left.kind is not Kind.STRING or right.kind is not Kind.STRING or right.constant is None:
        raise NeedsSpark("only Spark has patterns that are not written down")
    return _joined(f"({left.sql} LIKE {right.sql})", Kind.BOOLEAN, left)


def _concatenated(left: Typed, right: Typed) -> Typed:
    if {left.kind, right.kind} != {Kind.STRING}:
        raise NeedsSpark("only Spark puts other values than texts together")
    return _joined(f"({left.sql} || {right.sql})", Kind.STRING, left, right)


def _computed(sign: str, left: Typed, right: Typed) -> Typed:
    if left.kind not in calls.NUMBERS or right.kind not in calls.NUMBERS:
        raise NeedsSpark("only Spark computes with other values than numbers")
    kind = DOUBLE if sign == "/" else common_kind((left, right))
    one, other = as_kind(left, kind), as_kind(right, kind)
    if sign in ("/", "%"):
        if kind == DOUBLE and sign == "%":
            raise NeedsSpark("only Spark has the rest of such a division")
        checked = f"CASE WHEN {other} = 0 THEN error('division by zero') ELSE {other} END"
        return _joined(cast(f"({one} {sign} {cast(checked, kind)})", kind), kind, left, right)
    return _joined(cast(f"({one} {sign} {other})", kind), kind, left, right)


def _converted(value: Typed, kind: KindOf) -> str:
    """A value as one of another kind."""
    if value.kind in _FROM.get(kind, ()):
        return cast(value.sql, kind)
    if value.kind is Kind.BINARY and kind is Kind.STRING:
        return f"decode({value.sql})"  # what is not UTF-8 is an error, and Spark is asked
    if value.kind is Kind.STRING and kind is Kind.BINARY:
        return f"encode({value.sql})"
    if value.kind is Kind.STRING and kind is Kind.LONG:
        text = f"trim({value.sql}, ' ')"
        wrong = f"CASE WHEN {text} IS NULL THEN NULL ELSE error('not a number') END"
        return cast(
            f"CASE WHEN regexp_full_match({text}, {_WHOLE}) THEN {text} ELSE {wrong} END", kind
        )
    if value.constant is not None and kind in (DATE, Kind.TIMESTAMP):
        return _moment(str(value.constant), DATE if kind == DATE else "timestamp").sql
    raise NeedsSpark("only Spark makes that conversion")
