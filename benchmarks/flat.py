"""`flat`: what a message costs must not depend on how many others are waiting.

Once in a queue that is sent to and received from, once in an outgoing queue, whose messages a
session takes and its peer acknowledges.
"""

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
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.runtime.driver import Call

NAME = "flat"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SIZES_QUICK = (64, 256, 1_024)
BATCH = 128
GOAL_RATIO = 1.25
FAR = "DIRECT=TCP:192.0.2.1\\private$\\orders"  # an address for documentation: no host has it
BYTES_MAX = 1 << 30

COLUMNS = [
    Column("waiting", "waiting", thousands),
    Column("cpu_us", "CPU µs a pair", tenths),
    Column("cpu_us_mean", "mean of the rounds", tenths),
    Column("ratio", "times the shortest", hundredths),
    Column("rate_per_s", "pairs/s", thousands),
]


class Backlog:
    """A queue manager with this many messages waiting in a queue."""

    TITLE = "flat: a send and a receive of 1 KiB, batches of 128"
    PLACE, CURVE = "waiting", "curve"

    def __init__(self, home: Home, size: int, sample: list[bytes]) -> None:
        self.home = home
        self.size = size
        self.sample = sample
        self.handles = self.open()

    def open(self) -> Handles:
        """The queue."""
        return self.home.create(QUEUE)

    def take(self, count: int) -> int:
        """The first messages leave the queue; returns how many turns that took."""
        self.home.turn(receive_call(self.handles, count))
        return 1

    @property
    def left(self) -> int:
        """What waits in the end."""
        return self.home.waiting(QUEUE)

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
                turns += 1 + self.take(len(batch))
        syncs = self.home.disk.syncs - syncs
        return Measurement(count, watch.wall_s, watch.cpu_s, turns, syncs)


class OutgoingBacklog(Backlog):
    """A queue manager with this many messages on their way to another one."""

    TITLE = "flat: a send to another machine and its delivery, 1 KiB, batches of 128"
    PLACE, CURVE = "outgoing", "outgoing"

    def open(self) -> Handles:
        """An outgoing queue and a session that carries it."""
        self.sender: OutgoingCursor = self.home.driver.run(self._connect)
        return Handles(self._send, self._send)

    def _connect(self, manager: QueueManager) -> OutgoingCursor:
        caller = self.home.administrator
        self._send: OpenQueueDescriptor = manager.queues.open_queue(
            FAR, QueueAccessType.SEND, caller
        )
        return manager.transfer.begin_sending(self._send.target().number)

    def take(self, count: int) -> int:
        """A session takes them, the peer acknowledges them."""
        (answer,) = self.home.turn(lambda manager: self.sender.take(count, BYTES_MAX))
        taken: list[Outbound] = answer.value  # type: ignore[assignment]
        assert len(taken) == count
        self.home.turn(lambda manager: self.sender.acknowledged([out.number for out in taken]))
        return 2

    @property
    def left(self) -> int:
        """What is on its way in the end."""
        return self._send.target().state.count


def measure(run: Run) -> Outcome:
    """Both kinds of queue."""
    inside, outside = _measure(run, Backlog), _measure(run, OutgoingBacklog)
    return Outcome(inside.tables + outside.tables, inside.goals + outside.goals)


def _measure(run: Run, kind: type[Backlog]) -> Outcome:
    """Measures every length of backlog, one after the other in each round."""
    sizes, pairs = SIZES_QUICK if run.quick else SIZES, BATCH * run.dose(160, 4)
    results: dict[int, list[Measurement]] = {size: [] for size in sizes}
    sample = packets(8 * BATCH)
    with ExitStack() as stack:
        bar = stack.enter_context(run.bar(NAME, len(sizes) * (run.rounds + 1)))
        backlogs: list[Backlog] = []
        for size in sizes:
            bar.step(f"filling {size:,}")
            home = Home(stack.enter_context(run.place.fresh(NAME)))
            backlogs.append(kind(home, size, sample))
            backlogs[-1].fill(bar)
        for _ in range(run.rounds):
            for backlog in backlogs:
                bar.step(f"{backlog.size:,} {kind.PLACE}")
                results[backlog.size].append(backlog.pairs(pairs))
        for backlog in backlogs:
            assert backlog.left == backlog.size
            backlog.home.close()
    table = Table(NAME, kind.CURVE, kind.TITLE, COLUMNS)
    table.rows = [_row(size, results[size], results[sizes[0]]) for size in sizes]
    return Outcome([table], [_goal(results[sizes[-1]], results[sizes[0]], sizes, kind)])


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


def _goal(
    largest: list[Measurement],
    smallest: list[Measurement],
    sizes: tuple[int, ...],
    kind: type[Backlog],
) -> Goal:
    return Goal(
        NAME,
        f"cost at {sizes[-1]:,} {kind.PLACE}, times that at {sizes[0]:,}",
        _ratio(largest, smallest),
        GOAL_RATIO,
        at_most=True,
        condition="flat",
    )
