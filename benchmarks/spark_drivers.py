"""What the benchmarks of Spark run on: a server, two drivers, and how much they get to do."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.ours import PosthouseServer
from benchmarks.peers.server import serving
from benchmarks.processes import Child, started
from benchmarks.run import Bar, Run
from benchmarks.spark_work import Done, Place, Work, in_words
from posthouse.client.connect import connect

SIZES = (200, 1024)
SETTINGS = ("session", "defaults")


class Dose(NamedTuple):
    """How much of what, in one round."""

    size: int  # bytes of a body
    stock: int  # messages that wait to be read
    sunk: int  # rows that are sent
    batch: int  # rows in a batch of a stream
    round: int = 0

    @property
    def queue(self) -> str:
        """Where the stock waits."""
        return f"stock{self.size}"

    @property
    def table(self) -> str:
        """The stock as Parquet files."""
        return f"table{self.size}"

    @property
    def sink(self) -> str:
        """A queue of this round's own."""
        return f"sunk{self.size}-{self.round}"


class Bench:
    """A server, two drivers, and what they did."""

    def __init__(self, run: Run, bar: Bar, folder: Path, running: ExitStack) -> None:
        self.run, self.bar, self.folder = run, bar, folder
        (folder / "server").mkdir()
        self.server = PosthouseServer(folder / "server")
        running.enter_context(serving(self.server))
        self.url, self.token_file = self.server.address.split()
        self.manager = running.enter_context(connect(self.server.home))
        self.drivers = {
            settings: running.enter_context(self._driver(settings)) for settings in SETTINGS
        }
        for driver in self.drivers.values():
            driver.report("ready")

    def _driver(self, settings: str) -> AbstractContextManager[Child]:
        place = Place(self.url, self.token_file, str(self.folder))
        log = str(self.folder / f"{settings}.txt")
        return child("benchmarks.spark_child", settings, log, *place)

    def do(self, work: Work, settings: str = "session") -> Done:
        """One piece of work by one of the drivers."""
        self.tell(work, settings)
        return self.hear(settings)

    def tell(self, work: Work, settings: str = "session") -> None:
        """Begins it."""
        self.drivers[settings].tell(json.dumps(in_words(work)))

    def hear(self, settings: str = "session") -> Done:
        """Waits for it."""
        return Done(**self.drivers[settings].report("wall_s"))

    def create(self, queue: str) -> None:
        """A queue to be measured."""
        self.manager.create_queue(path_of(queue))


def path_of(queue: str) -> str:
    """The path of a private queue."""
    return f".\\private$\\{queue}"


@contextmanager
def child(module: str, *arguments: str) -> Iterator[Child]:
    """A program of this package."""
    began = time.monotonic()
    with started([sys.executable, "-m", module, *arguments]) as process:
        yield Child(module, process, began)


def doses(run: Run) -> list[Dose]:
    """For both sizes; a quick one is a first look only."""
    if run.quick:
        return [Dose(SIZES[0], 3_000, 2_000, 1_000)]
    return [Dose(200, 1_000_000, 400_000, 200_000), Dose(1024, 400_000, 200_000, 100_000)]
