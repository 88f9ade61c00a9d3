"""R_OpenQueueForMove and R_MoveMessage ([MS-MQRR] 3.1.4.10-11)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from posthouse.model.names import parse_name
from posthouse.protocols.queue_format import queue_format_of
from posthouse.protocols.remote_read.actions import LOOKUP_PEEK_CURRENT
from posthouse.security.rights import PEEK_MESSAGE, RECEIVE_MESSAGE
from tests.protocols.remote_read.rig import (
    ACCESS_DENIED,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    LOCKED_UNDER_TRANSACTION,
    MESSAGE_NOT_FOUND,
    MOVE_ACCESS,
    OK,
    PEEK_ACCESS,
    QUEUE_NOT_FOUND,
    STATUS_ACCESS_DENIED,
    STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER,
    TRANSACTION_SEQUENCE,
    TRANSACTION_USAGE,
    Reader,
    ServerRig,
)
from tests.protocols.remote_read.rights import grant, revoke
from tests.protocols.remote_read.transactions import UOW, TransactionRig

RETRY = "orders;retry"


@pytest.fixture
def source(rig: ServerRig, reader: Reader) -> bytes:
    rig.send("orders", b"one")
    return reader.open("orders")


def id_of(rig: ServerRig, name: str = "orders") -> int:
    return rig.reads(name)[0].lookup_id


# -- R_OpenQueueForMove


@pytest.mark.spec(
    "MS-MQRR 3.1.4.11/2", "MS-MQRR 3.1.4.11/8", "MS-MQRR 3.1.4.11/10", "MS-MQRR 2.2.4/1"
)
@pytest.mark.parametrize("ndr64", [False, True])
def test_a_target_has_a_handle_and_a_number_that_nobody_guesses(rig, ndr64):
    reader = rig.reader(ndr64=ndr64)
    made = [reader.open_for_move(RETRY) for _ in range(20)]
    numbers = {context for context, _ in made}
    assert len(numbers) == 20
    assert all(context.to_bytes(8, "little") not in handle for context, handle in made)
    assert any(context >> 40 for context in numbers)
    ordered = sorted(numbers)
    assert all(b - a > 1 for a, b in pairwise(ordered))


@pytest.mark.spec("MS-MQRR 3.1.4.11/3")
def test_several_targets_of_one_queue_are_open_together(rig, reader):
    reader.open_for_move("orders")
    assert reader.open_for_move("orders")
    assert rig.reader().open_for_move("orders")


@pytest.mark.spec("MS-MQRR 3.1.4.11/2", "MS-MQRR 3.1.4.11/11")
@pytest.mark.parametrize("access", [0, 1, 2, 0x20, 8, 0x44, 0x80000004])
def test_another_access_is_invalid(rig, reader, access):
    for name in ("orders", "nowhere"):
        assert reader.opening(name, access, move=True).status == INVALID_PARAMETER


@pytest.mark.parametrize("access", [4, 5, 0x24, 0x25])
def test_move_access_may_be_combined(reader, access):
    assert reader.open_for_move("orders", access)


@pytest.mark.spec("MS-MQRR 3.1.4.11/3", "MS-MQRR 3.1.4.11/11")
def test_another_share_mode_is_invalid(reader):
    assert reader.opening("orders", MOVE_ACCESS, 2, move=True).status == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.11/1")
@pytest.mark.parametrize("name", ["MULTICAST=234.1.1.1:8001", "DIRECT=HTTP://alpha/msmq/x"])
def test_other_names_are_invalid(reader, name):
    parsed = queue_format_of(parse_name(name))
    assert reader.opening(parsed, MOVE_ACCESS, move=True).status == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.11/11", "MS-MQRR 3.1.4.11/13", "RPC/10")
@pytest.mark.parametrize("name", ["nowhere", "nowhere;retry", r"DIRECT=OS:BRAVO\private$\orders"])
def test_a_target_has_to_be_here(reader, name):
    assert reader.opening(name, MOVE_ACCESS, move=True).status == QUEUE_NOT_FOUND


@pytest.mark.spec("MS-MQRR 3.1.4.11/14", "MS-MQRR 3.1.4.11/11")
def test_a_target_needs_the_right_for_it(rig):
    alice = Reader(rig, rig.user("alice"))
    grant(rig, "orders", "alice", PEEK_MESSAGE)
    assert alice.opening(RETRY, MOVE_ACCESS, move=True).status == ACCESS_DENIED
    grant(rig, "orders", "alice", PEEK_MESSAGE | RECEIVE_MESSAGE)
    assert alice.open_for_move(RETRY)


# -- R_MoveMessage


@pytest.mark.spec(
    "MS-MQRR 3.1.4.10/1",
    "MS-MQRR 3.1.4.10/4",
    "MS-MQRR 3.1.4.10/5",
    "MS-MQRR 3.1.4.10/6",
    "MS-MQRR 3.1.4.10/9",
    "MS-MQRR 3.1.4.10/18",
    "MS-MQRR 3.1.4.10/13",
)
def test_a_message_goes_to_a_subqueue_another_and_back(rig, reader, source):
    first = id_of(rig)
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(source, context, first).result == OK
    assert rig.bodies("orders") == []
    assert rig.bodies(RETRY) == [b"one"]
    second = id_of(rig, RETRY)
    assert second != first
    context, _ = reader.open_for_move("orders;poison")
    assert reader.move(reader.open(RETRY), context, second).result == OK
    context, _ = reader.open_for_move("orders")
    poison = reader.open("orders;poison")
    call = reader.start(poison, LOOKUP_PEEK_CURRENT, lookup_id=id_of(rig, "orders;poison"))
    trailers = call.packet.trailers
    assert (trailers.subqueue, trailers.moves) == ("poison", 2)
    assert trailers.last_move == rig.clock.utc_seconds
    assert reader.move(poison, context, id_of(rig, "orders;poison")).result == OK
    assert rig.bodies("orders") == [b"one"]
    rig.check_books()


@pytest.mark.spec("MS-MQRR 3.1.4.10/9")
def test_a_move_is_answered_when_it_is_safe(rig, reader, source):
    context, _ = reader.open_for_move(RETRY)
    lookup_id = id_of(rig)
    reader.settle = False
    call = reader.move(source, context, lookup_id)
    rig.desk.append()
    assert call.waits
    rig.desk.settle()
    assert call.result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.10/10")
@pytest.mark.parametrize("handle", [bytes(20), b"\5" * 20])
def test_an_unknown_source_fails(rig, reader, source, handle):
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(handle, context, id_of(rig)).result == STATUS_INVALID_HANDLE


@pytest.mark.spec("MS-MQRR 3.1.4.10/2")
def test_a_source_is_open_for_receiving(rig, reader, source):
    context, handle = reader.open_for_move(RETRY)
    peeking = reader.open("orders", PEEK_ACCESS)
    assert reader.move(peeking, context, id_of(rig)).result == STATUS_ACCESS_DENIED
    assert reader.move(handle, context, id_of(rig)).result == STATUS_INVALID_HANDLE
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.10/3", "MS-MQRR 3.1.4.10/11", "MS-MQRR 3.1.4.11/9")
def test_a_target_is_one_that_was_opened_for_moves_by_the_same_client_and_user(rig, reader, source):
    context, handle = reader.open_for_move(RETRY)
    stranger = rig.reader()
    foreign, _ = stranger.open_for_move(RETRY)
    other = Reader(rig, rig.user("alice"), group_id=reader.group_id)
    grant(rig, "orders", "alice", RECEIVE_MESSAGE)
    others, _ = other.open_for_move(RETRY)
    for number in (0, 1, foreign, others, 2**64 - 1):
        assert reader.move(source, number, id_of(rig)).result == INVALID_HANDLE
    reader.close(handle)
    assert reader.move(source, context, id_of(rig)).result == INVALID_HANDLE
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.10/1", "MS-MQRR 3.1.4.10/12")
def test_queues_of_another_family_are_no_target(rig, reader, source):
    rig.create("others")
    for name in ("others", "others;retry", "orders"):
        context, _ = reader.open_for_move(name)
        assert reader.move(source, context, id_of(rig)).result == STATUS_INVALID_PARAMETER
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.10/15")
def test_a_message_that_is_not_there_is_not_moved(rig, reader, source):
    context, _ = reader.open_for_move(RETRY)
    gone = id_of(rig)
    reader.receive(source)
    assert reader.move(source, context, gone).result == MESSAGE_NOT_FOUND
    assert reader.move(source, context, 0).result == MESSAGE_NOT_FOUND


@pytest.mark.spec("MS-MQRR 3.1.4.11/14", "MS-MQRR 2.1/5")
def test_rights_are_looked_at_again_for_each_move(rig):
    alice = Reader(rig, rig.user("alice"))
    grant(rig, "orders", "alice", RECEIVE_MESSAGE)
    rig.send("orders", b"one")
    source = alice.open("orders")
    context, _ = alice.open_for_move(RETRY)
    revoke(rig, "orders", "alice")
    assert alice.move(source, context, id_of(rig)).result == STATUS_ACCESS_DENIED
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.10/14")
def test_a_transaction_needs_a_transactional_target(rig, reader, source):
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(source, context, id_of(rig), UOW).result == TRANSACTION_USAGE


# -- in a transaction


@pytest.fixture
def far() -> TransactionRig:
    return TransactionRig(b"one", b"two")


def test_a_transactional_target_needs_a_transaction(far):
    reader = far.reader()
    source = reader.open("orders")
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(source, context, id_of(far)).result == TRANSACTION_USAGE


@pytest.mark.spec("MS-MQRR 3.1.4.10/7", "MS-MQRR 3.1.4.10/17", "MS-MQRR 3.1.4.12/1")
def test_a_transaction_has_to_be_enlisted(far):
    reader = far.reader()
    source = reader.open("orders")
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(source, context, id_of(far), UOW).result == TRANSACTION_SEQUENCE
    assert far.enlist(reader).result == OK
    assert reader.move(source, context, id_of(far), UOW).result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.10/8", "MS-MQRR 3.1.4.12/2")
@pytest.mark.parametrize("commit", [True, False])
def test_a_transactional_move_is_provisional(far, commit):
    reader = far.reader()
    far.enlist(reader)
    source = reader.open("orders")
    context, _ = reader.open_for_move(RETRY)
    assert reader.move(source, context, id_of(far), UOW).result == OK
    assert far.bodies("orders") == [b"one", b"two"]
    assert far.bodies(RETRY) == []
    far.finish(commit=commit)
    assert far.bodies("orders") == ([b"two"] if commit else [b"one", b"two"])
    assert far.bodies(RETRY) == ([b"one"] if commit else [])


@pytest.mark.spec("MS-MQRR 3.1.4.10/16")
def test_a_message_of_another_transaction_is_locked(far):
    reader = far.reader()
    far.enlist(reader)
    far.enlist(reader, b"v" * 16)
    source = reader.open("orders")
    context, _ = reader.open_for_move(RETRY)
    lookup_id = id_of(far)
    assert reader.move(source, context, lookup_id, UOW).result == OK
    call = reader.move(source, context, lookup_id, b"v" * 16)
    assert call.result == LOCKED_UNDER_TRANSACTION
