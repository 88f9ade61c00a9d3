"""A lake in an object store: the same batches, once, by whoever puts the entry first.

The bucket is one of ours; the same calls have been tried with moto's S3.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.compaction import compact
from posthouse.spark.lakes.erasure import erase
from posthouse.spark.lakes.files import FilesGone, LakeFiles
from tests.process.object_store import BUCKET, Bucket, bucket
from tests.spark.lake_samples import ORDERS, QUERY, add_rows, rows, written

ADDRESS = f"s3://{BUCKET}/archives/lake"


@pytest.fixture
def store() -> Iterator[Bucket]:
    with bucket() as running:
        yield running


@pytest.fixture
def lake(store: Bucket) -> LakeFiles:
    lake = LakeFiles(ADDRESS, storage_options=store.options)
    lake.create()
    lake.create()
    lake.know_managers({"ALPHA": "guid"})
    for number in range(3):
        add_rows(lake, number, rows(ORDERS, [number], label=f"label {number}"))
    return lake


def ids(lake: LakeFiles) -> list[int]:
    table = DeltaTable(ADDRESS, storage_options=lake.place.store_options)
    return sorted(table.to_pyarrow_table()["lookup_id"].to_pylist())


def test_batches_come_into_an_object_store_once(lake: LakeFiles, store: Bucket) -> None:
    assert add_rows(lake, 2, rows(ORDERS, [2])).skipped
    assert ids(lake) == [0, 1, 2]
    state = lake.state()
    assert (state.through(ORDERS), state.has(QUERY, 2)) == (2, True)
    assert state.managers == {"ALPHA": "guid"}
    assert all(name.startswith("archives/lake/") for name in store.names)


def test_the_first_of_several_writers_wins_and_the_others_come_after(
    lake: LakeFiles, store: Bucket
) -> None:
    def write(number: int) -> None:
        mine = LakeFiles(ADDRESS, storage_options=store.options)
        add_rows(mine, 0, rows(f"ALPHA\\private$\\q{number}", [1]), query=f"stream {number}")

    before = lake.state().version
    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (lake.state().rows, lake.state().version) == (7, before + 4)


def test_files_that_are_not_in_the_store_are_not_named(lake: LakeFiles, store: Bucket) -> None:
    (file,) = written(lake, rows(ORDERS, [9]))
    store.delete(f"archives/lake/{file.path}")
    with pytest.raises(FilesGone, match="is not in s3://"):
        lake.add([file], QUERY, 3)


def test_a_lake_in_a_store_is_compacted_and_erased_from(lake: LakeFiles, store: Bucket) -> None:
    assert compact(ADDRESS, files_min=3, storage_options=store.options) == (3, 1, 3)
    assert ids(lake) == [0, 1, 2]
    done = erase(ADDRESS, "label = 'label 1'", storage_options=store.options)
    assert (done.messages, done.left) == (1, 0)
    assert ids(lake) == [0, 2]
    data = [name for name in store.names if name.endswith(".parquet")]
    assert [name for name in data if "_delta_log" not in name] == [
        f"archives/lake/{file.path}" for file in lake.state().files
    ]


def test_an_erasure_leaves_what_another_writer_is_about_to_name(
    lake: LakeFiles, store: Bucket
) -> None:
    """No lock keeps it away: its messages were acknowledged, and their file was gone."""
    (left,) = written(lake, rows(ORDERS, [8]))
    store.age(f"archives/lake/{left.path}", 2 * 3600)
    (file,) = written(lake, rows(ORDERS, [9]))
    done = erase(ADDRESS, "label = 'label 1'", storage_options=store.options)
    assert (done.messages, done.left, done.unknown) == (1, 0, (file.path,))
    assert f"archives/lake/{left.path}" not in store.names
    lake.add([file], QUERY, 3)
    assert ids(lake) == [0, 2, 9]
    assert erase(ADDRESS, "label = 'label 2'", storage_options=store.options).unknown == ()


def test_progress_is_kept_in_a_folder(lake: LakeFiles, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="--checkpoint DIR"):
        lake.progress_folder("checkpoints", "key")
    assert LakeFiles(tmp_path).progress_folder("checkpoints", "key").is_relative_to(tmp_path)
