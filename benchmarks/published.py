"""The last published figures, and what has moved since: processor time and calls of a message.

`published.json` has them. After a run on an idle machine that goes into docs/benchmarks.md:

    posthouse bench --json > figures.jsonl
    python -m benchmarks.published figures.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Column, Outcome, Row, Table, hundredths, tenths

FILE = Path(__file__).with_name("published.json")
NOISE = 0.15  # processor time differs by as much between two runs of one version
COUNTS = ("python", "builtin", "system")  # exact
TIMES = ("cpu_us",)  # for each message
_NAMED_BY = ("case", "peer", "batch")
_COLUMNS = [
    Column("figure", "figure"),
    Column("published", "published", tenths),
    Column("measured", "measured", tenths),
    Column("ratio", "times", hundredths),
    Column("verdict", "verdict"),
]


class Figure(NamedTuple):
    """One of them: in which benchmark, of what, how much."""

    name: str
    value: float
    exact: bool


def figures_of(benchmark: str, row: dict[str, Any]) -> Iterator[Figure]:
    """What is compared of one row of a table."""
    words = [str(row[key]) for key in _NAMED_BY if row.get(key) is not None]
    for key in (*COUNTS, *TIMES):
        value = row.get(key)
        if isinstance(value, int | float) and words:
            yield Figure(f"{benchmark}: {', '.join(words)}: {key}", float(value), key in COUNTS)


def load() -> dict[str, Any]:
    """The published figures by name, and the machine they were measured on."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def moved(outcome: Outcome, published: dict[str, Any], *, quick: bool) -> Table | None:
    """What differs from the published figures by more than noise; None: nothing to compare.

    Of a quick run only counts are compared: its times show nothing.
    """
    figures: dict[str, float] = published["figures"]
    rows: list[Row] = []
    compared = 0
    for table in outcome.tables:
        for row in table.rows:
            for figure in figures_of(table.benchmark, row):
                before = figures.get(figure.name)
                if before and (figure.exact or not quick):
                    compared += 1
                    rows += _row(figure, before)
    if not compared:
        return None
    benchmark = outcome.tables[0].benchmark
    title = f"{benchmark}: {len(rows)} of {compared} figures moved since they were published"
    table = Table(benchmark, "moved", title, _COLUMNS, rows)
    limit = f"{NOISE:.0%} of processor time are noise"
    table.note = f"Published with: {published['machine']}. {limit}, counts are exact."
    return table


def _row(figure: Figure, before: float) -> list[Row]:
    ratio = figure.value / before
    if abs(ratio - 1) <= (0 if figure.exact else NOISE):
        return []
    return [
        {
            "figure": figure.name,
            "published": before,
            "measured": figure.value,
            "ratio": ratio,
            "verdict": "better" if ratio < 1 else "worse",
        }
    ]


def publish(lines: Iterable[str]) -> dict[str, Any]:
    """The figures of a run, from its lines of JSON."""
    figures: dict[str, float] = {}
    machine = ""
    for line in filter(str.strip, lines):
        row = json.loads(line)
        if row["benchmark"] == "machine":
            if row["quick"]:
                raise ValueError("these figures are of a quick run: too short to be published")
            machine = row["machine"]
        else:
            for figure in figures_of(row["benchmark"], row):
                figures[figure.name] = round(figure.value, 2)
    if not machine or not figures:
        raise ValueError("these are not the lines of `posthouse bench --json`")
    return {"machine": machine, "figures": figures}


def main(arguments: list[str]) -> int:
    """Takes the figures of a run over; those of benchmarks that were not run stay."""
    if len(arguments) != 1:
        print("usage: python -m benchmarks.published FIGURES.jsonl", file=sys.stderr)
        return 2
    try:
        found = publish(Path(arguments[0]).read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 1
    run = {name.partition(":")[0] for name in found["figures"]}
    kept = {k: v for k, v in load()["figures"].items() if k.partition(":")[0] not in run}
    found["figures"] = kept | found["figures"]
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
