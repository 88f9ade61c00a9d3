"""A queue manager on a simulated or a real disk that can be damaged, crashed and opened again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from posthouse.engine.ledger.effects import Event
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Answer, Delivery, Driver
from posthouse.security.access import Caller
from posthouse.sim import SimClock, SimDisk
from posthouse.store.disk import Disk, RealDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings
from tests.engine.settings import engine_settings

T = TypeVar("T")
PLAIN = r".\private$\plain"
SEND, RECEIVE, PEEK, MOVE = (
    QueueAccessType.SEND,
    QueueAccessType.RECEIVE,
    QueueAccessType.PEEK,
    QueueAccessType.MOVE,
)


class Home:
    """One home over several processes; `path` makes it a real directory."""

    def __init__(
        self, path: Path | None = None, *, store: StoreSettings | None = None, **settings: Any
    ) -> None:
        self.path = path
        self.disk: Disk = SimDisk(3) if path is None else RealDisk(path)
        self.clock = SimClock()
        self.admin = Caller.administrator()
        self.settings = engine_settings("ALPHA", **settings)
        self.store_settings = store or StoreSettings(store_id=b"0123456789abcdef")
        self.events: list[Event] = []
        self.open_store()

    def open_store(self) -> None:
        self.store = LogStore(self.disk, self.store_settings)
        state, random = self.store.recover().state, Random(1)
        self.manager = QueueManager(
            self.settings, state, self.store.read, random.randbytes, self.store.read_many
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        self.driver = Driver(
            self.manager, self.store, lambda: (self.clock.now_ms, self.clock.utc_seconds)
        )
        self.driver.on_event = self.events.append
        self.driver.end_turn()
        self.driver.sync()

    def restart(self) -> None:
        """A clean stop and a new process."""
        self.driver.close()
        self.open_store()

    def crash(self) -> None:
        """A loss of power; what was not synced is gone, or not."""
        assert isinstance(self.disk, SimDisk)
        self.disk = self.disk.crash("random")
        self.open_store()

    # -- calls

    def run(self, call: Callable[[QueueManager], T]) -> T:
        return self.driver.run(call)

    def turn(self, *calls: Callable[[QueueManager], object]) -> list[Answer]:
        """One durable turn; the answers that left with it."""
        answers: list[Answer] = []
        self.driver.begin_turn()
        for call in calls:
            self.driver.decide(call, answers.append)
        self.driver.end_turn()
        self.driver.sync()
        self.driver.release()
        return answers

    def create(self, name: str = PLAIN, **properties: Any) -> Queue:
        return self.run(
            lambda m: m.queues.create_queue(name, QueueProperties(**properties), self.admin)
        )

    def open(self, access: QueueAccessType, name: str = PLAIN) -> OpenQueueDescriptor:
        return self.run(lambda m: m.queues.open_queue(name, access, self.admin))

    def send(self, *bodies: bytes, name: str = PLAIN, **attributes: Any) -> None:
        sender, durable = self.open(SEND, name), DeliveryGuarantee.RECOVERABLE
        for body in bodies:
            message = Message(body=body, delivery_guarantee=durable, **attributes)
            self.run(
                lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(
                    sender, message
                )
            )  # type: ignore[misc]

    def receive(self, reader: OpenQueueDescriptor, **options: Any) -> bytes:
        return self.body(
            self.driver.read(lambda m: m.messages.dequeue_message(reader, **IN_TIME, **options))
        )

    def peek(self, reader: OpenQueueDescriptor, **options: Any) -> bytes:
        return self.body(
            self.driver.read(lambda m: m.messages.peek_message(reader, **IN_TIME, **options))
        )

    def body(self, delivery: Delivery | None) -> bytes:
        assert delivery is not None
        return delivery.message.body

    # -- looking

    def queue(self, name: str = PLAIN) -> Queue:
        return self.manager.queues._local(name)

    def lookup_ids(self, name: str = PLAIN) -> list[int]:
        return [place.lookup_id for place, _ in self.queue(name).state.order.forward()]

    def check_books(self) -> None:
        for queue in self.manager.queues.all():
            for books in self.manager.queues.books_apart(queue):
                assert books.balanced, (queue.name, books)

    # -- damage

    def seal(self) -> None:
        """Ends the open segment; what it holds is read again only for readers."""
        self.store._begin_segment()
        self.driver.sync()
        while self.driver.tidy():
            pass

    def damage(self, body: bytes) -> str:
        """Flips a bit of the one record with this body; the name of its file."""
        ((name, offset),) = self._find(body)
        if isinstance(self.disk, SimDisk):
            self.disk.flip_bit(name, offset, 0)
        else:
            assert self.path is not None
            data = bytearray((self.path / name).read_bytes())
            data[offset] ^= 1
            (self.path / name).write_bytes(data)
        return name

    def _find(self, body: bytes) -> list[tuple[str, int]]:
        found = []
        for name in self.disk.names():
            if name.endswith(".log"):
                file = self.disk.open(name)
                data = file.read(0, file.size())
                file.close()
                if body in data:
                    found.append((name, data.index(body)))
        return found


IN_TIME: dict[str, Any] = {"timeout_ms": 0}
