"""Counts the sync calls of the stores from outside, with strace: SQLite and LMDB sync in C."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.candidates import CANDIDATES
from benchmarks.processes import started
from benchmarks.run import Run
from benchmarks.witness import NotSynced

CALLS = ("fsync", "fdatasync", "msync")
BATCH = 16
_NO_FILE = 0x7FFFFFFF  # no process has this many open


def count_syncs(run: Run) -> dict[str, float]:
    """Sync calls a group by candidate, not timed; empty where nothing can be traced."""
    strace = shutil.which("strace")
    if strace is None:
        return {}
    groups = run.dose(100, 10)
    with run.place.fresh("traced") as directory:
        counts = _counts(strace, directory, groups)
    for name, count in zip(CANDIDATES, counts, strict=False):
        if count < groups:
            raise NotSynced(f"{name} made {count} sync calls for {groups} durable groups")
    return {n: count / groups for n, count in zip(CANDIDATES, counts, strict=False)}


def _counts(strace: str, directory: Path, groups: int) -> list[int]:
    """Sync calls of each candidate in turn: a child runs them, with a mark around each."""
    trace = directory / "trace"
    command = [strace, "-f", "-q", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"]
    traced = [sys.executable, "-m", "benchmarks.traced", str(directory), str(groups)]
    with started([*command, *traced]) as process:
        _, errors = process.communicate()
    if process.returncode and "ptrace" in errors.lower():
        return []  # a container that forbids tracing
    if process.returncode:
        raise RuntimeError(f"the stores under strace: {errors}")
    _, *parts = trace.read_text(encoding="utf-8").split(f"fsync({_NO_FILE})")
    between = parts[0::2]  # marks come in pairs
    return [sum(part.count(f" {call}(") for call in CALLS) for part in between]


def run_groups(directory: Path, groups: int) -> None:
    """What is traced: durable groups on every candidate, inserts and removals half and half."""
    for number, make in enumerate(CANDIDATES.values()):
        home = directory / str(number)
        home.mkdir()
        candidate = make(home)
        _mark()
        for at in range(groups // 2):
            candidate.insert(1 + at * BATCH, BATCH)
        for at in range(groups // 2):
            candidate.remove(1 + at * BATCH, BATCH)
        _mark()
        candidate.close()


def _mark() -> None:
    """A sync call that does nothing but is seen from outside."""
    with suppress(OSError):
        os.fsync(_NO_FILE)


if __name__ == "__main__":
    run_groups(Path(sys.argv[1]), int(sys.argv[2]))
