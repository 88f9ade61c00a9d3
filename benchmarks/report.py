"""Tables for people, lines of JSON for machines."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from benchmarks.figures import (
    Beside,
    Goal,
    Outcome,
    Show,
    Table,
    Value,
    hundredths,
    tenths,
    thousands,
)
from posthouse.cli.output import LINE_LENGTH_MAX, print_json

BESIDE_HEADINGS = ("worst round", "best round", "CPU µs each", "theirs")
STYLES = {"aim reached": "green", "reached": "green", "not reached": "red"}


def print_outcome(outcome: Outcome, *, json: bool) -> None:
    """All tables of a benchmark, then its goals."""
    if json:
        for table in outcome.tables:
            for row in table.rows:
                print_json({"benchmark": table.benchmark, "table": table.name, **row})
        for goal in outcome.goals:
            print_json({"benchmark": goal.benchmark, "table": "goals", **goal_fields(goal)})
        sys.stdout.flush()
        return
    console = screen()
    for table in outcome.tables:
        _print(console, table.title, rendered(table), table.note)
    if outcome.goals:
        _print(console, f"{outcome.goals[0].benchmark}: goals", rendered_goals(outcome.goals))


def print_table(table: Table) -> None:
    """One table for people."""
    _print(screen(), table.title, rendered(table), table.note)


def _print(console: Console, title: str, table: RichTable, note: str = "") -> None:
    # Not as rich's own title, which is wrapped to the width of the table.
    console.print(Text(title, style="bold"))
    console.print(table)
    if note:
        console.print(Text(note))
    console.print()


def screen() -> Console:
    """Standard output; off a terminal nothing is wrapped."""
    width = None if sys.stdout.isatty() else LINE_LENGTH_MAX
    return Console(highlight=False, width=width)


def goal_fields(goal: Goal) -> dict[str, Value]:
    """A goal as a line of JSON has it."""
    return {
        "goal": goal.name,
        "value": goal.value,
        "required": goal.required,
        "aim": goal.aim,
        "at_most": goal.at_most,
        "unit": goal.unit,
        "condition": goal.condition,
        "verdict": goal.verdict,
        **(goal.beside._asdict() if goal.beside is not None else {}),
    }


def rendered(table: Table) -> RichTable:
    """A table as rich prints it: words to the left, numbers to the right."""
    result = _empty()
    for column in table.columns:
        words = all(isinstance(row.get(column.key), str) for row in table.rows)
        result.add_column(column.heading, justify="left" if words else "right")
    for row in table.rows:
        result.add_row(*(Text(cell(row.get(c.key), c.show)) for c in table.columns))
    return result


def rendered_goals(goals: list[Goal]) -> RichTable:
    """What was promised and what came of it."""
    result = _empty()
    result.add_column("goal")
    for heading in ("measured", "required", "aim"):
        result.add_column(heading, justify="right")
    result.add_column("verdict")
    compared = any(goal.beside is not None for goal in goals)
    for heading in BESIDE_HEADINGS if compared else ():
        result.add_column(heading, justify="right")
    for goal in goals:
        show = thousands if max(goal.value, goal.required) >= 100 else hundredths
        bound = "at most " if goal.at_most else "at least "
        aim = "" if goal.aim is None else show(goal.aim)
        name = f"{goal.name}, {goal.unit}" if goal.unit else goal.name
        result.add_row(
            Text(f"{name} ({goal.condition})" if goal.condition else name),
            Text(show(goal.value)),
            Text(bound + show(goal.required)),
            Text(aim),
            Text(goal.verdict, style=STYLES[goal.verdict]),
            *([] if goal.beside is None else _compared(goal.beside)),
        )
    return result


def _compared(beside: Beside) -> list[Text]:
    shown = (hundredths, hundredths, tenths, tenths)
    return [Text(show(value)) for show, value in zip(shown, beside, strict=True)]


def _empty() -> RichTable:
    return RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")


def cell(value: Value, show: Show) -> str:
    """One figure in words; nothing where there is none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else show(value)
