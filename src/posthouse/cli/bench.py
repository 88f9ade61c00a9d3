"""`posthouse bench`: measures this installation."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from posthouse.cli.error_output import CommandFailed
from posthouse.cli.exit_codes import WRONG_USAGE
from posthouse.cli.output import complain

# Beside src/ in a checkout: the comparisons need SQLite, LMDB and time, not every installation.
CHECKOUT = Path(__file__).parents[3]
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KILLED = 128  # what a shell adds to the number of the signal


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
    code, is_asked = _run(command)
    if is_asked and code == -signal.SIGTERM:
        complain("Interrupted; nothing was written.")
        raise typer.Exit(_KILLED + signal.SIGINT)
    if code < 0:
        name = signal.Signals(-code).name
        raise CommandFailed(
            f"The run broke off: {name} ended it",
            "If you did not send that, look whether memory was short (dmesg). Its folder "
            "posthouse-bench-* and servers that it started may still be there.",
            exit_code=_KILLED - code,
        )
    raise typer.Exit(code)


def _run(command: Sequence[str]) -> tuple[int, bool]:
    """Runs it to its end. A run that is asked to end (True) removes first what it wrote.

    It is in a session of its own, or Ctrl-C would reach it twice. What it gets is SIGTERM: until it
    has begun, that ends it without a traceback.
    """
    asked: list[int] = []
    before = {each: signal.signal(each, lambda number, _: asked.append(number)) for each in ENDINGS}
    try:
        with subprocess.Popen(command, cwd=CHECKOUT, start_new_session=True) as run:
            passed_on: list[int] = []

            def pass_on(number: int, _: object) -> None:
                passed_on.append(number)
                run.send_signal(signal.SIGTERM)

            for each in ENDINGS:
                if before[each] is not signal.SIG_IGN:
                    signal.signal(each, pass_on)
            if any(before[number] is not signal.SIG_IGN for number in map(signal.Signals, asked)):
                pass_on(asked[0], None)
            return run.wait(), bool(passed_on)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
