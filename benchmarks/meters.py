"""Reading the clocks, the memory and the disk usage of this process."""

from __future__ import annotations

import gc
import os
import sys
import time
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Self

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_SHARED_TYPES = (type, ModuleType, FunctionType)


class Stopwatch:
    """Wall and processor time of what happens inside; the latter of all threads."""

    def __init__(self) -> None:
        self.wall_s = 0.0
        self.cpu_s = 0.0

    def __enter__(self) -> Self:
        self._cpu = time.process_time()
        self._wall = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wall_s += time.perf_counter() - self._wall
        self.cpu_s += time.process_time() - self._cpu


def resident_bytes() -> int:
    """Memory of this process that lies in RAM, files mapped by it included."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * _PAGE_SIZE


def deep_size(*roots: object) -> int:
    """Bytes of all objects reachable from these, each once; classes and modules left out.

    Counts what the objects ask for, not what the allocator holds on top of that.
    """
    seen: set[int] = set()
    found: list[object] = list(roots)
    total = 0
    while found:
        item = found.pop()
        if id(item) in seen or isinstance(item, _SHARED_TYPES):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        found.extend(gc.get_referents(item))
    return total


def directory_bytes(directory: Path) -> int:
    """What the files of a directory take on the disk: blocks, not lengths."""
    return sum(
        (Path(folder) / name).lstat().st_blocks * 512
        for folder, _, names in os.walk(directory)
        for name in names
    )
