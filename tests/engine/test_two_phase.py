"""Two-phase transactions: prepared work survives, and only its coordinator ends it."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import CHANGE, MESSAGE, TABLE_TRANSACTION
from posthouse.engine.transactions.transaction import (
    OperationType,
    Transaction,
    TransactionState,
    Vote,
)
from posthouse.model.errors import QueueQuotaExceeded, TransactionSequence
from posthouse.model.message import ACK_POS_RECEIVE, NACK_RECEIVE_REJECTED
from posthouse.runtime.driver import Answer
from posthouse.wire.packet.message import deserialize
from tests.engine.rig import MOVE, RECEIVE, START_UTC, Rig

COORDINATOR = b"coordinator one"


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.create("orders", transactional=True)
    rig.create("bills", transactional=True)
    tx = rig.begin("filling")
    for body in (b"read", b"moved", b"stays"):
        rig.send("orders", body, tx=tx)
    rig.commit(tx)
    return rig


def prepare(rig: Rig, tx: Transaction) -> Vote:
    return rig.run(lambda m: m.transactions.collection.prepare_for(COORDINATOR, tx.identifier))


def work(rig: Rig, tx: Transaction) -> None:
    """A send, a receive and a move."""
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    moved = rig.reads("orders")[1].lookup_id
    rig.send("bills", b"sent", tx=tx)
    rig.receive(source, transaction=tx)
    rig.run(lambda m: m.messages.move_message(source, moved, target, tx))


def check_committed(rig: Rig) -> None:
    assert rig.bodies("bills") == [b"sent"]
    assert rig.bodies("orders") == [b"stays"]
    assert rig.bodies("orders;parked") == [b"moved"]


def check_aborted(rig: Rig) -> None:
    assert rig.bodies("bills") == []
    assert rig.bodies("orders") == [b"read", b"moved", b"stays"]
    assert rig.reads("orders")[0].aborts == 1


def check_in_doubt(rig: Rig, tx: Transaction) -> Transaction:
    """Nobody sees the sends, nobody gets what it holds."""
    (held,) = rig.manager.transactions.in_doubt()
    assert (held.identifier, held.coordinator) == (tx.identifier, COORDINATOR)
    assert held.state is TransactionState.PREPARED
    assert rig.bodies("bills") == []
    assert deserialize(rig.peek("orders").packet).body == b"stays"
    return held


@pytest.mark.spec(
    "MS-MQDMPR 3.1.4.3/5",
    "MS-MQDMPR 3.1.4.6/1",
    "MS-MQDMPR 3.1.4.9/1",
    "MS-MQDMPR 3.1.1.13/1",
    "MS-MQDMPR 3.1.1.14/1",
    "MS-MQDMPR 3.1.1.14/3",
    "MS-MQDMPR 3.1.3/20",
)
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_prepared_transaction_is_committed_before_or_after_a_restart(
    rig: Rig, restarts: int
) -> None:
    tx = rig.begin()
    work(rig, tx)
    kinds = [(o.kind, o.queue, o.number, o.reason) for o in tx.operations]
    assert prepare(rig, tx) is Vote.PREPARED
    for _ in range(restarts):
        rig.restart()
        held = check_in_doubt(rig, tx)
        assert [(o.kind, o.queue, o.number, o.reason) for o in held.operations] == kinds
        assert (held.number, held.prepared_at) == (tx.number, START_UTC)
    check_in_doubt(rig, tx)
    rig.commit(tx)
    check_committed(rig)
    rig.restart()
    check_committed(rig)
    assert rig.manager.transactions.in_doubt() == []
    assert rig.manager.ledger.state.of_table(TABLE_TRANSACTION) == []
    rig.check_books()


@pytest.mark.spec(
    "MS-MQDMPR 3.1.4.3/5", "MS-MQDMPR 3.1.4.8/1", "MS-MQDMPR 3.1.4.10/1", "MS-MQDMPR 3.1.3/20"
)
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_prepared_transaction_is_aborted_before_or_after_a_restart(
    rig: Rig, restarts: int
) -> None:
    tx = rig.begin()
    work(rig, tx)
    prepare(rig, tx)
    for _ in range(restarts):
        rig.restart()
    check_in_doubt(rig, tx)
    rig.abort(tx)
    check_aborted(rig)
    assert rig.manager.ledger.reserved == rig.queue("bills").reserved == 0
    rig.restart()
    check_aborted(rig)
    assert rig.manager.transactions.in_doubt() == []
    assert not rig.manager.ledger.state.pending
    rig.check_books()


def test_what_is_in_doubt_after_a_restart_is_told_to_the_operator(rig: Rig) -> None:
    prepare(rig, rig.begin())
    assert rig.events == []
    rig.restart()
    assert [event.name for event in rig.events] == ["transaction_in_doubt"]


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_decision_counts_once(rig: Rig, end: str, restart: bool) -> None:
    tx = rig.begin()
    work(rig, tx)
    prepare(rig, tx)
    rig.run(lambda m: getattr(m.transactions.collection, end)(tx.identifier))
    if restart:
        rig.restart()
    for again in (rig.commit, rig.abort):
        with rig.refused(TransactionSequence.code, "unknown or has ended"):
            again(tx)


def test_a_transaction_is_prepared_once_and_for_one_coordinator(rig: Rig) -> None:
    tx = rig.begin()
    work(rig, tx)
    prepare(rig, tx)
    with rig.refused(TransactionSequence.code, "prepared already"):
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier))
    assert (
        rig.decide(
            lambda m: m.transactions.collection.prepare_for(COORDINATOR, tx.identifier)
        ).records
        == []
    )
    with rig.refused(TransactionSequence.code, "another coordinator"):
        rig.run(lambda m: m.transactions.collection.prepare_for(b"somebody else", tx.identifier))
    check_in_doubt(rig, tx)


@pytest.mark.spec("MS-MQDMPR 3.1.4.6/3")
def test_a_transaction_that_cannot_be_prepared_votes_for_the_abort(rig: Rig) -> None:
    tx = rig.begin()
    work(rig, tx)
    rig.advance(60)
    assert prepare(rig, tx) is Vote.ABORTED
    check_aborted(rig)
    rig.restart()
    assert prepare(rig, tx) is Vote.ABORTED


@pytest.mark.spec("MS-MQDMPR 3.1.4.6/1", "MS-MQDMPR 3.1.4.7/1", "MS-MQDMPR 3.1.4.8/1")
@pytest.mark.parametrize("decision", ["commit", "abort"])
def test_a_coordinator_is_answered_after_the_sync_only(rig: Rig, decision: str) -> None:
    tx, answers = rig.begin(), list[Answer]()
    work(rig, tx)

    def answered(call: Any) -> bool:
        answers.clear()
        rig.driver.begin_turn()
        rig.driver.decide(call, answers.append)
        rig.driver.end_turn()
        rig.driver.release()
        early = bool(answers)
        rig.driver.sync()
        rig.driver.release()
        return not early and answers[0].error is None

    assert answered(lambda m: m.transactions.collection.prepare_for(COORDINATOR, tx.identifier))
    assert answered(lambda m: getattr(m.transactions.collection, decision)(tx.identifier))


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/7")
def test_prepare_and_commit_are_one_change_record_each(rig: Rig) -> None:
    tx = rig.begin()
    work(rig, tx)
    effects = rig.decide(
        lambda m: m.transactions.collection.prepare_for(COORDINATOR, tx.identifier)
    )
    assert [record[0] for record in effects.records] == [MESSAGE, CHANGE]
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    assert [record[0] for record in effects.records] == [CHANGE]


def test_prepared_transactions_wait_for_ever(rig: Rig) -> None:
    owner = object()
    tx = rig.begin(owner=owner)
    work(rig, tx)
    prepare(rig, tx)
    rig.advance(100_000)
    rig.run(lambda m: m.end_session(owner))
    check_in_doubt(rig, tx)
    assert rig.manager.transactions.collection.next_deadline_ms() is None


def test_prepared_sends_keep_their_room_over_a_restart() -> None:
    rig = Rig()
    rig.create("small", transactional=True, quota_kib=1)
    tx = rig.begin()
    rig.send("small", bytes(500), tx=tx)
    prepare(rig, tx)
    rig.restart()
    out, other = rig.open("small"), rig.begin("other")
    rig.send(rig.open(r"DIRECT=OS:BETA\private$\q"), tx=other)
    with rig.refused(QueueQuotaExceeded.code):
        rig.send(out, bytes(500), tx=other)
    rig.abort(tx)
    rig.send(out, bytes(500), tx=other)


def test_a_new_transaction_does_not_get_the_number_of_one_in_doubt(rig: Rig) -> None:
    tx = rig.begin()
    prepare(rig, tx)
    rig.restart()
    assert rig.begin("new").number == tx.number + 1
    with rig.refused(TransactionSequence.code, "exists already"):
        rig.begin()


@pytest.mark.parametrize("restart", [False, True])
def test_a_prepared_receive_keeps_its_reason_and_its_requests(rig: Rig, restart: bool) -> None:
    rig.create("admin")
    filling = rig.begin("filling")
    rig.send("bills", b"x", tx=filling, negative_journaling_requested=True)
    rig.commit(filling)
    source, tx = rig.open("bills", RECEIVE), rig.begin()
    lookup_id = rig.receive(source, transaction=tx).read.lookup_id
    rig.run(
        lambda m: m.messages.dequeue_message_end(
            source, lookup_id, positive=True, message_class=NACK_RECEIVE_REJECTED
        )
    )
    rig.send(
        "bills",
        b"new",
        tx=tx,
        acknowledgements_requested=ACK_POS_RECEIVE,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\admin",
        application_deadletter_queue=r".\private$\admin",
    )
    prepare(rig, tx)
    if restart:
        rig.restart()
    rig.commit(tx)
    (dead,) = rig.reads(r".\system$;deadxact")
    assert dead.message_class == NACK_RECEIVE_REJECTED
    (new,) = rig.reads("bills")
    assert rig.manager.ledger.extra(new.number).dead_letter == r".\private$\admin"
    rig.receive("bills")
    assert len(rig.messages("admin")) == 1


def test_a_crash_may_take_an_express_message_from_a_prepared_transaction(rig: Rig) -> None:
    """Journals hold copies of express messages, and transactions may read journals."""
    rig.create("loose", journaling=True)
    rig.send("loose", b"express", recoverable=False)
    rig.receive("loose")
    tx = rig.begin()
    rig.receive("loose;journal", transaction=tx)
    rig.send("bills", b"sent", tx=tx)
    prepare(rig, tx)
    rig.restart()
    (held,) = rig.manager.transactions.in_doubt()
    assert OperationType.ENQUEUE in [operation.kind for operation in held.operations]
    rig.commit(tx)
    assert rig.bodies("bills") == [b"sent"]
    rig.check_books()
