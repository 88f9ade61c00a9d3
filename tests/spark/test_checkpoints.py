"""Checkpoints of Spark: only what is in `commits` counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from posthouse.model.errors import InvalidParameter
from posthouse.spark import settle
from posthouse.spark.checkpoints import check_checkpoint, committed_offsets, sync_checkpoint
from posthouse.spark.offsets import StreamOffset
from posthouse.spark.schema import message_schema
from posthouse.spark.source import PosthouseSource


def offset(number: int) -> StreamOffset:
    return StreamOffset("g", {"ALPHA\\q": number}, {"ALPHA": "http://a"})


def line(number: int) -> str:
    return json.dumps(offset(number).to_json())


def write(
    folder: Path, *, offsets: dict[int, list[str]], commits: list[int], version: str = "v1"
) -> str:
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    for batch, lines in offsets.items():
        text = "\n".join([version, '{"batchWatermarkMs":0}', *lines])
        (folder / "offsets" / str(batch)).write_text(text)
    for batch in commits:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (folder / "commits" / f".{batch}.crc").write_bytes(b"crc")
    return str(folder)


def test_the_last_committed_batch_counts_and_no_planned_one(tmp_path: Path) -> None:
    path = write(tmp_path, offsets={9: [line(9)], 10: [line(10)], 11: [line(11)]}, commits=[9, 10])
    assert committed_offsets(path) == [offset(10)]
    assert committed_offsets(f"file://{path}") == [offset(10)]
    assert committed_offsets(f"file:{path}/") == [offset(10)]


def test_a_stream_that_never_committed_has_nothing(tmp_path: Path) -> None:
    assert committed_offsets(str(tmp_path / "missing")) == []
    assert committed_offsets(write(tmp_path, offsets={0: [line(1)]}, commits=[])) == []


def test_other_sources_are_passed_over(tmp_path: Path) -> None:
    lines = ["-", '{"logOffset":3}', "17", "not json", line(5), '"text"']
    path = write(tmp_path, offsets={0: lines}, commits=[0])
    assert committed_offsets(path) == [offset(5)]


@pytest.mark.parametrize("name", ["0", "orders", "my_queues"])
def test_lines_that_name_their_source_are_read(name: str, tmp_path: Path) -> None:
    lines = ["other:{}", "1:-", "2:17", f"{name}:{line(5)}"]
    path = write(tmp_path, offsets={0: lines}, commits=[0], version="v2")
    assert committed_offsets(path) == [offset(5)]
    check_checkpoint(path)


def test_a_named_line_that_is_cut_short_is_told(tmp_path: Path) -> None:
    path = write(tmp_path, offsets={0: [f"orders:{line(5)}"[:-9]]}, commits=[0], version="v2")
    with pytest.raises(InvalidParameter, match="offsets/0 is empty or cut short"):
        settle(path)


def test_a_format_that_cannot_be_read_is_not_taken_for_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, offsets={0: [line(5)]}, commits=[0], version="v3")
    with pytest.raises(InvalidParameter, match=r"format v3.*Update posthouse"):
        settle(path)


@pytest.mark.parametrize("lines", [["-"], ['{"logOffset":3}'], ["0:17"], ['{"mode":"a","v":1}']])
def test_a_checkpoint_of_something_else_is_not_taken_for_nothing(
    lines: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter, match="no offset of a stream that reads queues"):
        settle(write(tmp_path, offsets={0: lines}, commits=[0]))


def test_a_damaged_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="the checkpoint is damaged"):
        committed_offsets(write(tmp_path, offsets={}, commits=[0]))


@pytest.mark.parametrize(
    "path", ["nowhere://a/b", "s3a://bucket/a", "s3a:/bucket/a", "hdfs:/a", "dbfs:/a", "viewfs:a"]
)
def test_a_checkpoint_that_only_spark_can_reach_is_told_with_what_to_do(path: str) -> None:
    """And is not taken for a folder of that name here, in which there is nothing to settle."""
    told = "cannot be reached from here.*Leave the option `checkpoint` out.*copy"
    with pytest.raises(InvalidParameter, match=told):
        committed_offsets(path)
    with pytest.raises(InvalidParameter, match=told):
        settle(path)
    check_checkpoint(path)


def test_a_checkpoint_that_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameter, match="file cannot be read: Not a directory"):
        check_checkpoint(f"file:{tmp_path}/file")


def test_nothing_is_settled_where_no_checkpoint_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="there is no checkpoint"):
        settle(tmp_path / "missing")
    (tmp_path / "other").mkdir()
    with pytest.raises(InvalidParameter, match="is not a checkpoint: it has none of metadata"):
        settle(tmp_path / "other")
    assert settle(write(tmp_path, offsets={0: [line(1)]}, commits=[])) == []


def test_a_stream_with_a_schema_of_its_own_looks_at_its_checkpoint_too(tmp_path: Path) -> None:
    path = write(tmp_path, offsets={0: []}, commits=[])
    source = PosthouseSource({"queue": "q", "checkpoint": path})
    refused = source.streamReader(message_schema(["label"]))
    for ask in (source.schema, refused.initialOffset):
        with pytest.raises(InvalidParameter, match="offsets/0 is empty or cut short"):
            ask()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, as far as a process can tell."""
    paths: list[str] = []
    sync = os.fsync

    def note(handle: int) -> None:
        paths.append(str(Path(f"/proc/self/fd/{handle}").resolve()))
        sync(handle)

    monkeypatch.setattr("os.fsync", note)
    return paths


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_the_newest_entry_and_its_folders_are_synced(
    prefix: str, tmp_path: Path, synced: list[str]
) -> None:
    path = write(tmp_path, offsets={9: [line(9)], 10: [line(10)]}, commits=[9])
    (tmp_path / "metadata").write_text("{}")
    sync_checkpoint(prefix + path, "offsets")
    assert synced == [f"{path}/offsets/10", f"{path}/metadata", f"{path}/offsets", path]
    synced.clear()
    sync_checkpoint(prefix + path, "commits")
    assert synced[:2] == [f"{path}/commits/9", f"{path}/commits/.9.crc"]


@pytest.mark.parametrize("path", ["", "s3a://bucket/checkpoint", "hdfs:/a", "/nowhere/at/all"])
def test_what_is_not_on_this_disk_is_not_synced(path: str, synced: list[str]) -> None:
    sync_checkpoint(path, "offsets")
    assert synced == []
