"""Programs of others read a lake: whoever reads Delta, and whoever reads Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable

from posthouse.model.message_columns import NAMES
from posthouse.spark.lakes.compaction import compact
from posthouse.spark.lakes.erasure import erase
from posthouse.spark.lakes.files import LakeFiles
from tests.spark.lake_samples import BODY, DAY, NOON, ORDERS, add_rows, rows, written

ODD = "ALPHA\\private$\\{a}[b]*?%5C=#'\"~ über"
COUNTS = {
    (ORDERS, date(2026, 11, 15)): 3,
    (ORDERS, date(2026, 11, 16)): 1,
    (ODD, date(2026, 11, 15)): 1,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A lake with a past: a compaction, an erasure, a batch that was cut off, two days."""
    lake = LakeFiles(tmp_path_factory.mktemp("lakes") / "lake")
    lake.create()
    add_rows(lake, 0, rows(ORDERS, [1]), rows(ODD, [2]))
    add_rows(lake, 1, rows(ORDERS, [3, 4], transaction={"id": 7, "first": True, "last": False}))
    add_rows(lake, 2, rows(ORDERS, [5], NOON + DAY), rows(ORDERS, [6], label="gone"))
    written(lake, rows(ORDERS, [99]))
    compact(str(lake.place), files_min=3)
    erase(str(lake.place), "label = 'gone'")
    written(lake, rows(ORDERS, [98]))
    lake.log.tidy(0)
    return str(lake.place)


@pytest.fixture
def base() -> Iterator[Any]:
    """An empty database of DuckDB, which complains at the end of each process that imports it."""
    import duckdb

    with duckdb.connect() as made:
        yield made


def test_duckdb_reads_what_the_table_names(folder: str, base: Any) -> None:
    messages = DeltaTable(folder).to_pyarrow_dataset()
    base.register("messages", messages)
    found = base.sql("SELECT queue, day, count(*) FROM messages GROUP BY ALL").fetchall()
    one = base.sql("SELECT body, journal, transaction FROM messages WHERE lookup_id = 4")
    assert one.fetchall() == [(BODY, ["positive"], {"id": 7, "first": True, "last": False})]
    assert {(queue, day): count for queue, day, count in found} == COUNTS


def test_duckdb_reads_the_files_as_parquet_with_queue_and_day(folder: str, base: Any) -> None:
    read = base.read_parquet(DeltaTable(folder).file_uris())
    assert read.columns == [*NAMES, "day"]
    found = read.aggregate("queue, day, count(*)").fetchall()
    assert {(queue, day): count for queue, day, count in found} == COUNTS


def test_polars_reads_the_lake(folder: str) -> None:
    found = polars.scan_delta(folder).group_by("queue", "day").len().collect()
    assert {(queue, day): count for queue, day, count in found.rows()} == COUNTS
    one = polars.read_delta(folder).filter(polars.col("lookup_id") == 1).row(0, named=True)
    assert (one["body"], one["journal"], one["transaction"]) == (BODY, ["positive"], None)


def test_polars_reads_an_older_version(tmp_path: Path) -> None:
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    add_rows(lake, 0, rows(ORDERS, [1]))
    add_rows(lake, 1, rows(ORDERS, [2]))
    assert polars.read_delta(str(lake.place), version=1).height == 1
    assert polars.read_delta(str(lake.place)).height == 2
