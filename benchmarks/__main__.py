"""`python -m benchmarks [--quick] [--json] [--directory DIR] [NAME...]`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import (
    backlog,
    calls,
    engine,
    flat,
    formats,
    pgm,
    published,
    qms,
    remote,
    spark,
    srmp,
    store,
)
from benchmarks import directory as enterprises
from benchmarks.command import WRONG_USAGE, measured_place, run_command
from benchmarks.figures import Outcome
from benchmarks.peers.compare import measure_ours
from benchmarks.report import print_outcome
from benchmarks.run import Run
from posthouse.cli.output import complain

BENCHMARKS: dict[str, Callable[[Run], Outcome]] = {
    store.NAME: store.measure,
    engine.NAME: engine.measure,
    calls.NAME: calls.measure,
    "server": measure_ours,
    backlog.NAME: backlog.measure,
    flat.NAME: flat.measure,
    remote.NAME: remote.measure,
    srmp.NAME: srmp.measure,
    pgm.NAME: pgm.measure,
    qms.NAME: qms.measure,
    enterprises.NAME: enterprises.measure,
    formats.NAME: formats.measure,
    spark.NAME: spark.measure,
}


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Benchmarks to run; default all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small doses, for a first look.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each figure.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Put the data there: the disk to measure.")
    ] = None,
) -> None:
    """Measure store, engine and server, and other stores on the same disk."""
    unknown = sorted(set(names or ()) - BENCHMARKS.keys())
    if unknown:
        complain(f"No benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
        raise typer.Exit(WRONG_USAGE)
    with measured_place(directory, quick=quick, json=json) as place:
        run = Run(place, quick=quick)
        for name in names or BENCHMARKS:
            outcome = BENCHMARKS[name](run)
            compared = published.moved(outcome, published.load(), quick=quick)
            if compared is not None:
                outcome.tables.append(compared)
            print_outcome(outcome, json=json)


if __name__ == "__main__":
    run_command(bench, "python -m benchmarks")
