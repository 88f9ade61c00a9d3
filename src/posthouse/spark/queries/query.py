"""`sql`: one read-only statement over queues, journals, dead letters and the lake.

Tables have names of two parts; Spark's views have one. So each table that a statement names
becomes a view of a session of its own, and its name is replaced where Spark's parser found it.
What is run is looked at again as it is then: the guard trusts nothing that it has not seen.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt
from posthouse.spark.failures import SparkFailed, cause_of
from posthouse.spark.queries.catalog import SHOWN, Table, Tables, shown_tables, table_of
from posthouse.spark.queries.guard import (
    Guard,
    Name,
    ShowTables,
    Statement,
    given_up,
    guarded_session,
    wrong_statement,
)
from posthouse.spark.sessions import is_connect

NAMED_MAX: Final = 100
# Words with which a statement means columns that it does not name.
_WHOLE_ROWS: Final = re.compile(r"\b(natural|using|pivot|unpivot|table|struct)\b", re.IGNORECASE)


class View(NamedTuple):
    """A table that a statement names, as the view that it becomes."""

    table: Table
    name: str


def sql(spark: SparkSession, statement: str, tables: Tables, *, once: bool = False) -> DataFrame:
    """The rows of a statement, which is one SELECT or SHOW TABLES; anything else is refused.

    Only the tables that it names are read, and not before rows are asked for. With `once` they are
    asked for a single time: then filters may narrow what is read. Spark keeps them with a table,
    so that another query of it would lack rows.
    """
    inner = guarded_session(spark)
    guard = Guard(inner)
    seen = guard.parsed(statement)
    if isinstance(seen, ShowTables):
        return _shown(inner, seen, tables)
    views = _views(seen, tables)
    text = _renamed(statement, seen, views)
    names = {view.name for view in views}
    _check_again(guard.parsed(text), names | seen.common_tables)
    columns = named_columns(statement, seen)
    pushes = once and not seen.common_tables and len(seen.relations) == len(views)
    for view in views:
        _loaded(inner, view.table, columns, pushes).createOrReplaceTempView(_quoted([view.name]))
    return _analysed(inner, guard, text, names)


def named_columns(statement: str, seen: Statement) -> frozenset[str] | None:
    """The columns that a statement can mean, in small letters; None where it may mean all."""
    return None if _WHOLE_ROWS.search(statement) else seen.columns


def _loaded(
    inner: SparkSession, table: Table, columns: frozenset[str] | None, pushes: bool
) -> DataFrame:
    """A table as a DataFrame; of queues no other columns are read than are named."""
    if table.load_less is None:
        return table.load(inner)
    return table.load_less(inner, columns, pushes)


def _analysed(inner: SparkSession, guard: Guard, text: str, views: set[str]) -> DataFrame:
    """The rows. What Spark has made of the statement is looked at, but for Spark Connect, which
    does not show it: there the first look has to do."""
    try:
        frame = inner.sql(text)
        if is_connect(inner):
            frame.schema  # noqa: B018 - the server analyses it now
            return frame
        tree: Any = frame._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise _cause(error) from None
    except Py4JJavaError as error:
        raise given_up(error) from None
    guard.check_analysed(tree, views)
    return frame


def _cause(error: PySparkException) -> Exception:
    """What a queue manager refuses, where a table is one of its queues; else the error of Spark."""
    found = cause_of(error)
    return wrong_statement(error) if isinstance(found, SparkFailed) else found


# -- names


def _views(seen: Statement, tables: Tables) -> list[View]:
    """The tables that a statement names, each with a name for its view: the short one if free."""
    views: dict[str, View] = {}
    taken = set(seen.common_tables)
    for relation in seen.relations:
        if _is_common(relation, seen.common_tables):
            continue
        table = table_of(relation.parts, tables)
        title, short = table.title.lower(), table.name.lower()
        if title not in views:
            views[title] = View(table, title if short in taken else short)
            taken.add(views[title].name)
    if len(views) > NAMED_MAX:
        raise InvalidParameter(f"the statement names {len(views)} tables", "Name fewer.")
    return list(views.values())


def _is_common(relation: Name, common_tables: frozenset[str]) -> bool:
    return len(relation.parts) == 1 and relation.parts[0].lower() in common_tables


def _renamed(statement: str, seen: Statement, views: list[View]) -> str:
    """The statement with the views' names, from its end to its beginning so that places stay."""
    names = {(name.first, name.behind): name.parts for name in (*seen.relations, *seen.attributes)}
    text = statement
    for (first, behind), parts in sorted(names.items(), reverse=True):
        written = _in_view(parts, views)
        if written is not None:
            text = text[:first] + _quoted(written) + text[behind:]
    return text


def _in_view(parts: list[str], views: list[View]) -> list[str] | None:
    """A name with that of a view in the place of its table's, of which the longest that fits
    counts; None where it has none of a table with a namespace."""
    small = tuple(part.lower() for part in parts)
    for length in range(len(parts), 1, -1):
        for view in views:
            if small[:length] in view.table.qualifiers:
                return [view.name, *parts[length:]]
    return None


def _quoted(parts: list[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def _check_again(seen: Statement | ShowTables, allowed: set[str]) -> None:
    """What is run names nothing but our views and its own common tables."""
    assert isinstance(seen, Statement), "names alone were replaced"
    for relation in seen.relations:
        if len(relation.parts) != 1 or relation.parts[0].lower() not in allowed:
            raise InvalidParameter(
                f"{excerpt('.'.join(relation.parts))} is not a table", "SHOW TABLES lists them."
            )


# -- SHOW TABLES


def _shown(inner: SparkSession, asked: ShowTables, tables: Tables) -> DataFrame:
    return inner.createDataFrame(shown_tables(tables, asked.namespace, asked.pattern), SHOWN)
