"""`backlog`: a million messages wait. Memory, restart after kill -9, drain, disk given back."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.figures import (
    Column,
    Goal,
    Outcome,
    Row,
    Table,
    hundredths,
    tenths,
    thousands,
)
from benchmarks.processes import Child, child
from benchmarks.run import Bar, Run

NAME = "backlog"
COUNT, COUNT_QUICK = 1_000_000, 4_000
STARTS = 5
GOAL_BYTES, AIM_BYTES = 120, 100
GOAL_READY_S, AIM_READY_S = 2.0, 1.0
MIB = 1 << 20

Report = dict[str, Any]


def measure(run: Run) -> Outcome:
    """Fill, kill, start several times (killed each time), drain."""
    count = run.dose(COUNT, COUNT_QUICK)
    with run.place.fresh(NAME) as directory, run.bar(NAME, 3 + run.rounds) as bar:
        filled = _fill(directory, count, bar)
        warm = [_start(directory, bar) for _ in range(run.rounds)]
        _forget_cached(directory)
        cold, drained = _start_and_drain(directory, bar)
    for started in (*warm, cold):
        lost = count - started["waiting"]
        assert lost <= 0, f"{lost} acknowledged messages are gone after kill -9"
    assert drained["waiting"] == 0
    return Outcome(
        [
            _rates(filled, drained),
            _memory(filled, warm, drained),
            _starts(warm, cold),
            _disk(filled, drained),
        ],
        _goals(filled, warm),
    )


def _fill(directory: Path, count: int, bar: Bar) -> Report:
    bar.step("filling")
    with child("fill", str(directory), str(count)) as filling:
        filled = filling.report("filled", lambda done: bar.fill(done, count))
        filling.kill()  # in the middle of further sends
    bar.fill(0, 0)
    assert filled["waiting"] == count
    return filled


def _started(starting: Child) -> Report:
    """From the call that made the process to the moment it would take requests."""
    started = starting.report("ready")
    started["ready_s"] = started["ready"] - starting.began
    started["python_s"] = started["imported"] - starting.began
    return started


def _start(directory: Path, bar: Bar) -> Report:
    bar.step("starting after kill -9")
    with child("start", str(directory)) as starting:
        return _started(starting)


def _start_and_drain(directory: Path, bar: Bar) -> tuple[Report, Report]:
    bar.step("starting with nothing cached")
    with child("start", str(directory)) as starting:
        started = _started(starting)
        bar.step("draining")
        starting.tell("drain")
        return started, starting.report("drained", lambda done: bar.fill(done, started["waiting"]))


def _forget_cached(directory: Path) -> None:
    """Asks the system to drop what it has cached of these files, as after a reboot."""
    for folder, _, names in os.walk(directory):
        for name in names:
            handle = os.open(Path(folder) / name, os.O_RDONLY)
            os.fdatasync(handle)  # only clean pages can be dropped
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(handle)


# -- tables


def _rates(filled: Report, drained: Report) -> Table:
    table = Table(
        NAME,
        "rates",
        "backlog: filling and draining, batches of 128, sync overlapped",
        [
            Column("case", "case"),
            Column("messages", "messages", thousands),
            Column("rate_per_s", "messages/s", thousands),
            Column("cpu_us", "CPU µs each", tenths),
        ],
    )
    for case, found in (("filled", filled), ("drained", drained)):
        table.rows.append(
            {
                "case": case,
                "messages": found[case],
                "rate_per_s": found[case] / found["wall_s"],
                "cpu_us": found["cpu_s"] / found[case] * 1e6,
            }
        )
    return table


def _memory(filled: Report, warm: list[Report], drained: Report) -> Table:
    each = filled["filled"]
    return Table(
        NAME,
        "memory",
        "backlog: memory of the process",
        [
            Column("case", "case"),
            Column("bytes_each", "bytes a message", tenths),
            Column("mib", "MiB", tenths),
        ],
        [
            _memory_row("growth of the resident set by the fill", filled["resident_bytes"], each),
            _memory_row("objects of state and store, added up", filled["counted_bytes"], each),
            _memory_row(
                "growth of the resident set by a start",
                median(s["resident_bytes"] for s in warm),
                warm[0]["waiting"],
            ),
            _memory_row("resident set when drained", drained["resident_bytes"], None),
        ],
    )


def _memory_row(case: str, size: float, messages: int | None) -> Row:
    each = None if messages is None else size / messages
    return {"case": case, "bytes_each": each, "mib": size / MIB}


def _starts(warm: list[Report], cold: Report) -> Table:
    table = Table(
        NAME,
        "starts",
        f"backlog: start after kill -9, {len(warm)} times, and with nothing cached",
        [
            Column("case", "case"),
            Column("warm_s", "median s", hundredths),
            Column("worst_s", "worst s", hundredths),
            Column("cpu_s", "CPU s", hundredths),
            Column("cold_s", "nothing cached s", hundredths),
        ],
    )
    parts = {
        "from exec to ready": "ready",
        "of that: Python and imports": "python",
        "of that: recover()": "recover",
    }
    for case, part in parts.items():
        table.rows.append(
            {
                "case": case,
                "warm_s": median(s[f"{part}_s"] for s in warm),
                "worst_s": max(s[f"{part}_s"] for s in warm),
                "cpu_s": median(s[f"{part}_cpu_s"] for s in warm),
                "cold_s": cold[f"{part}_s"],
            }
        )
    return table


def _disk(filled: Report, drained: Report) -> Table:
    sizes = {
        "filled": filled["disk_bytes"],
        "before draining": drained["disk_before"],
        "drained": drained["disk_drained"],
        f"tidied ({drained['tidy_s']:.2f} s)": drained["disk_after"],
    }
    columns = [Column("case", "case"), Column("mib", "MiB", tenths)]
    rows: list[Row] = [{"case": case, "mib": size / MIB} for case, size in sizes.items()]
    return Table(NAME, "disk", "backlog: what the store's directory takes", columns, rows)


def _goals(filled: Report, warm: list[Report]) -> list[Goal]:
    return [
        Goal(
            NAME,
            "memory of a waiting message",
            filled["resident_bytes"] / filled["filled"],
            GOAL_BYTES,
            AIM_BYTES,
            at_most=True,
            unit="bytes",
            condition="growth of the resident set",
        ),
        Goal(
            NAME,
            "ready after kill -9",
            median(s["ready_s"] for s in warm),
            GOAL_READY_S,
            AIM_READY_S,
            at_most=True,
            unit="s",
            condition=f"{warm[0]['waiting']:,} messages waiting",
        ),
    ]
