"""Streams that consume, with drivers and queue managers that die at any step.

Spark's part is played by `Driver`: the order in which it plans, logs, reads and commits is Spark's.
Whatever dies, each message comes out once, in order, and the queue is empty in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from posthouse.spark import settle
from posthouse.spark.limits import Limits
from tests.process.spark_office import SparkOffice, path_of
from tests.support.course_driver import Driver

STEPS = 30
CRASH = 0.08
KILL = 0.03


class Crash(Exception):
    """The driver is gone."""


@pytest.fixture
def frail(tmp_path: Path) -> Iterator[SparkOffice]:
    """A server that may be killed."""
    with ExitStack() as running:
        yield SparkOffice(tmp_path / "frail", running)


@pytest.mark.parametrize("seed", range(3))
def test_each_message_comes_out_once_whoever_dies(
    seed: int, frail: SparkOffice, tmp_path: Path, dose: Callable[[int, int], int]
) -> None:
    random = Random(seed)
    sent: list[bytes] = []
    sink: dict[int, list[bytes]] = {}
    folder = tmp_path / "checkpoint"
    frail.create("orders")
    options = {
        "url": frail.url,
        "tokenFile": str(frail.token_file),
        "queue": path_of("orders"),
        "consume": "onCommit",
        "group": "crashes",
        "checkpoint": str(folder),
        "minPartitions": "2",
    }

    def trouble() -> None:
        if random.random() < KILL:
            frail.server.kill()
            frail.server.start()
        if random.random() < CRASH:
            raise Crash

    def driver() -> Driver:
        frail.lapse()
        made = Driver(options, folder, trouble)
        made.sink = sink
        return made

    running = driver()
    began = False
    for _ in range(dose(STEPS, 40 * STEPS)):
        bodies = [b"%d" % number for number in range(len(sent), len(sent) + random.randrange(6))]
        frail.send("orders", bodies)
        sent += bodies
        try:
            if not began:
                running.start()
                began = True
            running.batch(Limits(random.randrange(1, 9)))
        except Crash:
            running, began = driver(), False
    running.trouble = lambda: None
    if not began:
        running.start()
    while running.batch(Limits(50)):
        pass
    running.course.close()
    assert [body for _, rows in sorted(sink.items()) for body in rows] == sent
    settle(folder, token_file=str(frail.token_file))
    assert frail.count("orders") == 0
    (group,) = frail.qm.call("GET", "/groups")["groups"]
    assert group["acknowledged"] == len(sent)
