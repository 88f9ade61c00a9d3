"""Queue managers on real sockets and a store in memory, all on one event loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import EngineSettings
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_format_name, parse_name
from posthouse.model.properties import QueueProperties
from posthouse.net.connections import Connections
from posthouse.protocols.binary.server import BinaryNode, BinaryServer, PingServer
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.memory import MemoryAccount
from posthouse.runtime.driver import Driver
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from posthouse.store.memory import MemoryStore
from posthouse.wire.packet.message import deserialize

ADMIN = Caller.administrator()
PATIENCE_S = 30.0


def clock() -> tuple[int, int]:
    return time.monotonic_ns() // 1_000_000, int(time.time())


async def turn() -> None:
    """One round of the event loop."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


async def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Lets the event loop turn until something is so."""
    async with asyncio.timeout(patience_s):
        while not true():
            await turn()


class Server:
    """A queue manager that listens on the loopback."""

    def __init__(
        self,
        name: str,
        settings: BinarySettings | None = None,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        ping: PingSettings | None = None,
    ) -> None:
        self.store = MemoryStore()
        self.manager = QueueManager(
            EngineSettings(name, ports=frozenset()),
            State(),
            self.store.read,
            random.Random(name).randbytes,
            self.store.read_many,
        )
        self.driver = Driver(self.manager, self.store, clock)
        self.manager.start(*clock())
        self.driver.end_turn()
        self.desk = Loop(self.driver)
        self.desk.start()
        self.node = BinaryNode(
            self.desk, settings or BinarySettings(), ping, memory=memory, connections=connections
        )
        self.protocol = self.node.protocol
        self.driver.on_active = self.protocol.active
        self.door = BinaryServer(self.node, self._listening)
        self.pings = PingServer(self.node)
        self.port = 0

    def _listening(self, port: int) -> None:
        self.port = port
        self.desk.decide(lambda manager: manager.queues.add_own_port(port), lambda answer: None)

    async def start(self, host: str = "127.0.0.1") -> None:
        self.address = await self.door.start(host, 0)
        self.ping_address = await self.pings.start(host, 0)

    async def stop(self, deadline_s: float = 1.0) -> None:
        await self.door.stop(deadline_s)
        await self.pings.stop(deadline_s)
        await self.desk.stop()

    # -- work

    async def create(self, name: str, **properties: Any) -> None:
        path = rf".\private$\{name}"
        made = QueueProperties(**properties)
        await self.desk.run(lambda manager: manager.queues.create_queue(path, made, ADMIN))

    async def send(self, to: str, *bodies: bytes, express: bool = False) -> None:
        guarantee = DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE

        def run(manager: QueueManager) -> None:
            opened = manager.queues.open_queue(to, QueueAccessType.SEND, ADMIN)
            for body in bodies:
                message = Message(body=body, delivery_guarantee=guarantee)
                manager.messages.enqueue_message_to_an_open_queue(opened, message)
            manager.queues.close_queue(opened)

        await self.desk.run(run)

    async def send_in_transaction(self, to: str, *bodies: bytes) -> None:
        def run(manager: QueueManager) -> None:
            transaction = manager.transactions.create_transaction(b"t" * 16)
            opened = manager.queues.open_queue(to, QueueAccessType.SEND, ADMIN)
            for body in bodies:
                message = Message(body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
                manager.messages.enqueue_message_to_an_open_queue(opened, message, transaction)
            manager.queues.close_queue(opened)
            manager.transactions.transaction_commit(b"t" * 16)

        await self.desk.run(run)

    def outgoing(self, name: str) -> Queue:
        queue = self.manager.queues.find_outgoing(parse_format_name(name))
        assert queue is not None
        return queue

    def count(self, name: str) -> int:
        path = parse_name(rf".\private$\{name}")
        return self.manager.queues.local_queue(path).state.count

    async def bodies(self, name: str) -> list[bytes]:
        await self.desk.run(lambda manager: None)  # what was decided is in the store
        queue = self.manager.queues.local_queue(parse_name(rf".\private$\{name}"))
        numbers = [number for _, number in queue.state.order.forward()]
        return [deserialize(self.store.read(number)).body for number in numbers]


@asynccontextmanager
async def serving(
    name: str = "BETA", host: str = "127.0.0.1", **options: Any
) -> AsyncIterator[Server]:
    """A server for as long as the block runs."""
    server = Server(name, **options)
    await server.start(host)
    try:
        yield server
    finally:
        await server.stop()
