"""Raises the limits of the operating system for this process, and gives freed memory back.

Freed buffers stay with the process, which soon needs them again. Of what a million messages took,
most is never needed again once they have left, and it lies in small pieces, between which large
buffers do not fit: it goes back to the system.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from posthouse.store.memory import release_memory

SWITCH_S = 0.0001  # that a thread beside the loop keeps it waiting, at most
FILES_FOR_US = 512  # beside connections: segments, checkpoints, log, listeners
MAPPED_BYTES = 32 << 20  # larger buffers are mapped by themselves; the most that may be set
KEPT_BYTES = 128 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
RELEASE_EVERY_S: Final = 60.0  # at most, for it takes some 0.05 ms for each MiB
RELEASED_BYTES: Final = 32 << 20  # of buffers or rows: when they are gone, it is worth the time
LOOSE_BYTES: Final = 8 << 20  # that were freed since the last time
MESSAGE_BYTES: Final = 72  # of a waiting message: row, place in its queue, place in the log


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


def switch_soon() -> None:
    """Lets the loop have the interpreter soon again while threads beside it are at work."""
    sys.setswitchinterval(SWITCH_S)


def keep_private() -> None:
    """What this process creates is its user's alone, and its memory is not dumped to disk."""
    os.umask(0o077)
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


# -- memory


def keep_memory() -> None:
    """Lets freed buffers of large messages stay with the process, which soon needs them again.

    Else each is mapped, zeroed page by page and unmapped, which takes longer than writing it. Arrow
    takes its buffers from there too: memory of its own, beside what messages left free, would be
    some 20 MiB more of a process that is read from.
    """
    os.environ.setdefault(_ARROW_POOL, "system")  # looked at when it is imported
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # not glibc: its allocator does as it likes
        return
    mallopt(_M_ARENA_MAX, 1)  # or each thread keeps its own, which the others cannot use
    mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
    mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)


_ALLOCATED = ["arena", "ordblks", "smblks", "hblks", "hblkhd"]
_ALLOCATED += ["usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]


class _Allocated(ctypes.Structure):
    """`struct mallinfo2` of malloc.h."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _ALLOCATED)


def loose_bytes() -> int:
    """Return how much of this process is resident and not allocated: itself, and what was freed."""
    with open("/proc/self/statm", "rb") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):  # another allocator: all of it, as far as is known
        return resident
    mallinfo.restype = _Allocated
    found = mallinfo()
    return resident - int(found.uordblks) - int(found.hblkhd)


class MemoryRelease:
    """Gives memory back when much of it has become free, now and then."""

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float],
        release: Callable[[], None] = release_memory,
        loose: Callable[[], int] = loose_bytes,
    ) -> None:
        self._later = later
        self._clock = clock
        self._release = release
        self._loose = loose
        self._looked_s = clock() - RELEASE_EVERY_S
        self._left = 0  # loose bytes after the last time
        self._not_before_s = 0.0
        self._begun = False  # it will be done, and is not yet
        self._most = 0  # messages that waited since the last time
        self._waiting = 0
        self.loaded = False  # large buffers were held, and are not given back

    def note_buffers(self, held: int) -> None:
        """The most bytes that buffers had since this was called last."""
        is_loaded = held >= RELEASED_BYTES
        if self.loaded and not is_loaded and self._clock() >= self._not_before_s:
            self._give_back()
        self.loaded = self.loaded or is_loaded

    def note_messages(self, waiting: int) -> None:
        """How many messages wait now."""
        self._waiting = waiting
        self._most = max(self._most, waiting)
        if not self._begun and (self._most - waiting) * MESSAGE_BYTES >= RELEASED_BYTES:
            self._begun = True
            self._later(max(self._not_before_s - self._clock(), 0.0), self._give_back)

    def look(self) -> None:
        """Give back what connections have left that came and went, which no account has."""
        if self._clock() < max(self._not_before_s, self._looked_s + RELEASE_EVERY_S):
            return
        self._looked_s = self._clock()  # seldom: it takes as long as there are pieces
        if self._loose() >= self._left + LOOSE_BYTES:
            self._give_back()

    def _give_back(self) -> None:
        self._release()
        self._left = self._loose()
        self._not_before_s = self._clock() + RELEASE_EVERY_S
        self._most = self._waiting
        self.loaded = self._begun = False
