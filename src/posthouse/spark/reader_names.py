"""Names of readers: unique, and on the same machine they show whether their process is dead.

A lease is the reader's whose name it has, and no other one takes it over while it lasts. A driver
that was killed would keep its own successor out for that time. So the name states which process of
which machine it is: a successor there can see that the process is gone.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"reader [0-9a-f]{8} of process (\d+)\.(\d+) on \S+ \(([0-9a-f]{12})\)")


def reader_name() -> str:
    """A name that no other reader has."""
    pid, host = os.getpid(), re.sub(r"\s", "-", socket.gethostname()) or "unknown"
    return f"reader {secrets.token_hex(4)} of process {pid}.{_began(pid)} on {host} ({_machine()})"


def is_dead(name: str) -> bool:
    """Whether the process of a reader is gone for certain; False for those of other machines."""
    known = _NAME.fullmatch(name)
    if known is None or known[3] != _machine() or known[2] == "0":
        return False
    return _began(int(known[1])) not in (int(known[2]), None)


def _began(pid: int) -> int | None:
    """When a process began, in ticks since the boot; 0: there is none, None: it is not known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        state, *rest = fields.rpartition(")")[2].split()
        return 0 if state in "XZ" else int(rest[18])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except (OSError, IndexError, ValueError):
        return None


@cache
def _machine() -> str:
    """Processes with this in their names can be looked for here: one boot, one space of numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return sha256(f"{boot}{Path('/proc/self/ns/pid').readlink()}".encode()).hexdigest()[:12]
    except OSError:
        return secrets.token_hex(6)  # like no other: nothing can be looked for
