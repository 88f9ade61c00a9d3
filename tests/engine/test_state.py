"""The state of the log: what the engine decides and what a replay finds are the same."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import (
    ACCEPTED,
    EXPIRED,
    FLAG_EXPRESS,
    KEPT,
    LOST_EXPRESS,
    MOVED,
    NEVER,
    RECEIVED,
    TABLE_BOOKS,
    TABLE_QUEUE,
    Arrival,
    Change,
    Define,
    End,
    Row,
    Settle,
    Span,
    unpack_change,
)
from posthouse.engine.ledger.state import BOOKS_KEY, State
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import QueueError
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.properties import QueueProperties
from tests.engine.paper import Paper, facts

SEND, RECEIVE, MOVE = QueueAccessType.SEND, QueueAccessType.RECEIVE, QueueAccessType.MOVE
PLAIN = (r".\private$\plain", r".\private$\small")
TRANSACTIONAL = (r".\private$\orders", r".\private$\bills")
ADMIN = r"DIRECT=OS:ALPHA\private$\admin"
REMOTE = r"DIRECT=OS:BETA\private$\orders"
STEPS = st.lists(st.tuples(*[st.integers(0, 63)] * 4), min_size=1, max_size=60)


class Driven:
    """A queue manager that does one of many things by four numbers."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper
        self.transactions: list[Transaction] = []
        self.reads: list[tuple[OpenQueueDescriptor, Read]] = []
        self.names = 0
        self.handles: dict[tuple[str, QueueAccessType], OpenQueueDescriptor] = {}

    def set_up(self) -> Driven:
        create = self.paper.create
        create(r".\private$\admin")
        create(PLAIN[0], journaling=True)
        create(PLAIN[1], quota_kib=1)
        create(TRANSACTIONAL[0], transactional=True, journaling=True)
        create(TRANSACTIONAL[1], transactional=True, quota_kib=2)
        return self

    def step(self, code: int, x: int, y: int, z: int) -> None:
        actions: list[Callable[[int, int, int], None]] = [
            self.send,
            self.send,
            self.send_in_transaction,
            self.send_in_transaction,
            self.receive,
            self.receive_in_transaction,
            self.receive_in_transaction,
            self.move,
            self.begin_read,
            self.end_read,
            self.finish,
            self.finish,
            self.purge_or_delete,
            self.pass_time,
            self.send_to_many,
            self.send_far,
            self.crash,
        ]
        with suppress(QueueError):
            actions[code % len(actions)](x, y, z)
        self.paper.check()

    def handle(self, path: str, access: QueueAccessType) -> OpenQueueDescriptor:
        handle = self.handles.get((path, access))
        if handle is None or (handle.queue is None and not handle.nested):
            handle = self.paper.open(path, access)
            self.handles[path, access] = handle
        return handle

    def message(self, x: int, y: int, z: int) -> Message:
        message = Message(
            body=bytes(z),
            priority=x % 8,
            delivery_guarantee=(DeliveryGuarantee.EXPRESS, DeliveryGuarantee.RECOVERABLE)[y & 1],
            acknowledgements_requested=z & 15,
            positive_journaling_requested=bool(y & 2),
            negative_journaling_requested=bool(y & 4),
            time_to_be_received=(0, 3, 0xFFFFFFFF, 0xFFFFFFFF)[y >> 3 & 3],
        )
        if message.acknowledgements_requested:
            message.administration_queue_format_name = ADMIN
        if y & 32:
            message.application_deadletter_queue = PLAIN[x & 1]
        return message

    def send(self, x: int, y: int, z: int) -> None:
        handle = self.handle((*PLAIN, REMOTE)[x % 3], SEND)
        message = self.message(x, y, z)
        self.paper.run(lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message))

    def send_to_many(self, x: int, y: int, z: int) -> None:
        names = [f"DIRECT=OS:ALPHA{p[1:]}" for p in (*PLAIN, PLAIN[1])]
        handle = self.handle(",".join(names[x % 2 :]), SEND)
        message = self.message(x, y, z)
        self.paper.run(lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message))

    def send_far(self, x: int, y: int, z: int) -> None:
        """To a queue that is opened in the same turn, and may be new."""
        message = self.message(x, y, z)

        def call(manager: QueueManager) -> None:
            name = f"DIRECT=OS:FAR{x % 4}\\private$\\q"
            handle = manager.queues.open_queue(name, SEND, self.paper.admin)
            manager.messages.enqueue_message_to_an_open_queue(handle, message)
            manager.queues.close_queue(handle)

        self.paper.run(call)

    def transaction(self, x: int) -> Transaction:
        self.transactions = [t for t in self.transactions if t.identifier in self.known()]
        if len(self.transactions) < 3:
            self.names += 1
            identifier = self.names.to_bytes(16, "little")
            self.transactions.append(
                self.paper.run(lambda m: m.transactions.create_transaction(identifier))
            )
        return self.transactions[x % len(self.transactions)]

    def known(self) -> dict[bytes, Transaction]:
        return self.paper.manager.transactions.collection.open

    def send_in_transaction(self, x: int, y: int, z: int) -> None:
        transaction = self.transaction(x)
        handle = self.handle((*TRANSACTIONAL, REMOTE)[y % 3], SEND)
        message = self.message(x, y, z)
        self.paper.run(
            lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message, transaction)
        )

    def receive(self, x: int, y: int, z: int) -> None:
        handle = self.handle((*PLAIN, *TRANSACTIONAL)[x % 4], RECEIVE)
        self.paper.run(lambda m: m.messages.dequeue_message(handle, timeout_ms=0))

    def receive_in_transaction(self, x: int, y: int, z: int) -> None:
        transaction = self.transaction(x)
        path = (*TRANSACTIONAL, TRANSACTIONAL[0] + ";parked", r".\system$;journal")[y % 4]
        handle = self.handle(path, RECEIVE)
        self.paper.run(
            lambda m: m.messages.dequeue_message(handle, timeout_ms=0, transaction=transaction)
        )

    def move(self, x: int, y: int, z: int) -> None:
        transaction = self.transaction(x) if z & 1 else None
        source = self.handle(TRANSACTIONAL[0], RECEIVE)
        target = self.handle(TRANSACTIONAL[0] + ";parked", MOVE)
        queue = source.target()
        ids = [place.lookup_id for place, _ in queue.state.order.forward()]
        if ids:
            lookup_id = ids[y % len(ids)]
            self.paper.run(
                lambda m: m.messages.move_message(source, lookup_id, target, transaction)
            )
        if z & 2:
            self.paper.run(lambda m: m.queues.close_queue(target))

    def begin_read(self, x: int, y: int, z: int) -> None:
        handle = self.handle((*PLAIN, *TRANSACTIONAL)[x % 4], RECEIVE)
        read = self.paper.run(
            lambda m: m.messages.dequeue_message(handle, timeout_ms=0, two_phase=True)
        )
        assert read is not None
        self.reads.append((handle, read))

    def end_read(self, x: int, y: int, z: int) -> None:
        if self.reads:
            handle, read = self.reads.pop(x % len(self.reads))
            self.paper.run(
                lambda m: m.messages.dequeue_message_end(
                    handle, read.lookup_id, positive=bool(y & 1)
                )
            )

    def finish(self, x: int, y: int, z: int) -> None:
        identifier = self.transaction(x).identifier
        if y % 4 == 0:
            self.paper.run(lambda m: m.transactions.transaction_abort(identifier))
        elif y % 4 == 1:
            self.paper.run(
                lambda m: m.transactions.collection.prepare(identifier, single_phase=False)
            )
        else:
            self.paper.run(lambda m: m.transactions.transaction_commit(identifier))

    def purge_or_delete(self, x: int, y: int, z: int) -> None:
        path = (*PLAIN, *TRANSACTIONAL)[x % 4]
        if y & 1:
            handle = self.handle(path, RECEIVE)
            self.paper.run(lambda m: m.queues.purge_queue(handle))
        else:
            self.paper.run(lambda m: m.queues.delete_queue(path, self.paper.admin))
            properties = QueueProperties(
                transactional=path in TRANSACTIONAL, journaling=bool(z & 1)
            )
            self.paper.run(lambda m: m.queues.create_queue(path, properties, self.paper.admin))

    def pass_time(self, x: int, y: int, z: int) -> None:
        self.paper.clock.advance(x * 1000)
        self.paper.run(lambda m: None)

    def crash(self, x: int, y: int, z: int) -> None:
        """Any number of the last records may be lost."""
        self.paper = self.paper.cut(len(self.paper.log) - x % 8)
        self.handles.clear()
        self.reads.clear()
        self.transactions = self.paper.manager.transactions.in_doubt()


@given(STEPS)
@pytest.mark.spec("MS-MQDMPR 3.1.1/1", "MS-MQDMPR 3.1.4.4/7")
def test_the_log_says_what_the_engine_decided(steps: list[tuple[int, int, int, int]]) -> None:
    driven = Driven(Paper(transactions_buffer=600)).set_up()
    for step in steps:
        driven.step(*step)
    state = driven.paper.manager.ledger.state
    again = State.load(state.dump())
    assert facts(again) == facts(state)
    assert again.dump() == State.load(again.dump()).dump()
    assert (again.bytes, len(again.table)) == (state.bytes, len(state.table))


def test_the_same_state_is_written_in_the_same_bytes() -> None:
    """Sets have no order of their own."""
    once, again = State(), State()
    for state, numbers in ((once, (3, 11, 10)), (again, (11, 10, 3))):
        for number in numbers:
            state.pending.add(number)
        state.doomed.update(numbers)
    assert once.dump() == again.dump()


@pytest.mark.parametrize("seed", range(4))
def test_a_long_life_with_crashes_leaves_no_trace_of_what_was_not_done(seed: int) -> None:
    random = Random(seed)
    driven = Driven(Paper(transactions_buffer=600)).set_up()
    for _ in range(150):
        driven.step(*(random.randrange(64) for _ in range(4)))


# -- the pieces

ROW = Row(1, 16, NEVER, 1, 100, 5, 0, 0, 0, 0, 3, 0, 0)


def arrived(*rows: Row) -> State:
    state = State()
    for number, row in enumerate(rows, 1):
        state.arrive(number, row)
    return state


def order_in(state: State, queue: int) -> list[int]:
    return [number for _, number in state.queue(queue).order.forward()]


def test_a_pending_message_is_in_no_queue_until_it_has_an_identifier() -> None:
    state = arrived(ROW._replace(lookup_id=0))
    assert (set(state.pending), order_in(state, 16), state.bytes) == ({1}, [], 0)
    state.settle(1, KEPT, ROW._replace(lookup_id=0, aborts=1), b"")
    assert set(state.pending) == {1}
    state.settle(1, KEPT, ROW, b"x")
    assert (set(state.pending), order_in(state, 16), state.bytes) == (set(), [1], 100)
    assert state.queue(16).books[ACCEPTED] == 1
    assert state.extras == {1: b"x"}


def test_a_message_that_leaves_is_counted_where_it_was_and_where_it_goes() -> None:
    state = arrived(ROW)
    state.settle(1, MOVED, ROW._replace(lookup_id=9, queue=17), b"")
    source, target = state.queue(16), state.queue(17)
    assert (source.count, source.bytes, source.books[MOVED]) == (0, 0, 1)
    assert (target.count, target.bytes, target.books[ACCEPTED]) == (1, 100, 1)
    state.end(1, RECEIVED)
    assert (target.count, target.bytes, target.books[RECEIVED]) == (0, 0, 1)
    assert (len(state.table), state.bytes) == (0, 0)


def test_what_is_said_of_a_message_that_is_gone_is_ignored() -> None:
    state = arrived(ROW)
    state.end(1, EXPIRED)
    before = state.dump()
    state.end(1, EXPIRED)
    state.settle(1, MOVED, ROW, b"")
    assert state.dump() == before


def test_a_message_record_read_twice_counts_once() -> None:
    arrival = Arrival(1, ROW, Span(), b"", b"", 0)
    state = State()
    state.apply_message(arrival)
    before = state.dump()
    state.apply_message(arrival)
    assert state.dump() == before


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_a_copy_takes_the_place_of_its_original_and_counts_nothing(
    pending: list[bool], data: st.DataObject
) -> None:
    rows = [ROW._replace(lookup_id=0 if p else n + 1) for n, p in enumerate(pending)]
    state = arrived(*rows)
    books = list(state.queue(16).books)
    number = data.draw(st.integers(1, len(rows)))
    old = rows[number - 1]
    merged = old._replace(aborts=2, moves=1)
    state.restore(number, merged, b"extra")
    state.restore(number, merged, b"extra")
    assert state.table.get(number) == merged
    assert state.extras == {number: b"extra"}
    assert state.queue(16).books == books
    expected = [n for n, row in enumerate(rows, 1) if row.lookup_id]
    assert order_in(state, 16) == expected
    assert set(state.pending) == {n for n, row in enumerate(rows, 1) if not row.lookup_id}
    assert state.bytes == state.queue(16).bytes == 100 * len(expected)


def test_a_copy_alone_brings_the_message_with_all_that_was_said_of_it() -> None:
    state = State()
    state.restore(4, ROW._replace(expires=50, doomed=1), b"")
    assert order_in(state, 16) == [4]
    assert state.doomed == {4}
    assert state.calendar.take(50) == [4]
    state.end(4, RECEIVED)
    assert state.doomed == set()


def test_definitions_are_set_changed_and_deleted() -> None:
    state = State()
    state.define(TABLE_QUEUE, b"k", b"1")
    state.define(TABLE_QUEUE, b"k", b"2")
    state.define(TABLE_QUEUE + 1, b"k", b"other")
    assert state.of_table(TABLE_QUEUE) == [(b"k", b"2")]
    state.define(TABLE_QUEUE, b"k", None)
    state.define(TABLE_QUEUE, b"never there", None)
    assert state.of_table(TABLE_QUEUE) == []


def test_books_travel_as_a_definition() -> None:
    state = arrived(ROW, ROW._replace(lookup_id=2, flags=FLAG_EXPRESS))
    state.end(1, RECEIVED)
    define = state.books_define()
    assert define == Define(TABLE_BOOKS, BOOKS_KEY, define.value)
    fresh = State()
    fresh.define(*define)
    assert fresh.queue(16).books == state.queue(16).books
    assert fresh.queue(16).express_books == state.queue(16).express_books
    assert fresh.of_table(TABLE_BOOKS) == []


def test_a_crash_loses_express_messages_and_says_how_many() -> None:
    express = ROW._replace(flags=FLAG_EXPRESS)
    state = arrived(ROW, *(express._replace(lookup_id=n) for n in (2, 3)))
    state.arrive(9, express._replace(lookup_id=4, queue=17))
    state.end(2, RECEIVED)
    assert state.drop_express() == {16: 1, 17: 1}
    assert (order_in(state, 16), order_in(state, 17)) == ([1], [])
    line = state.queue(16).express_books
    assert (line[ACCEPTED], line[LOST_EXPRESS], line[RECEIVED]) == (1, 1, 0)
    assert state.queue(16).books[ACCEPTED] == 1


def test_express_messages_of_an_old_checkpoint_stay_lost_when_later_books_forgot_them() -> None:
    state = arrived(ROW, ROW._replace(lookup_id=2, flags=FLAG_EXPRESS))
    old = State.load(state.dump())
    state.drop_express()
    state.drop_express()  # another crash: the express line begins again
    old.define(*state.books_define())
    assert old.drop_express() == {16: 1}
    assert order_in(old, 16) == [1]


@pytest.mark.parametrize("loaded", [False, True])
def test_the_collector_does_not_take_the_definitions_for_new_ones(loaded: bool) -> None:
    """It would go through all of them again after each one that is added."""
    state = State.load(State().dump()) if loaded else State()
    for number in range(10):
        state.define(TABLE_QUEUE, b"%d" % number, b"value")
    gc.collect()
    assert gc.is_tracked(state.definitions)


def test_a_change_is_applied_settles_first() -> None:
    change = Change()
    change.settles.append(Settle(1, KEPT, ROW, b""))
    change.ends.append(End(1, RECEIVED))
    change.defines.append(Define(TABLE_QUEUE, b"q", b"v"))
    state = arrived(ROW._replace(lookup_id=0))
    state.apply_change(unpack_change(change.pack()))
    assert state.queue(16).books[RECEIVED] == state.queue(16).books[ACCEPTED] == 1
    assert state.of_table(TABLE_QUEUE) == [(b"q", b"v")]


@given(st.binary(max_size=80))
def test_any_bytes_are_a_checkpoint_or_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        State.load(data)


CHECKPOINT = arrived(ROW, ROW._replace(lookup_id=2, priority=7, expires=9)).dump()


@given(st.integers(0, len(CHECKPOINT) - 1), st.integers(1, 255))
def test_a_checkpoint_with_any_byte_altered_is_a_checkpoint_or_a_value_error(
    at: int, bits: int
) -> None:
    data = bytearray(CHECKPOINT)
    data[at] ^= bits
    with suppress(ValueError):
        State.load(bytes(data))
