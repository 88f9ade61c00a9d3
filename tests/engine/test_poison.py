"""Poison policies: aborts counted, delays before the next try, and the way to the poison queue."""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest

from posthouse.engine.ledger.ledger import decode_extra
from posthouse.engine.ledger.records import CHANGE, unpack_change
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import QueueDefinition, decode_definition, encode_definition
from posthouse.model.errors import (
    AccessDenied,
    IllegalPropertyValue,
    IoTimeout,
    MessageNotFound,
    PropertiesConflict,
    QueueError,
    QueueNotFound,
)
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.security.descriptors import unpack_descriptor
from posthouse.security.rights import WRITE_MESSAGE
from posthouse.wire.packet.message import deserialize
from tests.conftest import Dose
from tests.engine.paper import Paper
from tests.engine.readers import USER, Readers, answered, body, readers, user
from tests.engine.rig import MOVE, RECEIVE, SEND

POISON, OTHER = r".\private$\q;poison", r".\private$\other"


def poisoned(*bodies: bytes, **policy: Any) -> Readers:
    """A transactional queue q with a policy and these messages."""
    rig = readers(*bodies, transactional=True, **policy)
    rig.events.clear()
    return rig


def abort(rig: Readers, times: int = 1, count: int = 1) -> None:
    """Receives are rolled back."""
    for _ in range(times):
        tx = rig.begin()
        for _ in range(count):
            rig.receive("q", transaction=tx)
        rig.abort(tx)


def waiting(rig: Readers) -> int:
    return rig.manager.poison.waiting_in(rig.queue("q"))


def names(rig: Readers) -> list[str]:
    return [event.name for event in rig.events]


# -- the maximum of aborts


def test_without_a_policy_a_message_is_tried_for_ever() -> None:
    rig = poisoned(b"a")
    abort(rig, 20)
    assert (rig.bodies("q"), rig.read_of(b"a").aborts) == ([b"a"], 20)
    assert "message_poisoned" not in names(rig)


def test_the_last_abort_and_the_move_are_one_record() -> None:
    rig = poisoned(b"a", b"b", max_aborts=3)
    abort(rig, 2)
    assert (rig.bodies("q"), rig.read_of(b"a").aborts) == ([b"a", b"b"], 2)
    tx = rig.begin()
    number = rig.receive("q", transaction=tx).read.number
    effects = rig.decide(lambda m: m.transactions.transaction_abort(tx.identifier))
    last = unpack_change(effects.records[-1][2])
    assert [record[0] for record in effects.records] == [CHANGE] * len(effects.records)
    assert [settle.number for settle in last.settles] == [number]
    assert (rig.bodies("q"), rig.bodies(POISON)) == ([b"b"], [b"a"])
    rig.restart()
    assert (rig.bodies("q"), rig.bodies(POISON)) == ([b"b"], [b"a"])
    rig.check_books()


def test_several_of_one_transaction_go_in_order_and_the_others_stay() -> None:
    rig = poisoned(b"a", b"b", b"c", max_aborts=2)
    abort(rig)
    abort(rig, count=3)
    assert (rig.bodies("q"), rig.bodies(POISON)) == ([b"b", b"c"], [b"a"])
    abort(rig, count=2)
    assert (rig.bodies("q"), rig.bodies(POISON)) == ([], [b"a", b"b", b"c"])
    assert names(rig).count("message_poisoned") == 3
    assert rig.manager.machine.refusals["message_poisoned"] == 3


def test_a_session_that_ends_has_aborted_and_a_killed_manager_has_not() -> None:
    rig = poisoned(b"a", max_aborts=2)
    for _ in range(5):
        rig.receive("q", transaction=rig.begin())
        rig.restart()
    assert rig.read_of(b"a").aborts == 0
    for _ in range(2):
        owner = object()
        tx = rig.begin(owner=owner)
        rig.receive("q", transaction=tx)
        rig.run(lambda m, owner=owner: m.end_session(owner))
    assert rig.bodies(POISON) == [b"a"]


def test_a_prepared_transaction_counts_when_it_is_aborted() -> None:
    rig = poisoned(b"a", max_aborts=1)
    tx = rig.begin()
    rig.receive("q", transaction=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.restart()
    assert rig.bodies("q") == [b"a"]
    rig.run(lambda m: m.transactions.transaction_abort(tx.identifier))
    assert rig.bodies(POISON) == [b"a"]


def test_a_commit_is_no_abort() -> None:
    rig = poisoned(b"a", b"b", max_aborts=1)
    tx = rig.begin()
    rig.receive("q", transaction=tx)
    rig.commit(tx)
    assert (rig.bodies("q"), names(rig)) == ([b"b"], [])


def test_an_aborted_move_does_not_make_poison() -> None:
    rig = poisoned(b"a", max_aborts=1)
    rig.create("other", transactional=True)
    source, target = rig.open("q", RECEIVE), rig.open("other", MOVE)
    tx = rig.begin()
    rig.run(lambda m: m.messages.move_message(source, rig.id_of(b"a"), target, tx))
    rig.abort(tx)
    assert rig.bodies("q") == [b"a"]


def test_another_queue_takes_them_and_they_are_known_to_be_from_here() -> None:
    rig = readers()
    rig.create("other", transactional=True)
    rig.create("p", transactional=True, max_aborts=1, poison_queue=OTHER)
    filling = rig.begin()
    rig.send("p", b"a", tx=filling)
    rig.commit(filling)
    waiter = rig.wait(rig.open("other", RECEIVE), "peek_message", timeout_ms=1000)
    tx = rig.begin()
    rig.receive("p", transaction=tx)
    rig.abort(tx)
    assert (rig.bodies("p"), rig.bodies("other")) == ([], [b"a"])
    assert len(waiter) == 1
    rig.restart()
    (read,) = rig.reads("other")
    source, target = rig.open("other", RECEIVE), rig.open("p", SEND)
    returning, other = rig.manager.returning, rig.queue("other")
    assert returning.failed_in(other, read.number) == r"ALPHA\private$\p"
    rig.run(lambda m: m.returning.send_back(source, read.lookup_id, target, Message()))
    assert (rig.bodies("p"), rig.bodies("other")) == ([b"a"], [])
    assert returning.failed_in(rig.queue("p"), read.number) == ""


@pytest.mark.parametrize("fault", ["deleted", "full"])
def test_what_the_poison_queue_refuses_stays(fault: str) -> None:
    rig = readers()
    rig.create("other", transactional=True, quota_kib=0 if fault == "full" else 100)
    rig.create("p", transactional=True, max_aborts=1, poison_queue=OTHER)
    filling = rig.begin()
    rig.send("p", b"a", tx=filling)
    rig.commit(filling)
    if fault == "deleted":
        rig.run(lambda m: m.queues.delete_queue(OTHER, rig.admin))
    for aborts in (1, 2):
        tx = rig.begin()
        rig.receive("p", transaction=tx)
        rig.abort(tx)
        assert [read.aborts for read in rig.reads("p")] == [aborts]
    assert names(rig).count("poison_queue_refuses") == 2
    rig.check_books()


# -- delays


def test_a_message_waits_for_its_next_try() -> None:
    rig = poisoned(b"a", retry_delays=(10, 60))
    abort(rig)
    assert waiting(rig) == 1
    with pytest.raises(IoTimeout):
        rig.peek("q")
    descriptor, tx = rig.open("q", RECEIVE), rig.begin("t2")
    with pytest.raises(IoTimeout):
        rig.receive(descriptor, transaction=tx)
    with pytest.raises(MessageNotFound):
        rig.run(
            lambda m: m.messages.read_message_by_lookup_identifier(
                descriptor, rig.id_of(b"a"), peek=False
            )
        )
    rig.advance(9)
    assert waiting(rig) == 1
    rig.advance(1)
    assert waiting(rig) == 0
    assert rig.receive(descriptor, transaction=tx).read.aborts == 1


def test_it_comes_back_at_its_old_place_and_to_who_waits() -> None:
    rig = poisoned(b"a", b"b", b"c", retry_delays=(10,))
    abort(rig)
    tx = rig.begin("t2")
    assert body(rig.receive("q", transaction=tx)) == b"b"
    rig.advance(10)
    tx = rig.begin("t3")
    assert body(rig.receive("q", transaction=tx)) == b"a"
    rig.abort(tx)
    tx = rig.begin("t4")
    rig.receive("q", transaction=tx)  # c: nothing is left but a, which waits
    waiter = rig.wait(rig.open("q", RECEIVE), timeout_ms=60_000)
    assert waiter == []
    rig.advance(10)
    assert answered(waiter) == b"a"
    rig.check_books()


def test_a_search_that_went_past_it_finds_it_again() -> None:
    rig = poisoned(b"x", b"a", b"b", b"c", retry_delays=(10,))
    held = rig.begin("t0")
    rig.receive("q", transaction=held)  # x stays in somebody's hands
    abort(rig)
    tx = rig.begin("t2")
    assert body(rig.receive("q", transaction=tx)) == b"b"
    rig.advance(10)
    assert body(rig.receive("q", transaction=tx)) == b"a"


def test_each_abort_has_its_delay_and_the_last_goes_on() -> None:
    rig = poisoned(b"a", retry_delays=(0, 5, 20), max_aborts=5)
    for delay in (0, 5, 20, 20):
        abort(rig)
        assert waiting(rig) == (delay > 0)
        if delay:
            rig.advance(delay - 1)
            assert waiting(rig) == 1
            rig.advance(1)
        assert waiting(rig) == 0
    abort(rig)
    assert (waiting(rig), rig.bodies(POISON)) == (0, [b"a"])


def test_a_restart_keeps_the_rest_of_a_delay() -> None:
    rig = poisoned(b"a", b"b", retry_delays=(100,))
    abort(rig)
    rig.advance(40)
    rig.restart()
    assert waiting(rig) == 1
    rig.advance(59)
    assert waiting(rig) == 1
    rig.advance(1)
    assert waiting(rig) == 0
    rig.restart()
    assert (waiting(rig), rig.read_of(b"a").aborts) == (0, 1)


@pytest.mark.parametrize("end", ["purge", "expire", "delete"])
def test_purge_expiry_and_deletion_find_what_waits(end: str) -> None:
    rig = poisoned(retry_delays=(100,))
    tx = rig.begin()
    rig.send("q", b"a", tx=tx, time_to_be_received=50)
    rig.commit(tx)
    abort(rig)
    assert waiting(rig) == 1
    if end == "purge":
        descriptor = rig.open("q", RECEIVE)
        rig.run(lambda m: m.queues.purge_queue(descriptor))
    elif end == "expire":
        rig.advance(51)
    else:
        rig.run(lambda m: m.queues.delete_queue(r".\private$\q", rig.admin))
    core = rig.manager.ledger
    assert (len(core.state.table), core.locks) == (0, {})
    rig.advance(200)
    rig.check_books()


def test_what_expired_in_the_reader_does_not_wait() -> None:
    rig = poisoned(retry_delays=(100,), max_aborts=1)
    tx = rig.begin()
    rig.send("q", b"a", tx=tx, time_to_be_received=20)
    rig.commit(tx)
    tx = rig.begin("t2")
    rig.receive("q", transaction=tx)
    rig.advance(30)
    rig.abort(tx)
    assert (waiting(rig), len(rig.manager.ledger.state.table)) == (0, 0)


def test_very_many_are_available_again_in_several_turns() -> None:
    rig = Readers(step_messages=10)
    rig.create("q", transactional=True, retry_delays=(5,))
    rig.fill(*[b"%d" % n for n in range(35)])
    abort(rig, count=35)
    assert waiting(rig) == 35
    rig.clock.advance(5000)
    left = []
    for _ in range(4):
        rig.turn()
        left.append(waiting(rig))
    assert left == [25, 15, 5, 0]


def test_who_gets_nothing_is_told_that_messages_wait() -> None:
    rig = poisoned(b"a", retry_delays=(5,))
    abort(rig)
    with pytest.raises(IoTimeout, match="1 wait for their next try"):
        rig.receive("q", transaction=rig.begin("t2"))


# -- setting a policy


def test_policies_are_set_and_refused() -> None:
    rig = readers(transactional=True)
    rig.create("plain")
    rig.create("other", transactional=True)

    def change(name: str = "q", **values: Any) -> None:
        rig.run(lambda m: m.queues.set_queue(rf".\private$\{name}", rig.admin, **values))

    change(max_aborts=5, retry_delays=(1, 2))
    change(poison_queue=";dead")
    change(poison_queue=OTHER)
    definition = rig.queue("q").definition
    assert (definition.max_aborts, definition.poison_queue) == (5, OTHER)
    refusals: list[tuple[type[QueueError], str, dict[str, Any]]] = [
        (PropertiesConflict, "plain", {"max_aborts": 1}),
        (PropertiesConflict, "plain", {"retry_delays": (1,)}),
        (PropertiesConflict, "q", {"poison_queue": r".\private$\plain"}),
        (QueueNotFound, "q", {"poison_queue": r".\private$\none"}),
        (QueueNotFound, "q", {"poison_queue": r"DIRECT=OS:BETA\private$\x"}),
        (IllegalPropertyValue, "q", {"poison_queue": r".\private$\q"}),
        (IllegalPropertyValue, "q", {"poison_queue": ";"}),
        (IllegalPropertyValue, "q", {"poison_queue": r".\system$;deadxact"}),
        (IllegalPropertyValue, "q", {"max_aborts": 70_000}),
        (IllegalPropertyValue, "q", {"retry_delays": (1,) * 17}),
        (IllegalPropertyValue, "q", {"retry_delays": (-1,)}),
    ]
    for error, name, values in refusals:
        with pytest.raises(error):
            change(name, **values)
    with pytest.raises(PropertiesConflict):
        rig.create("new", max_aborts=1)
    rig.restart()
    assert rig.queue("q").definition.retry_delays == (1, 2)


def test_who_sets_a_poison_queue_may_send_there() -> None:
    rig = readers(transactional=True)
    rig.create("other", transactional=True)
    rig.grant("set-properties")
    closed = unpack_descriptor(rig.queue("other").definition.security).deny(USER, WRITE_MESSAGE)
    rig.run(lambda m: m.queues.set_queue_security(OTHER, rig.admin, closed.pack()))
    with pytest.raises(AccessDenied):
        rig.run(lambda m: m.queues.set_queue(r".\private$\q", user(), poison_queue=OTHER))
    rig.run(lambda m: m.queues.set_queue(r".\private$\q", user(), poison_queue=";x"))


def test_definitions_of_earlier_versions_have_no_policy() -> None:
    definition = readers().queue("q").definition
    assert b"abort" not in encode_definition(definition)
    read: QueueDefinition = decode_definition(encode_definition(definition))
    assert (read.max_aborts, read.poison_queue, read.retry_delays) == (0, "", ())


def test_messages_of_earlier_versions_do_not_wait() -> None:
    extra = decode_extra(msgspec.msgpack.encode([[7], "", True, "BETA"]))
    assert (extra.aliases, extra.in_doubt, extra.host) == ([7], True, "BETA")
    assert (extra.retry_at, extra.failed_in) == (0, "")


# -- every crash


Q = r".\private$\q"


class Shelf:
    """A queue with a policy on paper, and what has to be true of its messages."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.paper = Paper()
        self.paper.create(Q, transactional=True, max_aborts=3, retry_delays=(0, 5))
        self.sent = self.poisoned = 0

    def step(self) -> None:
        """Something happens, and perhaps a crash behind any of its records."""
        before, start = self.bodies(), len(self.paper.log)
        after = self.chance.choice([self.send, self.work, self.work, self.work, self.wait])(before)
        allowed = [after]
        if self.chance.random() < 0.3:
            self.paper = self.paper.cut(self.chance.randint(start, len(self.paper.log)))
            allowed = [before, after]
        assert self.bodies() in allowed
        self.check()

    def begin(self) -> bytes:
        return self.paper.run(
            lambda m: m.transactions.create_transaction(m.machine.new_guid())
        ).identifier

    def send(self, before: list[bytes]) -> list[bytes]:
        handle, identifier, bodies = self.paper.open(Q, SEND), self.begin(), list[bytes]()
        for _ in range(self.chance.randint(1, 4)):
            self.sent += 1
            bodies.append(b"%06d" % self.sent)
            message = Message(body=bodies[-1], delivery_guarantee=DeliveryGuarantee.RECOVERABLE)
            self.paper.run(partial(self._enqueue, handle, message, identifier))
        self.paper.run(lambda m: m.transactions.transaction_commit(identifier))
        return sorted(before + bodies)

    def _enqueue(
        self, handle: OpenQueueDescriptor, message: Message, identifier: bytes, m: QueueManager
    ) -> None:
        m.messages.enqueue_message_to_an_open_queue(
            handle, message, m.transactions.find(identifier)
        )

    def work(self, before: list[bytes]) -> list[bytes]:
        """A transaction receives some messages, and commits or aborts."""
        handle, identifier, taken = self.paper.open(Q, RECEIVE), self.begin(), set[bytes]()
        transaction = self.paper.manager.transactions.find(identifier)
        for _ in range(self.chance.randint(1, 3)):
            with suppress(IoTimeout):
                read = self.paper.run(
                    lambda m: m.messages.dequeue_message(
                        handle, timeout_ms=0, transaction=transaction
                    )
                )
                assert read is not None
                taken.add(self.body(read.number))
        if self.chance.random() < 0.2:
            self.paper.run(lambda m: m.transactions.transaction_commit(identifier))
            return [body for body in before if body not in taken]
        self.paper.run(lambda m: m.transactions.transaction_abort(identifier))
        return before

    def wait(self, before: list[bytes]) -> list[bytes]:
        self.paper.clock.advance(self.chance.randint(1, 4) * 1000)
        self.paper.run(lambda m: None)
        return before

    def body(self, number: int) -> bytes:
        return deserialize(self.paper.packets[number]).body

    def bodies(self) -> list[bytes]:
        """Of all queues, sorted."""
        queues = self.paper.manager.queues.all()
        numbers = [number for queue in queues for _, number in queue.state.order.forward()]
        return sorted(map(self.body, numbers))

    def check(self) -> None:
        """The log says what the engine believes, counts are within the policy, order is kept."""
        paper, core = self.paper, self.paper.manager.ledger
        paper.check()
        queue = paper.manager.queues._local(Q)
        numbers = [number for _, number in queue.state.order.forward()]
        assert paper.bodies(Q) == sorted(paper.bodies(Q))
        assert all(paper.manager.messages.reading.row(number).aborts < 3 for number in numbers)
        waiting = [number for number in numbers if number in core.locks]
        assert all(core.extra(number).retry_at > core.utc for number in waiting)
        assert paper.manager.poison.waiting_in(queue) == len(waiting) == queue.locked
        self.poisoned += len(queue.subqueues)


def test_no_kill_loses_or_doubles_a_message(dose: Dose) -> None:
    poisoned = 0
    for seed in range(dose(20, 500)):
        shelf = Shelf(seed)
        for _ in range(40):
            shelf.step()
        poisoned += shelf.poisoned
    assert poisoned
