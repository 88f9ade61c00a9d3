"""`python -m benchmarks.peers [--quick] [--json] [--directory DIR] [--rounds N] [PEER...]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.command import WRONG_USAGE, measured_place, run_command
from benchmarks.peers.compare import measure
from benchmarks.peers.contest import OURS, PEERS
from benchmarks.peers.work import WORKS, Work
from benchmarks.report import print_outcome
from benchmarks.run import Run
from posthouse.cli.output import complain

NAME = "peers"


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PEER", help="Only beside these; default all that are installed."),
    ] = None,
    work: Annotated[
        list[str] | None, typer.Option("--work", help="Only this workload; may be repeated.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Rounds; 5, or 1 with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small doses, for a first look.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON for each figure.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Put the data there: the disk to measure.")
    ] = None,
) -> None:
    """Measure Posthouse and other queues side by side."""
    works, chosen = _chosen_works(work), _chosen_peers(names)
    with measured_place(directory, quick=quick, json=json) as place:
        run = Run(place, quick=quick)
        run.rounds = rounds or run.rounds
        print_outcome(measure(run, NAME, chosen, works), json=json)


def _chosen_peers(names: list[str] | None) -> list[str]:
    """Ours and those named, which must be there; or those of all that are."""
    others = [name for name in PEERS if name != OURS]
    _refuse_unknown("peer", names, [OURS, *others])
    wanted = [name for name in others if names is None or name in names]
    missing = {name: why for name in wanted if (why := PEERS[name].missing())}
    for name, why in missing.items():
        complain(f"{PEERS[name].server.title} is left out: {why}.")
    if names and missing:
        raise typer.Exit(WRONG_USAGE)
    return [OURS, *(name for name in wanted if name not in missing)]


def _chosen_works(names: list[str] | None) -> list[Work]:
    _refuse_unknown("workload", names, [work.name for work in WORKS])
    return [work for work in WORKS if names is None or work.name in names]


def _refuse_unknown(kind: str, names: list[str] | None, known: Sequence[str]) -> None:
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        complain(f"No {kind} is called {', '.join(unknown)}; there are {', '.join(known)}.")
        raise typer.Exit(WRONG_USAGE)


if __name__ == "__main__":
    run_command(compare, "python -m benchmarks.peers")
