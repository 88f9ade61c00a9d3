"""Functions that Spark and DuckDB have alike: their arguments, and their form in DuckDB.

Each has to be on the list of functions that statements may call, in `queries.functions`. The ones
that are not here are left to Spark. Where DuckDB's own differs from Spark's a function of Python
stands in for it (`PYTHON`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final, NamedTuple

from posthouse.model.message_columns import Kind
from posthouse.spark.queries.small.tokens import NeedsSpark
from posthouse.spark.queries.small.tree import DATE, DOUBLE, NOTHING, KindOf

INT, LONG, STRING, BINARY = Kind.INT, Kind.LONG, Kind.STRING, Kind.BINARY
BOOLEAN, TIMESTAMP = Kind.BOOLEAN, Kind.TIMESTAMP
NUMBERS: Final = (INT, LONG, DOUBLE)
WHOLE: Final = (INT, LONG)
ORDERED: Final = (*NUMBERS, STRING, BINARY, BOOLEAN, TIMESTAMP, DATE)
DUCK_TYPES: Final[dict[KindOf, str]] = {
    INT: "INTEGER",
    LONG: "BIGINT",
    DOUBLE: "DOUBLE",
    STRING: "VARCHAR",
    BINARY: "BLOB",
    BOOLEAN: "BOOLEAN",
    TIMESTAMP: "TIMESTAMP",
    DATE: "DATE",
}


class Typed(NamedTuple):
    """A value as DuckDB is asked for it, and what it is."""

    sql: str
    kind: KindOf
    constant: Any = None  # of a literal that is not null
    is_aggregate: bool = False


Made = tuple[str, KindOf]
Function = Callable[[Sequence[Typed]], Made]


def quoted(text: str) -> str:
    """A text as a literal of DuckDB's."""
    return "'" + text.replace("'", "''") + "'"


def cast(sql: str, kind: KindOf) -> str:
    """A value that is made one of this kind."""
    return f"CAST({sql} AS {DUCK_TYPES[kind]})"


def _differs(name: str) -> NeedsSpark:
    return NeedsSpark(f"only Spark has {name} with these arguments")


def _plain(template: str, result: KindOf, *kinds: Sequence[KindOf]) -> Function:
    """A function of a fixed number of arguments of certain kinds."""

    def make(values: Sequence[Typed]) -> Made:
        fits = len(values) == len(kinds) and all(
            value.kind in allowed for value, allowed in zip(values, kinds, strict=True)
        )
        if not fits:
            raise _differs("a function")
        return cast(template.format(*(value.sql for value in values)), result), result

    return make


def _whole_number(function: str) -> Function:
    """`floor` and `ceil`: a whole number stays as it is, whatever its size."""
    of_double = _plain(f"{function}({{}})", LONG, (DOUBLE,))
    of_whole = _plain("{}", LONG, (INT, LONG))
    return lambda values: (of_whole if values and values[0].kind in WHOLE else of_double)(values)


_LENGTHS: Final[dict[KindOf, str]] = {STRING: "length", BINARY: "octet_length"}
_OCTET_LENGTHS: Final[dict[KindOf, str]] = {STRING: "strlen", BINARY: "octet_length"}


def _length(values: Sequence[Typed]) -> Made:
    (value,) = _exactly(values, 1)
    name = _LENGTHS.get(value.kind)
    if name is None:
        raise _differs("length")
    return cast(f"{name}({value.sql})", INT), INT


def _octets(values: Sequence[Typed]) -> Made:
    (value,) = _exactly(values, 1)
    name = _OCTET_LENGTHS.get(value.kind)
    if name is None:
        raise _differs("octet_length")
    return cast(f"{name}({value.sql})", INT), INT


def _exactly(values: Sequence[Typed], number: int) -> Sequence[Typed]:
    if len(values) != number:
        raise _differs("a function")
    return values


def _concat(values: Sequence[Typed]) -> Made:
    if not values or any(value.kind is not STRING for value in values):
        raise _differs("concat")
    return "(" + " || ".join(value.sql for value in values) + ")", STRING


def _substring(values: Sequence[Typed]) -> Made:
    """Only from a place that is written down, and counts from the beginning."""
    if len(values) not in (2, 3) or values[0].kind is not STRING:
        raise _differs("substring")
    first, *rest = (value.constant for value in values[1:])
    if not _is_number(first, 1) or not all(_is_number(one, 0) for one in rest):
        raise _differs("substring")
    length = f", {rest[0]}" if rest else ""
    return f"substring({values[0].sql}, {first}{length})", STRING


def _side(name: str) -> Function:
    def make(values: Sequence[Typed]) -> Made:
        value, length = _exactly(values, 2)
        if value.kind is not STRING or not _is_number(length.constant, 0):
            raise _differs(name)
        return f'"{name}"({value.sql}, {length.constant})', STRING

    return make


def _is_number(value: Any, least: int) -> bool:
    return type(value) is int and least <= value < 1 << 31


def _replace(values: Sequence[Typed]) -> Made:
    value, old, new = _exactly(values, 3)
    if {one.kind for one in values} != {STRING} or not old.constant or new.constant is None:
        raise _differs("replace")
    return f"replace({value.sql}, {old.sql}, {new.sql})", STRING


def _coalesce(values: Sequence[Typed]) -> Made:
    kind = common_kind(values)
    return "coalesce(" + ", ".join(as_kind(value, kind) for value in values) + ")", kind


def _nullif(values: Sequence[Typed]) -> Made:
    one, other = _exactly(values, 2)
    if one.kind != other.kind or one.kind not in ORDERED:
        raise _differs("nullif")
    return f"nullif({one.sql}, {other.sql})", one.kind


def _if(values: Sequence[Typed]) -> Made:
    condition, then, otherwise = _exactly(values, 3)
    if condition.kind is not BOOLEAN:
        raise _differs("if")
    kind = common_kind((then, otherwise))
    return (
        f"CASE WHEN {condition.sql} THEN {as_kind(then, kind)} ELSE {as_kind(otherwise, kind)} END",
        kind,
    )


def common_kind(values: Sequence[Typed]) -> KindOf:
    """What values of several branches are together; numbers become the wider sort."""
    kinds = {value.kind for value in values} - {NOTHING}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds and kinds <= {INT, LONG}:
        return LONG
    if kinds and kinds <= {INT, LONG, DOUBLE}:
        return DOUBLE
    raise NeedsSpark("only Spark puts values of different types together")


def as_kind(value: Typed, kind: KindOf) -> str:
    """A value as one of a wider kind."""
    return value.sql if value.kind == kind or kind not in DUCK_TYPES else cast(value.sql, kind)


def _abs(values: Sequence[Typed]) -> Made:
    (value,) = _exactly(values, 1)
    if value.kind not in NUMBERS:
        raise _differs("abs")
    return cast(f"abs({value.sql})", value.kind), value.kind


def _round(values: Sequence[Typed]) -> Made:
    if len(values) not in (1, 2) or values[0].kind != DOUBLE:
        raise _differs("round")
    digits = 0 if len(values) == 1 else values[1].constant
    if not _is_number(digits, 0):
        raise _differs("round")
    return f"posthouse_round({values[0].sql}, CAST({digits} AS INTEGER))", DOUBLE


_UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def _date_trunc(values: Sequence[Typed]) -> Made:
    unit, moment = _exactly(values, 2)
    word = str(unit.constant).lower()
    if unit.kind is not STRING or word not in _UNITS or moment.kind is not TIMESTAMP:
        raise _differs("date_trunc")
    return cast(f"date_trunc('{word}', {moment.sql})", TIMESTAMP), TIMESTAMP


_FORMATS: Final = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_FORMAT: Final = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-:/. ]")


def _date_format(values: Sequence[Typed]) -> Made:
    moment, form = _exactly(values, 2)
    if moment.kind is not TIMESTAMP or form.kind is not STRING or not form.constant:
        raise _differs("date_format")
    parts = _FORMAT.findall(form.constant)
    repeated = re.search(r"([A-Za-z])\1{4}|([MdHms])\2{2}", form.constant)
    if "".join(parts) != form.constant or repeated:
        raise _differs("date_format")
    made = "".join(_FORMATS.get(part, part) for part in parts)
    return f"strftime({moment.sql}, {quoted(made)})", STRING


def _unix(per_s: int) -> Function:
    """Whole units since 1970, towards the past."""

    def make(values: Sequence[Typed]) -> Made:
        (moment,) = _exactly(values, 1)
        if moment.kind is not TIMESTAMP:
            raise _differs("unix time")
        unit, micros = 1_000_000 // per_s, f"epoch_us({moment.sql})"
        rest = f"((({micros} % {unit}) + {unit}) % {unit})"
        return cast(f"(({micros} - {rest}) // {unit})", LONG), LONG

    return make


def _size(values: Sequence[Typed]) -> Made:
    (value,) = _exactly(values, 1)
    if value.kind is not Kind.STRINGS:
        raise _differs("size")
    return cast(f"len({value.sql})", INT), INT


def _array_contains(values: Sequence[Typed]) -> Made:
    value, wanted = _exactly(values, 2)
    if value.kind is not Kind.STRINGS or wanted.kind is not STRING or wanted.constant is None:
        raise _differs("array_contains")
    return f"list_contains({value.sql}, {wanted.sql})", BOOLEAN


def _instr(values: Sequence[Typed]) -> Made:
    value, wanted = _exactly(values, 2)
    if {value.kind, wanted.kind} != {STRING} or not wanted.constant:
        raise _differs("instr")
    return cast(f"instr({value.sql}, {wanted.sql})", INT), INT


_TIMES: Final = (TIMESTAMP, DATE)
_TEXT: Final = (STRING,)
_OCTETS: Final = (STRING, BINARY)


def _hex(values: Sequence[Typed]) -> Made:
    (value,) = _exactly(values, 1)
    if value.kind not in _OCTETS:
        raise _differs("hex")
    return f"hex({value.sql})", STRING


SCALARS: Final[dict[str, Function]] = {
    **{name: _plain("posthouse_upper({})", STRING, _TEXT) for name in ("upper", "ucase")},
    **{name: _plain("posthouse_lower({})", STRING, _TEXT) for name in ("lower", "lcase")},
    **dict.fromkeys(("length", "char_length", "character_length", "len"), _length),
    "octet_length": _octets,
    "trim": _plain("trim({}, ' ')", STRING, _TEXT),
    "ltrim": _plain("ltrim({}, ' ')", STRING, _TEXT),
    "rtrim": _plain("rtrim({}, ' ')", STRING, _TEXT),
    "concat": _concat,
    "substring": _substring,
    "substr": _substring,
    "left": _side("left"),
    "right": _side("right"),
    "replace": _replace,
    "instr": _instr,
    "startswith": _plain("starts_with({}, {})", BOOLEAN, _TEXT, _TEXT),
    "endswith": _plain("suffix({}, {})", BOOLEAN, _TEXT, _TEXT),
    "contains": _plain("contains({}, {})", BOOLEAN, _TEXT, _TEXT),
    "hex": _hex,
    "base64": _plain("to_base64({})", STRING, (BINARY,)),
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nullif": _nullif,
    "if": _if,
    "isnull": _plain("{} IS NULL", BOOLEAN, ORDERED),
    "isnotnull": _plain("{} IS NOT NULL", BOOLEAN, ORDERED),
    "abs": _abs,
    "round": _round,
    "floor": _whole_number("floor"),
    "ceil": _whole_number("ceil"),
    "ceiling": _whole_number("ceil"),
    "year": _plain("year({})", INT, _TIMES),
    "quarter": _plain("quarter({})", INT, _TIMES),
    "month": _plain("month({})", INT, _TIMES),
    "day": _plain("day({})", INT, _TIMES),
    "dayofmonth": _plain("day({})", INT, _TIMES),
    "dayofyear": _plain("dayofyear({})", INT, _TIMES),
    "dayofweek": _plain("dayofweek({}) + 1", INT, _TIMES),
    "weekofyear": _plain("weekofyear({})", INT, _TIMES),
    "hour": _plain("hour({})", INT, (TIMESTAMP,)),
    "minute": _plain("minute({})", INT, (TIMESTAMP,)),
    "second": _plain("second({})", INT, (TIMESTAMP,)),
    "date_trunc": _date_trunc,
    "date_format": _date_format,
    "date": _plain("{}", DATE, _TIMES),
    "to_date": _plain("{}", DATE, _TIMES),
    "datediff": _plain("date_diff('day', {1}, {0})", INT, (DATE,), (DATE,)),
    "date_diff": _plain("date_diff('day', {1}, {0})", INT, (DATE,), (DATE,)),
    "unix_seconds": _unix(1),
    "unix_millis": _unix(1000),
    "unix_micros": _plain("epoch_us({})", LONG, (TIMESTAMP,)),
    "size": _size,
    "cardinality": _size,
    "array_size": _size,
    "array_contains": _array_contains,
}


# -- aggregates


def _sum(value: Typed) -> Made:
    if value.kind in WHOLE:
        return "sum({})", LONG
    if value.kind == DOUBLE:
        return "sum({})", DOUBLE
    raise _differs("sum")


def _avg(value: Typed) -> Made:
    if value.kind not in NUMBERS:
        raise _differs("avg")
    return "avg(CAST({} AS DOUBLE))", DOUBLE


def _extreme(name: str) -> Callable[[Typed], Made]:
    def make(value: Typed) -> Made:
        if value.kind not in ORDERED:
            raise _differs(name)
        return f"{name}({{}})", value.kind

    return make


AGGREGATES: Final[dict[str, Callable[[Typed], Made]]] = {
    "count": lambda value: ("count({})", LONG),
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": _extreme("min"),
    "max": _extreme("max"),
}
DISTINCT: Final = frozenset({"count", "sum", "avg"})
NOW: Final = frozenset({"now", "current_timestamp"})
TODAY: Final = frozenset({"current_date", "curdate"})
NAMES: Final = frozenset({*SCALARS, *AGGREGATES, "count_if", *NOW, *TODAY})
"""All functions that statements can call without Spark."""


def moment_literal(moment: datetime) -> str:
    """A time in UTC as DuckDB takes it."""
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return f"TIMESTAMP '{plain.isoformat(sep=' ')}'"


def date_literal(day: date) -> str:
    """A day as DuckDB takes it."""
    return f"DATE '{day.isoformat()}'"


# -- what DuckDB does in another way


def upper(text: str) -> str:
    """As Java has it: `ß` becomes `SS`."""
    return text.upper()


def lower(text: str) -> str:
    """As Java has it."""
    return text.lower()


def rounded(number: float, digits: int) -> float:
    """Half up, by the decimal digits that people see."""
    if number - number != 0:  # not a number, or without end
        return number
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


PYTHON: Final[tuple[tuple[str, Callable[..., Any], list[Any], str], ...]] = (
    ("posthouse_upper", upper, ["VARCHAR"], "VARCHAR"),
    ("posthouse_lower", lower, ["VARCHAR"], "VARCHAR"),
    ("posthouse_round", rounded, ["DOUBLE", "INTEGER"], "DOUBLE"),
)
