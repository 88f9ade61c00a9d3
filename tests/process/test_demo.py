"""`posthouse demo` in real processes, with a real kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posthouse.cli import main
from posthouse.engine.books import Books
from posthouse.runtime.demonstration import BATCH, Report


def test_the_demonstration_loses_nothing_and_its_books_balance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    assert main.run(["demo", "--home", str(home), "--orders", "1000", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert 500 <= report["acknowledged_before_kill"] <= report["found_after_kill"] < 1000
    assert report["in_order"]
    assert report["sound"]
    assert report["dead_letters"] == {"nack-receive-timeout": 3, "nack-queue-purged": 2}


def test_a_folder_with_something_in_it_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").write_text("data")
    assert main.run(["demo", "--home", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "data"


@pytest.mark.parametrize(
    "wrong",
    [
        {"acknowledged_before_kill": 2 * BATCH},
        {"found_after_kill": BATCH + 1},
        {"in_order": False},
        {"books": {"q": Books(1, 0, 0, 0, 0, 0, 0, 0, 0)}},
    ],
)
def test_the_report_is_unsound_when_anything_is_missing(
    tmp_path: Path, wrong: dict[str, object]
) -> None:
    sound = {
        "acknowledged_before_kill": BATCH,
        "found_after_kill": BATCH,
        "in_order": True,
        "books": {"q": Books(1, 0, 0, 1, 0, 0, 0, 0, 0)},
    }
    assert Report(tmp_path, 100, **sound).sound  # type: ignore[arg-type]
    assert not Report(tmp_path, 100, **sound | wrong).sound  # type: ignore[arg-type]
