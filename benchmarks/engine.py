"""`engine`: what the whole way through engine, driver and store costs, without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from enum import Enum
from statistics import median
from typing import NamedTuple

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
    percentile,
    tenths,
    thousands,
)
from benchmarks.home import (
    QUEUE,
    TRANSACTIONAL_QUEUE,
    Handles,
    Home,
    batches,
    receive_call,
    send_call,
)
from benchmarks.latency import disk_table, sync_latency
from benchmarks.meters import Stopwatch
from benchmarks.pipeline import run_pipelined
from benchmarks.run import Run
from benchmarks.samples import packets
from benchmarks.witness import NotSynced
from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.runtime.driver import Answer, Call

NAME = "engine"
BATCH = 128
TRANSACTION_SIZE = 100
GOAL_RATE, AIM_RATE = 60_000, 100_000
GOAL_SYNC_MS = 0.1
PIPELINED = "send, sync overlapped"

COLUMNS = [
    Column("case", "case"),
    Column("batch", "batch"),
    Column("rate_per_s", "messages/s", thousands),
    Column("rate_low", "worst round", thousands),
    Column("rate_high", "best round", thousands),
    Column("cpu_us", "CPU µs each", tenths),
    Column("p50_ms", "p50 ms", hundredths),
    Column("p99_ms", "p99 ms", hundredths),
    Column("syncs_per_group", "syncs a turn", hundredths),
]


class Bench:
    """One queue manager with its queues, and every way to use it that is measured."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.plain = home.create(QUEUE)
        self.transactional = home.create(TRANSACTIONAL_QUEUE, transactional=True)
        self.packets = packets(8 * BATCH)
        self.express = packets(8 * BATCH, express=True)
        self.in_transactions = packets(8 * TRANSACTION_SIZE, transactional=True)
        self.latencies_ms: list[float] = []
        self._transactions = 0

    # -- sending and receiving in batches

    def send(self, count: int) -> int:
        """A turn a batch, each synced before the next begins."""
        return self._turns(self._sends(count))

    def send_overlapped(self, count: int) -> int:
        """The next batches are decided while one is synced."""
        return run_pipelined(self.home, self._sends(count))

    def send_express(self, count: int) -> int:
        """Nothing to sync."""
        calls = (send_call(self.plain, batch) for batch in batches(self.express, BATCH, count))
        return self._turns(calls)

    def receive(self, count: int) -> int:
        """A turn a batch, each synced before the next begins."""
        calls = (receive_call(self.plain, BATCH) for _ in range(count // BATCH))
        return self._turns(calls)

    def receive_overlapped(self, count: int) -> int:
        """The next batches are received while one is synced."""
        calls = [receive_call(self.plain, BATCH) for _ in range(count // BATCH)]
        return run_pipelined(self.home, calls)

    def _sends(self, count: int) -> Iterator[Call]:
        return (send_call(self.plain, batch) for batch in batches(self.packets, BATCH, count))

    def _turns(self, calls: Iterator[Call]) -> int:
        turns = 0
        for call in calls:
            self.home.turn(call)
            turns += 1
        return turns

    # -- two-phase receive: begin, hand over, end

    def receive_two_phase(self, count: int) -> int:
        """A turn locks a batch and hands it over, the next one ends it: one call a message."""
        handle = self.plain.receive
        begins: list[Call] = [
            lambda m: m.messages.dequeue_message(handle, timeout_ms=0, two_phase=True)
        ] * BATCH
        for _ in range(count // BATCH):
            answers = self.home.turn(*begins)
            self.home.turn(*[self._end(answer) for answer in answers])
        return count // BATCH

    def _end(self, answer: Answer) -> Call:
        assert isinstance(answer.value, Read)
        lookup_id, handle = answer.value.lookup_id, self.plain.receive
        return lambda m: m.messages.dequeue_message_end(handle, lookup_id, positive=True)

    # -- transactions

    def send_transactions(self, count: int) -> int:
        """A turn a transaction: begin, a hundred sends, commit."""
        handles, turns = self.transactional, 0
        for batch in batches(self.in_transactions, TRANSACTION_SIZE, count):
            self.home.turn(self._transaction_of(handles, batch))
            turns += 1
        return turns

    def receive_transactions(self, count: int) -> int:
        """A turn a transaction: begin, a hundred receives, commit."""
        turns = count // TRANSACTION_SIZE
        for _ in range(turns):
            (answer,) = self.home.turn(self._transaction_of(self.transactional, None))
            assert len(answer.packets) == TRANSACTION_SIZE
        return turns

    def _transaction_of(self, handles: Handles, batch: list[bytes] | None) -> Call:
        """Sends the batch, or receives one where there is none."""
        self._transactions += 1
        identifier = self._transactions.to_bytes(16, "little")

        def call(manager: QueueManager) -> object:
            transaction = manager.transactions.create_transaction(identifier)
            result: object
            if batch is None:
                size = TRANSACTION_SIZE
                result = manager.messages.dequeue_messages(handles.receive, size, transaction)
            else:
                result = manager.messages.send_packets(handles.send, batch, transaction)
            manager.transactions.collection.prepare(identifier)
            manager.transactions.transaction_commit(identifier)
            return result

        return call

    # -- one at a time

    def send_single(self, count: int) -> int:
        """Each message waits for its own sync."""
        return self._singles(send_call(self.plain, [packet]) for packet in self.packets[:count])

    def receive_single(self, count: int) -> int:
        """Each message waits for its own sync."""
        return self._singles(receive_call(self.plain, 1) for _ in range(count))

    def _singles(self, calls: Iterator[Call]) -> int:
        turns = 0
        for call in calls:
            start = time.perf_counter()
            self.home.turn(call)
            self.latencies_ms.append((time.perf_counter() - start) * 1e3)
            turns += 1
        return turns


Work = Callable[[Bench, int], int]


class Syncs(Enum):
    """How often a case has to sync."""

    EACH_TURN = "each turn"
    SHARED = "several turns may share one"
    NEVER = "never, but for blocks of reserved numbers"


class Case(NamedTuple):
    """One row of the table; `before` puts the messages there that it takes away."""

    name: str
    batch: int
    work: Work
    syncs: Syncs = Syncs.EACH_TURN
    before: Work | None = None


# What one case sends the next one receives: the queues are empty again after each round.
CASES = (
    Case("send", BATCH, Bench.send),
    Case("receive", BATCH, Bench.receive),
    Case(PIPELINED, BATCH, Bench.send_overlapped, Syncs.SHARED),
    Case("receive, sync overlapped", BATCH, Bench.receive_overlapped, Syncs.SHARED),
    Case("receive in two phases", BATCH, Bench.receive_two_phase, before=Bench.send),
    Case("send in transactions", TRANSACTION_SIZE, Bench.send_transactions),
    Case("receive in transactions", TRANSACTION_SIZE, Bench.receive_transactions),
    Case("send express", BATCH, Bench.send_express, Syncs.NEVER),
    Case("receive express", BATCH, Bench.receive, Syncs.NEVER),
    Case("send one at a time", 1, Bench.send_single),
    Case("receive one at a time", 1, Bench.receive_single),
)


def measure(run: Run) -> Outcome:
    """Every case in every round, on one queue manager."""
    disk = disk_table(run, NAME)
    results: dict[str, list[Measurement]] = {case.name: [] for case in CASES}
    latencies: dict[str, list[float]] = {case.name: [] for case in CASES}
    sync_ms: list[float] = []
    with run.place.fresh(NAME) as directory, run.bar(NAME, run.rounds * len(CASES)) as bar:
        bench = Bench(Home(directory))
        for _ in range(run.rounds):
            sync_ms.append(sync_latency(directory, 1, run.dose(200, 20)).p50_ms)
            for case in CASES:
                bar.step(case.name)
                results[case.name].append(_measure_one(run, bench, case))
                latencies[case.name] += bench.latencies_ms
                bench.latencies_ms = []
        bench.home.close()
    table = Table(NAME, "rates", "engine: messages of 1 KiB through engine and store", COLUMNS)
    table.rows = [_row(case, results[case.name], latencies[case.name]) for case in CASES]
    return Outcome([disk, table], [_goal(results[PIPELINED], median(sync_ms))])


def _measure_one(run: Run, bench: Bench, case: Case) -> Measurement:
    count = run.dose(300, 20) if case.batch == 1 else run.dose(300, 4) * case.batch
    if case.before is not None:
        case.before(bench, count)
    bench.home.tidy_up()  # garbage of the previous case must not count for this one
    syncs = bench.home.disk.syncs
    with Stopwatch() as watch:
        turns = case.work(bench, count)
    syncs = bench.home.disk.syncs - syncs
    if case.syncs is Syncs.EACH_TURN and syncs < turns:
        raise NotSynced(f"{case.name}: {syncs} syncs for {turns} turns")
    return Measurement(count, watch.wall_s, watch.cpu_s, turns, syncs)


def _row(case: Case, rounds: list[Measurement], latencies: list[float]) -> Row:
    rates = [m.rate for m in rounds]
    return {
        "case": case.name,
        "batch": case.batch,
        "rate_per_s": median_rate(rounds),
        "rate_low": min(rates),
        "rate_high": max(rates),
        "cpu_us": median_cpu_us(rounds),
        "p50_ms": percentile(latencies, 0.5) if latencies else None,
        "p99_ms": percentile(latencies, 0.99) if latencies else None,
        "syncs_per_group": sum(m.syncs for m in rounds) / sum(m.groups for m in rounds),
    }


def _goal(rounds: list[Measurement], sync_ms: float) -> Goal:
    return Goal(
        NAME,
        "durable pipelined send",
        median_rate(rounds),
        GOAL_RATE,
        AIM_RATE,
        condition=f"where the disk syncs in {GOAL_SYNC_MS} ms; here {sync_ms:.2f} ms",
        unit="messages/s",
    )
