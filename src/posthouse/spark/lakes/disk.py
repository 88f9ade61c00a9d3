"""The file system calls of a lake in one place, so that tests can make each of them fail."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from posthouse.model.errors import SharingViolation

FOLDER_MODE: Final = 0o700  # messages are their readers' own business
FILE_MODE: Final = 0o600
LOCK_WAIT_S: Final = 60.0
LOCK_POLL_S: Final = 0.02


class Disk:
    """The steps that change a lake. What they did survives a crash once its folder is synced."""

    def write(self, path: Path, data: bytes) -> None:
        """A new file with this content, synced."""
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def create(self, path: Path) -> None:
        """A new empty file that somebody will write."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE))

    def sync_file(self, path: Path) -> None:
        """The content of a file that somebody else has written."""
        _sync(path, os.O_RDONLY)

    def sync_folder(self, path: Path) -> None:
        """The names in a folder."""
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def move(self, old: Path, new: Path) -> None:
        """Renames a file; what had the new name is replaced."""
        old.replace(new)

    def link(self, old: Path, new: Path) -> bool:
        """Gives a file a second name; False where something has that name already."""
        try:
            os.link(old, new)
        except FileExistsError:
            return False
        return True

    def delete(self, path: Path) -> None:
        """Deletes a file, if it is there."""
        path.unlink(missing_ok=True)

    def delete_tree(self, path: Path) -> None:
        """Deletes a folder with all that is in it."""
        shutil.rmtree(path, ignore_errors=True)

    def make_folder(self, path: Path) -> None:
        """A folder and those it lies in, each of them durable."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
        self.sync_folder(path.parent)

    def sync_above(self, path: Path) -> None:
        """The folders that a path lies in, as far as they may be read.

        The process that made them may have been killed before it synced them.
        """
        for folder in path.parents:
            with suppress(OSError):
                self.sync_folder(folder)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, held: str, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Holds the lock of a file, which ends with the process; `held` states what it means."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE), "rb") as file:
        until = time.monotonic() + wait_s
        while not try_lock(file.fileno()):
            if time.monotonic() >= until:
                raise SharingViolation(f"{held} ({path})", "Wait until the other one has ended.")
            time.sleep(LOCK_POLL_S)
        yield


def try_lock(descriptor: int) -> bool:
    """Whether the lock of an open file was free; now it is ours until that is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
