"""Crashes between any two records, large transactions, and queues deleted under transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from posthouse.engine.ledger.records import CHANGE, MESSAGE, TABLE_TRANSACTION
from posthouse.engine.queues.open_queues import QueueAccessType
from posthouse.engine.queues.queue import JOB_FILES
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import QueueDeleted
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    ACK_POS_ARRIVAL,
    NACK_QUEUE_DELETED,
    Message,
)
from posthouse.wire.packet.message import deserialize
from tests.engine.paper import Paper
from tests.engine.rig import MOVE, RECEIVE, Rig

SEND = QueueAccessType.SEND
ORDERS, BILLS, ADMIN = (rf".\private$\{name}" for name in ("orders", "bills", "admin"))
JOURNAL, PARKED = ORDERS + ";journal", ORDERS + ";parked"
DEADXACT = r".\system$;deadxact"
ASKING: dict[str, Any] = {
    "acknowledgements_requested": ACK_FULL_RECEIVE | ACK_POS_ARRIVAL,
    "administration_queue_format_name": r"DIRECT=OS:ALPHA\private$\admin",
    "positive_journaling_requested": True,
    "negative_journaling_requested": True,
}


# -- crashes


def decide(paper: Paper, event: str, identifier: bytes, **options: Any) -> None:
    paper.run(lambda m: getattr(m.transactions.collection, event)(identifier, **options))


class Trade:
    """A transaction that sends to two queues and abroad, receives and moves, on paper."""

    def __init__(self, **settings: Any) -> None:
        self.paper = paper = Paper(**settings)
        paper.create(ORDERS, transactional=True, journaling=True)
        paper.create(BILLS, transactional=True)
        paper.create(ADMIN)
        self.identifier = b"the transaction."
        filling = paper.run(lambda m: m.transactions.create_transaction(b"filling up first"))
        for body in (b"read", b"moved", b"stays"):
            self.send(ORDERS, body, filling)
        paper.run(lambda m: m.transactions.transaction_commit(filling.identifier))
        self.start = len(paper.log)
        self.transaction = paper.run(lambda m: m.transactions.create_transaction(self.identifier))
        self.work()

    def send(self, path: str, body: bytes, transaction: Transaction) -> None:
        handle, message = self.paper.open(path, SEND), Message(body=body, **ASKING)
        self.paper.run(
            lambda m: m.messages.enqueue_message_to_an_open_queue(handle, message, transaction)
        )

    def work(self) -> None:
        paper, transaction = self.paper, self.transaction
        source, target = paper.open(ORDERS, RECEIVE), paper.open(PARKED, MOVE)
        self.send(BILLS, b"sent", transaction)
        paper.run(
            lambda m: m.messages.dequeue_message(source, timeout_ms=0, transaction=transaction)
        )
        place, _ = list(source.target().state.order.forward())[1]
        paper.run(lambda m: m.messages.move_message(source, place.lookup_id, target, transaction))
        self.send(r"DIRECT=OS:BETA\private$\orders", b"abroad", transaction)
        self.send(BILLS, b"sent too", transaction)

    def end(self, event: str, **options: Any) -> None:
        decide(self.paper, event, self.identifier, **options)

    def cuts(self) -> Iterator[tuple[int, Paper]]:
        """What starts after a crash behind each record of the transaction."""
        for length in range(self.start, len(self.paper.log) + 1):
            survivor = self.paper.cut(length)
            survivor.check()
            yield length, survivor


def seen(paper: Paper) -> dict[str, list[bytes]]:
    """The bodies of all queues."""
    found = {}
    for queue in paper.manager.queues.all():
        numbers = [number for _, number in queue.state.order.forward()]
        found[queue.name] = [deserialize(paper.packets[n]).body for n in numbers]
    return {name: bodies for name, bodies in found.items() if bodies}


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/7", "MS-MQDMPR 3.1.3/21")
@pytest.mark.parametrize("event", ["commit", "abort"])
@pytest.mark.parametrize("buffer", [8 << 20, 300, 0])
def test_a_crash_behind_any_record_leaves_all_of_a_transaction_or_nothing(
    event: str, buffer: int
) -> None:
    trade = Trade(transactions_buffer=buffer)
    before = seen(trade.paper)
    trade.end(event)
    after = seen(trade.paper)
    assert (before == after) is (event == "abort")
    outcomes = [seen(survivor) for _, survivor in trade.cuts()]
    assert outcomes[0] == before
    assert outcomes[-1] == after
    changed = outcomes.index(after) if event == "commit" else 0
    assert outcomes == [before] * changed + [after] * (len(outcomes) - changed)


@pytest.mark.spec("MS-MQDMPR 3.1.4.3/5", "MS-MQDMPR 3.1.4.4/7", "MS-MQDMPR 3.1.1.13/1")
@pytest.mark.parametrize("event", ["commit", "abort"])
@pytest.mark.parametrize("buffer", [8 << 20, 300])
def test_a_crash_behind_any_record_of_two_phases_can_still_go_either_way(
    event: str, buffer: int
) -> None:
    trade = Trade(transactions_buffer=buffer)
    before = seen(trade.paper)
    trade.end("prepare", single_phase=False)
    prepared = len(trade.paper.log)
    trade.end(event)
    after = seen(trade.paper)
    decided = len(trade.paper.log)
    for length, survivor in trade.cuts():
        assert seen(survivor) == (after if length == decided else before)
        assert len(survivor.manager.transactions.in_doubt()) == (prepared <= length < decided)
        if survivor.manager.transactions.in_doubt():
            decide(survivor, event, trade.identifier)
            survivor.check()
            assert seen(survivor) == after
            assert survivor.manager.ledger.state.of_table(TABLE_TRANSACTION) == []


def test_a_prepared_transaction_survives_crash_after_crash() -> None:
    trade = Trade()
    trade.end("prepare", single_phase=False)
    paper = trade.paper
    for _ in range(3):
        paper = paper.cut(len(paper.log))
        paper.check()
        assert len(paper.manager.transactions.in_doubt()) == 1
    paper.run(lambda m: m.transactions.transaction_commit(trade.identifier))
    assert paper.bodies(BILLS) == [b"sent", b"sent too"]


# -- transactions too large for memory


def test_a_large_transaction_is_appended_as_it_comes() -> None:
    rig = Rig(transactions_buffer=1000)
    rig.create("orders", transactional=True)
    out, tx, first = rig.open("orders"), rig.begin(), rig.begin("first")
    rig.send(out, tx=first)
    rig.commit(first)
    rig.receive("orders")
    rig.send(out, bytes(400), tx=tx)
    assert not rig.manager.ledger.state.pending
    message = Message(body=bytes(400))
    effects = rig.decide(lambda m: m.messages.enqueue_message_to_an_open_queue(out, message, tx))
    assert [record[0] for record in effects.records] == [MESSAGE, MESSAGE]
    effects = rig.decide(lambda m: m.messages.enqueue_message_to_an_open_queue(out, message, tx))
    assert [record[0] for record in effects.records] == [MESSAGE]
    assert {sends.batch for sends in tx.sends()} == {None}
    assert len(rig.manager.ledger.state.pending) == 3
    assert rig.bodies("orders") == []
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    assert [record[0] for record in effects.records] == [CHANGE]
    assert rig.bodies("orders") == [bytes(400)] * 3


@pytest.mark.spec("MS-MQDMPR 3.1.3/21")
def test_a_large_transaction_that_was_not_committed_vanishes_in_a_crash() -> None:
    rig = Rig(transactions_buffer=0)
    rig.create("orders", transactional=True)
    tx = rig.begin()
    for _ in range(5):
        rig.send("orders", b"lost", tx=tx)
    rig.restart()
    core = rig.manager.ledger
    assert (rig.bodies("orders"), set(core.state.pending), len(core.state.table)) == ([], set(), 0)
    rig.restart()
    assert len(rig.manager.ledger.state.table) == 0


# -- queues deleted under transactions


@pytest.fixture(params=[8 << 20, 0])
def rig(request: pytest.FixtureRequest) -> Rig:
    rig = Rig(transactions_buffer=request.param)
    rig.create("admin")
    rig.create("orders", transactional=True, journaling=True)
    return rig


def delete(rig: Rig, name: str = "orders") -> None:
    rig.run(lambda m: m.queues.delete_queue(rf".\private$\{name}", rig.admin))


def nothing_left(rig: Rig) -> bool:
    """Whether the deleted queue is forgotten, with the rows of its messages."""
    core = rig.manager.ledger
    known = {JOB_FILES, *(queue.number for queue in rig.manager.queues.all())}
    rows = {row.queue for _, row in core.state.table.items()}
    return set(core.queues) == known and rows <= known and not core.deleted_queues


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_sends_to_a_queue_that_was_deleted_become_dead_letters(
    rig: Rig, prepared: bool, restart: bool
) -> None:
    tx = rig.begin()
    rig.send("orders", b"kept", tx=tx, **ASKING)
    rig.send("orders", b"dropped", tx=tx)
    if prepared:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    delete(rig)
    rig.create("orders", transactional=True)  # another queue of the same name
    if restart and prepared:
        rig.restart()
    rig.commit(tx)
    assert rig.bodies("orders") == []
    assert rig.bodies(DEADXACT) == [b"kept"]
    assert rig.reads(DEADXACT)[0].message_class == NACK_QUEUE_DELETED
    assert [m.message_class for m in rig.messages("admin")] == [NACK_QUEUE_DELETED]
    assert rig.manager.ledger.reserved == 0
    assert nothing_left(rig)
    rig.restart()
    assert rig.bodies(DEADXACT) == [b"kept"]
    assert nothing_left(rig)
    rig.check_books()


def test_an_abort_forgets_sends_to_a_queue_that_was_deleted(rig: Rig) -> None:
    tx = rig.begin()
    rig.send("orders", b"x", tx=tx, **ASKING)
    delete(rig)
    rig.abort(tx)
    assert (rig.bodies(DEADXACT), rig.bodies("admin")) == ([], [])
    assert nothing_left(rig)
    assert rig.manager.ledger.reserved == 0


@pytest.mark.parametrize("end", ["commit", "abort", "crash"])
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("restart", [False, True])
def test_a_message_held_while_its_queue_is_deleted_ends_with_its_transaction(
    rig: Rig, end: str, prepared: bool, restart: bool
) -> None:
    filling = rig.begin("filling")
    rig.send("orders", b"held", tx=filling, **ASKING)
    rig.commit(filling)
    rig.run(lambda m: m.queues.purge_queue(m.queues.open_queue(ADMIN, RECEIVE, rig.admin)))
    tx, source = rig.begin(), rig.open("orders", RECEIVE)
    waiting = rig.wait(rig.open("orders", RECEIVE), "peek_message")
    answered = len(waiting)
    rig.receive(source, transaction=tx)
    if prepared:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    delete(rig)
    assert answered == 1 or isinstance(waiting[0].error, QueueDeleted)
    if end == "crash" and not prepared:
        rig.restart()
    else:
        if restart and prepared:
            rig.restart()
        event = "abort" if end == "crash" else end
        rig.run(lambda m: getattr(m.transactions.collection, event)(tx.identifier))
    received = end == "commit"
    assert rig.bodies(DEADXACT) == ([] if received else [b"held"])
    assert len(rig.messages("admin")) == 1
    assert nothing_left(rig)
    rig.restart()
    assert rig.bodies(DEADXACT) == ([] if received else [b"held"])
    assert nothing_left(rig)
    rig.check_books()


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_move_in_a_queue_family_that_is_deleted_ends_as_its_messages_do(
    rig: Rig, end: str
) -> None:
    filling = rig.begin("filling")
    rig.send("orders", b"moving", tx=filling, negative_journaling_requested=True)
    rig.commit(filling)
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    tx, lookup_id = rig.begin(), rig.reads("orders")[0].lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target, tx))
    delete(rig)
    rig.run(lambda m: getattr(m.transactions.collection, end)(tx.identifier))
    assert rig.bodies(DEADXACT) == [b"moving"]
    assert nothing_left(rig)
    rig.check_books()


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_subqueue_stays_while_a_transaction_is_going_to_move_messages_there(
    rig: Rig, end: str, restart: bool
) -> None:
    filling = rig.begin("filling")
    rig.send("orders", b"moving", tx=filling)
    rig.commit(filling)
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    tx, lookup_id = rig.begin(), rig.reads("orders")[0].lookup_id
    rig.run(lambda m: m.messages.move_message(source, lookup_id, target, tx))
    rig.close(target)
    if restart:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
        rig.restart()
    rig.run(lambda m: getattr(m.transactions.collection, end)(tx.identifier))
    names = [queue.name for queue in rig.manager.queues.all()]
    if end == "commit":
        assert (rig.bodies("orders"), rig.bodies("orders;parked")) == ([], [b"moving"])
    else:
        assert rig.bodies("orders") == [b"moving"]
        assert r"ALPHA\private$\orders;parked" not in names
    rig.check_books()
