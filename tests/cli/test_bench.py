"""`posthouse bench` hands over to the benchmarks of the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from posthouse.cli import bench, main

BENCHMARKS = """
import sys
open("said", "w").write(repr(sys.argv[1:]))
sys.exit(5)
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "CHECKOUT", tmp_path)
    return tmp_path


def test_without_a_checkout_it_says_where_they_are(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["bench"]) == main.WRONG_USAGE
    assert "make bench" in capsys.readouterr().err


def test_options_and_exit_code_are_handed_through(checkout: Path) -> None:
    (checkout / "benchmarks").mkdir()
    (checkout / "benchmarks" / "__main__.py").write_text(BENCHMARKS)
    arguments = ["bench", "--quick", "--json", "--directory", str(checkout), "store"]
    assert main.run(arguments) == 5
    assert (checkout / "said").read_text() == repr(
        ["--quick", "--json", "--directory", str(checkout), "store"]
    )
