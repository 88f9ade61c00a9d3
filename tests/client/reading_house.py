"""Two queue managers of which one is read from afar, in transactions that the other decides."""

from __future__ import annotations

import asyncio
import io
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import posthouse
from posthouse.engine.settings import EngineSettings
from posthouse.protocols.remote_read.protocol import RemoteRead
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.rpc.server import RpcServer
from posthouse.runtime.logs import Log, LogStream
from posthouse.runtime.loop import Loop
from posthouse.runtime.peer_calls import Coordination
from posthouse.security.access import Caller, default_queue_descriptor
from posthouse.security.rights import QUEUE_GENERIC_ALL
from posthouse.security.sids import EVERYONE
from tests.client.neighbours import QUICK
from tests.client.serving import Serving

KEY = "phk_" + "5a" * 32
REQUEST, RESPONSE = 0, 2  # PDU types


class ReadingHouse(Serving):
    """A server that can be read from afar by anybody, and shares transactions."""

    rpc_port = 0
    faults: list[Exception]

    async def _listen_for_managers(self, desk: Loop) -> Any:
        door = await super()._listen_for_managers(desk)
        self.faults = []
        desk.manager.transactions.coordinator.url = self.url
        self.coordination = Coordination(desk, Log(LogStream(io.StringIO())), timeout_s=5)
        self.coordination.start()
        settings = RemoteReadSettings(minimum_authentication="none")
        self.remote = RemoteRead(desk, settings, lambda: time.monotonic_ns() // 1_000_000)
        self.rpc = RpcServer([self.remote.interface], bug=self.faults.append)
        self.rpc_port = int((await self.rpc.start("127.0.0.1", 0)).rpartition(":")[2])
        return _Doors(door, self.rpc, self.coordination)

    def trust(self, other: ReadingHouse, name: str) -> None:
        """Shares transactions with another one."""
        guid = other.ask(lambda m: m.machine.identifier)
        key = bytes.fromhex(KEY[4:])
        self.ask(lambda m: m.transactions.add_peer(name, guid, other.url, key))

    def break_readers(self) -> None:
        """Every remote reader loses its connection."""

        async def cut() -> None:
            for link in list(self.rpc.links):
                link._transport.abort()

        self._in_loop(cut())

    def grant_all(self, path: str) -> None:
        administrator = Caller.administrator()
        security = default_queue_descriptor(administrator.sid, ((EVERYONE, QUEUE_GENERIC_ALL),))
        self.ask(lambda m: m.queues.set_queue_security(path, administrator, security))


class _Doors:
    def __init__(self, door: Any, rpc: RpcServer, coordination: Coordination) -> None:
        self._door, self._rpc, self._coordination = door, rpc, coordination

    async def stop(self, deadline_s: float) -> None:
        await asyncio.gather(self._door.stop(deadline_s), self._rpc.stop(deadline_s))
        await self._coordination.stop()


class Houses:
    """ALPHA decides, BETA is read; a client of each, and queues that nobody has used."""

    def __init__(self, here: ReadingHouse, there: ReadingHouse, near: Any, far: Any) -> None:
        self.here, self.there, self.near, self.far = here, there, near, far
        self._numbers = count(1)

    def queue(self, *bodies: bytes, transactional: bool = True) -> posthouse.Queue:
        """A queue of BETA with these messages."""
        queue = self.far.create_queue(
            rf".\private$\read-{next(self._numbers)}", transactional=transactional
        )
        self.there.grant_all(queue.name)
        with self.far.transaction() as tx:
            for body in bodies:
                queue.send(body, tx=tx if transactional else None)
        return queue

    def target(self) -> posthouse.Queue:
        """A queue of ALPHA."""
        return self.near.create_queue(rf".\private$\kept-{next(self._numbers)}", transactional=True)

    @contextmanager
    def reader(self, port: int = 0, **options: Any) -> Iterator[Any]:
        """What ALPHA's client reads BETA by."""
        options = {"via": self.near, "peer": "BETA", "timeout": 10.0} | options
        with posthouse.msmq("127.0.0.1", rpc_port=port or self.there.rpc_port, **options) as far:
            yield far


@contextmanager
def houses() -> Iterator[Houses]:
    """Both, peers of each other."""
    homes = [Path(tempfile.mkdtemp(prefix="ph-")) for _ in range(2)]
    here, there = (
        ReadingHouse(home, None, QUICK, 0, EngineSettings(name))
        for home, name in zip(homes, ("ALPHA", "BETA"), strict=True)
    )
    here.trust(there, "BETA")
    there.trust(here, "ALPHA")
    try:
        with posthouse.connect(here.home) as near, posthouse.connect(there.home) as far:
            yield Houses(here, there, near, far)
        assert here.faults == there.faults == []
    finally:
        for server in (here, there):
            server.stop()
        for home in homes:
            shutil.rmtree(home)


Cut = tuple[int, str]  # the number of a request, and before it, behind it or behind its answer


class CuttingRelay:
    """Stands between a reader and its server, and cuts their first connection at a chosen request.

    Requests are counted over all connections. A cut `before` a request keeps it from the server, a
    cut `behind` it keeps the answer from the client, a cut `after` lets that through.
    """

    def __init__(self, port: int, cut: Cut | None = None) -> None:
        self._target = port
        self._cut = cut
        self.requests = 0
        self.is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> CuttingRelay:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        for one in self._sockets:
            with suppress(OSError):  # a close alone says nothing while a thread still reads from it
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                pair = client, server
                for work in (self._to_server, self._to_client):
                    threading.Thread(target=work, args=pair, daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        def pass_on(pdu: bytes) -> bool:
            if pdu[2] == REQUEST:
                self.requests += 1
                if self._cut == (self.requests, "before"):
                    return False
            server.sendall(pdu)
            return True

        self._pump(client, server, pass_on)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        def pass_on(pdu: bytes) -> bool:
            number = self.requests if pdu[2] == RESPONSE else 0
            if self._cut == (number, "behind"):
                return False
            client.sendall(pdu)
            return self._cut != (number, "after")

        self._pump(server, client, pass_on)

    def _pump(
        self, source: socket.socket, other: socket.socket, pass_on: Callable[[bytes], bool]
    ) -> None:
        with suppress(OSError):
            for pdu in _pdus(source):
                if not pass_on(pdu):
                    self._cut, self.is_cut = None, True
                    break
        for one in (source, other):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _pdus(source: socket.socket) -> Iterator[bytes]:
    data = b""
    while chunk := source.recv(65536):
        data += chunk
        while len(data) >= 16 and len(data) >= (size := _size(data)):
            yield data[:size]
            data = data[size:]


def _size(pdu: bytes) -> int:
    (size,) = struct.unpack_from("<H", pdu, 8)
    return int(size)
