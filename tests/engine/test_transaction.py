"""Transactions: nothing before the commit, everything with it, nothing after an abort."""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.ledger.records import (
    CHANGE,
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    MESSAGE,
    unpack_arrival,
    unpack_change,
)
from posthouse.engine.transactions.transaction import OperationType, TransactionState
from posthouse.model.errors import (
    InsufficientResources,
    IoTimeout,
    OperationCancelled,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.message import (
    ACK_FULL_RECEIVE,
    ACK_POS_ARRIVAL,
    ACK_RECEIVE,
    NACK_RECEIVE_REJECTED,
    DeliveryGuarantee,
)
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.sequence_places import place_of
from tests.engine.cost import steps
from tests.engine.paper import facts
from tests.engine.rig import MOVE, RECEIVE, START_UTC, Rig

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


def marks(rig: Rig, name: str) -> list[str]:
    words = {0: "", FLAG_FIRST: "first", FLAG_LAST: "last", FLAG_FIRST | FLAG_LAST: "both"}
    return [words[read.flags & (FLAG_FIRST | FLAG_LAST)] for read in rig.reads(name)]


def durable(rig: Rig) -> dict[str, Any]:
    """What the log says of messages; the counters behind it move on."""
    known = facts(rig.manager.ledger.state)
    del known["definitions"]
    return known


# -- create


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.8/1")
def test_a_new_transaction_is_empty_and_known_by_its_identifier(rig: Rig) -> None:
    tx = rig.begin("one")
    assert tx.operations == []
    assert rig.manager.transactions.find(tx.identifier) is tx
    rig.commit(tx)
    assert rig.manager.transactions.collection.open == {}


def test_an_identifier_in_use_or_null_is_refused(rig: Rig) -> None:
    rig.begin("one")
    with rig.refused(TransactionSequence.code, "exists already"):
        rig.begin("one")
    with rig.refused(TransactionUsage.code, "not null"):
        rig.run(lambda m: m.transactions.create_transaction(bytes(16)))


def test_open_transactions_and_their_operations_are_limited() -> None:
    rig = Rig(transactions_max=2, operations_max=2)
    rig.create("orders", transactional=True)
    first = rig.begin("one")
    rig.begin("two")
    with rig.refused(InsufficientResources.code, "too many transactions"):
        rig.begin("three")
    rig.send("orders", tx=first)
    rig.send("orders", tx=first)
    out = rig.open("orders")
    with rig.refused(InsufficientResources.code, "too many operations"):
        rig.send(out, tx=first)
    rig.commit(first)
    third, source = rig.begin("three"), rig.open("orders", RECEIVE)
    rig.receive(source, transaction=third)
    rig.receive(source, transaction=third)
    with rig.refused(InsufficientResources.code, "too many operations"):
        rig.receive(source, transaction=third)


def test_numbers_of_transactions_wrap_within_their_twenty_bits(rig: Rig) -> None:
    rig.manager.transactions.collection._numbers = 0xFFFFE
    numbers = [rig.begin(name).number for name in ("one", "two", "three")]
    assert numbers == [0xFFFFF, 1, 2]


# -- commit of sends


@pytest.mark.spec("MS-MQDMPR 3.1.7.1.9/9", "MS-MQDMPR 3.1.4.4/2", "MS-MQDMPR 3.1.4.4/8")
def test_a_send_is_seen_by_nobody_before_its_commit(rig: Rig) -> None:
    answers = rig.wait(rig.open("orders", RECEIVE))
    peeks = rig.wait(rig.open("orders", RECEIVE), "peek_message")
    tx = rig.begin()
    rig.send("orders", b"one", tx=tx)
    (operation,) = tx.operations
    assert (operation.kind, operation.queue) == (OperationType.ENQUEUE, rig.queue("orders").number)
    assert (answers, peeks, rig.bodies("orders")) == ([], [], [])
    with pytest.raises(IoTimeout):
        rig.receive("orders")
    rig.commit(tx)
    assert deserialize(answers[0].packets[0]).body == b"one"
    assert (len(peeks), rig.bodies("orders")) == (0, [])
    assert tx.state is TransactionState.ENDED
    assert rig.manager.transactions.collection.open == {}


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/5")
def test_lookup_identifiers_are_given_at_the_commit_in_its_order(rig: Rig) -> None:
    early, late = rig.begin("early"), rig.begin("late")
    rig.send("orders", b"early 1", tx=early)
    rig.send("orders", b"late", tx=late)
    rig.send("orders", b"early 2", tx=early)
    rig.commit(late)
    (before,) = rig.reads("orders")
    rig.commit(early)
    assert rig.bodies("orders") == [b"late", b"early 1", b"early 2"]
    ids = [read.lookup_id for read in rig.reads("orders")]
    assert ids == [before.lookup_id, before.lookup_id + 1, before.lookup_id + 2]
    rig.restart()
    assert rig.bodies("orders") == [b"late", b"early 1", b"early 2"]


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/6")
def test_a_message_arrives_when_it_is_committed(rig: Rig) -> None:
    tx = rig.begin()
    rig.send("orders", tx=tx)
    rig.advance(30)
    rig.commit(tx)
    assert rig.reads("orders")[0].arrived == START_UTC + 30
    assert rig.messages("orders")[0].sent_time == START_UTC


@pytest.mark.spec("MS-MQDMPR 3.1.1.12/16")
@pytest.mark.parametrize("priority", range(8))
def test_a_transactional_message_has_priority_zero_and_is_recoverable(
    rig: Rig, priority: int
) -> None:
    tx = rig.begin()
    rig.send("orders", tx=tx, priority=priority, recoverable=False)
    rig.commit(tx)
    (read,) = rig.reads("orders")
    assert (read.priority, read.flags & FLAG_TRANSACTIONAL) == (0, FLAG_TRANSACTIONAL)
    rig.restart()
    (message,) = rig.messages("orders")
    assert message.delivery_guarantee == DeliveryGuarantee.RECOVERABLE
    assert message.is_transactional


@pytest.mark.spec("MS-MQMQ 2.2.20.5/3")
@pytest.mark.spec(
    "MS-MQDMPR 3.1.4.3/3", "MS-MQDMPR 3.1.4.3/4", "MS-MQDMPR 3.1.1.12/52", "MS-MQDMPR 3.1.1.14/2"
)
@pytest.mark.parametrize("prepare", [None, True, False])
def test_first_and_last_are_marked_for_each_queue(rig: Rig, prepare: bool | None) -> None:
    filled(rig, "bills", b"taken", b"stays")
    tx = rig.begin()
    rig.receive("bills", transaction=tx)
    for name, body in (("orders", b"1"), ("bills", b"only"), ("orders", b"2"), ("orders", b"3")):
        rig.send(name, body, tx=tx)
    if prepare is not None:
        rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=prepare))
    rig.commit(tx)
    assert marks(rig, "orders") == ["first", "", "last"]
    assert rig.bodies("orders") == [b"1", b"2", b"3"]
    assert (rig.bodies("bills"), marks(rig, "bills")) == ([b"stays", b"only"], ["last", "both"])
    rig.restart()
    assert marks(rig, "orders") == ["first", "", "last"]


@pytest.mark.spec("MS-MQDMPR 3.1.4.3/2")
def test_who_says_nothing_prepares_a_local_transaction_that_may_go_on(rig: Rig) -> None:
    tx = rig.begin()
    rig.send("orders", b"1", tx=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier))
    assert tx.state is TransactionState.ACTIVE
    assert rig.manager.transactions.in_doubt() == []
    rig.send("orders", b"2", tx=tx)
    rig.commit(tx)
    assert marks(rig, "orders") == ["first", "last"]
    other = rig.begin("other")
    rig.run(lambda m: m.transactions.collection.prepare(other.identifier, single_phase=False))
    assert rig.manager.transactions.in_doubt() == [other]


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/7", "MS-MQDMPR 3.1.1.14/2")
def test_a_commit_over_several_queues_is_one_change_record(rig: Rig) -> None:
    filled(rig, "bills", b"taken")
    tx = rig.begin()
    rig.send("orders", b"1", tx=tx, positive_journaling_requested=True)
    rig.receive("bills", transaction=tx)
    rig.send("bills", b"2", tx=tx)
    effects = rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier))
    kinds = [record[0] for record in effects.records]
    assert kinds.count(CHANGE) == 1
    assert kinds == [MESSAGE] * 3 + [CHANGE]  # two sends and a journal copy
    rows = [unpack_arrival(r[2] + r[3]).row.lookup_id for r in effects.records[:3]]
    assert rows == [0, 0, 0]
    change = unpack_change(effects.records[-1][2])
    assert [run.length for run in change.published if run.lookup_id] == [1] * 3
    assert [number for number, _ in change.ends] == [tx.operations[1].number]


def test_an_empty_transaction_leaves_no_record(rig: Rig) -> None:
    tx = rig.begin()
    assert rig.decide(lambda m: m.transactions.transaction_commit(tx.identifier)).records == []
    tx = rig.begin()
    assert rig.decide(lambda m: m.transactions.transaction_abort(tx.identifier)).records == []


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/6", "MS-MQDMPR 3.1.1.12/49")
def test_outgoing_sequence_numbers_are_given_in_order_of_the_commits(rig: Rig) -> None:
    name = r"DIRECT=OS:BETA\private$\orders"
    out = rig.open(name)
    early, late, never = rig.begin("early"), rig.begin("late"), rig.begin("never")
    for body, tx in ((b"e1", early), (b"n", never), (b"l1", late), (b"e2", early)):
        rig.send(out, body, tx=tx)
    rig.abort(never)
    rig.commit(late)
    rig.commit(early)

    def sequence() -> list[tuple[bytes, int, int]]:
        number = rig.open(name).target().number
        sender = rig.run(lambda m: m.transfer.begin_sending(number))
        taken = rig.run(lambda m: sender.take(100, 1 << 20))
        assert len({place_of(out.packet)[0] for out in taken}) == 1
        return [(deserialize(out.packet).body, *place_of(out.packet)[1:]) for out in taken]

    assert sequence() == [(b"l1", 1, 0), (b"e1", 2, 1), (b"e2", 3, 2)]
    rig.restart()
    assert sequence() == [(b"l1", 1, 0), (b"e1", 2, 1), (b"e2", 3, 2)]
    again = rig.begin("again")
    rig.send(name, b"a", tx=again)
    rig.commit(again)
    assert sequence()[-1] == (b"a", 4, 3)


def test_a_message_whose_time_ran_out_before_the_commit_never_appears(rig: Rig) -> None:
    answers = rig.wait(rig.open("orders", RECEIVE))
    tx = rig.begin()
    rig.send("orders", b"late", tx=tx, time_to_be_received=5, negative_journaling_requested=True)
    rig.advance(5)
    rig.commit(tx)
    assert (rig.bodies("orders"), answers) == ([], [])
    assert rig.bodies(DEADXACT) == [b"late"]
    rig.restart()
    assert rig.bodies(DEADXACT) == [b"late"]
    rig.check_books()


# -- commit of receives and moves


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/3", "MS-MQDMPR 3.1.1.13/2")
def test_a_committed_receive_removes_the_message_with_its_reason(rig: Rig) -> None:
    asked = {
        "acknowledgements_requested": ACK_FULL_RECEIVE,
        "administration_queue_format_name": ADMIN,
    }
    filled(rig, "orders", b"read", b"rejected", **asked)
    tx, source = rig.begin(), rig.open("orders", RECEIVE)
    rig.receive(source, transaction=tx)
    rejected = rig.receive(source, transaction=tx).read.lookup_id
    rig.run(
        lambda m: m.messages.dequeue_message_end(
            source, rejected, positive=True, message_class=NACK_RECEIVE_REJECTED
        )
    )
    assert [operation.reason for operation in tx.operations] == [
        ACK_RECEIVE,
        NACK_RECEIVE_REJECTED,
    ]
    assert rig.bodies("admin") == []
    rig.commit(tx)
    assert rig.bodies("orders") == []
    classes = [message.message_class for message in rig.messages("admin")]
    assert classes == [ACK_RECEIVE, NACK_RECEIVE_REJECTED]
    rig.restart()
    assert rig.bodies("orders") == []
    rig.check_books()


@pytest.mark.spec("MS-MQDMPR 3.1.4.4/4", "MS-MQDMPR 3.1.4.4/5", "MS-MQDMPR 3.1.1.13/2")
def test_a_committed_move_puts_the_message_into_its_target(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2")
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    answers = rig.wait(rig.open("orders;parked", RECEIVE))
    tx, old = rig.begin(), rig.reads("orders")[0].lookup_id
    rig.run(lambda m: m.messages.move_message(source, old, target, tx))
    (operation,) = tx.operations
    assert (operation.kind, operation.queue) == (OperationType.MOVE, target.target().number)
    assert (rig.bodies("orders;parked"), answers) == ([], [])
    rig.commit(tx)
    assert rig.bodies("orders") == [b"2"]
    read = answers[0].value
    assert read is not None
    assert read.lookup_id > old
    assert deserialize(answers[0].packets[0]).body == b"1"


def test_operations_are_applied_in_the_order_they_came(rig: Rig) -> None:
    filled(rig, "orders", b"old")
    tx = rig.begin()
    rig.receive("orders", transaction=tx)
    rig.send("orders", b"new", tx=tx)
    rig.send("bills", b"bill", tx=tx)
    rig.commit(tx)
    assert (rig.bodies("orders"), rig.bodies("bills")) == ([b"new"], [b"bill"])


def test_the_end_of_a_read_costs_the_same_in_a_long_transaction() -> None:
    costs = [costs_of_ends(count) for count in (0, 200)]
    assert costs[0] == costs[1]


def costs_of_ends(others: int) -> list[int]:
    """What a rejection and a refusal take, behind and in front of other reads."""
    rig = Rig()
    rig.create("orders", transactional=True)
    filled(rig, "orders", *[b"%d" % number for number in range(others + 2)])
    tx, source, reading = rig.begin(), rig.open("orders", RECEIVE), rig.manager.messages.reading
    reads = [rig.receive(source, transaction=tx).read.lookup_id for _ in range(others + 2)]
    rejected = {"positive": True, "message_class": NACK_RECEIVE_REJECTED}
    costs = [
        steps(lambda: reading.end(source, [reads[0]], **rejected)),
        steps(lambda: reading.end(source, [reads[-1]], **rejected)),
        steps(lambda: reading.end(source, [reads[0]], positive=False)),
    ]
    assert [o.number for o in tx.operations] == [r.number for r in rig.reads("orders")[1:]]
    return costs


def test_a_message_refused_and_read_again_is_last_in_its_transaction(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2")
    tx, source = rig.begin(), rig.open("orders", RECEIVE)
    first, second = (rig.receive(source, transaction=tx).read for _ in range(2))
    rig.run(lambda m: m.messages.dequeue_message_end(source, first.lookup_id, positive=False))
    assert rig.receive(source, transaction=tx).read.number == first.number
    assert [operation.number for operation in tx.operations] == [second.number, first.number]
    rig.abort(tx)
    assert rig.bodies("orders") == [b"1", b"2"]


def test_a_transaction_reads_transactional_queues_only(rig: Rig) -> None:
    rig.create("loose")
    rig.send("loose")
    tx, source = rig.begin(), rig.open("loose", RECEIVE)
    with rig.refused(TransactionUsage.code):
        rig.receive(source, transaction=tx)
    assert tx.operations == []


# -- abort


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/4", "MS-MQDMPR 3.1.4.5/6")
@pytest.mark.parametrize("buffer", [8 << 20, 0])
def test_an_aborted_send_leaves_no_trace(buffer: int) -> None:
    rig = Rig(transactions_buffer=buffer)
    rig.create("orders", transactional=True, journaling=True)
    rig.create("admin")
    answers = rig.wait(rig.open("orders", RECEIVE))
    tx, before = rig.begin(), durable(rig)
    rig.send(
        "orders",
        b"never",
        tx=tx,
        acknowledgements_requested=ACK_FULL_RECEIVE | ACK_POS_ARRIVAL,
        administration_queue_format_name=ADMIN,
        positive_journaling_requested=True,
        negative_journaling_requested=True,
        application_deadletter_queue=r".\private$\admin",
    )
    rig.send(r"DIRECT=OS:BETA\private$\q", b"never", tx=tx)
    rig.abort(tx)
    assert (durable(rig), answers) == (before, [])
    assert rig.manager.ledger.reserved == 0
    assert rig.manager.transactions.collection.open == {}
    rig.restart()
    assert durable(rig) == before


@pytest.mark.spec("MS-MQDMPR 3.1.4.5/2", "MS-MQDMPR 3.1.4.5/5")
def test_an_abort_returns_what_was_read_or_moved_to_its_old_place(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2", b"3")
    before, size = rig.reads("orders"), rig.queue("orders").state.bytes
    source, target = rig.open("orders", RECEIVE), rig.open("orders;parked", MOVE)
    tx = rig.begin()
    rig.receive(source, transaction=tx)
    rig.run(lambda m: m.messages.move_message(source, before[1].lookup_id, target, tx))
    assert deserialize(rig.peek("orders").packet).body == b"3"
    rig.abort(tx)
    assert rig.bodies("orders") == [b"1", b"2", b"3"]
    assert [r.lookup_id for r in rig.reads("orders")] == [r.lookup_id for r in before]
    assert rig.queue("orders").state.bytes == rig.manager.ledger.state.bytes == size
    assert rig.bodies("orders;parked") == []
    assert rig.queue("orders;parked").reserved == 0
    rig.check_books()


def test_each_abort_of_a_receive_is_counted_and_kept(rig: Rig) -> None:
    filled(rig, "orders", b"poison")
    for number in range(3):
        tx = rig.begin(str(number))
        assert rig.receive("orders", transaction=tx).read.aborts == number
        rig.abort(tx)
    rig.restart()
    assert rig.reads("orders")[0].aborts == 3
    tx = rig.begin("last")
    rig.receive("orders", transaction=tx)
    rig.restart()
    assert rig.reads("orders")[0].aborts == 3  # a crash is not an abort


def test_the_abort_counter_stays_at_its_limit(rig: Rig) -> None:
    filled(rig, "orders", b"poison")
    core, (read,) = rig.manager.ledger, rig.reads("orders")
    row = rig.manager.messages.row(read.number)._replace(aborts=0xFFFF)
    rig.decide(lambda m: core.settle(read.number, row, 0, None))
    tx = rig.begin()
    rig.receive("orders", transaction=tx)
    rig.abort(tx)
    assert rig.reads("orders")[0].aborts == 0xFFFF


def test_what_an_abort_returns_goes_to_a_waiting_reader_in_queue_order(rig: Rig) -> None:
    filled(rig, "orders", b"1", b"2")
    source, tx = rig.open("orders", RECEIVE), rig.begin()
    first, second = (read.lookup_id for read in rig.reads("orders"))
    for lookup_id in (second, first):
        rig.lookup(source, lookup_id, peek=False, transaction=tx)
    answers = rig.wait(rig.open("orders", RECEIVE))
    rig.abort(tx)
    assert deserialize(answers[0].packets[0]).body == b"1"


def test_a_reader_that_waited_longest_is_served_by_a_commit_first(rig: Rig) -> None:
    waits = [rig.wait(rig.open("orders", RECEIVE)) for _ in range(3)]
    tx = rig.begin()
    rig.send("orders", b"1", tx=tx)
    rig.send("orders", b"2", tx=tx)
    rig.commit(tx)
    got = [[deserialize(a.packets[0]).body for a in answers] for answers in waits]
    assert got == [[b"1"], [b"2"], []]


def test_a_waiting_reader_in_a_transaction_gets_the_message_locked(rig: Rig) -> None:
    mine, sender = rig.begin("mine"), rig.begin("sender")
    answers = rig.wait(rig.open("orders", RECEIVE), transaction=mine)
    rig.send("orders", b"x", tx=sender)
    rig.commit(sender)
    assert len(answers) == 1
    assert [operation.kind for operation in mine.operations] == [OperationType.DEQUEUE]
    rig.abort(mine)
    assert rig.reads("orders")[0].aborts == 1


@pytest.mark.parametrize("end", ["commit", "abort", "prepare"])
def test_a_read_that_waits_in_a_transaction_ends_with_it(rig: Rig, end: str) -> None:
    tx = rig.begin()
    answers = rig.wait(rig.open("orders", RECEIVE), transaction=tx)
    rig.run(lambda m: getattr(m.transactions.collection, end)(tx.identifier))
    assert isinstance(answers[0].error, OperationCancelled)
    filled(rig, "orders", b"nobody waits")
    assert rig.bodies("orders") == [b"nobody waits"]
