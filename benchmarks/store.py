"""`store`: durable insert and remove rates beside SQLite and LMDB on the same disk."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.candidates import CANDIDATES, POSTHOUSE, SQLITE, Candidate, Posthouse
from benchmarks.figures import (
    Column,
    Goal,
    Measurement,
    Outcome,
    Row,
    Table,
    hundredths,
    median_cpu_us,
    median_rate,
    median_ratio,
    tenths,
    thousands,
)
from benchmarks.latency import disk_table
from benchmarks.meters import Stopwatch
from benchmarks.run import Run
from benchmarks.traced import count_syncs

NAME = "store"
BATCHES = (1, 16, 128, 1024)
GOAL_BATCH = 128
GOAL_RATIO = 1.7
OPERATIONS = ("insert", "remove")
MESSAGES_MAX = 400_000

Key = tuple[str, int, str]  # operation, batch, candidate
Results = dict[Key, list[Measurement]]

COLUMNS = [
    Column("operation", "operation"),
    Column("batch", "batch"),
    Column("candidate", "store"),
    Column("rate_per_s", "messages/s", thousands),
    Column("cpu_us", "CPU µs each", tenths),
    Column("ratio", "times SQLite", hundredths),
    Column("ratio_low", "worst round", hundredths),
    Column("ratio_high", "best round", hundredths),
    Column("syncs_per_group", "syncs a group", hundredths),
]


def measure(run: Run) -> Outcome:
    """Measures all candidates, one after the other in each round."""
    disk = disk_table(run, NAME)
    results: Results = {}
    with run.bar(NAME, run.rounds * len(BATCHES) * len(CANDIDATES) + 1) as bar:
        bar.step("counting sync calls")
        traced = count_syncs(run)
        for _ in range(run.rounds):
            for batch in BATCHES:
                for name in CANDIDATES:
                    bar.step(f"{name}, batch {batch}")
                    _measure_one(run, name, batch, results)
    table = Table(NAME, "rates", "store: durable messages of 1 KiB", COLUMNS)
    table.rows = [_row(key, results, traced) for key in sorted(results, key=_order)]
    table.note = "syncs a group: counted in the run for Posthouse, with strace for the others"
    return Outcome([disk, table], [_goal(operation, results) for operation in OPERATIONS])


def _measure_one(run: Run, name: str, batch: int, results: Results) -> None:
    with run.place.fresh("store") as directory:
        candidate = CANDIDATES[name](directory)
        try:
            inserted = _timed(run, candidate, candidate.insert, batch, MESSAGES_MAX)
            assert candidate.count() == inserted.messages, f"{name} lost messages"
            removed = _timed(run, candidate, candidate.remove, batch, inserted.messages)
            assert candidate.count() == inserted.messages - removed.messages
        finally:
            candidate.close()
    for operation, measurement in zip(OPERATIONS, (inserted, removed), strict=True):
        results.setdefault((operation, batch, name), []).append(measurement)


def _timed(
    run: Run,
    candidate: Candidate,
    operation: Callable[[int, int], None],
    batch: int,
    limit: int,
) -> Measurement:
    """Groups of one size until the time or the messages are over."""
    syncs_before, groups = syncs_of(candidate), 0
    with Stopwatch() as watch:
        until = time.perf_counter() + run.seconds(0.8, 0.05)
        while (groups + 1) * batch <= limit and time.perf_counter() < until:
            operation(1 + groups * batch, batch)
            groups += 1
    syncs = syncs_of(candidate) - syncs_before
    return Measurement(groups * batch, watch.wall_s, watch.cpu_s, groups, syncs)


def syncs_of(candidate: Candidate) -> int:
    """fdatasync calls so far, of those that can be counted from inside."""
    return candidate.disk.syncs if isinstance(candidate, Posthouse) else 0


def _order(key: Key) -> tuple[int, int, int]:
    operation, batch, name = key
    return OPERATIONS.index(operation), batch, list(CANDIDATES).index(name)


def _row(key: Key, results: Results, traced: dict[str, float]) -> Row:
    operation, batch, name = key
    ours, theirs = results[key], results[operation, batch, SQLITE]
    ratios = [a.rate / b.rate for a, b in zip(ours, theirs, strict=True)]
    counted = ours[0].syncs / ours[0].groups
    return {
        "operation": operation,
        "batch": batch,
        "candidate": name,
        "rate_per_s": median_rate(ours),
        "cpu_us": median_cpu_us(ours),
        "ratio": median_ratio(ours, theirs),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
        "syncs_per_group": counted or traced.get(name),
    }


def _goal(operation: str, results: Results) -> Goal:
    ours = results[operation, GOAL_BATCH, POSTHOUSE]
    theirs = results[operation, GOAL_BATCH, SQLITE]
    return Goal(
        NAME,
        f"{operation} at {GOAL_BATCH}, times SQLite",
        median_ratio(ours, theirs),
        GOAL_RATIO,
    )
