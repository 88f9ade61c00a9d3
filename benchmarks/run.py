"""One run of the benchmarks: where, how much, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks.place import Place


class Bar:
    """The progress of one benchmark, on standard error; silent off a terminal."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def step(self, doing: str) -> None:
        """What is being measured now; everything before it is done."""
        self._progress.update(self._task, advance=1, doing=doing)

    def fill(self, done: int, total: int) -> None:
        """How far a long step is."""
        percent = f"{100 * done // total} %" if total else ""
        self._progress.update(self._task, part=percent)


class Run:
    """What every benchmark gets."""

    def __init__(self, place: Place, *, quick: bool) -> None:
        self.place = place
        self.quick = quick
        self.rounds = 1 if quick else 5

    def dose(self, usual: int, quick: int) -> int:
        """How much of something."""
        return quick if self.quick else usual

    def seconds(self, usual: float, quick: float) -> float:
        """How long something lasts."""
        return quick if self.quick else usual

    @contextmanager
    def bar(self, name: str, steps: int) -> Iterator[Bar]:
        """A progress bar of this many steps."""
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} {task.fields[doing]} {task.fields[part]}"),
            TimeElapsedColumn(),
        )
        live = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        with live as progress:
            task = progress.add_task(name, total=steps, completed=-1, doing="", part="")
            yield Bar(progress, task)
