"""Batches come into a lake once, and entirely, whatever happens meanwhile. No Spark is needed."""

from __future__ import annotations

import json
import os
import re
import threading
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake import Schema as DeltaSchema

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.spark.lakes import log as lake_log
from posthouse.spark.lakes.columns import LAKE_COLUMNS, PARTED_BY
from posthouse.spark.lakes.compaction import compact, rewritten
from posthouse.spark.lakes.disk import Disk
from posthouse.spark.lakes.files import KEEP_S, FilesGone, LakeFiles
from posthouse.spark.lakes.lake_paths import lake_place
from tests.spark.lake_samples import (
    DAY,
    NOON,
    ORDERS,
    QUERY,
    FragileDisk,
    PowerLoss,
    add,
    add_rows,
    data_files,
    ids_in,
    rows,
    written,
)

STEPS_MAX = 80
UMLAUT = "ALPHA\\private$\\Aufträge über " + "ß" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "my lake [*]"


@pytest.fixture
def lake(folder: Path) -> LakeFiles:
    lake = LakeFiles(folder)
    lake.create()
    return lake


def test_a_lake_is_a_table_that_every_reader_of_delta_knows(lake: LakeFiles, folder: Path) -> None:
    table = DeltaTable(str(folder))
    assert table.protocol()[:2] == (1, 2)
    assert not table.protocol().reader_features
    assert table.metadata().partition_columns == list(PARTED_BY)
    assert pa.schema(table.schema().to_arrow()).equals(LAKE_COLUMNS)


def test_a_batch_is_described_and_counts_for_its_queue(lake: LakeFiles) -> None:
    assert add(lake, [5, 6, 7], 17)
    state = lake.state()
    (file,) = state.files
    pattern = r"ALPHA-private-orders-[0-9a-f]{16}/2026-11-15/messages-[0-9a-f]{32}\.parquet"
    assert re.fullmatch(pattern, file.path)
    assert (file.queue, file.day) == (ORDERS, "2026-11-15")
    assert (file.rows, file.first_id, file.last_id) == (3, 5, 7)
    assert file.last_us - file.first_us == 2_000_000
    assert (state.through(ORDERS), state.has(QUERY, 17), state.has(QUERY, 18)) == (7, True, False)
    assert ids_in(lake) == [5, 6, 7]


def test_a_batch_and_what_it_counts_for_are_one_entry_of_the_log(lake: LakeFiles) -> None:
    before = lake.state().version
    files = written(lake, rows(ORDERS, [5]))
    lake.add(files, QUERY, 3, {ORDERS: "ffee000000000001"})
    state = lake.state()
    assert state.version == before + 1
    assert (state.through(ORDERS), state.incarnation(ORDERS)) == (5, "ffee000000000001")
    lake.add(written(lake, rows(ORDERS, [6])), QUERY, 4)
    assert lake.state().incarnation(ORDERS) == ""


def test_days_are_those_of_utc_and_each_has_its_file(lake: LakeFiles) -> None:
    late = NOON + timedelta(hours=12, seconds=-3)
    files = written(lake, rows(ORDERS, range(1, 5), late), rows(ORDERS, [9], NOON - 3 * DAY))
    lake.add(files, QUERY, 0)
    found = {file.day: file.rows for file in lake.state().files}
    assert found == {"2026-11-12": 1, "2026-11-15": 2, "2026-11-16": 2}


def test_queues_keep_their_names_and_folders_are_ascii(lake: LakeFiles, folder: Path) -> None:
    add_rows(lake, 0, rows(ORDERS, [1]), rows(UMLAUT, [2]), rows("ALPHA\\private$\\a/b", [3]))
    assert set(lake.state().queues) == {ORDERS, UMLAUT, "ALPHA\\private$\\a/b"}
    assert all(path.isascii() for path in data_files(lake))
    table = DeltaTable(str(folder)).to_pyarrow_table()
    assert set(table["queue"].to_pylist()) == set(lake.state().queues)


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


def test_an_empty_batch_counts(lake: LakeFiles) -> None:
    assert lake.add([], QUERY, 3).rows == 0
    assert lake.state().has(QUERY, 3)


def test_files_that_did_not_arrive_in_the_folder_are_noticed(lake: LakeFiles) -> None:
    """As on a cluster whose executors have a folder of that name for themselves."""
    assert lake.place.folder is not None
    (file,) = written(lake, rows(ORDERS, [1, 2]))
    (lake.place.folder / file.path).unlink()
    with pytest.raises(FilesGone, match="executors share"):
        lake.add([file], QUERY, 0)
    assert ids_in(lake) == []


def test_messages_that_another_stream_has_archived_are_refused(lake: LakeFiles) -> None:
    add(lake, [1, 2, 3], 0)
    with pytest.raises(InvalidParameter, match="up to lookup id 3"):
        add(lake, [3, 4], 0, "another")
    assert add(lake, [4], 0, "another")
    assert ids_in(lake) == [1, 2, 3, 4]


def test_a_lake_remembers_what_it_had_of_a_queue_when_the_files_are_gone(lake: LakeFiles) -> None:
    """Else what is still in the queue would be archived again after it has been dropped."""
    add(lake, [1, 2], 0)
    assert lake.replace(lake.state().files, [], is_same=False)
    assert (lake.state().files, lake.state().through(ORDERS)) == ([], 2)


def test_several_hosts_at_once_lose_nothing(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads stand for hosts: locks mean nothing between them, and the link decides."""
    monkeypatch.setattr(lake_log, "locked", lambda *_: nullcontext())

    def write(number: int) -> None:
        mine = LakeFiles(str(lake.place))
        add_rows(mine, 0, rows(f"ALPHA\\private$\\q{number}", [1]), query=f"stream {number}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.state().rows == 6
    assert lake.state().version == 6


def test_an_entry_that_another_host_was_faster_with_is_made_again(lake: LakeFiles) -> None:
    class Slow(Disk):
        raced = False

        def link(self, old: Path, new: Path) -> bool:
            if not self.raced:
                self.raced = True
                new.write_bytes(
                    b'{"commitInfo":{"timestamp":1,"operation":"WRITE","operationParameters":{}}}\n'
                )
            return super().link(old, new)

    slow = Slow()
    before = lake.state().version
    assert add(LakeFiles(str(lake.place), slow), [1], 0)
    assert slow.raced
    assert lake.state().version == before + 2
    assert ids_in(lake) == [1]


# -- the table


def test_a_new_lake_is_empty_and_can_be_made_again(lake: LakeFiles) -> None:
    lake.create()
    assert (lake.state().version, lake.state().files) == (0, [])


def test_columns_that_a_table_lacks_are_added_and_null_in_older_files(folder: Path) -> None:
    older = pa.schema([field for field in LAKE_COLUMNS if field.name != "label"])
    DeltaTable.create(str(folder), DeltaSchema.from_arrow(older), partition_by=list(PARTED_BY))
    lake = LakeFiles(folder)
    assert add_rows(lake, 0, rows(ORDERS, [1])).rows == 1
    lake.create()
    add_rows(lake, 1, rows(ORDERS, [2]))
    table = DeltaTable(str(folder)).to_pyarrow_table()
    assert "label" in table.schema.names
    assert ids_in(lake) == [1, 2]


def test_columns_of_a_newer_version_are_kept(folder: Path) -> None:
    newer = LAKE_COLUMNS.append(pa.field("mood", pa.string()))
    DeltaTable.create(str(folder), DeltaSchema.from_arrow(newer), partition_by=list(PARTED_BY))
    lake = LakeFiles(folder)
    with lake.writer(ORDERS) as writer:
        writer.add(rows(ORDERS, [1]).append_column("mood", pa.array(["good"])))
        lake.add(writer.close(), QUERY, 0)
    new = rewritten(lake, lake.state().files)
    assert lake.replace(lake.state().files, new)
    assert DeltaTable(str(folder)).to_pyarrow_table()["mood"].to_pylist() == ["good"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(InvalidParameter, match=r"not a lake: it holds 'holiday\.jpg'"):
        LakeFiles(tmp_path).create()
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_table_of_something_else_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    sales = pa.table({"price": [1, 2], "queue": ["a", "b"]})
    write_deltalake(tmp_path, sales)
    before = sorted(tmp_path.rglob("*"))
    for use in (LakeFiles(tmp_path).create, LakeFiles(tmp_path).state):
        with pytest.raises(InvalidParameter, match="not a lake"):
            use()
    assert sorted(tmp_path.rglob("*.parquet")) == [p for p in before if p.suffix == ".parquet"]
    assert DeltaTable(tmp_path).to_pyarrow_table().equals(sales)


def test_a_lake_whose_files_hold_rows_that_were_deleted_is_refused(lake: LakeFiles) -> None:
    """Another program may switch deletion vectors on: what it deleted would come back."""
    add(lake, [1, 2], 0)
    before = lake.state().version
    entry = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    }
    assert lake.place.folder is not None
    path = lake.place.folder / "_delta_log" / f"{before + 1:020}.json"
    path.write_text(json.dumps({"protocol": entry}) + "\n", encoding="ascii")
    for use in (lake.state, lake.create, lambda: add(lake, [3], 1)):
        with pytest.raises(InvalidParameter, match="deletionVectors"):
            use()
    assert lake.log.table().version() == before + 1


def test_a_lake_whose_log_is_lost_is_not_begun_again(lake: LakeFiles, folder: Path) -> None:
    """Else all its files would count as left over."""
    add(lake, [1], 0)
    (folder / "_delta_log").rename(folder.parent / "elsewhere")
    with pytest.raises(InvalidParameter, match="without its log"):
        lake.create()


@pytest.mark.parametrize("path", ["lake", "lake/a/file"])
def test_what_is_not_a_lake_is_said_to_be_none(tmp_path: Path, path: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").touch()
    with pytest.raises(StatusNotFound, match="is not a lake"):
        LakeFiles(tmp_path / path).state()


def test_a_new_queue_manager_of_an_old_name_is_refused(lake: LakeFiles) -> None:
    lake.know_managers({"ALPHA": "one"})
    lake.know_managers({"ALPHA": "one", "BRAVO": "two"})
    assert lake.state().managers == {"ALPHA": "one", "BRAVO": "two"}
    with pytest.raises(InvalidParameter, match="another queue manager that was called BRAVO"):
        lake.know_managers({"BRAVO": "three"})


def test_a_lake_has_no_past_before_its_first_version(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    now = datetime.now(UTC)
    assert lake.state_as_of(now).rows == lake.state_as_of(now.replace(tzinfo=None)).rows == 1
    with pytest.raises(InvalidParameter, match="begins at 2"):
        lake.state_as_of(now - timedelta(days=400))
    with pytest.raises(InvalidParameter, match=r"no version 99: its newest is [0-9]\. Entries"):
        lake.state_as_of(99)


def test_a_long_log_gets_checkpoints_and_says_the_same(
    lake: LakeFiles, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_log, "CHECKPOINT_EVERY", 3)
    for number in range(8):
        add(lake, [number], number)
    assert len(list((folder / "_delta_log").glob("*.checkpoint.parquet"))) == 2
    assert ids_in(lake) == list(range(8))
    assert (lake.state().through(ORDERS), lake.state().has(QUERY, 7)) == (7, True)
    assert LakeFiles(folder).state_as_of(2).rows == 2
    assert list((folder / "_posthouse" / "changes").iterdir()) == []


def test_a_log_that_begins_with_another_programs_checkpoint_in_parts_goes_on(
    lake: LakeFiles, folder: Path
) -> None:
    for number in range(3):
        add(lake, [number], number)
    lake.log.tidy(0)
    log = folder / "_delta_log"
    version = json.loads((log / "_last_checkpoint").read_bytes())["version"]
    parts = f"{version:020}.checkpoint.0000000001.0000000001.parquet"
    (log / f"{version:020}.checkpoint.parquet").rename(log / parts)
    last = {"version": version, "size": 10, "parts": 1}
    (log / "_last_checkpoint").write_text(json.dumps(last), encoding="ascii")
    for number in range(version):
        (log / f"{number:020}.json").unlink()
    assert not add(lake, [2], 2)
    assert add(lake, [3], 3)
    assert ids_in(lake) == [0, 1, 2, 3]


@pytest.mark.parametrize("path", ["hdfs://host/lake", "ftp://host/lake"])
def test_places_that_no_lake_can_be_at_are_refused(path: str) -> None:
    with pytest.raises(InvalidParameter, match="cannot lie at"):
        lake_place(path)


def test_a_folder_may_be_named_as_a_uri_and_a_bucket_too() -> None:
    assert lake_place("file:///data/my%20lake").folder == Path("/data/my lake")
    store = lake_place("s3://bucket/lake/", {"aws_region": "eu-central-1"})
    assert (store.folder, store.uri) == (None, "s3://bucket/lake")
    assert store.store_options == {"aws_region": "eu-central-1"}


# -- files that go


def test_replaced_files_stay_for_seven_days(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    add(lake, [2], 1)
    old = lake.state().files
    assert lake.replace(old, rewritten(lake, sorted(old, key=lambda file: file.first_id)))
    assert lake.sweep() == 0
    assert len(data_files(lake)) == 3
    assert lake.state_as_of(lake.state().version - 1).rows == 2
    _age(lake, KEEP_S + 60)
    assert lake.sweep(keep_s=0) == 2
    assert data_files(lake) == [lake.state().files[0].path]
    assert ids_in(lake) == [1, 2]
    with pytest.raises(InvalidParameter, match="2 files that were deleted"):
        lake.state_as_of(lake.state().version - 1)


def _age(lake: LakeFiles, seconds: float) -> None:
    assert lake.place.folder is not None
    for name in data_files(lake):
        path = lake.place.folder / name
        before = path.stat().st_mtime - seconds
        os.utime(path, (before, before))


def test_a_replacement_that_comes_second_changes_nothing(lake: LakeFiles) -> None:
    add(lake, [1], 0)
    old = lake.state().files
    for first in (True, False):
        assert lake.replace(old, rewritten(lake, old)) is first
    assert ids_in(lake) == [1]


def test_a_compaction_that_lost_rows_is_refused(lake: LakeFiles) -> None:
    add(lake, [1, 2], 0)
    old = lake.state().files
    with pytest.raises(InvalidParameter, match="other rows"):
        lake.replace(old, written(lake, rows(ORDERS, [1])))
    assert ids_in(lake) == [1, 2]


def test_a_sweep_deletes_what_no_version_names_and_nothing_else(lake: LakeFiles) -> None:
    assert lake.place.folder is not None
    add(lake, [1], 0)
    (orphan,) = written(lake, rows(ORDERS, [9]))
    folder = (lake.place.folder / orphan.path).parent
    (folder / "mine.parquet").touch()
    assert lake.sweep() == 0  # a writer may still be at it
    _age(lake, KEEP_S + 60)
    assert lake.sweep() == 1
    assert not (lake.place.folder / orphan.path).exists()
    assert (folder / "mine.parquet").exists()
    assert ids_in(lake) == [1]


def test_small_files_become_one_and_the_rows_stay(lake: LakeFiles, folder: Path) -> None:
    for number in range(4):
        add(lake, [number * 10], number)
    add_rows(lake, 4, rows(UMLAUT, [50]))
    done = compact(folder, files_min=3)
    assert (done.replaced, done.written, done.rows) == (4, 1, 4)
    assert ids_in(lake) == [0, 10, 20, 30, 50]
    assert len(lake.state().files) == 2
    assert compact(folder, files_min=3) == (0, 0, 0)
    assert lake.state().through(ORDERS) == 30


# -- power failures


class Fragile:
    """A lake with two batches, then a step that is cut off, then what is found afterwards."""

    def __init__(self, folder: Path, steps: int, keeps_names: bool) -> None:
        self.sound = LakeFiles(folder / "lake")
        self.sound.create()
        add(self.sound, [1], 0)
        self.sound.log.tidy(0)  # there is a checkpoint that another one will replace
        add(self.sound, [2], 1)
        self.disk = FragileDisk(steps, keeps_names)
        self.lake = LakeFiles(folder / "lake", self.disk)

    def archive(self) -> None:
        files = written(self.lake, rows(ORDERS, [3, 4, 100_000]))
        self.lake.add(files, QUERY, 2)

    def compact(self) -> None:
        old = self.sound.state().files
        self.lake.replace(old, rewritten(self.lake, old))

    def tidy(self) -> None:
        self.lake.log.tidy(lake_log.CHECKPOINT_EVERY)

    def sweep(self) -> None:
        self.lake.sweep(keep_s=0)

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
    """Two data files in two days, then the entry: nothing is acknowledged before `add` returns."""
    whole = [1, 2, 3, 4, 100_000]
    done = False
    for steps in range(STEPS_MAX):
        fragile = Fragile(tmp_path / str(steps), steps, keeps_names)
        done = fragile.survives("archive")
        found = ids_in(fragile.sound)
        assert found in ([1, 2], whole)
        assert not done or found == whole
        add(fragile.sound, [3, 4, 100_000], 2)  # the stream comes again with it
        fragile.sound.sweep(keep_s=0)
        assert ids_in(fragile.sound) == whole
        assert len(data_files(fragile.sound)) == len(fragile.sound.state().files)
        if done:
            break
    assert done
    assert steps > 8


def test_what_a_killed_process_has_begun_is_durable_when_the_next_one_has_done_it(
    tmp_path: Path,
) -> None:
    """A folder or an entry that is there need not be on the disk."""
    for steps in range(STEPS_MAX):
        disk = FragileDisk(steps, keeps_names=False)
        lake = LakeFiles(tmp_path / str(steps) / "lake", disk)
        (tmp_path / str(steps)).mkdir()
        killed = False
        for left in (steps, 1000):
            disk.steps_left = left
            try:
                lake.create()
                lake.add(written(lake, rows(ORDERS, [1, 100_000])), QUERY, 0)
                break
            except PowerLoss:  # a kill, here: what the system has, the next process sees
                killed = True
        disk.lose_power()
        assert ids_in(LakeFiles(str(lake.place))) == [1, 100_000], steps
        if not killed:
            break
    assert not killed
    assert steps > 15


@pytest.mark.parametrize("keeps_names", [True, False])
def test_power_loss_at_every_step_of_a_compaction_a_checkpoint_and_a_sweep_loses_nothing(
    tmp_path: Path, keeps_names: bool
) -> None:
    done = False
    for steps in range(STEPS_MAX):
        fragile = Fragile(tmp_path / str(steps), steps, keeps_names)
        done = fragile.survives("compact", "tidy", "sweep")
        last = tmp_path / str(steps) / "lake" / "_delta_log" / "_last_checkpoint"
        assert json.loads(last.read_bytes())["version"] >= 1  # not all readers do without it
        assert ids_in(fragile.sound) == [1, 2]
        fragile.sound.sweep(keep_s=0)
        assert ids_in(fragile.sound) == [1, 2]
        assert len(data_files(fragile.sound)) == len(fragile.sound.state().files)
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
            LakeFiles(str(lake.place), Disk()).create()
            assert ids_in(lake) == []
        else:
            break
    assert steps > 4
