"""A file of the audit log: lines that are synced, files that are set aside and bounded.

What cannot be written is kept, up to a bound, and written when that works.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from posthouse.api.audit import AuditEntryJson
from posthouse.runtime.audit.settings import AuditSettings

FILE_MODE: Final = 0o600
UNWRITTEN_MAX: Final = 1_000  # entries that wait for the disk; then the oldest are given up
DAY_S: Final = 86_400
_decode: Final = msgspec.json.Decoder(AuditEntryJson).decode

Tell = Callable[[str, dict[str, object]], None]


class AuditFile:
    """Entries in the order of their numbers, in one file and `kept` older ones."""

    def __init__(
        self,
        path: Path,
        settings: AuditSettings,
        kept: int,
        tell: Tell,
        now: Callable[[], datetime],
    ) -> None:
        self.path = path
        self.settings = settings
        self.given_up = 0  # entries for which there was no place
        self._kept = kept
        self._tell = tell
        self._now = now
        self._unwritten: deque[bytes] = deque()
        self._descriptor = -1
        self._size = 0
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _drop_torn_end(path)

    @property
    def unwritten(self) -> int:
        """Entries that are not on disk though they should be."""
        return len(self._unwritten) + self.given_up

    # -- writing

    def written(self, lines: list[bytes]) -> OSError | None:
        """Writes and syncs lines, and those that wait; why it could not, if so."""
        late = len(self._unwritten)
        try:
            self._write(b"".join([*self._unwritten, *lines]))
        except OSError as error:
            if not late:
                self._tell("audit_not_written", {"file": str(self.path), "cause": error.strerror})
            self._unwritten.extend(lines)
            while len(self._unwritten) > UNWRITTEN_MAX:
                self._unwritten.popleft()
                self.given_up += 1
            return error
        self._unwritten.clear()
        if late:
            self._tell("audit_written", {"late": late, "given_up": self.given_up})
        return None

    def _write(self, data: bytes) -> None:
        if self._descriptor < 0:
            self._open()
        if self._size and (self._size + len(data) > self.settings.size_max or self._is_old()):
            self._rotate()
        view, size = memoryview(data), self._size
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
            os.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            self.close_file()
            raise
        self._size = size + len(data)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, FILE_MODE)
        self._size = os.fstat(self._descriptor).st_size
        self._sync_folder()

    def _is_old(self) -> bool:
        """Whether the first entry of the file is older than old files may become."""
        if not self.settings.days_kept:
            return False
        with suppress(OSError, msgspec.MsgspecError, ValueError), self.path.open("rb") as file:
            first = datetime.fromisoformat(_decode(file.readline()).time)
            return (self._now() - first).total_seconds() > self.settings.days_kept * DAY_S
        return False

    def _rotate(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._numbered(number).replace(self._numbered(number + 1))
        self.path.replace(self._numbered(1))
        self.close_file()
        self._drop_old()
        self._open()

    def _drop_old(self) -> None:
        if not self.settings.days_kept:
            return
        oldest = self._now().timestamp() - self.settings.days_kept * DAY_S
        for number in range(1, self._kept + 1):
            with suppress(FileNotFoundError):
                if self._numbered(number).stat().st_mtime < oldest:
                    self._numbered(number).unlink()

    def _sync_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path

    def close_file(self) -> None:
        """Gives the descriptor back."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    # -- reading, in a thread

    def backward(self, before: int | None) -> Iterator[AuditEntryJson]:
        """Entries before a number, the newest first."""
        for number in range(self._kept + 1):
            for line in reversed(_lines(self._numbered(number))):
                entry = _entry(line)
                if entry is not None and (before is None or entry.seq < before):
                    yield entry

    def forward(self, after: int) -> Iterator[AuditEntryJson]:
        """Entries after a number, the oldest first."""
        numbers = [n for n in range(self._kept + 1) if self._first_seq(n) is not None]
        ahead = [n for n in numbers if (self._first_seq(n) or 0) > after + 1]
        begun = [n for n in numbers if n not in ahead][:1]  # the one file in which `after` lies
        for number in sorted([*ahead, *begun], reverse=True):
            for line in _lines(self._numbered(number)):
                entry = _entry(line)
                if entry is not None and entry.seq > after:
                    yield entry

    def _first_seq(self, number: int) -> int | None:
        try:
            with self._numbered(number).open("rb") as file:
                entry = _entry(file.readline())
        except OSError:
            return None
        return None if entry is None else entry.seq

    @property
    def last_seq(self) -> int:
        """The greatest number."""
        return next((entry.seq for entry in self.backward(None)), 0)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []


def _entry(line: bytes) -> AuditEntryJson | None:
    """An entry; None for a line that is damaged or was not written by us."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _drop_torn_end(path: Path) -> None:
    """Removes half a line that a crash left: nothing was acknowledged for it."""
    with suppress(OSError), path.open("r+b") as file:
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)
            os.fsync(file.fileno())
