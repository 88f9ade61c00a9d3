"""The default home, and the path of its control socket.

That is `control.sock` in the home. The path of a socket is short by the system's own limit: for a
deep home it lies in the user's runtime directory, and the file `control` in the home names it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "control.sock"
POINTER_NAME: Final = "control"
HOME_VARIABLE: Final = "POSTHOUSE_HOME"
SOCKET_PATH_MAX: Final = 107  # sun_path without its NUL


def default_home(environment: Mapping[str, str] = os.environ) -> Path:
    """`$POSTHOUSE_HOME`, else the usual place for a user's data (docs/python.md)."""
    named = environment.get(HOME_VARIABLE, "")
    return Path(named) if named else Path.home() / ".local" / "share" / "posthouse"


def socket_path(home: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """Where a server of this home puts its socket."""
    home = home.absolute()
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:32]
    base = environment.get("XDG_RUNTIME_DIR", "")
    choices = [home / SOCKET_NAME]
    if base:
        choices.append(Path(base) / "posthouse" / f"{digest}.sock")
    choices.append(Path("/tmp") / f"posthouse-{os.getuid()}" / f"{digest}.sock")
    return next(path for path in choices if len(os.fsencode(path)) <= SOCKET_PATH_MAX)


def prepare(home: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The path to listen on: its directory is ours alone, nothing is in the way.

    Raises `PermissionError` when somebody else has made the directory.
    """
    path = socket_path(home, environment)
    pointer = home / POINTER_NAME
    if path.parent != home.absolute():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.parent.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o077 or path.parent.is_symlink():
            raise PermissionError(f"{path.parent} is not this user's alone")
        pointer.write_text(f"{path}\n")
    else:
        pointer.unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    return path


def find(home: Path) -> Path:
    """The socket of a home, for clients; whether a server listens is seen when they connect."""
    pointer = home / POINTER_NAME
    try:
        named = pointer.read_text().strip()
    except OSError:
        named = ""
    return Path(named) if named else home.absolute() / SOCKET_NAME
