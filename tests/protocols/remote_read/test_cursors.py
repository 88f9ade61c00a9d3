"""R_CreateCursor, R_CloseCursor, R_PurgeQueue ([MS-MQRR] 3.1.4.4-6)."""

from __future__ import annotations

import pytest

from posthouse.protocols.remote_read.actions import PEEK_CURRENT, PEEK_NEXT
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.security.rights import PEEK_MESSAGE
from tests.protocols.remote_read.rig import (
    CANCELLED,
    INSUFFICIENT_RESOURCES,
    OK,
    PEEK_ACCESS,
    STATUS_ACCESS_DENIED,
    STATUS_INVALID_HANDLE,
    Reader,
    ServerRig,
)
from tests.protocols.remote_read.rights import grant


@pytest.fixture
def handle(rig: ServerRig, reader: Reader) -> bytes:
    for body in (b"one", b"two"):
        rig.send("orders", body)
    return reader.open("orders")


@pytest.mark.spec("MS-MQRR 3.1.4.4/2", "MS-MQRR 3.1.4.4/3", "MS-MQRR 3.1.4.4/4")
@pytest.mark.parametrize("ndr64", [False, True])
def test_a_new_cursor_stands_before_the_first_message(rig, handle, ndr64):
    reader = rig.reader(ndr64=ndr64)
    handle = reader.open("orders")
    response = reader.call(Opnum.CREATE_CURSOR, handle).response
    assert response.result == OK
    assert response.cursor
    call = reader.start(handle, PEEK_CURRENT, cursor=response.cursor)
    assert call.body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.4/2")
def test_each_cursor_has_a_place_of_its_own(reader, handle):
    first, second = reader.cursor(handle), reader.cursor(handle)
    assert first != second
    reader.start(handle, PEEK_CURRENT, cursor=first)
    assert reader.start(handle, PEEK_NEXT, cursor=first).body == b"two"
    assert reader.start(handle, PEEK_CURRENT, cursor=second).body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.4/1")
@pytest.mark.parametrize("handle", [bytes(20), b"\1" * 20])
def test_a_cursor_needs_an_open_queue(rig, reader, handle):
    response = reader.call(Opnum.CREATE_CURSOR, handle).response
    assert response == (0, STATUS_INVALID_HANDLE)
    assert not rig.manager.queues.opening._cursors


def test_a_peeking_reader_has_cursors_too(rig, reader):
    assert reader.cursor(reader.open("orders", PEEK_ACCESS))


def test_there_are_only_so_many_cursors():
    rig = ServerRig(open_handles_max=4)
    rig.create("orders")
    reader = rig.reader()
    handle = reader.open("orders")
    reader.cursor(handle)
    reader.cursor(handle)
    response = reader.call(Opnum.CREATE_CURSOR, handle).response
    assert response == (0, INSUFFICIENT_RESOURCES)


@pytest.mark.spec("MS-MQRR 3.1.4.4/6")
def test_a_cursor_is_its_owners_alone(rig, reader, handle):
    cursor = reader.cursor(handle)
    alice = Reader(rig, rig.user("alice"), group_id=reader.group_id)
    grant(rig, "orders", "alice", PEEK_MESSAGE)
    theirs = alice.open("orders", PEEK_ACCESS)
    call = alice.start(theirs, PEEK_CURRENT, cursor=cursor)
    assert call.result == STATUS_INVALID_HANDLE
    assert alice.call(Opnum.CLOSE_CURSOR, theirs, cursor).result == STATUS_INVALID_HANDLE
    stranger = rig.reader()
    their_own = stranger.open("orders")
    call = stranger.start(their_own, PEEK_CURRENT, cursor=cursor)
    assert call.result == STATUS_INVALID_HANDLE
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor).body == b"one"


# -- R_CloseCursor


@pytest.mark.spec("MS-MQRR 3.1.4.5/1", "MS-MQRR 3.1.4.5/5", "MS-MQRR 3.1.4.5/4")
def test_a_cursor_is_closed_once(rig, reader, handle):
    first, second = reader.cursor(handle), reader.cursor(handle)
    assert reader.call(Opnum.CLOSE_CURSOR, handle, first).result == OK
    assert len(rig.manager.queues.opening._cursors) == 1
    assert reader.call(Opnum.CLOSE_CURSOR, handle, first).result == STATUS_INVALID_HANDLE
    assert reader.start(handle, PEEK_CURRENT, cursor=second).body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.5/3")
def test_a_cursor_is_closed_through_its_own_handle(reader, handle):
    cursor = reader.cursor(handle)
    other = reader.open("orders")
    assert reader.call(Opnum.CLOSE_CURSOR, other, cursor).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.CLOSE_CURSOR, handle, 0).result == STATUS_INVALID_HANDLE
    assert reader.call(Opnum.CLOSE_CURSOR, handle, cursor).result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.5/2")
def test_a_cursor_of_a_closed_queue_is_closed_already(rig, reader, handle):
    cursor = reader.cursor(handle)
    reader.close(handle)
    assert reader.call(Opnum.CLOSE_CURSOR, handle, cursor).result == STATUS_INVALID_HANDLE
    assert not rig.manager.queues.opening._cursors


def test_what_waits_on_a_cursor_ends_with_it(rig, reader):
    handle = reader.open("orders")
    cursor = reader.cursor(handle)
    call = reader.start(handle, PEEK_CURRENT, cursor=cursor, timeout=1000)
    assert reader.call(Opnum.CLOSE_CURSOR, handle, cursor).result == OK
    assert call.result == CANCELLED
    assert rig.remote.waiting == 0


# -- R_PurgeQueue


@pytest.mark.spec("MS-MQRR 3.1.4.6/2")
def test_a_purge_removes_every_message(rig, reader, handle):
    assert reader.call(Opnum.PURGE_QUEUE, handle).result == OK
    assert rig.bodies("orders") == []
    rig.check_books()


def test_purges_are_told_for_the_audit_log(rig, reader, handle):
    acts = []

    def acted(act, then):
        acts.append(act)
        then()

    rig.remote.acted = acted
    assert reader.call(Opnum.PURGE_QUEUE, handle).result == OK
    assert reader.call(Opnum.PURGE_QUEUE, bytes(20)).result == STATUS_INVALID_HANDLE
    (act,) = acts
    assert (act.action, act.error, bool(act.user and act.address)) == ("purge", None, True)
    assert act.object.endswith("orders")


@pytest.mark.spec("MS-MQRR 3.1.4.6/2")
def test_a_large_purge_is_answered_when_it_is_over(rig, reader, handle):
    reader.settle = False
    call = reader.call(Opnum.PURGE_QUEUE, handle)
    rig.desk.append()
    assert call.waits, "it is not safe yet"
    rig.desk.settle()
    assert call.result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.6/3")
def test_a_peeking_reader_purges_nothing(rig, reader, handle):
    peeking = reader.open("orders", PEEK_ACCESS)
    assert reader.call(Opnum.PURGE_QUEUE, peeking).result == STATUS_ACCESS_DENIED
    assert rig.bodies("orders") == [b"one", b"two"]


@pytest.mark.spec("MS-MQRR 3.1.4.6/1")
def test_a_purge_of_nothing_fails(rig, reader, handle):
    reader.close(handle)
    for unknown in (handle, bytes(20)):
        assert reader.call(Opnum.PURGE_QUEUE, unknown).result == STATUS_INVALID_HANDLE
    assert rig.bodies("orders") == [b"one", b"two"]
