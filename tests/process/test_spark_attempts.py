"""Tasks that run twice and batches that run twice: what a sink gets of them, it gets once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process import shop
from tests.process.clumsy_sink import FAILURE
from tests.process.shop import Names
from tests.process.spark_cluster import Cluster
from tests.process.spark_driver import Driver, Job, Stream, committed, parquet_bodies
from tests.process.spark_office import SparkOffice

pytestmark = pytest.mark.timeout(1800)
MESSAGES = 900

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.minTaskRuntime": "20ms",
    "spark.executor.memory": "512m",
}


class Post:
    """A server with messages in it, and drivers that come by."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.folder = folder
        self.office = SparkOffice(folder / "office", running)
        self._names = Names("letter")
        self._running = running

    def stream(self, sink: str, mischief: str = "") -> Stream:
        """From a queue of its own with messages."""
        queue = f"from-{sink}-{mischief}"
        target = f"to-{sink}-{mischief}"
        self.office.create(queue, *([target] if sink == "queue" else []))
        folder = self.folder / queue
        folder.mkdir()
        target = target if sink == "queue" else str(folder / "table")
        return Stream(queue, sink, target, str(folder / "at"), mischief=mischief)

    def fill(self, stream: Stream) -> set[bytes]:
        bodies = self._names.take(MESSAGES)
        self.office.send(stream.queue, bodies)
        return set(bodies)

    def run(self, *streams: Stream, master: str = "local[2,3]", **more: object) -> str:
        """Takes what is there; returns what the driver said."""
        office = self.office
        job = Job(master, office.url, str(office.token_file), list(streams), follow=False, **more)  # type: ignore[arg-type]
        driver = self._running.enter_context(Driver(self.folder, job))
        driver.finish()
        return driver.said()

    def found(self, stream: Stream) -> list[bytes]:
        """What is in the sink."""
        if stream.sink == "queue":
            return self.office.bodies(stream.target)
        return parquet_bodies(stream.target)


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    with ExitStack() as running:
        yield Post(tmp_path, running)


def test_what_runs_again_is_sent_once(post: Post) -> None:
    """Attempts that fail at their end, and batches that are done again from the checkpoint."""
    failing = post.stream("queue", "fails")
    streams = [failing, post.stream("queue"), post.stream("parquet")]
    sent = [post.fill(stream) for stream in streams]
    said = post.run(*streams, settings={"spark.log.level": "WARN"})
    assert said.count(FAILURE) >= committed(failing) + 1 >= 3
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) == 0, "a run acknowledges its last batch"
        bodies |= post.fill(stream)
    post.run(*streams, once=True)
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) > 0, "that of `once` waits for the next run"
        forget_commit(stream)
        bodies |= post.fill(stream)
    post.run(*streams)
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) == 0
    shop.check_balance(post.office.qm, locked=0)


def test_of_two_attempts_of_a_task_one_is_sent(post: Post, spark_cluster: Cluster) -> None:
    stream = post.stream("queue", "dawdles")
    sent = post.fill(stream)
    post.run(stream, master=spark_cluster.master, settings=SPECULATION)
    assert list(Path(stream.checkpoint).parent.glob("again-*")), "nothing was attempted twice"
    shop.each_once(post.found(stream), sent, set())
    assert post.office.count(stream.queue) == 0


def forget_commit(stream: Stream) -> None:
    """As if the driver had died just before it wrote down that the last batch is done."""
    last = committed(stream)
    assert last > 0
    for path in Path(stream.checkpoint, "commits").iterdir():
        if path.name.removeprefix(".").split(".")[0] == str(last):
            path.unlink()
    assert committed(stream) == last - 1
