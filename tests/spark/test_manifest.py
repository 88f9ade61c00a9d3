"""The manifest: replaced as a whole, one change at a time, never believed blindly."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter, SharingViolation, StatusNotFound
from posthouse.spark.lakes import disk as lake_disk
from posthouse.spark.lakes.disk import locked
from posthouse.spark.lakes.manifest import FILE_PATH, LakeFile, Manifest, ManifestStore, Removed
from tests.spark.lake_samples import FOLDER

NAME = f"{FOLDER}/batch-0000000000-6bd4b6a811112222-0000.parquet"


def file(path: str = NAME) -> LakeFile:
    return LakeFile(path, "q", "2026-11-15", 1, 100, 1, 1, 0, 0)


@pytest.fixture
def store(tmp_path: Path) -> ManifestStore:
    store = ManifestStore(tmp_path / "lake")
    store.create()
    return store


def test_a_new_lake_is_empty_and_can_be_made_again(store: ManifestStore) -> None:
    assert store.read().files == []
    store.create()
    assert store.read().version == 1


def test_a_change_is_there_at_once(store: ManifestStore) -> None:
    with store.change() as manifest:
        manifest.files.append(file())
    assert ManifestStore(store.root).read().files == [file()]
    assert store.read().version == 2


def test_a_change_that_changes_nothing_writes_nothing(store: ManifestStore) -> None:
    before = store.path.stat().st_ino
    with store.change():
        pass
    assert store.path.stat().st_ino == before


def test_an_error_inside_a_change_leaves_the_manifest_as_it_was(store: ManifestStore) -> None:
    with pytest.raises(ZeroDivisionError), store.change() as manifest:
        manifest.queries["q"] = 1 // 0
    assert store.read().files == []


def test_what_a_killed_writer_left_beside_it_is_no_manifest(store: ManifestStore) -> None:
    (store.folder / "manifest.json.new").write_bytes(b'{"form')
    with store.change() as manifest:
        manifest.queries["q"] = 3
    assert store.read().has("q", 3)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(InvalidParameter, match=r"no lake: it holds 'holiday\.jpg'"):
        ManifestStore(tmp_path).create()
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


def test_a_lake_whose_manifest_is_lost_is_not_begun_anew(store: ManifestStore) -> None:
    """Else all its files would count as left behind."""
    (store.root / FOLDER).mkdir(parents=True)
    store.path.unlink()
    with pytest.raises(InvalidParameter, match="without its manifest"):
        store.create()


def test_an_empty_folder_and_one_where_making_a_lake_was_cut_short_become_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "_posthouse").mkdir()
    (tmp_path / "_posthouse" / "lock").touch()
    ManifestStore(tmp_path).create()
    assert ManifestStore(tmp_path).read().files == []


@pytest.mark.parametrize("path", ["lake", "lake/a/file"])
def test_what_is_no_lake_is_said_to_be_none(tmp_path: Path, path: str) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "a").touch()
    with pytest.raises(StatusNotFound, match="is no lake"):
        ManifestStore(tmp_path / path).read()


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
@pytest.mark.parametrize("kind", ["files", "removed"])
def test_a_manifest_that_names_other_files_is_refused(
    store: ManifestStore, path: str, kind: str
) -> None:
    """They would be read, or in time deleted."""
    hostile = Manifest(files=[file(path)]) if kind == "files" else Manifest()
    if kind == "removed":
        hostile.removed = [Removed(path, 0)]
    store.path.write_bytes(msgspec.json.encode(hostile))
    with pytest.raises(InvalidParameter, match="no file of a lake"):
        store.read()


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_any_bytes_are_a_manifest_or_refused(data: bytes) -> None:
    from posthouse.spark.lakes.manifest import _parsed

    try:
        assert isinstance(_parsed(data, Path("manifest.json")), Manifest)
    except InvalidParameter:
        return


def test_a_newer_format_is_not_guessed_at(store: ManifestStore) -> None:
    store.path.write_bytes(b'{"format": 2}')
    with pytest.raises(InvalidParameter, match="format 2"):
        store.read()


def test_changes_of_many_at_once_are_all_there(store: ManifestStore) -> None:
    def change(number: int) -> None:
        with ManifestStore(store.root).change() as manifest:
            manifest.queries[str(number)] = number

    threads = [threading.Thread(target=change, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.read().queries) == 12
    assert store.read().version == 13


def test_a_lock_that_is_not_given_back_is_waited_for_only_so_long(
    store: ManifestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_disk, "LOCK_POLL_S", 0.0)
    path = store.folder / "other"
    with (
        locked(path, "somebody has it"),
        pytest.raises(SharingViolation, match="somebody has it"),
        locked(path, "somebody has it", wait_s=0.0),
    ):
        pass


def test_names_of_files_are_told_from_others() -> None:
    assert FILE_PATH.fullmatch(NAME)
    assert not FILE_PATH.fullmatch(NAME + ".crc")
