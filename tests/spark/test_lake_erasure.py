"""What is erased from a lake is in none of its files, older versions included; and what is too old.

No Spark is needed."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from posthouse.model.errors import InvalidParameter, StatusNotFound
from posthouse.spark.lakes import erasure
from posthouse.spark.lakes import files as files_module
from posthouse.spark.lakes.compaction import compact, rewritten
from posthouse.spark.lakes.erasure import erase, retain
from posthouse.spark.lakes.files import LakeFiles
from tests.spark.lake_samples import (
    DAY,
    NOON,
    ORDERS,
    FragileDisk,
    add_rows,
    data_files,
    ids_in,
    rows,
    written,
)

OTHERS = "ALPHA\\private$\\others"
ANNA = b"customer 4711"
CONDITION = "lookup_id BETWEEN 4 AND 6"  # DuckDB answers it, so that no Spark is started


@pytest.fixture
def lake(tmp_path: Path) -> LakeFiles:
    """Five versions: the customer is in two queues, and in files that a compaction has replaced."""
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    add_rows(lake, 0, rows(ORDERS, [1, 2]), rows(OTHERS, [3]))
    add_rows(lake, 1, rows(ORDERS, [4, 5], label="Anna", body=ANNA), rows(OTHERS, [6], body=ANNA))
    add_rows(lake, 2, rows(ORDERS, [7], NOON - 5 * DAY))
    compact(str(lake.place), files_min=2)
    return lake


def holders(lake: LakeFiles) -> list[str]:
    """The files in the folder with the customer's bytes, whether a version names them or not."""
    assert lake.place.folder is not None
    return [
        name
        for name in data_files(lake)
        if ANNA in parquet.ParquetFile(lake.place.folder / name).read()["body"].to_pylist()
    ]


def test_what_is_erased_is_in_no_file_of_any_version(lake: LakeFiles) -> None:
    assert len(holders(lake)) == 4
    done = erase(str(lake.place), CONDITION)
    assert (done.messages, done.rewritten, done.left, done.unknown) == (3, 2, 0, ())
    assert done.files == len(data_files(lake)) == len(lake.state().files)
    assert holders(lake) == []
    assert ids_in(lake) == [1, 2, 3, 7]
    with pytest.raises(InvalidParameter, match="were erased"):
        lake.state_as_of(1)


def test_what_a_compaction_moves_meanwhile_is_erased_too(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the choice is approved, and before a file is replaced."""
    numbers = iter(range(10, 20))

    def compacted(*_: object) -> None:
        add_rows(lake, next(numbers), rows(ORDERS, [next(numbers)]), rows(OTHERS, [next(numbers)]))
        compact(str(lake.place), files_min=2)

    def late(*given: Any) -> Any:
        made = rewritten(*given)
        if not seen:
            compacted()
        seen.append(made)
        return made

    seen: list[Any] = []
    monkeypatch.setattr(erasure, "rewritten", late)
    done = erase(str(lake.place), CONDITION, approve=compacted)
    assert (done.messages, done.left) == (3, 0)
    assert len(seen) > done.rewritten
    assert holders(lake) == []
    assert ids_in(lake) == [1, 2, 3, 7, 11, 12, 14, 15]


def test_what_is_erased_does_not_come_back_when_the_power_fails(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FragileDisk(10_000, keeps_names=False)
    monkeypatch.setattr(files_module, "Disk", lambda: disk)
    assert erase(str(lake.place), CONDITION).messages == 3
    disk.lose_power()
    assert holders(lake) == []
    assert ids_in(lake) == [1, 2, 3, 7]


def test_what_is_erased_is_not_in_the_log_either(lake: LakeFiles) -> None:
    """Statistics of labels would keep them there, and so would the condition itself."""
    assert lake.place.folder is not None
    erase(str(lake.place), "label = 'Anna'")
    lake.log.tidy(0)
    texts = [path.read_bytes() for path in (lake.place.folder / "_delta_log").iterdir()]
    assert len(texts) > 5
    assert not any(b"Anna" in text for text in texts)


def test_what_other_programs_have_compacted_is_erased_too(lake: LakeFiles) -> None:
    """They write files of other names, and would write statistics of labels into the log."""
    assert lake.place.folder is not None
    add_rows(lake, 3, rows(ORDERS, [8], label="Anna", body=ANNA))
    DeltaTable(str(lake.place)).optimize.compact()
    assert any("/part-" in name for name in holders(lake))
    assert erase(str(lake.place), f"label = 'Anna' or {CONDITION}").unknown == ()
    assert holders(lake) == []
    assert ids_in(lake) == [1, 2, 3, 7]
    texts = [path.read_bytes() for path in (lake.place.folder / "_delta_log").iterdir()]
    assert not any(b"Anna" in text for text in texts)


def test_what_was_erased_is_not_archived_again(lake: LakeFiles) -> None:
    erase(str(lake.place), "lookup_id >= 0")
    assert ids_in(lake) == []
    assert (lake.state().through(ORDERS), lake.state().through(OTHERS)) == (7, 6)


def test_files_of_writers_that_were_cut_off_are_deleted_too(lake: LakeFiles) -> None:
    written(lake, rows(ORDERS, [9], body=ANNA))
    assert len(holders(lake)) == 5
    assert erase(str(lake.place), "label = 'Anna'").messages == 2
    assert [name for name in holders(lake) if name not in _named(lake)] == []


def _named(lake: LakeFiles) -> set[str]:
    return {file.path for file in lake.state().files}


def test_an_erasure_says_which_files_it_did_not_look_at(lake: LakeFiles) -> None:
    assert lake.place.folder is not None
    (lake.place.folder / "mine.parquet").touch()
    assert erase(str(lake.place), "label = 'Anna'").unknown == ("mine.parquet",)


def test_a_dry_run_counts_and_changes_nothing(lake: LakeFiles) -> None:
    before, files = lake.state().version, data_files(lake)
    done = erase(str(lake.place), "label = 'Anna'", dry_run=True)
    assert (done.messages, done.rewritten, done.left, done.dry_run) == (2, 1, 2, True)
    assert (lake.state().version, data_files(lake)) == (before, files)


def test_a_condition_that_does_not_fit_erases_nothing(lake: LakeFiles) -> None:
    files = data_files(lake)
    with pytest.raises(InvalidParameter, match="does not fit"):
        erase(str(lake.place), "colour = 'red'")
    assert data_files(lake) == files


def test_there_has_to_be_a_lake(tmp_path: Path) -> None:
    with pytest.raises(StatusNotFound):
        erase(tmp_path, "true")


def test_days_that_are_too_old_are_dropped_whole(lake: LakeFiles) -> None:
    lake.now = lambda: (NOON + DAY).timestamp()
    assert retain(lake, timedelta(days=6)) == 0
    assert retain(lake, timedelta(days=5)) == 1
    assert ids_in(lake) == [1, 2, 3, 4, 5, 6]
    assert retain(lake, timedelta(days=5)) == 0
    table = DeltaTable(str(lake.place))
    table.load_as_version(table.version() - 1)
    assert table.to_pyarrow_table().num_rows == 7
    with pytest.raises(InvalidParameter, match="whole days"):
        retain(lake, timedelta(hours=5))
