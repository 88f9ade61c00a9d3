"""Messages as Parquet by queue and day, and back as a table, with a real Spark."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.model.message_columns import NAMES
from posthouse.spark.lakes.compaction import Compacted, compact, packs
from posthouse.spark.lakes.files import KEEP_S, LakeFiles
from posthouse.spark.lakes.manifest import LakeFile
from posthouse.spark.lakes.rows import add_batch
from posthouse.spark.lakes.table import LAKE_SCHEMA, lake
from posthouse.spark.schema import message_schema

ORDERS = "ALPHA\\private$\\orders"
UMLAUT = "ALPHA\\private$\\Aufträge über " + "ß" * 100
ODD = "ALPHA\\private$\\{a}[b]*?%5C=#'\"~"
LATE = datetime(2026, 11, 14, 23, 59, 59, 999999, UTC)
EARLY = datetime(2026, 11, 15, 0, 0, 0, 0, UTC)
QUERY = "query"
COLUMNS = ("queue_manager", "queue", "lookup_id", "label", "body", "arrived_time", "journal")
BODY = bytes(range(256))


def messages(spark: SparkSession, queue: str, ids: Iterable[int], at: datetime = LATE) -> DataFrame:
    rows = [("ALPHA", queue, number, "a\nlabel", BODY, at, ["positive"]) for number in ids]
    return spark.createDataFrame(rows, message_schema(COLUMNS))


@pytest.fixture(scope="module")
def filled(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeFiles:
    """One batch: two days of one queue, and queues whose names no folder can have."""
    made = LakeFiles(tmp_path_factory.mktemp("lakes") / "my lake [*]")
    made.create()
    rows = messages(spark, ORDERS, [1, 2, 3]).union(messages(spark, ORDERS, [4, 5], EARLY))
    rows = rows.union(messages(spark, UMLAUT, [6])).union(messages(spark, ODD, [7]))
    assert add_batch(made, rows, QUERY, 0).rows == 7
    return made


def found(frame: DataFrame) -> list[Any]:
    return sorted(row.lookup_id for row in frame.select("lookup_id").collect())


def test_what_was_written_is_read_with_all_columns(spark: SparkSession, filled: LakeFiles) -> None:
    read = lake(filled.root, spark)
    assert read.schema == LAKE_SCHEMA
    assert read.columns == [*NAMES, "day"]
    assert found(read) == [1, 2, 3, 4, 5, 6, 7]
    row = read.where("lookup_id = 4").first()
    assert row is not None
    assert (row.queue, row.label, bytes(row.body)) == (ORDERS, "a\nlabel", BODY)
    assert (row.day, row.journal, row.priority) == (date(2026, 11, 15), ["positive"], None)


def test_days_are_those_of_utc_whatever_the_zone_of_the_session(
    spark: SparkSession, filled: LakeFiles, tmp_path: Path
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        other = LakeFiles(tmp_path / "lake")
        other.create()
        added = add_batch(other, messages(spark, ORDERS, [1]), QUERY, 0)
        assert [file.day for file in added.files] == ["2026-11-14"]
        assert found(lake(other.root, spark, since=LATE, until=EARLY)) == [1]
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def test_queues_have_their_names_though_folders_cannot(
    spark: SparkSession, filled: LakeFiles
) -> None:
    names = {row.queue for row in lake(filled.root, spark).select("queue").distinct().collect()}
    assert names == {ORDERS, UMLAUT, ODD}
    assert set(filled.manifests.read().through) == names
    assert all(path.name.isascii() for path in filled.root.iterdir())
    assert found(lake(filled.root, spark, queues=[UMLAUT])) == [6]


def test_only_files_that_can_match_are_read(spark: SparkSession, filled: LakeFiles) -> None:
    one = lake(filled.root, spark, queues=[ORDERS], until=EARLY)
    assert found(one) == [1, 2, 3]
    assert {Path(name).parent.name for name in one.inputFiles()} == {"day=2026-11-14"}
    assert found(lake(filled.root, spark, queues=["ALPHA\\private$\\none"])) == []
    assert found(lake(filled.root, spark, since=EARLY)) == [4, 5]


def test_a_batch_that_comes_again_is_not_written(spark: SparkSession, filled: LakeFiles) -> None:
    before = filled.manifests.read().version
    assert add_batch(filled, messages(spark, ORDERS, [1, 2]), QUERY, 0).skipped
    assert filled.manifests.read().version == before


def test_a_batch_that_is_planned_anew_with_another_end_brings_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = LakeFiles(tmp_path / "lake")
    made.create()
    for number, ids in ((3, [1, 2]), (3, [2, 3]), (2, [3, 4])):
        add_batch(made, messages(spark, ORDERS, ids), QUERY, number)
    assert found(lake(made.root, spark)) == [1, 2, 3, 4]
    assert made.manifests.read().queries == {QUERY: 3}


def test_messages_that_come_again_in_another_batch_are_not_written(
    spark: SparkSession, filled: LakeFiles
) -> None:
    assert add_batch(filled, messages(spark, ORDERS, [4, 5]), "another", 0).rows == 0
    assert found(lake(filled.root, spark)) == [1, 2, 3, 4, 5, 6, 7]


def test_files_that_the_manifest_does_not_name_are_not_read(
    spark: SparkSession, filled: LakeFiles
) -> None:
    real = filled.root / filled.manifests.read().files[0].path
    stray = real.with_name("batch-0000000099-0000000000000000-0000.parquet")
    stray.write_bytes(real.read_bytes())
    assert found(lake(filled.root, spark)) == [1, 2, 3, 4, 5, 6, 7]
    assert filled.sweep().orphans == 1


def test_a_missing_file_is_an_error_and_no_gap(spark: SparkSession, tmp_path: Path) -> None:
    made = LakeFiles(tmp_path / "lake")
    made.create()
    (file,) = add_batch(made, messages(spark, ORDERS, [1]), QUERY, 0).files
    (made.root / file.path).unlink()
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        lake(made.root, spark)


def test_an_empty_lake_has_no_rows_and_a_folder_without_one_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    LakeFiles(tmp_path / "lake").create()
    assert lake(tmp_path / "lake", spark).collect() == []
    assert lake(tmp_path / "lake", spark).schema == LAKE_SCHEMA
    with pytest.raises(StatusNotFound):
        lake(tmp_path, spark)


def test_rows_without_a_needed_column_are_refused(spark: SparkSession, filled: LakeFiles) -> None:
    with pytest.raises(InvalidParameter, match="needs the column lookup_id"):
        add_batch(filled, messages(spark, ORDERS, [8]).drop("lookup_id"), QUERY, 5)


def test_small_files_become_one_and_stay_readable_for_an_hour(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = LakeFiles(tmp_path / "lake")
    made.create()
    for batch in range(4):
        add_batch(made, messages(spark, ORDERS, [batch * 10]).coalesce(1), QUERY, batch)
    add_batch(made, messages(spark, UMLAUT, [50]).coalesce(1), QUERY, 4)
    earlier = lake(made.root, spark)
    assert compact(made.root, spark, files_min=3) == Compacted(4, 1, 4)
    assert found(earlier) == [0, 10, 20, 30, 50]
    assert found(lake(made.root, spark)) == [0, 10, 20, 30, 50]
    assert len(made.manifests.read().files) == 2
    assert compact(made.root, spark, files_min=3) == Compacted()
    made.now = lambda: 4e9 + KEEP_S
    assert made.sweep().replaced == 4
    assert found(lake(made.root, spark)) == [0, 10, 20, 30, 50]


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
