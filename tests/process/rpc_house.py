"""A real server with remote read and an endpoint mapper, and somebody who may read there."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import posthouse
from tests.process.offices import free_port
from tests.process.warm import WarmServer

USER, PASSWORD = "reader", "Grüße, reader 1!"
SETTINGS = """
[queue_manager]
name = "{name}"
default_access = {{users = "full", anonymous = "full"}}
[admin]
port = {admin_port}
[ping]
answer = false
[epm]
enabled = true
"""
MINIMUM = """
[rpc]
minimum_authentication = "{minimum}"
"""


class House:
    """The server, its ports and its only user."""

    def __init__(self, folder: Path, name: str, running: ExitStack, *, minimum: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.name = name
        self.admin_port = free_port()
        self.server = WarmServer(folder)
        self.server.home.mkdir(mode=0o700)
        settings = SETTINGS.format(name=name, admin_port=self.admin_port)
        if minimum:
            settings += MINIMUM.format(minimum=minimum)
        (self.server.home / "posthouse.toml").write_text(settings, encoding="ascii")
        running.enter_context(self.server)
        self.server.start()
        ready = json.loads((folder / "ready.json").read_text())
        self.rpc_port = port_of(ready["endpoints"]["rpc"])
        self.epm_port = port_of(ready["endpoints"]["epm"])
        self.qm = running.enter_context(posthouse.connect(self.server.home))
        add_user(self.qm)

    def trust(self, other: House, key: str | None = None) -> str:
        """Shares transactions with another one; returns the key that it is to do so with."""
        url = f"http://127.0.0.1:{other.admin_port}"
        body = {"name": other.name, "guid": other.qm.guid, "url": url}
        added = self.qm.call("POST", "/peers", body | ({"key": key} if key else {}))
        return str(added["key"])


def port_of(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def add_user(qm: posthouse.QueueManagerClient, name: str = USER, password: str = PASSWORD) -> None:
    qm.call("POST", "/users", {"name": name, "doors": ["rpc"], "password": password})
