"""Leases at an embedded queue manager, which has no server that ends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import posthouse
from posthouse.client.embedded import EmbeddedLink

ORDERS = r".\private$\orders"
LEASE = "/queues/.%5Cprivate$%5Corders/lease"


@pytest.mark.parametrize("waits", [False, True])
def test_its_messages_are_there_when_the_time_is_over(tmp_path: Path, waits: bool) -> None:
    with posthouse.open(tmp_path, name="ALPHA") as manager:
        manager.create_queue(ORDERS)
        queue = manager.queue(ORDERS)
        queue.send(b"one")
        assert len(manager.call("POST", LEASE, {"lease_s": 3600})["messages"]) == 1
        with pytest.raises(posthouse.IoTimeout):
            queue.receive(timeout=0)
        link: Any = manager._channel._link
        assert isinstance(link, EmbeddedLink)
        (lease,) = link._desk.leases._open.values()
        now_ms, _ = link._desk.driver.clock()
        lease.ends_ms = now_ms + 50 if waits else now_ms - 1
        assert queue.receive(timeout=60 if waits else 0).body == b"one"
        assert not len(link._desk.leases)
