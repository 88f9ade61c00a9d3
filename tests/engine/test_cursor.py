"""The cursor: every state against every event, alone and in the engine ([MS-MQDMPR] 3.2)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.messages.cursor import CursorEvent, CursorState
from posthouse.engine.queues.queue import Cursor
from posthouse.model.errors import (
    IllegalCursorAction,
    InvalidHandle,
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    OperationCancelled,
    QueueError,
    UnsupportedOperation,
)
from posthouse.model.properties import MessageSeekAction
from tests.engine.readers import Readers, answered, body, ended, readers
from tests.engine.rig import PEEK, RECEIVE, SEND

UNREAD, READ = CursorState.UNREAD, CursorState.READ
WAIT_PEEK, WAIT_RECEIVE = CursorState.WAIT_PEEK, CursorState.WAIT_RECEIVE
PEEK_CALL, NEXT_CALL, RECEIVE_CALL = "peek_message", "peek_next_message", "dequeue_message"

# State-machines 7.1, row by row; what is not here is an illegal action.
TABLE = {
    (UNREAD, CursorEvent.PEEKED): READ,
    (UNREAD, CursorEvent.PEEK_WAITS): WAIT_PEEK,
    (UNREAD, CursorEvent.DEQUEUED): UNREAD,
    (UNREAD, CursorEvent.DEQUEUE_WAITS): WAIT_RECEIVE,
    (READ, CursorEvent.PEEKED): READ,
    (READ, CursorEvent.NEXT_PEEKED): READ,
    (READ, CursorEvent.NEXT_PEEK_WAITS): WAIT_PEEK,
    (READ, CursorEvent.DEQUEUED): UNREAD,
    (WAIT_PEEK, CursorEvent.MESSAGE_AVAILABLE): READ,
    (WAIT_PEEK, CursorEvent.WAIT_TIME_EXPIRED): UNREAD,
    (WAIT_RECEIVE, CursorEvent.MESSAGE_AVAILABLE): UNREAD,
    (WAIT_RECEIVE, CursorEvent.WAIT_TIME_EXPIRED): UNREAD,
}


@pytest.mark.spec("MS-MQDMPR 3.2.1.1/1", "MS-MQDMPR 3.2.1.1/2", "MS-MQDMPR 3.2.1.2/3")
@pytest.mark.parametrize("event", CursorEvent)
@pytest.mark.parametrize("state", CursorState)
def test_every_state_meets_every_event(state: CursorState, event: CursorEvent) -> None:
    rig = readers()
    cursor = rig.cursor(rig.open("q", PEEK))
    cursor.state, cursor.place = state, QueuePosition(4, 7)
    if (state, event) in TABLE:
        cursor.advance(event, QueuePosition(4, 9))
        assert (cursor.state, cursor.place) == (TABLE[state, event], QueuePosition(4, 9))
    else:
        with pytest.raises(IllegalCursorAction):
            cursor.advance(event, QueuePosition(4, 9))
        assert (cursor.state, cursor.place) == (state, QueuePosition(4, 7))


@pytest.mark.spec("MS-MQDMPR 3.2.1.2/3")
def test_a_cursor_has_four_states() -> None:
    assert {state.name for state in CursorState} == {"UNREAD", "READ", "WAIT_PEEK", "WAIT_RECEIVE"}


# -- the same with a queue under it


class Bench:
    """One cursor over the messages a, b and c, and what it did."""

    def __init__(self, *bodies: bytes) -> None:
        self.rig = readers(*bodies)
        self.source = self.rig.open("q", RECEIVE)
        self.cursor = self.rig.cursor(self.source)
        self.waits: list[Any] = []

    def reach(self, state: CursorState) -> None:
        """A fresh cursor brought into a state; to wait, the queue has to be empty."""
        if state is READ:
            self.rig.peek(self.source, cursor=self.cursor)
        elif state is WAIT_PEEK:
            self.wait(PEEK_CALL)
        elif state is WAIT_RECEIVE:
            self.wait(RECEIVE_CALL)
        assert self.cursor.state is state

    def wait(self, method: str, timeout_ms: int | None = 1000) -> None:
        self.waits = self.rig.wait(self.source, method, cursor=self.cursor, timeout_ms=timeout_ms)

    def read(self, method: str) -> bytes:
        """A read that does not wait; its body."""
        delivery = self.rig.driver.read(
            lambda m: getattr(m.messages, method)(self.source, cursor=self.cursor, timeout_ms=0)
        )
        assert delivery is not None
        return body(delivery)

    def refuses(self, method: str, error: type[QueueError], code: int) -> None:
        with self.rig.refuses(error, code):
            self.read(method)

    @property
    def on(self) -> bytes | None:
        """The message the cursor stands on, None where there is none."""
        place = self.cursor.place
        ids = self.rig.ids()
        return self.rig.bodies("q")[ids.index(place.lookup_id)] if place.lookup_id in ids else None


ALREADY_RECEIVED = (MessageAlreadyReceived, 0xC00E001D)
ILLEGAL = (IllegalCursorAction, 0xC00E001C)
TIMEOUT = (IoTimeout, 0xC00E001B)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.1.2/18",
    "MS-MQDMPR 3.1.7.1.1/2",
    "MS-MQDMPR 3.2.1.2/1",
    "MS-MQDMPR 3.2.7.1/1",
)
def test_a_new_cursor_is_unread_and_stands_before_the_first_message() -> None:
    bench = Bench(b"a")
    cursor, source = bench.cursor, bench.source
    assert (cursor.state, cursor.place, cursor.descriptor) == (UNREAD, START, source)
    assert source.cursors == {cursor.handle: cursor}
    other = bench.rig.cursor(bench.rig.open("q", PEEK))
    assert other.handle != cursor.handle
    assert bench.read(PEEK_CALL) == b"a"
    assert other.state is UNREAD


@pytest.mark.spec("MS-MQDMPR 3.2.7.2/1")
def test_the_first_peek_moves_to_the_first_message() -> None:
    bench = Bench(b"a", b"b")
    assert bench.read(PEEK_CALL) == bench.on == b"a"
    assert bench.cursor.state is READ


@pytest.mark.spec("MS-MQDMPR 3.2.7.2/1")
def test_a_peek_after_a_dequeue_moves_on() -> None:
    bench = Bench(b"a", b"b")
    bench.read(RECEIVE_CALL)
    assert bench.read(PEEK_CALL) == bench.on == b"b"
    assert bench.cursor.state is READ


@pytest.mark.spec("MS-MQDMPR 3.2.7.2/2", "MS-MQDMPR 3.1.7.1.15/5")
def test_a_peek_at_the_end_waits() -> None:
    bench = Bench()
    bench.wait(PEEK_CALL)
    assert (bench.cursor.state, bench.cursor.place, bench.waits) == (WAIT_PEEK, START, [])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.15/3", "MS-MQDMPR 3.2.7.2/3")
def test_repeated_peeks_show_the_same_message() -> None:
    bench = Bench(b"a", b"b")
    for _ in range(3):
        assert bench.read(PEEK_CALL) == b"a"
        assert (bench.cursor.state, bench.on) == (READ, b"a")


def _received(bench: Bench) -> None:
    bench.rig.receive("q")


def _held(bench: Bench) -> None:
    bench.rig.hold(bench.rig.open("q", RECEIVE))


def _purged(bench: Bench) -> None:
    bench.rig.purge()


def _purged_while_held(bench: Bench) -> None:
    _held(bench)
    _purged(bench)


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.10/6",
    "MS-MQDMPR 3.1.7.1.15/4",
    "MS-MQDMPR 3.2.7.2/4",
    "MS-MQDMPR 3.2.7.4/5",
    "MS-MQDMPR 3.2.1.2/4",
)
@pytest.mark.parametrize("how", [_received, _held, _purged, _purged_while_held])
@pytest.mark.parametrize("method", [PEEK_CALL, RECEIVE_CALL])
def test_a_message_that_is_gone_or_locked_was_already_received(how: Any, method: str) -> None:
    bench = Bench(b"a", b"b")
    bench.read(PEEK_CALL)
    place = bench.cursor.place
    how(bench)
    for _ in range(2):
        bench.refuses(method, *ALREADY_RECEIVED)
        assert (bench.cursor.state, bench.cursor.place) == (READ, place)


@pytest.mark.spec("MS-MQDMPR 3.2.7.2/3")
def test_a_locked_message_that_comes_back_can_be_peeked_again() -> None:
    bench = Bench(b"a")
    bench.read(PEEK_CALL)
    holder = bench.rig.open("q", RECEIVE)
    bench.rig.hold(holder)
    bench.refuses(PEEK_CALL, *ALREADY_RECEIVED)
    bench.rig.close(holder)
    assert bench.read(PEEK_CALL) == b"a"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/2", "MS-MQDMPR 3.2.7.3/1")
@pytest.mark.parametrize("after_dequeue", [False, True])
def test_peek_next_needs_a_peek_before(after_dequeue: bool) -> None:
    bench = Bench(b"a", b"b")
    if after_dequeue:
        bench.read(RECEIVE_CALL)
    place = bench.cursor.place
    bench.refuses(NEXT_CALL, *ILLEGAL)
    assert (bench.cursor.state, bench.cursor.place) == (UNREAD, place)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/3", "MS-MQDMPR 3.2.7.3/2")
def test_peek_next_goes_through_the_queue_and_takes_nothing() -> None:
    bench = Bench()
    for text, priority in ((b"low", 0), (b"high", 7), (b"middle", 3)):
        bench.rig.send("q", text, priority=priority)
    seen = [bench.read(PEEK_CALL), bench.read(NEXT_CALL), bench.read(NEXT_CALL)]
    assert seen == bench.rig.bodies("q") == [b"high", b"middle", b"low"]
    assert (bench.cursor.state, bench.on) == (READ, b"low")


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/3", "MS-MQDMPR 3.2.7.3/2")
def test_peek_next_passes_over_locked_messages() -> None:
    bench = Bench(b"a", b"b", b"c")
    bench.read(PEEK_CALL)
    holder = bench.rig.open("q", RECEIVE)
    bench.rig.lookup(holder, bench.rig.id_of(b"b"), peek=False, two_phase=True)
    assert bench.read(NEXT_CALL) == b"c"


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/3", "MS-MQDMPR 3.2.7.4/5")
def test_peeks_stop_at_a_locked_message_that_allows_them_and_dequeues_do_not() -> None:
    bench = Bench(b"a", b"b", b"c")
    bench.read(PEEK_CALL)
    holder = bench.rig.open("q", RECEIVE)
    bench.rig.lookup(holder, bench.rig.id_of(b"b"), peek=False, two_phase=True, allow_peek=True)
    assert bench.read(NEXT_CALL) == bench.read(PEEK_CALL) == b"b"
    bench.refuses(RECEIVE_CALL, *ALREADY_RECEIVED)
    assert bench.cursor.state is READ
    bench.cursor = bench.rig.cursor(bench.source)
    assert [bench.read(RECEIVE_CALL), bench.read(RECEIVE_CALL)] == [b"a", b"c"]


@pytest.mark.spec("MS-MQDMPR 3.2.7.3/4", "MS-MQDMPR 3.2.1.2/4")
@pytest.mark.parametrize("how", [_received, _held])
def test_peek_next_goes_on_from_a_message_somebody_else_took(how: Any) -> None:
    bench = Bench(b"a", b"b")
    bench.read(PEEK_CALL)
    how(bench)
    assert bench.read(NEXT_CALL) == b"b"
    assert bench.cursor.state is READ


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/4", "MS-MQDMPR 3.2.7.3/3", "MS-MQDMPR 3.2.7.5/1")
def test_peek_next_at_the_end_waits_for_what_comes_and_lets_the_next_reader_go() -> None:
    bench = Bench(b"a")
    bench.read(PEEK_CALL)
    bench.wait(NEXT_CALL)
    assert (bench.cursor.state, bench.on) == (WAIT_PEEK, b"a")
    bench.rig.receive("q")
    after = bench.rig.wait(bench.rig.open("q", RECEIVE))
    bench.rig.fill(b"b")
    assert answered(bench.waits) == answered(after) == b"b"
    assert bench.cursor.state is READ
    bench.refuses(PEEK_CALL, *ALREADY_RECEIVED)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.14/5", "MS-MQDMPR 3.2.7.6/1", "MS-MQDMPR 3.2.7.6/2")
@pytest.mark.parametrize("timeout_ms", [0, 1000])
def test_peek_next_in_vain_keeps_the_place_and_is_unread(timeout_ms: int) -> None:
    bench = Bench(b"a")
    bench.read(PEEK_CALL)
    place = bench.cursor.place
    if timeout_ms:
        bench.wait(NEXT_CALL, timeout_ms)
        bench.rig.advance(timeout_ms / 1000)
        assert ended(bench.waits) is IoTimeout
    else:
        bench.refuses(NEXT_CALL, *TIMEOUT)
    assert (bench.cursor.state, bench.cursor.place) == (UNREAD, place)
    bench.rig.fill(b"b")
    assert bench.read(PEEK_CALL) == b"b"


@pytest.mark.spec("MS-MQDMPR 3.2.7.4/1", "MS-MQDMPR 3.2.7.4/6")
def test_dequeues_go_through_the_queue_without_going_back() -> None:
    bench = Bench(b"a", b"b")
    assert bench.read(RECEIVE_CALL) == b"a"
    assert bench.cursor.state is UNREAD
    bench.rig.send("q", b"in front", priority=7)
    assert bench.read(RECEIVE_CALL) == b"b"
    assert bench.rig.bodies("q") == [b"in front"]


@pytest.mark.spec("MS-MQDMPR 3.2.7.4/4", "MS-MQDMPR 3.2.7.4/6")
def test_a_dequeue_takes_the_message_that_was_peeked() -> None:
    bench = Bench(b"a", b"b", b"c")
    bench.read(PEEK_CALL)
    bench.read(NEXT_CALL)
    assert bench.read(RECEIVE_CALL) == b"b"
    assert bench.cursor.state is UNREAD
    assert bench.rig.bodies("q") == [b"a", b"c"]
    assert bench.read(PEEK_CALL) == b"c"


@pytest.mark.spec("MS-MQDMPR 3.2.7.4/4")
@pytest.mark.parametrize("how", ["begin", "transaction"])
def test_a_dequeue_through_a_cursor_can_lock_instead(how: str) -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, source = rig.begin(), rig.open("q", RECEIVE)
    cursor = rig.cursor(source)
    rig.peek(source, cursor=cursor)
    rig.peek_next(source, cursor)
    options: dict[str, Any] = {"transaction": tx} if how == "transaction" else {}
    delivery = rig.hold(source, cursor=cursor, **options)
    assert body(delivery) == b"b"
    assert rig.available() == [b"a"]
    if how == "begin":
        rig.end(source, delivery.read.lookup_id)
    else:
        rig.commit(tx)
    assert rig.bodies("q") == [b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/7", "MS-MQDMPR 3.2.7.4/2", "MS-MQDMPR 3.1.1.2/18")
def test_a_dequeue_at_the_end_without_time_finds_nothing_and_keeps_the_place() -> None:
    bench = Bench(b"a")
    bench.read(RECEIVE_CALL)
    place = bench.cursor.place
    bench.refuses(RECEIVE_CALL, MessageNotFound, 0xC00E0088)
    assert (bench.cursor.state, bench.cursor.place) == (UNREAD, place)
    bench.rig.fill(b"b")
    assert bench.read(RECEIVE_CALL) == b"b"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/8", "MS-MQDMPR 3.2.7.4/3", "MS-MQDMPR 3.2.7.5/1")
def test_a_dequeue_at_the_end_waits_and_then_stands_on_what_came() -> None:
    bench = Bench(b"a")
    bench.read(RECEIVE_CALL)
    bench.wait(RECEIVE_CALL)
    assert bench.cursor.state is WAIT_RECEIVE
    bench.rig.fill(b"b", b"c")
    assert answered(bench.waits) == b"b"
    assert bench.rig.bodies("q") == [b"c"]
    assert bench.cursor.state is UNREAD
    assert bench.read(PEEK_CALL) == b"c"


@pytest.mark.spec("MS-MQDMPR 3.2.7.5/1", "MS-MQDMPR 3.1.7.1.14/4")
def test_a_peek_that_waited_stands_on_what_came() -> None:
    bench = Bench()
    bench.wait(PEEK_CALL)
    bench.rig.fill(b"a", b"b")
    assert answered(bench.waits) == b"a"
    assert (bench.cursor.state, bench.on) == (READ, b"a")
    assert bench.read(NEXT_CALL) == b"b"


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.10/5",
    "MS-MQDMPR 3.2.7.6/1",
    "MS-MQDMPR 3.2.7.6/2",
    "MS-MQDMPR 3.1.1.2/18",
)
@pytest.mark.parametrize("method", [PEEK_CALL, RECEIVE_CALL])
@pytest.mark.parametrize("ends", ["time", "cancel"])
def test_a_wait_in_vain_leaves_the_cursor_unread_at_its_place(method: str, ends: str) -> None:
    bench = Bench(b"a")
    bench.read(RECEIVE_CALL)
    place = bench.cursor.place
    waits = bench.rig.wait(bench.source, method, cursor=bench.cursor, timeout_ms=1000, tag="tag")
    if ends == "time":
        bench.rig.advance(1)
    else:
        bench.rig.cancel(bench.source, "tag")
    assert ended(waits) is (IoTimeout if ends == "time" else OperationCancelled)
    assert (bench.cursor.state, bench.cursor.place) == (UNREAD, place)
    bench.rig.fill(b"b")
    assert bench.read(PEEK_CALL) == b"b"


@pytest.mark.spec("MS-MQDMPR 3.2.1.1/2")
@pytest.mark.parametrize("state", [WAIT_PEEK, WAIT_RECEIVE])
@pytest.mark.parametrize("method", [PEEK_CALL, NEXT_CALL, RECEIVE_CALL])
def test_while_an_operation_waits_every_other_is_illegal(state: CursorState, method: str) -> None:
    bench = Bench()
    bench.reach(state)
    bench.refuses(method, *ILLEGAL)
    with bench.rig.refuses(*ILLEGAL):
        bench.rig.run(
            lambda m: getattr(m.messages, method)(bench.source, cursor=bench.cursor, timeout_ms=5)
        )
    assert (bench.cursor.state, bench.waits) == (state, [])
    bench.rig.fill(b"a")
    assert answered(bench.waits) == b"a"


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.2/5", "MS-MQDMPR 3.2.7.5/1")
@pytest.mark.parametrize("method", [PEEK_CALL, RECEIVE_CALL])
def test_a_cursor_sees_nothing_that_comes_in_front_of_it(method: str) -> None:
    bench = Bench(b"a")
    bench.read(RECEIVE_CALL)
    bench.rig.send("q", b"in front", priority=7)
    bench.refuses(method, *((MessageNotFound, 0xC00E0088) if method == RECEIVE_CALL else TIMEOUT))
    bench.wait(method, None)
    other = bench.rig.open("q", RECEIVE)
    held = bench.rig.hold(other)
    bench.rig.send("q", b"in front too", priority=4)
    bench.rig.end(other, held.read.lookup_id, positive=False)
    assert bench.waits == []
    bench.rig.send("q", b"behind", priority=0)
    assert answered(bench.waits) == b"behind"


@pytest.mark.spec("MS-MQDMPR 3.2.7.5/1")
def test_a_message_that_returns_behind_a_waiting_cursor_serves_it() -> None:
    bench = Bench(b"a", b"b")
    other = bench.rig.open("q", RECEIVE)
    bench.rig.lookup(other, 0, MessageSeekAction.LAST, peek=False, two_phase=True)
    bench.read(PEEK_CALL)
    bench.wait(NEXT_CALL)
    bench.rig.close(other)
    assert answered(bench.waits) == b"b"
    assert (bench.cursor.state, bench.on) == (READ, b"b")


@pytest.mark.spec("MS-MQDMPR 3.2.7.5/1")
def test_a_waiting_cursor_is_not_served_with_what_it_stands_on() -> None:
    bench = Bench(b"a")
    bench.read(PEEK_CALL)
    other = bench.rig.open("q", RECEIVE)
    bench.rig.hold(other)
    bench.wait(NEXT_CALL)
    bench.rig.close(other)
    assert bench.waits == []
    bench.rig.fill(b"b")
    assert answered(bench.waits) == b"b"


@pytest.mark.spec("MS-MQDMPR 3.2.1.1/1")
@pytest.mark.parametrize("state", CursorState)
def test_what_others_do_leaves_a_cursor_alone(state: CursorState) -> None:
    bench = Bench(*([b"a"] if state in (UNREAD, READ) else []))
    bench.reach(state)
    before = bench.cursor.state, bench.cursor.place
    rig, other = bench.rig, bench.rig.open("q", RECEIVE)
    rig.create("elsewhere")
    rig.fill(b"x", name="elsewhere")
    if state in (UNREAD, READ):
        rig.lookup(other, 0, MessageSeekAction.FIRST, peek=True)
        rig.fill(b"b", b"c")
        rig.receive(other)
        rig.hold(other)
    rig.close(other)
    rig.purge()
    rig.advance(0.5)
    assert (bench.cursor.state, bench.cursor.place) == before


# -- handles and closing


@pytest.mark.spec("MS-MQDMPR 3.2/1", "MS-MQDMPR 3.2.1.2/1", "MS-MQDMPR 3.2.1.2/2")
def test_a_cursor_is_found_by_its_handle_in_its_own_session_only() -> None:
    rig = readers()
    doors = object(), object()
    cursors = [
        rig.cursor(rig.open("q", RECEIVE, association=door)) for door in doors for _ in range(2)
    ]
    assert len({cursor.handle for cursor in cursors}) == 4
    opening = rig.manager.queues.opening
    for cursor, door in zip(cursors, (doors[0], doors[0], doors[1], doors[1]), strict=True):
        assert opening.cursor(cursor.handle, door) is cursor
        for stranger in {*doors, None} - {door}:
            with pytest.raises(InvalidHandle):
                opening.cursor(cursor.handle, stranger)
    with pytest.raises(InvalidHandle):
        opening.cursor(4711, doors[0])


@pytest.mark.spec("MS-MQDMPR 3.2.1.2/1", "MS-MQDMPR 3.1.7.1.1/2")
@pytest.mark.parametrize("method", [PEEK_CALL, NEXT_CALL, RECEIVE_CALL])
def test_a_cursor_is_used_with_the_descriptor_it_was_opened_on(method: str) -> None:
    bench = Bench(b"a")
    bench.source, own = bench.rig.open("q", RECEIVE), bench.source
    bench.refuses(method, UnsupportedOperation, 0xC00E006A)
    bench.source = own
    assert bench.read(PEEK_CALL) == b"a"


def test_a_queue_open_for_sending_has_no_cursors() -> None:
    rig = readers()
    sender = rig.open("q", SEND)
    with pytest.raises(QueueError) as caught:
        rig.cursor(sender)
    assert caught.value.code == 0xC00E0025
    assert sender.cursors == {}


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.2/1", "MS-MQDMPR 3.1.7.1.2/2")
@pytest.mark.parametrize("method", [PEEK_CALL, RECEIVE_CALL])
def test_closing_a_cursor_ends_its_own_wait_and_no_other(method: str) -> None:
    bench = Bench()
    bench.wait(method)
    neighbour = bench.rig.cursor(bench.source)
    others = [
        bench.rig.wait(bench.source, PEEK_CALL, cursor=neighbour),
        bench.rig.wait(bench.source, PEEK_CALL),
    ]
    bench.rig.run(lambda m: m.messages.close_cursor(bench.cursor))
    assert ended(bench.waits) is OperationCancelled
    assert bench.source.cursors == {neighbour.handle: neighbour}
    assert others == [[], []]
    bench.rig.fill(b"a")
    assert [answered(answers) for answers in others] == [b"a", b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.2/1")
@pytest.mark.parametrize("state", CursorState)
def test_a_closed_cursor_is_of_no_use(state: CursorState) -> None:
    bench = Bench(*([b"a"] if state in (UNREAD, READ) else []))
    bench.reach(state)
    bench.rig.run(lambda m: m.messages.close_cursor(bench.cursor))
    for method in (PEEK_CALL, NEXT_CALL, RECEIVE_CALL):
        bench.refuses(method, *ILLEGAL)
        with pytest.raises(IllegalCursorAction, match="the cursor is closed"):
            bench.read(method)
    with bench.rig.refuses(InvalidHandle, 0xC00E0007):
        bench.rig.run(lambda m: m.messages.close_cursor(bench.cursor))
    with pytest.raises(InvalidHandle):
        bench.rig.manager.messages.cursor(bench.cursor.handle, None)


# -- against a plain list


class Browsing(RuleBasedStateMachine):
    """A cursor and everything around it; a sorted list and one sort key say what it must see."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = readers()
        self.source, self.other = (self.rig.open("q", RECEIVE) for _ in range(2))
        self.cursor = self.rig.cursor(self.source)
        self.free: dict[int, int] = {}  # lookup id: priority
        self.held: dict[int, int] = {}
        self.key: tuple[int, int] = (-8, 0)
        self.read = False

    def behind(self) -> int | None:
        keys = sorted((-priority, i) for i, priority in self.free.items())
        return next((i for key_priority, i in keys if (key_priority, i) > self.key), None)

    def attempt(self, method: str) -> int | type[QueueError]:
        try:
            delivery = self.rig.driver.read(
                lambda m: getattr(m.messages, method)(self.source, cursor=self.cursor, timeout_ms=0)
            )
        except QueueError as error:
            return type(error)
        assert delivery is not None
        return delivery.read.lookup_id

    def stand_on(self, lookup_id: int) -> None:
        self.key = (-self.free[lookup_id], lookup_id)

    @rule(priority=st.sampled_from([1, 3, 5]))
    def send(self, priority: int) -> None:
        self.rig.send("q", priority=priority)
        (lookup_id,) = set(self.rig.ids()) - self.free.keys() - self.held.keys()
        self.free[lookup_id] = priority

    @precondition(lambda self: self.free)
    @rule(data=st.data())
    def somebody_takes(self, data: Any) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.free)))
        self.rig.lookup(self.other, lookup_id, peek=False)
        del self.free[lookup_id]

    @precondition(lambda self: self.free)
    @rule(data=st.data())
    def somebody_holds(self, data: Any) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.free)))
        self.rig.lookup(self.other, lookup_id, peek=False, two_phase=True)
        self.held[lookup_id] = self.free.pop(lookup_id)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def somebody_gives_back(self, data: Any) -> None:
        lookup_id = data.draw(st.sampled_from(sorted(self.held)))
        self.rig.end(self.other, lookup_id, positive=False)
        self.free[lookup_id] = self.held.pop(lookup_id)

    @rule()
    def peek(self) -> None:
        got = self.attempt(PEEK_CALL)
        if self.read:
            assert got == (self.key[1] if self.key[1] in self.free else MessageAlreadyReceived)
        elif (found := self.behind()) is None:
            assert got is IoTimeout
        else:
            assert got == found
            self.stand_on(found)
            self.read = True

    @rule()
    def peek_next(self) -> None:
        got = self.attempt(NEXT_CALL)
        if not self.read:
            assert got is IllegalCursorAction
        elif (found := self.behind()) is None:
            assert got is IoTimeout
            self.read = False
        else:
            assert got == found
            self.stand_on(found)

    @rule()
    def dequeue(self) -> None:
        got = self.attempt(RECEIVE_CALL)
        if self.read and self.key[1] not in self.free:
            assert got is MessageAlreadyReceived
            return
        found = self.key[1] if self.read else self.behind()
        if found is None:
            assert got is MessageNotFound
            return
        assert got == found
        self.stand_on(found)
        del self.free[found]
        self.read = False

    @invariant()
    def the_cursor_is_where_the_list_says(self) -> None:
        assert self.cursor.state is (READ if self.read else UNREAD)
        assert self.cursor.place == QueuePosition(-self.key[0], self.key[1])


TestBrowsing = pytest.mark.spec("MS-MQDMPR 3.2.1.2/4", "MS-MQDMPR 3.1.7.3.2/5")(Browsing.TestCase)


def test_cursors_of_a_session_end_with_it() -> None:
    rig = Readers()
    rig.create("q")
    session = object()
    source = rig.open("q", RECEIVE, association=session)
    cursor: Cursor = rig.cursor(source)
    rig.run(lambda m: m.end_session(session))
    assert cursor.closed
    with pytest.raises(InvalidHandle):
        rig.manager.messages.cursor(cursor.handle, session)
