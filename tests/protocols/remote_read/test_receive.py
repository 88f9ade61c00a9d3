"""R_StartReceive ([MS-MQRR] 3.1.4.7): actions, parameters, what is found and what is answered."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.effects import Unreadable
from posthouse.protocols.remote_read import actions
from posthouse.protocols.remote_read.actions import (
    ACTIONS,
    LOOKUP_PEEK_CURRENT,
    LOOKUP_PEEK_NEXT,
    LOOKUP_PEEK_PREV,
    LOOKUP_RECEIVE_CURRENT,
    LOOKUP_RECEIVE_NEXT,
    LOOKUP_RECEIVE_PREV,
    PEEK_CURRENT,
    PEEK_NEXT,
    RECEIVE,
)
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import NO_TRANSACTION, Opnum
from posthouse.rpc.ndr import NULL_HANDLE, BadStub
from tests.engine.rig import START_UTC
from tests.protocols.remote_read.rig import (
    ALREADY_RECEIVED,
    CANCELLED,
    FOR_EVER,
    ILLEGAL_CURSOR_ACTION,
    INSUFFICIENT_RESOURCES,
    INVALID_PARAMETER,
    IO_TIMEOUT,
    MESSAGE_NOT_FOUND,
    NACK,
    OK,
    STATUS_INVALID_HANDLE,
    Reader,
    RigCall,
    ServerRig,
)

LOOKUPS = [action for action, values in ACTIONS.items() if values.seek is not None]
PLAIN = [RECEIVE, PEEK_CURRENT, PEEK_NEXT]
PEEKS = [action for action, values in ACTIONS.items() if values.peek]
# A call with no transaction has to do the same through opnum 13 as through opnum 7.
BOTH = pytest.mark.parametrize("tx", [None, NO_TRANSACTION], ids=["opnum 7", "opnum 13"])


@pytest.fixture
def handle(reader: Reader) -> bytes:
    return reader.open("orders")


def ids(rig: ServerRig) -> list[int]:
    return [read.lookup_id for read in rig.reads("orders")]


def send(rig: ServerRig, *bodies: bytes, **attributes: object) -> None:
    for body in bodies:
        rig.send("orders", body, **attributes)


# -- parameters


@pytest.mark.spec("MS-MQRR 3.1.4.7/29")
@BOTH
@pytest.mark.parametrize("action", [1, 2, 0x10, 0x80000002, 0x40000000, 0x40000013, 0xFFFFFFFF])
def test_an_action_that_does_not_exist_is_invalid(rig, reader, handle, action, tx):
    send(rig, b"one")
    for lookup_id, cursor in ((0, 0), (ids(rig)[0], 0), (0, reader.cursor(handle))):
        call = reader.start(handle, action, lookup_id=lookup_id, cursor=cursor, tx=tx)
        assert call.result == INVALID_PARAMETER
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/10", "MS-MQRR 3.1.4.7/30", "MS-MQRR 3.1.4.13/5")
@BOTH
@pytest.mark.parametrize("action", LOOKUPS)
def test_a_lookup_does_not_wait(rig, reader, handle, action, tx):
    send(rig, b"one", b"two", b"three")
    middle = ids(rig)[1]
    assert reader.start(handle, action, lookup_id=middle, timeout=1, tx=tx).result == (
        INVALID_PARAMETER
    )
    assert reader.start(handle, action, lookup_id=middle, tx=tx).result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.13/10")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_other_actions_may_wait(reader, handle, action, tx):
    assert reader.start(handle, action, timeout=1, tx=tx).waits


@pytest.mark.spec("MS-MQRR 3.1.4.7/11", "MS-MQRR 3.1.4.13/5", "MS-MQRR 3.1.4.13/6")
@BOTH
@pytest.mark.parametrize("action", [*PLAIN, *LOOKUPS])
def test_a_lookup_identifier_and_a_cursor_exclude_each_other(rig, reader, handle, action, tx):
    send(rig, b"one")
    cursor = reader.cursor(handle)
    call = reader.start(handle, action, lookup_id=ids(rig)[0], cursor=cursor, tx=tx)
    assert call.result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.7/12", "MS-MQRR 3.1.4.13/5")
@BOTH
@pytest.mark.parametrize("action", PLAIN)
def test_a_lookup_identifier_needs_an_action_that_looks_it_up(rig, reader, handle, action, tx):
    send(rig, b"one")
    assert reader.start(handle, action, lookup_id=ids(rig)[0], tx=tx).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.7/13", "MS-MQRR 3.1.4.7/28", "MS-MQRR 3.1.4.13/7")
@BOTH
@pytest.mark.parametrize("action", LOOKUPS)
def test_a_lookup_needs_an_identifier(rig, reader, handle, action, tx):
    send(rig, b"one")
    assert reader.start(handle, action, tx=tx).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.7/15", "MS-MQRR 3.1.4.13/6")
@BOTH
@pytest.mark.parametrize("action", LOOKUPS)
def test_a_cursor_is_not_for_lookups(rig, reader, handle, action, tx):
    send(rig, b"one")
    cursor = reader.cursor(handle)
    assert reader.start(handle, action, cursor=cursor, tx=tx).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.7/21", "MS-MQRR 3.1.4.7/28", "MS-MQRR 3.1.4.13/7")
@BOTH
def test_the_next_message_needs_a_cursor(rig, reader, handle, tx):
    send(rig, b"one")
    assert reader.start(handle, PEEK_NEXT, tx=tx).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4.7/54")
@BOTH
def test_parameters_are_looked_at_before_handles(rig, reader, handle, tx):
    assert reader.start(handle, LOOKUP_PEEK_NEXT, cursor=999, tx=tx).result == INVALID_PARAMETER
    assert reader.start(NULL_HANDLE, 77, tx=tx).result == INVALID_PARAMETER


@pytest.mark.spec("MS-MQRR 3.1.4/1")
@pytest.mark.parametrize("opnum", [7, 13])
def test_a_stub_that_is_cut_or_too_long_is_a_fault(reader, opnum):
    with pytest.raises(BadStub):
        reader.raw(opnum, bytes(20))
    with pytest.raises(BadStub):
        reader.raw(opnum, bytes(200))


# -- the first message


@pytest.mark.spec("MS-MQRR 3.1.4.7/6", "MS-MQRR 3.1.4.7/17", "MS-MQRR 3.1.4.13/16")
@BOTH
def test_a_receive_takes_the_first_message(rig, reader, handle, tx):
    send(rig, b"one", b"two")
    assert reader.start(handle, tx=tx).body == b"one"
    assert reader.start(handle, tx=tx).body == b"two"


@pytest.mark.spec("MS-MQRR 3.1.4.7/6")
def test_the_first_message_is_the_one_of_the_highest_priority(rig, reader, handle):
    send(rig, b"low", priority=1)
    send(rig, b"high", priority=7)
    assert reader.start(handle).body == b"high"


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/1", "MS-MQRR 3.1.4.7/19", "MS-MQRR 3.1.4.7/60", "MS-MQRR 3.1.4.13/16"
)
@BOTH
def test_a_peek_leaves_the_message_to_others(rig, reader, handle, tx):
    send(rig, b"one")
    assert reader.start(handle, PEEK_CURRENT, tx=tx).body == b"one"
    assert reader.start(handle, PEEK_CURRENT, tx=tx).body == b"one"
    assert rig.remote.pending.count == 0
    assert reader.end(handle, 1).result == 0xC00E0007, "there is nothing to end"
    other = rig.reader()
    assert other.receive(other.open("orders")) == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.7/58", "MS-MQRR 3.1.1.1/1")
def test_a_message_in_somebodys_hands_is_nobody_elses(rig, reader, handle):
    send(rig, b"one")
    assert reader.start(handle).body == b"one"
    other = rig.reader()
    theirs = other.open("orders")
    assert other.start(theirs).result == IO_TIMEOUT
    assert other.start(theirs, PEEK_CURRENT).result == IO_TIMEOUT
    with rig.refused(IO_TIMEOUT):
        rig.receive("orders")
    reader.end(handle, 1, NACK)
    assert rig.receive("orders").message.body == b"one", "at once visible to other protocols"


@pytest.mark.spec("MS-MQRR 3.1.4.7/50", "MS-MQRR 3.1.4.7/64", "MS-MQRR 3.1.4.13/14")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_an_empty_queue_without_a_wait_is_a_timeout(reader, handle, action, tx):
    response = reader.start(handle, action, tx=tx).response
    assert response == (0, 0, (), IO_TIMEOUT)


# -- what is answered


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/37",
    "MS-MQRR 3.1.4.7/38",
    "MS-MQRR 3.1.4.7/39",
    "MS-MQRR 2.2.1/1",
    "MS-MQRR 3.1.4.13/13",
    "MS-MQDMPR 3.1.7.1.9/6",
)
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
@pytest.mark.parametrize("ndr64", [False, True])
def test_a_message_comes_with_its_time_and_its_identifier(rig, action, tx, ndr64):
    reader = rig.reader(ndr64=ndr64)
    handle = reader.open("orders")
    rig.advance(7)
    send(rig, b"one")
    rig.advance(5)
    response = reader.start(handle, action, tx=tx).response
    assert response.arrive_time == START_UTC + 7
    assert response.sequence_id == ids(rig)[0]
    assert response.sequence_id >> 56 == 0
    assert len(response.sections) == 1
    assert response.result == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/33", "MS-MQRR 3.1.4.7/39", "MS-MQRR 3.1.4.13/12")
@BOTH
@pytest.mark.parametrize("ndr64", [False, True])
def test_a_cut_message_stays_in_the_hands_of_its_reader(rig, tx, ndr64):
    send(rig, b"0123456789")
    reader = rig.reader(ndr64=ndr64)
    handle = reader.open("orders")
    call = reader.start(handle, max_body=4, tx=tx)
    assert [section.type for section in call.response.sections] == [1, 2]
    assert call.body == b"0123" + bytes(6)
    assert rig.remote.pending.count == 1
    assert reader.start(handle, tx=tx).result == IO_TIMEOUT
    assert reader.end(handle, 1, NACK).result == OK
    assert reader.start(handle, tx=tx).body == b"0123456789"


@pytest.mark.spec("MS-MQRR 3.1.4.7/48", "MS-MQRR 3.1.4.13/12")
@BOTH
def test_the_time_to_reach_the_queue_is_absolute(rig, reader, handle, tx):
    send(rig, b"one", time_to_reach_queue=600)
    (section,) = reader.start(handle, tx=tx).response.sections
    assert int.from_bytes(section.buffer[12:16], "little") == START_UTC + 600


def test_a_message_that_was_sent_here_came_from_here(rig, reader, handle):
    send(rig, b"one")
    assert reader.start(handle).packet.trailers.address == "127.0.0.1"


# -- lookup identifiers


@pytest.mark.spec("MS-MQRR 3.1.4.7/4", "MS-MQRR 3.1.4.7/22")
@BOTH
def test_lookup_peek_current(rig, reader, handle, tx):
    send(rig, b"one", b"two", b"three")
    call = reader.start(handle, LOOKUP_PEEK_CURRENT, lookup_id=ids(rig)[1], tx=tx)
    assert call.body == b"two"
    assert len(ids(rig)) == 3
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/23", "MS-MQRR 3.1.4.7/24")
@BOTH
@pytest.mark.parametrize(
    ("action", "found"), [(LOOKUP_PEEK_NEXT, b"three"), (LOOKUP_PEEK_PREV, b"one")]
)
def test_lookup_peek_next_and_previous(rig, reader, handle, action, found, tx):
    send(rig, b"one", b"two", b"three")
    middle = ids(rig)[1]
    assert reader.start(handle, action, lookup_id=middle, tx=tx).body == found
    assert rig.remote.pending.count == 0
    assert len(ids(rig)) == 3


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/25",
    "MS-MQRR 3.1.4.7/26",
    "MS-MQRR 3.1.4.7/27",
    "MS-MQRR 3.1.4.7/56",
    "MS-MQRR 3.1.4.7/61",
    "MS-MQRR 3.1.4.9/11",
    "MS-MQRR 3.1.2.2/1",
)
@BOTH
@pytest.mark.parametrize(
    ("action", "found", "left"),
    [
        (LOOKUP_RECEIVE_CURRENT, b"two", [b"one", b"three"]),
        (LOOKUP_RECEIVE_NEXT, b"three", [b"one", b"two"]),
        (LOOKUP_RECEIVE_PREV, b"one", [b"two", b"three"]),
    ],
)
def test_lookup_receives_have_two_steps(rig, reader, handle, action, found, left, tx):
    send(rig, b"one", b"two", b"three")
    middle = ids(rig)[1]
    call = reader.start(handle, action, lookup_id=middle, tx=tx)
    assert call.body == found
    assert rig.remote.pending.count == 1
    assert rig.remote.pending.timers.running == 1
    assert len(ids(rig)) == 3, "locked, not removed"
    other = rig.reader()
    theirs = other.open("orders")
    again = other.start(theirs, LOOKUP_RECEIVE_CURRENT, lookup_id=call.response.sequence_id)
    assert again.result == MESSAGE_NOT_FOUND
    assert reader.end(handle, 1).result == OK
    assert rig.bodies("orders") == left


@pytest.mark.spec("MS-MQRR 3.1.4.7/51", "MS-MQRR 3.1.4.13/14", "MS-MQRR 3.1.4.7/62")
@BOTH
@pytest.mark.parametrize("action", LOOKUPS)
def test_a_lookup_of_nothing_finds_nothing(rig, reader, handle, action, tx):
    send(rig, b"one", b"two")
    gone = ids(rig)[0]
    reader.receive(handle)
    call = reader.start(handle, action, lookup_id=gone, tx=tx)
    assert call.response == (0, 0, (), MESSAGE_NOT_FOUND)
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/51")
@pytest.mark.parametrize(
    ("action", "at"), [(LOOKUP_RECEIVE_NEXT, 1), (LOOKUP_RECEIVE_PREV, 0), (LOOKUP_PEEK_NEXT, 1)]
)
def test_nothing_is_behind_the_last_and_in_front_of_the_first(rig, reader, handle, action, at):
    send(rig, b"one", b"two")
    assert reader.start(handle, action, lookup_id=ids(rig)[at]).result == MESSAGE_NOT_FOUND


@pytest.mark.spec("MS-MQRR 3.1.4.7/4")
def test_a_neighbour_that_is_locked_is_passed_over(rig, reader, handle):
    send(rig, b"one", b"two", b"three", b"four")
    first, second, third, _ = ids(rig)
    reader.start(handle, LOOKUP_RECEIVE_CURRENT, lookup_id=second)
    reader.start(handle, LOOKUP_RECEIVE_CURRENT, lookup_id=third)
    assert reader.start(handle, LOOKUP_PEEK_NEXT, lookup_id=first).body == b"four"


# -- cursors


@pytest.mark.spec("MS-MQRR 3.1.4.7/5", "MS-MQRR 3.1.4.7/18", "MS-MQRR 3.1.4.7/20")
@BOTH
def test_a_cursor_goes_through_the_queue(rig, reader, handle, tx):
    send(rig, b"one", b"two", b"three")
    cursor = reader.cursor(handle)
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor, tx=tx).body == b"one"
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor, tx=tx).body == b"one"
    assert reader.start(handle, PEEK_NEXT, cursor=cursor, tx=tx).body == b"two"
    assert reader.start(handle, PEEK_NEXT, cursor=cursor, tx=tx).body == b"three"
    assert reader.start(handle, PEEK_NEXT, cursor=cursor, tx=tx).result == IO_TIMEOUT
    assert len(ids(rig)) == 3
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/16")
@BOTH
def test_a_receive_through_a_cursor_takes_what_it_stands_on_and_goes_on(rig, reader, handle, tx):
    send(rig, b"one", b"two", b"three")
    cursor = reader.cursor(handle)
    reader.start(handle, PEEK_CURRENT, cursor=cursor, tx=tx)
    reader.start(handle, PEEK_NEXT, cursor=cursor, tx=tx)
    call = reader.start(handle, cursor=cursor, tx=tx, request_id=9)
    assert call.body == b"two"
    assert reader.end(handle, 9).result == OK
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor, tx=tx).body == b"three"
    assert rig.bodies("orders") == [b"one", b"three"]


@pytest.mark.spec("MS-MQRR 3.1.4.7/5")
def test_a_cursor_passes_over_locked_messages(rig, reader, handle):
    send(rig, b"one", b"two", b"three")
    cursor = reader.cursor(handle)
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor).body == b"one"
    reader.start(handle, LOOKUP_RECEIVE_CURRENT, lookup_id=ids(rig)[1])
    assert reader.start(handle, PEEK_NEXT, cursor=cursor).body == b"three"


@pytest.mark.spec("MS-MQRR 3.1.4.7/52")
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_message_under_the_cursor_that_is_gone_was_received(rig, reader, handle, action, tx):
    send(rig, b"one", b"two")
    cursor = reader.cursor(handle)
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor, tx=tx).body == b"one"
    assert rig.receive("orders").message.body == b"one"
    assert reader.start(handle, action, cursor=cursor, tx=tx).result == ALREADY_RECEIVED
    assert rig.remote.pending.count == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/63")
def test_a_cursor_at_the_end_sees_what_comes_later(rig, reader, handle):
    send(rig, b"one")
    cursor = reader.cursor(handle)
    reader.start(handle, PEEK_CURRENT, cursor=cursor)
    assert reader.start(handle, PEEK_NEXT, cursor=cursor).result == IO_TIMEOUT
    send(rig, b"two")
    assert reader.start(handle, PEEK_CURRENT, cursor=cursor).body == b"two"


def test_the_next_of_a_cursor_that_has_seen_nothing_is_illegal(rig, reader, handle):
    send(rig, b"one")
    cursor = reader.cursor(handle)
    assert reader.start(handle, PEEK_NEXT, cursor=cursor).result == ILLEGAL_CURSOR_ACTION


@pytest.mark.spec("MS-MQRR 3.1.4.7/14", "MS-MQRR 3.1.4.7/55", "MS-MQRR 3.1.4.13/17")
@BOTH
@pytest.mark.parametrize("action", PLAIN)
def test_a_cursor_that_is_none_is_an_invalid_handle(rig, reader, handle, action, tx):
    send(rig, b"one")
    closed = reader.cursor(handle)
    reader.call(Opnum.CLOSE_CURSOR, handle, closed)
    other_handle = reader.cursor(reader.open("orders"))
    stranger = rig.reader()
    foreign = stranger.cursor(stranger.open("orders"))
    for cursor in (closed, other_handle, foreign, 0xFFFFFFFF):
        call = reader.start(handle, action, cursor=cursor, tx=tx)
        assert call.response == (0, 0, (), STATUS_INVALID_HANDLE)
    assert rig.remote.pending.count == 0
    assert rig.bodies("orders") == [b"one"]


# -- waits


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/3", "MS-MQRR 3.1.4.13/3", "RPC/18", "MS-MQRR 2.2.4.1/1", "RPC/17"
)
@BOTH
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_wait_ends_with_the_message_that_comes(rig, reader, handle, action, tx):
    call = reader.start(handle, action, timeout=5000, tx=tx)
    assert call.waits
    assert rig.remote.waiting == 1
    assert reader.start(handle, PEEK_CURRENT).result == IO_TIMEOUT, "others go on meanwhile"
    send(rig, b"late")
    rig.desk.settle()
    assert call.body == b"late"
    assert rig.remote.waiting == 0
    assert rig.remote.pending.count == (action == RECEIVE)


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/30",
    "MS-MQRR 3.1.4.7/50",
    "MS-MQRR 3.1.2.1/2",
    "MS-MQRR 3.1.4.7/62",
    "MS-MQRR 3.1.4.13/24",
)
@BOTH
@pytest.mark.parametrize("timeout", [1, 999, 60_000])
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_wait_ends_after_its_milliseconds(rig, reader, handle, timeout, action, tx):
    call = reader.start(handle, action, timeout=timeout, tx=tx)
    rig.pass_time(timeout - 1)
    assert call.waits
    rig.pass_time(1)
    assert call.response == (0, 0, (), IO_TIMEOUT)
    assert rig.remote.pending.count == rig.remote.waiting == 0
    assert rig.remote.pending.timers.running == 0


@pytest.mark.spec("MS-MQRR 3.1.4.7/3")
def test_a_wait_may_last_for_ever(rig, reader, handle):
    call = reader.start(handle, timeout=FOR_EVER)
    rig.pass_time(50 * 24 * 3600 * 1000)
    assert call.waits
    send(rig, b"late")
    assert call.body == b"late"


@pytest.mark.spec("MS-MQRR 3.1.4.7/3", "MS-MQRR 3.1.4.7/5")
def test_a_wait_through_a_cursor_ends_behind_it(rig, reader, handle):
    send(rig, b"one", priority=3)
    cursor = reader.cursor(handle)
    reader.start(handle, PEEK_CURRENT, cursor=cursor)
    call = reader.start(handle, PEEK_NEXT, cursor=cursor, timeout=1000)
    assert call.waits
    send(rig, b"in front of it", priority=7)
    assert call.waits
    send(rig, b"behind it", priority=3)
    assert call.body == b"behind it"


def test_a_queue_that_is_deleted_ends_its_waits(rig, reader, handle):
    call = reader.start(handle, timeout=1000)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    assert call.result not in (OK, IO_TIMEOUT)
    assert reader.start(handle).result == 0xC00E004B
    assert reader.close(handle).result == OK


# -- request identifiers


@pytest.mark.spec("MS-MQRR 3.1.4.7/31", "MS-MQRR 3.1.4.13/11", "MS-MQRR 3.1.1.3/1")
@BOTH
def test_a_request_identifier_is_taken_until_its_receive_has_ended(rig, reader, handle, tx):
    send(rig, b"one", b"two")
    assert reader.start(handle, request_id=5, tx=tx).body == b"one"
    assert reader.start(handle, request_id=5, tx=tx).result == INVALID_PARAMETER
    other = reader.open("orders")
    assert reader.start(other, request_id=5, tx=tx).body == b"two", "another handle, another table"
    assert rig.remote.pending.count == 2


@pytest.mark.spec("MS-MQRR 3.1.4.7/32", "MS-MQRR 3.1.4.13/11")
@BOTH
def test_a_request_identifier_is_free_again_after_end_or_cancel(rig, reader, handle, tx):
    send(rig, b"one", b"two")
    reader.start(handle, request_id=5, tx=tx)
    reader.end(handle, 5)
    assert reader.start(handle, request_id=5, tx=tx).body == b"two"
    reader.end(handle, 5)
    waiting = reader.start(handle, request_id=5, timeout=100, tx=tx)
    assert reader.start(handle, request_id=5, tx=tx).result == INVALID_PARAMETER
    assert reader.cancel(handle, 5).result == OK
    assert waiting.result == CANCELLED
    assert reader.start(handle, request_id=5, tx=tx).result == IO_TIMEOUT


def test_two_waiting_peeks_cannot_have_one_identifier(reader, handle):
    first = reader.start(handle, PEEK_CURRENT, timeout=100, request_id=1)
    assert reader.start(handle, PEEK_CURRENT, timeout=100, request_id=1).result == (
        INVALID_PARAMETER
    )
    assert first.waits


def test_receives_that_are_not_ended_have_a_limit():
    rig = ServerRig(RemoteReadSettings(pending_max=2))
    rig.create("orders")
    send(rig, b"1", b"2", b"3")
    reader = rig.reader()
    handle = reader.open("orders")
    calls: list[RigCall] = [reader.start(handle) for _ in range(3)]
    assert [call.result for call in calls] == [OK, OK, INSUFFICIENT_RESOURCES]
    assert reader.end(handle, 1).result == OK
    assert reader.start(handle).body == b"3"


def test_a_damaged_message_costs_its_reader_an_error(rig, reader, handle):
    send(rig, b"one", b"two")
    number = rig.reads("orders")[0].number
    rig.turn()  # forgets the packets that were looked at
    whole = rig.manager.messages.reading._read_many

    def read_many(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        if number in numbers:
            raise Unreadable("bad sector")
        return whole(numbers)

    rig.manager.messages.reading._read_many = read_many
    assert reader.start(handle).result == 0xC00E002A
    assert rig.remote.pending.count == 0
    assert reader.start(handle).body == b"two"


def test_every_action_is_in_the_table():
    assert {
        getattr(actions, name)
        for name in vars(actions)
        if name.isupper() and isinstance(getattr(actions, name), int)
    } == set(ACTIONS)
    assert sorted(PEEKS) == sorted(
        [PEEK_CURRENT, PEEK_NEXT, LOOKUP_PEEK_CURRENT, LOOKUP_PEEK_NEXT, LOOKUP_PEEK_PREV]
    )
