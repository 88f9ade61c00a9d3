"""The goals beside other queues over several runs, row by row. No timing."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from benchmarks import goal_runs
from benchmarks.figures import Beside, Goal, Outcome
from benchmarks.peers.contest import Leg
from benchmarks.peers.goals import goals
from benchmarks.report import goal_fields, print_outcome


def written(folder: Path, number: int, part: str, *found: Goal) -> None:
    """The lines of JSON of a run."""
    machine = {"benchmark": "machine", "machine": "a machine", "disk": "ext4", "quick": False}
    rows = [{"benchmark": goal.benchmark, "table": "goals", **goal_fields(goal)} for goal in found]
    other = {"benchmark": part, "table": "rates", "case": "any"}
    lines = "\n".join(json.dumps(row) for row in (machine, other, *rows))
    (folder / f"{number}-{part}.jsonl").write_text(lines + "\n")


def ratio(value: float, *, at_most: bool = False) -> Goal:
    beside = Beside(value / 2, value * 2, 10.0, 25.0)
    return Goal("peers", "send, times Redis", value, 2.0, 3.0, at_most=at_most, beside=beside)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((3.5, 4.0), "aim reached"),
        ((3.5, 2.5), "reached"),
        ((1.9, 3.5), "not reached"),
        ((3.5, 1.9), "not reached"),
    ],
)
def test_a_goal_counts_as_reached_where_every_run_reached_it(
    tmp_path: Path, values: tuple[float, float], verdict: str
) -> None:
    for number, value in enumerate(values, 1):
        written(tmp_path, number, "peers", ratio(value))
    runs, machines = goal_runs.read_runs(tmp_path)
    assert machines == ["a machine; ext4"]
    (row,) = goal_runs.table_of(runs).rows
    assert (row["run 1"], row["run 2"]) == values
    assert (row["required"], row["aim"]) == ("at least 2.00", 3.0)
    assert (row["cpu_us"], row["their_cpu_us"]) == (10.0, 25.0)
    assert row["verdict"] == verdict


def test_each_run_has_its_column_in_the_order_of_the_runs(tmp_path: Path) -> None:
    for number in (10, 2):
        written(tmp_path, number, "peers", ratio(number))
    written(tmp_path, 10, "srmp", Goal("srmp", "16 connections", 0.7, 0.65, 0.8))
    runs, _ = goal_runs.read_runs(tmp_path)
    table = goal_runs.table_of(runs)
    first, second = table.rows
    assert (first["run 1"], first["run 2"]) == (2, 10)
    assert (second["run 1"], second["run 2"]) == (None, 0.7)
    assert table.title == "2 goals in 2 runs, 0 not reached in every run"


def test_a_figure_that_must_stay_below_is_shown_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, 1, "peers", ratio(2.5, at_most=True))
    goal_runs.goal_runs(tmp_path)
    shown = capsys.readouterr().out
    assert "at most 2.00" in shown
    assert "not reached" in shown


def test_both_parts_are_run_and_a_failed_one_leaves_no_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *, stdout: object, check: bool) -> object:
        commands.append(command[2:])
        return subprocess.CompletedProcess(command, int("srmp" in command))

    monkeypatch.setattr(goal_runs.subprocess, "run", run)
    with pytest.raises(typer.Exit):
        goal_runs.goal_runs(tmp_path / "kept", runs=2, quick=True)
    assert commands == [
        ["benchmarks.peers", "--quick", "--json"],
        ["benchmarks", "srmp", "--quick", "--json"],
    ]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["1-peers.jsonl"]


def test_a_folder_without_figures_is_refused(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):
        goal_runs.goal_runs(tmp_path)


def legs(*seconds: float) -> list[Leg]:
    return [Leg(100, 1024, wall_s, wall_s / 2, wall_s / 2) for wall_s in seconds]


def found(case: str, words: str, ours: Sequence[Leg], theirs: Sequence[Leg]) -> Goal:
    made = goals("peers", {case: {"posthouse": list(ours), "rabbitmq": list(theirs)}})
    return next(goal for goal in made if words in goal.name)


def test_a_ratio_has_its_rounds_and_the_processor_time_of_both() -> None:
    ours, theirs = legs(1.0, 2.0, 4.0), legs(8.0, 8.0, 8.0)
    rate = found("express, end to end", "end, times", ours, theirs)
    assert (rate.value, rate.beside) == (4.0, Beside(2.0, 8.0, 20_000.0, 80_000.0))
    processor = found("express, end to end", "CPU", ours, theirs)
    assert processor.beside is not None
    assert (processor.value, *processor.beside[:2]) == (0.25, 0.5, 0.125)


def test_goals_are_printed_with_the_processor_time_beside_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_outcome(Outcome([], [ratio(2.5), Goal("peers", "other", 1.0, 2.0)]), json=False)
    shown = capsys.readouterr().out
    assert "CPU µs each" in shown
    assert "25.0" in shown
