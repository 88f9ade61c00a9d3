"""What the operating system allows this process, raised as far as we may."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from typing import NamedTuple

MAPPED_BYTES = 32 << 20  # larger buffers are mapped by themselves; the most that may be set
KEPT_BYTES = 128 << 20
SWITCH_S = 0.0001  # that a thread beside the loop keeps it waiting, at most
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
FILES_FOR_US = 512  # beside connections: segments, checkpoints, log, listeners


class FileLimit(NamedTuple):
    """How many files and sockets this process may have open."""

    allowed: int
    wanted: int
    reserved: int = FILES_FOR_US  # of these, never for connections

    @property
    def enough(self) -> bool:
        """Whether every connection that the settings allow finds a descriptor."""
        return self.allowed >= self.wanted

    @property
    def for_connections(self) -> int:
        """Descriptors that connections may have: what is left for them, at least a quarter."""
        return max(self.allowed - self.reserved, self.allowed // 4)


def raise_file_limit(connections_max: int, open_files: int) -> FileLimit:
    """Raises the soft limit on open files to what the settings need, at most to the hard limit."""
    reserved = open_files + FILES_FOR_US
    wanted = connections_max + reserved
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        soft = wanted if hard == unlimited else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return FileLimit(wanted if soft == unlimited else soft, wanted, reserved)


def keep_memory() -> None:
    """Lets freed buffers of large messages stay with the process, which soon needs them again.

    Else each is mapped, zeroed page by page and unmapped, which takes longer than writing it.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: its allocator does as it likes
        return
    mallopt(_M_ARENA_MAX, 1)  # or each thread keeps its own, which the others cannot use
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


def release_memory() -> None:
    """Gives what is free between buffers back to the system; some 0.05 ms for each MiB of it.

    A thread would not help: whoever allocates meanwhile waits for it.
    """
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def switch_soon() -> None:
    """Lets the loop have the interpreter soon again while threads beside it are at work."""
    sys.setswitchinterval(SWITCH_S)


def keep_private() -> None:
    """What this process creates is its user's alone, and its memory is not dumped to disk."""
    os.umask(0o077)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
