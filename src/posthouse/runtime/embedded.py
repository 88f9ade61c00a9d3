"""A queue manager in this process: a home on disk, the engine, the driver, real clocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from msgspec.structs import replace

from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.engine.settings import EngineSettings
from posthouse.model.message import Message, MessageId
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Delivery
from posthouse.runtime.home import Home, start_manager
from posthouse.security.access import Caller
from posthouse.store.settings import StoreSettings

T = TypeVar("T")


class EmbeddedQueueManager:
    """An open home. Every call is durable when it returns; `administrator` may do everything."""

    def __init__(
        self,
        home: str | Path,
        *,
        name: str | None = None,
        settings: EngineSettings | None = None,
        store_settings: StoreSettings | None = None,
    ) -> None:
        self._home = Home(Path(home))
        store_settings = store_settings or StoreSettings()
        if store_settings.store_id == bytes(16):
            store_settings = replace(store_settings, store_id=os.urandom(16))
        settings = settings or EngineSettings(name or "")
        try:
            started = start_manager(self._home, settings, store_settings)
        except BaseException:
            self._home.close()
            raise
        self.store, self.recovered, self.manager, self.driver = started
        self.administrator = Caller.administrator()

    def run(self, call: Callable[[QueueManager], T]) -> T:
        """One call on the engine; raises its refusal."""
        result = self.driver.run(call)
        self.driver.tidy()
        return result

    def read(self, call: Callable[[QueueManager], Read | None]) -> Delivery | None:
        """One read that does not wait; None when it found nothing."""
        delivery = self.driver.read(call)
        self.driver.tidy()
        return delivery

    def read_many(self, call: Callable[[QueueManager], Sequence[Read]]) -> list[Delivery]:
        """One call that reads several messages."""
        deliveries = self.driver.read_many(call)
        self.driver.tidy()
        return deliveries

    def create_queue(self, path: str, properties: QueueProperties) -> Queue:
        """A queue of the administrator."""
        return self.run(lambda m: m.queues.create_queue(path, properties, self.administrator))

    def open(self, name: str, access: QueueAccessType) -> OpenQueueDescriptor:
        """A queue opened by the administrator, by path name or format name."""
        return self.run(lambda m: m.queues.open_queue(name, access, self.administrator))

    def receive(self, descriptor: OpenQueueDescriptor) -> Delivery:
        """The first message; MQ_ERROR_IO_TIMEOUT when there is none."""
        delivery = self.read(lambda m: m.messages.dequeue_message(descriptor, timeout_ms=0))
        assert delivery is not None
        return delivery

    def send(self, descriptor: OpenQueueDescriptor, message: Message) -> MessageId:
        """One message, outside any transaction."""
        return self.run(lambda m: m.messages.enqueue_message_to_an_open_queue(descriptor, message))

    def close(self) -> None:
        """A clean stop: express messages are kept too."""
        try:
            self.driver.close()
        finally:
            self._home.close()

    def forked(self) -> None:
        """In a child process: the home is the parent's alone."""
        self._home.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
