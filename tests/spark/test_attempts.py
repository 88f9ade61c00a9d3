"""Tasks that fail at their end and batches that run twice: their sinks get everything once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.process import shop
from tests.process.spark_driver import Stream, committed, done
from tests.process.spark_post import Post

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    with ExitStack() as running:
        yield Post(tmp_path, running)


def test_what_runs_again_is_sent_once(post: Post, spark: SparkSession) -> None:
    """Attempts that fail at their end, and batches that are done again from the checkpoint."""
    failing = post.stream("queue", "fails")
    streams = [failing, post.stream("queue"), post.stream("parquet")]
    sent = [post.fill(stream) for stream in streams]
    done(spark, post.job(*streams))
    failures = list(Path(failing.checkpoint).parent.glob("failed-*"))
    assert len(failures) >= committed(failing) + 1 >= 3
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) == 0, "a run acknowledges its last batch"
        bodies |= post.fill(stream)
    done(spark, post.job(*streams, once=True))
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) > 0, "that of `once` waits for the next run"
        forget_commit(stream)
        bodies |= post.fill(stream)
    done(spark, post.job(*streams))
    for stream, bodies in zip(streams, sent, strict=True):
        shop.each_once(post.found(stream), bodies, set())
        assert post.office.count(stream.queue) == 0
    shop.check_balance(post.office.qm, locked=0)


def forget_commit(stream: Stream) -> None:
    """As if the driver had died just before it wrote down that the last batch is done."""
    last = committed(stream)
    assert last > 0
    for path in Path(stream.checkpoint, "commits").iterdir():
        if path.name.removeprefix(".").split(".")[0] == str(last):
            path.unlink()
    assert committed(stream) == last - 1
