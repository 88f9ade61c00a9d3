"""Translates a statement for DuckDB: every name is one of ours, every value has its type.

No text of the user's reaches DuckDB but values between quotes. Columns are found as Spark finds
them; where both could find different ones, the statement is left to Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Final, NamedTuple

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.spark.queries.catalog import Table, Tables, table_of
from posthouse.spark.queries.small import tree
from posthouse.spark.queries.small.calls import NAMES, Typed
from posthouse.spark.queries.small.expressions import Writer
from posthouse.spark.queries.small.tokens import NeedsSpark
from posthouse.spark.queries.small.tree import NOTHING, KindOf

# Functions whose results Spark names as they are written, in small letters.
_NAMED: Final = NAMES - {
    "if",
    "ifnull",
    "nvl",
    "now",
    "current_timestamp",
    "current_date",
    "curdate",
}
_NAMED_MAX: Final = 100


class Column(NamedTuple):
    """A column of a table or of a query; `name` is None where Spark makes one up."""

    name: str | None
    kind: KindOf
    sql: str


@dataclass
class Read:
    """A table that is read, with the columns that the statement needs of it."""

    table: Table
    relation: str
    kinds: Mapping[str, KindOf]
    columns: dict[str, None] = field(default_factory=dict)
    rows_max: int | None = None


class Translation(NamedTuple):
    """What DuckDB is asked, and what comes of it."""

    sql: str
    columns: tuple[tuple[str, KindOf], ...]
    reads: tuple[Read, ...]


class Source(NamedTuple):
    """A table in FROM: how it may be named, and its columns."""

    names: tuple[tuple[str, ...], ...]
    relation: str
    columns: Sequence[Column]
    read: Read | None = None


def translated(parsed: tree.Parsed, tables: Tables, now: datetime) -> Translation:
    """A statement for DuckDB; nothing is read for it but what the tables have in columns."""
    return _Translator(tables, now).translate(parsed)


class _Translator:
    def __init__(self, tables: Tables, now: datetime) -> None:
        self._tables = tables
        self._now = now
        self._reads: dict[str, Read] = {}
        self._common: dict[str, tuple[str, Sequence[Column]]] = {}
        self._number = 0

    def translate(self, parsed: tree.Parsed) -> Translation:
        common = []
        for number, (name, query) in enumerate(parsed.common):
            sql, columns = self._query(query)
            self._common[name.lower()] = (f"w{number}", columns)
            common.append(f"w{number} AS ({sql})")
        sql, columns = self._query(parsed.query)
        self._bound(parsed)
        named = [(self._named(column), column.kind) for column in columns]
        prefix = f"WITH {', '.join(common)} " if common else ""
        return Translation(prefix + sql, tuple(named), tuple(self._reads.values()))

    def _named(self, column: Column) -> str:
        if column.name is None:
            raise NeedsSpark("Spark makes up the name of a column: give it one with AS")
        if column.kind == NOTHING:
            raise NeedsSpark("only Spark has a column of nothing but nulls")
        return column.name

    def _bound(self, parsed: tree.Parsed) -> None:
        """The first rows of one table and nothing else: the rest of it is not read."""
        query, (select, *more) = parsed.query, parsed.query.selects
        plain = not (more or parsed.common or query.orders or select.joins or select.where)
        plain &= not (select.distinct or select.groups or select.group_all or select.having)
        values = [item.value for item in select.items]
        plain &= all(value is None or isinstance(value, tree.Reference) for value in values)
        if plain and query.limit is not None and isinstance(select.first, tree.TableName):
            for read in self._reads.values():
                read.rows_max = query.limit + query.offset

    # -- queries

    def _query(self, query: tree.Query) -> tuple[str, list[Column]]:
        """A query in DuckDB's words, and its columns, which are called c0, c1, ..."""
        made = [_SelectWriter(self, select) for select in query.selects]
        columns = _united([one.outputs for one in made])
        sql = " UNION ALL ".join(one.sql for one in made)
        if query.orders:
            single = made[0] if len(made) == 1 else None
            sql += f" ORDER BY {self._orders(query.orders, columns, single)}"
        if query.limit is not None:
            sql += f" LIMIT {query.limit}"
        if query.offset:
            sql += f" OFFSET {query.offset}"
        return sql, columns

    def _orders(
        self, orders: Sequence[tree.Order], columns: Sequence[Column], single: _SelectWriter | None
    ) -> str:
        return ", ".join(
            f"{self._order(one.value, columns, single)} {'DESC' if one.descending else 'ASC'} "
            f"NULLS {'LAST' if one.nulls_last else 'FIRST'}"
            for one in orders
        )

    def _order(
        self, value: tree.Expression, columns: Sequence[Column], single: _SelectWriter | None
    ) -> str:
        if isinstance(value, tree.Constant):
            return str(_ordinal(value, len(columns)) + 1)
        if isinstance(value, tree.Reference) and len(value.parts) == 1:
            found = _named_alike(columns, value.parts[0])
            if found:
                return str(found[0] + 1)
        if single is None or single.select.distinct:
            raise NeedsSpark("only Spark orders by that here")
        return single.order(value)

    # -- tables

    def source(self, table: tree.TableName | tree.Nested) -> tuple[str, Source]:
        """A table of FROM, in DuckDB's words and as columns are found in it."""
        relation = f"s{self._number}"
        self._number += 1
        alias = () if table.alias is None else ((table.alias.lower(),),)
        if isinstance(table, tree.Nested):
            sql, columns = self._query(table.query)
            return f"({sql}) AS {relation}", Source(alias, relation, columns)
        common = self._common.get(table.parts[0].lower()) if len(table.parts) == 1 else None
        if common is not None:
            name, columns = common[0], list(common[1])
            own = alias or ((table.parts[0].lower(),),)
            return f"{name} AS {relation}", Source(own, relation, columns)
        read = self._read(table_of(table.parts, self._tables))
        columns = [Column(name, kind, _identifier(name)) for name, kind in read.kinds.items()]
        names = alias or read.table.qualifiers
        return f"{read.relation} AS {relation}", Source(names, relation, columns, read)

    def _read(self, table: Table) -> Read:
        title = table.title.lower()
        if title not in self._reads:
            if table.arrow is None:
                raise NeedsSpark(f"only Spark reads {table.title}")
            if len(self._reads) >= _NAMED_MAX:
                raise NeedsSpark("the statement names very many tables")
            relation = f"t{len(self._reads)}"
            self._reads[title] = Read(table, relation, table.arrow.kinds())
        return self._reads[title]

    def writer(self, resolve: _Resolver) -> Writer:
        return Writer(resolve.find, self._now)


class _Resolver:
    """Finds columns of the tables of one SELECT."""

    def __init__(
        self,
        sources: Sequence[Source],
        aliases: Mapping[str, Typed] | None = None,
        later: Collection[str] = (),
    ) -> None:
        self._sources = sources
        self._aliases = aliases or {}
        self._later = later  # names that Spark would find in the same list

    def find(self, reference: tree.Reference) -> Typed:
        *table, name = (part.lower() for part in reference.parts)
        found = [
            (source, column)
            for source in self._sources
            for column in source.columns
            if column.name is not None
            and column.name.lower() == name
            and (not table or tuple(table) in source.names)
        ]
        alias = None if table else self._aliases.get(name)
        if alias is not None and not found:
            return alias
        if len(found) == 1:
            typed = _column(*found[0])
            if alias is None or alias.sql == typed.sql:
                return typed
        if found or name in self._later or (table and self._is_field(table)):
            raise NeedsSpark(f"{excerpt('.'.join(reference.parts))} may mean several things")
        raise self._unknown(reference)

    def _is_field(self, table: Sequence[str]) -> bool:
        """A column with a field after it, not a table with a column."""
        names = {str(column.name).lower() for source in self._sources for column in source.columns}
        return any(part in names for part in table)

    def _unknown(self, reference: tree.Reference) -> InvalidParameter:
        names = [column.name for one in self._sources for column in one.columns if column.name]
        near = get_close_matches(reference.parts[-1].lower(), names, 1, 0.6)
        remedy = f"Did you mean {near[0]}?" if near else f"The columns are {', '.join(names[:40])}."
        return InvalidParameter(f"there is no column {excerpt('.'.join(reference.parts))}", remedy)


class _SelectWriter:
    """One SELECT in DuckDB's words."""

    def __init__(self, owner: _Translator, select: tree.Select) -> None:
        self.select = select
        self._owner = owner
        self._sources: list[Source] = []
        tables = self._tables()
        names = {item.name.lower() for item in select.items if item.name is not None}
        self._values = owner.writer(_Resolver(self._sources, later=names))
        joins = "".join(self._join(join) for join in select.joins)
        self._items = self._listed()
        if not self._items:
            raise NeedsSpark("nothing is selected")
        self._aliases = self._aliased()
        where = self._where()
        groups, having = self._groups(), self._having()
        self.outputs = [
            Column(name, value.kind, f"c{number}")
            for number, (name, value) in enumerate(self._items)
        ]
        listed = ", ".join(f"{value.sql} AS c{n}" for n, (_, value) in enumerate(self._items))
        distinct = "DISTINCT " if select.distinct else ""
        self.sql = f"SELECT {distinct}{listed}{tables}{joins}{where}{groups}{having}"

    def order(self, value: tree.Expression) -> str:
        """A value of ORDER BY that is not one of the columns."""
        return self._owner.writer(_Resolver(self._sources, self._aliases)).write(value).sql

    # -- FROM

    def _tables(self) -> str:
        if self.select.first is None:
            return ""
        sql, source = self._owner.source(self.select.first)
        self._sources.append(source)
        return f" FROM {sql}"

    def _join(self, join: tree.Join) -> str:
        sql, source = self._owner.source(join.right)
        taken = {name for one in self._sources for name in one.names}
        if taken & set(source.names):
            raise NeedsSpark("two tables have the same name")
        self._sources.append(source)
        if join.condition is None:
            return f" CROSS JOIN {sql}"
        condition = self._values.condition(join.condition)
        _refuse_aggregate(condition, "ON")
        word = "LEFT JOIN" if join.kind == "left" else "INNER JOIN"
        return f" {word} {sql} ON {condition.sql}"

    # -- SELECT

    def _listed(self) -> list[tuple[str | None, Typed]]:
        found: list[tuple[str | None, Typed]] = []
        for item in self.select.items:
            if item.value is None:
                found += self._starred(item)
            else:
                found.append((item.name or _name_of(item.value), self._values.write(item.value)))
        return found

    def _starred(self, item: tree.Item) -> list[tuple[str | None, Typed]]:
        wanted = None if item.table is None else (item.table.lower(),)
        chosen = [one for one in self._sources if wanted is None or wanted in one.names]
        if not chosen:
            raise NeedsSpark("only Spark has * there")
        return [
            (column.name, _column(source, column)) for source in chosen for column in source.columns
        ]

    def _aliased(self) -> dict[str, Typed]:
        """Values that later clauses may name; a name that two of them have is left to Spark."""
        named = [
            (item.name.lower(), self._values.write(item.value))
            for item in self.select.items
            if item.name is not None and item.value is not None
        ]
        if len({name for name, _ in named}) < len(named):
            raise NeedsSpark("two columns have the same name")
        return dict(named)

    # -- WHERE, GROUP BY, HAVING

    def _where(self) -> str:
        if self.select.where is None:
            return ""
        condition = self._values.condition(self.select.where)
        _refuse_aggregate(condition, "WHERE")
        return f" WHERE {condition.sql}"

    def _groups(self) -> str:
        if self.select.group_all:
            keys = [value for _, value in self._items if not value.is_aggregate]
        else:
            keys = [self._group(group) for group in self.select.groups]
        for key in keys:
            _refuse_aggregate(key, "GROUP BY")
            if key.constant is not None or key.kind == NOTHING:
                raise NeedsSpark("only Spark groups by a constant")
        return f" GROUP BY {', '.join(key.sql for key in keys)}" if keys else ""

    def _group(self, group: tree.Expression) -> Typed:
        if isinstance(group, tree.Constant):
            return self._items[_ordinal(group, len(self._items))][1]
        return self._owner.writer(_Resolver(self._sources, self._aliases)).write(group)

    def _having(self) -> str:
        if self.select.having is None:
            return ""
        if not (self.select.groups or self.select.group_all):
            raise NeedsSpark("only Spark has HAVING without GROUP BY")
        writer = self._owner.writer(_Resolver(self._sources, self._aliases))
        return f" HAVING {writer.condition(self.select.having).sql}"


def _column(source: Source, column: Column) -> Typed:
    if source.read is not None and column.name is not None:
        source.read.columns[column.name] = None
    return Typed(f"{source.relation}.{column.sql}", column.kind)


def _refuse_aggregate(value: Typed, clause: str) -> None:
    if value.is_aggregate:
        raise InvalidParameter(f"{clause} has an aggregate", "Use HAVING, or nest queries.")


def _ordinal(value: tree.Constant, count: int) -> int:
    if type(value.value) is not int or not 1 <= value.value <= count:
        raise NeedsSpark("only Spark takes that in the place of a column's number")
    return value.value - 1


def _named_alike(columns: Sequence[Column], name: str) -> list[int]:
    wanted = name.lower()
    found = [n for n, one in enumerate(columns) if one.name and one.name.lower() == wanted]
    if len(found) > 1:
        raise NeedsSpark(f"two columns are called {excerpt(name)}")
    return found


def _united(parts: Sequence[Sequence[Column]]) -> list[Column]:
    """The columns of a union: those of the first part, if the others have the same types."""
    first = list(parts[0])
    for other in parts[1:]:
        if [one.kind for one in other] != [one.kind for one in first]:
            raise NeedsSpark("only Spark puts columns of different types together")
    return first


def _name_of(value: tree.Expression) -> str | None:
    """What Spark calls a value without a name, as far as that is plain."""
    match value:
        case tree.Reference():
            return value.parts[-1]
        case tree.Constant() if value.value is not None:
            return str(value.value).lower() if isinstance(value.value, bool) else str(value.value)
        case tree.Call() if value.where is None and value.name in _NAMED:
            names = ["1"] if value.star else [_name_of(one) for one in value.arguments]
            texts = [name for name in names if name is not None]
            distinct = "DISTINCT " if value.distinct else ""
            return f"{value.name}({distinct}{', '.join(texts)})" if texts == names else None
        case _:
            return None


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
