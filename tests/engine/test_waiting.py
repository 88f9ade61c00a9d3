"""Reads that wait: who is served, in which order, how long, and what ends a wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.books import books_of
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages import waiting
from posthouse.engine.messages.cursor import CursorState
from posthouse.engine.messages.facade import MessagesFacade
from posthouse.engine.messages.waiting import STALE_MAX
from posthouse.engine.queues.facade import QueuesFacade
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    IoTimeout,
    MessageNotFound,
    OperationCancelled,
    QueueDeleted,
    StatusNotFound,
)
from tests.engine.cost import steps
from tests.engine.readers import (
    JOURNAL,
    SUBQUEUE,
    Readers,
    answered,
    body,
    ended,
    readers,
    user,
)
from tests.engine.rig import MOVE, PEEK, RECEIVE

RECEIVE_CALL, PEEK_CALL = "dequeue_message", "peek_message"
BEGUN = {"two_phase": True}
TIMEOUT = 0xC00E001B


# -- the record of a wait


@pytest.mark.spec("MS-MQDMPR 3.1.1.10/1")
def test_a_waiting_read_knows_what_it_is() -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    cursor = rig.cursor(source)
    rig.wait(source, tag="mine")
    rig.wait(source, PEEK_CALL, cursor=cursor)
    rig.wait(source, two_phase=True)
    known = [(w.destructive, w.tag, w.cursor) for w in source.waiting.values()]
    assert known == [(True, "mine", None), (False, None, cursor), (True, None, None)]


# -- time


@pytest.mark.spec(
    "MS-MQDMPR 3.1.2.3/1",
    "MS-MQDMPR 3.1.6.3/1",
    "MS-MQDMPR 3.1.7.1.10/4",
    "MS-MQDMPR 3.1.7.1.10/5",
    "MS-MQDMPR 3.1.7.1.15/6",
    "MS-MQDMPR 3.1.7.3.1/4",
    "MS-MQDMPR 3.1.7.3.4/1",
)
@pytest.mark.parametrize(
    ("method", "options"), [(RECEIVE_CALL, {}), (RECEIVE_CALL, BEGUN), (PEEK_CALL, {})]
)
@pytest.mark.parametrize("timeout_ms", [1, 999, 1000, 86_400_000])
def test_a_wait_ends_after_exactly_its_time(
    method: str, options: dict[str, bool], timeout_ms: int
) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    answers = rig.wait(source, method, timeout_ms=timeout_ms, **options)
    assert rig.manager.messages.waiting.next_deadline_ms() == rig.clock.now_ms + timeout_ms
    rig.clock.advance(timeout_ms - 1)
    rig.turn()
    assert answers == []
    rig.clock.advance(1)
    rig.turn()
    assert ended(answers) is IoTimeout
    assert IoTimeout.code == TIMEOUT
    assert rig.waiting() == 0
    assert source.waiting == {}
    assert rig.manager.messages.waiting.next_deadline_ms() is None


@pytest.mark.spec("MS-MQDMPR 3.1.2.3/1", "MS-MQDMPR 3.1.7.1.10/2", "MS-MQDMPR 3.1.7.1.15/6")
@pytest.mark.parametrize("method", [RECEIVE_CALL, PEEK_CALL])
def test_a_wait_without_a_time_never_ends_by_itself(method: str) -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE), method)
    assert rig.manager.messages.waiting.next_deadline_ms() is None
    rig.advance(10 * 365 * 86400)
    assert answers == []
    rig.fill(b"at last")
    assert answered(answers) == b"at last"


@pytest.mark.spec("MS-MQDMPR 3.1.2.3/2", "MS-MQDMPR 3.1.7.3.4/1")
def test_every_wait_has_its_own_time() -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    waits = {ms: rig.wait(source, timeout_ms=ms) for ms in (3000, 1000, 2000)}
    for due in (1000, 2000, 3000):
        rig.advance(1)
        assert [ms for ms, answers in waits.items() if answers] == [
            ms for ms in (3000, 1000, 2000) if ms <= due
        ]
    assert all(ended(answers) is IoTimeout for answers in waits.values())


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.1/2", "MS-MQDMPR 3.1.7.1.10/2")
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_wait_of_no_time_ends_at_once_and_leaves_no_entry(timeout_ms: int) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    for read in (rig.receive, rig.hold, rig.peek):
        with rig.refuses(IoTimeout, TIMEOUT):
            read(source, timeout_ms=timeout_ms)
    with rig.refuses(MessageNotFound, 0xC00E0088):  # O8: the one printed code
        rig.receive(source, cursor=rig.cursor(source), timeout_ms=timeout_ms)
    assert source.waiting == {}


@pytest.mark.spec("MS-MQDMPR 3.1.2.3/1")
def test_a_step_of_the_date_neither_ends_nor_prolongs_a_wait() -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE), timeout_ms=5000)
    rig.clock.step_utc(86400)
    rig.advance(4)
    rig.clock.step_utc(-2 * 86400)
    rig.turn()
    assert answers == []
    rig.advance(1)
    assert ended(answers) is IoTimeout


def test_waits_that_were_served_leave_no_timers_behind() -> None:
    rig = readers()
    source, sender = rig.open("q", RECEIVE), rig.open("q")
    for _ in range(STALE_MAX + 100):
        rig.wait(source, timeout_ms=86_400_000)
        rig.send(sender, recoverable=False)
    assert len(rig.manager.messages.waiting._deadlines) <= STALE_MAX + 1
    last = rig.wait(source, timeout_ms=1000)
    rig.advance(1)
    assert ended(last) is IoTimeout


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=40))
def test_timers_stay_exact_when_stale_ones_are_dropped(reads: list[tuple[int, bool]]) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    waits = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiting, "STALE_MAX", 1)
        for number, (seconds, cancelled) in enumerate(reads):
            answers = rig.wait(source, timeout_ms=seconds * 1000, tag=number)
            if cancelled:
                rig.cancel(source, number)
            else:
                waits.append((seconds, answers))
    for now in range(1, 10):
        rig.advance(1)
        assert all(bool(answers) == (seconds <= now) for seconds, answers in waits)


# -- who is served


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.15/5",
    "MS-MQDMPR 3.1.7.2.2/2",
    "MS-MQDMPR 3.1.7.2.2/3",
    "MS-MQDMPR 3.1.7.2.2/4",
    "MS-MQDMPR 3.1.7.3.7/1",
)
def test_readers_are_served_in_arrival_order_until_one_takes_the_message() -> None:
    rig = readers()
    one, two = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    calls = [(two, PEEK_CALL), (one, PEEK_CALL), (two, RECEIVE_CALL)]
    later = [(one, PEEK_CALL), (one, RECEIVE_CALL), (two, PEEK_CALL)]
    first = [rig.wait(source, method) for source, method in calls]
    second = [rig.wait(source, method) for source, method in later]
    rig.fill(b"a")
    assert [answered(answers) for answers in first] == [b"a"] * 3
    assert second == [[], [], []]
    rig.fill(b"b")
    assert [answered(answers) for answers in second[:2]] == [b"b"] * 2
    assert second[2] == []
    rig.fill(b"c")
    assert answered(second[2]) == b"c"
    assert rig.bodies("q") == [b"c"]
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.2/4", "MS-MQDMPR 3.1.7.3.7/1")
def test_all_peekers_see_one_message_and_leave_it_there() -> None:
    rig = readers()
    waits = [rig.wait(rig.open("q", PEEK), PEEK_CALL) for _ in range(5)]
    rig.fill(b"a")
    assert [answered(answers) for answers in waits] == [b"a"] * 5
    assert rig.available() == [b"a"]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 6))
def test_any_line_of_readers_is_served_like_a_plain_list(line: list[bool], messages: int) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    waits = [rig.wait(source, RECEIVE_CALL if takes else PEEK_CALL) for takes in line]
    expected: list[int | None] = [None] * len(line)
    for number in range(messages):
        rig.fill(b"%d" % number)
        for index, takes in enumerate(line):
            if expected[index] is None:
                expected[index] = number
                if takes:
                    break
    got = [int(answered(answers)) if answers else None for answers in waits]
    assert got == expected
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.2/2", "MS-MQDMPR 3.1.7.3.6/1")
def test_the_messages_of_a_commit_go_to_the_readers_in_order() -> None:
    rig = readers(transactional=True)
    waits = [rig.wait(rig.open("q", RECEIVE)) for _ in range(4)]
    rig.fill(b"a", b"b", b"c")
    assert [answered(answers) for answers in waits[:3]] == [b"a", b"b", b"c"]
    assert waits[3] == []
    rig.restart()
    assert rig.bodies("q") == []
    rig.check_books()


def _back_by_abort(rig: Readers, reader: Any) -> Callable[[], None]:
    tx = rig.begin("abort")
    rig.receive(reader, transaction=tx)
    return lambda: rig.abort(tx)


def _back_by_end(rig: Readers, reader: Any) -> Callable[[], None]:
    lookup_id = rig.hold(reader).read.lookup_id
    return lambda: rig.end(reader, lookup_id, positive=False)


def _back_by_close(rig: Readers, reader: Any) -> Callable[[], None]:
    rig.hold(reader)
    return lambda: rig.close(reader)


def _by_move(rig: Readers, reader: Any) -> Callable[[], None]:
    rig.move_between(b"a", "q", SUBQUEUE)
    return lambda: rig.move_between(b"a", SUBQUEUE, "q")


def _by_transactional_move(rig: Readers, reader: Any) -> Callable[[], None]:
    tx = rig.begin("move")
    rig.move_between(b"a", "q", SUBQUEUE)
    rig.move_between(b"a", SUBQUEUE, "q", tx)
    return lambda: rig.commit(tx)


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.2/2", "MS-MQDMPR 3.1.7.1.10/4")
@pytest.mark.parametrize(
    "way", [_back_by_abort, _back_by_end, _back_by_close, _by_move, _by_transactional_move]
)
@pytest.mark.parametrize("method", [RECEIVE_CALL, PEEK_CALL])
def test_whatever_makes_a_message_available_serves_who_waits(way: Any, method: str) -> None:
    rig = readers(b"a", transactional=True)
    bring = way(rig, rig.open("q", RECEIVE))
    answers = rig.wait(rig.open("q", RECEIVE), method)
    assert answers == []
    bring()
    assert answered(answers) == b"a"
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.6/1")
def test_a_waiting_read_gets_precisely_what_became_available() -> None:
    rig = readers(b"a", b"b")
    holder, reader = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    ids = [rig.hold(holder).read.lookup_id for _ in range(2)]
    first, peeked, second = rig.wait(reader), rig.wait(reader, PEEK_CALL), rig.wait(reader)
    rig.end(holder, ids[1], positive=False)
    assert answered(first) == b"b"
    rig.end(holder, ids[0], positive=False)
    assert answered(peeked) == answered(second) == b"a"


def test_an_abort_gives_back_in_queue_order_to_those_who_wait() -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    for text in (b"b", b"a"):
        rig.lookup(reader, rig.id_of(text), peek=False, transaction=tx)
    answers = rig.wait(rig.open("q", RECEIVE))
    rig.abort(tx)
    assert answered(answers) == b"a"


def test_closing_gives_back_in_queue_order_to_those_who_wait() -> None:
    rig = readers(b"a", b"b")
    reader = rig.open("q", RECEIVE)
    for text in (b"b", b"a"):
        rig.lookup(reader, rig.id_of(text), peek=False, two_phase=True)
    answers = rig.wait(rig.open("q", RECEIVE))
    rig.close(reader)
    assert answered(answers) == b"a"


def test_an_expired_message_serves_nobody() -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE))
    rig.fill(b"stillborn", time_to_be_received=0)
    assert answers == []
    rig.fill(b"alive", time_to_be_received=1)
    assert answered(answers) == b"alive"


def test_an_express_message_wakes_as_well() -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE))
    rig.send("q", b"quick", recoverable=False)
    assert answered(answers) == b"quick"
    assert rig.bodies("q") == []
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/10")
@pytest.mark.parametrize("positive", [True, False])
def test_a_begun_read_that_waited_is_locked_until_its_end(positive: bool) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    answers = rig.wait(source, two_phase=True)
    rig.fill(b"a")
    assert answered(answers) == b"a"
    assert rig.available() == []
    rig.end(source, rig.ids()[0], positive=positive)
    assert rig.bodies("q") == rig.available() == ([] if positive else [b"a"])


def test_a_message_goes_to_the_reader_that_waited_not_to_the_next_call_of_the_turn() -> None:
    rig = readers()
    waiter, hasty, sender = rig.open("q", RECEIVE), rig.open("q", RECEIVE), rig.open("q")
    answers = rig.wait(waiter)
    refused: list[Any] = []
    packet = _packet(rig)
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.messages.send_packets(sender, [packet]), refused.append)
    rig.driver.decide(lambda m: m.messages.dequeue_message(hasty, timeout_ms=0), refused.append)
    rig.driver.end_turn()
    rig.driver.sync()
    rig.driver.release()
    assert answered(answers) == b"packet"
    assert isinstance(refused[1].error, IoTimeout)


def _packet(rig: Readers) -> bytes:
    rig.create("other")
    rig.fill(b"packet", name="other")
    return rig.receive("other").packet


def test_the_engine_asks_the_journals_readers_last() -> None:
    """A served reader makes a journal copy, which serves another: in that order."""
    rig = readers(journaling=True)
    order: list[str] = []

    def note(name: str) -> Callable[[Any], None]:
        return lambda answer: order.append(name)

    reader, journal = rig.open("q", RECEIVE), rig.open(JOURNAL, RECEIVE)
    rig.driver.begin_turn()
    for name, source in (("journal", journal), ("first", reader), ("second", reader)):
        rig.driver.decide(
            lambda m, source=source, name=name: m.messages.dequeue_message(
                source, token=note(name)
            ),  # type: ignore[misc]
            lambda answer: None,
        )
    rig.driver.end_turn()
    rig.fill(b"a")
    assert order == ["first", "journal"]
    rig.fill(b"b")
    assert order == ["first", "journal", "second"]
    assert rig.bodies(JOURNAL) == [b"b"]
    assert rig.bodies("q") == []
    rig.check_books()


def test_readers_of_two_journaled_queues_of_one_commit_all_get_theirs() -> None:
    rig = Readers()
    for name in ("one", "two"):
        rig.create(name, transactional=True, journaling=True)
    waits = {name: rig.wait(rig.open(name, RECEIVE)) for name in ("one", "two")}
    copies = {
        name: rig.wait(rig.open(f".\\private$\\{name};journal", RECEIVE)) for name in ("one", "two")
    }
    tx = rig.begin()
    for name in ("two", "one"):
        rig.send(name, name.encode(), tx=tx)
    rig.commit(tx)
    for name in ("one", "two"):
        assert answered(waits[name]) == answered(copies[name]) == name.encode()
    rig.check_books()


# -- waiting in a transaction


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/9")
def test_a_read_that_waited_in_a_transaction_belongs_to_it() -> None:
    rig = readers(transactional=True)
    tx, source = rig.begin("reads"), rig.open("q", RECEIVE)
    answers = rig.wait(source, transaction=tx)
    rig.fill(b"a")
    assert answered(answers) == b"a"
    assert [operation.kind for operation in tx.operations] == [OperationType.DEQUEUE]
    assert tx.waiting == set()
    assert rig.available() == []
    rig.advance(59)
    assert rig.available() == []
    rig.advance(1)  # nobody has worked on it since
    assert rig.available() == [b"a"]
    assert rig.read_of(b"a").aborts == 1


@pytest.mark.parametrize("how", ["commit", "abort", "prepare"])
def test_the_end_of_a_transaction_ends_its_waits(how: str) -> None:
    rig = readers(transactional=True)
    tx, source = rig.begin("reads"), rig.open("q", RECEIVE)
    inside, outside = rig.wait(source, transaction=tx), rig.wait(source)
    rig.run(lambda m: getattr(m.transactions.collection, how)(tx.identifier))
    assert ended(inside) is OperationCancelled
    assert outside == []
    assert tx.waiting == set()
    rig.fill(b"a")
    assert answered(outside) == b"a"


def test_a_transaction_in_which_a_read_waits_is_not_idle() -> None:
    rig = readers(transactional=True)
    tx = rig.begin("reads")
    answers = rig.wait(rig.open("q", RECEIVE), transaction=tx, timeout_ms=200_000)
    rig.advance(199)
    rig.fill(b"a")
    assert answered(answers) == b"a"
    rig.commit(tx)
    assert rig.bodies("q") == []


def test_a_commit_serves_readers_of_other_transactions_only() -> None:
    rig = readers(transactional=True)
    sends, reads = rig.begin("sends"), rig.begin("reads")
    own = rig.wait(rig.open("q", RECEIVE), transaction=sends)
    other = rig.wait(rig.open("q", RECEIVE), transaction=reads)
    rig.send("q", b"a", tx=sends)
    rig.commit(sends)
    assert ended(own) is OperationCancelled
    assert answered(other) == b"a"
    rig.restart()
    assert rig.available() == [b"a"]


# -- rights, limits


def test_a_reader_whose_right_was_taken_is_refused_and_the_next_one_served() -> None:
    rig = readers()
    rig.grant("receive,peek")
    robbed = rig.open("q", RECEIVE, user())
    waits = [rig.wait(robbed), rig.wait(robbed, PEEK_CALL), rig.wait(rig.open("q", RECEIVE))]
    rig.grant("")
    assert waits[:2] == [[], []]
    rig.fill(b"secret")
    assert ended(waits[0]) is AccessDenied
    assert ended(waits[1]) is AccessDenied
    assert answered(waits[2]) == b"secret"


def test_a_reader_keeps_waiting_through_a_change_that_leaves_its_right() -> None:
    rig = readers()
    rig.grant("receive,peek")
    answers = rig.wait(rig.open("q", RECEIVE, user()))
    rig.grant("receive,peek,send")
    rig.fill(b"a")
    assert answered(answers) == b"a"


def test_no_more_reads_wait_than_the_setting_allows() -> None:
    rig = Readers(waiting_reads_max=2)
    rig.create("q")
    source = rig.open("q", RECEIVE)
    cursor = rig.cursor(source)
    waits = [rig.wait(source), rig.wait(source)]
    with rig.refuses(InsufficientResources, 0xC00E0027):
        rig.receive(source, timeout_ms=10)
    with rig.refuses(InsufficientResources, 0xC00E0027):
        rig.peek(source, timeout_ms=10, cursor=cursor)
    assert cursor.state is CursorState.UNREAD
    rig.fill(b"a")
    assert answered(waits[0]) == b"a"
    assert rig.wait(source) == []


def test_one_user_has_a_number_of_waiting_reads_and_others_have_theirs() -> None:
    """All who peek are served in one turn; others would wait for it."""
    rig = Readers(waiting_reads_per_user=2)
    rig.create("q")
    rig.grant("receive,peek")
    mine = [rig.open("q", RECEIVE), rig.open("q", RECEIVE)]
    waits = [rig.wait(source) for source in mine]
    with rig.refuses(InsufficientResources, 0xC00E0027):
        rig.receive(mine[0], timeout_ms=10)
    theirs = rig.wait(rig.open("q", RECEIVE, user()))
    rig.fill(b"a", b"b", b"c")
    assert [answered(one) for one in [*waits, theirs]] == [b"a", b"b", b"c"]
    rig.wait(mine[0])
    assert rig.manager.messages.waiting._of_user.total() == 1


# -- what ends a wait


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.17/1", "MS-MQDMPR 3.1.7.3.1/5", "MS-MQDMPR 3.1.7.3.5/1")
def test_a_cancel_ends_exactly_the_read_with_the_tag_with_its_own_status() -> None:
    rig = readers()
    one, two = rig.open("q", RECEIVE), rig.open("q", PEEK)
    waits = {
        "a": rig.wait(one, tag="a"),
        "b": rig.wait(two, PEEK_CALL, tag="b"),
        "none": rig.wait(one),
    }
    status = QueueDeleted("the canceller says so")
    rig.cancel(one, "b", status)  # the tag counts, not the descriptor
    assert waits["b"][0].error is status
    assert waits["a"] == waits["none"] == []
    rig.cancel(two, "a")
    assert ended(waits["a"]) is OperationCancelled
    assert waits["none"] == []
    assert rig.waiting() == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.17/2")
def test_an_unknown_tag_cancels_nothing() -> None:
    rig = readers()
    rig.create("other")
    source = rig.open("q", RECEIVE)
    served = rig.wait(source, PEEK_CALL, tag="served")
    rig.wait(rig.open("other", RECEIVE), tag="elsewhere")
    rig.fill(b"a")
    assert answered(served) == b"a"
    rig.receive("q")
    rig.wait(source)
    for tag in ("unknown", "elsewhere", "served", None):
        with rig.refuses(StatusNotFound, 0xC0000225):
            rig.cancel(source, tag)


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.1/3")
def test_a_wait_ends_once_whatever_comes_after() -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    answers = rig.wait(source, timeout_ms=1000, tag="t")
    rig.fill(b"a")
    with rig.refuses(StatusNotFound, 0xC0000225):
        rig.cancel(source, "t")
    rig.advance(2)
    rig.close(source)
    assert answered(answers) == b"a"
    late = rig.wait(rig.open("q", RECEIVE), timeout_ms=1000)
    rig.clock.advance(1000)
    rig.fill(b"b")  # the turn in which it comes is the turn in which time is up
    assert ended(late) is IoTimeout
    assert rig.bodies("q") == [b"b"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.1/3")
def test_closing_cancels_the_waits_of_one_descriptor_only() -> None:
    rig = readers()
    one, two = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    waits = [rig.wait(one), rig.wait(two), rig.wait(one, PEEK_CALL, cursor=rig.cursor(one))]
    rig.close(one)
    assert ended(waits[0]) is ended(waits[2]) is OperationCancelled
    assert waits[1] == []
    rig.fill(b"a")
    assert answered(waits[1]) == b"a"


@pytest.mark.spec("MS-MQDMPR 3.1.7.3.1/3")
def test_deleting_the_queue_tells_everyone_who_waits_in_it_and_its_family() -> None:
    rig = readers(b"a", transactional=True)
    rig.move_between(b"a", "q", SUBQUEUE)
    poison = rig.open(SUBQUEUE, RECEIVE)
    rig.receive(poison)
    tx = rig.begin()
    waits = [
        rig.wait(rig.open("q", RECEIVE)),
        rig.wait(rig.open("q", PEEK), PEEK_CALL, timeout_ms=1000),
        rig.wait(rig.open("q", RECEIVE), transaction=tx),
        rig.wait(poison),
        rig.wait(rig.open(JOURNAL, RECEIVE)),
    ]
    rig.delete()
    assert {ended(answers) for answers in waits} == {QueueDeleted}
    assert rig.manager.messages.waiting.next_deadline_ms() is None
    rig.commit(tx)
    rig.advance(2)
    assert [len(answers) for answers in waits] == [1] * 5


def test_stopping_ends_every_wait() -> None:
    rig = readers()
    waits = [rig.wait(rig.open("q", RECEIVE)), rig.wait(rig.open("q", PEEK), PEEK_CALL)]
    rig.driver.close()
    assert [ended(answers) for answers in waits] == [OperationCancelled] * 2


def test_a_session_that_ends_takes_nothing_along() -> None:
    """What it held comes back to others, never to a wait of its own that nobody hears."""
    rig = readers(b"held", b"in transaction", transactional=True)
    session = object()
    holder, waiter = (rig.open("q", RECEIVE, association=session) for _ in range(2))
    tx = rig.begin("of the session", session)
    rig.hold(holder)
    rig.receive(holder, transaction=tx)
    own = rig.wait(waiter)
    other = rig.wait(rig.open("q", RECEIVE))
    rig.run(lambda m: m.end_session(session))
    assert ended(own) is OperationCancelled
    assert answered(other) == b"in transaction"
    assert rig.available() == [b"held"]
    assert rig.manager.ledger.locks == {}


def test_a_restart_forgets_waits_and_keeps_messages() -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE), timeout_ms=1000)
    rig.restart()
    rig.fill(b"a")
    rig.advance(2)
    assert answers == []
    assert rig.bodies("q") == [b"a"]


# -- nobody outside raises internal events


def test_the_door_has_no_method_for_an_internal_event() -> None:
    internal = {
        "wait_for_new_message",
        "seek_available_message_position",
        "seek_available_message_position_with_id",
        "waiting_message_read_timer_start",
        "waiting_message_read_timer_stop",
        "waiting_message_read_satisfied",
        "release_next_reader",
        "expand_format_name",
        "dispatch_send_message",
    }
    names = {*dir(QueueManager), *dir(QueuesFacade), *dir(MessagesFacade)}
    methods = {name for name in names if not name.startswith("_")}
    assert "dequeue_message" in methods
    assert not methods & internal


def test_what_a_reader_got_by_waiting_is_gone_over_a_restart() -> None:
    rig = readers()
    answers = rig.wait(rig.open("q", RECEIVE))
    rig.fill(b"a")
    assert answered(answers) == b"a"
    rig.restart()
    assert rig.bodies("q") == []
    assert books_of(rig.queue("q")).received == 1
    rig.check_books()


def test_move_access_cannot_wait() -> None:
    rig = readers()
    with rig.refuses(AccessDenied, 0xC00E0025):
        body(rig.receive(rig.open("q", MOVE), timeout_ms=1000))


# -- what waiting costs


@pytest.mark.parametrize("count", [2, 400])
def test_waits_cost_a_turn_nothing_and_one_is_ended_without_looking_at_the_others(
    count: int,
) -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    for tag in range(count):
        rig.decide(
            lambda m, t=tag: m.messages.dequeue_message(source, timeout_ms=60_000, tag=t, token=t)  # type: ignore[misc]
        )
    now, utc = rig.clock.now_ms, rig.clock.utc_seconds
    manager = rig.manager
    turn = steps(lambda: (manager.begin_turn(now, utc), manager.next_deadline_ms()))
    cancel = steps(lambda: manager.messages.cancel_waiting_message_read_request(source, count - 1))
    assert (turn, cancel) == costs_of_one_wait()
    assert rig.waiting() == count - 1


def costs_of_one_wait() -> tuple[int, int]:
    rig = readers()
    source, manager = rig.open("q", RECEIVE), rig.manager
    rig.decide(lambda m: m.messages.dequeue_message(source, timeout_ms=60_000, tag=0, token=0))
    now, utc = rig.clock.now_ms, rig.clock.utc_seconds
    turn = steps(lambda: (manager.begin_turn(now, utc), manager.next_deadline_ms()))
    return turn, steps(lambda: manager.messages.cancel_waiting_message_read_request(source, 0))


def test_of_two_reads_with_one_tag_the_older_is_cancelled_first() -> None:
    rig = readers()
    source = rig.open("q", RECEIVE)
    waits = [rig.wait(source, tag="same"), rig.wait(source, tag="same")]
    rig.cancel(source, "same")
    assert ended(waits[0]) is OperationCancelled
    assert waits[1] == []
    rig.cancel(source, "same")
    assert ended(waits[1]) is OperationCancelled
    assert rig.manager.messages.waiting._tagged == {}
