"""The key file of a home, which seals private keys; readable by its owner only."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from posthouse.model.errors import CorruptedSecurityData
from posthouse.security.certificates import SEALING_KEY_SIZE

KEYS: Final = "keys"  # the folder in a home
SEAL: Final = "seal.key"
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600


def key_file(home: Path) -> Callable[[], bytes]:
    """Reads the sealing key of a home when it is first needed, and makes it where there is none."""
    known: list[bytes] = []

    def sealing_key() -> bytes:
        if not known:
            known.append(_read(home / KEYS / SEAL) or _make(home / KEYS / SEAL))
        return known[0]

    return sealing_key


def _read(path: Path) -> bytes | None:
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
    return key


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
