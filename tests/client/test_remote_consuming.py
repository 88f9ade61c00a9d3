"""Reading on and on from another computer: windows, ends in batches, what goes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import posthouse
from posthouse.client.errors import MessageReturned
from posthouse.client.remote import consumer as remote_consuming
from posthouse.model.errors import (
    IoTimeout,
    MessageNotFound,
    OperationCancelled,
    RemoteProtocolError,
)
from posthouse.protocols.remote_read.stubs import Ack, Opnum, Received, Section
from tests.client.read_peer import Break, Peer, packet, reading
from tests.support.result_thread import Thread

START, CANCEL, END = Opnum.START_RECEIVE, Opnum.CANCEL_RECEIVE, Opnum.END_RECEIVE
BODIES = [b"%04d" % number for number in range(60)]
INFINITE = 0xFFFFFFFF


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(*BODIES) as peer:
        yield peer


@pytest.fixture
def empty() -> Iterator[Peer]:
    with Peer() as peer:
        yield peer


def acks(peer: Peer) -> list[int]:
    return [end.ack for end in peer.asked(END)]


# -- one message by its lookup identifier


def test_one_message_is_taken_in_two_steps(peer: Peer) -> None:
    with reading(peer, prefetch=10) as (_, queue):
        lookup_id = list(peer.messages)[1]
        with queue.consume(timeout=None, lookup_id=lookup_id) as consumer:
            message = consumer.next()
            assert message is not None
            assert (message.body, acks(peer)) == (BODIES[1], [])
            consumer.done()
            assert acks(peer) == [Ack.ACK]
            assert consumer.next() is None
        with queue.consume(lookup_id=lookup_id) as consumer, pytest.raises(MessageNotFound):
            consumer.next()
        with queue.consume(lookup_id=next(iter(peer.messages))) as consumer:
            consumer.next()
    assert acks(peer) == [Ack.ACK, Ack.NACK]
    assert len(peer.messages) == 59


# -- a window ahead of receive


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/5")
def test_nothing_is_read_ahead_by_default(peer: Peer) -> None:
    with reading(peer) as (_, queue):
        queue.receive(0)
        assert len(peer.asked(START)) == 1
        with queue.consume(timeout=0) as consumer:
            consumer.next()
            assert len(peer.asked(START)) == 2
    assert len(peer.messages) == 59


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/5")
def test_what_was_read_ahead_goes_back_at_the_close(peer: Peer) -> None:
    with reading(peer, prefetch=10) as (_, queue):
        assert [queue.receive(5).body for _ in range(3)] == BODIES[:3]
        assert len(peer.messages) == 57
    assert acks(peer).count(Ack.ACK) == 3
    assert acks(peer).count(Ack.NACK) == len(peer.asked(START)) - 3
    assert peer.locked == {}
    assert peer.bodies == BODIES[3:]


def test_each_message_out_of_a_window_is_ended_before_it_is_handed_out(peer: Peer) -> None:
    with reading(peer, prefetch=10) as (_, queue):
        for number in range(40):
            assert queue.receive(5).body == BODIES[number]
            assert len(peer.messages) == 59 - number


@pytest.mark.spec("MS-MQRR 3.2.4.4.1/5")
def test_reads_that_wait_ahead_are_cancelled_at_the_close(empty: Peer) -> None:
    with reading(empty, prefetch=4) as (_, queue):
        with pytest.raises(IoTimeout):
            queue.receive(0)
        assert [one.timeout for one in empty.asked(START)] == [INFINITE] * 4 + [0]
        empty.put(packet(b"here"))
        assert queue.receive(5).body == b"here"
        empty.await_waiting(3)
    assert len(empty.asked(CANCEL)) == 3
    assert empty.waiting == {}
    assert empty.messages == {}


def test_a_window_waits_as_long_as_its_reader_wants(empty: Peer) -> None:
    with reading(empty, prefetch=4) as (_, queue):
        thread = Thread(lambda: queue.receive(30).body)
        empty.await_waiting(4)
        empty.put(packet(b"late"))
        assert thread.result() == b"late"
        assert 0 not in [one.timeout for one in empty.asked(START)], "nobody had to look again"


def test_a_window_finds_at_once_what_is_there(peer: Peer) -> None:
    """Without waiting does not mean before the first answer came."""
    with reading(peer, prefetch=16) as (_, queue):
        assert [queue.receive(0).body for _ in BODIES] == BODIES
        with pytest.raises(IoTimeout):
            queue.receive(0)


def test_threads_share_a_window(peer: Peer) -> None:
    with reading(peer, prefetch=8) as (_, queue):
        threads = [Thread(lambda: [queue.receive(5).body for _ in range(10)]) for _ in range(6)]
        found = [body for thread in threads for body in thread.result()]
    assert sorted(found) == BODIES
    assert peer.messages == {}


def test_a_thread_that_waits_at_a_window_is_cancelled(empty: Peer) -> None:
    with reading(empty, prefetch=3) as (_, queue):
        thread = Thread(lambda: queue.receive())
        empty.await_waiting(3)
        assert queue.cancel() == 3
        assert isinstance(thread.result(), OperationCancelled)


def test_a_window_survives_its_connection(peer: Peer) -> None:
    with reading(peer, prefetch=8) as (manager, queue):
        found = [queue.receive(5).body for _ in range(10)]
        peer.cut()
        found += [queue.receive(5).body for _ in range(50)]
        assert found == BODIES
        assert manager.in_doubt == 0


class Clock:
    """The time of a window; a reader that works makes it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.late_s = 0.0
        monkeypatch.setattr(remote_consuming, "_clock", self)

    def __call__(self) -> float:
        return time.monotonic() + self.late_s


def test_what_was_held_for_too_long_is_asked_for_again(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other computer takes back what it has not heard of for five minutes."""
    clock = Clock(monkeypatch)
    with reading(peer, prefetch=5) as (_, queue):
        queue.receive(5)
        clock.late_s += 200
        assert queue.receive(5).body == BODIES[1]
        assert acks(peer).count(Ack.NACK) == 4
        assert [queue.receive(5).body for _ in range(10)] == BODIES[2:12]
        assert acks(peer).count(Ack.NACK) == 4


def test_what_a_slow_reader_gets_was_not_locked_for_long(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each message counts from when it was locked, not from when the reader last came."""
    clock = Clock(monkeypatch)
    with reading(peer) as (manager, queue), queue.consume(timeout=5, prefetch=5) as consumer:
        for number in range(12):
            message = consumer.next()
            assert message is not None
            assert message.body == BODIES[number]
            clock.late_s += 40
        assert acks(peer).count(Ack.NACK) > 0
        assert manager.in_doubt == 0


def test_a_read_that_waited_long_brings_a_fresh_message(
    empty: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with reading(empty, prefetch=3) as (_, queue):
        with pytest.raises(IoTimeout):
            queue.receive(0)
        clock.late_s += 1000
        with pytest.raises(IoTimeout):
            queue.receive(0)
        empty.put(packet(b"one!"))
        empty.put(packet(b"two!"))
        assert [queue.receive(5).body, queue.receive(5).body] == [b"one!", b"two!"]
    assert acks(empty).count(Ack.NACK) == 0


# -- consuming


@pytest.mark.parametrize("prefetch", [0, 1, 7, 100])
def test_a_consumer_gets_everything_once_in_order(peer: Peer, prefetch: int) -> None:
    with reading(peer) as (manager, queue):
        found = [message.body for message in queue.consume(timeout=0, prefetch=prefetch)]
        assert found == BODIES
        assert manager.in_doubt == 0
    assert acks(peer) == [Ack.ACK] * 60
    assert peer.messages == {}


@pytest.mark.parametrize("prefetch", [0, 7])
def test_a_message_is_the_readers_until_he_asks_for_the_next_one(peer: Peer, prefetch: int) -> None:
    with reading(peer) as (_, queue), queue.consume(timeout=5, prefetch=prefetch) as consumer:
        first = consumer.next()
        assert first is not None
        assert len(peer.messages) == 60
        consumer.next()
        consumer.done()
        assert len(peer.messages) == 58
        consumer.next()
    assert peer.locked == {}  # the close of the queue comes behind what goes back
    assert peer.bodies == BODIES[2:]


@pytest.mark.parametrize("prefetch", [0, 7])
def test_a_break_leaves_the_consumer_as_it_is(peer: Peer, prefetch: int) -> None:
    with reading(peer) as (_, queue):
        with queue.consume(timeout=0, prefetch=prefetch) as consumer:
            for message in consumer:
                if message.body == BODIES[3]:
                    break
            consumer.done()
            assert len(peer.messages) == 56
            assert next(consumer).body == BODIES[4]
            assert [message.body for message in consumer] == BODIES[5:]
            peer.put(packet(b"later"))
            assert peer.locked == {}, "nothing is held for a loop that is over"
            assert next(consumer).body == b"later"
        with pytest.raises(MessageReturned, match="went back"):
            consumer.done()
        for message in queue.consume(timeout=0, prefetch=prefetch):
            assert message.body == b"later"
            break
        assert queue.peek(5).body == b"later", "behind it on the same connection"
        assert peer.locked == {}, "one that was dropped gives back"
    assert len(peer.messages) == 1


def test_the_end_of_a_message_does_not_wait_for_the_next_question(peer: Peer) -> None:
    """However long the reader works on what they have in hand."""
    with reading(peer) as (_, queue), queue.consume(timeout=5, prefetch=8) as consumer:
        consumer.next()
        consumer.next()
        peer.await_calls(END)
        assert acks(peer) == [Ack.ACK]


def test_many_questions_leave_together(peer: Peer) -> None:
    """A window costs far fewer pieces on the wire than it has questions."""
    sends: list[int] = []
    with reading(peer) as (manager, queue):
        queue.peek(0)
        link = manager._reading.reader.link()
        write = link._write
        link._write = lambda data: sends.append(len(data)) or write(data)  # type: ignore
        assert len(list(queue.consume(timeout=0, prefetch=30))) == 60
    assert len(peer.asked(START)) + len(peer.asked(END)) > 120
    assert len(sends) < 30


@pytest.mark.parametrize("prefetch", [0, 7])
def test_a_message_whose_end_got_lost_comes_again_in_doubt(peer: Peer, prefetch: int) -> None:
    def lose(request: Any, call: Any) -> None:
        del peer.before[END]
        raise Break

    peer.before[END] = lose
    with reading(peer) as (manager, queue):
        messages = queue.consume(timeout=0, prefetch=prefetch)
        seen = [(message.body, message.in_doubt) for message in messages]
        twice = sorted(body for body, doubt in seen if doubt)
        bodies = [body for body, _ in seen]
        assert set(bodies) == set(BODIES)
        assert twice == sorted(body for body in set(bodies) if bodies.count(body) > 1)
        assert manager.in_doubt >= len(twice) > 0
    assert peer.messages == {}


def test_done_tells_that_messages_went_back(peer: Peer) -> None:
    with reading(peer) as (_, queue), queue.consume(timeout=5, prefetch=4) as consumer:
        message = consumer.next()
        peer.cut()
        with pytest.raises(MessageReturned):
            consumer.done()
        assert message is not None
        assert message.in_doubt
        again = consumer.next()
        assert again is not None
        assert (again.body, again.in_doubt) == (BODIES[0], True)
        consumer.done()


def test_an_end_that_is_refused_is_a_doubt(peer: Peer) -> None:
    peer.instead[END] = lambda request, call: 0xC00E0006
    with reading(peer) as (manager, queue), queue.consume(timeout=5) as consumer:
        consumer.next()
        with pytest.raises(MessageReturned):
            consumer.done()
        assert manager.in_doubt == 1


def test_nothing_in_time_is_none(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        for prefetch in (0, 3):
            with queue.consume(timeout=0, prefetch=prefetch) as consumer:
                assert consumer.next() is None
    assert empty.waiting == {}


# -- many at once


@pytest.mark.parametrize(("count", "got"), [(1, 1), (59, 59), (60, 60), (1000, 60)])
def test_many_are_received_together(peer: Peer, count: int, got: int) -> None:
    with reading(peer) as (_, queue):
        assert [message.body for message in queue.receive_many(count, 0)] == BODIES[:got]
    assert peer.bodies == BODIES[got:]
    assert peer.locked == {}


def test_many_wait_for_the_first_only(empty: Peer) -> None:
    with reading(empty) as (_, queue):
        with pytest.raises(IoTimeout):
            queue.receive_many(5, 0)
        thread = Thread(lambda: queue.receive_many(5))
        empty.await_waiting(1)
        empty.put(packet(b"here"))
        assert [message.body for message in thread.result()] == [b"here"]


def test_many_after_a_window_have_what_it_held(peer: Peer) -> None:
    with reading(peer, prefetch=8) as (_, queue):
        queue.receive(0)
        assert [message.body for message in queue.receive_many(100, 0)] == BODIES[1:]


def test_one_of_many_that_cannot_be_rebuilt_does_not_cost_the_others(peer: Peer) -> None:
    bad = Received(1, 100, (Section(0, 4, b"none"),), 0)

    def spoil(request: Any, call: Any) -> Any:
        del peer.instead[START]
        peer.locked[request.handle, request.request_id] = 100
        return bad

    peer.instead[START] = spoil
    with reading(peer) as (_, queue):
        found = queue.receive_many(3, 0)
        assert [message.body for message in found] == BODIES[1:3]
        peer.instead[START] = lambda request, call: bad
        with pytest.raises(RemoteProtocolError):
            queue.receive_many(3, 0)
    assert peer.bodies == [BODIES[0], *BODIES[3:]]


def test_many_that_lose_their_ends_are_in_doubt(peer: Peer) -> None:
    def lose(request: Any, call: Any) -> None:
        if len(peer.asked(END)) == 3:
            raise Break

    peer.before[END] = lose
    with reading(peer) as (manager, queue):
        found = queue.receive_many(10, 0)
        assert [message.body for message in found] == BODIES[:10]
        ended = [message for message in found if not message.in_doubt]
        assert len(ended) + manager.in_doubt == 10
        assert len(peer.messages) <= 60 - len(ended)


def test_ends_that_another_thread_may_have_sent_are_in_doubt(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks amid the ends: what was not asked for is back, the rest may be gone."""
    with reading(peer) as (_, queue):
        reader = queue._receiving
        end, ended = reader.end, list[int]()

        def lose(opened: Any, request_id: int, ack: Ack, transactional: bool) -> Any:
            ended.append(request_id)
            if len(ended) == 3:
                opened.link.flush()  # as another thread would
                peer.await_calls(END, 2)
                peer.cut()
                while opened.link.lost is None:
                    opened.link.look()
            return end(opened, request_id, ack, transactional)

        monkeypatch.setattr(reader, "end", lose)
        found = queue.receive_many(5, 0)
        assert [message.body for message in found] == BODIES[:2]
        assert peer.bodies[0] == BODIES[2]
        monkeypatch.undo()
        assert [message.body for message in queue.receive_many(100, 0)] == BODIES[2:]


def test_a_thread_that_waits_at_a_window_gets_its_message_after_others_closed_it(
    empty: Peer,
) -> None:
    with reading(empty, prefetch=3) as (_, queue):
        thread = Thread(lambda: queue.receive())
        empty.await_waiting(3)
        with pytest.raises(IoTimeout):
            queue.receive_many(1, 0)  # closes the window
        assert len(empty.waiting) == 1
        empty.put(packet(b"here"))
        assert thread.result().body == b"here"
        assert empty.waiting == {}


def test_a_thread_whose_time_is_over_leaves_nothing_at_a_window_that_others_closed(
    empty: Peer,
) -> None:
    with reading(empty, prefetch=3) as (_, queue):
        thread = Thread(lambda: queue.receive(0.3))
        empty.await_waiting(3)
        with pytest.raises(IoTimeout):
            queue.receive_many(1, 0)
        assert isinstance(thread.result(), IoTimeout)
        empty.await_calls(CANCEL, 3)
        empty.put(packet(b"here"))
        assert queue.receive_many(1, 5)[0].body == b"here"


def test_interrupted_reads_give_back_what_they_still_bring(
    empty: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C: nobody waits any more, and what comes then is nobody's."""
    with reading(empty) as (manager, queue):
        reader = queue._receiving
        opened = reader.opened()
        request_id, pending = reader.start(opened, remote_consuming._RECEIVE, None)
        opened.link.flush()
        empty.await_waiting(1)
        empty.put(packet(b"late"))  # its answer overtakes the cancel
        reader.abandon(opened, request_id, pending, remote_consuming._RECEIVE)
        assert queue.peek(5).body == b"late"  # reads, for the other one too
        empty.await_calls(END)
        assert isinstance(manager, posthouse.RemoteQueueManager)
    assert acks(empty) == [Ack.NACK]
    assert empty.bodies == [b"late"]
