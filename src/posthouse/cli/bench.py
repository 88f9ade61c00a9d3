"""`posthouse bench`: measures this installation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import WRONG_USAGE

# Beside src/ in a checkout: the comparisons need SQLite, LMDB and time, not every installation.
CHECKOUT = Path(__file__).parents[3]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Installation")(bench)


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run (default: all)."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run short, for a first impression.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", "--home", help="Folder for the data, on the disk to measure."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print each figure as one line of JSON.")
    ] = False,
) -> None:
    """Measure store and engine, and other stores on the same disk, in one run.

    `calls` counts the Python calls and system calls of one durable message. Needs a source
    checkout.

    Example: posthouse bench --quick

    Example: posthouse bench calls --quick --json
    """
    if not (CHECKOUT / "benchmarks" / "__main__.py").is_file():
        raise CommandFailed(
            "The benchmarks are not part of the installed package",
            "Clone the repository and run: make bench",
            exit_code=WRONG_USAGE,
        )
    switches = [
        *(["--quick"] if quick else []),
        *(["--json"] if json else []),
        *(["--directory", str(directory.resolve())] if directory else []),
    ]
    command = [sys.executable, "-m", "benchmarks", *switches, *(names or [])]
    raise typer.Exit(subprocess.run(command, cwd=CHECKOUT).returncode)
