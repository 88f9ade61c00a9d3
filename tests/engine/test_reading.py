"""Dequeue and peek: what a reader gets, in which order, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.order import START
from posthouse.engine.ledger.records import KEPT
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    InvalidParameter,
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    QueueNotAvailable,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.message import (
    ACK_RECEIVE,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_RECEIVE_REJECTED,
)
from posthouse.model.properties import MessageSeekAction
from tests.engine.readers import (
    DEAD_LETTERS,
    JOURNAL,
    SUBQUEUE,
    Readers,
    body,
    ended,
    readers,
)
from tests.engine.rig import MOVE, PEEK, RECEIVE

FIRST, PREVIOUS, CURRENT, NEXT, LAST = (
    MessageSeekAction.FIRST,
    MessageSeekAction.PREVIOUS,
    MessageSeekAction.CURRENT,
    MessageSeekAction.NEXT,
    MessageSeekAction.LAST,
)
NOT_FOUND, ALREADY_RECEIVED, TIMEOUT = 0xC00E0088, 0xC00E001D, 0xC00E001B
NOT_AVAILABLE, SEQUENCE, USAGE = 0xC00E004B, 0xC00E0051, 0xC00E0050


# -- order


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/16")
def test_messages_come_highest_priority_first_and_oldest_first_inside_one() -> None:
    rig = readers()
    for text, priority in ((b"a3", 3), (b"b7", 7), (b"c0", 0), (b"d3", 3), (b"e7", 7)):
        rig.send("q", text, priority=priority)
    assert rig.bodies("q") == [b"b7", b"e7", b"a3", b"d3", b"c0"]
    assert [body(rig.receive("q")) for _ in range(5)] == [b"b7", b"e7", b"a3", b"d3", b"c0"]


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/16")
def test_the_order_is_the_same_after_a_restart() -> None:
    rig = readers()
    for number in range(20):
        rig.send("q", b"%d" % number, priority=number * 5 % 8)
    before = rig.bodies("q")
    rig.restart()
    assert rig.bodies("q") == before


@pytest.mark.spec("MS-MQDMPR 3.1.1.2/17", "MS-MQDMPR 3.1.7.3.2/4")
def test_an_empty_queue_has_no_first_message_and_a_seek_says_so() -> None:
    rig = readers()
    queue, reading = rig.queue("q"), rig.manager.messages.reading
    assert reading.first(queue) is None
    assert reading.seek(queue, START, peek=True) is None
    assert reading.seek_back(queue, None, peek=True) is None
    source = rig.open("q", RECEIVE)
    for action in (FIRST, LAST):
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.lookup(source, 0, action, peek=True)
    with rig.refuses(IoTimeout, TIMEOUT):
        rig.receive(source)


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/8", "MS-MQDMPR 3.1.7.3.2/1", "MS-MQDMPR 3.1.7.3.2/2")
def test_neighbours_are_in_queue_order_and_end_at_both_ends() -> None:
    rig = readers()
    for text, priority in ((b"low", 1), (b"high", 6), (b"middle", 3)):
        rig.send("q", text, priority=priority)
    queue, reading = rig.queue("q"), rig.manager.messages.reading
    numbers = [read.number for read in rig.reads("q")]
    forward: list[int] = []
    found = reading.seek(queue, START, peek=False)
    while found:
        forward.append(found[1])
        found = reading.seek(queue, found[0], peek=False)
    assert forward == numbers
    backward: list[int] = []
    found = reading.seek_back(queue, None, peek=False)
    while found:
        backward.append(found[1])
        found = reading.seek_back(queue, found[0], peek=False)
    assert backward == numbers[::-1]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/1")
def test_lookup_identifiers_grow_strictly_and_leave_the_high_byte_empty() -> None:
    rig = readers(b"1", b"2")
    rig.send("q", b"3", priority=7)
    seen = [rig.id_of(text) for text in (b"1", b"2", b"3")]
    rig.restart()
    rig.send("q", b"4", priority=7)
    seen.append(rig.id_of(b"4"))
    assert seen == sorted(set(seen))
    assert all(0 < lookup_id < 1 << 56 for lookup_id in seen)


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/1")
def test_a_lookup_identifier_is_given_at_commit_not_at_enqueue() -> None:
    rig = readers(transactional=True)
    early, late = rig.begin("early"), rig.begin("late")
    rig.send("q", b"sent first", tx=early)
    rig.send("q", b"committed first", tx=late)
    assert rig.reads("q") == []
    rig.commit(late)
    rig.commit(early)
    assert rig.bodies("q") == [b"committed first", b"sent first"]
    assert rig.ids() == sorted(rig.ids())


# -- dequeue (3.1.7.1.10)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/3", "MS-MQDMPR 3.1.7.1.10/11")
def test_a_dequeue_takes_the_very_first_message_and_deletes_it_at_once() -> None:
    rig = readers(b"first", b"second")
    delivery = rig.receive("q")
    assert body(delivery) == b"first"
    assert rig.bodies("q") == [b"second"]
    rig.restart()
    assert rig.bodies("q") == [b"second"]
    assert books_of(rig.queue("q")).received == 1


GONE: dict[str, Callable[[Readers, Any, Any], object]] = {
    "dequeue": lambda rig, source, cursor: rig.receive(source),
    "dequeue and wait": lambda rig, source, cursor: rig.receive(source, timeout_ms=None),
    "dequeue through a cursor": lambda rig, source, cursor: rig.receive(source, cursor=cursor),
    "begin": lambda rig, source, cursor: rig.hold(source),
    "end": lambda rig, source, cursor: rig.end(source, 1),
    "negative end": lambda rig, source, cursor: rig.end(source, 1, positive=False),
    "lookup peek": lambda rig, source, cursor: rig.lookup(source, 1, peek=True),
    "lookup receive": lambda rig, source, cursor: rig.lookup(source, 1, peek=False),
    "peek": lambda rig, source, cursor: rig.peek(source),
    "peek and wait": lambda rig, source, cursor: rig.peek(source, timeout_ms=None),
    "peek next": lambda rig, source, cursor: rig.peek_next(source, cursor),
    "open cursor": lambda rig, source, cursor: rig.cursor(source),
    "purge": lambda rig, source, cursor: rig.run(lambda m: m.queues.purge_queue(source)),
    "cancel": lambda rig, source, cursor: rig.cancel(source, "tag"),
}


@pytest.mark.spec(
    "MS-MQDMPR 3.1.7.1.1/1",
    "MS-MQDMPR 3.1.7.1.10/1",
    "MS-MQDMPR 3.1.7.1.11/2",
    "MS-MQDMPR 3.1.7.1.12/1",
    "MS-MQDMPR 3.1.7.1.13/1",
    "MS-MQDMPR 3.1.7.1.14/1",
    "MS-MQDMPR 3.1.7.1.15/1",
    "MS-MQDMPR 3.1.7.3.1/1",
    "MS-MQDMPR 3.2.7.1/2",
)
@pytest.mark.parametrize("operation", GONE)
@pytest.mark.parametrize("how", ["deleted", "closed"])
def test_nothing_can_be_read_where_the_queue_is_gone(operation: str, how: str) -> None:
    rig = readers(b"a")
    source = rig.open("q", RECEIVE)
    cursor = rig.cursor(source)
    if how == "deleted":
        rig.delete()
    else:
        rig.close(source)
    with rig.refuses(QueueNotAvailable, NOT_AVAILABLE):
        GONE[operation](rig, source, cursor)
    assert not source.cursors
    assert not source.waiting


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/9")
def test_a_transactional_dequeue_locks_and_records_the_read() -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    delivery = rig.receive(reader, transaction=tx)
    (operation,) = tx.operations
    assert (operation.kind, operation.number, operation.reason) == (
        OperationType.DEQUEUE,
        delivery.read.number,
        ACK_RECEIVE,
    )
    assert rig.bodies("q") == [b"a", b"b"]
    assert body(rig.peek("q")) == b"b"
    assert body(rig.receive("q")) == b"b"


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/9")
def test_a_transaction_needs_a_transactional_queue_that_is_still_open_to_operations() -> None:
    rig = readers(b"a")
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    with rig.refuses(TransactionUsage, USAGE):
        rig.receive(reader, transaction=tx)
    rig.create("t", transactional=True)
    rig.fill(b"b", name="t")
    other = rig.open("t", RECEIVE)
    rig.abort(tx)
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.receive(other, transaction=tx)
    prepared = rig.begin("prepared")
    rig.run(lambda m: m.transactions.collection.prepare(prepared.identifier, single_phase=False))
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.receive(other, transaction=prepared)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/9")
def test_journals_and_dead_letters_can_be_received_in_a_transaction() -> None:
    rig = readers(b"a", journaling=True)
    rig.receive("q")
    tx, reader = rig.begin(), rig.open(JOURNAL, RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.abort(tx)
    assert rig.bodies(JOURNAL) == [b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/10", "MS-MQDMPR 3.1.7.1.11/1")
def test_a_begun_dequeue_hides_the_message_until_its_end() -> None:
    rig = readers(b"a")
    reader, other = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    delivery = rig.hold(reader)
    assert body(delivery) == b"a"
    assert rig.bodies("q") == [b"a"]
    for read in (rig.receive, rig.peek):
        with rig.refuses(IoTimeout, TIMEOUT):
            read(other)
    rig.end(reader, delivery.read.lookup_id)
    assert rig.bodies("q") == []
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.11/2")
def test_a_begun_dequeue_is_refused_like_a_plain_one() -> None:
    rig = readers(b"a")
    reader = rig.open("q", RECEIVE)
    cursor = rig.cursor(reader)
    rig.peek(reader, cursor=cursor)
    rig.receive("q")
    with rig.refuses(IoTimeout, TIMEOUT):
        rig.hold(reader)
    with rig.refuses(MessageAlreadyReceived, ALREADY_RECEIVED):
        rig.hold(reader, cursor=cursor)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.hold(reader, cursor=rig.cursor(reader))
    answers = rig.wait(reader, two_phase=True, timeout_ms=10)
    rig.advance(0.01)
    assert ended(answers) is IoTimeout


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/12")
@pytest.mark.parametrize("by_lookup", [False, True])
def test_where_both_are_given_the_transaction_decides(by_lookup: bool) -> None:
    rig = readers(b"a", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    if by_lookup:
        rig.lookup(reader, 0, FIRST, peek=False, transaction=tx, two_phase=True)
    else:
        rig.hold(reader, transaction=tx)
    rig.close(reader)  # would give back what only the reader held
    assert rig.available() == []
    rig.commit(tx)
    assert rig.bodies("q") == []
    assert books_of(rig.queue("q")).received == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/13")
@pytest.mark.parametrize("how", ["plain", "begin", "transaction"])
def test_two_readers_never_get_the_same_message(how: str) -> None:
    rig = readers(*(b"%d" % n for n in range(6)), transactional=True)
    one, two = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    transactions = {one: rig.begin("one"), two: rig.begin("two")}
    seen = []
    for reader in (one, two) * 3:
        if how == "begin":
            delivery = rig.hold(reader)
        else:
            tx = transactions[reader] if how == "transaction" else None
            delivery = rig.receive(reader, transaction=tx)
        seen.append(body(delivery))
    assert seen == [b"%d" % n for n in range(6)]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.10/13")
def test_two_dequeues_of_one_turn_get_two_messages() -> None:
    rig = readers(b"a", b"b")
    one, two = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    answers: list[Any] = []
    rig.driver.begin_turn()
    for reader in (one, two, one):
        rig.driver.decide(
            lambda m, reader=reader: m.messages.dequeue_message(reader, timeout_ms=0),  # type: ignore[misc]
            answers.append,
        )
    rig.driver.end_turn()
    rig.driver.sync()
    rig.driver.release()
    assert [a.value.lookup_id for a in answers[:2]] == sorted(
        a.value.lookup_id for a in answers[:2]
    )
    assert len({a.value.number for a in answers[:2]}) == 2
    assert isinstance(answers[2].error, IoTimeout)


def test_many_messages_at_once_come_in_queue_order() -> None:
    rig = readers()
    for text, priority in ((b"a", 1), (b"b", 5), (b"c", 1)):
        rig.send("q", text, priority=priority)
    reader = rig.open("q", RECEIVE)
    reads = rig.run(lambda m: m.messages.dequeue_messages(reader, 2))
    assert [read.priority for read in reads] == [5, 1]
    assert rig.bodies("q") == [b"c"]
    assert len(rig.run(lambda m: m.messages.dequeue_messages(reader, 10))) == 1
    assert rig.run(lambda m: m.messages.dequeue_messages(reader, 10)) == []
    rig.check_books()


def test_many_messages_in_a_transaction_need_a_queue_that_takes_part() -> None:
    rig = readers(b"a")
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    with rig.refuses(TransactionUsage, USAGE):
        rig.run(lambda m: m.messages.dequeue_messages(reader, 1, tx))


def test_many_messages_fit_into_a_transaction_or_none_is_taken() -> None:
    rig = Readers(operations_max=2)
    rig.create("q", transactional=True)
    for text in (b"a", b"b", b"c"):
        rig.fill(text)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    with rig.refuses(InsufficientResources, 0xC00E0027):
        rig.run(lambda m: m.messages.dequeue_messages(reader, 5, tx))
    rig.hold(reader)
    assert len(rig.run(lambda m: m.messages.dequeue_messages(reader, 5, tx))) == 2
    rig.commit(tx)
    assert rig.bodies("q") == [b"a"]


@pytest.mark.parametrize(
    ("access", "operation"),
    [(PEEK, "receive"), (PEEK, "hold"), (PEEK, "end"), (MOVE, "peek"), (MOVE, "receive")],
)
def test_a_descriptor_permits_what_it_was_opened_for(access: Any, operation: str) -> None:
    rig = readers(b"a")
    source = rig.open("q", access)
    with rig.refuses(AccessDenied, 0xC00E0025):
        getattr(rig, operation)(source, *([1] if operation == "end" else []))


# -- the end of a begun dequeue (3.1.7.1.12)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/2")
def test_an_end_without_a_begin_changes_nothing() -> None:
    rig = readers(b"a")
    reader = rig.open("q", RECEIVE)
    for lookup_id in (rig.ids()[0], 4711):
        for positive in (True, False):
            with rig.refuses(TransactionSequence, SEQUENCE):
                rig.end(reader, lookup_id, positive=positive)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/2")
@pytest.mark.parametrize("positive", [True, False])
def test_only_the_descriptor_that_read_can_end_the_read(positive: bool) -> None:
    rig = readers(b"a")
    reader, other = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.end(other, lookup_id, positive=positive)
    rig.end(reader, lookup_id, positive=positive)
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.end(reader, lookup_id, positive=positive)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/3")
def test_a_positive_end_leaves_the_message_to_its_transaction() -> None:
    rig = readers(b"a", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader, transaction=tx).read.lookup_id
    before = rig.picture()
    rig.end(reader, lookup_id)
    assert rig.picture() == before
    rig.abort(tx)
    assert rig.available() == [b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/4")
def test_a_negative_end_takes_the_read_out_of_its_transaction() -> None:
    rig = readers(b"a", b"b", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    given_back = rig.hold(reader, transaction=tx).read
    rig.receive(reader, transaction=tx)
    rig.end(reader, given_back.lookup_id, positive=False)
    assert rig.available() == [b"a"]
    rig.commit(tx)
    assert rig.bodies("q") == [b"a"]
    assert rig.read_of(b"a").aborts == 0
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/4")
def test_nobody_ends_a_read_or_move_of_another_ones_transaction() -> None:
    rig = readers(b"read", b"moved", transactional=True)
    tx, reader, other = rig.begin(), rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    read = rig.receive(reader, transaction=tx).read.lookup_id
    moved = rig.id_of(b"moved")
    rig.move(reader, moved, rig.open(SUBQUEUE, MOVE), tx)
    for descriptor, lookup_id in ((other, read), (other, moved), (reader, moved)):
        for positive in (True, False):
            with rig.refuses(TransactionSequence, SEQUENCE):
                rig.end(descriptor, lookup_id, positive=positive)
    rig.commit(tx)
    assert rig.bodies("q") == []
    assert rig.bodies(SUBQUEUE) == [b"moved"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/4")
@pytest.mark.parametrize("options", [{"positive": False}, {"message_class": NACK_RECEIVE_REJECTED}])
def test_a_prepared_transaction_keeps_its_reads_as_they_are(options: dict[str, Any]) -> None:
    rig = readers(b"a", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader, transaction=tx).read.lookup_id
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    with rig.refuses(TransactionSequence, SEQUENCE):
        rig.end(reader, lookup_id, **options)
    rig.run(lambda m: m.transactions.transaction_commit(tx.identifier))
    assert books_of(rig.queue("q")).received == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/5", "MS-MQDMPR 3.1.7.1.7/3")
@pytest.mark.parametrize("purged", [False, True])
def test_a_positive_end_deletes_as_received_even_after_a_purge(purged: bool) -> None:
    rig = readers(b"a", journaling=True)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    if purged:
        rig.purge()
    rig.end(reader, lookup_id)
    assert rig.bodies("q") == []
    assert rig.bodies(JOURNAL) == [b"a"]  # only what was received is journaled
    assert books_of(rig.queue("q")).received == 1
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/6")
def test_a_negative_end_puts_the_message_back_to_its_place() -> None:
    rig = readers(b"a", b"b", b"c")
    reader = rig.open("q", RECEIVE)
    before = rig.reads("q")
    for _ in range(2):
        rig.hold(reader)
    rig.end(reader, rig.id_of(b"b"), positive=False)
    rig.end(reader, rig.id_of(b"a"), positive=False)
    assert rig.reads("q") == before
    assert rig.available() == [b"a", b"b", b"c"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.12/6", "MS-MQDMPR 3.1.7.1.7/3")
def test_a_negative_end_after_a_purge_is_the_end_of_the_message_as_purged() -> None:
    rig = readers()
    rig.send("q", b"a", negative_journaling_requested=True)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.purge()
    rig.end(reader, lookup_id, positive=False)
    assert rig.bodies("q") == []
    assert rig.read_of(b"a", DEAD_LETTERS).message_class == NACK_QUEUE_PURGED
    rig.check_books()


def test_a_rejected_message_is_a_dead_letter_with_that_class() -> None:
    rig = readers()
    rig.send("q", b"a", negative_journaling_requested=True)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.end(reader, lookup_id, message_class=NACK_RECEIVE_REJECTED)
    assert rig.bodies("q") == []
    assert rig.read_of(b"a", DEAD_LETTERS).message_class == NACK_RECEIVE_REJECTED
    assert books_of(rig.queue("q")).rejected == 1


@pytest.mark.parametrize("commits", [True, False])
def test_a_rejection_in_a_transaction_counts_at_its_commit(commits: bool) -> None:
    rig = readers(b"a", transactional=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader, transaction=tx).read.lookup_id
    rig.end(reader, lookup_id, message_class=NACK_RECEIVE_REJECTED)
    assert rig.bodies("q") == [b"a"]
    (rig.commit if commits else rig.abort)(tx)
    assert books_of(rig.queue("q")).rejected == commits
    assert rig.available() == ([] if commits else [b"a"])


def test_a_read_ends_as_received_or_rejected_and_as_nothing_else() -> None:
    rig = readers(b"a")
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    for message_class in (0, KEPT, NACK_QUEUE_PURGED, 0xFFFF):
        with rig.refuses(InvalidParameter, 0xC00E0006):
            rig.end(reader, lookup_id, message_class=message_class)


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/3")
def test_closing_gives_back_what_was_not_ended_and_nothing_of_others() -> None:
    rig = readers(b"a", b"b", b"c", b"d")
    reader, other = rig.open("q", RECEIVE), rig.open("q", RECEIVE)
    rig.hold(reader)
    rig.hold(other)
    rig.hold(reader)
    rig.close(reader)
    assert rig.available() == [b"a", b"c", b"d"]
    rig.end(other, rig.id_of(b"b"))
    assert rig.bodies("q") == [b"a", b"c", b"d"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.11/1")
def test_deleting_the_queue_ends_what_its_readers_held() -> None:
    rig = readers()
    rig.send("q", b"a", negative_journaling_requested=True)
    reader = rig.open("q", RECEIVE)
    rig.hold(reader)
    rig.delete()
    assert rig.bodies(DEAD_LETTERS) == [b"a"]
    assert not rig.manager.ledger.locks
    with rig.refuses(QueueNotAvailable, NOT_AVAILABLE):
        rig.end(reader, 1)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.4/1")
def test_a_held_message_whose_time_ran_out_ends_as_deleted_with_its_queue() -> None:
    rig = readers()
    rig.send("q", b"a", negative_journaling_requested=True, time_to_be_received=10)
    rig.hold(rig.open("q", RECEIVE))
    rig.advance(11)
    rig.delete()
    assert [read.message_class for read in rig.reads(DEAD_LETTERS)] == [NACK_QUEUE_DELETED]


def test_a_message_received_from_a_deleted_queue_goes_into_no_deleted_journal() -> None:
    rig = readers(b"a", transactional=True, journaling=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.delete()
    rig.commit(tx)
    core = rig.manager.ledger
    assert core.state.table.count == 0
    assert not core.deleted_queues
    assert core.queues.keys() == core.state.queues.keys()


# -- peek (3.1.7.1.15)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.15/2")
def test_a_peek_shows_the_very_first_message_and_removes_nothing() -> None:
    rig = readers(b"a", b"b")
    before, peeker = rig.bodies("q"), rig.open("q", PEEK)
    for _ in range(3):
        assert body(rig.peek(peeker)) == b"a"
    assert rig.bodies("q") == before
    assert rig.available() == before


# -- what an end leaves behind (3.1.7.2.1, 3.1.7.2.2)


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/1", "MS-MQDMPR 3.1.7.2.2/1")
def test_bytes_rise_once_at_first_availability_and_fall_once_at_the_end() -> None:
    rig = readers(transactional=True)
    queue = rig.queue("q")
    tx = rig.begin("send")
    rig.send("q", bytes(500), tx=tx)
    assert queue.state.bytes == 0
    rig.commit(tx)
    size = queue.state.bytes
    assert size == len(rig.store.read(rig.reads("q")[0].number)) > 500
    reader = rig.open("q", RECEIVE)
    for name in ("one", "two"):
        tx = rig.begin(name)
        rig.receive(reader, transaction=tx)
        assert queue.state.bytes == size
        rig.abort(tx)
        assert queue.state.bytes == size
    rig.end(reader, rig.hold(reader).read.lookup_id, positive=False)
    assert queue.state.bytes == size
    rig.end(reader, rig.hold(reader).read.lookup_id)
    assert queue.state.bytes == rig.manager.ledger.state.bytes == 0


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/2")
@pytest.mark.parametrize("how", ["receive", "end", "commit", "purge", "expire"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_deleted_message_is_never_seen_again(how: str, restart: bool) -> None:
    rig = readers(transactional=True)
    rig.fill(b"gone", time_to_be_received=50)
    lookup_id, tx, reader = rig.ids()[0], rig.begin(), rig.open("q", RECEIVE)
    if how == "end":
        rig.end(reader, rig.hold(reader).read.lookup_id)
    elif how == "commit":
        rig.receive(reader, transaction=tx)
        rig.commit(tx)
    elif how == "receive":
        rig.receive(reader)
    elif how == "purge":
        rig.purge()
    else:
        rig.advance(50)
    if restart:
        rig.restart()
        reader = rig.open("q", RECEIVE)
    for read in (rig.receive, rig.peek):
        with rig.refuses(IoTimeout, TIMEOUT):
            read(reader)
    for action in MessageSeekAction:
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.lookup(reader, lookup_id, action, peek=True)


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/3")
@pytest.mark.parametrize(
    ("how", "message_class"), [("receive", ACK_RECEIVE), ("purge", NACK_QUEUE_PURGED)]
)
def test_the_reason_reaches_the_acknowledgment(how: str, message_class: int) -> None:
    rig = readers()
    rig.create("admin")
    rig.send(
        "q",
        b"a",
        acknowledgements_requested=0x0E,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
    )
    rig.purge() if how == "purge" else rig.receive("q")
    assert [read.message_class for read in rig.reads("admin")] == [message_class]


@pytest.mark.spec("MS-MQDMPR 3.1.7.2.1/3")
@pytest.mark.parametrize(("how", "copies"), [("receive", 1), ("purge", 0)])
def test_only_what_was_received_is_journaled(how: str, copies: int) -> None:
    rig = readers(b"a", journaling=True)
    rig.purge() if how == "purge" else rig.receive("q")
    assert len(rig.bodies(JOURNAL)) == copies


def test_express_messages_are_read_like_any_other() -> None:
    rig = readers()
    rig.send("q", b"quick", recoverable=False)
    reader = rig.open("q", RECEIVE)
    lookup_id = rig.hold(reader).read.lookup_id
    rig.end(reader, lookup_id, positive=False)
    assert body(rig.peek("q")) == b"quick"
    assert body(rig.lookup(reader, lookup_id, CURRENT, peek=False)) == b"quick"
    assert rig.bodies("q") == []
    rig.check_books()
