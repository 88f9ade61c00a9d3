"""The queue managers of the change tests, for the length of a test module."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from posthouse.client import admin_http as bulk_http
from tests.spark.change_history import History, Town
from tests.spark.change_readers import Drivers
from tests.spark.change_servers import Server, ServerThread

MEMORY = Path("/dev/shm")  # homes lie here where it is: the disk is tested elsewhere
NAMES = ("ALPHA", "BRAVO", "ALPHA", "TARGET")
FRESH_EVERY = 20  # histories, after which the sink has a new home


@contextmanager
def town() -> Iterator[tuple[Town, Path]]:
    """All of them, and the folder that they and their histories have."""
    folder = Path(tempfile.mkdtemp(prefix="changes-", dir=MEMORY if MEMORY.is_dir() else None))
    thread, patch = ServerThread(), pytest.MonkeyPatch()
    patch.setattr(bulk_http, "_PAUSE_FIRST_S", 0.005)
    servers = [Server(thread, folder / str(at), name) for at, name in enumerate(NAMES)]
    alpha, bravo, double, target = servers
    drivers = Drivers(thread.clock, (alpha, bravo, double))
    drivers.patch(patch)
    try:
        yield Town(alpha, bravo, double, target, drivers), folder
    finally:
        for server in servers:
            server.stop()
        thread.close()
        patch.undo()
        shutil.rmtree(folder, ignore_errors=True)


class Player:
    """Plays histories of one kind."""

    def __init__(self, made: tuple[Town, Path], kind: type[History] = History) -> None:
        self.town, self._folder = made
        self._kind = kind
        self._count = 0

    def __call__(self, seed: int, **more: object) -> History:
        if self._count % FRESH_EVERY == 0:
            self.town.target.empty("first")
        self._count += 1
        folder = self._folder / f"history-{seed}"
        folder.mkdir()
        try:
            history = self._kind(seed, self.town, folder, **more)  # type: ignore[arg-type]
            history.play()
        finally:
            shutil.rmtree(folder)
        return history
