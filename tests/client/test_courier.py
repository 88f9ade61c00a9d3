"""The thread that delivers for an embedded queue manager: when it is there."""

from __future__ import annotations

import threading
from pathlib import Path

from posthouse.client.embedded import EmbeddedDesk
from posthouse.client.embedded_delivery import Courier
from posthouse.runtime.embedded import EmbeddedQueueManager


def couriers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "posthouse-courier"]


def test_nobody_delivers_behind_the_end(tmp_path: Path) -> None:
    with EmbeddedQueueManager(str(tmp_path / "home")) as embedded:
        courier = Courier(EmbeddedDesk(embedded.driver), threading.RLock())
        before = len(couriers())
        courier.active({1})
        assert len(couriers()) == before + 1
        courier.stop()
        courier.active({1})
        assert len(couriers()) == before
