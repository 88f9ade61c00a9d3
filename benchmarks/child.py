"""What the benchmarks do in processes of their own: `python -m benchmarks.child ROLE ...`.

A child reports in lines of JSON on standard output. It ends when its standard input does, or when
it is killed, which is part of the measurement.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.home import QUEUE, Handles, Home, batches, receive_call, send_call
from benchmarks.meters import Stopwatch, deep_size, directory_bytes, resident_bytes
from benchmarks.pipeline import run_pipelined
from benchmarks.samples import packets
from posthouse.runtime.driver import Call

BATCH = 128
REPORTS = 50  # progress reports of a long job
IMPORTED, IMPORTED_CPU = time.monotonic(), time.process_time()


def report(**fields: object) -> None:
    """One line for the parent."""
    print(json.dumps(fields), flush=True)


def told(calls: Iterator[Call], total: int) -> Iterator[Call]:
    """The calls, with a report of the messages so far on the way."""
    step = max(1, total // BATCH // REPORTS)
    for done, call in enumerate(calls):
        if done % step == 0:
            report(done=done * BATCH)
        yield call


# -- fill


def fill(directory: Path, count: int) -> None:
    """Sends this many messages, reports, and goes on sending until it is killed."""
    home = Home(directory)
    handles, sample = home.create(QUEUE), packets(8 * BATCH)
    # Once around, so that what the first messages need is not counted as theirs.
    run_pipelined(home, _sends(handles, sample, len(sample)))
    resident, counted = resident_bytes(), deep_size(home.recovered.state, home.store)
    rest = count - len(sample)
    with Stopwatch() as watch:
        run_pipelined(home, told(_sends(handles, sample, rest), rest))
    report(
        filled=rest,
        waiting=home.waiting(QUEUE),
        wall_s=watch.wall_s,
        cpu_s=watch.cpu_s,
        resident_bytes=resident_bytes() - resident,
        counted_bytes=deep_size(home.recovered.state, home.store) - counted,
        disk_bytes=directory_bytes(directory),
    )
    while True:
        home.turn(send_call(handles, sample[:BATCH]))


def _sends(handles: Handles, sample: list[bytes], count: int) -> Iterator[Call]:
    return (send_call(handles, batch) for batch in batches(sample, BATCH, count))


# -- start


def start(directory: Path) -> None:
    """Opens a home, reports when it is ready, then drains it if it is told to."""
    resident = resident_bytes()
    home = Home(directory)
    report(
        ready=time.monotonic(),
        imported=IMPORTED,
        recover_s=home.recover_s,
        recover_cpu_s=home.recover_cpu_s,
        python_cpu_s=IMPORTED_CPU,
        ready_cpu_s=time.process_time(),
        waiting=home.waiting(QUEUE),
        torn_bytes=home.recovered.torn_bytes,
        resident_bytes=resident_bytes() - resident,
    )
    if sys.stdin.readline().strip() == "drain":
        _drain(home)
        sys.stdin.readline()


def _drain(home: Home) -> None:
    handles, count = home.open(QUEUE), home.waiting(QUEUE)
    before = directory_bytes(home.directory)
    turns = (receive_call(handles, BATCH) for _ in range(-(-count // BATCH)))
    with Stopwatch() as watch:
        run_pipelined(home, told(turns, count))
    drained = directory_bytes(home.directory)
    with Stopwatch() as tidying:
        home.tidy_up()
    report(
        drained=count,
        waiting=home.waiting(QUEUE),
        wall_s=watch.wall_s,
        cpu_s=watch.cpu_s,
        tidy_s=tidying.wall_s,
        disk_before=before,
        disk_drained=drained,
        disk_after=directory_bytes(home.directory),
        resident_bytes=resident_bytes(),
    )
    home.close()


def main(role: str, *arguments: str) -> None:
    """The roles a child can have."""
    if role == "fill":
        fill(Path(arguments[0]), int(arguments[1]))
    else:
        assert role == "start", role
        start(Path(arguments[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
