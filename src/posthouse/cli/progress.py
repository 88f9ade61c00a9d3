"""Progress bars on standard error, only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

Advance = Callable[[int, int], None]
"""Called with what is done and what there is in all."""


@contextmanager
def bar(what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """A bar that fills as `Advance` is called."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=_console(quiet), transient=True
    ) as shown:
        task = shown.add_task(what, total=total or None)

        def advance(done: int, in_all: int) -> None:
            shown.update(task, completed=done, total=max(done, in_all))

        yield advance


@contextmanager
def spinner(what: str, *, quiet: bool = False) -> Iterator[None]:
    """For work whose end cannot be foreseen."""
    with _console(quiet).status(what):
        yield


def _console(quiet: bool) -> Console:
    return Console(stderr=True, quiet=quiet or not sys.stderr.isatty())
