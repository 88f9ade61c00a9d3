"""A queue manager with a store in memory on the running event loop, for rigs with real sockets."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_name
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Driver
from posthouse.runtime.loop import Loop
from posthouse.security.access import Caller
from tests.support.memory_store import MemoryStore

ADMIN = Caller.administrator()
PATIENCE_S = 30.0


def clock() -> tuple[int, int]:
    """Milliseconds that only grow, and seconds of UTC."""
    return time.monotonic_ns() // 1_000_000, int(time.time())


async def turn() -> None:
    """One round of the event loop."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done


async def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Lets the event loop turn until a condition holds."""
    async with asyncio.timeout(patience_s):
        while not true():
            await turn()


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs a test on an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class LoopServer:
    """A queue manager on the running event loop. Subclasses add the servers of a protocol."""

    def __init__(
        self,
        name: str,
        store: MemoryStore | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.manager = QueueManager(
            settings or EngineSettings(name, ports=frozenset()),
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

    def listening(self, port: int) -> None:
        """A server of this machine listens on this port: names with it are local."""
        self.desk.decide(lambda manager: manager.queues.add_own_port(port), lambda answer: None)

    async def create(self, name: str, **properties: Any) -> None:
        """Creates a private queue."""
        path = rf".\private$\{name}"
        made = QueueProperties(**properties)
        await self.desk.run(lambda manager: manager.queues.create_queue(path, made, ADMIN))

    async def send(self, to: str, *bodies: bytes, express: bool = False) -> None:
        """Sends messages with these bodies, all in one turn."""
        guarantee = DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE

        def run(manager: QueueManager) -> None:
            opened = manager.queues.open_queue(to, QueueAccessType.SEND, ADMIN)
            for body in bodies:
                message = Message(body=body, delivery_guarantee=guarantee)
                manager.messages.enqueue_message_to_an_open_queue(opened, message)
            manager.queues.close_queue(opened)

        await self.desk.run(run)

    def count(self, name: str) -> int:
        """How many messages are in a private queue."""
        return self.manager.queues.local_queue(parse_name(rf".\private$\{name}")).state.count
