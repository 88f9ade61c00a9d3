"""A process that changes a shared directory file until it is killed, and tells what was done."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from posthouse.directory.mirror import Action, Order
from posthouse.directory.objects import Site
from posthouse.runtime.directory.file import FileAuthority

WAIT_S = 60.0


def run(arguments: list[str]) -> int:
    """The directory file, a name for what is made, and the file that tells of it."""
    path, name, told = arguments
    authority = FileAuthority(Path(path), lambda: uuid.uuid4().bytes_le, WAIT_S)
    handle = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    made: list[Site] = []
    for number in range(1_000_000):
        wanted = Site(name=f"{name}-{number}")
        (stored,) = authority.together([Order(Action.CREATE, wanted, 1_700_000_000)])
        assert isinstance(stored, Site)
        os.write(handle, f"+{stored.name}\n".encode())
        made.append(stored)
        if len(made) > 5:  # so that the file stays small
            gone = made.pop(0)
            os.write(handle, f"?{gone.name}\n".encode())
            authority.together([Order(Action.DELETE, gone, 0)])
            os.write(handle, f"-{gone.name}\n".encode())
    return 0
