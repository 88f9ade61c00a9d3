"""Remote read on real sockets and a store in memory, server and clients on one event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.protocols.queue_format import queue_format_of
from posthouse.protocols.remote_read import stubs
from posthouse.protocols.remote_read.server import (
    EndpointMapperServer,
    RemoteReadNode,
    RemoteReadServer,
    filetime,
)
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import REMOTE_READ
from posthouse.rpc.client import ClientConnection
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.providers import auth_type_of, initiator
from posthouse.rpc.security import Level
from posthouse.rpc.statuses import Fault
from posthouse.rpc.syntax import SyntaxId
from posthouse.security.accounts import Door
from posthouse.security.nt_hash import nt_hash
from posthouse.security.sids import ADMINISTRATORS
from tests.support.loop_server import ADMIN, LoopServer

USER, PASSWORD = "root", "correct horse 7"
QUEUE = r"DIRECT=OS:ALPHA\private$\orders"
PATIENCE_S = 30.0


class House(LoopServer):
    """A queue manager that is read from afar."""

    def __init__(self, settings: RemoteReadSettings | None = None) -> None:
        super().__init__("ALPHA", settings=EngineSettings("ALPHA"))
        self.bugs: list[Exception] = []
        self.node = RemoteReadNode(
            self.desk,
            settings or RemoteReadSettings(),
            ServerNames("ALPHA"),
            bug=self.bugs.append,
        )
        self.rpc = RemoteReadServer(self.node)
        self.epm = EndpointMapperServer(self.node)
        self.port = self.epm_port = 0

    async def start(self) -> None:
        self.port = int((await self.rpc.start("127.0.0.1", 0)).rpartition(":")[2])
        self.epm_port = int((await self.epm.start("127.0.0.1", 0)).rpartition(":")[2])
        await self.desk.run(self._furnish)

    def _furnish(self, manager: QueueManager) -> None:
        manager.certificates.key_file = lambda: bytes(32)
        manager.accounts.add(
            USER, groups=(ADMINISTRATORS,), doors=(Door.RPC,), nt_hash=nt_hash(PASSWORD)
        )
        manager.queues.create_queue(r".\private$\orders", QueueProperties(), ADMIN)

    async def stop(self) -> None:
        await self.epm.stop(1.0)
        await self.rpc.stop(1.0)
        await self.desk.stop()
        assert not self.bugs


@asynccontextmanager
async def house(settings: RemoteReadSettings | None = None) -> AsyncIterator[House]:
    made = House(settings)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


class Visitor:
    """A client: one connection, calls that are awaited."""

    def __init__(
        self, port: int, interface: SyntaxId = REMOTE_READ, level: Level = Level.PRIVACY
    ) -> None:
        self._port = port
        self.level = level
        security = None
        if level > Level.NONE:
            security = initiator(
                "ntlm", USER, PASSWORD, "alpha", random_bytes=os.urandom, filetime=filetime()
            )
        auth_type = auth_type_of("ntlm")
        self.connection = ClientConnection(
            interface, security=security, auth_type=auth_type, level=level
        )
        self.answers: dict[int, tuple[int, bytes]] = {}

    async def connect(self) -> Visitor:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.connection.begin()
        self.flush()
        while not self.connection.is_open:
            await self._read()
        return self

    def flush(self) -> None:
        if data := self.connection.take_outgoing():
            self._writer.write(data)

    async def _read(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            data = await self._reader.read(1 << 16)
        assert data, "the server has closed the connection"
        for call_id, status, stub in self.connection.receive(data):
            self.answers[call_id] = status, stub
        self.flush()

    def begin(self, opnum: int, stub: bytes) -> int:
        call_id = self.connection.request(opnum, stub)
        self.flush()
        return call_id

    async def end(self, call_id: int) -> bytes:
        while call_id not in self.answers:
            await self._read()
        status, stub = self.answers.pop(call_id)
        if status:
            raise Fault(status)
        return stub

    async def call(self, opnum: int, *parameters: Any) -> Any:
        stub = stubs.encode_request(opnum, stubs.METHODS[opnum].request.parameters(*parameters))
        return stubs.decode_response(opnum, await self.end(self.begin(opnum, stub)))

    async def open(self, access: int = 1) -> bytes:
        queue = queue_format_of(parse_format_name(QUEUE))
        opened = await self.call(2, queue, access, 0, bytes(16), 1, 6, 1, 1, 1)
        handle: bytes = opened.handle
        return handle

    def close(self) -> None:
        self._writer.close()
