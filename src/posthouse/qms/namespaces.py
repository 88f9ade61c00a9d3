"""Process namespaces of Linux: a program sees its own processes only, and all of them end with it.

util-linux has the two programs that do this well and are on nearly every system: `unshare` makes
the namespace and kills it with itself, `setpriv` changes the user inside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Final

_UNSHARE: Final = ("--pid", "--fork", "--kill-child=KILL", "--mount-proc", "--")
# Linux forgets the signal of `--kill-child` when the user changes.
_SETPRIV: Final = ("--clear-groups", "--no-new-privs", "--pdeathsig=keep", "--")
_TRY_S: Final = 10.0


def apart(words: Sequence[str], user: int | None, group: int | None) -> list[str] | None:
    """The command that runs `words` in a namespace of their own, as another user if one is given.

    None where this system or this user cannot make namespaces.
    """
    unshare, setpriv = _found()
    if not unshare:
        return None
    if user is None or group is None:
        return [*unshare, *words]
    return [*unshare, *setpriv, f"--reuid={user}", f"--regid={group}", *_SETPRIV, *words]


@cache
def _found() -> tuple[list[str], list[str]]:
    """Both programs with what makes a namespace; tried once, for a container may forbid it."""
    unshare, setpriv = shutil.which("unshare"), shutil.which("setpriv")
    if unshare is None or setpriv is None:
        return [], []
    is_root = os.geteuid() == 0
    own_user = [] if is_root else ["--user", "--map-current-user"]
    words = [unshare, *own_user, *_UNSHARE]
    tries = [setpriv, *_SETPRIV, "true"] if is_root else ["true"]
    try:
        tried = subprocess.run(
            [*words, *tries], capture_output=True, timeout=_TRY_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return [], []
    return (words, [setpriv]) if tried.returncode == 0 else ([], [])
