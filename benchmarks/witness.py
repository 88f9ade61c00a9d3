"""A disk that remembers what was written and not yet synced.

The benchmarks ask it before they count a group as acknowledged: a rate that skipped its sync
would be worth nothing, so it ends the run.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from posthouse.store.disk import Buffer, RealDisk, RealFile

_SEGMENT = re.compile(r"\d+\.log")
_HEAD = 24  # bytes of a record's header, which are never all zero


class NotSynced(AssertionError):
    """Something was acknowledged that is not on the disk."""


class WitnessFile(RealFile):
    """A file that notes each write until a sync that began after it has ended."""

    def __init__(self, descriptor: int, name: str, disk: WitnessDisk) -> None:
        super().__init__(descriptor, name, False)
        self.disk = disk
        self.durable = _SEGMENT.fullmatch(name) is not None
        self.unsynced: deque[int] = deque()

    def write(self, buffers: Sequence[Buffer], offset: int, *, begin: bool = False) -> int:
        """Writes and notes it; zeros only reserve space and are not noted."""
        written = super().write(buffers, offset, begin=begin)
        if self.durable and any(buffers[0][:_HEAD]):
            self.disk.writes += 1
            self.unsynced.append(self.disk.writes)
        return written

    def sync(self) -> None:
        """Sync, and forget the writes from before it."""
        covered = len(self.unsynced)
        super().sync()
        if self.durable:
            self.disk.syncs += 1
        for _ in range(covered):
            self.unsynced.popleft()


class WitnessDisk(RealDisk):
    """A `RealDisk` that counts fdatasync calls and records which writes they cover."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writes = 0  # so far, to segments of the log
        self.syncs = 0  # of segments of the log, ended
        self._files: list[WitnessFile] = []

    def open(self, name: str, *, create: bool = False) -> RealFile:
        """Open a file under observation."""
        plain = super().open(name, create=create)
        file = WitnessFile(plain.fileno(), name, self)
        if file.durable:
            self._files.append(file)
        return file

    def require_synced(self, write: int) -> None:
        """All writes up to and with this one must be durable by now."""
        self._files = [file for file in self._files if file.fileno() >= 0 or file.unsynced]
        for file in self._files:
            if file.unsynced and file.unsynced[0] <= write:
                raise NotSynced(
                    f"write {file.unsynced[0]} to {file.name} was acknowledged without a sync"
                )
