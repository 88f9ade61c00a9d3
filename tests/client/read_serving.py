"""A queue manager that is read from afar by users who log in, in a thread of a test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import posthouse
from posthouse.engine.settings import EngineSettings
from posthouse.protocols.management.protocol import ANNOTATION, Management
from posthouse.protocols.remote_read.server import (
    EndpointMapperServer,
    RemoteReadNode,
    RemoteReadServer,
)
from posthouse.protocols.remote_read.settings import MinimumAuthentication, RemoteReadSettings
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.runtime.loop import Loop
from tests.client.neighbours import QUICK
from tests.client.serving import NAME, Serving

USER, PASSWORD = "alice", "correct horse 7"


class ReadServing(Serving):
    """A server with the endpoints rpc and epm."""

    rpc_port = epm_port = 0
    minimum: MinimumAuthentication = "none"
    faults: list[Exception]

    async def _listen_for_managers(self, desk: Loop) -> Any:
        door = await super()._listen_for_managers(desk)
        self.faults = []
        self.reads = RemoteReadNode(
            desk,
            RemoteReadSettings(minimum_authentication=self.minimum),
            ServerNames(NAME, NAME.lower()),
            bug=self.faults.append,
        )
        management = Management(
            desk, self.reads.remote.logins, self.reads.settings.minimum_level, "test", lambda: None
        )
        self.reads.add(management.interface, ANNOTATION, management.calls)
        rpc, epm = RemoteReadServer(self.reads), EndpointMapperServer(self.reads)
        self.rpc_port = int((await rpc.start("127.0.0.1", 0)).rpartition(":")[2])
        self.epm_port = int((await epm.start("127.0.0.1", 0)).rpartition(":")[2])
        return _Doors(door, rpc, epm)

    def break_readers(self) -> None:
        """Every remote reader loses its connection."""

        async def cut() -> None:
            for server in self.reads.servers:
                for link in list(server.links):
                    link._transport.abort()

        self._in_loop(cut())


class SecretServing(ReadServing):
    """One that wants what is said to be encrypted."""

    minimum: MinimumAuthentication = "privacy"


class _Doors:
    def __init__(self, *doors: Any) -> None:
        self._doors = doors

    async def stop(self, deadline_s: float) -> None:
        await asyncio.gather(*(door.stop(deadline_s) for door in self._doors))


@contextmanager
def read_serving(kind: type[ReadServing] = ReadServing) -> Iterator[ReadServing]:
    """A server with one user of the rpc door."""
    home = Path(tempfile.mkdtemp(prefix="ph-"))
    server = kind(home, None, QUICK, 0, EngineSettings(NAME))
    try:
        with posthouse.connect(home) as manager:
            body = {"name": USER, "doors": ["rpc"], "password": PASSWORD}
            manager.call("POST", "/users", body)
        yield server
        assert server.faults == []
    finally:
        server.stop()
        shutil.rmtree(home)
