"""A queue manager on a store in memory, driven turn by turn: what engine tests stand on."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from posthouse.engine.ledger.effects import Effects, Event, Read
from posthouse.engine.ledger.records import Record
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import QueueError
from posthouse.model.message import DeliveryGuarantee, Message, MessageId
from posthouse.model.properties import QueueProperties
from posthouse.runtime.driver import Answer, Delivery, Driver
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.wire.packet.message import deserialize
from tests.engine.settings import engine_settings
from tests.support.memory_store import MemoryStore

T = TypeVar("T")
SEND, RECEIVE, PEEK, MOVE = (
    QueueAccessType.SEND,
    QueueAccessType.RECEIVE,
    QueueAccessType.PEEK,
    QueueAccessType.MOVE,
)
RECOVERABLE = DeliveryGuarantee.RECOVERABLE
EXPRESS_DELIVERY = DeliveryGuarantee.EXPRESS
START_UTC = 1_700_000_000


class Rig:
    """One queue manager named ALPHA. Every call is a turn of its own, synced before it returns."""

    def __init__(self, **settings: Any) -> None:
        self.settings = engine_settings(**{"dns_domain": "example.com"} | settings)
        self.clock = SimClock(utc_seconds=START_UTC)
        self.random = random.Random(1)
        self.admin = Caller.administrator()
        self.events: list[Event] = []
        self.active: set[int] = set()
        self.store = MemoryStore()
        self._boot(self.store.recover().state)

    def _boot(self, state: State) -> None:
        self.manager = QueueManager(
            self.settings, state, self.store.read, self.random.randbytes, self.store.read_many
        )
        self.manager.start(self.clock.now_ms, self.clock.utc_seconds)
        self.driver = Driver(
            self.manager, self.store, lambda: (self.clock.now_ms, self.clock.utc_seconds)
        )
        self.driver.on_event = self.events.append
        self.driver.on_active = self.active.update
        self.turn()

    def restart(self, left: Sequence[Record] | None = None) -> None:
        """Kill and recover: what was not synced is gone, and so is everything volatile.

        For records that are `left`, see the store's `crash`.
        """
        self.store = self.store.crash(left)
        self._boot(self.store.recover().state)

    # -- turns

    def turn(self) -> None:
        """An empty turn: only the clocks act."""
        self.driver.begin_turn()
        self.driver.end_turn()
        self.driver.sync()
        self.driver.release()

    def advance(self, seconds: float) -> None:
        """Lets time pass, then gives the engine a turn."""
        self.clock.advance(int(seconds * 1000))
        self.turn()

    def run(self, call: Callable[[QueueManager], T]) -> T:
        return self.driver.run(call)

    def decide(self, call: Callable[[QueueManager], object]) -> Effects:
        """One durable turn of which everything the engine asked for is returned."""
        self.driver.begin_turn()
        call(self.manager)
        effects = self.manager.take_effects()
        self.store.append(effects.records)
        self.store.sync()
        return effects

    @contextmanager
    def refused(self, code: int, match: str | None = None) -> Iterator[None]:
        """The block is refused with this code, cause and remedy; it is counted, nothing changes."""
        core = self.manager.ledger
        before, counted = core.state.dump(), core.refusals.total()
        with pytest.raises(QueueError, match=match) as caught:
            yield
        error = caught.value
        assert error.code == code, error
        assert error.cause
        assert error.remedy
        assert core.state.dump() == before
        assert core.refusals.total() == counted + 1
        assert core.refusals[error.name]

    # -- queues

    def create(self, name: str, caller: Caller | None = None, **properties: Any) -> Queue:
        """A queue of the administrator: create("orders") is .\\private$\\orders."""
        path = name if "\\" in name else f".\\private$\\{name}"
        security = properties.pop("security", None)
        return self.run(
            lambda m: m.queues.create_queue(
                path, QueueProperties(**properties), caller or self.admin, security=security
            )
        )

    def open(
        self,
        name: str,
        access: QueueAccessType = SEND,
        caller: Caller | None = None,
        share: QueueShareMode = QueueShareMode.DENY_NONE,
        association: object = None,
    ) -> OpenQueueDescriptor:
        path = name if "\\" in name or "=" in name else f".\\private$\\{name}"
        return self.run(
            lambda m: m.queues.open_queue(
                path, access, caller or self.admin, share=share, association=association
            )
        )

    def close(self, descriptor: OpenQueueDescriptor) -> None:
        self.run(lambda m: m.queues.close_queue(descriptor))

    def queue(self, name: str) -> Queue:
        path = name if "\\" in name else f".\\private$\\{name}"
        return self.manager.queues._local(path)

    # -- messages

    def send(
        self,
        to: str | OpenQueueDescriptor,
        body: bytes = b"",
        *,
        tx: Transaction | None = None,
        recoverable: bool = True,
        **attributes: Any,
    ) -> MessageId:
        """Sends a recoverable message (express: recoverable=False); attributes are Message's."""
        message = Message(body=body, **attributes)
        if recoverable:
            message.delivery_guarantee = RECOVERABLE
        descriptor = self.open(to) if isinstance(to, str) else to
        try:
            return self.run(
                lambda m: m.messages.enqueue_message_to_an_open_queue(descriptor, message, tx)
            )
        finally:
            if isinstance(to, str):
                self.close(descriptor)

    def receive(self, source: str | OpenQueueDescriptor, **options: Any) -> Delivery:
        """A message that is there; raises what the engine raises."""
        return self._read("dequeue_message", source, RECEIVE, options)

    def peek(self, source: str | OpenQueueDescriptor, **options: Any) -> Delivery:
        return self._read("peek_message", source, PEEK, options)

    def _read(
        self, method: str, source: str | OpenQueueDescriptor, access: Any, options: Any
    ) -> Delivery:
        options.setdefault("timeout_ms", 0)
        descriptor = self.open(source, access) if isinstance(source, str) else source
        delivery = self.driver.read(lambda m: getattr(m.messages, method)(descriptor, **options))
        if isinstance(source, str):
            self.close(descriptor)
        assert delivery is not None
        return delivery

    def wait(
        self, source: OpenQueueDescriptor, method: str = "dequeue_message", **options: Any
    ) -> list[Answer]:
        """Starts a read that waits; the list gets its one answer when it ends."""
        answers: list[Answer] = []

        def first(answer: Answer) -> None:
            if answer.value is not None or answer.error is not None:
                answers.append(answer)

        self.driver.begin_turn()
        self.driver.decide(
            lambda m: getattr(m.messages, method)(source, token=answers.append, **options), first
        )
        self.driver.end_turn()
        self.driver.sync()
        self.driver.release()
        return answers

    def lookup(
        self, source: OpenQueueDescriptor, lookup_id: int, *args: Any, **kw: Any
    ) -> Delivery:
        delivery = self.driver.read(
            lambda m: m.messages.read_message_by_lookup_identifier(source, lookup_id, *args, **kw)
        )
        assert delivery is not None
        return delivery

    def begin(self, name: str = "t1", owner: object = None) -> Transaction:
        identifier = name.encode().ljust(16, b".")
        return self.run(lambda m: m.transactions.create_transaction(identifier, owner))

    def commit(self, tx: Transaction) -> None:
        self.run(lambda m: m.transactions.transaction_commit(tx.identifier))

    def abort(self, tx: Transaction) -> None:
        self.run(lambda m: m.transactions.transaction_abort(tx.identifier))

    # -- looking

    def messages(self, name: str) -> list[Message]:
        """Every message of a queue in queue order, locked ones too."""
        queue = self.queue(name)
        numbers = [number for _, number in queue.state.order.forward()]
        return [deserialize(self.store.read(number)) for number in numbers]

    def bodies(self, name: str) -> list[bytes]:
        return [message.body for message in self.messages(name)]

    def reads(self, name: str) -> list[Read]:
        queue, reading = self.queue(name), self.manager.messages.reading
        return [reading.read_of(n, reading.row(n)) for _, n in queue.state.order.forward()]

    def check_books(self) -> None:
        """Every queue's books balance, durable and express lines apart."""
        for queue in self.manager.queues.all():
            for books in self.manager.queues.books_apart(queue):
                assert books.balanced, (queue.name, books)
