"""A rig for readers: short names for what their tests do, and for what must not have changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from posthouse.engine.ledger.effects import Read
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Cursor
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import QueueError
from posthouse.runtime.driver import Delivery
from posthouse.security.access import Caller
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import parse_rights
from posthouse.security.sids import make_sid
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import MOVE, RECEIVE, Rig

SUBQUEUE = r".\private$\q;poison"
JOURNAL = r".\private$\q;journal"
DEAD_LETTERS = r".\system$;deadletter"
DEAD_TRANSACTIONAL = r".\system$;deadxact"
FIRST_LOOKUP_ID = 1 << 40


def body(delivery: Delivery) -> bytes:
    """The body of a message that was read."""
    return deserialize(delivery.packet).body


def answered(answers: list[Any]) -> bytes:
    """The body that a read which waited got: exactly one answer, and no error."""
    (answer,) = answers
    assert answer.error is None
    return deserialize(answer.packets[0]).body


def ended(answers: list[Any]) -> type[QueueError]:
    """The error that a read which waited got: exactly one answer, and no message."""
    (answer,) = answers
    assert answer.value is None
    assert answer.packets == ()
    assert answer.error is not None
    return type(answer.error)


class Readers(Rig):
    """A rig whose queue is called q. Lookup identifiers are nowhere near internal numbers."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.run(lambda m: m.ledger.lookup_ids.skip_to(FIRST_LOOKUP_ID))

    def fill(self, *bodies: bytes, name: str = "q", **attributes: Any) -> None:
        """Recoverable messages, in this order; in one transaction where the queue wants that."""
        if not self.queue(name).definition.transactional:
            for text in bodies:
                self.send(name, text, **attributes)
            return
        tx = self.begin("fill")
        for text in bodies:
            self.send(name, text, tx=tx, **attributes)
        self.commit(tx)

    def ids(self, name: str = "q") -> list[int]:
        """The lookup identifiers, in queue order."""
        return [read.lookup_id for read in self.reads(name)]

    def id_of(self, text: bytes, name: str = "q") -> int:
        """The lookup identifier of the message with this body."""
        return self.ids(name)[self.bodies(name).index(text)]

    def read_of(self, text: bytes, name: str = "q") -> Read:
        """What a reader of the message with this body would get."""
        return self.reads(name)[self.bodies(name).index(text)]

    def available(self, name: str = "q") -> list[bytes]:
        """The bodies a reader could get now, in queue order."""
        queue, reading = self.queue(name), self.manager.messages.reading
        return [
            deserialize(self.store.read(number)).body
            for _, number in queue.state.order.forward()
            if reading.visible(number, peek=False)
        ]

    def hold(self, source: OpenQueueDescriptor, **options: Any) -> Delivery:
        """Dequeue Message Begin of a message that is there."""
        options.setdefault("timeout_ms", 0)
        delivery = self.driver.read(
            lambda m: m.messages.dequeue_message(source, **options, two_phase=True)
        )
        assert delivery is not None
        return delivery

    def end(self, source: OpenQueueDescriptor, lookup_id: int, **options: Any) -> None:
        """Dequeue Message End, positive unless told otherwise."""
        options.setdefault("positive", True)
        self.run(lambda m: m.messages.dequeue_message_end(source, lookup_id, **options))

    def cursor(self, source: OpenQueueDescriptor) -> Cursor:
        return self.run(lambda m: m.messages.open_cursor(source))

    def peek_next(self, source: OpenQueueDescriptor, cursor: Cursor, **options: Any) -> Delivery:
        options.setdefault("timeout_ms", 0)
        delivery = self.driver.read(
            lambda m: m.messages.peek_next_message(source, cursor, **options)
        )
        assert delivery is not None
        return delivery

    def move(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        tx: Transaction | None = None,
    ) -> None:
        self.run(lambda m: m.messages.move_message(source, lookup_id, target, tx))

    def move_between(
        self, text: bytes, source: str, target: str, tx: Transaction | None = None
    ) -> None:
        """Moves the message with this body by name; opens and closes what it needs."""
        lookup_id = self.id_of(text, source)
        origin, goal = self.open(source, RECEIVE), self.open(target, MOVE)
        self.move(origin, lookup_id, goal, tx)
        self.close(origin)
        self.close(goal)

    def purge(self, name: str = "q") -> int:
        descriptor = self.open(name, RECEIVE)
        found = self.run(lambda m: m.queues.purge_queue(descriptor))
        self.close(descriptor)
        return found

    def delete(self, name: str = "q") -> None:
        path = f".\\private$\\{name}"
        self.run(lambda m: m.queues.delete_queue(path, self.admin))

    def cancel(self, source: OpenQueueDescriptor, tag: object, *error: QueueError) -> None:
        self.run(lambda m: m.messages.cancel_waiting_message_read_request(source, tag, *error))

    def waiting(self, name: str = "q") -> int:
        """How many reads wait in the queue."""
        return len(self.queue(name).waiters)

    def grant(self, rights: str, name: str = "q") -> None:
        """Gives the user exactly these rights, "" takes them all away."""
        security = unpack_descriptor(self.queue(name).definition.security).revoke(USER)
        if rights:
            security = security.grant(USER, parse_rights(rights))
        path = f".\\private$\\{name}"
        self.run(lambda m: m.queues.set_queue_security(path, self.admin, security.pack()))

    # -- what must not change

    def picture(self) -> tuple[object, ...]:
        """Everything durable, and what only lives with the process."""
        core = self.manager.ledger
        return (
            core.state.dump(),
            {n: (k.transaction, k.holder, k.purged, k.expired) for n, k in core.locks.items()},
            {q.number: (q.locked, q.reserved, list(q.waiters)) for q in core.queues.values()},
            {t: tx.steps for t, tx in self.manager.transactions.collection.open.items()},
            self.store.appended,
        )

    @contextmanager
    def refuses(self, error: type[QueueError], code: int) -> Iterator[None]:
        """One error with its code, a cause and a remedy; a counter rises, nothing else changes."""
        before, counted = self.picture(), self.manager.machine.refusals[error.name]
        with pytest.raises(error) as caught:
            yield
        assert type(caught.value) is error
        assert caught.value.code == code
        assert caught.value.cause
        assert caught.value.remedy
        assert self.picture() == before
        assert self.manager.machine.refusals[error.name] == counted + 1


def readers(*bodies: bytes, transactional: bool = False, **properties: Any) -> Readers:
    """A queue q with these messages."""
    rig = Readers()
    rig.create("q", transactional=transactional, **properties)
    rig.fill(*bodies)
    return rig


USER = make_sid(5, 21, 1, 2, 3, 1001)


def user() -> Caller:
    """Somebody who has no right on the queues of the administrator."""
    return Caller.user(USER, "ann")
