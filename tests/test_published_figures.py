"""What a benchmark reports as moved since the last published figures. No timing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import published
from benchmarks.figures import Outcome, Row, Table

PUBLISHED = {
    "machine": "a machine",
    "figures": {
        "calls: durable send: python": 100.0,
        "engine: send, 128: cpu_us": 10.0,
    },
}


def outcome(benchmark: str, **row: object) -> Outcome:
    rows: list[Row] = [row]  # type: ignore[list-item]
    return Outcome([Table(benchmark, "t", "title", [], rows)], [])


@pytest.mark.parametrize(("calls", "verdicts"), [(100, []), (101, ["worse"]), (99, ["better"])])
def test_a_count_that_differs_has_moved(calls: int, verdicts: list[str]) -> None:
    for quick in (False, True):
        found = published.moved(
            outcome("calls", case="durable send", python=calls), PUBLISHED, quick=quick
        )
        assert found is not None
        assert [row["verdict"] for row in found.rows] == verdicts


@pytest.mark.parametrize(
    ("cpu_us", "verdicts"), [(11.4, []), (8.6, []), (11.6, ["worse"]), (8.4, ["better"])]
)
def test_processor_time_has_moved_beyond_noise(cpu_us: float, verdicts: list[str]) -> None:
    measured = outcome("engine", case="send", batch=128, cpu_us=cpu_us)
    found = published.moved(measured, PUBLISHED, quick=False)
    assert found is not None
    assert [row["verdict"] for row in found.rows] == verdicts
    assert "a machine" in found.note
    assert published.moved(measured, PUBLISHED, quick=True) is None


def test_figures_that_were_not_published_are_not_compared() -> None:
    other = outcome("engine", case="another", batch=1, cpu_us=1.0)
    assert published.moved(other, PUBLISHED, quick=False) is None


def lines(*rows: dict[str, object], quick: bool = False) -> list[str]:
    machine = {"benchmark": "machine", "machine": "new", "disk": "ext4", "quick": quick}
    return [json.dumps(row) for row in (machine, *rows)]


def test_a_run_is_published_and_other_benchmarks_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "published.json"
    file.write_text(json.dumps(PUBLISHED))
    monkeypatch.setattr(published, "FILE", file)
    run = tmp_path / "figures.jsonl"
    row = {"benchmark": "engine", "table": "rates", "case": "send", "batch": 128, "cpu_us": 8.004}
    run.write_text("\n".join(lines(row)))
    assert published.main([str(run)]) == 0
    assert published.load() == {
        "machine": "new",
        "figures": {"calls: durable send: python": 100.0, "engine: send, 128: cpu_us": 8.0},
    }


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "\n".join(lines()), "\n".join(lines(quick=True))]
)
def test_what_is_not_a_whole_run_is_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "published.json"
    monkeypatch.setattr(published, "FILE", file)
    run = tmp_path / "figures.jsonl"
    run.write_text(text)
    assert published.main([str(run)]) == 1
    assert not file.exists()


def test_published_figures_are_of_benchmarks_that_exist() -> None:
    names = {name.partition(":")[0] for name in published.load()["figures"]}
    assert names <= command.BENCHMARKS.keys()
    assert published.main([]) == 2
