"""The key file of a home, which seals private keys and hashes of passwords in the store.

It is readable by its owner only, and in no backup. A home whose store has records that another key
has sealed gets no new key: the operator puts the right one back, and until then what is sealed
cannot be used, and is listed as a problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from posthouse.engine.accounts.certificates import SealedRecord
from posthouse.model.errors import CorruptedSecurityData
from posthouse.model.text import counted
from posthouse.security.certificates import SEALING_KEY_SIZE

KEYS: Final = "keys"  # the folder in a home
SEAL: Final = "seal.key"
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
NAMED_MAX: Final = 5
STILL_WORKS: Final = (
    "Messages, tokens and logins over HTTP do not need them; remote read, NetWare logins and "
    "signing as these users do"
)


class KeyFile:
    """The sealing key of a home, made when it is first needed, unless sealed records are there."""

    def __init__(self, home: Path, sealed: Callable[[], Iterable[SealedRecord]] = tuple) -> None:
        self._path = home / KEYS / SEAL
        self._sealed = sealed
        self._key: bytes | None = None
        self._all_open = False

    def __call__(self) -> bytes:
        """Return the key; raises CorruptedSecurityData where there is none, and must be one."""
        if self._key is None:
            self._key = read_key(self._path) or self._made()
        return self._key

    def _made(self) -> bytes:
        if any(True for _ in self._sealed()):
            raise CorruptedSecurityData(
                f"the key file {self._path} is missing, and the store has records that it seals",
                "Put the file back from the home that this one is a copy of, and start again.",
            )
        return _make(self._path)

    def problems(self) -> list[str]:
        """Return a line that names what cannot be opened, if anything."""
        if self._all_open:  # everything that is new is sealed with the key that is here
            return []
        key = self._key or read_key_quietly(self._path)
        closed = closed_by(self._sealed(), key)
        if not closed:
            self._all_open = True
            return []
        state, way = "missing", ""
        if key is not None:
            state = "not the one that sealed them"
            way = ", or set these passwords again and make these keys again"
        return [
            f"{words_for(closed)} cannot be opened: {self._path} is {state}. {STILL_WORKS}. Put "
            f"the file of the home that was backed up there and start again{way}"
        ]


def closed_by(records: Iterable[SealedRecord], key: bytes | None) -> list[str]:
    """Return what a key does not open; without a key that is everything."""
    closed = dict[str, None]()
    for one in records:
        if one.what not in closed and not _opens(one, key):
            closed[one.what] = None
    return list(closed)


def _opens(one: SealedRecord, key: bytes | None) -> bool:
    try:
        return key is not None and one.open(key) is not None
    except CorruptedSecurityData:
        return False


def words_for(closed: list[str]) -> str:
    """Name a few of them, and count the rest."""
    more = len(closed) - NAMED_MAX
    words = ", ".join(closed[:NAMED_MAX])
    return f"{words} and {counted(more, 'other')}" if more > 0 else words


def read_key_quietly(path: Path) -> bytes | None:
    """Return the key in a file; None where there is none that could be used."""
    try:
        return read_key(path)
    except CorruptedSecurityData:
        return None


def read_key(path: Path) -> bytes | None:
    """Return the key in a file, which is closed to others; None where there is no file."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                os.fchmod(file.fileno(), FILE_MODE)
            key = file.read(SEALING_KEY_SIZE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptedSecurityData(f"the key file {path} cannot be read: {error}") from None
    if len(key) != SEALING_KEY_SIZE:
        raise CorruptedSecurityData(
            f"the key file {path} is damaged", "Restore it from a copy of this home."
        )
    return key


def _make(path: Path) -> bytes:
    """A new key, whole and durable before anything is sealed with it."""
    key = os.urandom(SEALING_KEY_SIZE)
    keep_key(path, key)
    return key


def keep_key(path: Path, key: bytes) -> None:
    """Write a key file, whole and durable."""
    try:
        path.parent.mkdir(mode=FOLDER_MODE, exist_ok=True)
        path.parent.chmod(FOLDER_MODE)
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        _write(new, key)
        new.rename(path)
        _sync_folder(path.parent)
        _sync_folder(path.parent.parent)
    except OSError as error:
        raise CorruptedSecurityData(f"the key file {path} cannot be made: {error}") from None


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
