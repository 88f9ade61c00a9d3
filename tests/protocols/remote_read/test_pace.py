"""No more is read for a client than it takes."""

from __future__ import annotations

import pytest

from posthouse.protocols.memory import SEND, Holder
from posthouse.protocols.remote_read.actions import PEEK_CURRENT, RECEIVE
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from tests.protocols.remote_read.rig import (
    CANCELLED,
    INVALID_PARAMETER,
    IO_TIMEOUT,
    OK,
    Reader,
    RigCall,
    ServerRig,
)

SIZE = 1000
AHEAD = 4 * SIZE


@pytest.fixture
def rig() -> ServerRig:
    made = ServerRig(RemoteReadSettings(read_ahead=AHEAD))
    made.create("orders")
    for number in range(20):
        made.send("orders", bytes([number]) * SIZE)
    return made


@pytest.fixture
def reader(rig: ServerRig) -> Reader:
    return rig.reader()


@pytest.fixture
def handle(reader: Reader) -> bytes:
    return reader.open("orders")


def pipelined(reader: Reader, handle: bytes, action: int, count: int) -> list[RigCall]:
    """Calls that come in one piece."""
    reader.settle = False
    calls = [reader.start(handle, action) for _ in range(count)]
    reader.settle = True
    return calls


def answered(calls: list[RigCall]) -> int:
    return sum(not call.waits for call in calls)


@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_what_comes_in_one_piece_is_read_bit_by_bit(rig, reader, handle, action):
    calls = pipelined(reader, handle, action, 20)
    assert rig.desk.decisions < 12, "most are kept back"
    assert rig.remote.pending.count == (4 if action == RECEIVE else 0)
    rig.desk.settle()
    bodies = [call.body[:1] for call in calls]
    assert bodies == [bytes([n if action == RECEIVE else 0]) for n in range(20)]
    client = next(iter(rig.remote.clients.values()))
    assert client.owed == 0
    assert not client.kept


@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_client_that_does_not_read_gets_no_more(rig, reader, handle, action):
    reader.lazy = True
    calls = pipelined(reader, handle, action, 20)
    rig.desk.settle()
    assert 0 < answered(calls) <= 4
    assert reader.backlog < 2 * AHEAD
    assert rig.remote.pending.count <= 8
    while (before := answered(calls)) < 20:
        reader.drain()
        assert before < answered(calls)
        assert reader.backlog < 2 * AHEAD
    assert calls[-1].body[:1] == bytes([19 if action == RECEIVE else 0])


def test_waits_that_end_together_are_delivered_bit_by_bit(rig, reader):
    rig.create("late")
    handle = reader.open("late")
    calls = [reader.start(handle, PEEK_CURRENT, timeout=1000) for _ in range(20)]
    reader.lazy = True
    rig.send("late", bytes(SIZE))
    rig.desk.settle()
    assert 0 < answered(calls) <= 4
    while answered(calls) < 20:
        reader.drain()
    assert rig.remote.waiting == 0


def test_another_client_is_not_held_up(rig, reader, handle):
    reader.lazy = True
    pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    other = rig.reader()
    assert other.start(other.open("orders")).result == OK


def test_a_client_that_goes_leaves_nothing_behind(rig, reader, handle):
    reader.lazy = True
    calls = pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    delivered = answered(calls)
    reader.lose()
    assert {call.result for call in calls[delivered:]} == {CANCELLED}
    assert rig.remote.pending.count == rig.remote.figures.clients == 0
    assert len(rig.bodies("orders")) == 20
    assert rig.receive("orders").message.body[:1] == b"\0"


def test_a_call_that_is_called_off_while_it_is_kept_back_is_never_made(rig, reader, handle):
    reader.lazy = True
    calls = pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    delivered = answered(calls)
    for call in calls[delivered:]:
        assert call.on_gone is not None
        call.on_gone()
    rig.desk.settle()
    assert answered(calls) == 20
    assert rig.remote.pending.count == delivered
    reader.drain()
    assert rig.remote.pending.count == delivered


def test_a_queue_that_is_closed_meanwhile_gives_nothing(rig, reader, handle):
    reader.lazy = True
    calls = pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    assert reader.close(handle).result == OK
    assert calls[-1].result == CANCELLED
    while answered(calls) < 20:
        reader.drain()
    assert rig.remote.pending.count == 0
    assert len(rig.bodies("orders")) == 20


@pytest.mark.spec("MS-MQRR 3.1.4.8/1", "MS-MQRR 3.1.4.8/5")
@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_read_that_is_kept_back_can_be_cancelled(rig, reader, handle, action):
    calls = pipelined(reader, handle, action, 20)
    reader.settle = False
    cancelled = reader.cancel(handle, 20)
    rig.desk.settle()
    assert cancelled.result == OK
    assert calls[19].result == CANCELLED
    assert {call.result for call in calls[:19]} == {OK}


def test_a_request_identifier_is_taken_while_its_read_is_kept_back(rig, reader, handle):
    pipelined(reader, handle, RECEIVE, 20)
    reader.settle = False
    again = reader.start(handle, request_id=20)
    assert again.result == INVALID_PARAMETER
    rig.desk.settle()
    assert rig.remote.pending.count == 20


def test_the_request_identifier_of_a_wait_is_taken_while_its_client_is_full(rig, reader, handle):
    """Both would be kept back under it when the wait ends."""
    rig.create("late")
    late = reader.open("late")
    waiting = reader.start(late, timeout=60_000, request_id=100)
    reader.lazy = True
    pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    assert reader.start(late, timeout=60_000, request_id=100).result == INVALID_PARAMETER
    rig.send("late", b"one")
    rig.desk.settle()
    assert waiting.waits
    reader.lazy = False
    while reader.thirsty:
        reader.drain()
    assert waiting.body == b"one"


@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_wait_that_ends_when_its_client_is_full_is_made_anew(rig, reader, handle, action):
    rig.create("late")
    late = reader.open("late")
    waiting = [reader.start(late, action, timeout=60_000) for _ in range(3)]
    reader.lazy = True
    pipelined(reader, handle, RECEIVE, 20)
    rig.desk.settle()
    rig.send("late", b"for somebody")
    rig.desk.settle()
    assert answered(waiting) == 0
    assert rig.receive("late").message.body == b"for somebody", "others are not kept from it"
    rig.send("late", b"one")
    reader.lazy = False
    while reader.thirsty:
        reader.drain()
    bodies = [call.body for call in waiting if not call.waits]
    assert bodies == [b"one"] * (1 if action == RECEIVE else 3)
    rig.pass_time(60_000)
    assert {call.result for call in waiting} <= {OK, IO_TIMEOUT}
    assert rig.remote.waiting == 0


def test_the_time_to_wait_goes_on_while_a_read_is_kept_back(rig, reader, handle):
    reader.lazy = True
    pipelined(reader, handle, RECEIVE, 20)
    rig.create("late")
    empty = reader.open("late")
    call = reader.start(empty, timeout=1000)
    rig.pass_time(400)
    assert call.waits
    reader.lazy = False
    while reader.thirsty:
        reader.drain()
    rig.pass_time(599)
    assert call.waits
    rig.pass_time(1)
    assert call.result == IO_TIMEOUT


LARGE = 200_000
MEMORY = 2_000_000


@pytest.fixture
def short(rig: ServerRig) -> Holder:
    """A queue of one large message, and somebody who holds all memory."""
    rig.create("large")
    rig.send("large", bytes(LARGE))
    memory = rig.remote.memory
    memory.limit = MEMORY
    holder = memory.open("elsewhere", lambda reason: None, lambda: None)
    holder.take(SEND, MEMORY // 2)
    return holder


@pytest.mark.parametrize("action", [RECEIVE, PEEK_CURRENT])
def test_a_large_message_is_read_when_there_is_memory(rig, reader, short, action):
    handle = reader.open("large")
    fetched = []
    rig.manager.messages.reading._read_many = lambda numbers: fetched.append(numbers)
    call = reader.start(handle, action)
    assert call.waits
    assert fetched == []
    assert rig.remote.pending.count == 0
    rig.manager.messages.reading._read_many = rig.store.read_many
    short.leave()
    rig.desk.settle()
    assert call.body == bytes(LARGE)
    assert rig.remote.memory.used == 0


def test_reads_that_wait_for_memory_are_served_in_turn(rig, reader, short):
    readers = [reader, *(rig.reader() for _ in range(2))]
    calls = [one.start(one.open("large"), PEEK_CURRENT) for one in readers for _ in range(4)]
    assert all(call.waits for call in calls)
    short.leave()
    rig.desk.settle()
    assert {call.body for call in calls} == {bytes(LARGE)}
    assert rig.remote.memory.used == 0


def test_small_messages_are_read_whatever_others_hold(rig, reader, handle, short):
    assert reader.start(handle).body[:1] == bytes([0])


def test_a_wait_that_ends_with_a_large_message_waits_for_memory(rig, reader, short):
    rig.create("late")
    handle = reader.open("late")
    calls = [reader.start(handle, action, timeout=1000) for action in (PEEK_CURRENT, RECEIVE)]
    rig.send("late", bytes(LARGE))
    rig.desk.settle()
    assert all(call.waits for call in calls)
    short.leave()
    rig.desk.settle()
    assert [call.body for call in calls] == [bytes(LARGE)] * 2


def test_a_read_that_waits_for_memory_ends_with_its_client(rig, reader, short):
    call = reader.start(reader.open("large"))
    assert call.waits
    reader.lose()
    short.leave()
    rig.desk.settle()
    assert call.result == CANCELLED
    assert rig.remote.memory.used == 0
    assert not rig.remote.memory._holders
    other = rig.reader()
    assert other.start(other.open("large")).body == bytes(LARGE)


def test_a_request_that_waits_for_memory_is_not_made_twice(rig, reader, short):
    handle = reader.open("large")
    call = reader.start(handle, request_id=77)
    assert call.waits
    assert reader.start(handle, request_id=77).result == INVALID_PARAMETER
    short.leave()
    rig.desk.settle()
    assert call.body == bytes(LARGE)
