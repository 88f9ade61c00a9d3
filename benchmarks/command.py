"""What the commands of this package share: where they measure, and how they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from benchmarks.place import Place, machine, temporary_place
from benchmarks.witness import NotSynced
from posthouse.cli.output import complain, print_json, say

FAILED = 1
WRONG_USAGE = 2
INTERRUPTED = 130


@contextmanager
def measured_place(parent: Path | None, *, quick: bool, json: bool) -> Iterator[Place]:
    """A temporary directory, introduced to the reader; gone afterwards, however that comes."""
    if parent is not None and not parent.is_dir():
        complain(f"{parent} is not a directory.")
        raise typer.Exit(WRONG_USAGE)
    try:
        with temporary_place(parent) as place:
            _introduce(place.describe(), quick=quick, json=json)
            yield place
    except KeyboardInterrupt:
        complain("Interrupted; everything written was removed.")
        raise typer.Exit(INTERRUPTED) from None
    except NotSynced as error:
        complain(f"These figures would be worth nothing: {error}.")
        raise typer.Exit(FAILED) from None
    except (RuntimeError, OSError) as error:  # typer passes over a closed pipe
        complain(f"The run broke off: {error}")
        raise typer.Exit(FAILED) from None


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


def run_command(command: Callable[..., None], name: str) -> None:
    """Asked to end, however politely, a run first removes what it wrote."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` switches it off
    for each in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(each, lambda *_: signal.raise_signal(signal.SIGINT))
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    app(prog_name=name)
