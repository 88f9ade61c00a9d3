"""Cancel, end, cleanup and rundown ([MS-MQRR] 3.1.1.2-3, 3.1.2.2, 3.1.4.8-9, 3.1.5-6)."""

from __future__ import annotations

import pytest

from posthouse.engine.ledger.effects import READ_IN_DOUBT
from posthouse.model.message import Message
from posthouse.protocols.remote_read.actions import (
    LOOKUP_RECEIVE_CURRENT,
    PEEK_CURRENT,
    RECEIVE,
)
from posthouse.protocols.remote_read.call_timers import STALE_MAX, CallTimers
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import NO_TRANSACTION
from posthouse.rpc.ndr import BadStub
from tests.engine.rig import SEND
from tests.protocols.remote_read.rig import (
    ACK,
    CANCELLED,
    INVALID_HANDLE,
    INVALID_PARAMETER,
    MESSAGE_NOT_FOUND,
    NACK,
    OK,
    STATUS_ACCESS_DENIED,
    STATUS_NOT_FOUND,
    Reader,
    RigCall,
    ServerRig,
)
from tests.protocols.remote_read.rights import grant, revoke

CLEANUP_MS = 300_000
# Decision 90: without a transaction opnum 15 ends what opnum 13 began; opnum 9 would do as well.
ENDS = pytest.mark.parametrize("transactional", [False, True], ids=["7 and 9", "13 and 15"])


@pytest.fixture
def handle(reader: Reader) -> bytes:
    return reader.open("orders")


def start(reader: Reader, handle: bytes, transactional: bool, **options: object) -> RigCall:
    tx = NO_TRANSACTION if transactional else None
    return reader.start(handle, tx=tx, **options)  # type: ignore[arg-type]


def end(
    reader: Reader, handle: bytes, request_id: int, transactional: bool, ack: int = ACK
) -> RigCall:
    method = reader.end_transactional if transactional else reader.end
    return method(handle, request_id, ack)


def entry_of(rig: ServerRig, reader: Reader, handle: bytes, request_id: int):
    opened = reader.association.group.find(handle, reader.identity)
    return opened.pending[request_id]


# -- R_EndReceive


@pytest.mark.spec(
    "MS-MQRR 3.1.4.9/3",
    "MS-MQRR 3.1.4.9/7",
    "MS-MQRR 3.1.4.9/10",
    "MS-MQRR 3.1.4.15/7",
    "MS-MQRR 3.1.4.15/10",
)
@ENDS
def test_an_acknowledged_message_is_gone_for_good(rig, reader, handle, transactional):
    rig.send("orders", b"one")
    start(reader, handle, transactional, request_id=7)
    assert rig.bodies("orders") == [b"one"], "not before it is acknowledged"
    assert end(reader, handle, 7, transactional).result == OK
    assert rig.bodies("orders") == []
    assert rig.remote.pending.count == rig.remote.pending.timers.running == 0
    assert end(reader, handle, 7, transactional).result == INVALID_HANDLE
    rig.restart()
    assert rig.bodies("orders") == []
    rig.check_books()


@pytest.mark.spec("MS-MQRR 3.1.4.9/4", "MS-MQRR 3.1.4.9/7")
@ENDS
def test_a_refused_message_is_back_at_its_place(rig, reader, handle, transactional):
    for body in (b"one", b"two"):
        rig.send("orders", body)
    assert start(reader, handle, transactional, request_id=7).body == b"one"
    assert end(reader, handle, 7, transactional, NACK).result == OK
    assert rig.remote.pending.count == rig.remote.pending.timers.running == 0
    other = rig.reader()
    theirs = other.open("orders")
    call = other.start(theirs)
    assert call.body == b"one"
    assert call.packet.trailers.aborts == 0


@pytest.mark.spec("MS-MQRR 3.1.4.9/2", "MS-MQRR 3.1.4.15/2", "RPC/11")
@pytest.mark.parametrize("opnum", [9, 15])
@pytest.mark.parametrize("ack", [0, 3, 0xFFFFFFFF])
def test_any_other_answer_is_a_fault(rig, reader, handle, opnum, ack):
    rig.send("orders", b"one")
    reader.start(handle)
    stub = handle + ack.to_bytes(4, "little") + (1).to_bytes(4, "little")
    with pytest.raises(BadStub) as caught:
        reader.raw(opnum, stub)
    assert caught.value.status == 0x6F7
    assert rig.remote.pending.count == 1


@pytest.mark.spec("MS-MQRR 3.1.4.9/5", "MS-MQRR 3.1.4.15/5")
@ENDS
def test_a_handle_without_receives_has_nothing_to_end(rig, reader, handle, transactional):
    rig.send("orders", b"one")
    reader.start(handle, PEEK_CURRENT)
    assert end(reader, handle, 1, transactional).result == INVALID_HANDLE
    assert rig.bodies("orders") == [b"one"]


@pytest.mark.spec("MS-MQRR 3.1.4.9/6", "MS-MQRR 3.1.4.15/6", "MS-MQRR 3.1.1.3/1")
@ENDS
def test_another_request_is_an_invalid_parameter(rig, reader, handle, transactional):
    rig.send("orders", b"one")
    start(reader, handle, transactional, request_id=7)
    assert end(reader, handle, 8, transactional).result == INVALID_PARAMETER
    other = reader.open("orders")
    assert end(reader, other, 7, transactional).result == INVALID_HANDLE
    assert end(reader, handle, 7, transactional).result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.9/9", "MS-MQRR 3.1.4.15/9", "MS-MQRR 3.1.4.9/7")
@ENDS
@pytest.mark.parametrize("ack", [ACK, NACK])
def test_a_message_that_is_gone_is_not_found(rig, reader, handle, transactional, ack):
    rig.send("orders", b"one")
    start(reader, handle, transactional, request_id=7)
    descriptor = next(iter(rig.queue("orders").descriptors.values()))
    number = next(iter(descriptor.held))
    lookup_id = rig.reads("orders")[0].lookup_id
    rig.run(lambda m: m.messages.dequeue_message_end(descriptor, lookup_id, positive=True))
    assert number
    assert end(reader, handle, 7, transactional, ack).result == MESSAGE_NOT_FOUND
    assert rig.remote.pending.count == 0


def test_a_purged_message_may_still_be_acknowledged(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle)
    reader.call(6, handle)
    assert reader.end(handle, 1).result == OK
    assert rig.bodies("orders") == []
    rig.check_books()


def test_a_purged_message_does_not_come_back(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle)
    reader.call(6, handle)
    assert reader.end(handle, 1, NACK).result == OK
    assert rig.bodies("orders") == []


@pytest.mark.parametrize("ack", [ACK, NACK])
def test_what_a_reader_who_lost_his_right_cannot_end_goes_back(rig, ack):
    """At once: it is in no table any more, and they may stay for ever."""
    alice = Reader(rig, rig.user("alice"))
    grant(rig, "orders", "alice", 0x3)
    rig.send("orders", b"one")
    handle = alice.open("orders")
    alice.start(handle)
    revoke(rig, "orders", "alice")
    assert alice.end(handle, 1, ack).result == STATUS_ACCESS_DENIED
    assert bool(rig.reads("orders")[0].flags & READ_IN_DOUBT) is (ack == ACK)
    assert rig.receive("orders").message.body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.9/12")
def test_an_end_is_answered_when_it_is_safe(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle)
    reader.settle = False
    call = reader.end(handle, 1)
    rig.desk.append()
    assert rig.driver.release() == 0 or not call.answers
    assert call.waits, "appended, not synced"
    rig.desk.settle()
    assert call.result == OK


@pytest.mark.spec("MS-MQRR 3.1.4.9/12")
def test_a_message_whose_end_was_not_safe_is_there_after_a_crash(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle)
    reader.settle = False
    reader.end(handle, 1)
    rig.desk.append()
    rig.restart()
    assert rig.bodies("orders") == [b"one"]


def test_both_calls_may_come_in_one_turn(rig, reader, handle):
    rig.send("orders", b"one")
    reader.settle = False
    started, ended = reader.start(handle), reader.end(handle, 1)
    rig.desk.settle()
    assert (started.body, ended.result) == (b"one", OK)
    assert rig.bodies("orders") == []


def test_the_end_of_a_receive_that_waits_ends_the_wait(rig, reader, handle):
    call = reader.start(handle, timeout=1000, request_id=3)
    assert reader.end(handle, 3).result == MESSAGE_NOT_FOUND
    assert call.result == CANCELLED
    assert rig.remote.pending.count == rig.remote.waiting == 0
    rig.send("orders", b"late")
    assert rig.receive("orders").message.body == b"late"


def test_the_end_of_a_receive_whose_message_is_on_its_way(rig, reader, handle):
    call = reader.start(handle, timeout=1000, request_id=3)
    reader.settle = False
    rig.desk.decide(lambda m: None, lambda answer: None)
    sender = rig.manager.queues.open_queue(r".\private$\orders", SEND, rig.admin)
    rig.manager.messages.enqueue_message_to_an_open_queue(sender, Message(body=b"late"))
    rig.desk.append()  # the reader is served, and does not know yet
    ended = reader.end(handle, 3)
    rig.desk.settle()
    assert ended.result == MESSAGE_NOT_FOUND
    assert call.result == CANCELLED
    assert rig.receive("orders").message.body == b"late"


# -- R_CancelReceive


@pytest.mark.spec(
    "MS-MQRR 3.1.4.7/53",
    "MS-MQRR 3.1.4.8/1",
    "MS-MQRR 3.1.4.8/4",
    "MS-MQRR 3.1.4.8/5",
    "MS-MQRR 3.1.4.13/3",
    "MS-MQRR 3.1.4.13/14",
)
@ENDS
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_wait_can_be_cancelled(rig, reader, handle, action, transactional):
    call = start(reader, handle, transactional, action=action, timeout=1000, request_id=4)
    assert reader.cancel(handle, 4).result == OK
    assert call.response == (0, 0, (), CANCELLED)
    assert rig.remote.pending.count == rig.remote.waiting == 0
    rig.send("orders", b"late")
    assert start(reader, handle, transactional, request_id=4).body == b"late"


@pytest.mark.spec("MS-MQRR 3.1.4.8/3")
def test_nothing_else_can_be_cancelled(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle, request_id=1)
    waiting = reader.start(handle, timeout=1000, request_id=2)
    other = reader.open("orders")
    for where, request_id in ((handle, 1), (handle, 3), (other, 2)):
        assert reader.cancel(where, request_id).result == STATUS_NOT_FOUND
    assert waiting.waits
    assert rig.remote.pending.count == 2
    assert reader.end(handle, 1).result == OK


def test_the_same_request_of_another_client_goes_on_waiting(rig, reader, handle):
    other = rig.reader()
    theirs = other.open("orders")
    mine = reader.start(handle, timeout=1000, request_id=1)
    yours = other.start(theirs, timeout=1000, request_id=1)
    assert reader.cancel(handle, 1).result == OK
    assert mine.result == CANCELLED
    assert yours.waits


# -- entries


@pytest.mark.spec(
    "MS-MQRR 3.1.1.2/1", "MS-MQRR 3.1.1.2/3", "MS-MQRR 3.1.4.7/56", "MS-MQRR 3.1.4.7/59"
)
def test_an_entry_has_request_handle_message_and_time(rig, reader, handle):
    rig.clock.advance(0x1_0000_0005 - rig.clock.now_ms)
    rig.send("orders", b"one")
    call = reader.start(handle, request_id=9)
    entry = entry_of(rig, reader, handle, 9)
    assert entry.request_id == 9
    assert entry.queue.handle == handle
    assert entry.lookup_id == call.response.sequence_id
    assert entry.time_stamp == 5


@pytest.mark.spec("MS-MQRR 3.1.1.2/2", "MS-MQRR 3.1.4.7/56")
def test_an_entry_has_no_message_while_it_waits(rig, reader, handle):
    reader.start(handle, request_id=9, timeout=1000)
    assert entry_of(rig, reader, handle, 9).lookup_id == 0
    rig.send("orders", b"late")
    assert entry_of(rig, reader, handle, 9).lookup_id == rig.reads("orders")[0].lookup_id


# -- the cleanup timer


@pytest.mark.spec(
    "MS-MQRR 3.1.2/1",
    "MS-MQRR 3.1.2.2/1",
    "MS-MQRR 3.1.2.2/2",
    "MS-MQRR 3.1.2.2/3",
    "MS-MQRR 3.1.4.7/57",
    "MS-MQRR 3.1.5.1/1",
    "MS-MQRR 3.1.5.1/2",
    "MS-MQRR 3.1.4.13/21",
)
@ENDS
@pytest.mark.parametrize("lookup", [False, True])
def test_what_is_not_ended_in_five_minutes_goes_back(rig, reader, handle, lookup, transactional):
    rig.send("orders", b"one")
    options = {}
    if lookup:
        lookup_id = rig.reads("orders")[0].lookup_id
        options = {"action": LOOKUP_RECEIVE_CURRENT, "lookup_id": lookup_id}
    start(reader, handle, transactional, request_id=2, **options)
    assert rig.wakes[-1] == rig.clock.now_ms + CLEANUP_MS
    rig.pass_time(CLEANUP_MS - 1)
    assert rig.remote.pending.count == 1
    rig.pass_time(1)
    assert rig.remote.pending.count == 0
    assert rig.remote.figures.cleaned_up == 1
    assert end(reader, handle, 2, transactional).result == INVALID_HANDLE
    assert start(reader, handle, transactional).body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.9/13")
def test_what_was_cleaned_up_is_in_doubt(rig, reader, handle):
    rig.send("orders", b"one")
    reader.start(handle)
    rig.pass_time(CLEANUP_MS)
    assert rig.reads("orders")[0].flags & READ_IN_DOUBT


def test_a_long_wait_does_not_use_up_the_time_to_end(rig, reader, handle):
    """Decision 91: the timer runs from the message on."""
    call = reader.start(handle, timeout=0xFFFFFFFF)
    rig.pass_time(2 * CLEANUP_MS)
    rig.send("orders", b"late")
    assert call.body == b"late"
    rig.pass_time(CLEANUP_MS - 1)
    assert reader.end(handle, 1).result == OK
    assert rig.bodies("orders") == []


def test_each_receive_has_a_timer_of_its_own(rig, reader, handle):
    for body in (b"one", b"two", b"three"):
        rig.send("orders", body)
    for _ in range(3):
        reader.start(handle)
        rig.pass_time(1000)
    assert reader.end(handle, 2).result == OK
    rig.pass_time(CLEANUP_MS - 3000)
    assert rig.remote.pending.count == 1
    assert rig.wakes[-1] == rig.clock.now_ms + 2000
    assert rig.remote.pending.timers.running == 1
    rig.pass_time(2000)
    assert rig.remote.pending.count == 0
    assert reader.receive(handle, request_id=None) == b"one"


@pytest.mark.spec("MS-MQRR 3.1.2.2/3")
def test_the_timer_is_a_setting():
    rig = ServerRig(RemoteReadSettings(cleanup_ms=50))
    rig.create("orders")
    rig.send("orders", b"one")
    reader = rig.reader()
    reader.start(reader.open("orders"))
    rig.pass_time(50)
    assert rig.remote.pending.count == 0


class Owner:
    due_ms = 0


def test_stopped_timers_leave_nothing_behind():
    wakes: list[int] = []
    timers: CallTimers[Owner] = CallTimers(100, wakes.append)
    first = Owner()
    timers.start(first, 0)
    for at in range(3 * STALE_MAX):
        owner = Owner()
        timers.start(owner, 1 + at // 1000)
        timers.stop(owner)
    assert len(timers._queue) <= STALE_MAX + 2
    assert wakes == [100]
    assert timers.take_due(100) == [first]
    assert timers.running == 0


# -- the end of a client


@pytest.mark.spec(
    "RPC/16",
    "MS-MQRR 3.1.6.1/1",
    "MS-MQRR 3.1.6.1/2",
    "MS-MQRR 3.1.6.2/1",
    "MS-MQRR 3.1.6.2/2",
    "MS-MQRR 3.1.6.2/4",
)
def test_the_last_connection_of_a_client_takes_everything_along(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders", share=1)
    reader.cursor(handle)
    reader.start(handle)
    waiting = reader.start(handle, timeout=1000)
    reader.lose()
    assert waiting.result == CANCELLED
    assert rig.remote.pending.count == rig.remote.pending.timers.running == 0
    assert rig.remote.figures[1:5] == (0, 0, 0, 0)
    assert not rig.queue("orders").descriptors
    assert not rig.manager.queues.opening._cursors
    other = rig.reader()
    theirs = other.open("orders", share=1)
    assert other.start(theirs).body == b"one"
    rig.check_books()


@pytest.mark.spec("RPC/15", "RPC/16")
def test_a_client_lives_as_long_as_any_of_its_connections(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders")
    reader.start(handle)
    second = rig.reader(group_id=reader.group_id)
    reader.lose()
    assert second.end(handle, 1).result == OK
    second.lose()
    assert rig.bodies("orders") == []


@pytest.mark.spec("MS-MQRR 3.1.6.2/3")
def test_messages_go_back_before_the_queue_is_closed(rig, reader):
    """A subqueue is gone when nobody has it open and nothing is in it."""
    rig.send("orders", b"one")
    source = reader.open("orders")
    context, target = reader.open_for_move("orders;retry")
    assert reader.move(source, context, rig.reads("orders")[0].lookup_id).result == OK
    reader.close(target)
    other = rig.reader()
    handle = other.open("orders;retry")
    assert other.start(handle).body == b"one"
    other.lose()
    assert rig.bodies("orders;retry") == [b"one"]


def test_what_a_lost_client_held_goes_to_others_and_not_to_itself(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders")
    reader.start(handle)
    own = [reader.start(handle, timeout=1000), reader.start(reader.open("orders"), timeout=1000)]
    other = rig.reader()
    waiting = other.start(other.open("orders"), timeout=1000)
    reader.lose()
    assert [call.result for call in own] == [CANCELLED, CANCELLED]
    assert waiting.body == b"one"


@pytest.mark.spec("MS-MQRR 3.1.4.9/13", "MS-MQRR 3.1.6.2/2")
def test_what_a_lost_client_held_is_in_doubt(rig, reader):
    rig.send("orders", b"one")
    reader.start(reader.open("orders"))
    reader.lose()
    assert rig.reads("orders")[0].flags & READ_IN_DOUBT


@pytest.mark.spec("MS-MQRR 3.1.6.1/3")
def test_a_client_that_closed_its_queues_leaves_nothing_to_run_down(rig, reader):
    handle = reader.open("orders")
    reader.close(handle)
    before = rig.manager.machine.refusals.total()
    reader.lose()
    assert rig.manager.machine.refusals.total() == before
    assert rig.remote.figures[1:5] == (0, 0, 0, 0)


def test_a_client_of_a_deleted_queue_can_go(rig, reader):
    rig.send("orders", b"one")
    handle = reader.open("orders")
    reader.start(handle)
    rig.run(lambda m: m.queues.delete_queue(r".\private$\orders", rig.admin))
    reader.lose()
    assert rig.remote.figures[1:5] == (0, 0, 0, 0)


@pytest.mark.spec("RPC/25", "RPC/18")
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_call_that_is_called_off_stops_waiting(rig, reader, handle, action):
    call = reader.start(handle, action, timeout=1000)
    assert call.on_gone is not None
    call.on_gone()
    rig.desk.settle()
    assert rig.remote.waiting == rig.remote.pending.count == 0
    assert not rig.queue("orders").waiters
    rig.send("orders", b"late")
    assert rig.receive("orders").message.body == b"late"


def test_a_message_for_a_call_that_is_gone_goes_back(rig, reader, handle):
    rig.send("orders", b"one")
    reader.settle = False
    call = reader.start(handle)
    assert call.on_gone is not None
    call.on_gone()
    rig.desk.settle()
    assert call.result == CANCELLED
    assert rig.remote.pending.count == 0
    assert rig.receive("orders").message.body == b"one"


def test_a_message_that_comes_while_its_call_goes_is_given_back(rig, reader, handle):
    call = reader.start(handle, timeout=1000)
    rig.desk.decide(lambda m: None, lambda answer: None)
    sender = rig.manager.queues.open_queue(r".\private$\orders", SEND, rig.admin)
    rig.manager.messages.enqueue_message_to_an_open_queue(sender, Message(body=b"late"))
    rig.desk.append()
    assert call.on_gone is not None
    call.on_gone()
    rig.desk.settle()
    assert rig.remote.pending.count == rig.remote.waiting == 0
    assert rig.receive("orders").message.body == b"late"
