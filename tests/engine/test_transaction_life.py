"""How transactions end without their client: unknown, idle, lost sessions, purged queues."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.manager import QueueManager
from posthouse.engine.transactions.transaction import Transaction, TransactionState
from posthouse.model.errors import (
    InsufficientResources,
    IoTimeout,
    OperationCancelled,
    TransactionSequence,
)
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    NACK_QUEUE_PURGED,
)
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import MOVE, RECEIVE, Rig

ADMIN = r"DIRECT=OS:ALPHA\private$\admin"
DEADXACT = r".\system$;deadxact"


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders", transactional=True)
    rig.create("bills", transactional=True)
    rig.create("admin")
    return rig


def filled(rig: Rig, name: str, *bodies: bytes, **attributes: Any) -> None:
    """Messages of a transaction that is over."""
    tx = rig.begin("filling")
    for body in bodies:
        rig.send(name, body, tx=tx, **attributes)
    rig.commit(tx)


# -- transactions that are not there, not ours, or over


@pytest.mark.spec("MS-MQDMPR 3.1.4.3/1", "MS-MQDMPR 3.1.4.4/1", "MS-MQDMPR 3.1.4.5/1")
@pytest.mark.parametrize("event", ["prepare", "commit", "abort"])
@pytest.mark.parametrize("ended", [None, "commit", "abort"])
def test_an_unknown_or_finished_transaction_is_out_of_sequence(
    rig: Rig, event: str, ended: str | None
) -> None:
    identifier = bytes(range(16))
    if ended:
        tx = rig.begin()
        rig.send("orders", tx=tx)
        identifier = tx.identifier
        rig.run(lambda m: getattr(m.transactions.collection, ended)(identifier))
    with rig.refused(0xC00E0051, "unknown or has ended"):
        rig.run(lambda m: getattr(m.transactions.collection, event)(identifier))


@pytest.mark.parametrize("ended", ["commit", "abort", "prepare"])
def test_an_ended_or_prepared_transaction_takes_no_more_operations(rig: Rig, ended: str) -> None:
    filled(rig, "orders", b"1", b"2", b"3")
    out, source = rig.open("orders"), rig.open("orders", RECEIVE)
    target = rig.open("orders;parked", MOVE)
    tx = rig.begin()
    held = rig.receive(source, transaction=tx).read.lookup_id
    if ended == "prepare":
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    else:
        rig.run(lambda m: getattr(m.transactions.collection, ended)(tx.identifier))
    last = rig.reads("orders")[-1].lookup_id
    calls = [
        lambda: rig.send(out, tx=tx),
        lambda: rig.receive(source, transaction=tx),
        lambda: rig.lookup(source, last, peek=False, transaction=tx),
        lambda: rig.run(lambda m: m.messages.move_message(source, last, target, tx)),
        lambda: rig.run(lambda m: m.messages.dequeue_messages(source, 1, tx)),
        lambda: rig.run(lambda m: m.messages.dequeue_message_end(source, held, positive=False)),
    ]
    for call in calls:
        with rig.refused(TransactionSequence.code):
            call()


def test_a_transaction_of_the_life_before_is_not_one_of_this_queue_manager(rig: Rig) -> None:
    tx = rig.begin()
    rig.send("orders", tx=tx)
    rig.restart()
    assert tx.state is TransactionState.ACTIVE
    out = rig.open("orders")
    rig.send(out, tx=rig.begin("fresh"))
    with rig.refused(TransactionSequence.code, "not one of this queue manager"):
        rig.send(out, tx=tx)
    assert rig.manager.ledger.reserved == rig.queue("orders").reserved > 0


def test_a_read_given_back_is_no_part_of_the_transaction(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2")
    source, tx = rig.open("orders", RECEIVE), rig.begin()
    ids = [rig.receive(source, transaction=tx).read.lookup_id for _ in range(2)]
    rig.run(lambda m: m.messages.dequeue_message_end(source, ids[0], positive=False))
    assert len(tx.operations) == 1
    assert deserialize(rig.peek("orders").packet).body == b"1"
    rig.commit(tx)
    assert rig.bodies("orders") == [b"1"]


# -- idle transactions and lost sessions


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/7")
@pytest.mark.parametrize("seconds", [60, 7])
def test_a_transaction_nobody_works_on_is_aborted_after_a_while(seconds: int) -> None:
    rig = Rig(transactions_idle_s=seconds)
    rig.create("orders", transactional=True)
    filled(rig, "orders", b"old")
    busy, idle = rig.begin("busy"), rig.begin("idle")
    rig.receive("orders", transaction=idle)
    assert rig.manager.next_deadline_ms() == rig.clock.now_ms + seconds * 1000
    rig.advance(seconds - 1)
    rig.send("orders", b"kept", tx=busy)
    assert (idle.state, busy.state) == (TransactionState.ACTIVE, TransactionState.ACTIVE)
    rig.advance(1)
    assert (idle.state, busy.state) == (TransactionState.ENDED, TransactionState.ACTIVE)
    assert [event.name for event in rig.events] == ["transaction_idle"]
    assert rig.reads("orders")[0].aborts == 1
    rig.commit(busy)
    with rig.refused(TransactionSequence.code):
        rig.commit(idle)
    assert rig.bodies("orders") == [b"old", b"kept"]


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/7")
def test_a_transaction_in_which_a_read_waits_is_not_idle(rig: Rig) -> None:
    tx = rig.begin()
    rig.send("bills", b"mine", tx=tx)
    answers = rig.wait(rig.open("orders", RECEIVE), transaction=tx, timeout_ms=150_000)
    rig.advance(149)
    assert tx.state is TransactionState.ACTIVE
    rig.advance(1)
    assert isinstance(answers[0].error, IoTimeout)
    assert tx.state is TransactionState.ACTIVE  # its client has just been answered
    rig.advance(59)
    assert tx.state is TransactionState.ACTIVE
    rig.advance(1)
    assert tx.state is TransactionState.ENDED


def test_an_idle_transaction_is_found_behind_one_that_waits(rig: Rig) -> None:
    waiting, idle = rig.begin("waiting"), rig.begin("idle")
    rig.wait(rig.open("orders", RECEIVE), transaction=waiting)
    rig.send("orders", tx=idle)
    rig.advance(60)
    assert (waiting.state, idle.state) == (TransactionState.ACTIVE, TransactionState.ENDED)


def test_no_idle_time_at_all_still_lets_a_read_wait() -> None:
    rig = Rig(transactions_idle_s=0)
    rig.create("orders", transactional=True)

    def wait(manager: QueueManager) -> Transaction:
        tx = manager.transactions.create_transaction(b"waits in a queue")
        source = manager.queues.open_queue(r".\private$\orders", RECEIVE, rig.admin)
        manager.messages.dequeue_message(source, transaction=tx)
        return tx

    tx = rig.run(wait)
    rig.advance(5)
    assert tx.state is TransactionState.ACTIVE


def test_many_idle_transactions_end_each_at_its_time(rig: Rig) -> None:
    opened = []
    for number in range(10):
        opened.append(rig.begin(str(number)))
        rig.advance(1)
    rig.send("orders", tx=opened[0])
    rig.advance(53)
    alive = [tx.state is TransactionState.ACTIVE for tx in opened]
    assert alive == [True, False, False, False, *[True] * 6]
    rig.advance(60)
    assert rig.manager.transactions.collection.open == {}
    rig.advance(60)
    assert len(rig.events) == 10


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/7")
def test_a_session_that_ends_aborts_its_transactions_and_no_others(rig: Rig) -> None:
    mine, yours = object(), object()
    first, second = rig.begin("first", mine), rig.begin("second", yours)
    rig.send("orders", b"lost", tx=first)
    rig.send("orders", b"kept", tx=second)
    waits = rig.wait(rig.open("orders", RECEIVE, association=mine), transaction=first)
    rig.run(lambda m: m.end_session(mine))
    assert (first.state, second.state) == (TransactionState.ENDED, TransactionState.ACTIVE)
    assert isinstance(waits[0].error, OperationCancelled)
    rig.commit(second)
    assert rig.bodies("orders") == [b"kept"]


@pytest.mark.spec("MS-MQDMPR 3.1.3/21", "MS-MQDMPR 3.1.1/3")
def test_a_restart_aborts_every_transaction_that_was_not_prepared(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2")
    tx, source = rig.begin(), rig.open("orders", RECEIVE)
    rig.receive(source, transaction=tx)
    rig.run(lambda m: m.messages.dequeue_message(source, timeout_ms=0, two_phase=True))
    rig.send("bills", b"lost", tx=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier))
    rig.restart()
    assert rig.manager.transactions.collection.open == {}
    assert rig.manager.ledger.locks == {}
    assert [deserialize(rig.receive("orders").packet).body for _ in range(2)] == [b"1", b"2"]
    assert rig.bodies("bills") == []
    assert rig.manager.ledger.reserved == 0


# -- purge


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/3", "MS-MQDMPR 3.1.1.11/5")
@pytest.mark.parametrize("kind", ["receive", "move"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_message_purged_under_a_transaction_is_purged_by_its_abort(
    rig: Rig, kind: str, restart: bool
) -> None:
    asked = {
        "negative_journaling_requested": True,
        "acknowledgements_requested": ACK_FULL_RECEIVE,
        "administration_queue_format_name": ADMIN,
    }
    filled(rig, "orders", b"held", **asked)
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    tx, lookup_id = rig.begin(), rig.reads("orders")[0].lookup_id
    if kind == "receive":
        rig.receive(source, transaction=tx)
    else:
        rig.run(lambda m: m.messages.move_message(source, lookup_id, target, tx))
    rig.run(lambda m: m.queues.purge_queue(source))
    assert rig.bodies("orders") == [b"held"]
    if restart:
        rig.restart()
    else:
        rig.abort(tx)
    assert rig.bodies("orders") == []
    assert [m.message_class for m in rig.messages("admin")] == [NACK_QUEUE_PURGED]
    assert rig.reads(DEADXACT)[0].message_class == NACK_QUEUE_PURGED
    rig.restart()
    assert len(rig.reads(DEADXACT)) == 1
    rig.check_books()


def test_messages_purged_under_a_transaction_become_dead_letters_in_queue_order(rig: Rig) -> None:
    """In whatever order they were read; as what an abort returns goes to readers that wait."""
    bodies = [b"1", b"2", b"3"]
    filled(rig, "orders", *bodies, negative_journaling_requested=True)
    source, tx = rig.open("orders", RECEIVE), rig.begin()
    first, second, third = (read.lookup_id for read in rig.reads("orders"))
    for lookup_id in (third, first, second):
        rig.lookup(source, lookup_id, peek=False, transaction=tx)
    rig.run(lambda m: m.queues.purge_queue(source))
    rig.abort(tx)
    assert rig.bodies(DEADXACT) == bodies


@pytest.mark.spec("MS-MQDMPR 3.1.1.11/5", "MS-MQDMPR 3.1.4.4/3")
def test_a_message_purged_under_a_transaction_is_received_by_its_commit(rig: Rig) -> None:
    rig.create("kept", transactional=True, journaling=True)
    filled(rig, "kept", b"held", negative_journaling_requested=True)
    source, tx = rig.open("kept", RECEIVE), rig.begin()
    rig.receive(source, transaction=tx)
    rig.run(lambda m: m.queues.purge_queue(source))
    rig.commit(tx)
    assert (rig.bodies("kept"), rig.bodies(DEADXACT)) == ([], [])
    assert rig.bodies("kept;journal") == [b"held"]
    rig.restart()
    assert rig.bodies("kept;journal") == [b"held"]
    rig.check_books()


def test_a_purge_does_not_touch_what_is_not_committed_yet(rig: Rig) -> None:
    """Choice: an uncommitted send is in no queue yet, so that no purge finds it there."""
    tx = rig.begin()
    rig.send("orders", b"later", tx=tx)
    source = rig.open("orders", RECEIVE)
    assert rig.run(lambda m: m.queues.purge_queue(source)) == 0
    rig.commit(tx)
    assert rig.bodies("orders") == [b"later"]


def test_a_batch_that_would_be_too_many_operations_takes_no_message() -> None:
    rig = Rig(operations_max=3)
    rig.create("orders", transactional=True)
    for name in ("one", "two"):
        sends = rig.begin(name)
        for text in (b"a", b"b"):
            rig.send("orders", text, tx=sends)
        rig.commit(sends)
    tx, source = rig.begin("reads"), rig.open("orders", RECEIVE)
    with pytest.raises(InsufficientResources):
        rig.run(lambda m: m.messages.dequeue_messages(source, 4, tx))
    assert (tx.operations, rig.queue("orders").locked) == ([], 0)
    assert len(rig.run(lambda m: m.messages.dequeue_messages(source, 3, tx))) == 3
