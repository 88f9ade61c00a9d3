"""What the guard lets through and what it stops, with Spark's own parser and analyser."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from posthouse.model.errors import InvalidParameter
from posthouse.spark.queries.catalog import Table
from posthouse.spark.queries.functions import ALLOWED as ALLOWED_FUNCTIONS
from posthouse.spark.queries.functions import REFUSED, built_in_functions
from posthouse.spark.queries.guard import Guard
from posthouse.spark.queries.query import sql
from tests.spark.sql_attacks import ATTACKS, JAVA, SECRET, spelled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = [(1, "a", 5, ["x", "y"]), (2, "b", 3, ["z"]), (3, "a", 1, [])]
SCHEMA = "lookup_id long, label string, priority int, journal array<string>"


class Plain:
    """Tables of a few rows; `read` says which were asked for."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def find(self, namespace: str, name: str) -> Table | None:
        return next(
            (one for one in self.all() if (one.namespace, one.name) == (namespace, name)), None
        )

    def all(self) -> Iterator[Table]:
        for namespace, name in (
            ("queues", "orders"),
            ("queues", "odd name"),
            ("queues", "tick`ed"),
            ("journals", "orders"),
            ("system", "deadletter"),
        ):
            yield Table(namespace, name, f"{namespace} {name}", self._loader(f"{namespace}.{name}"))

    def _loader(self, title: str):  # type: ignore[no-untyped-def]
        def load(spark: SparkSession) -> DataFrame:
            self.read.append(title)
            return spark.createDataFrame(ROWS, SCHEMA)

        return load


@pytest.fixture
def tables() -> Plain:
    return Plain()


ALLOWED = [
    ("select count(*) from queues.orders", [(3,)]),
    (
        "SELECT label, count(*) n FROM QUEUES.Orders GROUP BY label ORDER BY n DESC",
        [("a", 2), ("b", 1)],
    ),
    ("select orders.label from queues.orders where orders.lookup_id = 1", [("a",)]),
    ("select queues.orders.label from queues.orders where queues.orders.lookup_id = 2", [("b",)]),
    ("select o.* except (journal) from queues.orders o limit 1", [(1, "a", 5)]),
    ("select queues.orders.* except (journal) from queues . `orders` limit 1", [(1, "a", 5)]),
    (
        "select '😀 queues.orders', o.label from queues.orders o where lookup_id=2",
        [("😀 queues.orders", "b")],
    ),
    ("with x as (select * from queues.orders) select count(*) from x, x y", [(9,)]),
    (
        "with orders as (select 7 as n) select n, count(*) from orders, queues.orders group by n",
        [(7, 3)],
    ),
    (
        "select count(*) from queues.orders a join journals.orders b on a.lookup_id = b.lookup_id",
        [(3,)],
    ),
    ("select count(*) from queues.orders join journals.orders using (lookup_id)", [(3,)]),
    ("select max(e) from queues.orders lateral view explode(journal) as e", [("z",)]),
    ("select count(*) from queues.orders, lateral explode(journal) as t(e)", [(3,)]),
    (
        "select sum(priority) over (order by lookup_id) s from queues.orders order by s",
        [(5,), (8,), (9,)],
    ),
    (
        "select * from (select label, priority from queues.orders)"
        " pivot (sum(priority) for label in ('a', 'b'))",
        [(6, 3)],
    ),
    ("select (select max(priority) from journals.orders) from queues.orders limit 1", [(5,)]),
    ("select count(*) from queues.orders where exists (select 1 from system.deadletter)", [(3,)]),
    (
        "select count(*) from queues.orders"
        " where label in (select label from journals.orders where priority = 3)",
        [(1,)],
    ),
    ("from queues.orders |> where priority > 2 |> aggregate count(*)", [(2,)]),
    ("select count(*) from queues.`odd name`", [(3,)]),
    ("select count(*) from queues.`tick``ed`", [(3,)]),
    (
        "select transform(journal, x -> upper(x)) from queues.orders where lookup_id = 1",
        [(["X", "Y"],)],
    ),
    ("select label from queues.orders union all select label from journals.orders", None),
    ("select 1 except select 2", [(1,)]),
    ("values (1), (2)", [(1,), (2,)]),
    ("table queues.orders", None),
    ("select count(*) from identifier('queues.orders')", [(3,)]),
    ("select * from range(2)", [(0,), (1,)]),
    ("select '${env:HOME}', '${spark.app.name}'", [("${env:HOME}", "${spark.app.name}")]),
    (
        "select 'parquet.`/etc`; drop table x -- reflect(' -- a comment",
        [("parquet.`/etc`; drop table x -- reflect(",)],
    ),
    ("select system.builtin.upper('a'), `UPPER`('b')", [("A", "B")]),
    (
        "with recursive r(n) as (values (1) union all select n + 1 from r where n < 3)"
        " select max(n) from r",
        [(3,)],
    ),
    (
        "select count(*) filter (where priority > 2), percentile_approx(priority, 0.5)"
        " from queues.orders",
        [(2, 3)],
    ),
    (
        "select count(distinct label), hour(timestamp '2026-01-01 10:20:00') from queues.orders",
        [(2, 10)],
    ),
    ("select count(*) from queues.orders;", [(3,)]),
    (
        "select decode_message('<int>42</int>').format, Decode_Text('<a/>', 0),"
        " variant_get(decode_message(x'2a000000', 3).body_json, '$', 'int')",
        [("xml", "<a/>", 42)],
    ),
    (
        "select decode_message(label, priority, x'', o.label).format f, count(*)"
        " from queues.orders o where decode_text(label) = 'a' group by f order by f",
        [("activex", 2)],
    ),
]


@pytest.mark.parametrize(("statement", "rows"), ALLOWED)
def test_a_select_gives_its_rows(
    spark: SparkSession, tables: Plain, statement: str, rows: list[tuple[object, ...]] | None
) -> None:
    found = [tuple(row) for row in sql(spark, statement, tables).collect()]
    assert found == rows if rows is not None else found


def test_only_tables_that_are_named_are_read(spark: SparkSession, tables: Plain) -> None:
    sql(
        spark, "select * from queues.orders a, queues.orders b where 'journals.orders' = ''", tables
    )
    assert tables.read == ["queues.orders"]


@pytest.mark.parametrize("statement", ATTACKS)
def test_anything_else_is_refused(
    spark: SparkSession, tables: Plain, tmp_path: Path, statement: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    spark.range(1).createOrReplaceTempView("theirs")
    with pytest.raises(InvalidParameter) as refused:
        sql(spark, spelled(statement, secret), tables)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_nearest_table_is_named(spark: SparkSession, tables: Plain) -> None:
    with pytest.raises(InvalidParameter, match=r"Did you mean queues\.orders\?"):
        sql(spark, "select * from queues.ordres", tables)


def test_a_function_of_the_users_session_is_not_called(spark: SparkSession, tables: Plain) -> None:
    spark.udf.register("theirs", lambda: "called")
    with pytest.raises(InvalidParameter, match="theirs"):
        sql(spark, "select theirs()", tables)


def test_a_function_that_hides_a_built_in_one_is_not_called(
    spark: SparkSession, tables: Plain
) -> None:
    spark.udf.register("soundex", lambda text: "theirs")
    try:
        assert sql(spark, "select soundex('Miller')", tables).collect()[0][0] == "M460"
    finally:
        spark.sql("drop temporary function soundex")


def test_our_functions_are_ours_whatever_the_users_session_has(
    spark: SparkSession, tables: Plain
) -> None:
    theirs = spark.newSession()
    theirs.udf.register("decode_text", lambda *_: "theirs")
    assert theirs.sql("select decode_text('<a/>')").collect()[0][0] == "theirs"
    assert sql(theirs, "select decode_text('<a/>')", tables).collect()[0][0] == "<a/>"


def test_hostile_bodies_end_with_a_reason(spark: SparkSession, tables: Plain) -> None:
    statement = (
        "select decode_message(repeat('<a>', 300000)).decode_error a,"
        " decode_message(repeat('[', 10000)).decode_error b,"
        " decode_message('<!DOCTYPE a [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><a>&e;</a>')"
        ".decode_error c"
    )
    (row,) = sql(spark, statement, tables).collect()
    assert "elements" in row.a
    assert "levels" in row.b
    assert row.c == "XML with a DTD is not read"


def test_the_users_session_is_left_as_it_was(spark: SparkSession, tables: Plain) -> None:
    theirs = spark.newSession()
    theirs.conf.set("spark.sql.variable.substitute", "true")
    sql(theirs, "select * from queues.orders", tables).collect()
    assert theirs.conf.get("spark.sql.variable.substitute") == "true"
    assert not theirs.catalog.tableExists("orders")


def test_a_very_long_statement_is_refused(spark: SparkSession, tables: Plain) -> None:
    with pytest.raises(InvalidParameter, match="characters"):
        sql(spark, "select " + "1," * 60_000 + "1", tables)


def test_very_many_rows_of_an_inline_table_are_fine(spark: SparkSession, tables: Plain) -> None:
    rows = ",".join(f"({number})" for number in range(5000))
    assert sql(spark, f"select count(*) from values {rows}", tables).collect()[0][0] == 5000


DEEP = [
    "select " + "(" * 20_000 + "1" + ")" * 20_000,
    "select " + "upper(" * 300 + "'a'" + ")" * 300,
]


@pytest.mark.parametrize("statement", DEEP, ids=["brackets", "calls"])
def test_a_deep_statement_is_refused(spark: SparkSession, tables: Plain, statement: str) -> None:
    with pytest.raises(InvalidParameter, match="brackets in each other"):
        sql(spark, statement, tables)


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A port of this machine that notes who connects."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def test_an_external_entity_is_not_read(spark: SparkSession, tables: Plain, tmp_path: Path) -> None:
    """XML of a hostile body, or of a hostile statement."""
    (tmp_path / "secret").write_text(SECRET, encoding="utf-8")
    with listening() as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x.dtd"
        for document in (
            f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]><x>&e;</x>',
            f'<!DOCTYPE x SYSTEM "{url}"><x>1</x>',
            f'<!DOCTYPE x [<!ENTITY % p SYSTEM "{url}"> %p;]><x>1</x>',
        ):
            statement = f"select from_xml('{document}', 'x string'), schema_of_xml('<x>1</x>')"
            assert SECRET not in str(sql(spark, statement, tables).collect())
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("name", sorted(name for name in REFUSED if name.startswith("xpath")))
def test_functions_whose_parser_follows_references_are_refused(
    spark: SparkSession, tables: Plain, name: str
) -> None:
    with pytest.raises(InvalidParameter, match=f"the function '{name}' is not allowed"):
        sql(spark, f"select {name}('<a>1</a>', 'a')", tables)


def test_each_function_of_this_spark_is_allowed_or_refused_by_name(spark: SparkSession) -> None:
    """A new version of Spark brings new functions: somebody decides on each."""
    assert built_in_functions(spark) - ALLOWED_FUNCTIONS - REFUSED == set()
    assert not ALLOWED_FUNCTIONS & REFUSED


def test_a_guard_refuses_a_session_that_replaces_variables(spark: SparkSession) -> None:
    careless = spark.newSession()
    careless.conf.set("spark.sql.variable.substitute", "true")
    with pytest.raises(ValueError, match="take a guarded session"):
        Guard(careless)


def shown(spark: SparkSession, tables: Plain, statement: str) -> list[str]:
    return [f"{row[0]}.{row[1]}" for row in sql(spark, statement, tables).collect()]


def test_show_tables_lists_them(spark: SparkSession, tables: Plain) -> None:
    everything = [
        "journals.orders",
        "queues.odd name",
        "queues.orders",
        "queues.tick`ed",
        "system.deadletter",
    ]
    assert shown(spark, tables, "show tables") == everything
    assert shown(spark, tables, "SHOW TABLES IN Journals") == ["journals.orders"]
    assert shown(spark, tables, "show tables in queues like 'o*s|t*'") == [
        "queues.orders",
        "queues.tick`ed",
    ]
    assert shown(spark, tables, "show tables in nowhere") == []
    assert tables.read == []


def test_what_only_the_analysis_shows_is_refused(spark: SparkSession) -> None:
    """The second look, should a name ever mean something else than it seemed to."""
    guard = Guard(spark)
    foreign = spark.sql(f"select {JAVA}")._jdf.queryExecution().analyzed()
    with pytest.raises(InvalidParameter, match="CallMethodViaReflection is not allowed"):
        guard.check_analysed(foreign, [])
    guard.check_analysed(spark.sql("select upper('a')")._jdf.queryExecution().analyzed(), [])
    spark.udf.register("foreign_code", lambda text: text)
    foreign = spark.sql("select foreign_code('a')")._jdf.queryExecution().analyzed()
    with pytest.raises(InvalidParameter, match="PythonUDF is not allowed"):
        guard.check_analysed(foreign, [])
    within = spark.sql(f"select decode_text({JAVA})")._jdf.queryExecution().analyzed()
    with pytest.raises(InvalidParameter, match="CallMethodViaReflection is not allowed"):
        guard.check_analysed(within, [])
