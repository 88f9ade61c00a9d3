"""What sessions take of outgoing queues, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.ledger.books import sender_books_of
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.records import CHANGE, unpack_change
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.model.errors import QueueNotFound, UnsupportedOperation
from posthouse.model.message import NACK_REACH_QUEUE_TIMEOUT
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet_fields import SESSION, summarize
from tests.engine.cost import steps
from tests.engine.letters import DEAD_LETTERS, FAR, JOURNAL, RECEIVE_ADMIN
from tests.engine.sessions import SessionRig

OTHER = r"DIRECT=OS:CHARLIE\private$\q"


@pytest.fixture
def rig() -> Iterator[SessionRig]:
    rig = SessionRig()
    yield rig
    rig.check_books()


def fill(rig: SessionRig, bodies: str = "abc", **attributes: object) -> None:
    for body in bodies:
        rig.send(FAR, body.encode(), **attributes)


# -- what is taken


@pytest.mark.spec("MS-MQQB 3.1.7.16/1", "MS-MQQB 3.1.7.12/4")
def test_each_message_is_taken_once_in_queue_order(rig: SessionRig) -> None:
    sender = rig.session()
    assert rig.take(sender) == []
    assert not sender.waiting
    for body, priority in ((b"low", 1), (b"top", 7), (b"mid", 3), (b"second top", 7)):
        rig.send(FAR, body, priority=priority)
    assert sender.waiting
    assert rig.sent(sender, 3) == [b"top", b"second top", b"mid"]
    rig.send(FAR, b"late top", priority=7)
    assert rig.sent(sender) == [b"late top", b"low"]
    assert rig.sent(sender) == []
    assert not sender.waiting
    assert sender.unacknowledged == 5


def test_the_packet_is_sent_as_it_is_stored(rig: SessionRig) -> None:
    identifier = rig.send(FAR, b"x", recoverable=False, label="hello")
    rig.send(FAR, b"y")
    express, recoverable = rig.take(rig.session())
    assert express.packet == rig.store.read(express.number)
    assert deserialize(express.packet).identifier == identifier
    assert (express.recoverable, recoverable.recoverable) == (False, True)
    assert not summarize(express.packet).base_flags & SESSION
    assert [express.transactional, recoverable.transactional] == [False, False]


def test_a_batch_is_as_large_as_the_session_can_bear(rig: SessionRig) -> None:
    for size in (1000, 200, 3000, 100):
        rig.send(FAR, bytes(size))
    sender = rig.session()
    assert [len(body) for body in rig.sent(sender, 0)] == []
    taken = rig.take(sender, 10, 2000)
    assert [len(deserialize(out.packet).body) for out in taken] == [1000, 200]
    (large,) = rig.take(sender, 10, 2000)  # more than it can bear, but alone
    assert len(large.packet) > 3000
    assert [len(body) for body in rig.sent(sender)] == [100]


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.3/1", "MS-MQQB 3.1.7.1/1")
@pytest.mark.parametrize("state", list(OutgoingQueueState))
def test_only_a_connected_queue_sends(rig: SessionRig, state: OutgoingQueueState) -> None:
    fill(rig, "a")
    sender = rig.session()
    _, outgoing = rig.outgoing()
    outgoing.state = state
    connected = state is OutgoingQueueState.CONNECTED
    assert sender.waiting == connected
    assert rig.sent(sender) == ([b"a"] if connected else [])


@pytest.mark.spec("MS-MQQB 3.1.7.13/3", "MS-MQQB 3.1.7.12/2", "MS-MQQB 3.1.7.14/2")
@pytest.mark.spec("MS-MQDMPR 3.1.1.3/5", "MS-MQDMPR 3.1.7.2.3/1", "MS-MQDMPR 3.1.4.15/1")
def test_a_paused_queue_sends_nothing_until_it_is_resumed(rig: SessionRig) -> None:
    fill(rig, "ab")
    sender = rig.session()
    assert rig.sent(sender, 1) == [b"a"]
    queue = rig.outgoing()[0]
    rig.run(lambda m: m.transfer.pause_queue(queue))
    fill(rig, "c")
    assert rig.sent(sender) == []
    assert not sender.waiting
    rig.active.clear()
    rig.run(lambda m: m.transfer.resume_queue(queue))
    assert rig.active == {queue.number}
    assert rig.sent(sender) == [b"b", b"c"]  # the session is still there, and what it sent too
    assert rig.outgoing()[1].state is OutgoingQueueState.CONNECTED


@pytest.mark.spec("MS-MQQB 3.1.7.14/1", "MS-MQDMPR 3.1.7.2.4/1")
def test_a_queue_resumed_without_a_session_wants_one(rig: SessionRig) -> None:
    fill(rig, "a")
    sender, queue = rig.session(), rig.outgoing()[0]
    rig.run(lambda m: m.transfer.pause_queue(queue))
    rig.end(sender)
    assert queue.outgoing is not None
    assert queue.outgoing.state is OutgoingQueueState.ON_HOLD
    rig.run(lambda m: m.transfer.resume_queue(queue))
    assert queue.outgoing.state is OutgoingQueueState.DISCONNECTED
    assert not queue.outgoing.engaged


@pytest.mark.spec("MS-MQDMPR 3.1.4.12/1", "MS-MQDMPR 3.1.4.13/1")
def test_offline_nothing_is_sent(rig: SessionRig) -> None:
    fill(rig, "a")
    sender = rig.session()
    rig.run(lambda m: m.transfer.take_offline())
    assert rig.sent(sender) == []
    rig.run(lambda m: m.transfer.bring_online())
    assert rig.sent(sender) == [b"a"]


def test_only_outgoing_queues_are_sent(rig: SessionRig) -> None:
    queue = rig.create("orders")
    with rig.refused(UnsupportedOperation.code):
        rig.run(lambda m: m.transfer.begin_sending(queue.number))
    with rig.refused(QueueNotFound.code):
        rig.run(lambda m: m.transfer.begin_sending(9999))


# -- sessions come and go


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.3/2", "MS-MQQB 3.1.7.1.1/1", "MS-MQQB 3.1.7.1.6/2")
@pytest.mark.parametrize("recoverable", [True, False])
def test_what_was_not_acknowledged_is_sent_again_on_the_next_session(
    rig: SessionRig, recoverable: bool
) -> None:
    fill(rig, "abc", recoverable=recoverable)
    first = rig.session()
    taken = rig.take(first)
    rig.acknowledge(first, taken[1:2])
    rig.end(first)
    assert rig.take(first) == []
    _, outgoing = rig.outgoing()
    assert outgoing.state is OutgoingQueueState.DISCONNECTED
    assert not outgoing.engaged
    again = rig.take(rig.session())
    assert [out.packet for out in again] == [taken[0].packet, taken[2].packet]


def test_a_new_session_ends_the_one_before(rig: SessionRig) -> None:
    fill(rig, "ab")
    old = rig.session()
    taken = rig.take(old, 1)
    new = rig.session()
    assert not old.live
    assert rig.take(old) == []
    rig.end(old)
    assert rig.sent(new) == [b"a", b"b"]
    rig.acknowledge(old, taken)  # it is true all the same
    assert rig.waiting_bodies() == [b"b"]
    assert rig.outgoing()[1].state is OutgoingQueueState.CONNECTED


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.5/1", "MS-MQQB 3.1.1.3.1/12")
def test_recoverable_messages_survive_a_crash_of_the_sender_in_order(rig: SessionRig) -> None:
    fill(rig, "abcd")
    sender = rig.session()
    taken = rig.take(sender, 3)
    rig.acknowledge(sender, taken[:1])
    rig.restart()
    assert rig.sent(rig.session()) == [b"b", b"c", b"d"]


# -- acknowledgments of the session


@pytest.mark.spec("MS-MQQB 3.1.5.5.1/1", "MS-MQQB 3.1.5.5.1/3")
@pytest.mark.spec("MS-MQQB 3.1.5.5.2/1", "MS-MQQB 3.1.5.5.3/1", "MS-MQQB 3.1.5.5.3/2")
@pytest.mark.parametrize("recoverable", [True, False])
def test_acknowledged_messages_are_delivered(rig: SessionRig, recoverable: bool) -> None:
    fill(rig, "abcd", recoverable=recoverable)
    sender = rig.session()
    taken = rig.take(sender, 3)
    rig.acknowledge(sender, [taken[0], taken[2]])
    assert rig.waiting_bodies() == [b"b", b"d"]
    assert sender.unacknowledged == 1
    assert rig.sent(sender) == [b"d"]  # b is in flight
    queue = rig.outgoing()[0]
    found = sender_books_of(queue, rig.manager.transfer.unacknowledged(queue))
    assert (found.sent, found.unsent, found.unacknowledged) == (4, 0, 2)
    assert (found.delivered, found.failed) == (2, 0)
    assert found.balanced
    rig.acknowledge(sender, taken)  # those that are gone are gone
    assert rig.waiting_bodies() == [b"d"]


def test_a_batch_of_acknowledgments_is_one_record(rig: SessionRig) -> None:
    fill(rig, "abcdef")
    rig.send(FAR, b"kept", positive_journaling_requested=True)
    sender = rig.session()
    taken = rig.take(sender)
    numbers = [out.number for out in taken]
    effects = rig.decide(lambda m: sender.acknowledged(numbers))
    changes = [unpack_change(record[2]) for record in effects.records]
    assert [record[0] for record in effects.records] == [CHANGE]
    assert len(changes[0].ends) == 6
    assert len(changes[0].settles) == 1
    rig.restart()
    assert rig.waiting_bodies() == []
    assert rig.bodies(JOURNAL) == [b"kept"]


@pytest.mark.parametrize("priorities", [(3, 3, 3, 3), (3, 5, 5, 3)])
def test_acknowledgments_may_come_in_any_order(
    rig: SessionRig, priorities: tuple[int, ...]
) -> None:
    for number, priority in enumerate(priorities):
        rig.send(FAR, b"%d" % number, priority=priority)
    sender = rig.session()
    first, second, third, fourth = rig.take(sender)
    rig.acknowledge(sender, [fourth, first, third])
    queue = rig.outgoing()[0]
    assert queue.state.count == len(rig.waiting_bodies()) == 1
    rig.acknowledge(sender, [second])
    assert (queue.state.count, queue.state.bytes, rig.waiting_bodies()) == (0, 0, [])
    rig.restart()
    assert rig.waiting_bodies() == []


@pytest.mark.spec("MS-MQQB 3.1.5.5.4/1")
def test_delivered_messages_are_journaled_where_that_was_asked_for(rig: SessionRig) -> None:
    rig.send(FAR, b"a", positive_journaling_requested=True)
    rig.send(FAR, b"b")
    sender = rig.session()
    taken = rig.take(sender)
    assert rig.bodies(JOURNAL) == []
    rig.acknowledge(sender, taken)
    assert rig.bodies(JOURNAL) == [b"a"]


@pytest.mark.spec("MS-MQQB 3.1.5.5.4/3")
@pytest.mark.parametrize(
    "name",
    [
        "PRIVATE=00010203-0405-0607-0809-0a0b0c0d0e0f\\00000004",
        r"DIRECT=TCP:10.1.1.1\PRIVATE$\order_queue$",
        r"DIRECT=OS:BRAVO\private$\Admin_Queue$",
        r"DIRECT=OS:BRAVO\private$\notify_queue$",
    ],
)
def test_what_goes_to_the_queues_of_queue_managers_is_not_journaled(
    rig: SessionRig, name: str
) -> None:
    rig.send(name, b"a", positive_journaling_requested=True)
    sender = rig.session(name)
    rig.acknowledge(sender, rig.take(sender))
    assert rig.bodies(JOURNAL) == []
    assert rig.waiting_bodies(name) == []


def test_a_full_journal_keeps_no_message_from_being_delivered(rig: SessionRig) -> None:
    journal = rig.queue(JOURNAL)
    journal.definition.quota_kib = 0
    journal.set_limit()
    rig.send(FAR, b"a", positive_journaling_requested=True)
    sender = rig.session()
    rig.acknowledge(sender, rig.take(sender))
    assert rig.waiting_bodies() == rig.bodies(JOURNAL) == []
    assert rig.manager.machine.refusals["journal_copy_dropped"] == 1


# -- time to reach the queue


@pytest.mark.spec("MS-MQQB 3.1.7.1.2/1", "MS-MQQB 3.1.7.1.2/2", "MS-MQQB 3.1.7.1.2/4")
@pytest.mark.spec("MS-MQQB 3.1.1.1.1.3/3", "MS-MQQB 3.1.1.1.1.3/4")
def test_an_expired_message_is_not_sent(rig: SessionRig) -> None:
    rig.send(FAR, b"a", time_to_reach_queue=10, negative_journaling_requested=True)
    rig.send(FAR, b"b", time_to_reach_queue=10, positive_journaling_requested=True)
    rig.send(FAR, b"c", time_to_reach_queue=60)
    rig.clock.advance(11_000)  # no turn of the clock comes before the session's
    rig.manager.ledger.utc = rig.clock.utc_seconds
    sender = rig.session()
    assert rig.sent(sender) == [b"c"]
    assert rig.waiting_bodies() == [b"c"]
    assert rig.bodies(DEAD_LETTERS) == [b"a"]
    assert rig.reasons(DEAD_LETTERS) == [NACK_REACH_QUEUE_TIMEOUT]
    assert rig.bodies(JOURNAL) == []
    books = sender_books_of(rig.outgoing()[0])
    assert (books.sent, books.failed) == (3, 2)


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.3/3")
def test_what_is_in_flight_does_not_expire(rig: SessionRig) -> None:
    for body in (b"a", b"b", b"c"):
        rig.send(FAR, body, time_to_reach_queue=10, negative_journaling_requested=True)
    sender = rig.session()
    taken = rig.take(sender, 2)
    rig.advance(100)
    assert rig.waiting_bodies() == [b"a", b"b"]  # c was never sent
    rig.acknowledge(sender, taken[:1])
    rig.end(sender)
    rig.advance(100)
    assert rig.waiting_bodies() == []
    assert sorted(rig.bodies(DEAD_LETTERS)) == [b"b", b"c"]


def test_a_session_that_begins_anew_looks_at_the_time_again(rig: SessionRig) -> None:
    rig.send(FAR, b"a", time_to_reach_queue=10)
    first = rig.session()
    assert rig.sent(first) == [b"a"]
    rig.advance(11)
    assert rig.waiting_bodies() == [b"a"]
    assert rig.sent(rig.session()) == []
    assert rig.waiting_bodies() == []


# -- messages that cannot go now


def test_a_message_somebody_holds_is_sent_when_it_is_back(rig: SessionRig) -> None:
    fill(rig, "abc")
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    sender = rig.session()
    assert rig.sent(sender) == [b"b", b"c"]
    assert not sender.waiting
    assert sender.unacknowledged == 2
    rig.active.clear()
    rig.close(reader)
    assert rig.active == {rig.outgoing()[0].number}
    assert sender.waiting
    assert rig.sent(sender) == [b"a"]
    assert rig.sent(sender) == []
    assert sender.unacknowledged == 3


def test_a_message_that_is_taken_away_is_not_sent(rig: SessionRig) -> None:
    fill(rig, "abc")
    reader = rig.open(FAR, RECEIVE_ADMIN)
    first = rig.driver.read(
        lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True)
    )
    assert first is not None
    sender = rig.session()
    assert rig.sent(sender) == [b"b", b"c"]
    lookup_id = first.read.lookup_id
    rig.run(lambda m: m.messages.dequeue_message_end(reader, lookup_id, positive=True))
    assert rig.sent(sender) == []
    rig.run(lambda m: m.queues.purge_queue(reader))
    fill(rig, "d")
    assert rig.sent(sender) == [b"d"]
    assert sender.unacknowledged == 1


def test_an_acknowledged_message_is_gone_whoever_looks_at_it(rig: SessionRig) -> None:
    fill(rig, "ab")
    sender = rig.session()
    taken = rig.take(sender)
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    rig.acknowledge(sender, taken)
    assert rig.waiting_bodies() == []
    assert rig.manager.ledger.locks == {}


def test_a_damaged_message_stops_no_other(rig: SessionRig, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(rig, "abc")
    bad = [number for _, number in rig.outgoing()[0].state.order.forward()][1]
    sound = rig.store.read_many

    def read_many(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        if bad in numbers:
            raise Unreadable("checksum")
        return sound(numbers)

    monkeypatch.setattr(rig.manager.messages.reading, "_read_many", read_many)
    sender = rig.session()
    taken = rig.take(sender)
    assert [deserialize(out.packet).body for out in taken] == [b"a", b"c"]
    assert rig.manager.machine.refusals["message_damaged"] == 1
    assert not sender.waiting
    rig.acknowledge(sender, taken)
    assert rig.waiting_bodies() == [b"b"]  # for doctor, and for the next start
    assert rig.sent(rig.session()) == []


# -- cost


def cost_of_batch(rig: SessionRig) -> int:
    sender = rig.session()
    rig.take(sender, 50)

    def batch() -> None:
        taken = sender.take(50, 1 << 20)
        sender.acknowledged([out.number for out in taken])

    cost = steps(batch)
    rig.turn()
    return cost


@pytest.mark.parametrize("recoverable", [True, False])
def test_a_batch_costs_the_same_however_many_wait(rig: SessionRig, recoverable: bool) -> None:
    descriptor = rig.open(FAR)
    costs = []
    for waiting in (200, 2000):
        while rig.outgoing()[0].state.count < waiting:
            rig.send(descriptor, b"x", recoverable=recoverable)
        costs.append(cost_of_batch(rig))
    assert costs[1] < costs[0] * 1.1


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(0, 7)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("ack"), st.integers(0, 5)),
        st.tuples(st.just("session"), st.just(0)),
        st.tuples(st.just("purge"), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=60)
@given(ACTIONS)
def test_a_session_sends_what_a_sorted_list_would(actions: list[tuple[str, int]]) -> None:
    """Every message once for each session, first the highest priority, then the oldest."""
    rig, serial = SessionRig(), 0
    sender = rig.session()
    reader = rig.open(FAR, RECEIVE_ADMIN)
    waiting: list[tuple[int, int, bytes]] = []
    flying: dict[bytes, int] = {}
    for kind, value in actions:
        if kind == "send":
            serial += 1
            body = f"{serial}".encode()
            rig.send(FAR, body, priority=value)
            waiting.append((-value, serial, body))
        elif kind == "take":
            fresh = sorted(entry for entry in waiting if entry[2] not in flying)
            taken = rig.take(sender, value)
            bodies = [deserialize(out.packet).body for out in taken]
            assert bodies == [body for _, _, body in fresh[:value]]
            flying |= dict(zip(bodies, [out.number for out in taken], strict=True))
        elif kind == "ack" and flying:
            body = list(flying)[value % len(flying)]
            number = flying.pop(body)
            rig.run(lambda m, n=number, s=sender: s.acknowledged([n]))
            waiting = [entry for entry in waiting if entry[2] != body]
        elif kind == "session":
            sender, flying = rig.session(), {}
        elif kind == "purge":
            rig.run(lambda m: m.queues.purge_queue(reader))
            waiting, flying = [], {}
        assert sender.unacknowledged == len(flying)
        assert rig.outgoing()[0].state.count == len(waiting)
    rig.check_books()
