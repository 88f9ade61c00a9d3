"""Queue managers on real sockets and a store in memory, all on one event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_format_name, parse_name
from posthouse.net.connections import Connections
from posthouse.protocols.binary.server import BinaryNode, BinaryServer, PingServer
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.memory import MemoryAccount
from posthouse.wire.packet.message import deserialize
from tests.support.loop_server import ADMIN, LoopServer


class Server(LoopServer):
    """A queue manager that listens on the loopback."""

    def __init__(
        self,
        name: str,
        settings: BinarySettings | None = None,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        ping: PingSettings | None = None,
    ) -> None:
        super().__init__(name)
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
        self.listening(port)

    async def start(self, host: str = "127.0.0.1") -> None:
        self.address = await self.door.start(host, 0)
        self.ping_address = await self.pings.start(host, 0)

    async def stop(self, deadline_s: float = 1.0) -> None:
        await self.door.stop(deadline_s)
        await self.pings.stop(deadline_s)
        await self.desk.stop()

    # -- work

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
