"""Batches come into a lake once, and entirely, whatever happens meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.files import KEEP_S, LakeFiles, Swept, lake_folder
from tests.spark.lake_samples import (
    FOLDER,
    NEXT_DAY,
    ORDERS,
    QUERY,
    FragileDisk,
    PowerLoss,
    add,
    ids_in,
    write_parquet,
)

STEPS_MAX = 60


@pytest.fixture
def lake(tmp_path: Path) -> LakeFiles:
    lake = LakeFiles(tmp_path / "lake", now=lambda: 1000.0)
    lake.create()
    return lake


def data_files(lake: LakeFiles) -> list[str]:
    return sorted(path.name for path in lake.root.glob("queue=*/day=*/*"))


def test_a_batch_is_named_by_its_number_and_described(lake: LakeFiles) -> None:
    assert add(lake, [5, 6, 7], 17)
    (file,) = lake.manifests.read().files
    assert re.fullmatch(r"batch-0000000017-[0-9a-f]{16}-0000\.parquet", Path(file.path).name)
    assert Path(file.path).parent == Path(FOLDER)
    assert (file.queue, file.day) == (ORDERS, "2026-11-15")
    assert (file.rows, file.first_id, file.last_id) == (3, 5, 7)
    assert file.last_us - file.first_us == 2_000_000
    assert lake.manifests.read().through == {ORDERS: 7}
    assert ids_in(lake) == [5, 6, 7]


def test_a_batch_that_comes_again_is_skipped(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    add(lake, [2], 1)
    assert not add(lake, [2], 1)
    assert not add(lake, [1], 0)
    assert ids_in(lake) == [1, 2]


def test_a_batch_that_comes_again_with_more_messages_brings_those(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    assert add(lake, [2], 0)
    assert ids_in(lake) == [1, 2]
    assert len(set(data_files(lake))) == 2


def test_an_empty_batch_counts(lake: LakeFiles) -> None:
    with lake.staging() as folder:
        folder.mkdir()
        assert lake.add(folder, 0, QUERY, 3).rows == 0
    assert lake.manifests.read().has(QUERY, 3)


def test_rows_that_did_not_arrive_in_the_folder_are_noticed(lake: LakeFiles) -> None:
    """As on a cluster whose executors have a folder of that name for themselves."""
    with lake.staging() as folder:
        write_parquet(folder, [1, 2])
        with pytest.raises(InvalidParameter, match="executors share"):
            lake.add(folder, 3, QUERY, 0)
    assert ids_in(lake) == []


def test_messages_that_another_stream_has_archived_are_refused(lake: LakeFiles) -> None:
    add(lake, [1, 2, 3], 0)
    with pytest.raises(InvalidParameter, match="up to lookup id 3"):
        add(lake, [3, 4], 0, "another")
    assert add(lake, [4], 0, "another")
    assert ids_in(lake) == [1, 2, 3, 4]


def test_replaced_files_stay_for_an_hour(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    add(lake, [2], 1)
    old = lake.manifests.read().files
    with lake.staging() as folder:
        write_parquet(folder, [1, 2])
        assert lake.replace(old, folder)
    assert lake.sweep() == Swept(0, 0, 0)
    assert all((lake.root / file.path).exists() for file in old)
    lake.now = lambda: 1000.0 + KEEP_S
    assert lake.sweep() == Swept(2, 0, 0)
    assert len(data_files(lake)) == 1
    assert lake.manifests.read().removed == []
    assert ids_in(lake) == [1, 2]


def test_a_compaction_that_comes_second_changes_nothing(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    old = lake.manifests.read().files
    for first in (True, False):
        with lake.staging() as folder:
            write_parquet(folder, [1])
            assert lake.replace(old, folder) is first
    assert ids_in(lake) == [1]
    assert lake.sweep().orphans == 0


def test_a_compaction_that_lost_rows_is_refused(lake: LakeFiles) -> None:
    add(lake, [1, 2], 0)
    with lake.staging() as folder:
        write_parquet(folder, [1])
        with pytest.raises(InvalidParameter):
            lake.replace(lake.manifests.read().files, folder)
    assert ids_in(lake) == [1, 2]


def test_a_sweep_deletes_nothing_that_is_not_a_lakes(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    (lake.root / FOLDER / "mine.parquet").touch()
    orphan = "batch-0000000009-6bd4b6a811112222-0000.parquet"
    (lake.root / FOLDER / orphan).touch()
    assert lake.sweep() == Swept(0, 1, 0)
    assert "mine.parquet" in data_files(lake)
    assert orphan not in data_files(lake)


def test_a_sweep_leaves_alone_what_somebody_writes(lake: LakeFiles) -> None:
    with lake.staging() as folder:
        write_parquet(folder, [1])
        assert LakeFiles(lake.root).sweep() == Swept(0, 0, 0)
        assert lake.add(folder, 1, QUERY, 0).rows == 1
    assert list((lake.root / "_posthouse" / "staging").iterdir()) == []


def test_a_sweep_deletes_the_staging_of_the_dead(lake: LakeFiles) -> None:
    staging = lake.root / "_posthouse" / "staging"
    write_parquet(staging / "ab", [1])
    (staging / "ab.lock").touch()
    assert lake.sweep() == Swept(0, 0, 1)
    assert list(staging.iterdir()) == []


@pytest.mark.parametrize("path", ["s3a://bucket/lake", "hdfs://host/lake"])
def test_places_that_are_no_folder_here_are_refused(path: str) -> None:
    with pytest.raises(InvalidParameter, match="no folder here"):
        lake_folder(path)


def test_a_folder_may_be_named_as_a_uri() -> None:
    assert lake_folder("file:///data/my%20lake") == Path("/data/my lake")


class Fragile:
    """A lake with two batches, then a step that is cut off, then what is found afterwards."""

    def __init__(self, folder: Path, steps: int, keeps_names: bool) -> None:
        self.sound = LakeFiles(folder / "lake", now=lambda: 1000.0)
        self.sound.create()
        add(self.sound, [1], 0)
        add(self.sound, [2], 1)
        self.disk = FragileDisk(steps, keeps_names)
        self.lake = LakeFiles(self.sound.root, self.disk, now=lambda: 1000.0)

    def archive(self) -> None:
        with self.lake.staging() as folder:
            write_parquet(folder, [3])
            write_parquet(folder, [4], NEXT_DAY)
            self.disk.written_by_others(folder)
            self.lake.add(folder, 2, QUERY, 2)

    def compact(self) -> None:
        with self.lake.staging() as folder:
            write_parquet(folder, [1, 2])
            self.disk.written_by_others(folder)
            self.lake.replace(self.sound.manifests.read().files, folder)

    def sweep(self) -> None:
        self.lake.now = lambda: 1000.0 + 2 * KEEP_S
        self.lake.sweep()

    def survives(self, *steps: str) -> bool:
        """Does them; whether they came to their end before the power went."""
        try:
            for step in steps:
                getattr(self, step)()
        except PowerLoss:
            self.disk.lose_power()
            return False
        self.disk.lose_power()
        return True


@pytest.mark.parametrize("keeps_names", [True, False])
def test_power_loss_at_every_step_of_a_batch_leaves_all_of_it_or_nothing(
    tmp_path: Path, keeps_names: bool
) -> None:
    done = False
    for steps in range(STEPS_MAX):
        fragile = Fragile(tmp_path / str(steps), steps, keeps_names)
        done = fragile.survives("archive")
        found = ids_in(fragile.sound)
        assert found in ([1, 2], [1, 2, 3, 4])
        assert not done or found == [1, 2, 3, 4]
        add(fragile.sound, [3, 4], 2)  # the stream comes again with it
        fragile.sound.sweep()
        assert ids_in(fragile.sound) == [1, 2, 3, 4]
        assert len(data_files(fragile.sound)) == len(fragile.sound.manifests.read().files)
        if done:
            break
    assert done
    assert steps > 8


@pytest.mark.parametrize("keeps_names", [True, False])
def test_power_loss_at_every_step_of_a_compaction_and_its_sweep_loses_nothing(
    tmp_path: Path, keeps_names: bool
) -> None:
    done = False
    for steps in range(STEPS_MAX):
        fragile = Fragile(tmp_path / str(steps), steps, keeps_names)
        done = fragile.survives("compact", "sweep")
        assert ids_in(fragile.sound) == [1, 2]
        fragile.sound.now = lambda: 1000.0 + 4 * KEEP_S
        fragile.sound.sweep()
        assert ids_in(fragile.sound) == [1, 2]
        assert len(data_files(fragile.sound)) == len(fragile.sound.manifests.read().files)
        if done:
            break
    assert done
    assert steps > 10


def test_power_loss_at_every_step_of_making_a_lake(tmp_path: Path) -> None:
    for steps in range(STEPS_MAX):
        disk = FragileDisk(steps, keeps_names=False)
        lake = LakeFiles(tmp_path / str(steps) / "deep" / "lake", disk)
        try:
            lake.create()
        except PowerLoss:
            disk.lose_power()
            LakeFiles(lake.root, Disk()).create()
            assert ids_in(lake) == []
        else:
            break
    assert steps > 4
