"""A server that remote readers use, and its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import posthouse
from tests.process.offices import free_port
from tests.process.remote_worker import QUEUE
from tests.process.warm import WarmServer

SETTINGS = """
[queue_manager]
name = "ALPHA"
default_access = {{users = "full", anonymous = "full"}}
[store]
segment_size = "1MiB"
[ping]
answer = false
[rpc]
port = {port}
minimum_authentication = "none"
"""


WORKER = "tests.process.remote_worker"


ORDERS = rf".\{QUEUE}"


@contextmanager
def house(folder: Path) -> Iterator[tuple[WarmServer, int]]:
    """A server that is found at the same port after each restart."""
    port = free_port()
    with WarmServer(folder, WORKER) as server:
        server.home.mkdir(mode=0o700)
        (server.home / "posthouse.toml").write_text(SETTINGS.format(port=port), encoding="ascii")
        server.start()
        with posthouse.connect(server.home) as qm:
            qm.create_queue(ORDERS)
        yield server, port
        server.stop()
