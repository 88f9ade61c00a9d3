"""A queue manager that is the connector server of a foreign site, for the tests of connectors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from posthouse.client.manager import QueueManagerClient

SITE = "8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f31"
SYSTEM = "8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f32"
ORDERS = "PUBLIC=8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f33"
LEDGER = "PUBLIC=8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f34"
CONNECTOR_TYPE = "8a1e7d0c-3f52-4c8e-9b11-6d5c0a7e2f35"


def new_home() -> Path:
    """An empty home of a routing server."""
    home = Path(tempfile.mkdtemp(prefix="ph-"))
    (home / "posthouse.toml").write_text("[queue_manager]\nrouting_server = true\n")
    return home


def document(guid: str, name: str) -> dict[str, Any]:
    """A directory with the foreign site Streams; the queue manager belongs to it."""
    return {
        "sites": [{"name": "Home"}, {"name": "Streams", "guid": SITE, "foreign": True}],
        "machines": [
            {"name": name, "guid": guid, "sites": ["Home", "Streams"], "routing_server": True},
            {"name": "REDIS", "guid": SYSTEM, "sites": ["Streams"], "foreign": True},
        ],
        "queues": [
            {"path": "REDIS\\orders", "guid": ORDERS.partition("=")[2]},
            {"path": "REDIS\\ledger", "guid": LEDGER.partition("=")[2], "transactional": True},
        ],
    }


def connect_streams(manager: QueueManagerClient) -> None:
    """The directory of this queue manager gets the foreign site."""
    body = {"document": document(manager.guid, manager.name)}
    manager.call("POST", "/directory", body)


def empty(manager: QueueManagerClient) -> None:
    """Takes away what an earlier test has left."""
    for name in (f"CONNECTOR={SITE}", f"CONNECTOR={SITE};xactonly", r".\system$;deadletter"):
        queue = manager.queue(name)
        queue.purge()
        queue.close()
    for made in manager.queues():
        if made.kind == "private":
            manager.delete_queue(made.path)
