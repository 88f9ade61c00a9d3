"""The table of the goals beside other queues, row by row, over several whole runs.

    python -m benchmarks.goal_runs --runs 2 --keep FOLDER     measures, and prints the table
    python -m benchmarks.goal_runs --keep FOLDER              prints it again from what is there

Each run is `python -m benchmarks.peers` and the benchmark `srmp`, five rounds each. Their lines of
JSON stay in the folder, so that a run that was interrupted costs only itself. A goal counts as
reached where every run reached it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from benchmarks.command import FAILED, WRONG_USAGE, run_command
from benchmarks.figures import Column, Row, Table, hundredths, tenths
from benchmarks.report import print_table
from posthouse.cli.output import complain, say

VERDICTS: Final = ("not reached", "reached", "aim reached")  # the worst first
PARTS: Final = {"peers": ["benchmarks.peers"], "srmp": ["benchmarks", "srmp"]}

Run = dict[str, dict[str, Any]]  # goals by name, as their lines of JSON have them


def measure(folder: Path, runs: int, options: Sequence[str]) -> None:
    """Whole runs, one after the other; each benchmark writes a file of its own."""
    for number in range(1, runs + 1):
        for part, (module, *names) in PARTS.items():
            path = folder / f"{number}-{part}.jsonl"
            say(f"Run {number} of {runs}: {part}, to {path}")
            command = [sys.executable, "-m", module, *names, *options, "--json"]
            with path.open("wb") as file:
                ended = subprocess.run(command, stdout=file, check=False)
            if ended.returncode:
                path.unlink()
                complain(f"{part} failed: run {number} has no figures of it.")
                raise typer.Exit(FAILED)


def read_runs(folder: Path) -> tuple[list[Run], list[str]]:
    """The goals of each run, in the order of the runs, and the machines they were measured on."""
    runs: dict[int, Run] = {}
    machines: dict[str, None] = {}
    for path in sorted(folder.glob("*-*.jsonl"), key=lambda path: path.name):
        number = int(path.name.partition("-")[0])
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["benchmark"] == "machine":
                machines[f"{row['machine']}; {row['disk']}"] = None
            elif row.get("table") == "goals":
                runs.setdefault(number, {})[f"{row['benchmark']}: {row['goal']}"] = row
    return [runs[number] for number in sorted(runs)], list(machines)


def table_of(runs: Sequence[Run]) -> Table:
    """One row for each goal: its ratio in each run, what is required, and processor time."""
    columns = [Column("goal", "goal")]
    columns += [Column(f"run {n}", f"run {n}", hundredths) for n in range(1, len(runs) + 1)]
    columns += [
        Column("required", "required"),
        Column("aim", "aim", hundredths),
        Column("cpu_us", "CPU µs each", tenths),
        Column("their_cpu_us", "theirs", tenths),
        Column("verdict", "verdict"),
    ]
    names = dict.fromkeys(name for run in runs for name in run)
    rows = [_row(name, [run.get(name) for run in runs]) for name in names]
    missed = sum(row["verdict"] == VERDICTS[0] for row in rows)
    title = f"{len(rows)} goals in {len(runs)} runs, {missed} not reached in every run"
    return Table("goals", "goals", title, columns, rows)


def _row(name: str, found: Sequence[dict[str, Any] | None]) -> Row:
    measured = [goal for goal in found if goal is not None]
    last = measured[-1]
    values = [None if goal is None else goal["value"] for goal in found]
    row: Row = {f"run {number}": value for number, value in enumerate(values, 1)}
    bound = "at most" if last["at_most"] else "at least"
    return row | {
        "goal": name,
        "required": f"{bound} {last['required']:.2f}",
        "aim": last["aim"],
        "cpu_us": last.get("cpu_us"),
        "their_cpu_us": last.get("their_cpu_us"),
        "verdict": min((goal["verdict"] for goal in measured), key=VERDICTS.index),
    }


def goal_runs(
    keep: Annotated[
        Path, typer.Option("--keep", help="The folder for the lines of JSON; created.")
    ],
    runs: Annotated[
        int, typer.Option("--runs", min=0, help="Measure this many times first; 0: only print.")
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Small doses, for a first look.")] = False,
) -> None:
    """Print the goals beside other queues, row by row, over several runs."""
    if runs:
        keep.mkdir(parents=True, exist_ok=True)
        measure(keep, runs, ["--quick"] if quick else [])
    found, machines = read_runs(keep)
    if not found:
        complain(f"{keep} has no figures. Measure some with --runs 2.")
        raise typer.Exit(WRONG_USAGE)
    for machine in machines:
        say(machine)
    print_table(table_of(found))


if __name__ == "__main__":
    run_command(goal_runs, "python -m benchmarks.goal_runs")
