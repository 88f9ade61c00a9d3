"""`posthouse pipeline erase` and the options that name lakes and their past."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
import typer

from posthouse.cli import main
from posthouse.cli.pipelines.lakes import storage_options, version_or_moment
from posthouse.model.errors import InvalidParameter
from posthouse.spark.lakes.files import LakeFiles
from tests.spark.lake_samples import ORDERS, add_rows, ids_in, rows

WHERE = ("--where", "label = 'Anna'")


@pytest.fixture
def lake(tmp_path: Path) -> LakeFiles:
    lake = LakeFiles(tmp_path / "lake")
    lake.create()
    add_rows(lake, 0, rows(ORDERS, [1]))
    add_rows(lake, 1, rows(ORDERS, [2, 3], label="Anna"))
    return lake


def run(lake: LakeFiles, *words: str) -> int:
    return main.run(["pipeline", "erase", "--lake", str(lake.place), *words])


def test_erasing_changes_nothing_in_a_dry_run_and_is_proved_then(
    lake: LakeFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lake, *WHERE, "--dry-run") == main.DONE
    assert "Would erase 2 messages" in capsys.readouterr().out
    assert ids_in(lake) == [1, 2, 3]
    capsys.readouterr()
    assert run(lake, *WHERE, "--yes", "--json") == main.DONE
    told = json.loads(capsys.readouterr().out)
    assert (told["messages"], told["left"], told["unknown"]) == (2, 0, [])
    assert ids_in(lake) == [1]


@pytest.mark.usefixtures("spark")  # answers what has a backslash
@pytest.mark.parametrize("more", [["--dry-run"], ["--yes"]])
def test_a_condition_that_holds_for_nothing_fails(
    lake: LakeFiles, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """With one backslash where SQL wants two, an engineer would take "0 left" for a proof."""
    assert run(lake, "--where", "queue = 'ALPHA\\private$\\orders'", *more) == main.REFUSED
    told = capsys.readouterr()
    assert "matches queue = 'ALPHA\\private$\\orders'. In SQL a backslash" in told.err
    assert (told.out, ids_in(lake)) == ("", [1, 2, 3])
    assert run(lake, "--where", "queue = 'ALPHA\\\\private$\\\\orders'", *more) == main.DONE
    assert ids_in(lake) == ([1, 2, 3] if more == ["--dry-run"] else [])


def test_a_terminal_is_asked_with_the_count(
    lake: LakeFiles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert run(lake, *WHERE) == main.REFUSED
    assert "Erase 2 messages from" in capsys.readouterr().err
    assert ids_in(lake) == [1, 2, 3]
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert run(lake, *WHERE) == main.DONE
    assert ids_in(lake) == [1]


class Terminal(StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_a_wrong_condition_and_a_folder_without_a_lake_are_refused_in_one_line(
    lake: LakeFiles, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(lake, "--where", "colour = 1", "--yes") == main.REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert "the condition does not fit" in line
    assert run(LakeFiles(tmp_path), *WHERE, "--yes") == main.REFUSED
    assert "is not a lake" in capsys.readouterr().err


def test_a_version_is_a_number_or_a_time() -> None:
    assert version_or_moment("17") == 17
    assert version_or_moment("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    with pytest.raises(typer.BadParameter):
        version_or_moment("yesterday")


def test_what_opens_a_store_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "store.toml"
    file.write_text('aws_region = "eu-central-1"\naws_secret_access_key = "s"\n')
    assert storage_options(None) is None
    assert storage_options(file) == {"aws_region": "eu-central-1", "aws_secret_access_key": "s"}
    for wrong in ("aws_region = 5", "no toml"):
        file.write_text(wrong)
        with pytest.raises(typer.BadParameter):
            storage_options(file)


@pytest.mark.parametrize("text", ["", "{file}"])
def test_a_lake_is_a_folder(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidParameter, match="a lake is a folder, and"):
        LakeFiles(text.format(file=tmp_path / "file")).create()
