"""`flat`: what a message costs must not depend on how many others are waiting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from statistics import mean, median

from benchmarks.figures import (
    Column,
    Goal,
    Measurement,
    Outcome,
    Row,
    Table,
    hundredths,
    tenths,
    thousands,
)
from benchmarks.home import QUEUE, Handles, Home, batches, receive_call, send_call
from benchmarks.meters import Stopwatch
from benchmarks.pipeline import run_pipelined
from benchmarks.run import Bar, Run
from benchmarks.samples import packets
from posthouse.runtime.driver import Call

NAME = "flat"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SIZES_QUICK = (256, 1_024, 4_096)
BATCH = 128
GOAL_RATIO = 1.25

COLUMNS = [
    Column("waiting", "waiting", thousands),
    Column("cpu_us", "CPU µs a pair", tenths),
    Column("cpu_us_mean", "mean of the rounds", tenths),
    Column("ratio", "times the shortest", hundredths),
    Column("rate_per_s", "pairs/s", thousands),
]


class Backlog:
    """A queue manager with so many messages waiting."""

    def __init__(self, home: Home, size: int, sample: list[bytes]) -> None:
        self.home = home
        self.size = size
        self.sample = sample
        self.handles: Handles = home.create(QUEUE)

    def fill(self, bar: Bar) -> None:
        """Not timed."""
        run_pipelined(self.home, self._fills(bar))

    def _fills(self, bar: Bar) -> Iterator[Call]:
        done = 0
        for batch in batches(self.sample, BATCH, self.size):
            yield send_call(self.handles, batch)
            done += len(batch)
            bar.fill(done, self.size)
        bar.fill(0, 0)

    def pairs(self, count: int) -> Measurement:
        """As many messages in as out; the backlog stays as long as it is."""
        syncs, turns = self.home.disk.syncs, 0
        with Stopwatch() as watch:
            for batch in batches(self.sample, BATCH, count):
                self.home.turn(send_call(self.handles, batch))
                self.home.turn(receive_call(self.handles, len(batch)))
                turns += 2
        syncs = self.home.disk.syncs - syncs
        return Measurement(count, watch.wall_s, watch.cpu_s, turns, syncs)


def measure(run: Run) -> Outcome:
    """All lengths of backlog side by side, one behind the other in every round."""
    sizes, pairs = SIZES_QUICK if run.quick else SIZES, BATCH * run.dose(160, 4)
    results: dict[int, list[Measurement]] = {size: [] for size in sizes}
    sample = packets(8 * BATCH)
    with ExitStack() as stack:
        bar = stack.enter_context(run.bar(NAME, len(sizes) * (run.rounds + 1)))
        backlogs: list[Backlog] = []
        for size in sizes:
            bar.step(f"filling {size:,}")
            home = Home(stack.enter_context(run.place.fresh(NAME)))
            backlogs.append(Backlog(home, size, sample))
            backlogs[-1].fill(bar)
        for _ in range(run.rounds):
            for backlog in backlogs:
                bar.step(f"{backlog.size:,} waiting")
                results[backlog.size].append(backlog.pairs(pairs))
        for backlog in backlogs:
            assert backlog.home.waiting(QUEUE) == backlog.size
            backlog.home.close()
    table = Table(NAME, "curve", "flat: a send and a receive of 1 KiB, batches of 128", COLUMNS)
    table.rows = [_row(size, results[size], results[sizes[0]]) for size in sizes]
    return Outcome([table], [_goal(results[sizes[-1]], results[sizes[0]], sizes)])


def _row(size: int, rounds: list[Measurement], smallest: list[Measurement]) -> Row:
    return {
        "waiting": size,
        "cpu_us": median(m.cpu_us for m in rounds),
        "cpu_us_mean": mean(m.cpu_us for m in rounds),
        "ratio": _ratio(rounds, smallest),
        "rate_per_s": median(m.rate for m in rounds),
    }


def _ratio(rounds: list[Measurement], smallest: list[Measurement]) -> float:
    return median(a.cpu_us / b.cpu_us for a, b in zip(rounds, smallest, strict=True))


def _goal(largest: list[Measurement], smallest: list[Measurement], sizes: tuple[int, ...]) -> Goal:
    return Goal(
        NAME,
        f"cost at {sizes[-1]:,} waiting, times that at {sizes[0]:,}",
        _ratio(largest, smallest),
        GOAL_RATIO,
        at_most=True,
        condition="flat",
    )
