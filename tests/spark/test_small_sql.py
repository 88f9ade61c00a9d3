"""Statements that need no Spark: what DuckDB is asked, and what it is never asked."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.spark.queries.functions import ALLOWED, REFUSED
from posthouse.spark.queries.small import answers, expressions
from posthouse.spark.queries.small.answers import LOCKS, answer, database, refused
from posthouse.spark.queries.small.calls import NAMES, quoted
from posthouse.spark.queries.small.tokens import NeedsSpark
from tests.spark.sql_attacks import ATTACKS, DUCK_ATTACKS, SECRET, spelled
from tests.spark.sql_samples import Samples


@pytest.fixture
def tables() -> Samples:
    return Samples()


@pytest.mark.parametrize("statement", [*ATTACKS, *DUCK_ATTACKS])
def test_an_attack_is_not_answered(tables: Samples, tmp_path: Path, statement: str) -> None:
    """The statements that Spark's guard refuses, and more; nothing is read for any of them."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    with pytest.raises((InvalidParameter, NeedsSpark)) as stopped:
        answer(spelled(statement, secret), tables)
    assert "DuckDB fails" not in str(stopped.value)  # it was not even asked
    assert SECRET not in str(stopped.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('{secret}*')",
        "COPY (SELECT 1) TO '{secret}.csv'",
        "ATTACH '{secret}.db' AS other",
        "INSTALL httpfs",
        "LOAD '{secret}'",
        "SET enable_external_access = true",
        "SET disabled_filesystems = ''",
        "SET lock_configuration = false",
        "RESET lock_configuration",
        "SET memory_limit = '100GB'",
        "SELECT * FROM local_variable",
        "EXPORT DATABASE '{secret}.d'",
    ],
)
def test_the_database_itself_reaches_nothing(tmp_path: Path, statement: str) -> None:
    """The second bolt, should a statement ever reach it."""
    import duckdb
    import pyarrow as pa

    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    local_variable = pa.table({"a": [1]})
    with database() as base:
        for lock in LOCKS:
            base.execute(lock)
        with pytest.raises(duckdb.Error) as stopped:
            base.sql(statement.replace("{secret}", str(secret))).fetchall()
    assert SECRET not in str(stopped.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert local_variable.num_rows == 1


def test_one_list_of_functions_holds_for_both_engines(
    tables: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NAMES <= ALLOWED
    assert not NAMES & REFUSED
    statement = "select upper(label) from queues.orders"
    assert answer(statement, tables).num_rows == 8
    monkeypatch.setattr(expressions, "ALLOWED", ALLOWED - {"upper"})
    with pytest.raises(NeedsSpark, match="upper"):
        answer(statement, tables)


def test_a_quote_in_a_value_is_doubled() -> None:
    """The parser lets none through; this is the second bolt."""
    assert quoted("it's") == "'it''s'"


def test_only_columns_that_are_named_are_read(tables: Samples) -> None:
    answer("select count(*) from queues.orders", tables)
    answer("select label from queues.orders where priority > 1 order by lookup_id", tables)
    assert tables.rows.asked == [([], None), (["label", "priority", "lookup_id"], None)]


def test_the_first_rows_are_read_alone(tables: Samples) -> None:
    found = answer("select label, body from queues.orders limit 2 offset 1", tables)
    assert found.column("label").to_pylist() == ["Étoile", None]
    assert tables.rows.asked == [(["label", "body"], 3)]


@pytest.mark.parametrize(
    "statement",
    [
        "select label from queues.orders order by label limit 1",
        "select distinct label from queues.orders limit 1",
        "select label from queues.orders where priority = 7 limit 1",
        "select count(*) from queues.orders limit 1",
        "select max(label) from queues.orders group by priority limit 1",
        "select a.label from queues.orders a cross join queues.orders b limit 1",
    ],
)
def test_a_limit_is_not_pushed_past_what_needs_all_rows(tables: Samples, statement: str) -> None:
    answer(statement, tables)
    assert {rows_max for _, rows_max in tables.rows.asked} == {None}


def test_a_large_result_is_left_to_spark_before_it_fills_the_memory(
    tables: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight rows, seven times: two million rows."""
    joined = " ".join(f"cross join queues.orders t{n}" for n in range(1, 7))
    statement = f"select t0.label from queues.orders t0 {joined}"
    monkeypatch.setattr(answers, "RESULT_MAX", 1 << 20)
    with pytest.raises(NeedsSpark, match="its result is larger than 1 MiB"):
        answer(statement, tables)
    assert answer(statement, tables, rows_max=1001).num_rows == 1001
    assert answer("select label from queues.orders", tables, rows_max=3).num_rows == 3


def test_large_data_is_left_to_spark() -> None:
    large = Samples(size=1 << 40)
    with pytest.raises(NeedsSpark, match="MiB to read"):
        answer("select body from queues.orders", large)
    assert large.rows.asked == []
    assert answer("select count(*) from queues.orders", large).num_rows == 1  # without bodies
    assert answer("select body from queues.orders", large, bytes_max=None).num_rows == 8


@pytest.mark.parametrize(
    ("statement", "cause"),
    [
        ("select lable from queues.orders", r"no column 'lable'.*Did you mean label\?"),
        ("select * from queues.ordres", r"no table 'queues.ordres'.*Did you mean queues.orders\?"),
        ("select nothing.label from queues.orders", "no column"),
        ("select count(max(label)) from queues.orders", "another aggregate inside"),
        ("select label from queues.orders where count(*) > 1", "WHERE has an aggregate"),
    ],
)
def test_a_mistake_is_named_without_spark(tables: Samples, statement: str, cause: str) -> None:
    with pytest.raises(InvalidParameter) as stopped:
        answer(statement, tables)
    assert re.search(cause, str(stopped.value)), str(stopped.value)
    assert "\n" not in str(stopped.value)


LEFT_TO_SPARK = [
    "select priority / 0 from queues.orders",
    "select priority % (priority - priority) as r from queues.orders",
    "select cast('x' as bigint) n",
    "select cast(x'ff' as string)",
    "select sum(lookup_id) + 9223372036854775807 as n from queues.orders",
    "select label from queues.orders group by priority",
    "select label as a, a from queues.orders",
    "select priority + 1 from queues.orders",
    "select label = 1 from queues.orders",
    "select 1.5",
    "select * from jobs.history",
    "select transaction.id from queues.orders",
    "select a.label from queues.orders a join queues.orders a on true",
    "select lookup_id from queues.orders a join journals.orders b on true",
    "select label l, priority l from queues.orders order by l",
    "select upper(label) label from queues.orders group by label",
    "select null",
    "select rlike(label, 'a') from queues.orders",
    "select * from (values (1))",
    "select row_number() over (order by label) from queues.orders",
    "select (select 1)",
    "select label from queues.orders intersect select label from journals.orders",
    "select " + "(" * 500 + "1" + ")" * 500,
    "select " + "not " * 500 + "true",
    "select 1 -- a comment",
    "select /*+ hint */ 1",
    "select 'a' 'b'",
    "select 'a''b'",
    "select 'a\\n'",
]


@pytest.mark.parametrize("statement", LEFT_TO_SPARK)
def test_what_may_differ_is_left_to_spark(tables: Samples, statement: str) -> None:
    with pytest.raises(NeedsSpark) as reason:
        answer(statement, tables)
    assert "\n" not in str(refused(reason.value))


@pytest.mark.parametrize(
    "statement",
    [
        "select " + " or ".join(["priority = 1"] * 2_000) + " from queues.orders",
        "select now() - interval 2000000000 days from queues.orders",
        "select " + "9" * 5_000 + " from queues.orders",
        "select label from queues.orders limit " + "9" * 5_000,
        "select " + "1/(" * 20 + "priority" + ")" * 20 + " from queues.orders",
    ],
    ids=["long", "interval", "number", "limit", "nested"],
)
def test_what_is_very_long_or_large_is_left_to_spark(tables: Samples, statement: str) -> None:
    with pytest.raises(NeedsSpark):
        answer(statement, tables)


def test_whole_numbers_stay_exact(tables: Samples) -> None:
    number = 9_007_199_254_740_993  # no double has it
    found = answer(f"select floor({number}), ceil({number}) from queues.orders limit 1", tables)
    assert [column[0].as_py() for column in found.columns] == [number, number]


_WORDS = """
select distinct count ( ) * , . ; label priority from queues orders `orders` where and or not in
between like is null group by having order limit offset union all with as case when then else end
cast string interval day join left on 1 2 'x' '' = <> < + - / % || true upper max
"""


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=25).map(" ".join) | st.text(max_size=40))
def test_any_text_is_answered_or_stopped(statement: str) -> None:
    with suppress(NeedsSpark, InvalidParameter):
        answer(statement, Samples())


def test_a_list_is_named_as_spark_names_it(tables: Samples, tmp_path: Path) -> None:
    """Parquet files of both engines have one schema."""
    from pyarrow import parquet
    from pyspark.sql.pandas.types import to_arrow_type

    from posthouse.model.message_columns import Kind
    from posthouse.spark.schema import spark_type
    from posthouse.spark.table_files import write_file

    write_file(
        tmp_path / "a.parquet", answer("SELECT journal FROM queues.orders", tables), "parquet"
    )
    (field,) = parquet.read_schema(tmp_path / "a.parquet")
    assert str(field.type) == str(to_arrow_type(spark_type(Kind.STRINGS)))
