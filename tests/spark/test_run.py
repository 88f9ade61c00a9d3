"""Pipelines of one's own: a file with decorated functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from posthouse.model.errors import InvalidParameter, QueueNotFound
from posthouse.spark.pipeline_runner import Output, load, run
from tests.process.spark_office import SparkOffice, path_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEAD = "from posthouse.spark.flows import reads, sends, table, view\n"

BATCH = """
@reads(r"{source}", includeExtension=False)
def orders(messages):
    return messages.selectExpr("label", "cast(cast(body as string) as int) as total")

@view
def large(orders, spark):
    assert spark.range(1).count() == 1
    return orders.where("total >= 2")

@table(partition_by=["label"])
def by_label(orders):
    return orders.groupBy("label").sum("total")

@sends(r"{target}", label="large")
def notices(large):
    return large.selectExpr("cast(total as string) as body")
"""
STREAM = """
@reads(r"{source}", consume=True, group="flow")
def orders(messages):
    return messages.selectExpr("upper(cast(body as string)) as body", "label")

@sends(r"{target}")
def copies(orders):
    return orders
"""


def written(tmp_path: Path, text: str, **names: str) -> Path:
    path = tmp_path / "flow.py"
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def test_a_snapshot_becomes_tables_and_messages(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    source, target = queue(), queue()
    orders = office.qm.queue(path_of(source))
    for number in range(4):
        orders.send(str(number).encode(), label="ab"[number % 2], recoverable=True)
    file = written(tmp_path, BATCH, source=path_of(source), target=path_of(target))
    seen: list[int] = []
    done = run(
        file, tmp_path / "out", spark=spark, options=access, progress=lambda p: seen.append(p.done)
    )
    assert done == [
        Output("by_label", "table", str(tmp_path / "out" / "by_label"), 2),
        Output("notices", "send", path_of(target), 2),
    ]
    assert seen == [2, 4]
    rows = pq.read_table(tmp_path / "out" / "by_label").to_pylist()
    assert sorted((row["label"], row["sum(total)"]) for row in rows) == [("a", 2), ("b", 4)]
    assert sorted(office.bodies(target)) == [b"2", b"3"]
    assert office.count(source) == 4


def test_a_stream_goes_on_where_it_ended(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    source, target = queue(), queue()
    file = written(tmp_path, STREAM, source=path_of(source), target=path_of(target))
    for bodies in ([b"a", b"b", b"c"], [b"d"]):
        office.send(source, bodies)
        done = run(file, tmp_path / "out", spark=spark, options=access)
        assert done == [Output("copies", "send", path_of(target), len(bodies))]
    assert office.bodies(target) == [b"A", b"B", b"C", b"D"]
    assert office.count(source) == 0, "what was consumed is settled"


def test_a_stream_becomes_a_table(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    source = queue()
    text = """
@reads(r"{source}", stream=True)
def orders(messages):
    return messages.select("lookup_id", "label")

@table
def seen(orders):
    return orders
"""
    office.send(source, [b"x"] * 5)
    file = written(tmp_path, text, source=path_of(source))
    assert [one.rows for one in run(file, tmp_path, spark=spark, options=access)] == [5]
    assert [one.rows for one in run(file, tmp_path, spark=spark, options=access)] == [0]
    assert spark.read.parquet(str(tmp_path / "seen")).count() == 5
    assert office.count(source) == 5


TABLE = """
@reads(r"{source}"{how})
def orders(messages):
    return messages.select("lookup_id", "label")

@table
def seen(orders):
    return orders
"""
CONSUMING = ', consume=True, group="flow"'


def test_a_folder_of_something_else_is_left_alone(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    """A snapshot deleted whatever was in a folder that is named as its table."""
    source, mine = queue(), tmp_path / "seen" / "mine.txt"
    office.send(source, [b"x"] * 2)
    mine.parent.mkdir()
    mine.write_text("precious")
    for how in ("", CONSUMING):
        file = written(tmp_path, TABLE, source=path_of(source), how=how)
        with pytest.raises(InvalidParameter, match=r"is not a table: it has 'mine.txt'.*--out"):
            run(file, tmp_path, spark=spark, options=access)
    assert (mine.read_text(), office.count(source)) == ("precious", 2)
    mine.unlink()
    file = written(tmp_path, TABLE, source=path_of(source), how="")
    for _ in range(2):
        assert [one.rows for one in run(file, tmp_path, spark=spark, options=access)] == [2]
    file = written(tmp_path, TABLE, source=path_of(source), how=CONSUMING)
    with pytest.raises(InvalidParameter, match="is the table of a snapshot"):
        run(file, tmp_path, spark=spark, options=access)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "seen").write_text("a file")
    with pytest.raises(InvalidParameter, match="other/seen is a file"):
        run(file, tmp_path / "other", spark=spark, options=access)
    with pytest.raises(InvalidParameter, match=r"flow\.py is a file, .*move .*flow\.py away"):
        run(file, file, spark=spark, options=access)


def test_what_a_stream_received_is_neither_replaced_nor_passed_over(
    spark: SparkSession,
    office: SparkOffice,
    queue: Callable[..., str],
    access: dict[str, str],
    tmp_path: Path,
) -> None:
    """The table is the only copy. Without its checkpoint Spark skips batches of known numbers."""
    source, out = queue(), tmp_path / "out"
    office.send(source, [b"x"] * 3)
    file = written(tmp_path, TABLE, source=path_of(source), how=CONSUMING)
    assert [one.rows for one in run(file, out, spark=spark, options=access)] == [3]
    written(tmp_path, TABLE, source=path_of(source), how="")
    with pytest.raises(InvalidParameter, match=r"table of a stream.*--out"):
        run(file, out, spark=spark, options=access)
    written(tmp_path, TABLE, source=path_of(source), how=CONSUMING)
    (out / "_checkpoints").rename(out / "kept")
    office.send(source, [b"y"] * 2)
    with pytest.raises(InvalidParameter, match=r"up to number 0.*planned none.*put back"):
        run(file, out, spark=spark, options=access)
    assert office.count(source) == 2
    (out / "kept").rename(out / "_checkpoints")
    assert [one.rows for one in run(file, out, spark=spark, options=access)] == [2]
    assert spark.read.parquet(str(out / "seen")).count() == 5


ORDERS = "@reads('q', consume=True)\ndef orders(m): return m\n"
REFUSED = {
    "has no output": "@view\ndef a(spark): return spark.range(1)",
    "did you mean orders": ORDERS + "@table\ndef t(order): return order",
    "is a circle": (
        "@view\ndef a(b): return b\n@view\ndef b(a): return a\n@table\ndef t(a): return a"
    ),
    "both one and two want it": (
        ORDERS + "@table\ndef one(orders): return orders\n@table\ndef two(orders): return orders"
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_file_that_cannot_run_says_why(tmp_path: Path, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        load(written(tmp_path, REFUSED[why]))


def test_a_mistake_in_the_file_is_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, "def today():\n    return orders.of_today()\n\ntoday()")
    line = len(file.read_text().splitlines()) - 2  # of the mistake, not of the call
    told = rf"{file.name}, line {line}, cannot be loaded: NameError: .*'orders'"
    with pytest.raises(InvalidParameter, match=told):
        load(file)


def test_a_function_that_returns_something_else_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = written(tmp_path, "@table\ndef t(spark): return 7")
    with pytest.raises(InvalidParameter, match="t returned int"):
        run(file, tmp_path, spark=spark)


def test_a_queue_that_is_not_there_is_one_error(
    spark: SparkSession, access: dict[str, str], tmp_path: Path
) -> None:
    text = (
        "@reads('./private$/nowhere', stream=True)\ndef a(m): return m\n@table\ndef t(a): return a"
    )
    with pytest.raises(QueueNotFound):
        run(written(tmp_path, text), tmp_path, spark=spark, options=access)
