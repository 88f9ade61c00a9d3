"""What a file takes over from the one that it replaces: who may read it."""

from __future__ import annotations

import os
from contextlib import suppress
from stat import S_IMODE


def take_over(handle: int, model: os.stat_result) -> bool:
    """Gives a file the permissions of another one, and its owner and group; False: it may not.

    Another group than was meant gets what all have.
    """
    for owner in (model.st_uid, -1):
        with suppress(OSError):
            os.fchown(handle, owner, model.st_gid)
            break
    found, mode = os.fstat(handle), S_IMODE(model.st_mode) & 0o777
    os.fchmod(handle, mode if found.st_gid == model.st_gid else mode & (0o707 | (mode & 7) << 3))
    return (found.st_uid, found.st_gid) == (model.st_uid, model.st_gid)
