"""Progress of a pipeline: rows, rate and time, reported to a callback."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """Messages done so far; `total` is what was there at the start, 0 if that is unknown."""

    done: int
    total: int
    batches: int
    seconds: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0


Watch = Callable[[Progress], None]
"""Called after each batch."""


def unwatched(progress: Progress) -> None:
    """For pipelines without a watcher."""


class Meter:
    """Counts rows and reports progress to a callback."""

    def __init__(self, watch: Watch | None, total: int) -> None:
        self._watch = watch or unwatched
        self._began = time.monotonic()
        self.now = Progress(0, total, 0, 0.0)

    def expect(self, total: int) -> None:
        """This many messages there are to do."""
        self.now = self.now._replace(total=total)

    def add(self, messages: int, batches: int = 1) -> None:
        """One more batch, or some."""
        done, total, before, _ = self.now
        seconds = time.monotonic() - self._began
        self.now = Progress(done + messages, total, before + batches, seconds)
        self._watch(self.now)
