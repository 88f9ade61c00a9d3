"""A disk that fills up under a pipeline: refused with the reason, nothing answered is lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from posthouse.client import arrow_read as bulk_read
from posthouse.client import stages
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue
from posthouse.client.groups import Claim, GroupReader
from posthouse.model.errors import InsufficientResources
from tests.process.offices import wait_until
from tests.process.spark_office import SparkOffice, path_of
from tests.support.process.small_disk import disk as disk

QUEUE, BODY, ROWS = "orders", 20_000, 50
BATCHES_MAX = 200  # far more than fit


def publish_until_full(http: BulkHttp) -> int:
    """How many batches were published before one was refused."""
    rows = pa.table({"body": pa.array([b"x" * BODY] * ROWS, pa.binary())})
    for batch in range(BATCHES_MAX):
        try:
            stages.stage(http, "q", batch, 0, 0, rows.schema, rows.to_batches(), path_of(QUEUE))
            stages.publish(http, "q", batch, [(0, 0)])
        except InsufficientResources:
            return batch
    raise AssertionError("the disk took everything")


def fits(http: BulkHttp, batch: int) -> bool:
    """Whether the disk has room for one more."""
    rows = pa.table({"body": pa.array([b"x"], pa.binary())})
    try:
        stages.stage(http, "q", batch, 0, 1, rows.schema, rows.to_batches(), path_of(QUEUE))
    except InsufficientResources:
        return False
    return True


@pytest.mark.peer("tmpfs")
def test_a_full_disk_refuses_batches_and_loses_none(disk: Path) -> None:
    with ExitStack() as running:
        office = SparkOffice(disk / "office", running)
        office.create(QUEUE)
        http = running.enter_context(BulkHttp(office.url, token_file=str(office.token_file)))
        published = publish_until_full(http)
        assert published > 0
        assert stages.progress(http, "q").batch == published - 1
        assert office.count(QUEUE) == published * ROWS

        # What makes room is still done: a group reads everything and acknowledges it.
        group = GroupReader(http, path_of(QUEUE), "archive")
        epoch = group.lease("consume", "full", "earliest").epoch
        (plan,) = bulk_read.plan(http, [PlannedQueue(path_of(QUEUE))]).queues
        group.claim(epoch, Claim(0, plan.end))
        read = bulk_read.read(http, path_of(QUEUE), 0, plan.end, ["lookup_id"])
        assert sum(batch.num_rows for batch in read) == published * ROWS
        assert group.acknowledge(epoch, plan.end)[1] == published * ROWS

        office.server.kill()
        office.server.start()
        assert office.count(QUEUE) == 0
        assert stages.progress(http, "q").batch == published - 1
        wait_until(lambda: fits(http, published), lambda: "there is no room again")
        stages.publish(http, "q", published, [(0, 1)])
        assert office.count(QUEUE) == 1
