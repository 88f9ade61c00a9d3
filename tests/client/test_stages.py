"""Writers of batches against a real server: stage, publish, once and as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import posthouse
from posthouse.client import admin_http as bulk_http
from posthouse.client import stages
from posthouse.client.admin_http import BulkHttp
from posthouse.model.errors import QueueError, TransactionSequence
from tests.client.serving import Serving, serving

SCHEMA = pa.schema([("body", pa.binary()), ("priority", pa.int32())])
QUERY = "query / one?"  # a name that has to be quoted


def rows(count: int, priority: int = 3) -> pa.RecordBatch:
    bodies = [b"%04d" % number for number in range(count)]
    return pa.record_batch([bodies, [priority] * count], schema=SCHEMA)


@pytest.fixture
def http(server: Serving) -> Iterator[BulkHttp]:
    with posthouse.connect(server.home) as qm:
        token = qm.call("POST", "/tokens", {"role": "operate"})["token"]
    with BulkHttp(server.url, token=token) as made:
        yield made


@pytest.fixture
def orders(server: Serving, path: str) -> str:
    with posthouse.connect(server.home) as qm:
        qm.create_queue(path)
    return path


def bodies(server: Serving, queue: str) -> list[bytes]:
    with posthouse.connect(server.home) as qm:
        return [message.body for message in qm.queue(queue).browse()]


def test_a_batch_of_two_partitions_is_published_at_once(
    server: Serving, http: BulkHttp, orders: str
) -> None:
    for partition in range(2):
        staged = stages.stage(
            http, QUERY, 0, partition, 5, SCHEMA, iter([rows(10), rows(5)]), orders
        )
        assert (staged.messages, staged.already) == (15, False)
    assert bodies(server, orders) == []
    assert stages.progress(http, QUERY) == (None, 0, 2)
    assert stages.publish(http, QUERY, 0, [(0, 5), (1, 5)]) == (30, False)
    assert stages.publish(http, QUERY, 0, [(0, 5), (1, 5)]) == (30, True)
    assert len(bodies(server, orders)) == 30
    assert stages.progress(http, QUERY) == (0, 30, 0)
    stages.stage(http, QUERY, 0, 0, 6, SCHEMA, [rows(3)], orders)
    with pytest.raises(TransactionSequence, match="3 messages, and the published one has 30"):
        stages.publish(http, QUERY, 0, [(0, 6)])


def test_a_batch_that_is_given_up_is_gone(server: Serving, http: BulkHttp, orders: str) -> None:
    stages.stage(http, "given up", 0, 0, 0, SCHEMA, [rows(3)], orders)
    assert stages.discard(http, "given up", 0) == 1
    with pytest.raises(TransactionSequence, match="unknown or has expired"):
        stages.publish(http, "given up", 0, [(0, 0)])
    assert bodies(server, orders) == []


def test_a_refused_row_is_named(server: Serving, http: BulkHttp, orders: str) -> None:
    batches = [rows(10), rows(10, priority=8)]
    with pytest.raises(QueueError) as refused:
        stages.stage(http, "refused", 0, 0, 0, SCHEMA, batches, orders)
    assert (refused.value.row, refused.value.column) == (10, "priority")  # type: ignore[attr-defined]
    assert stages.progress(http, "refused").stages == 0
    assert stages.stage(http, "refused", 0, 0, 0, SCHEMA, batches[:1], orders).messages == 10


def test_stages_and_batches_outlive_the_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_http, "_PAUSE_FIRST_S", 0.001)
    queue = r".\private$\orders"
    with serving(home) as server, posthouse.connect(home) as qm:
        qm.create_queue(queue)
        token = qm.call("POST", "/tokens", {"role": "operate"})["token"]
        with BulkHttp(server.url, token=token) as http:
            stages.stage(http, QUERY, 7, 0, 0, SCHEMA, [rows(10)], queue)
    with serving(home) as server, BulkHttp(server.url, token=token) as http:
        assert stages.publish(http, QUERY, 7, [(0, 0)]) == (10, False)
    with serving(home) as server, BulkHttp(server.url, token=token) as http:
        assert stages.publish(http, QUERY, 7, [(0, 0)]) == (10, True)
        assert len(bodies(server, queue)) == 10
