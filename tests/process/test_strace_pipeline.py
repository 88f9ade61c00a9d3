"""The kernel's own account of stages and groups over HTTP: synced first, answered then."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import posthouse
from posthouse.client import arrow_read as bulk_read
from posthouse.client import stages
from posthouse.client.admin_http import BulkHttp
from posthouse.client.arrow_read import PlannedQueue
from posthouse.client.groups import Claim, GroupReader
from tests.process.shop import ORDERS
from tests.support.process.strace_server import account, traced

BATCHES, ROWS = 8, 50


def work(home: Path) -> None:
    """Batches are staged and published, claimed and acknowledged; one thing at a time."""
    endpoint = json.loads((home.parent / "ready.json").read_text())["endpoints"]["admin"]
    with posthouse.connect(home) as qm:
        token = str(qm.call("POST", "/tokens", {"role": "operate"})["token"])
    rows = pa.table({"body": pa.array([b"x" * 100] * ROWS, pa.binary())})
    with BulkHttp(f"http://{endpoint}", token=token) as http:
        group = GroupReader(http, ORDERS, "archive")
        epoch = group.lease("consume", "strace", "earliest").epoch
        for batch in range(BATCHES):
            stages.stage(http, "q", batch, 0, 0, rows.schema, rows.to_batches(), ORDERS)
            stages.publish(http, "q", batch, [(0, 0)])
            (plan,) = bulk_read.plan(http, [PlannedQueue(ORDERS)]).queues
            group.claim(epoch, Claim(0, plan.end))
            assert group.acknowledge(epoch, plan.end)[1] == ROWS


def answers(data: bytes) -> list[str]:
    """Answers over HTTP, but for those that open a client session."""
    return ["HTTP"] if data.startswith(b"HTTP/1.1 2") else []


@pytest.mark.peer("strace")
def test_what_a_pipeline_is_told_is_synced_before_the_answer_leaves(tmp_path: Path) -> None:
    calls = traced(tmp_path, work)
    store = str((tmp_path / "home" / "store").resolve())
    seen, early = account(calls, store, answers)
    print(dict(seen))
    assert early == []
    assert seen["HTTP"] >= 1 + 5 * BATCHES
    assert seen["log syncs"] >= 4 * BATCHES

    unsynced = [call for call in calls if call.name not in ("fdatasync", "fsync")]
    _, early = account(unsynced, store, answers)
    assert len(early) >= 4 * BATCHES  # without syncs it would have been noticed
