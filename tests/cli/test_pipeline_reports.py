"""`posthouse pipeline deadletters|latency|sql|run`, as far as they go without Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from posthouse.model.extras import install
from tests.cli.conftest import Posthouse

COMMANDS = [
    ("pipeline", "deadletters"),
    ("pipeline", "deadletters", "--resend", "0a1b2c3d"),
    ("pipeline", "latency"),
    ("pipeline", "traffic"),
    ("pipeline", "sql", "--engine", "spark", "select 1"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_spark_the_remedy_is_said(
    ph: Posthouse, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = ph(*command)
    assert done.code == 1
    assert install("spark") in done.err


def test_a_file_without_spark_is_not_run(
    ph: Posthouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "flow.py"
    file.write_text("raise AssertionError", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    done = ph("pipeline", "run", str(file))
    assert done.code == 1
    assert install("spark") in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "nowhere.py"), "nowhere.py"),
        (("sql",), "STATEMENT"),
        (("traffic", "--queue", "x", "--lake", "y"), "not both"),
        (("sql", "select 1", "--format", "xml"), "xml"),
        (("sql", "select 1", "--format", "parquet"), "--out"),
        (("sql", "select 1", "--limit", "0"), "--limit"),
    ],
)
def test_wrong_words_are_wrong_usage(ph: Posthouse, words: tuple[str, ...], said: str) -> None:
    done = ph("pipeline", *words)
    assert done.code == 2
    assert said in done.err
