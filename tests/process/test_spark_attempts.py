"""Two attempts of a task at the same time: what a sink gets of them, it gets once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process import shop
from tests.process.spark_cluster import Cluster
from tests.process.spark_driver import Driver
from tests.process.spark_post import Post

pytestmark = pytest.mark.timeout(1800)
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.minTaskRuntime": "20ms",
    "spark.executor.memory": "512m",
}


@pytest.fixture
def post(tmp_path: Path) -> Iterator[Post]:
    with ExitStack() as running:
        yield Post(tmp_path, running)


@pytest.mark.soak  # `test_of_several_attempts_the_one_that_was_committed_counts` has the rule
def test_of_two_attempts_of_a_task_one_is_sent(post: Post, spark_cluster: Cluster) -> None:
    stream = post.stream("queue", "dawdles")
    sent = post.fill(stream)
    job = post.job(stream, master=spark_cluster.master, settings=SPECULATION)
    with Driver(post.folder, job) as driver:
        driver.finish()
    assert list(Path(stream.checkpoint).parent.glob("again-*")), "nothing was attempted twice"
    shop.each_once(post.found(stream), sent, set())
    assert post.office.count(stream.queue) == 0
