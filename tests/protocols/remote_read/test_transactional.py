"""Receives in transactions ([MS-MQRR] 3.1.4.12-15)."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.books import books_of
from posthouse.protocols.queue_format import QueueFormat
from posthouse.protocols.remote_read.actions import (
    ACTIONS,
    LOOKUP_RECEIVE_CURRENT,
    LOOKUP_RECEIVE_NEXT,
    LOOKUP_RECEIVE_PREV,
    PEEK_CURRENT,
)
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import NO_TRANSACTION, TOKEN_SIZE_MAX, Opnum
from posthouse.rpc import statuses
from posthouse.rpc.ndr import BadStub
from posthouse.rpc.statuses import Fault
from posthouse.security.peer_calls import Reply, Verb
from tests.protocols.remote_read.rig import (
    ACK,
    CANCELLED,
    INSUFFICIENT_RESOURCES,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    IO_TIMEOUT,
    MESSAGE_NOT_FOUND,
    NACK,
    OK,
    PEEK_ACCESS,
    STATUS_ACCESS_DENIED,
    STATUS_INVALID_HANDLE,
    TRANSACTION_ENLIST,
    TRANSACTION_SEQUENCE,
    TRANSACTION_USAGE,
    Reader,
    RigCall,
)
from tests.protocols.remote_read.transactions import UOW, TransactionRig

REJECTED = 0xC004
PEEKS = [action for action, values in ACTIONS.items() if values.peek]


@pytest.fixture
def rig() -> TransactionRig:
    return TransactionRig(b"one", b"two", b"three")


@pytest.fixture
def reader(rig: TransactionRig) -> Reader:
    return rig.reader()


@pytest.fixture
def handle(rig: TransactionRig, reader: Reader) -> bytes:
    assert rig.enlist(reader).result == OK
    return reader.open("orders")


def ids(rig: TransactionRig) -> list[int]:
    return [read.lookup_id for read in rig.reads("orders")]


def mark(reader: Reader, handle: bytes, lookup_id: int, message_class: int = REJECTED) -> RigCall:
    return reader.call(Opnum.SET_USER_ACKNOWLEDGEMENT_CLASS, handle, lookup_id, message_class)


# -- R_QMEnlistRemoteTransaction


@pytest.mark.spec("MS-MQRR 3.1.4.12/1", "MS-MQRR 3.1.4.12/6", "MS-MQRR 3.1.4.12/8")
@pytest.mark.parametrize("ndr64", [False, True])
def test_a_token_of_our_coordinator_makes_us_take_part(rig, ndr64):
    reader = rig.reader(ndr64=ndr64)
    assert rig.enlist(reader).result == OK
    handle = reader.open("orders")
    assert reader.start(handle, tx=UOW).body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.12/7")
@pytest.mark.parametrize("token", [b"\x01\x00\x00\x00" * 30, b"x", bytes(TOKEN_SIZE_MAX)])
def test_a_token_of_windows_is_refused(rig, reader, token):
    assert rig.enlist(reader, token=token).result == TRANSACTION_ENLIST
    assert UOW not in rig.manager.transactions.collection.open
    handle = reader.open("orders")
    assert reader.start(handle, tx=UOW).result == TRANSACTION_SEQUENCE


@pytest.mark.spec("MS-MQRR 3.1.4.12/3")
def test_no_transaction_and_no_token_are_invalid(rig, reader):
    assert rig.enlist(reader, NO_TRANSACTION).result == INVALID_PARAMETER
    assert rig.enlist(reader, token=b"").result == INVALID_PARAMETER
    assert not rig.manager.transactions.collection.open


@pytest.mark.spec("MS-MQRR 3.1.4.12/4", "RPC/11")
def test_a_token_that_is_too_long_is_a_fault(rig, reader):
    with pytest.raises(BadStub) as caught:
        rig.enlist(reader, token=bytes(TOKEN_SIZE_MAX + 1))
    assert caught.value.status == 0x6F7


@pytest.mark.spec("MS-MQRR 3.1.4.12/5")
@pytest.mark.parametrize("queue", [QueueFormat(0), QueueFormat(3, 0, "nonsense")])
def test_the_queue_of_an_enlistment_does_not_matter(rig, reader, queue):
    assert rig.enlist_for(reader, UOW, rig.token(), queue).result == OK


@pytest.mark.spec("MS-MQRR 3.1.2.1/1")
def test_a_client_whose_group_was_full_is_still_run_down(rig):
    rig.groups.handles_max = 1
    reader = rig.reader()
    group = reader.association.group
    other = group.open(None, lambda: None)
    with pytest.raises(Fault):
        rig.enlist(reader)
    group.close(other)
    assert rig.enlist(reader).result == OK
    reader.lose()
    assert rig.remote.figures.clients == len(rig.manager.transactions.collection.open) == 0


def test_one_user_holds_no_more_than_half_of_all_transactions():
    rig = TransactionRig(transactions_max=4)
    reader = rig.reader()
    uows = [bytes([number]) * 16 for number in (1, 2, 3)]
    results = [rig.enlist(reader, uow).result for uow in uows]
    assert results == [OK, OK, INSUFFICIENT_RESOURCES]
    other = Reader(rig, rig.user("other"))
    assert rig.enlist(other, uows[2]).result == OK
    rig.finish(commit=False, identifier=uows[0])
    rig.finish(commit=False, identifier=uows[2])
    assert rig.enlist(reader, b"4" * 16).result == OK


def test_an_enlistment_that_takes_too_long_is_broken_off(rig):
    reader = rig.reader(settle=False)
    call = rig.enlist(reader)
    rig.desk.append()
    rig.clock.advance(300_000)
    rig.remote.tick()
    assert call.status == statuses.CANCELLED
    rig.desk.settle()
    assert len(call.answers) == 2, "the runtime drops the second answer"


# -- R_StartTransactionalReceive


@pytest.mark.spec("MS-MQRR 3.1.4.13/1", "MS-MQRR 3.1.4.13/22", "MS-MQRR 3.1.4.13/21")
def test_a_receive_locks_its_message_for_the_transaction(rig, reader, handle):
    call = reader.start(handle, tx=UOW, request_id=4)
    assert call.body == b"one"
    number = rig.reads("orders")[0].number
    lock = rig.manager.ledger.locks[number]
    assert lock.transaction is rig.manager.transactions.find(UOW)
    assert rig.remote.pending.count == 1
    opened = reader.association.group.find(handle, reader.identity)
    assert opened.pending[4].lookup_id == call.response.sequence_id
    assert rig.remote.pending.timers.running == 1


@pytest.mark.spec("MS-MQRR 3.1.4.13/23", "MS-MQRR 3.1.4.13/21")
@pytest.mark.parametrize(
    ("action", "found", "left"),
    [
        (LOOKUP_RECEIVE_CURRENT, b"two", [b"one", b"three"]),
        (LOOKUP_RECEIVE_NEXT, b"three", [b"one", b"two"]),
        (LOOKUP_RECEIVE_PREV, b"one", [b"two", b"three"]),
    ],
)
def test_lookups_lock_their_message_too(rig, reader, handle, action, found, left):
    middle = ids(rig)[1]
    assert reader.start(handle, action, lookup_id=middle, tx=UOW).body == found
    assert rig.remote.pending.count == 1
    assert reader.end_transactional(handle, 1).result == OK
    rig.finish(commit=True)
    assert rig.bodies("orders") == left


@pytest.mark.spec("MS-MQRR 3.1.4.13/9", "MS-MQRR 3.1.4.13/16", "MS-MQRR 2.2.8/1")
def test_an_identifier_of_zeros_is_no_transaction(rig, reader, handle):
    assert reader.start_without_transaction(handle).body == b"one"
    number = rig.reads("orders")[0].number
    assert rig.manager.ledger.locks[number].transaction is None
    assert reader.end_transactional(handle, 1).result == OK
    assert rig.bodies("orders") == [b"two", b"three"]


@pytest.mark.spec("MS-MQRR 3.1.4.13/4")
def test_a_peeking_reader_receives_in_no_transaction(rig, reader, handle):
    peeking = reader.open("orders", PEEK_ACCESS)
    assert reader.start(peeking, tx=UOW).result == STATUS_ACCESS_DENIED
    assert reader.start_without_transaction(peeking).result == STATUS_ACCESS_DENIED
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.13/8", "MS-MQRR 3.1.4.13/19")
@pytest.mark.parametrize("action", PEEKS)
def test_a_peek_is_in_no_transaction(rig, reader, handle, action):
    lookup_id = ids(rig)[1] if ACTIONS[action].seek else 0
    cursor = reader.cursor(handle) if ACTIONS[action].next else 0
    for transaction in (UOW, b"unknown transact"):
        call = reader.start(handle, action, lookup_id=lookup_id, cursor=cursor, tx=transaction)
        assert call.result == TRANSACTION_USAGE


@pytest.mark.spec("MS-MQRR 3.1.4.13/18")
def test_a_queue_has_to_be_transactional(rig, reader, handle):
    rig.create("plain")
    rig.send("plain", b"one")
    plain = reader.open("plain")
    assert reader.start(plain, tx=UOW).result == TRANSACTION_USAGE
    assert reader.start(plain, tx=b"unknown transact").result == TRANSACTION_USAGE
    assert rig.bodies("plain") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.13/17")
def test_the_cursor_is_looked_at_before_the_queue(rig, reader, handle):
    rig.create("plain")
    plain = reader.open("plain")
    assert reader.start(plain, cursor=99, tx=UOW).result == STATUS_INVALID_HANDLE


@pytest.mark.spec("MS-MQRR 3.1.4.13/20")
def test_a_transaction_that_was_not_enlisted_is_refused(rig, reader, handle):
    """Decision 90: none is made up for one receive, which nobody could commit."""
    before = set(rig.manager.transactions.collection.open)
    assert reader.start(handle, tx=b"unknown transact").result == TRANSACTION_SEQUENCE
    assert set(rig.manager.transactions.collection.open) == before
    assert rig.remote.pending.count == 0


def test_a_transaction_of_another_client_is_none(rig, reader, handle):
    other = rig.reader()
    theirs = other.open("orders")
    assert other.start(theirs, tx=UOW).result == TRANSACTION_SEQUENCE


@pytest.mark.spec("MS-MQRR 3.1.4.13/3", "MS-MQRR 3.1.4.13/14", "MS-MQRR 3.1.4.13/24")
def test_a_receive_in_a_transaction_waits_and_ends(rig, reader, handle):
    for request in range(1, 4):
        reader.start(handle, tx=UOW)
        reader.end_transactional(handle, request)
    late = reader.start(handle, tx=UOW, timeout=500, request_id=10)
    cancelled = reader.start(handle, tx=UOW, timeout=5000, request_id=11)
    served = reader.start(handle, tx=UOW, timeout=5000, request_id=12)
    assert reader.cancel(handle, 11).result == OK
    assert cancelled.result == CANCELLED
    rig.pass_time(500)
    assert late.result == IO_TIMEOUT
    tx = rig.begin("more")
    rig.send("orders", b"four", tx=tx)
    rig.commit(tx)
    rig.desk.settle()
    assert served.body == b"four"
    assert rig.remote.pending.count == 1


# -- R_EndTransactionalReceive


@pytest.mark.spec("MS-MQRR 3.1.4.15/1", "MS-MQRR 3.1.4.15/3", "MS-MQRR 3.1.4.15/7")
@pytest.mark.parametrize("commit", [True, False])
def test_an_acknowledged_message_waits_for_its_transaction(rig, reader, handle, commit):
    reader.start(handle, tx=UOW)
    assert reader.end_transactional(handle, 1, ACK).result == OK
    assert rig.remote.pending.count == rig.remote.pending.timers.running == 0
    assert rig.bodies("orders") == [b"one", b"two", b"three"]
    other = rig.reader()
    assert other.start(other.open("orders"), PEEK_CURRENT).body == b"two"
    rig.finish(commit=commit)
    assert rig.bodies("orders") == [b"one", b"two", b"three"][commit:]
    rig.check_books()


@pytest.mark.spec("MS-MQRR 3.1.4.15/4", "MS-MQRR 3.1.4.15/7")
def test_a_refused_message_leaves_its_transaction(rig, reader, handle):
    reader.start(handle, tx=UOW)
    assert reader.end_transactional(handle, 1, NACK).result == OK
    assert rig.remote.pending.count == 0
    other = rig.reader()
    assert other.start(other.open("orders"), PEEK_CURRENT).body == b"one"
    rig.finish(commit=True)
    assert rig.bodies("orders") == [b"one", b"two", b"three"]


@pytest.mark.spec("MS-MQRR 3.1.4.15/9", "MS-MQRR 3.1.4.15/10")
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_the_end_of_a_message_whose_transaction_is_over(rig, reader, handle, ack):
    reader.start(handle, tx=UOW)
    rig.finish(commit=False)
    assert reader.end_transactional(handle, 1, ack).result == TRANSACTION_SEQUENCE
    assert rig.bodies("orders") == [b"one", b"two", b"three"]


def test_what_was_not_acknowledged_is_not_committed(rig, reader, handle):
    reader.start(handle, tx=UOW)
    assert rig.coordinator(Verb.PREPARE) is Reply.ABORTED
    assert rig.bodies("orders") == [b"one", b"two", b"three"]
    assert reader.end_transactional(handle, 1).result == TRANSACTION_SEQUENCE


@pytest.mark.spec("MS-MQRR 3.1.4.13/21", "MS-MQRR 3.1.5.1/1", "MS-MQRR 3.1.5.1/2")
def test_a_message_that_nobody_ends_leaves_its_transaction():
    rig = TransactionRig(b"one", b"two", settings=RemoteReadSettings(cleanup_ms=1000))
    reader = rig.reader()
    rig.enlist(reader)
    handle = reader.open("orders")
    reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    reader.start(handle, tx=UOW)
    rig.pass_time(1000)
    assert reader.end_transactional(handle, 2).result == INVALID_HANDLE
    other = rig.reader()
    assert other.start(other.open("orders"), PEEK_CURRENT).body == b"two"
    rig.finish(commit=True)
    assert rig.bodies("orders") == [b"two"]


# -- the end of a client


@pytest.mark.spec("MS-MQRR 3.1.4.13/25")
def test_a_client_that_is_gone_has_no_transactions(rig, reader, handle):
    reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    reader.start(handle, tx=UOW)
    reader.lose()
    assert UOW not in rig.manager.transactions.collection.open
    other = rig.reader()
    assert other.start(other.open("orders")).body == b"one"
    rig.check_books()


@pytest.mark.spec("MS-MQRR 3.1.4.13/25")
def test_an_idle_transaction_ends_by_itself(rig, reader, handle):
    reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    for _ in range(61):
        rig.pass_time(1000)
    assert UOW not in rig.manager.transactions.collection.open
    other = rig.reader()
    assert other.start(other.open("orders")).body == b"one"


def test_a_client_that_only_enlisted_is_heard_of_as_well(rig, reader):
    rig.enlist(reader)
    reader.lose()
    assert UOW not in rig.manager.transactions.collection.open
    assert rig.remote.figures.clients == 0


# -- R_SetUserAcknowledgementClass


@pytest.mark.spec("MS-MQRR 3.1.4.14/1", "MS-MQRR 3.1.4.14/3", "MS-MQRR 3.1.4.14/7")
@pytest.mark.parametrize("commit", [True, False])
def test_a_rejected_message_ends_so_when_its_transaction_commits(rig, reader, handle, commit):
    call = reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    assert mark(reader, handle, call.response.sequence_id).result == OK
    rig.finish(commit=commit)
    books = books_of(rig.queue("orders"))
    assert (books.rejected, books.received) == ((1, 0) if commit else (0, 0))
    assert rig.bodies("orders") == [b"one", b"two", b"three"][commit:]


@pytest.mark.spec("MS-MQRR 3.1.4.14/3")
def test_class_zero_changes_nothing(rig, reader, handle):
    call = reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    assert mark(reader, handle, call.response.sequence_id, 0).result == OK
    rig.finish(commit=True)
    books = books_of(rig.queue("orders"))
    assert (books.rejected, books.received) == (0, 1)


@pytest.mark.parametrize("message_class", [1, 2, 0x4000, 0xC003, 0xFFFF])
def test_no_other_class_can_be_set(rig, reader, handle, message_class):
    call = reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    result = mark(reader, handle, call.response.sequence_id, message_class).result
    assert result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.14/2", "MS-MQRR 3.1.4.14/4")
def test_marking_needs_a_handle_with_receive_access(rig, reader, handle):
    call = reader.start(handle, tx=UOW)
    reader.end_transactional(handle, 1)
    lookup_id = call.response.sequence_id
    peeking = reader.open("orders", PEEK_ACCESS)
    assert mark(reader, peeking, lookup_id).result == STATUS_ACCESS_DENIED
    assert mark(reader, bytes(20), lookup_id).result == STATUS_INVALID_HANDLE


@pytest.mark.spec("MS-MQRR 3.1.4.14/5")
def test_a_message_that_is_not_there_cannot_be_marked(rig, reader, handle):
    assert mark(reader, handle, 999_999).result == MESSAGE_NOT_FOUND


@pytest.mark.spec("MS-MQRR 3.1.4.14/6")
def test_only_messages_of_an_open_transaction_can_be_marked(rig, reader, handle):
    free = ids(rig)[1]
    assert mark(reader, handle, free).result == TRANSACTION_USAGE
    assert mark(reader, handle, free, 0).result == TRANSACTION_USAGE
    call = reader.start_without_transaction(handle)
    assert mark(reader, handle, call.response.sequence_id).result == TRANSACTION_USAGE
    assert reader.end_transactional(handle, 1).result == OK
    assert reader.end_transactional(handle, 1).result == INVALID_HANDLE
