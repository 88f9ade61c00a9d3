"""Streams that consume, with drivers and queue managers that die at any step.

Spark's part is played by `Driver`: the order in which it plans, logs, reads and commits is Spark's.
Whatever dies, each message comes out once, in order, and the queue is empty in the end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from posthouse.spark import settle
from posthouse.spark.limits import Limits
from posthouse.spark.offsets import StreamOffset, offset_of
from posthouse.spark.options import source_options
from posthouse.spark.portions import read_portion
from posthouse.spark.stream_planner import Course
from tests.process.spark_office import SparkOffice, path_of

STEPS = 30
CRASH = 0.08
KILL = 0.03


class Crash(Exception):
    """The driver is gone."""


class Driver:
    """A query of Spark's from one start to its crash; its checkpoint and sink outlive it."""

    def __init__(self, options: dict[str, str], folder: Path, trouble: Callable[[], None]) -> None:
        self.folder = folder
        self.sink: dict[int, list[bytes]] = {}
        self.course = Course(source_options(options))
        self.trouble = trouble

    def start(self) -> None:
        """Begins, and does again what was planned and not committed."""
        for part in ("offsets", "commits"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.course.begin()
        self.trouble()
        batch = self.last("offsets")
        if batch > self.last("commits"):
            self.finish(batch)

    def last(self, part: str) -> int:
        return max((int(file.name) for file in (self.folder / part).iterdir()), default=-1)

    def offset(self, batch: int) -> StreamOffset:
        if batch < 0:
            return self.course.first()
        line = (self.folder / "offsets" / str(batch)).read_text().splitlines()[2]
        return offset_of(json.loads(line))

    def batch(self, limits: Limits) -> bool:
        """One micro-batch; False where nothing is new."""
        last = self.last("commits")
        end = self.course.next(self.offset(last), limits)
        if end is None:
            return False
        self.trouble()
        text = f"v1\n{{}}\n{json.dumps(end.to_json())}"
        (self.folder / "offsets" / str(last + 1)).write_text(text)
        self.trouble()
        if last >= 0:
            self.course.commit(self.offset(last))
            self.trouble()
        self.finish(last + 1)
        return True

    def finish(self, batch: int) -> None:
        portions = self.course.portions(self.offset(batch - 1), self.offset(batch))
        self.trouble()
        self.sink[batch] = [
            body.as_py()
            for portion in portions
            for part in read_portion(portion, ["body"])
            for body in part.column(0)
        ]
        self.trouble()
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")
        self.trouble()


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
