"""`kill -9` of driver, executor and queue manager while streams take messages from queues.

One driver runs three streams at the same time, from a queue into a Parquet table, from a queue into
another queue, and the pipeline `archive` into a lake; all of them consume. It begins on a cluster
and goes on, with the same checkpoints, wherever the next one runs. Only a kill that met work
counts.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Dose
from tests.process import shop
from tests.process.offices import wait_until
from tests.process.spark_cluster import PATIENCE_S, Cluster
from tests.process.spark_driver import (
    Driver,
    Job,
    Stream,
    committed,
    lake_bodies,
    parquet_bodies,
    planned,
)
from tests.process.spark_office import Feeder, SparkOffice

UNNOTICED_S, PAUSE_S = 30.0, 0.05
KILL_WITHIN_S = 0.4
TRIES = 20  # to find work in flight, for one kill
LOCAL = "local[2,4]"
SETTINGS = {"spark.log.level": "WARN", "spark.executor.memory": "512m"}
LOST_EXECUTOR, LOST_TASK = "Lost executor", "ExecutorLostFailure"


class Proof:
    """Streams, who feeds them, and who kills what they need."""

    def __init__(
        self, folder: Path, cluster: Cluster, masters: Iterator[str], running: ExitStack
    ) -> None:
        self.folder, self.cluster, self.running = folder, cluster, running
        self.drawn = random.Random(shop.seed())
        self.office = SparkOffice(folder / "office", running)
        self.office.create("orders", "letters", "copies", "bills")
        self.streams = [
            Stream("orders", "parquet", str(folder / "table"), str(folder / "orders-at")),
            Stream("letters", "queue", "copies", str(folder / "letters-at")),
            Stream("bills", "lake", str(folder / "lake"), str(folder / "bills-at")),
        ]
        self.feeders = [Feeder(self.office, stream.queue) for stream in self.streams]
        self.kills: Counter[str] = Counter()
        self.idle: Counter[str] = Counter()  # kills that met no work
        self.masters = masters
        self.driver = self.drive()

    def drive(self) -> Driver:
        """The next driver, which goes on where the last one was."""
        office = self.office
        job = Job(next(self.masters), office.url, str(office.token_file), self.streams, SETTINGS)
        return self.running.enter_context(Driver(self.folder, job))

    def in_flight(self) -> bool:
        """A batch is planned, and not committed."""
        return any(planned(stream) > committed(stream) for stream in self.streams)

    def wait_for_batches(self) -> None:
        """Until every stream has committed another one."""
        goals = [(stream, committed(stream) + 1) for stream in self.streams]

        def met() -> bool:
            self.driver.check()
            return all(committed(stream) >= goal for stream, goal in goals)

        wait_until(met, self.driver.said, PATIENCE_S)

    def kill(self, kind: str) -> None:
        """One that counts."""
        strike: Callable[[], bool] = getattr(self, f"kill_{kind}")
        for _ in range(TRIES):
            self.wait_for_batches()
            time.sleep(self.drawn.uniform(0, KILL_WITHIN_S))
            if strike():
                self.kills[kind] += 1
                return
            self.idle[kind] += 1
        pytest.fail(f"no kill of the {kind} met work")

    def kill_driver(self) -> bool:
        self.driver.kill()
        met_work = self.in_flight()
        self.driver = self.drive()
        return met_work

    def kill_executor(self) -> bool:
        log = self.driver.said()
        executors, tasks = log.count(LOST_EXECUTOR), log.count(LOST_TASK)
        os.kill(self.drawn.choice(self.cluster.executors()), signal.SIGKILL)

        def noticed() -> bool:
            return self.driver.said().count(LOST_EXECUTOR) > executors

        # One that had not made itself known to the driver is not missed, and met no work.
        until = time.monotonic() + UNNOTICED_S
        while not noticed() and time.monotonic() < until:
            time.sleep(PAUSE_S)
        self.wait_for_batches()
        return self.driver.said().count(LOST_TASK) > tasks

    def kill_manager(self) -> bool:
        self.office.server.kill()
        met_work = self.in_flight()
        self.office.server.start()
        return met_work

    def finish(self) -> None:
        """Nothing more is sent; what is there is taken."""
        for feeder in self.feeders:
            feeder.stop()
        told = self.driver.finish()
        failures = Counter(line["failed"] for line in told if "failed" in line)
        print(f"{self.kills.total()} kills: {dict(self.kills)}, idle ones: {dict(self.idle)},")
        print(f"streams begun again: {dict(failures)}, batches: {told[-1]['batches']},")
        print("messages:", {feeder.queue: len(feeder.sent) for feeder in self.feeders})

    def check(self) -> None:
        """Each message once in the sink, none in the queue, and books that balance."""
        found = (
            parquet_bodies(self.streams[0].target),
            self.office.bodies("copies"),
            lake_bodies(self.streams[2].target),
        )
        for bodies, feeder in zip(found, self.feeders, strict=True):
            shop.each_once(bodies, set(feeder.sent), set())
        assert [self.office.count(stream.queue) for stream in self.streams] == [0, 0, 0]
        shop.check_balance(self.office.qm, locked=0)


@pytest.mark.timeout(7200)
def test_every_message_reaches_the_sink_once_whoever_is_killed(
    tmp_path: Path, spark_cluster: Cluster, dose: Dose
) -> None:
    rounds = dose(1, 13)  # of three kills each, in a soak of eight
    executors, managers = dose(1, 3), dose(0, 2)  # on the cluster
    local = ("driver", "manager", "driver")[: dose(2, 3)]
    masters = [spark_cluster.master, LOCAL] * rounds + [LOCAL]
    with ExitStack() as running:
        proof = Proof(tmp_path, spark_cluster, iter(masters), running)
        for _ in range(rounds):
            on_cluster = ["executor"] * executors + ["manager"] * managers
            proof.drawn.shuffle(on_cluster)
            for kind in (*on_cluster, *local):
                proof.kill(kind)
        proof.finish()
        proof.check()
