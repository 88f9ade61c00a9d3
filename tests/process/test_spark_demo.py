"""The Spark step of `posthouse demo`, as `make demo` runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from posthouse.cli import main
from posthouse.cli.demo import pipeline as demo_pipeline
from posthouse.model.extras import install


def test_the_demonstration_pipes_its_orders_through_spark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["demo", "--home", str(tmp_path), "--orders", "400", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["sound"]
    piped = report["piped"]
    assert piped["archived"] == piped["orders"] == 400
    assert piped["amount"] == sum(each["amount"] for each in report["arrived"])
    assert piped["reasons"] == report["dead_letters"]
    amounts = [each["amount"] for each in piped["customers"]]
    assert amounts == sorted(amounts, reverse=True)
    for folder in (piped["lake"], piped["table"]):
        assert list(Path(folder).rglob("*.parquet"))
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("option", ["--spark", ""])
def test_without_spark_the_remedy_is_told(
    option: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo_pipeline, "NEEDED", ("no_such_package",))
    words = ["demo", "--home", str(tmp_path / "new"), "--orders", "200", "--json"]
    code = main.run([*words, option] if option else words)
    said = capsys.readouterr()
    assert install("spark") in said.err
    assert code == (2 if option else 0)
    assert option or json.loads(said.out)["piped"] is None
