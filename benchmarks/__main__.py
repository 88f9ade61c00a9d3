"""`python -m benchmarks [--quick] [--json] [--directory DIR] [NAME...]`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import backlog, engine, flat, store
from benchmarks.figures import Outcome
from benchmarks.place import machine, temporary_place
from benchmarks.report import print_outcome
from benchmarks.run import Run
from posthouse.cli.output import complain, print_json, say

BENCHMARKS: dict[str, Callable[[Run], Outcome]] = {
    store.NAME: store.measure,
    engine.NAME: engine.measure,
    backlog.NAME: backlog.measure,
    flat.NAME: flat.measure,
}
INTERRUPTED = 130
WRONG_USAGE = 2


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
    """Measure store and engine beside other stores on the same disk."""
    unknown = sorted(set(names or ()) - BENCHMARKS.keys())
    if unknown:
        complain(f"No benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
        raise typer.Exit(WRONG_USAGE)
    if directory is not None and not directory.is_dir():
        complain(f"{directory} is no directory.")
        raise typer.Exit(WRONG_USAGE)
    try:
        with temporary_place(directory) as place:
            _introduce(place.describe(), quick=quick, json=json)
            run = Run(place, quick=quick)
            for name in names or BENCHMARKS:
                print_outcome(BENCHMARKS[name](run), json=json)
    except KeyboardInterrupt:
        complain("Interrupted; everything written was removed.")
        raise typer.Exit(INTERRUPTED) from None


def _introduce(disk: str, *, quick: bool, json: bool) -> None:
    if json:
        print_json({"benchmark": "machine", "machine": machine(), "disk": disk, "quick": quick})
        sys.stdout.flush()
        return
    say(machine())
    say(f"Disk: {disk}")
    if quick:
        say("Quick: too little of everything to compare figures with other runs.")
    say("")


def main() -> None:
    """Asked to end, however politely, a run first removes what it wrote."""
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(bench)
    app(prog_name="python -m benchmarks")


if __name__ == "__main__":
    main()
