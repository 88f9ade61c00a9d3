"""Consumers and browsers over connections that break."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from types import CodeType, FrameType
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.client import operations as ops
from posthouse.client.consumer import END_AFTER_S, SMALL_BATCH, Browsing, Consuming
from posthouse.client.errors import MessageReturned, ServerUnreachable, SessionLost
from posthouse.client.operations import Operation
from posthouse.client.packets import Options
from posthouse.client.requests import EndRequest, QueueHandle, Request
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import InvalidParameter, MessageNotFound, QueueNotAvailable
from posthouse.wire.frames.payloads import RECEIVED_AT_ONCE
from tests.client.pair import CUTS, ORDERS, Pair

DURABLE = Options(recoverable=True)
T = TypeVar("T")


def filled(count: int, cuts: dict[int, str] | None = None) -> Pair:
    pair = Pair()
    handle = QueueHandle(ORDERS, QueueAccessType.SEND)
    bodies = [b"%d" % number for number in range(count)]
    pair.run(ops.send_many(pair.core, handle, bodies, DURABLE, None))
    pair.cuts = {pair.exchanges + place: cut for place, cut in (cuts or {}).items()}
    return pair


def consumer(
    pair: Pair,
    *,
    batch: int = 4,
    timeout: float | None = 0,
    prefetch: bool = False,
    at_once: bool = False,
    lookup_id: int | None = None,
) -> Consuming:
    handle = QueueHandle(ORDERS, QueueAccessType.RECEIVE)
    return Consuming(pair.core, handle, batch, timeout, prefetch, at_once, lookup_id)


def take(pair: Pair, consuming: Consuming) -> bytes | None:
    message = consuming.at_hand() or pair.run(consuming.next())
    return None if message is None else message.body


@pytest.mark.parametrize("prefetch", [False, True])
def test_messages_come_once_and_in_order(prefetch: bool) -> None:
    pair = filled(11)
    consuming = consumer(pair, prefetch=prefetch)
    found = [take(pair, consuming) for _ in range(12)]
    assert found == [b"%d" % number for number in range(11)] + [None]
    pair.run(consuming.close())
    assert pair.bodies(ORDERS) == []
    pair.rig.check_books()


@pytest.mark.parametrize("prefetch", [False, True])
def test_what_is_in_hand_and_what_was_not_seen_goes_back(prefetch: bool) -> None:
    pair = filled(11)
    consuming = consumer(pair, prefetch=prefetch)
    for _ in range(3):
        take(pair, consuming)
    pair.run(consuming.close())
    assert pair.bodies(ORDERS) == [b"%d" % number for number in range(2, 11)]
    assert pair.rig.queue("orders").locked == 0
    pair.run(consuming.close())


def locked_ahead(messages: int, size: int, batch: int) -> int:
    """How many are locked when the caller has the first of this many alike messages."""
    pair = Pair()
    handle = QueueHandle(ORDERS, QueueAccessType.SEND)
    pair.run(ops.send_many(pair.core, handle, [bytes(size)] * messages, DURABLE, None))
    consuming = consumer(pair, batch=batch, prefetch=True)
    assert take(pair, consuming) == bytes(size)
    return pair.rig.queue("orders").locked


def test_two_small_batches_are_under_way_while_they_come_full() -> None:
    assert locked_ahead(20, 10, 4) == 12
    assert locked_ahead(20, SMALL_BATCH // 2, 4) == 8  # large ones: only one


def test_no_more_than_three_batches_are_locked_ahead() -> None:
    pair = filled(60)
    consuming = consumer(pair, prefetch=True)
    for _ in range(40):
        take(pair, consuming)
        not_ended = pair.rig.queue("orders").locked - len(consuming._finished)
        assert not_ended <= 3 * 4 + 1  # and the one in hand
    pair.run(consuming.close())
    assert pair.rig.queue("orders").locked == 0


def test_batches_that_take_several_turns_come_in_order() -> None:
    batch = RECEIVED_AT_ONCE + 100
    pair = filled(4 * batch)
    consuming = consumer(pair, batch=batch, prefetch=True)
    found = [take(pair, consuming) for _ in range(4 * batch)]
    assert found == [b"%d" % number for number in range(4 * batch)]


def test_a_batch_that_was_not_full_is_followed_by_one() -> None:
    pair = filled(3)
    consuming = consumer(pair, timeout=5, prefetch=True)
    assert take(pair, consuming) == b"0"
    assert len(pair.rig.queue("orders").waiters) == 1


@pytest.mark.parametrize("prefetch", [False, True])
def test_messages_taken_at_once_are_gone_when_they_come(prefetch: bool) -> None:
    pair = filled(11)
    consuming = consumer(pair, prefetch=prefetch, at_once=True)
    assert take(pair, consuming) == b"0"
    assert pair.rig.queue("orders").locked == 0
    assert pair.bodies(ORDERS) == [b"%d" % number for number in range(8 if prefetch else 4, 11)]
    pair.run(consuming.done())
    found = [take(pair, consuming) for _ in range(11)]
    assert found == [b"%d" % number for number in range(1, 11)] + [None]
    pair.run(consuming.close())
    assert pair.bodies(ORDERS) == []
    pair.rig.check_books()


def test_messages_taken_at_once_stay_the_readers_when_the_connection_breaks() -> None:
    pair = filled(8)
    consuming = consumer(pair, at_once=True)
    assert take(pair, consuming) == b"0"
    pair.cuts = {pair.exchanges: "before"}
    found = [take(pair, consuming) for _ in range(8)]
    assert found == [b"%d" % number for number in range(1, 8)] + [None]


def test_done_ends_what_is_in_hand() -> None:
    pair = filled(5)
    consuming = consumer(pair)
    take(pair, consuming)
    take(pair, consuming)
    pair.run(consuming.done())
    assert pair.bodies(ORDERS) == [b"2", b"3", b"4"]


def test_done_tells_when_messages_went_back() -> None:
    pair = filled(5)
    consuming = consumer(pair)
    take(pair, consuming)
    pair.break_off()
    with pytest.raises(MessageReturned):
        pair.run(consuming.done())
    again = pair.run(consuming.next())
    assert again is not None
    assert (again.body, again.in_doubt) == (b"0", True)
    pair.run(consuming.done())


def test_done_tells_of_messages_that_went_back_before_it_was_asked() -> None:
    pair = filled(5)
    consuming = consumer(pair)
    assert [take(pair, consuming) for _ in range(3)] == [b"0", b"1", b"2"]
    pair.break_off()
    assert take(pair, consuming) == b"0"
    with pytest.raises(MessageReturned):  # 1 and 2 are in the queue again
        pair.run(consuming.done())
    assert pair.bodies(ORDERS) == [b"1", b"2", b"3", b"4"]
    assert [take(pair, consuming) for _ in range(2)] == [b"1", b"2"]
    pair.run(consuming.done())
    assert pair.bodies(ORDERS) == [b"3", b"4"]


def test_a_consumer_that_finds_nothing_more_has_ended_everything() -> None:
    pair = filled(3)
    consuming = consumer(pair, prefetch=True)
    while take(pair, consuming) is not None:
        pass
    assert pair.bodies(ORDERS) == []


def test_ends_do_not_wait_for_long() -> None:
    pair = filled(4)
    consuming = consumer(pair)
    take(pair, consuming)
    take(pair, consuming)
    assert len(pair.bodies(ORDERS)) == 4
    pair.rig.clock.advance(int(END_AFTER_S * 1000) + 1)
    take(pair, consuming)
    pair.exchange()
    assert pair.bodies(ORDERS) == [b"2", b"3"]


def test_ends_of_a_batch_are_one_frame() -> None:
    pair = filled(100)
    consuming = consumer(pair, batch=50)
    before = pair.exchanges
    while take(pair, consuming) is not None:
        pass
    # Opening, two batches with the ends of the one before, and the empty end.
    assert pair.exchanges - before <= 5


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.integers(1, 25), st.sampled_from(CUTS), max_size=6),
    st.integers(1, 6),
    st.booleans(),
)
def test_breaks_repeat_messages_at_most_and_lose_none(
    cuts: dict[int, str], batch: int, prefetch: bool
) -> None:
    pair = filled(12, cuts)
    consuming = consumer(pair, batch=batch, prefetch=prefetch)
    seen = []
    while (message := consuming.at_hand() or pair.run(consuming.next())) is not None:
        assert message.in_doubt or message.body not in seen
        seen.append(message.body)
        assert len(seen) < 200
    pair.run(consuming.close())
    assert set(seen) == {b"%d" % number for number in range(12)}
    assert pair.bodies(ORDERS) == []
    if not cuts:
        assert len(seen) == 12
    pair.rig.check_books()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["unsent", "unanswered", "answered", "not"]), max_size=20),
    st.integers(1, 6),
    st.booleans(),
)
def test_after_calls_that_were_cancelled_messages_come_once_and_in_order(
    stages: list[str], batch: int, prefetch: bool
) -> None:
    """What a cancelled call was waiting for goes back, and with it what was asked for after it."""
    pair = filled(12)
    consuming = consumer(pair, batch=batch, prefetch=prefetch)
    tried = [cancelled(pair, consuming, stage) for stage in stages]
    found = [body for body in tried if body is not None]
    while (body := take(pair, consuming)) is not None:
        found.append(body)
    assert found == [b"%d" % number for number in range(12)]
    pair.run(consuming.close())
    assert pair.bodies(ORDERS) == []
    assert pair.rig.queue("orders").locked == 0
    pair.rig.check_books()


def cancelled(pair: Pair, consuming: Consuming, stage: str) -> bytes | None:
    """A call that is cancelled if it waits for a read, before or after that is answered."""
    operation = consuming.next()
    try:
        while isinstance(request := next(operation), EndRequest):
            pair.finish(request)
    except StopIteration as end:
        return None if end.value is None else bytes(end.value.body)
    assert request is not None
    if stage == "not":
        message = pair.run(going_on(request, operation))
        return None if message is None else bytes(message.body)
    if stage != "unsent":
        pair.session.receive(b"".join(pair.core.take_outgoing()))
        pair.rig.desk.settle()
    if stage == "answered":
        pair.hear()
    pair.core.abandon(request)
    operation.close()
    return None


def going_on(request: Request, operation: Operation[T]) -> Operation[T]:
    """An operation that waits for a request already."""
    yield request
    return (yield from operation)


def test_a_consumer_that_is_closed_while_it_waits_has_no_more_messages() -> None:
    pair = filled(0)
    consuming = consumer(pair, timeout=None, prefetch=True)
    operation = consuming.next()
    request = next(operation)
    assert request is not None
    pair.run(consuming.close())
    assert pair.run(going_on(request, operation)) is None
    assert take(pair, consuming) is None
    assert not pair.rig.queue("orders").waiters


def test_a_consumer_that_another_thread_closes_as_an_answer_is_taken_in_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = filled(4)
    consuming = consumer(pair, batch=2, prefetch=True)
    asks = Consuming._ask_ahead

    def closing(self: Consuming, at_hand: int) -> None:
        pair.run(self.close())
        asks(self, at_hand)

    monkeypatch.setattr(Consuming, "_ask_ahead", closing)
    assert take(pair, consuming) is None
    pair.exchange()
    assert pair.rig.queue("orders").locked == 0


@pytest.mark.parametrize("pause_ms", [0, 2 * int(END_AFTER_S * 1000)])
def test_a_consumer_that_another_thread_closes_anywhere_keeps_nothing(pause_ms: int) -> None:
    """What it has handed out before the last one is done with; all else is back in the queue."""
    bodies = [b"%d" % number for number in range(7)]
    for at in count(1):
        pair = filled(len(bodies))
        consuming, came, found = consumer(pair, batch=3, prefetch=True), list[int](), list[bytes]()

        def close(pair: Pair = pair, consuming: Consuming = consuming) -> None:
            pair.run(consuming.close())

        with in_another_thread(at, close, came):
            while (body := take(pair, consuming)) is not None:
                found.append(body)
                pair.rig.clock.advance(pause_ms)
        pair.exchange()
        left = pair.bodies(ORDERS)
        queue = pair.rig.queue("orders")
        assert (queue.locked, len(queue.waiters)) == (0, 0), at
        assert found[: len(bodies) - len(left)] + left == bodies, at
        assert len(found) + len(left) - len(bodies) in (0, 1), at
        if not came:
            return


@pytest.mark.parametrize("is_close_first", [False, True])
def test_a_reader_and_the_thread_that_closes_let_go_at_the_same_time(is_close_first: bool) -> None:
    """With ends that were answered together, and messages and a batch that were not seen."""
    bodies = [b"%d" % number for number in range(9)]
    for at in count(1):
        pair = filled(len(bodies))
        consuming, came, found = consumer(pair, batch=5, prefetch=True), list[int](), list[bytes]()

        def read(
            pair: Pair = pair, consuming: Consuming = consuming, found: list[bytes] = found
        ) -> None:
            if (body := take(pair, consuming)) is not None:
                found.append(body)

        def close(pair: Pair = pair, consuming: Consuming = consuming) -> None:
            pair.run(consuming.close())

        read()
        for _ in range(3):
            pair.rig.clock.advance(2 * int(END_AFTER_S * 1000))
            with pytest.raises(StopIteration) as end:
                next(consuming.next())  # its end leaves, and the answer takes a while
            found.append(end.value.value.body)
        pair.exchange()
        pair.rig.clock.advance(2 * int(END_AFTER_S * 1000))
        first, second = (close, read) if is_close_first else (read, close)
        with in_another_thread(at, second, came):
            first()
        if not came:
            return
        pair.exchange()
        left = pair.bodies(ORDERS)
        queue = pair.rig.queue("orders")
        assert (queue.locked, len(queue.waiters)) == (0, 0), at
        assert found[: len(bodies) - len(left)] + left == bodies, at
        assert len(found) + len(left) - len(bodies) in (0, 1), at


@contextmanager
def in_another_thread(at: int, act: Callable[[], None], came: list[int]) -> Iterator[None]:
    """Something that is done in that one of the places where threads take turns in a consumer."""
    left, file = at, Consuming.next.__code__.co_filename
    last: dict[FrameType, int] = {}

    def called(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        return at_opcode if frame.f_code.co_filename == file else None

    def at_opcode(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if event == "opcode":
            before, last[frame] = last.get(frame, -1), frame.f_lasti
            turns, jumps = turns_of(frame.f_code)
            if before in turns or (before in jumps and frame.f_lasti < before):
                left -= 1
                if not left:
                    sys.settrace(None)
                    came.append(frame.f_lineno)
                    act()
        return at_opcode

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(before)


@cache
def turns_of(code: CodeType) -> tuple[frozenset[int], frozenset[int]]:
    """Python lets another thread in when a function has begun, a call has returned or a loop has
    gone round: with `while`, that is after its condition was looked at.
    """
    steps = list(dis.get_instructions(code))
    turns = [step for step in steps if step.opname.startswith(("RESUME", "CALL"))]
    jumps = [step for step in steps if step.opname.startswith(("JUMP_BACK", "POP_JUMP_BACK"))]
    return (
        frozenset(step.offset for step in turns),
        frozenset(step.offset for step in jumps if "NO_INTERRUPT" not in step.opname),
    )


def test_messages_of_a_broken_connection_are_not_handed_out() -> None:
    """They are back in the queue, where others may have them by now."""
    pair = filled(8)
    consuming = consumer(pair, batch=8)
    assert take(pair, consuming) == b"0"
    pair.break_off()
    assert take(pair, consuming) in (b"0", b"1")


def test_a_refused_end_is_told() -> None:
    pair = filled(3)
    consuming = consumer(pair)
    take(pair, consuming)
    pair.rig.run(lambda m: m.queues.delete_queue(ORDERS, pair.rig.admin))
    with pytest.raises(QueueNotAvailable, match="deleted"):
        pair.run(consuming.done())


# -- browsing


# -- one message by its lookup identifier


def second_of(pair: Pair) -> int:
    browsing = Browsing(pair.core, QueueHandle(ORDERS, QueueAccessType.PEEK), 9)
    return pair.run(browsing.next_page())[1].lookup_id


def test_one_message_is_taken_in_two_steps() -> None:
    pair = filled(3)
    lookup_id = second_of(pair)
    consuming = consumer(pair, lookup_id=lookup_id)
    assert take(pair, consuming) == b"1"
    assert len(pair.bodies(ORDERS)) == 3, "it is there until it is done"
    pair.run(consuming.done())
    assert pair.bodies(ORDERS) == [b"0", b"2"]
    assert take(pair, consuming) is None
    pair.run(consuming.close())
    with pytest.raises(MessageNotFound):
        take(pair, consumer(pair, lookup_id=lookup_id))


def test_one_message_that_is_taken_at_once_is_gone_when_it_is_done() -> None:
    pair = filled(3)
    consuming = consumer(pair, lookup_id=second_of(pair), at_once=True)
    assert take(pair, consuming) == b"1"
    pair.run(consuming.done())
    assert pair.bodies(ORDERS) == [b"0", b"2"]
    assert pair.rig.queue("orders").locked == 0


def test_what_would_end_the_session_again_and_again_is_not_asked_for() -> None:
    pair = filled(3)
    with pytest.raises(InvalidParameter, match="at least 1"):
        consumer(pair, batch=0)
    for lookup_id in (-1, 1 << 63):
        with pytest.raises(InvalidParameter, match=str(lookup_id)):
            take(pair, consumer(pair, lookup_id=lookup_id))
    with pytest.raises(MessageNotFound):
        take(pair, consumer(pair, lookup_id=(1 << 63) - 1))
    assert pair.connections == 1


def test_one_message_that_is_not_done_goes_back() -> None:
    pair = filled(3)
    consuming = consumer(pair, lookup_id=second_of(pair))
    assert take(pair, consuming) == b"1"
    pair.run(consuming.close())
    assert pair.bodies(ORDERS) == [b"0", b"1", b"2"]
    assert pair.rig.queue("orders").locked == 0


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("place", range(4))
def test_one_message_over_a_broken_connection_is_taken_once_or_comes_again(
    place: int, cut: str
) -> None:
    pair = filled(3)
    lookup_id = second_of(pair)
    pair.cuts = {pair.exchanges + place: cut}
    consuming = consumer(pair, lookup_id=lookup_id)
    found = []
    while (body := take(pair, consuming)) is not None:
        found.append(body)
    pair.run(consuming.close())
    assert set(found) == {b"1"}
    assert pair.bodies(ORDERS) == [b"0", b"2"]
    pair.rig.check_books()


# -- browsing


def browse(pair: Pair, page: int) -> list[bytes]:
    browsing = Browsing(pair.core, QueueHandle(ORDERS, QueueAccessType.PEEK), page)
    found = []
    while messages := pair.run(browsing.next_page()):
        assert len(messages) <= page
        found += [message.body for message in messages]
    return found


@pytest.mark.parametrize("page", [1, 2, 5, 100])
def test_browsing_shows_everything_and_takes_nothing(page: int) -> None:
    pair = filled(10)
    assert browse(pair, page) == pair.bodies(ORDERS)
    assert len(pair.bodies(ORDERS)) == 10


def test_a_browser_goes_on_where_it_is_while_others_take() -> None:
    pair = filled(6)
    browsing = Browsing(pair.core, QueueHandle(ORDERS, QueueAccessType.PEEK), 2)
    first = pair.run(browsing.next_page())
    out = QueueHandle(ORDERS, QueueAccessType.RECEIVE)
    pair.run(ops.receive(pair.core, out, 3, 0, None))
    rest = []
    while page := pair.run(browsing.next_page()):
        rest += page
    assert [message.body for message in first + rest] == [b"0", b"1", b"3", b"4", b"5"]


def test_a_browser_breaks_with_its_connection() -> None:
    pair = filled(6)
    browsing = Browsing(pair.core, QueueHandle(ORDERS, QueueAccessType.PEEK), 2)
    pair.run(browsing.next_page())
    pair.break_off()
    with pytest.raises(SessionLost, match="cursor"):
        pair.run(browsing.next_page())


def test_an_empty_queue_has_no_pages() -> None:
    assert browse(filled(0), 3) == []


def test_a_prefetch_that_ran_out_while_the_reader_worked_is_no_end() -> None:
    pair = filled(1)
    consuming = consumer(pair, batch=1, timeout=5, prefetch=True)
    assert take(pair, consuming) == b"0"
    pair.rig.advance(6)  # the reader works longer than the prefetch waits
    pair.rig.desk.settle()
    pair.hear()
    sender = QueueHandle(ORDERS, QueueAccessType.SEND)
    pair.run(ops.send(pair.core, sender, b"late", DURABLE, None))
    assert take(pair, consuming) == b"late"
    assert take(pair, consuming) is None


def test_a_prefetch_that_an_outage_ended_while_the_reader_worked_is_asked_again() -> None:
    pair = filled(1)
    consuming = consumer(pair, batch=1, timeout=5, prefetch=True)
    assert take(pair, consuming) == b"0"
    pair.core.lost()
    pair.session.lost()
    pair.core.give_up(pair.core.clock() + 6, ServerUnreachable("nobody there"))
    pair.connect()
    sender = QueueHandle(ORDERS, QueueAccessType.SEND)
    pair.run(ops.send(pair.core, sender, b"late", DURABLE, None))
    assert {take(pair, consuming), take(pair, consuming)} == {b"0", b"late"}  # one came back
