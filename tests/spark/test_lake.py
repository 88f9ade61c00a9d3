"""A lake as a table of Spark, in memory of what it was; and what compaction puts together."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.model.message_columns import NAMES
from posthouse.spark.lakes.compaction import compact, packs
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.state import LakeFile
from posthouse.spark.lakes.table import LAKE_SCHEMA, lake
from tests.spark.lake_samples import BODY, ORDERS, add_rows, rows

UMLAUT = "ALPHA\\private$\\Aufträge über " + "ß" * 100
ODD = "ALPHA\\private$\\{a}[b]*?%5C=#'\"~"
LATE = datetime(2026, 11, 14, 23, 59, 0, 0, UTC)
EARLY = datetime(2026, 11, 15, 0, 0, 0, 0, UTC)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> LakeFiles:
    """One batch: two days of one queue, and queues whose names no folder can have."""
    made = LakeFiles(tmp_path_factory.mktemp("lakes") / "my lake [*]")
    made.create()
    parts = (rows(ORDERS, [1, 2, 3], LATE), rows(ORDERS, [4, 5], EARLY))
    assert add_rows(made, 0, *parts, rows(UMLAUT, [6]), rows(ODD, [7])).rows == 7
    return made


def found(frame: DataFrame) -> list[Any]:
    return sorted(row.lookup_id for row in frame.select("lookup_id").collect())


def read(made: LakeFiles, spark: SparkSession, **more: Any) -> DataFrame:
    return lake(str(made.place), spark, **more)


def test_what_was_written_is_read_with_all_columns(spark: SparkSession, filled: LakeFiles) -> None:
    frame = read(filled, spark)
    assert frame.schema == LAKE_SCHEMA
    assert frame.columns == [*NAMES, "day"]
    assert found(frame) == [1, 2, 3, 4, 5, 6, 7]
    row = frame.where("lookup_id = 4").first()
    assert row is not None
    assert (row.queue, row.label, bytes(row.body)) == (ORDERS, "a\nlabel", BODY)
    assert (row.day, row.journal, row.priority) == (date(2026, 11, 15), ["positive"], None)


def test_queues_have_their_names_though_folders_cannot(
    spark: SparkSession, filled: LakeFiles
) -> None:
    names = {row.queue for row in read(filled, spark).select("queue").distinct().collect()}
    assert names == {ORDERS, UMLAUT, ODD}
    assert found(read(filled, spark, queues=[UMLAUT])) == [6]


def test_only_files_that_can_match_are_read(spark: SparkSession, filled: LakeFiles) -> None:
    one = read(filled, spark, queues=[ORDERS], until=EARLY)
    assert found(one) == [1, 2, 3]
    assert {Path(name).parent.name for name in one.inputFiles()} == {"2026-11-14"}
    assert found(read(filled, spark, queues=["ALPHA\\private$\\none"])) == []
    assert found(read(filled, spark, queues=[ORDERS], since=EARLY)) == [4, 5]


def test_a_lake_is_read_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    made = LakeFiles(tmp_path / "lake")
    made.create()
    for number in range(4):
        add_rows(made, number, rows(ORDERS, [number * 10]))
    earlier = read(made, spark)
    compact(str(made.place), files_min=3)
    add_rows(made, 4, rows(ORDERS, [90]))
    assert found(earlier) == [0, 10, 20, 30]
    assert found(read(made, spark)) == [0, 10, 20, 30, 90]
    assert found(read(made, spark, as_of=2)) == [0, 10]
    assert found(read(made, spark, as_of=datetime.now(UTC))) == [0, 10, 20, 30, 90]
    with pytest.raises(InvalidParameter, match=r"has no version 99: its newest is [0-9]+\."):
        read(made, spark, as_of=99)


def test_files_that_no_version_names_are_not_read(spark: SparkSession, filled: LakeFiles) -> None:
    assert filled.place.folder is not None
    real = filled.place.folder / filled.state().files[0].path
    real.with_name(f"messages-{'0' * 32}.parquet").write_bytes(real.read_bytes())
    assert found(read(filled, spark)) == [1, 2, 3, 4, 5, 6, 7]


def test_a_missing_file_is_an_error_and_no_gap(spark: SparkSession, tmp_path: Path) -> None:
    made = LakeFiles(tmp_path / "lake")
    made.create()
    (file,) = add_rows(made, 0, rows(ORDERS, [1])).files
    (tmp_path / "lake" / file.path).unlink()
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        read(made, spark)


def test_an_empty_lake_has_no_rows_and_a_folder_without_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    LakeFiles(tmp_path / "lake").create()
    assert lake(tmp_path / "lake", spark).collect() == []
    assert lake(tmp_path / "lake", spark).schema == LAKE_SCHEMA
    with pytest.raises(StatusNotFound):
        lake(tmp_path, spark)


def small(number: int, size: int, day: str = "2026-11-14") -> LakeFile:
    return LakeFile(str(number), ORDERS, day, 1, size, number, number, 0, 0)


def test_only_small_files_of_one_day_are_put_together() -> None:
    files = [small(number, 10) for number in (3, 1, 2)]
    assert list(packs([*files, small(4, 60), small(5, 10, "2026-11-15")], 3, 100)) == [
        [small(1, 10), small(2, 10), small(3, 10)]
    ]
    assert list(packs(files, 4, 100)) == []


def test_what_makes_a_large_file_is_put_together_however_few_they_are() -> None:
    files = [small(number, 40) for number in range(7)]
    assert [len(pack) for pack in packs(files, 8, 100)] == [3, 3]
