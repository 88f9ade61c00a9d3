"""Move Message and Purge Queue: where messages go, what they are called then, what others see."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.engine.ledger.ledger import decode_extra
from posthouse.engine.ledger.records import CHANGE, unpack_change
from posthouse.engine.messages.moving import ALIASES_MAX
from posthouse.engine.transactions.transaction import OperationType
from posthouse.model.errors import (
    AccessDenied,
    IoTimeout,
    MessageLockedUnderTransaction,
    MessageNotFound,
    QueueNotAvailable,
    QueueQuotaExceeded,
    TransactionSequence,
    TransactionUsage,
    UnsupportedOperation,
)
from posthouse.model.message import NACK_QUEUE_DELETED, NACK_QUEUE_PURGED
from posthouse.model.properties import MessageSeekAction, QueueAccessType
from tests.engine.readers import (
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    JOURNAL,
    SUBQUEUE,
    Readers,
    answered,
    body,
    readers,
    user,
)
from tests.engine.rig import MOVE, PEEK, RECEIVE, SEND, START_UTC

SYSTEM_QUEUES = [DEAD_LETTERS, DEAD_TRANSACTIONAL, r".\system$;journal", JOURNAL]
NOT_FOUND, USAGE = 0xC00E0088, 0xC00E0050


# -- moving at once


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/1")
def test_a_move_is_one_step_from_queue_to_queue() -> None:
    rig = readers(b"a", b"b")
    source, target = rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    number = rig.read_of(b"a").number
    effects = rig.decide(lambda m: m.messages.move_message(source, rig.id_of(b"a"), target))
    (record,) = effects.records
    assert record[0] == CHANGE
    change = unpack_change(record[2])
    assert [settle.number for settle in change.settles] == [number]
    assert (change.ends, change.defines) == ([], [])
    assert (rig.bodies("q"), rig.bodies(SUBQUEUE)) == ([b"b"], [b"a"])
    rig.restart()
    assert (rig.bodies("q"), rig.bodies(SUBQUEUE)) == ([b"b"], [b"a"])
    rig.check_books()


def test_a_reason_is_part_of_the_move_and_goes_with_the_next_one() -> None:
    rig = readers(b"a")
    rig.create("other")
    source, target = rig.open("q", RECEIVE), rig.open("other", MOVE)
    first = rig.id_of(b"a")
    effects = rig.decide(
        lambda m: m.messages.move_message(source, first, target, reason="Id is missing")
    )
    assert len(effects.records) == 1
    rig.restart()
    (read,) = rig.reads("other")
    messages, returning = rig.manager.messages, rig.manager.returning
    assert messages.move_reason(read.number) == "Id is missing"
    assert returning.failed_in(rig.queue("other"), read.number) == r"ALPHA\private$\q"
    source, target = rig.open("other", RECEIVE), rig.open("q", MOVE)
    rig.run(lambda m: m.messages.move_message(source, read.lookup_id, target))
    assert (messages.move_reason(read.number), rig.bodies("q")) == ("", [b"a"])
    assert returning.failed_in(rig.queue("q"), read.number) == ""


@pytest.mark.parametrize("data", [b"", b"\x90", b"\x91\x90", b"\x96\x90\xa0\xc2\xa0\x00\xa1q"])
def test_what_older_versions_kept_of_a_message_has_no_reason(data: bytes) -> None:
    assert decode_extra(data).move_reason == ""


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/1")
def test_a_move_that_was_not_synced_did_not_happen() -> None:
    rig = readers(b"a")
    rig.create("other")
    source, target = rig.open("q", RECEIVE), rig.open("other", MOVE)
    rig.driver.begin_turn()
    rig.driver.decide(
        lambda m: m.messages.move_message(source, rig.id_of(b"a"), target), lambda answer: None
    )
    rig.driver.end_turn()
    rig.restart()
    assert (rig.bodies("q"), rig.bodies("other")) == ([b"a"], [])
    assert rig.read_of(b"a").moves == 0


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/1")
def test_both_sides_account_for_a_move() -> None:
    rig = readers(b"a", b"b")
    rig.create("other")
    size = rig.queue("q").state.bytes
    rig.move_between(b"a", "q", "other")
    q, other = rig.queue("q"), rig.queue("other")
    assert q.state.bytes + other.state.bytes == size
    assert other.state.bytes == len(rig.store.read(rig.reads("other")[0].number))
    assert books_of(q).moved_away == 1
    assert books_of(other).accepted == 1
    rig.receive("other")
    assert other.state.bytes == 0
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/2")
def test_a_moved_message_stands_where_its_priority_and_arrival_put_it() -> None:
    rig = readers()
    rig.create("other")
    rig.send("q", b"moved", priority=4)
    for text, priority in ((b"high", 5), (b"same", 4), (b"low", 3)):
        rig.send("other", text, priority=priority)
    before = rig.id_of(b"moved")
    rig.move_between(b"moved", "q", "other")
    rig.send("other", b"later", priority=4)
    assert rig.bodies("other") == [b"high", b"same", b"moved", b"later", b"low"]
    assert rig.id_of(b"moved", "other") > max(before, rig.id_of(b"same", "other"))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/2")
@pytest.mark.parametrize("target", [SUBQUEUE, "other", DEAD_LETTERS])
def test_a_moved_message_wakes_the_readers_of_any_target(target: str) -> None:
    rig = readers(b"a")
    rig.create("other")
    goal = rig.open(target, MOVE)
    peeked = rig.wait(rig.open(target, RECEIVE), "peek_message")
    taken = rig.wait(rig.open(target, RECEIVE))
    source = rig.open("q", RECEIVE)
    rig.move(source, rig.ids()[0], goal)
    assert answered(peeked) == answered(taken) == b"a"
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/3")
@pytest.mark.parametrize("target", SYSTEM_QUEUES)
def test_a_move_into_a_system_queue_says_nothing_to_protocols(target: str) -> None:
    rig = readers(b"a")
    source, goal = rig.open("q", RECEIVE), rig.open(target, MOVE)
    effects = rig.decide(lambda m: m.messages.move_message(source, rig.ids()[0], goal))
    assert (effects.active, effects.wakes) == (set(), [])
    assert rig.bodies(target) == [b"a"]
    rig.check_books()


def test_a_message_does_not_expire_in_a_system_queue() -> None:
    rig = readers()
    rig.fill(b"a", time_to_be_received=10)
    rig.move_between(b"a", "q", DEAD_LETTERS)
    rig.advance(100)
    assert rig.bodies(DEAD_LETTERS) == [b"a"]


def test_a_message_keeps_its_time_in_a_subqueue() -> None:
    rig = readers()
    rig.fill(b"a", b"b", time_to_be_received=10)
    rig.move_between(b"a", "q", SUBQUEUE)
    rig.advance(10)
    assert rig.bodies("q") == []
    assert not rig.queue("q").subqueues  # emptied, and nobody has it open


# -- counters


def test_moves_are_counted_and_stamped_over_a_restart() -> None:
    rig = readers(b"a")
    assert (rig.read_of(b"a").moves, rig.read_of(b"a").last_move) == (0, 0)
    rig.advance(5)
    rig.move_between(b"a", "q", SUBQUEUE)
    rig.advance(5)
    rig.move_between(b"a", SUBQUEUE, "q")
    rig.restart()
    moved = rig.read_of(b"a")
    assert (moved.moves, moved.last_move) == (2, START_UTC + 10)
    assert moved.arrived == START_UTC


def test_counters_stay_at_their_greatest_value() -> None:
    rig = readers(b"a", transactional=True)
    number = rig.reads("q")[0].number
    table = rig.manager.ledger.state.table
    row = table.get(number)
    assert row is not None
    table.put(number, row._replace(moves=0xFFFF, aborts=0xFFFF))
    tx = rig.begin()
    rig.receive(rig.open("q", RECEIVE), transaction=tx)
    rig.abort(tx)
    assert rig.read_of(b"a").aborts == 0xFFFF
    rig.move_between(b"a", "q", SUBQUEUE)
    assert rig.read_of(b"a", SUBQUEUE).moves == 0xFFFF


def test_aborts_are_counted_for_reads_and_moves_until_the_message_is_moved() -> None:
    rig = readers(b"a", transactional=True)
    reader, target = rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    for index in range(2):
        tx = rig.begin(f"read {index}")
        rig.receive(reader, transaction=tx)
        rig.abort(tx)
    tx = rig.begin("move")
    rig.move(reader, rig.ids()[0], target, tx)
    rig.abort(tx)
    rig.restart()
    assert rig.read_of(b"a").aborts == 3
    rig.end(held := rig.open("q", RECEIVE), rig.hold(held).read.lookup_id, positive=False)
    assert rig.read_of(b"a").aborts == 3  # giving back is not an abort
    rig.move_between(b"a", "q", SUBQUEUE)
    assert rig.read_of(b"a", SUBQUEUE).aborts == 0


# -- aliases (decision 30)


def test_an_earlier_identifier_still_finds_the_message_where_it_is() -> None:
    rig = readers(b"a")
    first = rig.ids()[0]
    rig.move_between(b"a", "q", SUBQUEUE)
    second = rig.ids(SUBQUEUE)[0]
    main, poison = rig.open("q", RECEIVE), rig.open(SUBQUEUE, RECEIVE)
    assert body(rig.lookup(poison, first, peek=True)) == b"a"
    assert rig.lookup(poison, first, peek=True).read.lookup_id == second != first
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(main, first, peek=True)
    for action in (MessageSeekAction.NEXT, MessageSeekAction.PREVIOUS):
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.lookup(poison, first, action, peek=True)
    rig.move(poison, first, rig.open("q", MOVE))
    for lookup_id in (first, second, rig.ids()[0]):
        assert body(rig.lookup(main, lookup_id, peek=True)) == b"a"


def test_an_earlier_identifier_is_known_after_a_restart_and_for_every_kind_of_read() -> None:
    rig = readers(b"a", transactional=True)
    first = rig.ids()[0]
    rig.move_between(b"a", "q", SUBQUEUE)
    rig.restart()
    poison = rig.open(SUBQUEUE, RECEIVE)
    tx = rig.begin()
    rig.lookup(poison, first, peek=False, transaction=tx)
    rig.abort(tx)
    rig.lookup(poison, first, peek=False, two_phase=True)
    rig.end(poison, first)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(poison, first, peek=True)


@pytest.mark.parametrize("how", ["receive", "purge", "expire", "move away", "dead letter"])
def test_earlier_identifiers_end_with_the_messages_life_in_the_family(how: str) -> None:
    rig = readers()
    rig.create("other")
    rig.fill(b"a", time_to_be_received=50, negative_journaling_requested=how == "dead letter")
    first = rig.ids()[0]
    rig.move_between(b"a", "q", SUBQUEUE)
    rig.move_between(b"a", SUBQUEUE, "q")
    assert rig.queue("q").aliases
    if how == "receive":
        rig.receive("q")
    elif how == "purge":
        rig.purge()
    elif how == "move away":
        rig.move_between(b"a", "q", "other")
    else:
        rig.advance(50)
    assert rig.queue("q").aliases == {}
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(rig.open("q", PEEK), first, peek=True)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(rig.open("other", PEEK), first, peek=True)
    rig.restart()
    assert rig.queue("q").aliases == {}


def test_a_much_moved_message_keeps_its_latest_identifiers() -> None:
    rig = readers(b"a")
    names = ["q", SUBQUEUE] * ALIASES_MAX
    seen = [rig.ids()[0]]
    for source, target in pairwise(names):
        rig.move_between(b"a", source, target)
        seen.append(rig.ids(target)[0])
    assert rig.queue("q").aliases.keys() == set(seen[-1 - ALIASES_MAX : -1])
    reader = rig.open(names[-1], RECEIVE)
    with rig.refuses(MessageNotFound, NOT_FOUND):
        rig.lookup(reader, seen[0], peek=True)
    assert body(rig.lookup(reader, seen[-2], peek=False)) == b"a"
    assert rig.queue("q").aliases == {}


# -- what is refused


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/5")
@pytest.mark.parametrize("target", SYSTEM_QUEUES)
def test_no_transaction_moves_into_a_system_queue(target: str) -> None:
    rig = readers(b"a", transactional=True)
    source, goal, tx = rig.open("q", RECEIVE), rig.open(target, MOVE), rig.begin()
    with rig.refuses(TransactionUsage, USAGE):
        rig.move(source, rig.ids()[0], goal, tx)


def test_a_transaction_moves_between_transactional_queues_only() -> None:
    rig = readers(b"a", transactional=True)
    rig.create("plain")
    rig.fill(b"b", name="plain")
    source, plain = rig.open("q", RECEIVE), rig.open("plain", RECEIVE)
    for origin, lookup_id, target in (
        (source, rig.ids()[0], rig.open("plain", MOVE)),
        (plain, rig.ids("plain")[0], rig.open("q", MOVE)),
    ):
        for tx in (rig.begin(f"to {target.handle}"), None):
            with rig.refuses(TransactionUsage, USAGE):
                rig.move(origin, lookup_id, target, tx)


def test_a_plain_message_is_not_moved_in_a_transaction() -> None:
    rig = readers(b"a")
    source, target, tx = rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE), rig.begin()
    with rig.refuses(TransactionUsage, USAGE):
        rig.move(source, rig.ids()[0], target, tx)


def test_a_transactional_dead_letter_can_be_moved_back_in_a_transaction() -> None:
    rig = readers(transactional=True)
    rig.fill(b"a", negative_journaling_requested=True)
    rig.purge()
    tx = rig.begin()
    rig.move_between(b"a", DEAD_TRANSACTIONAL, "q", tx)
    rig.commit(tx)
    assert (rig.available(), rig.bodies(DEAD_TRANSACTIONAL)) == ([b"a"], [])
    rig.check_books()


def test_an_ended_transaction_moves_nothing() -> None:
    rig = readers(b"a", transactional=True)
    tx = rig.begin()
    rig.commit(tx)
    source, target = rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    with rig.refuses(TransactionSequence, 0xC00E0051):
        rig.move(source, rig.ids()[0], target, tx)


def test_only_a_message_that_is_there_and_available_can_be_moved() -> None:
    rig = readers(b"held", b"in transaction", b"free", transactional=True)
    reader, target, tx = rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE), rig.begin()
    held, locked, free = rig.ids()
    rig.hold(reader)
    rig.receive(reader, transaction=tx)
    for lookup_id in (held, 4711, 0):
        with rig.refuses(MessageNotFound, NOT_FOUND):
            rig.move(reader, lookup_id, target)
    with rig.refuses(MessageLockedUnderTransaction, 0xC00E009C):
        rig.move(reader, locked, target)
    rig.move(reader, free, target)
    with rig.refuses(MessageNotFound, NOT_FOUND):  # in the family, but not here any more
        rig.move(reader, free, target)


def test_a_message_is_not_moved_to_where_it_is() -> None:
    rig = readers(b"a")
    source, target = rig.open("q", RECEIVE), rig.open("q", MOVE)
    with rig.refuses(UnsupportedOperation, 0xC00E006A):
        rig.move(source, rig.ids()[0], target)


@pytest.mark.parametrize("transactional", [False, True])
def test_the_target_quota_counts_moves_committed_or_not(transactional: bool) -> None:
    rig = readers(bytes(700), bytes(701), bytes(702), transactional=transactional)
    rig.create("small", quota_kib=2, transactional=transactional)
    tx = rig.begin() if transactional else None
    source, target = rig.open("q", RECEIVE), rig.open("small", MOVE)
    first, second, _ = rig.ids()
    rig.move(source, first, target, tx)
    rig.move(source, second, target, tx)
    with rig.refuses(QueueQuotaExceeded, 0xC00E0027):
        rig.move(source, rig.id_of(bytes(702)), target, tx)
    if tx is None:
        return
    rig.abort(tx)
    assert rig.queue("small").reserved == 0
    again = rig.begin("again")
    rig.move(source, first, target, again)
    rig.commit(again)
    assert rig.queue("small").reserved == 0
    assert len(rig.bodies("small")) == 1


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/6")
def test_a_move_needs_both_descriptors_of_one_session_and_one_user() -> None:
    rig = readers(b"a")
    rig.grant("receive,peek")
    session = object()
    source = rig.open("q", RECEIVE, association=session)
    for association, caller in ((None, rig.admin), (object(), rig.admin), (session, user())):
        target = rig.open(SUBQUEUE, MOVE, caller, association=association)
        with rig.refuses(AccessDenied, 0xC00E0025):
            rig.move(source, rig.ids()[0], target)
    rig.move(source, rig.ids()[0], rig.open(SUBQUEUE, MOVE, association=session))


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/6")
def test_the_same_user_may_come_as_two_callers() -> None:
    rig = readers(b"a")
    rig.grant("receive,peek")
    source, target = rig.open("q", RECEIVE, user()), rig.open(SUBQUEUE, MOVE, user())
    rig.move(source, rig.ids()[0], target)
    assert rig.bodies(SUBQUEUE) == [b"a"]


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/6")
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_move_needs_the_right_on_both_queues_at_that_time(side: str) -> None:
    rig = readers(b"a")
    rig.create("other")
    rig.grant("receive,peek", "q")
    rig.grant("receive,peek", "other")
    source, target = rig.open("q", RECEIVE, user()), rig.open("other", MOVE, user())
    rig.grant("", "q" if side == "source" else "other")
    with rig.refuses(AccessDenied, 0xC00E0025):
        rig.move(source, rig.ids()[0], target)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/6")
@pytest.mark.parametrize(("origin", "goal"), [(PEEK, MOVE), (SEND, MOVE), (RECEIVE, RECEIVE)])
def test_a_move_needs_descriptors_opened_for_it(origin: Any, goal: Any) -> None:
    rig = readers(b"a")
    rig.create("other")
    source, target = rig.open("q", origin), rig.open("other", goal)
    with rig.refuses(AccessDenied, 0xC00E0025):
        rig.move(source, rig.ids()[0], target)


def test_nothing_is_moved_out_of_or_into_a_deleted_queue() -> None:
    rig = readers(b"a")
    rig.create("other")
    rig.fill(b"b", name="other")
    rig.create("third")
    gone, source = rig.open("other", RECEIVE), rig.open("q", RECEIVE)
    target, third = rig.open("other", MOVE), rig.open("third", MOVE)
    rig.delete("other")
    for descriptor, goal in ((gone, third), (source, target)):
        with rig.refuses(QueueNotAvailable, 0xC00E004B):
            rig.move(descriptor, rig.ids()[0], goal)


# -- moving in a transaction


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/4")
@pytest.mark.parametrize("end", ["commit", "abort", "crash"])
def test_a_transactional_move_is_seen_after_its_commit_only(end: str) -> None:
    rig = readers(b"a", b"b", transactional=True)
    before = rig.ids()
    tx, source, target = rig.begin(), rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    rig.move(source, before[0], target, tx)
    (operation,) = tx.operations
    assert (operation.kind, operation.queue) == (OperationType.MOVE, rig.queue(SUBQUEUE).number)
    assert (rig.available(), rig.available(SUBQUEUE)) == ([b"b"], [])
    with rig.refuses(IoTimeout, 0xC00E001B):
        rig.peek(rig.open(SUBQUEUE, PEEK))
    if end == "crash":
        rig.restart()
    else:
        (rig.commit if end == "commit" else rig.abort)(tx)
    if end == "commit":
        assert (rig.available(), rig.available(SUBQUEUE)) == ([b"b"], [b"a"])
        assert rig.ids(SUBQUEUE)[0] > before[1]
        assert rig.read_of(b"a", SUBQUEUE).moves == 1
    else:
        assert rig.available() == [b"a", b"b"]
        assert rig.ids() == before
        assert rig.read_of(b"a").moves == 0
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.16/4")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("purged", [True, False])
def test_a_prepared_move_waits_for_its_coordinator_over_a_restart(
    commits: bool, purged: bool
) -> None:
    rig = readers(b"a", transactional=True)
    tx, source, target = rig.begin(), rig.open("q", RECEIVE), rig.open(SUBQUEUE, MOVE)
    rig.move(source, rig.ids()[0], target, tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.close(target)
    if purged:
        rig.purge("q")
    rig.restart()
    assert rig.available() == []
    assert (rig.queue(SUBQUEUE).awaited, rig.queue(SUBQUEUE).reserved) == (1, 0)
    (rig.commit if commits else rig.abort)(tx)
    assert rig.available() == ([] if commits or purged else [b"a"])
    assert len(rig.queue("q").subqueues) == commits
    if commits:
        assert rig.available(SUBQUEUE) == [b"a"]
        assert rig.queue(SUBQUEUE).awaited == 0
    rig.check_books()


def test_a_move_and_reads_of_one_transaction_end_together() -> None:
    rig = readers(b"bad", b"good", transactional=True)
    rig.create("out", transactional=True)
    for name, commits in (("first", False), ("second", True)):
        tx, source = rig.begin(name), rig.open("q", RECEIVE)
        rig.move(source, rig.id_of(b"bad"), rig.open(SUBQUEUE, MOVE), tx)
        rig.receive(source, transaction=tx)
        rig.send("out", b"done", tx=tx)
        (rig.commit if commits else rig.abort)(tx)
        if not commits:
            assert (rig.available(), rig.bodies("out")) == ([b"bad", b"good"], [])
    rig.restart()
    assert (rig.bodies("q"), rig.bodies(SUBQUEUE), rig.bodies("out")) == ([], [b"bad"], [b"done"])
    rig.check_books()


def test_a_move_whose_target_was_deleted_leaves_the_message_where_it_was() -> None:
    rig = readers(b"a", transactional=True)
    rig.create("other", transactional=True)
    tx = rig.begin()
    rig.move(rig.open("q", RECEIVE), rig.ids()[0], rig.open("other", MOVE), tx)
    rig.delete("other")
    rig.commit(tx)
    assert rig.available() == [b"a"]
    rig.restart()
    assert rig.available() == [b"a"]
    rig.check_books()


def test_a_move_out_of_a_queue_deleted_meanwhile_still_arrives() -> None:
    rig = readers(b"a", transactional=True)
    rig.create("other", transactional=True)
    tx = rig.begin()
    rig.move(rig.open("q", RECEIVE), rig.ids()[0], rig.open("other", MOVE), tx)
    rig.delete()
    rig.commit(tx)
    assert rig.bodies("other") == [b"a"]
    assert rig.manager.ledger.deleted_queues == set()
    rig.restart()
    assert rig.available("other") == [b"a"]
    rig.check_books()


def test_the_target_may_be_closed_before_the_commit() -> None:
    rig = readers(b"a", transactional=True)
    tx = rig.begin()
    rig.move_between(b"a", "q", SUBQUEUE, tx)
    rig.commit(tx)
    assert rig.bodies(SUBQUEUE) == [b"a"]


# -- subqueues share the quota of their queue

QUOTA_KIB = 3


def family(*, transactional: bool = False, moved: int = 2) -> Readers:
    """A queue that takes three messages of 800 bytes, of which so many lie in its subqueue."""
    bodies = [bytes([n]) * 800 for n in range(moved)]
    rig = readers(*bodies, transactional=transactional, quota_kib=QUOTA_KIB)
    for one in bodies:
        rig.move_between(one, "q", SUBQUEUE)
    return rig


def is_full(rig: Readers) -> bool:
    """Send one more message to the queue; return whether that is refused."""
    tx = rig.begin("one more") if rig.queue("q").definition.transactional else None
    try:
        rig.send("q", bytes(800), tx=tx)
    except QueueQuotaExceeded:
        if tx is not None:
            rig.abort(tx)
        return True
    if tx is not None:
        rig.commit(tx)
    return False


@pytest.mark.spec("Subqueues/4")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_messages_in_subqueues_count_in_the_quota_of_their_queue(
    transactional: bool, restarts: bool
) -> None:
    rig = family(transactional=transactional)
    if restarts:
        rig.restart()
    assert [is_full(rig), is_full(rig)] == [False, True]
    rig.receive(rig.open(SUBQUEUE, RECEIVE))
    assert [is_full(rig), is_full(rig)] == [False, True]
    rig.purge(SUBQUEUE)
    assert not is_full(rig)


@pytest.mark.spec("Subqueues/4")
@pytest.mark.parametrize("restarts", [False, True])
def test_the_sum_of_a_family_is_that_of_its_messages(restarts: bool) -> None:
    rig = family(moved=3)
    rig.create("other")
    rig.move_between(bytes([0]) * 800, SUBQUEUE, "q;second")
    rig.move_between(bytes([1]) * 800, SUBQUEUE, "other")
    if restarts:
        rig.restart()
    queue = rig.queue("q")
    sizes = [sub.state.bytes for sub in queue.subqueues.values()]
    assert len(sizes) == 2
    assert queue.state.subqueue_bytes == sum(sizes)
    rig.move_between(bytes([0]) * 800, "q;second", "q")
    rig.purge(SUBQUEUE)
    assert (queue.subqueues, queue.state.subqueue_bytes) == ({}, 0)


@pytest.mark.spec("Subqueues/5")
@pytest.mark.parametrize("transactional", [False, True])
def test_moves_inside_a_family_need_no_room(transactional: bool) -> None:
    rig = family(transactional=transactional)
    assert [is_full(rig), is_full(rig)] == [False, True]
    tx = rig.begin() if transactional else None
    rig.move_between(bytes([0]) * 800, SUBQUEUE, "q", tx)
    assert rig.queue("q").reserved == 0
    if tx is not None:
        rig.commit(tx)
    rig.move_between(bytes([0]) * 800, "q", "q;other")
    assert is_full(rig)
    rig.check_books()


@pytest.mark.spec("Subqueues/5")
@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("target", ["q", "q;more"])
def test_moves_from_elsewhere_need_room_in_the_family(transactional: bool, target: str) -> None:
    rig = family(transactional=transactional)
    rig.create("from", transactional=transactional)
    rig.fill(b"1" * 800, b"2" * 800, name="from")
    tx = rig.begin() if transactional else None
    rig.move_between(b"1" * 800, "from", target, tx)
    with rig.refuses(QueueQuotaExceeded, 0xC00E0027):
        rig.move_between(b"2" * 800, "from", target)
    if tx is not None:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
        rig.restart()
        assert is_full(rig)
        rig.abort(tx)
        assert rig.queue("q").reserved == 0
        assert not is_full(rig)


# -- subqueues come and go


def test_a_subqueue_is_there_while_it_is_open_or_holds_something() -> None:
    rig = readers(b"a")
    family = rig.queue("q").subqueues
    target = rig.open(SUBQUEUE, MOVE)
    assert list(family) == ["poison"]
    rig.close(target)
    assert not family
    rig.move_between(b"a", "q", SUBQUEUE)
    assert list(family) == ["poison"]
    rig.restart()
    reader = rig.open(SUBQUEUE, RECEIVE)
    rig.receive(reader)
    assert list(rig.queue("q").subqueues) == ["poison"]
    rig.close(reader)
    assert not rig.queue("q").subqueues
    rig.restart()
    assert not rig.queue("q").subqueues


@pytest.mark.spec("Subqueues/2")
@pytest.mark.parametrize("access", [PEEK, RECEIVE, MOVE])
def test_a_subqueue_that_nobody_used_is_gone_after_a_crash(access: QueueAccessType) -> None:
    rig = readers()
    rig.open(SUBQUEUE, access)
    assert list(rig.queue("q").subqueues) == ["poison"]
    rig.restart()
    assert not rig.queue("q").subqueues


@pytest.mark.parametrize("end", ["received", "move aborted", "moved out"])
def test_the_end_of_a_transaction_takes_an_unused_subqueue_along(end: str) -> None:
    rig = readers(b"a", transactional=True)
    tx = rig.begin()
    if end == "move aborted":
        rig.move_between(b"a", "q", SUBQUEUE, tx)
        rig.abort(tx)
    else:
        rig.move_between(b"a", "q", SUBQUEUE)
        if end == "received":
            reader = rig.open(SUBQUEUE, RECEIVE)
            rig.receive(reader, transaction=tx)
            rig.close(reader)
        else:
            rig.move_between(b"a", SUBQUEUE, "q", tx)
        assert rig.queue("q").subqueues
        rig.commit(tx)
    assert not rig.queue("q").subqueues
    rig.restart()
    assert not rig.queue("q").subqueues
    rig.check_books()


# -- purge (3.1.7.1.7)


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.7/1")
def test_a_purge_ends_every_available_message_as_purged() -> None:
    rig = readers()
    rig.create("admin")
    for text in (b"a", b"b"):
        rig.send(
            "q",
            text,
            negative_journaling_requested=True,
            acknowledgements_requested=0x08,
            administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
        )
    rig.fill(b"plain")
    assert rig.purge() == 3
    assert rig.bodies("q") == []
    assert rig.queue("q").state.bytes == 0
    assert rig.bodies(DEAD_LETTERS) == [b"a", b"b"]
    classes = {read.message_class for read in rig.reads(DEAD_LETTERS) + rig.reads("admin")}
    assert classes == {NACK_QUEUE_PURGED}
    assert len(rig.reads("admin")) == 2
    assert books_of(rig.queue("q")).purged == 3
    rig.restart()
    assert rig.bodies("q") == []
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.7/2")
def test_a_purge_marks_locked_messages_once_and_spares_what_comes_later() -> None:
    rig = readers(b"locked", b"free")
    reader = rig.open("q", RECEIVE)
    number = rig.hold(reader).read.number
    assert rig.purge() == 2
    lock = rig.manager.ledger.locks[number]
    assert lock.purged == NACK_QUEUE_PURGED
    rig.fill(b"later")
    rig.end(reader, rig.id_of(b"locked"), positive=False)
    assert rig.bodies("q") == [b"later"]
    assert rig.purge() == 1
    assert rig.purge() == 0
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.7/2")
def test_a_purge_leaves_journal_and_subqueues_alone() -> None:
    rig = readers(b"a", b"b", b"c", journaling=True)
    rig.receive("q")
    rig.move_between(b"b", "q", SUBQUEUE)
    rig.purge()
    assert (rig.bodies("q"), rig.bodies(SUBQUEUE), rig.bodies(JOURNAL)) == ([], [b"b"], [b"a"])


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.7/3")
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_a_message_purged_in_a_transaction_is_gone_in_any_case(
    prepared: bool, restart: bool, commits: bool
) -> None:
    rig = readers(transactional=True)
    rig.fill(b"a", negative_journaling_requested=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    if prepared:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.purge()
    if restart:
        rig.restart()
    received = commits and (prepared or not restart)
    if prepared or not restart:
        (rig.commit if commits else rig.abort)(tx)
    assert rig.bodies("q") == []
    assert rig.bodies(DEAD_TRANSACTIONAL) == ([] if received else [b"a"])
    books = books_of(rig.queue("q"))
    assert (books.received, books.purged) == (received, not received)
    rig.restart()
    assert rig.bodies("q") == []
    rig.check_books()


def test_a_move_asked_for_before_a_purge_still_happens() -> None:
    rig = readers(b"a", transactional=True)
    tx = rig.begin()
    rig.move_between(b"a", "q", SUBQUEUE, tx)
    rig.purge()
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.restart()
    rig.commit(tx)
    assert (rig.bodies("q"), rig.available(SUBQUEUE)) == ([], [b"a"])
    rig.restart()
    assert rig.available(SUBQUEUE) == [b"a"]
    rig.check_books()


@pytest.mark.parametrize("restart", [False, True])
def test_what_a_transaction_holds_of_a_deleted_queue_ends_as_deleted(restart: bool) -> None:
    rig = readers(transactional=True)
    rig.fill(b"a", b"b", negative_journaling_requested=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.delete()
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"b"]
    if restart:
        rig.restart()
    else:
        rig.abort(tx)
    assert sorted(rig.bodies(DEAD_TRANSACTIONAL)) == [b"a", b"b"]
    classes = {read.message_class for read in rig.reads(DEAD_TRANSACTIONAL)}
    assert classes == {NACK_QUEUE_DELETED}
    core = rig.manager.ledger
    assert core.deleted_queues == core.state.doomed == set()
    rig.restart()
    assert len(rig.bodies(DEAD_TRANSACTIONAL)) == 2
    rig.check_books()


@pytest.mark.parametrize("commits", [False, True])
def test_a_prepared_transaction_outlives_the_queue_it_read_and_moved_from(commits: bool) -> None:
    rig = readers(transactional=True)
    rig.create("other", transactional=True)
    rig.fill(b"read", b"moved", negative_journaling_requested=True)
    tx, reader = rig.begin(), rig.open("q", RECEIVE)
    rig.receive(reader, transaction=tx)
    rig.move(reader, rig.id_of(b"moved"), rig.open("other", MOVE), tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.delete()
    rig.restart()
    (rig.commit if commits else rig.abort)(tx)
    assert rig.available("other") == ([b"moved"] if commits else [])
    assert sorted(rig.bodies(DEAD_TRANSACTIONAL)) == ([] if commits else [b"moved", b"read"])
    core = rig.manager.ledger
    assert (core.deleted_queues, core.locks) == (set(), {})
    assert core.queues.keys() == core.state.queues.keys()
    rig.restart()
    assert rig.available("other") == ([b"moved"] if commits else [])
    rig.check_books()


def test_purging_needs_the_right_to_receive() -> None:
    rig = readers(b"a")
    peeker = rig.open("q", PEEK)
    with rig.refuses(AccessDenied, 0xC00E0025):
        rig.run(lambda m: m.queues.purge_queue(peeker))
    rig.grant("receive,peek")
    robbed = rig.open("q", RECEIVE, user())
    rig.grant("peek")
    with rig.refuses(AccessDenied, 0xC00E0025):
        rig.run(lambda m: m.queues.purge_queue(robbed))
