"""A lake of version 0.1 becomes a Delta table in place, once, without copying its data.

`lake_0_1` was written by that version: two batches of a queue, one of a queue whose name no folder
can have, and a file that no manifest names.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import polars
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.compaction import compact
from posthouse.spark.lakes.conversion import Manifest, parsed
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.erasure import erase
from posthouse.spark.lakes.files import LakeFiles
from posthouse.spark.lakes.state import LakeFile
from posthouse.spark.lakes.table import LAKE_SCHEMA, lake
from tests.spark.lake_samples import (
    ORDERS,
    FragileDisk,
    PowerLoss,
    add_rows,
    data_files,
    ids_in,
    rows,
)

OLD = Path(__file__).parent / "lake_0_1"
ODD = "ALPHA\\private$\\{a}[b]*?%5C=#'\"~ über"
STREAM = "6bd4b6a8-1111-2222-3333-444444444444"
NAME = "queue=a/day=b/batch-0000000000-6bd4b6a811112222-0000.parquet"
MANAGERS = {"ALPHA": "11111111-2222-3333-4444-555555555555"}
STEPS_MAX = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(OLD, tmp_path / "lake")
    return tmp_path / "lake"


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Every data file: its inode and when it was written."""
    found = folder.glob("queue=*/day=*/*.parquet")
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def test_a_lake_of_version_0_1_is_a_delta_table_when_it_is_first_opened(folder: Path) -> None:
    before = files_of(folder)
    state = LakeFiles(folder).state()
    assert state.version == 1
    assert {(file.queue, file.rows) for file in state.files} == {(ORDERS, 2), (ORDERS, 1), (ODD, 1)}
    assert (state.through(ORDERS), state.through(ODD)) == (3, 4)
    assert (state.incarnation(ORDERS), state.incarnation(ODD)) == ("00112233445566ff", "")
    assert (state.has(STREAM, 1), state.has(STREAM, 2)) == (True, False)
    assert state.managers == MANAGERS
    assert files_of(folder) == before
    assert not (folder / "_posthouse" / "manifest.json").exists()


def test_others_read_what_was_converted(folder: Path) -> None:
    LakeFiles(folder).state()
    table = DeltaTable(str(folder))
    assert table.protocol()[:2] == (1, 2)
    found = table.to_pyarrow_table(columns=["queue", "lookup_id", "label"]).to_pylist()
    assert sorted((row["lookup_id"], row["queue"]) for row in found) == [
        (1, ORDERS), (2, ORDERS), (3, ORDERS), (4, ODD)
    ]  # fmt: skip
    frame = polars.read_delta(str(folder)).filter(polars.col("queue") == ORDERS)
    assert sorted(frame["lookup_id"].to_list()) == [1, 2, 3]
    # Polars believes the names of folders: names with other signs are whole in new files only.
    compact(folder, files_min=1)
    frame = polars.read_delta(str(folder)).select("lookup_id", "queue").sort("lookup_id")
    assert frame.rows() == [(1, ORDERS), (2, ORDERS), (3, ORDERS), (4, ODD)]


def test_a_converted_lake_goes_on_and_spark_reads_old_and_new_files(
    folder: Path, spark: SparkSession
) -> None:
    made = LakeFiles(folder)
    made.create()
    with pytest.raises(InvalidParameter, match="up to lookup id 3"):
        add_rows(made, 0, rows(ORDERS, [3]), query="another")
    add_rows(made, 2, rows(ORDERS, [5]), query=STREAM)
    frame = lake(folder, spark)
    assert frame.schema == LAKE_SCHEMA
    found = {row.lookup_id: (row.queue, row.label) for row in frame.collect()}
    assert found == {
        **{number: (ORDERS, f"label {number}") for number in (1, 2, 3)},
        4: (ODD, "label 4"),
        5: (ORDERS, "a\nlabel"),
    }
    assert compact(folder, files_min=2).replaced == 3
    made.sweep(keep_s=0)
    assert ids_in(made) == [1, 2, 3, 4, 5]
    assert {row.queue for row in lake(folder, spark).collect()} == {ORDERS, ODD}


def test_messages_are_erased_from_files_of_version_0_1_too(folder: Path) -> None:
    """Folders of that version have names that addresses write otherwise."""
    for number, left in ((1, [2, 3, 4]), (4, [2, 3])):
        done = erase(folder, f"label = 'label {number}'")
        assert (done.messages, done.left, done.unknown) == (1, 0, ())
        assert ids_in(LakeFiles(folder)) == left
    assert len(data_files(LakeFiles(folder))) == 2


def test_power_loss_at_every_step_of_a_conversion_leaves_the_old_lake_or_the_new_one(
    tmp_path: Path,
) -> None:
    for steps in range(STEPS_MAX):
        folder = tmp_path / str(steps)
        shutil.copytree(OLD, folder)
        disk = FragileDisk(steps, keeps_names=bool(steps % 2))
        try:
            LakeFiles(folder, disk).state()
        except PowerLoss:
            disk.lose_power()
            after = LakeFiles(folder, Disk())
            assert ids_in(after) == [1, 2, 3, 4]
            assert after.state().managers == MANAGERS, steps
        else:
            break
    assert steps > 5
    assert len(data_files(LakeFiles(folder))) == 4


# -- the manifest is never believed blindly


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "queue=a/../../../x.parquet",
        f"queue=a/day=b/../{NAME.rpartition('/')[2]}",
        f"queue=../day=b/{NAME.rpartition('/')[2]}/x",
        "queue=a/day=b/mine.parquet",
        "_posthouse/manifest.json",
    ],
)
def test_a_manifest_that_names_other_files_is_refused(path: str) -> None:
    hostile = Manifest(files=[LakeFile(path, "q", "2026-11-15", 1, 100, 1, 1, 0, 0)])
    with pytest.raises(InvalidParameter, match="not a file of a lake"):
        parsed(msgspec.json.encode(hostile), Path("manifest.json"))


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    try:
        assert isinstance(parsed(data, Path("manifest.json")), Manifest)
    except InvalidParameter:
        return


def test_another_format_is_not_guessed_at(folder: Path) -> None:
    (folder / "_posthouse" / "manifest.json").write_bytes(b'{"format": 2}')
    with pytest.raises(InvalidParameter, match="format 2"):
        LakeFiles(folder).state()
    assert (folder / "_posthouse" / "manifest.json").exists()
