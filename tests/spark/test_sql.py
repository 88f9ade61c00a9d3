"""SQL over live queues, journals, dead letters and a lake; rows in every format."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import InvalidParameter
from posthouse.spark.queries.query import sql
from posthouse.spark.queries.small.answers import answer as small_answer
from posthouse.spark.queries.tables import LiveTables
from posthouse.spark.rows.values import rows_of
from posthouse.spark.table_files import (
    csv_lines,
    json_rows,
    new_file,
    text_rows,
    write_file,
    write_values,
)
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Counting(BulkHttp):
    """Says which paths were asked for."""

    def call(self, method, path, *rest, **more):  # type: ignore[no-untyped-def]
        self.asked = [*getattr(self, "asked", []), path]
        return super().call(method, path, *rest, **more)


@pytest.fixture(scope="module")
def shop(office: SparkOffice) -> SparkOffice:
    office.create("sales", "odd-name", journal=True)
    sales = office.qm.queue(path_of("sales"))
    for number in range(4):
        sales.send(f'{{"n": {number}}}'.encode(), label=f"sale {number % 2}", priority=number)
    sales.receive(timeout=5)
    return office


@pytest.fixture
def tables(shop: SparkOffice, access: dict[str, str]) -> Iterator[LiveTables]:
    with Counting(shop.url, token_file=str(shop.token_file)) as http:
        yield LiveTables(http, access, lambda spark: spark.range(7).withColumnRenamed("id", "n"))


def answer(spark: SparkSession, tables: LiveTables, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in sql(spark, statement, tables).collect()]


def test_a_queue_is_a_table(spark: SparkSession, tables: LiveTables) -> None:
    statement = "select label, count(*) from queues.sales group by label order by 1"
    assert answer(spark, tables, statement) == [("sale 0", 2), ("sale 1", 1)]


def test_a_body_is_read_as_json(spark: SparkSession, tables: LiveTables) -> None:
    statement = (
        "select sum(get_json_object(cast(body as string), '$.n')) from queues.SALES s"
        " where s.priority >= 1"
    )
    assert answer(spark, tables, statement) == [(3.0,)]


def test_journals_dead_letters_and_the_lake_are_tables(
    spark: SparkSession, tables: LiveTables
) -> None:
    statement = (
        "select (select count(*) from journals.sales), (select count(*) from system.journal),"
        " (select count(*) >= 0 from system.deadxact), (select max(n) from lake.messages)"
    )
    assert answer(spark, tables, statement) == [(1, 0, True, 6)]


@pytest.mark.parametrize(
    "name", [".\\private$\\sales", "ALPHA\\private$\\Sales", "sales", "`Odd-Name`"]
)
def test_a_queue_has_several_names(spark: SparkSession, tables: LiveTables, name: str) -> None:
    quoted = name if name.startswith("`") else f"`{name}`"
    assert answer(spark, tables, f"select count(*) >= 0 from queues.{quoted}") == [(True,)]


def test_show_tables_lists_what_there_is(spark: SparkSession, tables: LiveTables) -> None:
    shown = {f"{row[0]}.{row[1]}" for row in answer(spark, tables, "show tables")}
    named = {"queues.sales", "journals.sales", "queues.odd-name"}
    system = {"system.journal", "system.deadletter", "system.deadxact", "lake.messages"}
    assert named | system <= shown


@pytest.mark.parametrize(
    "table", ["queues.saless", "journals.`sales;x`", "system.`order_queue$`", "queues.`;journal`"]
)
def test_an_unknown_queue_is_refused(spark: SparkSession, tables: LiveTables, table: str) -> None:
    with pytest.raises(InvalidParameter, match="there is no table"):
        sql(spark, f"select * from {table}", tables)


def test_the_catalog_has_the_queues_of_each_manager(
    spark: SparkSession, shop: SparkOffice, branch: SparkOffice
) -> None:
    branch.create("sales")
    branch.send("sales", [b"a"])
    options = {
        "url": f"{shop.url},{branch.url}",
        "tokenFile": f"{shop.token_file},{branch.token_file}",
    }
    with (
        BulkHttp(shop.url, token_file=str(shop.token_file)) as http,
        LiveTables(http, options) as tables,
    ):
        statement = (
            "select a.queue_manager, posthouse.bravo.sales.queue_manager, count(*)"
            " from posthouse.alpha.sales a cross join posthouse.Bravo.Sales group by 1, 2"
        )
        assert answer(spark, tables, statement) == [("ALPHA", "BRAVO", 3)]
        small = small_answer(statement, tables)
        assert [column.to_pylist() for column in small.columns] == [["ALPHA"], ["BRAVO"], [3]]
        inner = (
            "select (select count(*) from posthouse.alpha.`sales;journal`),"
            " (select count(*) from posthouse.bravo.`system$;deadletter`)"
        )
        assert answer(spark, tables, inner) == [(1, 0)]
        shown = answer(spark, tables, "show tables in posthouse.bravo")
        assert ("posthouse.bravo", "sales", "BRAVO\\private$\\sales") in shown  # others of tests
        assert small_answer("show tables in posthouse.bravo", tables).num_rows == len(shown)
        both = {row[0] for row in answer(spark, tables, "show tables in posthouse")}
        assert both == {"posthouse.alpha", "posthouse.bravo"}
        assert not both & {row[0] for row in answer(spark, tables, "show tables")}
        for name in ("posthouse.bravo.sale", "posthouse.charlie.sales", "other.alpha.sales"):
            with pytest.raises(InvalidParameter, match="there is no table"):
                sql(spark, f"select * from {name}", tables)


def test_two_managers_of_one_name_are_no_catalog(shop: SparkOffice) -> None:
    options = {"url": f"{shop.url},{shop.url}/", "tokenFile": str(shop.token_file)}
    with (
        BulkHttp(shop.url, token_file=str(shop.token_file)) as http,
        LiveTables(http, options) as tables,
        pytest.raises(InvalidParameter, match="both have the name alpha"),
    ):
        tables.find("posthouse.alpha", "sales")


def test_a_queue_manager_is_not_asked_for_what_is_not_named(
    spark: SparkSession, tables: LiveTables
) -> None:
    answer(spark, tables, "select count(*) from lake.messages")
    assert not hasattr(tables._http, "asked")


@pytest.fixture
def odd(spark: SparkSession) -> DataFrame:
    """One row of every sort of value, and one of nulls."""
    return spark.sql(
        "select 1 as n, timestamp '2026-03-01 12:00:00' as t, date '2026-03-01' as d,"
        " x'00ff' as b, 'a\\n\"b,c' as s, array(1, null) as a,"
        " map('k', timestamp '2026-03-01') as m,"
        " named_struct('x', 1.5D, 'y', null) as r, 1.20BD as c, double('nan') as f, 2 as n"
        " union all select null, null, null, null, null, null, null, null, null, null, null"
        " order by 1 desc nulls last"
    )


def test_values_are_plain(odd: DataFrame) -> None:
    row = rows_of(odd)[0]
    assert row["t"] == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (row["b"], row["a"], row["r"]) == (b"\x00\xff", [1, None], {"x": 1.5, "y": None})


def test_rows_are_lines_of_json(odd: DataFrame, tmp_path: Path) -> None:
    first, second = json_rows(odd)
    assert first["t"] == "2026-03-01T12:00:00Z"
    assert (first["b"], first["d"], first["c"]) == ("AP8=", "2026-03-01", "1.20")
    assert (first["f"], first["m"]) == (None, {"k": "2026-03-01T00:00:00Z"})
    assert set(second.values()) == {None}
    assert write_file(tmp_path / "x.json", odd, "json") == 2
    lines = (tmp_path / "x.json").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["s"] == 'a\n"b,c'


def test_rows_are_csv(odd: DataFrame, tmp_path: Path) -> None:
    assert next(csv_lines(odd)) == "n,t,d,b,s,a,m,r,c,f,n"
    assert write_file(tmp_path / "x.csv", odd, "csv") == 2
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        _, first, second = csv.reader(file)
    assert (first[0], first[4], first[5], first[10]) == ("1", 'a\n"b,c', "[1,null]", "2")
    assert set(second) == {""}


def test_texts_of_csv_are_no_formulas(spark: SparkSession) -> None:
    texts = ['=HYPERLINK("http://x")', "+1+1", "-2+3", "@SUM(A1)", "\tx", "-5", "+1.5e3", "a=b", ""]
    frame = spark.createDataFrame([(text,) for text in texts], "t string")
    _, *cells = (next(csv.reader([line])) for line in csv_lines(frame))
    found = [cell[0] if cell else "" for cell in cells]
    assert found == [f"'{text}" for text in texts[:5]] + texts[5:]
    bodies = spark.createDataFrame([(bytearray(b"\xfb\xef"),)], "`=n` binary")
    assert list(csv_lines(bodies)) == ["'=n", "++8="]


def test_rows_are_parquet(odd: DataFrame, tmp_path: Path) -> None:
    assert write_file(tmp_path / "x.parquet", odd.drop("f"), "parquet") == 2
    read = pq.read_table(tmp_path / "x.parquet", columns=["t", "m", "r", "b"]).to_pylist()
    assert read[0]["t"] == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert read[0]["r"] == {"x": 1.5, "y": None}
    assert read[0]["m"] == [("k", datetime(2026, 3, 1, tzinfo=UTC))]
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_a_result_without_rows_is_a_file_too(spark: SparkSession, tmp_path: Path) -> None:
    nothing = spark.sql("select 1 as n where false")
    assert [write_file(tmp_path / f, nothing, f) for f in ("parquet", "json", "csv")] == [0, 0, 0]
    assert pq.read_table(tmp_path / "parquet").num_rows == 0
    assert list(text_rows(nothing)) == []


def test_a_variant_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    variant = spark.sql("select parse_json('[1]') as v")
    with pytest.raises(InvalidParameter, match="variant"):
        write_file(tmp_path / "x", variant, "parquet")
    assert list(json_rows(variant)) == [{"v": "[1]"}]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_fails_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("as it was", encoding="utf-8")
    broken = spark.sql("select raise_error('broken') as n from range(3)")
    with pytest.raises(Exception, match="broken"):
        write_file(tmp_path / "x", broken, "csv")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_text(encoding="utf-8") == "as it was"


def test_new_files_of_rows_are_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        for form in ("parquet", "json", "csv"):
            assert write_file(tmp_path / form, pa.table({"n": [1, 2]}), form) == 2
        write_values(tmp_path / "values", [{"n": 1}], pa.schema([("n", pa.int64())]))
        (tmp_path / "csv").chmod(0o644)
        write_file(tmp_path / "csv", pa.table({"n": [3]}), "csv")
        with new_file(tmp_path / "page") as partial:
            partial.write_text("for others too")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    private = dict.fromkeys(("parquet", "json", "values"), 0o600)
    assert modes == {**private, "csv": 0o644, "page": 0o666}


def test_a_file_is_as_private_as_the_one_that_it_replaces(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.touch(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to(file)
    with new_file(link) as partial:
        assert partial.stat().st_mode & 0o777 == 0o600
        partial.write_text("new")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new", 0o600)
    assert link.is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with new_file(pipe) as partial:
        assert partial == pipe, "it is written, not replaced"
    assert pipe.is_fifo()


@pytest.mark.parametrize("may", [True, False])
def test_a_file_keeps_its_group_or_is_closed_to_another_one(
    may: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.csv"
    file.touch(0o600)
    file.chmod(0o640)
    group = os.getegid() + 1 if os.geteuid() == 0 else os.getegid()
    os.chown(file, -1, group)

    def refuse(handle: object, owner: int, group: int) -> None:
        raise PermissionError

    if not may:
        monkeypatch.setattr(os, "fchown", refuse)
    with new_file(file) as partial:
        partial.write_text("new")
    after = file.stat()
    is_kept = after.st_gid == group
    assert is_kept is (may or group == os.getegid())
    assert after.st_mode & 0o777 == (0o640 if is_kept else 0o600)


class Noted(LiveTables):
    """Says which columns were asked for, and whether filters may narrow the read."""

    def find(self, namespace, name):  # type: ignore[no-untyped-def]
        table = super().find(namespace, name)
        self.asked = getattr(self, "asked", [])

        def load(spark, columns=None, pushes=False):  # type: ignore[no-untyped-def]
            self.asked.append((columns, pushes))
            return table.load_less(spark, columns, pushes)

        return table and table._replace(load_less=load)


def test_a_statement_reads_the_columns_that_it_names(
    spark: SparkSession, shop: SparkOffice, access: dict[str, str]
) -> None:
    with BulkHttp(shop.url, token_file=str(shop.token_file)) as http:
        tables = Noted(http, access)
        rows = sql(
            spark, "select max(Label) from queues.sales s where s.priority > 1", tables, once=True
        )
        assert [tuple(row) for row in rows.collect()] == [("sale 0",)]
        assert sql(spark, "select count(*) from queues.sales", tables).collect()[0][0] == 3
        twice = (
            "select (select count(*) from queues.sales where priority = 2), count(*)"
            " from queues.sales"
        )
        assert [tuple(row) for row in sql(spark, twice, tables, once=True).collect()] == [(1, 3)]
        sql(spark, "select * from queues.sales", tables, once=True)
    assert tables.asked == [
        (frozenset({"label", "s", "priority"}), True),
        (frozenset(), False),
        (frozenset({"priority"}), False),
        (None, True),
    ]
