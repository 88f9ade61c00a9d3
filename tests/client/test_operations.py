"""Operations step by step, with a queue manager that answers as a test likes."""

from __future__ import annotations

import pytest

from posthouse.client import operations as ops
from posthouse.client.errors import ServerUnreachable, TransactionAborted, TransactionInDoubt
from posthouse.client.message import Message
from posthouse.client.operations import Operation
from posthouse.client.packets import DEFAULTS
from posthouse.client.requests import QueueHandle, Request
from posthouse.model.enumerations import QueueAccessType
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    MessageNotFound,
    QueueError,
    TransactionSequence,
)
from posthouse.wire.frames import frames, payloads
from posthouse.wire.frames.frames import Frame
from tests.client.peer import ORDERS, Peer, delivered, receiving


class Reading:
    """Receives of one client, each as far as it has come."""

    def __init__(self, count: int) -> None:
        self.peer = Peer()
        self.handle = receiving()
        self.steps = [ops.receive(self.peer.core, self.handle, 1, None, None) for _ in range(count)]
        for step in self.steps:
            next(step)
        self.reads = self.peer.opened(self.peer.heard()[0])

    def deliver(self) -> list[Frame]:
        """Every receive gets a message; returns the ends that follow."""
        for place, read in enumerate(self.reads):
            answer = frames.encode_messages(read.request, [delivered(place + 1)])
            self.peer.core.receive(answer)
        for step in self.steps:
            next(step)
        return [frame for frame in self.peer.heard() if frame.kind == frames.END]


def finished(step: Operation[list[Message]]) -> list[Message]:
    """The result of an operation that waits for nothing more."""
    with pytest.raises(StopIteration) as end:
        next(step)
    found: list[Message] = end.value.value
    return found


def test_a_receive_is_over_when_its_end_is_answered() -> None:
    reading = Reading(1)
    (end,) = reading.deliver()
    reading.peer.core.receive(frames.encode_ended(end.request, 1))
    (message,) = finished(reading.steps[0])
    assert (message.lookup_id, message.in_doubt) == (1, False)


def test_a_message_whose_end_is_not_known_is_in_doubt() -> None:
    """Decision 42: it is handed out, for it may be gone from the queue."""
    reading = Reading(1)
    reading.deliver()
    reading.peer.core.fail(ServerUnreachable("nobody answers"))
    (message,) = finished(reading.steps[0])
    assert message.in_doubt


def test_a_message_whose_end_was_never_sent_is_not_handed_out() -> None:
    reading = Reading(1)
    peer = reading.peer
    peer.core.receive(frames.encode_messages(reading.reads[0].request, [delivered(1)]))
    next(reading.steps[0])
    peer.core.fail(ServerUnreachable("nobody answers"))
    with pytest.raises(ServerUnreachable):
        next(reading.steps[0])


def test_a_refused_end_among_others_refuses_only_its_own() -> None:
    reading = Reading(3)
    peer = reading.peer
    (shared,) = reading.deliver()
    peer.refuse(shared.request, MessageNotFound("one of them is gone"))
    for step in reading.steps:
        next(step)
    alone = peer.heard()
    assert [frames.decode_end(frame.payload).lookup_ids for frame in alone] == [(1,), (2,), (3,)]
    for frame in (alone[0], alone[2]):
        peer.core.receive(frames.encode_ended(frame.request, 1))
    peer.refuse(alone[1].request, MessageNotFound("this one"))
    assert finished(reading.steps[0])[0].lookup_id == 1
    assert finished(reading.steps[2])[0].lookup_id == 3
    with pytest.raises(MessageNotFound, match="this one"):
        next(reading.steps[1])


def test_an_end_that_is_refused_in_the_next_connection_means_receiving_again() -> None:
    """The message went back before its end arrived: nobody has seen it."""
    reading = Reading(1)
    peer = reading.peer
    reading.deliver()
    peer.core.lost()
    (again,) = peer.connect()
    assert again.kind == frames.END
    peer.refuse(again.request, MessageNotFound("it is not locked"))
    next(reading.steps[0])
    assert [frame.kind for frame in peer.opened(peer.heard()[0])] == [frames.RECEIVE]


def sending(peer: Peer, bodies: list[bytes]) -> tuple[Operation[ops.MessageIds], QueueHandle]:
    handle = QueueHandle(ORDERS, QueueAccessType.SEND)
    return ops.send_many(peer.core, handle, bodies, DEFAULTS, None), handle


def drive(step: Operation[object]) -> Request:
    """Goes on to the next request that is waited for."""
    while True:
        request = next(step)
        if request is not None and not request.done:
            return request


def test_many_frames_are_under_way_at_a_time() -> None:
    peer = Peer()
    step, _ = sending(peer, [b"x"] * (ops.BATCH_MESSAGES * (ops.FLIGHT_FRAMES + 2)))
    drive(step)
    peer.opened(peer.heard()[0])
    drive(step)
    assert len(peer.heard()) == ops.FLIGHT_FRAMES


def test_large_messages_do_not_pile_up() -> None:
    peer = Peer()
    step, _ = sending(peer, [bytes(1 << 20)] * 20)
    drive(step)
    peer.opened(peer.heard()[0])
    drive(step)
    sent = sum(len(frame.payload) for frame in peer.heard())
    assert ops.FLIGHT_BYTES < sent < ops.FLIGHT_BYTES + (2 << 20)


def test_a_refusal_is_told_when_nothing_is_under_way() -> None:
    peer = Peer()
    step, _ = sending(peer, [b"x"] * (3 * ops.BATCH_MESSAGES))
    drive(step)
    peer.opened(peer.heard()[0])
    drive(step)
    first, second, third = peer.heard()
    ordinals = range(ops.BATCH_MESSAGES)
    peer.core.receive(frames.encode_sent(first.request, ordinals))
    peer.refuse(second.request, InsufficientResources("the queue is full"))
    waited = drive(step)
    assert waited.number == third.request
    peer.core.receive(frames.encode_sent(third.request, ordinals))
    with pytest.raises(InsufficientResources) as caught:
        drive(step)
    assert f"{ops.BATCH_MESSAGES} messages" in caught.value.__notes__[0]


def test_a_list_of_queues_gets_one_message_at_a_time() -> None:
    peer = Peer()
    step, _ = sending(peer, [b"x"] * 3)
    drive(step)
    peer.opened(peer.heard()[0], elements=2)
    drive(step)
    counts = [len(frames.decode_send(frame.payload).packets) for frame in peer.heard()]
    assert counts == [1, 1, 1]


@pytest.mark.parametrize(
    ("refusal", "error", "says"),
    [
        (TransactionSequence("no such transaction"), TransactionAborted, "before the commit"),
        (InvalidParameter("it is no longer kept"), TransactionInDoubt, "no longer kept"),
    ],
)
def test_a_commit_that_is_refused_after_a_break_was_never_decided_or_is_in_doubt(
    refusal: QueueError, error: type[Exception], says: str
) -> None:
    peer = Peer()
    step = ops.in_transaction(peer.core, lambda tx: iter_nothing())
    next(step)
    (begin,) = peer.heard()
    peer.answer(begin.request, payloads.Begun(7, b"t" * 16))
    (commit,) = peer.heard()
    assert commit.kind == frames.COMMIT
    peer.core.lost()
    (again,) = peer.connect()
    peer.refuse(again.request, refusal)
    with pytest.raises(error, match=says):
        next(step)


def iter_nothing() -> Operation[None]:
    return
    yield
