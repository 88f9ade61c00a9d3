"""Where the data goes, and what kind of machine and disk that is."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from posthouse.model.interpreter import describe


class Mount(NamedTuple):
    """The file system that holds a directory."""

    device: str
    kind: str
    point: str


def mount_of(directory: Path) -> Mount:
    """Looked up by device number; of several places of one device, the one that it lies in."""
    state = directory.stat()
    number = f"{os.major(state.st_dev)}:{os.minor(state.st_dev)}"
    found = Mount(number, "unknown", "unknown")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        front, _, back = line.partition(" - ")
        fields, (kind, device, *_) = front.split(), back.split()
        if fields[2] == number and directory.resolve().is_relative_to(fields[4]):
            found = Mount(device, kind, fields[4])
    return found


def machine() -> str:
    """One line about the processor side."""
    load = os.getloadavg()[0]
    return (
        f"{describe()}; Linux {platform.release()}, "
        f"{len(os.sched_getaffinity(0))} processors, load {load:.1f} at the start"
    )


class Place:
    """A temporary directory; every benchmark takes fresh ones inside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mount = mount_of(directory)

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """An empty directory, gone afterwards."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def describe(self) -> str:
        """One line about the disk side."""
        return f"{self.mount.kind} on {self.mount.device}, in {self.directory.parent}"


@contextmanager
def temporary_place(parent: Path | None) -> Iterator[Place]:
    """A place of its own under `parent`, or in the system's temporary folder."""
    with tempfile.TemporaryDirectory(prefix="posthouse-bench-", dir=parent) as directory:
        yield Place(Path(directory))
