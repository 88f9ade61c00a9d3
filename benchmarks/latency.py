"""How long the disk takes to sync: the ground every durable rate stands on."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Column, Table, hundredths, percentile
from benchmarks.run import Run
from benchmarks.samples import body_of

SIZES_KIB = (1, 16, 128, 1024)


class Latency(NamedTuple):
    """Milliseconds of a write with its fdatasync, at the end of a growing file."""

    p50_ms: float
    p99_ms: float


def sync_latency(directory: Path, size_kib: int, times: int) -> Latency:
    """Measured on a file of its own."""
    data = b"".join(body_of(number) for number in range(size_kib))
    path = directory / "latency"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        taken = [_write_synced(handle, data, at * len(data)) for at in range(times)]
    finally:
        os.close(handle)
        path.unlink()
    return Latency(percentile(taken, 0.5) * 1e3, percentile(taken, 0.99) * 1e3)


def _write_synced(handle: int, data: bytes, offset: int) -> float:
    start = time.perf_counter()
    os.pwrite(handle, data, offset)
    os.fdatasync(handle)
    return time.perf_counter() - start


def disk_table(run: Run, benchmark: str) -> Table:
    """The disk, before anything else is measured on it."""
    table = Table(
        benchmark,
        "disk",
        f"{benchmark}: a write with its fdatasync, {run.place.describe()}",
        [
            Column("size_kib", "KiB"),
            Column("p50_ms", "p50 ms", hundredths),
            Column("p99_ms", "p99 ms", hundredths),
        ],
    )
    with run.place.fresh("latency") as directory:
        for size_kib in SIZES_KIB:
            times = run.dose(1000, 20) // (1 if size_kib < 128 else 5)
            found = sync_latency(directory, size_kib, times)
            table.rows.append({"size_kib": size_kib, **found._asdict()})
    return table
