"""The syntax tree of a statement. Only names and values in it are text of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from posthouse.model.message_columns import Kind

DOUBLE: Final = "double"
DATE: Final = "date"
NOTHING: Final = "null"
KindOf = Kind | Literal["double", "date", "null"]
"""What a value is: a kind of column, or what only statements make."""


@dataclass(frozen=True)
class Constant:
    """A number, text, truth value or null."""

    value: int | str | bool | None


@dataclass(frozen=True)
class Moment:
    """`timestamp '...'` or `date '...'`."""

    kind: str
    text: str


@dataclass(frozen=True)
class Span:
    """`interval 5 minutes`."""

    number: int
    unit: str


@dataclass(frozen=True)
class Reference:
    """A column, with the name of its table in front or not."""

    parts: tuple[str, ...]


@dataclass(frozen=True)
class Unary:
    """`NOT x` or `-x`."""

    sign: str
    value: Expression


@dataclass(frozen=True)
class Binary:
    """Two values with a sign, or AND, OR, LIKE between them."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class IsNull:
    """`x IS [NOT] NULL`."""

    value: Expression
    negated: bool


@dataclass(frozen=True)
class Among:
    """`x [NOT] IN (a, b)`."""

    value: Expression
    choices: tuple[Expression, ...]
    negated: bool


@dataclass(frozen=True)
class Between:
    """`x [NOT] BETWEEN a AND b`."""

    value: Expression
    low: Expression
    high: Expression
    negated: bool


@dataclass(frozen=True)
class Case:
    """`CASE [x] WHEN a THEN b ... ELSE c END`."""

    subject: Expression | None
    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None


@dataclass(frozen=True)
class Cast:
    """`CAST(x AS type)`."""

    value: Expression
    kind: str


@dataclass(frozen=True)
class Call:
    """A function; `star` for `count(*)`."""

    name: str
    arguments: tuple[Expression, ...]
    star: bool = False
    distinct: bool = False
    where: Expression | None = None


Expression = (
    Constant
    | Moment
    | Span
    | Reference
    | Unary
    | Binary
    | IsNull
    | Among
    | Between
    | Case
    | Cast
    | Call
)


@dataclass(frozen=True)
class Item:
    """One of what SELECT lists: a value with its name, or `*` or `t.*` (then no value)."""

    value: Expression | None
    name: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class Order:
    """One of what ORDER BY lists."""

    value: Expression
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class TableName:
    """A table, or a common table."""

    parts: tuple[str, ...]
    alias: str | None


@dataclass(frozen=True)
class Nested:
    """A query in brackets."""

    query: Query
    alias: str | None


@dataclass(frozen=True)
class Join:
    """One more table."""

    kind: str  # "inner", "left" or "cross"
    right: TableName | Nested
    condition: Expression | None


@dataclass(frozen=True)
class Select:
    """One SELECT without its order."""

    items: tuple[Item, ...]
    distinct: bool
    first: TableName | Nested | None
    joins: tuple[Join, ...] = ()
    where: Expression | None = None
    groups: tuple[Expression, ...] = ()
    group_all: bool = False
    having: Expression | None = None


@dataclass(frozen=True)
class Query:
    """Some SELECTs with UNION ALL between them, in an order, or the first rows of them."""

    selects: tuple[Select, ...]
    orders: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Parsed:
    """A statement: common tables by name, then what it asks."""

    common: tuple[tuple[str, Query], ...]
    query: Query
