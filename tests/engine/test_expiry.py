"""Messages whose time is up: when, in whose hands, and under clocks that are set."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.expiry_times import STALE_MIN
from posthouse.engine.ledger.state import State
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.expiry import HELD_AGAIN_S
from posthouse.model.errors import IoTimeout
from posthouse.model.message import NACK_RECEIVE_TIMEOUT
from tests.engine.readers import (
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    JOURNAL,
    Readers,
    answered,
    body,
    readers,
)
from tests.engine.rig import MOVE, RECEIVE

INFINITE = 0xFFFFFFFF


def patient(**properties: Any) -> Readers:
    """Transactions here do not end by themselves while a test lets time pass."""
    rig = Readers(transactions_idle_s=1 << 30)
    rig.create("q", **properties)
    return rig


# -- when


@pytest.mark.spec("MS-MQDMPR 3.1.2.4/1")
def test_a_message_without_a_limit_has_no_timer() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=INFINITE)
    rig.fill(b"default")
    assert rig.manager.ledger.state.calendar.count == 0
    assert rig.manager.messages.expiry.next_deadline_utc() == inf
    rig.advance(100 * 365 * 86400)
    assert rig.available() == [b"a", b"default"]


@pytest.mark.spec("MS-MQDMPR 3.1.2.4/2")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("recoverable", [False, True])
def test_a_message_without_time_is_never_readable(transactional: bool, recoverable: bool) -> None:
    rig = readers(transactional=transactional)
    reader = rig.open("q", RECEIVE)
    waits = rig.wait(reader)
    rig.fill(b"a", time_to_be_received=0, recoverable=recoverable)
    assert rig.bodies("q") == []
    assert waits == []
    books = books_of(rig.queue("q"))
    assert (books.accepted, books.expired) == (1, 1)
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.2.4/3", "MS-MQDMPR 3.1.7.2.7/1")
@pytest.mark.parametrize("recoverable", [False, True])
def test_a_message_is_removed_in_exactly_its_second(recoverable: bool) -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10, recoverable=recoverable)
    assert rig.manager.messages.expiry.next_deadline_utc() == rig.clock.utc_seconds + 10
    rig.advance(9.999)
    assert rig.available() == [b"a"]
    rig.advance(0.001)
    assert rig.bodies("q") == []
    with rig.refuses(IoTimeout, 0xC00E001B):
        rig.receive(rig.open("q", RECEIVE))
    books = books_of(rig.queue("q"))
    assert (books.expired, books.received) == (1, 0)
    rig.restart()
    assert rig.bodies("q") == []
    rig.check_books()


def test_the_time_counts_from_when_it_was_sent_not_from_its_commit() -> None:
    rig = patient(transactional=True)
    slow, dead = rig.begin("slow"), rig.begin("dead")
    rig.send("q", b"slow", tx=slow, time_to_be_received=10)
    rig.send("q", b"dead on arrival", tx=dead, time_to_be_received=5)
    rig.advance(6)
    rig.commit(slow)
    rig.commit(dead)
    assert rig.available() == [b"slow"]
    rig.advance(4)
    assert rig.bodies("q") == []
    rig.check_books()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 7)), max_size=12), st.integers(0, 31))
def test_what_is_left_is_what_has_time_left(messages: list[tuple[int, int]], now: int) -> None:
    rig = readers()
    for index, (time, priority) in enumerate(messages):
        rig.send("q", b"%d" % index, time_to_be_received=time, priority=priority)
    rig.advance(now)
    left = {b"%d" % index for index, (time, _) in enumerate(messages) if time > now}
    assert set(rig.available()) == left
    assert books_of(rig.queue("q")).expired == len(messages) - len(left)
    rig.check_books()


def test_a_timer_of_a_message_that_is_gone_does_nothing() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    rig.receive("q")
    before = rig.picture()[1:4]
    rig.advance(10)
    assert rig.picture()[1:4] == before
    assert books_of(rig.queue("q")).expired == 0


# -- with what


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.7/1", "MS-MQDMPR 3.1.7.2.1/3")
def test_an_expired_message_ends_as_not_received_in_time() -> None:
    rig = readers()
    rig.create("admin")
    rig.send(
        "q",
        b"a",
        time_to_be_received=10,
        negative_journaling_requested=True,
        acknowledgements_requested=0x08,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
    )
    woken = rig.wait(rig.open(DEAD_LETTERS, RECEIVE), "peek_message")
    rig.advance(10)
    assert answered(woken) == b"a"
    for name in (DEAD_LETTERS, "admin"):
        assert [read.message_class for read in rig.reads(name)] == [NACK_RECEIVE_TIMEOUT]
    rig.advance(1000)
    assert rig.bodies(DEAD_LETTERS) == [b"a"]  # dead letters stay


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.7/3")
def test_a_message_of_a_transaction_that_has_ended_expires_like_any_other() -> None:
    rig = readers(transactional=True)
    rig.fill(b"a", time_to_be_received=10, negative_journaling_requested=True)
    rig.advance(10)
    assert rig.bodies("q") == []
    assert rig.manager.ledger.locks == {}
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"a"]
    assert rig.reads(DEAD_TRANSACTIONAL)[0].message_class == NACK_RECEIVE_TIMEOUT


def test_journal_copies_do_not_expire() -> None:
    rig = readers(journaling=True)
    rig.fill(b"a", time_to_be_received=10)
    rig.receive("q")
    rig.advance(100)
    assert rig.bodies(JOURNAL) == [b"a"]


def test_what_expires_first_is_a_dead_letter_first() -> None:
    rig = readers()
    for text, time in ((b"late", 20), (b"early", 10), (b"middle", 15)):
        rig.fill(text, time_to_be_received=time, negative_journaling_requested=True)
    rig.advance(60)
    assert rig.bodies(DEAD_LETTERS) == [b"early", b"middle", b"late"]


# -- in whose hands


@pytest.mark.spec("MS-MQDMPR 3.1.2.4/3", "MS-MQDMPR 3.1.7.2.7/2")
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_time_runs_out_for_a_message_in_a_transaction_when_it_returns(end: str) -> None:
    rig = patient(transactional=True)
    rig.fill(b"a", time_to_be_received=10, negative_journaling_requested=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    waits = rig.wait(rig.open("q", RECEIVE))
    before = list(tx.operations)
    rig.advance(1000)
    assert rig.bodies("q") == [b"a"]
    assert tx.operations == before
    (rig.commit if end == "commit" else rig.abort)(tx)
    assert rig.bodies("q") == []
    assert waits == []
    expected = [] if end == "commit" else [NACK_RECEIVE_TIMEOUT]
    assert [read.message_class for read in rig.reads(DEAD_TRANSACTIONAL)] == expected
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.2.4/3")
@pytest.mark.parametrize("end", ["ack", "nack", "close"])
def test_time_runs_out_for_a_held_message_when_it_returns(end: str) -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.advance(10)
    assert rig.bodies("q") == [b"a"]
    if end == "close":
        rig.close(reader)
    else:
        rig.end(reader, lookup_id, positive=end == "ack")
    assert rig.bodies("q") == []
    books = books_of(rig.queue("q"))
    assert (books.received, books.expired) == ((1, 0) if end == "ack" else (0, 1))
    rig.check_books()


@pytest.mark.parametrize("date_goes_back", [False, True])
def test_a_message_whose_time_ran_out_on_its_way_to_a_subqueue_reaches_no_reader(
    date_goes_back: bool,
) -> None:
    rig = patient(transactional=True)
    rig.fill(b"a", time_to_be_received=10)
    tx, source, target = rig.begin(), rig.open("q", RECEIVE), rig.open("q;poison", MOVE)
    rig.move(source, rig.id_of(b"a"), target, tx)
    waits = rig.wait(rig.open("q;poison", RECEIVE))
    rig.advance(10)
    if date_goes_back:
        rig.clock.step_utc(-3600)
        rig.turn()
    rig.commit(tx)
    assert waits == []
    assert books_of(rig.queue("q")).expired == 1
    assert target.target().reserved == 0
    rig.check_books()


def test_a_held_message_that_returns_in_time_goes_on_living_until_then() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.advance(5)
    rig.end(reader, lookup_id, positive=False)
    rig.advance(4)
    assert rig.available() == [b"a"]
    rig.advance(1)
    assert rig.bodies("q") == []


def test_an_expired_message_that_is_held_is_looked_at_now_and_then_only() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    rig.hold(rig.open("q", RECEIVE))
    rig.advance(10)
    assert rig.manager.messages.expiry.next_deadline_utc() == rig.clock.utc_seconds + HELD_AGAIN_S


@pytest.mark.parametrize("purged", [False, True])
def test_what_happens_to_one_of_several_that_are_held_does_not_concern_the_others(
    purged: bool,
) -> None:
    """They share a lock, so the date goes back before they return: only their locks count then."""
    rig = readers()
    rig.fill(b"short", time_to_be_received=10)
    rig.fill(b"a")
    rig.fill(b"long", time_to_be_received=100)
    reader = rig.open("q", RECEIVE)
    reads = rig.run(lambda m: m.messages.dequeue_messages(reader, 3, two_phase=True))
    rig.advance(10)
    rig.clock.step_utc(-3600)
    if purged:
        rig.run(lambda m: m.queues.purge_queue(rig.open("q", RECEIVE)))
    for read in reads:
        rig.end(reader, read.lookup_id, positive=False)
    assert rig.available() == ([] if purged else [b"a", b"long"])
    books = books_of(rig.queue("q"))
    assert (books.expired, books.purged) == ((0, 3) if purged else (1, 0))
    rig.check_books()


# -- clocks that are set


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_step_of_the_date_is_logged(seconds: int) -> None:
    rig = readers()
    rig.advance(100)
    assert [event.name for event in rig.events] == []
    rig.clock.step_utc(seconds)
    rig.turn()
    (event,) = rig.events
    assert (event.name, event.details) == ("clock_step", {"seconds": seconds})
    rig.advance(1)
    assert len(rig.events) == 1


def test_a_step_forward_expires_what_is_due_by_it() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=100)
    rig.fill(b"b", time_to_be_received=10_000)
    rig.clock.step_utc(5000)
    rig.turn()
    assert rig.available() == [b"b"]


def test_a_step_back_brings_nothing_back() -> None:
    rig = readers()
    rig.fill(b"gone", time_to_be_received=10)
    rig.advance(10)
    rig.clock.step_utc(-3600)
    rig.turn()
    assert rig.bodies("q") == []
    rig.restart()
    assert rig.bodies("q") == []
    rig.fill(b"a", time_to_be_received=10)
    rig.advance(9)
    assert rig.available() == [b"a"]
    rig.advance(1)
    assert rig.bodies("q") == []


def test_a_held_message_stays_expired_when_the_date_goes_back() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.advance(10)
    rig.clock.step_utc(-3600)
    rig.turn()
    rig.end(reader, lookup_id, positive=False)
    assert rig.bodies("q") == []
    assert books_of(rig.queue("q")).expired == 1


def test_a_step_back_and_forward_lets_nothing_live_longer() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    rig.clock.step_utc(-1000)
    rig.advance(5)
    assert rig.available() == [b"a"]
    rig.clock.step_utc(1000)
    rig.advance(5)
    assert rig.bodies("q") == []


# -- over a restart


def test_what_expired_while_the_process_was_down_is_gone_at_its_start() -> None:
    rig = readers()
    rig.fill(b"due", time_to_be_received=10, negative_journaling_requested=True)
    rig.fill(b"later", time_to_be_received=100)
    rig.clock.advance(50_000)
    rig.restart()
    assert rig.available() == [b"later"]
    assert rig.bodies(DEAD_LETTERS) == [b"due"]
    rig.advance(50)
    assert rig.bodies("q") == []
    rig.check_books()


def test_a_prepared_message_expires_when_its_coordinator_gives_it_back() -> None:
    rig = patient(transactional=True)
    rig.fill(b"a", time_to_be_received=10)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.restart()
    rig.advance(100)
    assert rig.bodies("q") == [b"a"]
    rig.abort(tx)
    assert rig.bodies("q") == []
    rig.check_books()


def test_a_message_that_expired_in_somebodys_hands_expires_after_a_crash_too() -> None:
    """A checkpoint has no lock, and the calendar's entry for its second has been used up."""
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    rig.hold(rig.open("q", RECEIVE))
    rig.advance(10)
    state = State.load(rig.manager.ledger.state.dump())
    manager = QueueManager(
        rig.settings, state, rig.store.read, rig.random.randbytes, rig.store.read_many
    )
    manager.start(rig.clock.now_ms, rig.clock.utc_seconds)
    rig.clock.advance(HELD_AGAIN_S * 1000)
    manager.begin_turn(rig.clock.now_ms, rig.clock.utc_seconds)
    assert manager.ledger.queues[rig.queue("q").number].state.count == 0
    assert state.table.count == 0


# -- what it costs


def test_received_messages_do_not_fill_the_calendar() -> None:
    rig = readers()
    source, sender = rig.open("q", RECEIVE), rig.open("q")
    rig.send(sender, b"kept", priority=0, time_to_be_received=86400)
    calendar = rig.manager.ledger.state.calendar
    for _ in range(2 * STALE_MIN + 10):
        rig.send(sender, recoverable=False, time_to_be_received=86400)
        rig.receive(source)
    assert calendar.count <= STALE_MIN + 1
    assert body(rig.peek("q")) == b"kept"
    rig.advance(86400)
    assert rig.bodies("q") == []
