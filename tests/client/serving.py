"""A queue manager that serves client sessions: engine, loop and listeners in a thread of a test."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.protocols.binary.server import BinaryNode, BinaryServer
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.http.connection import HttpConnection
from posthouse.protocols.http.door import Admin
from posthouse.protocols.http.server import AdminServer, ControlSocket
from posthouse.runtime.home import Home, start_manager
from posthouse.runtime.loop import Loop
from posthouse.store.settings import StoreSettings

T = TypeVar("T")
NAME = "ALPHA"


class Serving:
    """One run of a server on a home."""

    def __init__(
        self,
        home: Path,
        tls: ssl.SSLContext | None = None,
        binary: BinarySettings | None = None,
        binary_port: int = 0,
        engine: EngineSettings | None = None,
        address: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.home = home
        self._tls = tls
        self._binary = binary
        self._engine = engine or EngineSettings(NAME)
        self._address = address  # of the listener for other queue managers
        self.binary_port = binary_port
        self._port = port
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        home = Home(self.home)
        store = StoreSettings(store_id=b"client-testing-1", segment_size=1 << 20)
        started = start_manager(home, self._engine, store, lambda event: None)
        self.desk = desk = Loop(started.driver)
        desk.start()
        if self._binary is not None:
            self.node = BinaryNode(desk, self._binary)
        figures = None if self._binary is None else self.node.protocol.figures
        self.admin = admin = Admin(
            desk, version="0", binary=figures, store=started.store, turns=desk
        )
        self.control, self.tcp = ControlSocket(admin), AdminServer(admin, tls=self._tls)
        await self.control.start(str(self.home), 0)
        scheme = "https" if self._tls else "http"
        self.url = f"{scheme}://{await self.tcp.start('127.0.0.1', self._port)}"
        door = await self._listen_for_managers(desk) if self._binary is not None else None
        self._started.set()
        await self._stop.wait()
        desk.cancel_waits()
        if door is not None:
            await door.stop(1)
        await asyncio.gather(self.control.stop(1), self.tcp.stop(1))
        await desk.stop()
        home.close()

    async def _listen_for_managers(self, desk: Loop) -> BinaryServer:
        desk.driver.on_active = self.node.protocol.active
        door = BinaryServer(self.node)
        self.binary_port = int(
            (await door.start(self._address, self.binary_port)).rpartition(":")[2]
        )
        await desk.run(lambda manager: manager.queues.add_own_port(self.binary_port))
        return door

    def break_sessions(self) -> None:
        """Every session with another queue manager loses its connection."""

        async def cut() -> None:
            for session in list(self.node.protocol.sessions):
                session.close("the cable was cut")

        self._in_loop(cut())

    def ask(self, call: Callable[[QueueManager], T]) -> T:
        """Something about the engine, asked in its own thread."""
        return self._in_loop(self.desk.run(call))

    def break_connections(self) -> None:
        """Every session loses its connection, as if a cable was cut."""

        async def cut() -> None:
            for connection in [*self.control.open, *self.tcp.open]:
                connection.transport.abort()

        self._in_loop(cut())

    def on_each(self, change: Callable[[HttpConnection], None]) -> None:
        """Does something with every connection."""

        async def do() -> None:
            for connection in [*self.control.open, *self.tcp.open]:
                change(connection)

        self._in_loop(do())

    def _in_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """A clean stop."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure


@contextmanager
def serving(
    home: Path,
    tls: ssl.SSLContext | None = None,
    binary: BinarySettings | None = None,
    binary_port: int = 0,
    engine: EngineSettings | None = None,
    address: str = "127.0.0.1",
    port: int = 0,
) -> Iterator[Serving]:
    """A server for the length of a test."""
    server = Serving(home, tls, binary, binary_port, engine, address, port)
    try:
        yield server
    finally:
        server.stop()
