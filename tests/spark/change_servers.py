"""Queue managers of the change test: real homes and real sockets, in a thread of the test.

A kill is a server that answers nothing from one moment on and loses what it had in memory; its home
stays as it is. `Clock` is the time of the servers, which the test may let pass.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.message import Message
from posthouse.model.message_values import DeliveryGuarantee
from posthouse.model.names import parse_name
from posthouse.model.properties import QueueAccessType, QueueProperties
from posthouse.model.roles import Role
from posthouse.protocols.http.door import Admin
from posthouse.protocols.http.server import AdminServer
from posthouse.runtime.home import Home, real_clock, start_manager
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.store.settings import StoreSettings
from posthouse.wire.packet.packet import Packet
from tests.process.offices import free_port

T = TypeVar("T")
SEGMENT = 1 << 20
MANY = 1_000_000


class Killed(Exception):
    """What a server that is killed ends with."""


class Clock:
    """The time of all servers: the machine's, and what the test has let pass."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def __call__(self) -> tuple[int, int]:
        now_ms, utc = real_clock()
        return now_ms + self.passed_ms, utc + self.passed_ms // 1000


class ServerThread:
    """An event loop in which all servers of a test run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.clock = Clock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine, run among the servers."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Server:
    """A queue manager at one address, on one home after the other."""

    def __init__(self, thread: ServerThread, folder: Path, name: str) -> None:
        self.name = self.first_name = name
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token_file = folder / "token"
        self.home = folder / "home"
        self._thread = thread
        self._queues: list[str] = []
        self._copied_as: dict[Path, str] = {}
        self._is_running = False
        folder.mkdir(parents=True)
        self.start()

    # -- life

    def start(self) -> None:
        """Begins to answer; a new home gets a token."""
        is_new = not self.home.exists()
        self._thread.run(self._start())
        self._is_running = True
        if is_new:
            text = self.ask(lambda m: self._admin.tokens.create(role=Role.ADMINISTER))[1]
            self.token_file.write_text(text)

    async def _start(self) -> None:
        self._lock = Home(self.home)
        store = StoreSettings(store_id=os.urandom(16), segment_size=SEGMENT)
        started = start_manager(self._lock, EngineSettings(self.name), store)
        started.driver.clock = self._thread.clock
        self._store = started.store
        self._desk = Loop(started.driver)
        self._desk.start()
        self._admin = Admin(self._desk, version="0", store=started.store, turns=self._desk)
        self._door = AdminServer(self._admin)
        await self._door.start("127.0.0.1", self.port)

    def stop(self) -> None:
        """A clean stop."""
        if self._is_running:
            self._is_running = False
            self._thread.run(self._stop())

    async def _stop(self) -> None:
        await self._door.stop(1)
        await self._desk.stop()
        self._lock.close()
        self._store.disk.close()  # which would close its descriptors again later
        close_files(self.home)

    def kill(self) -> None:
        """As `kill -9` does."""
        if self._is_running:
            self._is_running = False
            self._thread.run(self._kill())

    async def _kill(self) -> None:
        self._desk._fail(Killed())
        for connection in list(self._door.open):
            connection.transport.abort()
        await self._door.stop(0)
        self._desk._writer.close()
        self._lock.close()
        self._store.disk.close()  # which would close its descriptors again later
        close_files(self.home)

    def restart(self) -> None:
        """Killed, and started again."""
        self.kill()
        self.start()

    # -- what operators do to homes

    def renew(self) -> None:
        """A new home at the same address, as that of a container without its volume."""
        self.stop()
        shutil.rmtree(self.home)
        self.name = self.first_name
        self.start()
        queues, self._queues = self._queues, []
        self.create(*queues)

    def empty(self, *queues: str) -> None:
        """A new home with these queues."""
        if queues or self._queues:
            self._queues = list(queues)
            self.renew()

    def copied(self, name: str) -> Path:
        """A copy of the home, made while the server is stopped."""
        copy = self.folder / name
        self._copied_as[copy] = self.name
        self.stop()
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.home, copy)
        self.start()
        return copy

    def put_back(self, copy: Path) -> None:
        """The home is as it was when the copy was made."""
        self.stop()
        shutil.rmtree(self.home)
        shutil.copytree(copy, self.home)
        self.name = self._copied_as[copy]
        self.start()

    def rename(self, name: str) -> None:
        """Another computer name, kept as `posthouse rename` keeps it; the next start applies it."""
        self.ask(lambda manager: manager.machine.keep_name(name))
        self.stop()
        self.name = name
        self.start()

    # -- queues

    def ask(self, call: Callable[[QueueManager], T]) -> T:
        """Asks the engine."""
        return self._thread.run(self._desk.run(call))

    def create(self, *queues: str) -> None:
        if queues:
            self.ask(partial(_create, paths=[f".\\private$\\{queue}" for queue in queues]))
            self._queues += queues

    def make_again(self, queue: str) -> None:
        """Deletes a queue, and makes another one of that name."""
        name = parse_name(f".\\private$\\{queue}")
        self.ask(lambda m: m.queues.delete_queue(name, Caller.administrator()))
        self._queues.remove(queue)
        self.create(queue)

    def send(self, queue: str, bodies: Iterable[bytes]) -> None:
        """Recoverable messages, one after the other."""
        messages = [
            Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE) for body in bodies
        ]

        def send(manager: QueueManager) -> None:
            caller = Caller.administrator()
            descriptor = manager.queues.open_queue(
                f".\\private$\\{queue}", QueueAccessType.SEND, caller
            )
            for message in messages:
                manager.messages.enqueue_message_to_an_open_queue(descriptor, message)
            manager.queues.close_queue(descriptor)

        self.ask(send)

    def bodies(self, *queues: str) -> list[bytes]:
        """What is in queues, claimed or not, as the store has it."""

        def look(manager: QueueManager) -> list[bytes]:
            names = [parse_name(f".\\private$\\{queue}") for queue in queues]
            orders = [manager.queues.local_queue(name).state.order for name in names]
            numbers = [number for order in orders for _, number in order.some_after(0, MANY)]
            return [Packet(self._store.read(number)).body for number in numbers]

        return self.ask(look) if queues else []

    def queues(self) -> list[str]:
        """The short names of its queues."""
        return list(self._queues)

    def end_leases(self, owner: str | None = None) -> None:
        """Time passes until the leases have lapsed: all of them, or those of one reader."""

        def end(manager: QueueManager) -> None:
            for group in manager.groups.all():
                if owner is None or group.definition.owner == owner:
                    group.lease_until_ms = 0

        self.ask(end)


def _create(manager: QueueManager, paths: Iterable[str]) -> None:
    for path in paths:
        manager.queues.create_queue(path, QueueProperties(), Caller.administrator())


def close_files(folder: Path) -> None:
    """Closes what is open below a folder, as the end of a process does."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # it was the folder that is being listed
        if target.startswith(f"{folder}/") or target == str(folder):
            os.close(int(entry.name))
