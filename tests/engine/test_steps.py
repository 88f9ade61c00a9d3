"""Purge, deletion and expiry of many messages: in steps that a turn and a record can bear."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.records import CHANGE, unpack_change
from posthouse.engine.ledger.steps import Allowance
from posthouse.model.errors import OperationCancelled, QueueNotFound
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    DeliveryGuarantee,
    Message,
)
from posthouse.runtime.driver import Answer
from tests.engine.rig import MOVE, RECEIVE, Rig

QUEUE = r".\private$\q"
DEAD_LETTERS = r".\system$;deadletter"
STEP = 3


@pytest.fixture
def rig() -> Rig:
    rig = Rig(step_messages=STEP)
    rig.create("q")
    return rig


def fill(rig: Rig, count: int = 10, **attributes: Any) -> None:
    for number in range(count):
        rig.send("q", b"%d" % number, **attributes)


def begin(rig: Rig, call: Any) -> list[Answer]:
    """The first turn of something longer; the list gets its answer."""
    answers: list[Answer] = []
    rig.driver.begin_turn()
    rig.driver.decide(call, answers.append)
    rig.driver.end_turn()
    rig.driver.sync()
    rig.driver.release()
    return answers


def purge(rig: Rig) -> list[Answer]:
    reader = rig.open("q", RECEIVE)
    return begin(rig, lambda m: m.queues.purge_queue(reader))


def delete(rig: Rig) -> list[Answer]:
    return begin(rig, lambda m: m.queues.delete_queue(QUEUE, rig.admin))


def largest_change(rig: Rig, since: int) -> int:
    changes = [unpack_change(r[2]) for r in rig.store.log[since:] if r[0] == CHANGE]
    return max(len(change.ends) + len(change.settles) for change in changes)


def finish(rig: Rig, answers: list[Answer]) -> int:
    """Turns that it takes until the answer is there."""
    turns = 0
    while not answers:
        rig.turn()
        turns += 1
        assert turns < 20
    return turns


def late(priority: int) -> Message:
    return Message(
        body=b"late%d" % priority,
        priority=priority,
        delivery_guarantee=DeliveryGuarantee.RECOVERABLE,
    )


# -- purge


@pytest.mark.parametrize("kept", [False, True])
def test_a_purge_of_many_is_answered_when_all_of_it_is_durable(rig: Rig, kept: bool) -> None:
    fill(rig, negative_journaling_requested=kept)
    since = len(rig.store.log)
    answers = purge(rig)
    assert answers == []
    assert rig.queue("q").state.count == 10 - STEP
    assert rig.manager.next_deadline_ms() == rig.clock.now_ms
    rig.check_books()
    assert finish(rig, answers) == 3
    assert answers == [Answer(10, None, ())]
    assert rig.queue("q").state.count == 0
    assert books_of(rig.queue("q")).purged == 10
    assert len(rig.bodies(DEAD_LETTERS)) == (10 if kept else 0)
    assert largest_change(rig, since) <= STEP
    assert rig.manager.next_deadline_ms() != rig.clock.now_ms
    rig.check_books()
    rig.restart()
    rig.check_books()
    assert rig.queue("q").state.count == 0


@pytest.mark.parametrize(("kept", "first"), [(False, 400), (True, 100)])
def test_messages_that_leave_something_take_more_of_a_step(kept: bool, first: int) -> None:
    """A dead letter or an answer costs many times what a plain end costs."""
    rig = Rig(step_messages=400)
    rig.create("q")
    fill(rig, 500, negative_journaling_requested=kept)
    answers = purge(rig)
    assert rig.queue("q").state.count == 500 - first
    finish(rig, answers)
    assert len(rig.bodies(DEAD_LETTERS)) == (500 if kept else 0)


def test_a_single_call_returns_when_the_last_step_is_durable(rig: Rig) -> None:
    fill(rig)
    reader = rig.open("q", RECEIVE)
    assert rig.run(lambda m: m.queues.purge_queue(reader)) == 10
    assert rig.queue("q").state.count == 0


def test_a_purge_takes_what_was_there_and_nothing_that_came_later(rig: Rig) -> None:
    fill(rig, 20)
    sender, answers = rig.open("q"), purge(rig)
    for message in map(late, (0, 3, 7)):
        rig.driver.begin_turn()
        rig.driver.decide(
            lambda m, message=message: m.messages.enqueue_message_to_an_open_queue(sender, message),  # type: ignore[misc]
            lambda answer: None,
        )
        rig.driver.end_turn()
    finish(rig, answers)
    assert rig.bodies("q") == [b"late7", b"late3", b"late0"]
    rig.check_books()


def test_a_reader_between_two_steps_was_first(rig: Rig) -> None:
    fill(rig)
    reader, answers = rig.open("q", RECEIVE), purge(rig)
    received: list[Answer] = []
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.messages.dequeue_message(reader, timeout_ms=0), received.append)
    rig.driver.end_turn()
    finish(rig, answers)
    assert len(received[0].packets) == 1
    books = books_of(rig.queue("q"))
    assert (books.received, books.purged) == (1, 9)
    rig.check_books()


def test_what_is_held_when_its_step_comes_ends_as_purged(rig: Rig) -> None:
    fill(rig, negative_journaling_requested=True)
    reader, answers = rig.open("q", RECEIVE), purge(rig)
    rig.driver.begin_turn()
    rig.driver.decide(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True),
        lambda answer: None,
    )
    rig.driver.end_turn()
    finish(rig, answers)
    assert books_of(rig.queue("q")).locked == 1
    rig.close(reader)
    assert len(rig.bodies(DEAD_LETTERS)) == 10
    assert {read.message_class for read in rig.reads(DEAD_LETTERS)} == {NACK_QUEUE_PURGED}
    rig.check_books()


def test_a_short_purge_does_not_wait_for_the_end_of_a_long_one(rig: Rig) -> None:
    rig.create("other")
    rig.send("other")
    fill(rig, 20)
    long, short = list[Answer](), list[Answer]()
    reader, other = rig.open("q", RECEIVE), rig.open("other", RECEIVE)
    rig.driver.begin_turn()
    rig.driver.decide(lambda m: m.queues.purge_queue(reader), long.append)
    rig.driver.decide(lambda m: m.queues.purge_queue(other), short.append)
    rig.driver.end_turn()
    rig.driver.sync()
    assert finish(rig, short) == 2
    assert not long
    assert finish(rig, long) == 4
    assert rig.queue("q").state.count == rig.queue("other").state.count == 0
    rig.check_books()


def test_acknowledgments_count_by_their_bytes() -> None:
    rig = Rig(step_bytes=5000)
    rig.create("q")
    rig.create("admin")
    fill(
        rig,
        4,
        acknowledgements_requested=ACK_FULL_RECEIVE,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
        extension=bytes(3000),
    )
    answers = purge(rig)
    assert rig.queue("q").state.count == 2
    assert finish(rig, answers) == 1
    assert rig.queue("admin").state.count == 4
    rig.check_books()


def test_a_stop_breaks_a_purge_off(rig: Rig) -> None:
    fill(rig)
    answers = purge(rig)
    rig.driver.close()
    assert [type(answer.error) for answer in answers] == [OperationCancelled]
    rig.restart()
    assert rig.queue("q").state.count == 10 - STEP
    rig.check_books()


def test_a_crash_between_two_steps_leaves_the_rest_of_a_purge(rig: Rig) -> None:
    fill(rig, negative_journaling_requested=True)
    purge(rig)
    rig.restart()
    rig.turn()
    assert rig.queue("q").state.count == 10 - STEP
    assert len(rig.bodies(DEAD_LETTERS)) == STEP
    rig.check_books()


# -- deletion


def test_a_deleted_queue_is_gone_at_once_and_its_messages_by_and_by(rig: Rig) -> None:
    fill(rig, negative_journaling_requested=True)
    since = len(rig.store.log)
    answers = delete(rig)
    with pytest.raises(QueueNotFound):
        rig.queue("q")
    rig.create("q")
    rig.send("q", b"new")
    finish(rig, answers)
    assert [answer.error for answer in answers] == [None]
    assert rig.bodies(DEAD_LETTERS) == [b"%d" % number for number in range(10)]
    assert {read.message_class for read in rig.reads(DEAD_LETTERS)} == {NACK_QUEUE_DELETED}
    assert rig.bodies("q") == [b"new"]
    assert largest_change(rig, since) <= STEP
    assert not rig.manager.ledger.deleted_queues
    rig.check_books()


@pytest.mark.parametrize("turns", range(5))
def test_a_start_ends_what_a_deletion_left(rig: Rig, turns: int) -> None:
    fill(rig, 7, negative_journaling_requested=True)
    subqueue, reader = rig.open("q;poison", MOVE), rig.open("q", RECEIVE)
    last = rig.reads("q")[-1].lookup_id
    rig.run(lambda m: m.messages.move_message(reader, last, subqueue))
    answers = delete(rig)
    for _ in range(turns):
        rig.turn()
    rig.restart()
    for _ in range(4):
        with pytest.raises(QueueNotFound):
            rig.queue("q")
        rig.turn()
    assert sorted(rig.bodies(DEAD_LETTERS)) == [b"%d" % number for number in range(7)]
    assert not rig.manager.ledger.deleted_queues
    assert bool(answers) is (turns >= 2)
    rig.check_books()


def test_a_start_lets_a_prepared_transaction_decide_on_what_a_deletion_left() -> None:
    rig = Rig(step_messages=1)
    rig.create("q", transactional=True)
    fill_transaction = rig.begin("fill")
    for number in range(4):
        rig.send("q", b"%d" % number, tx=fill_transaction, negative_journaling_requested=True)
    rig.commit(fill_transaction)
    reader, transaction = rig.open("q", RECEIVE), rig.begin("held")
    for _ in range(3):
        rig.receive(reader, transaction=transaction)
    rig.run(lambda m: m.transactions.collection.prepare(transaction.identifier, single_phase=False))
    delete(rig)
    rig.restart()
    for _ in range(4):
        rig.turn()
    assert rig.bodies(r".\system$;deadxact") == [b"3"]
    rig.run(lambda m: m.transactions.transaction_abort(transaction.identifier))
    assert len(rig.bodies(r".\system$;deadxact")) == 4
    assert not rig.manager.ledger.deleted_queues
    rig.check_books()


def test_an_abort_between_two_steps_gives_nothing_back_to_a_deleted_queue() -> None:
    rig = Rig(step_messages=1)
    rig.create("q")
    fill(rig, 4, negative_journaling_requested=True)
    reader = rig.open("q", RECEIVE)
    for _ in range(3):
        rig.run(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    answers = delete(rig)
    finish(rig, answers)
    assert rig.bodies(DEAD_LETTERS) == [b"0", b"1", b"2", b"3"]
    assert not rig.manager.ledger.deleted_queues
    rig.check_books()


# -- expiry


@pytest.mark.parametrize("kept", [False, True])
def test_many_messages_expire_over_several_turns(rig: Rig, kept: bool) -> None:
    fill(rig, time_to_be_received=60, negative_journaling_requested=kept)
    left = []
    rig.clock.advance(60_000)
    for _ in range(4):
        assert rig.manager.next_deadline_ms() is not None
        rig.turn()
        left.append(rig.queue("q").state.count)
        rig.check_books()
        if left[-1]:
            assert rig.manager.next_deadline_ms() == rig.clock.now_ms
    assert left == [7, 4, 1, 0]
    assert len(rig.bodies(DEAD_LETTERS)) == (10 if kept else 0)
    assert books_of(rig.queue("q")).expired == 10


def test_a_crash_between_two_steps_of_expiry_loses_no_timer(rig: Rig) -> None:
    fill(rig, time_to_be_received=60, negative_journaling_requested=True)
    rig.advance(60)
    rig.restart()
    for _ in range(3):
        rig.turn()
    assert rig.bodies(DEAD_LETTERS) == [b"%d" % number for number in range(10)]
    rig.check_books()


def test_expiry_counts_acknowledgments_by_their_bytes_too() -> None:
    rig = Rig(step_bytes=5000)
    rig.create("q")
    rig.create("admin")
    fill(
        rig,
        4,
        time_to_be_received=60,
        acknowledgements_requested=ACK_FULL_RECEIVE,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
        extension=bytes(3000),
    )
    rig.advance(60)
    assert rig.queue("q").state.count == 2
    assert rig.manager.next_deadline_ms() == rig.clock.now_ms
    rig.turn()
    assert rig.queue("q").state.count == 0
    assert rig.queue("admin").state.count == 4


def test_an_allowance_ends_with_its_messages_or_its_bytes(rig: Rig) -> None:
    fill(rig, 1)
    row = rig.manager.messages.row(rig.reads("q")[0].number)
    allowance = Allowance(rig.settings)
    for _ in range(STEP):
        assert not allowance.spent
        allowance.spend(row)
    assert allowance.spent
