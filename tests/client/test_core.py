"""The core alone, with a queue manager that answers as a test likes."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.core import UNANSWERED_MAX
from posthouse.client.errors import (
    ClientConnectionError,
    MessageReturned,
    SessionEnded,
    SessionLost,
    TransactionAborted,
)
from posthouse.client.requests import (
    Ask,
    CommitRequest,
    CursorHandle,
    EndRequest,
    LookupRequest,
    OpenWait,
    QueueHandle,
    SendRequest,
    TransactionHandle,
)
from posthouse.model.enumerations import MessageSeekAction, QueueAccessType
from posthouse.model.errors import (
    AccessDenied,
    InsufficientResources,
    IoTimeout,
    OperationCancelled,
    QueueError,
    QueueNotAvailable,
    QueueNotFound,
    RemoteProtocolError,
    TransactionSequence,
)
from posthouse.wire.frames import frames, payloads
from tests.client.peer import ORDERS, Peer, delivered, receiving

# -- answers


@given(st.integers(1, 12), st.data())
def test_answers_find_their_requests_in_any_order_and_pieces(count: int, data: Any) -> None:
    peer = Peer()
    asked = [Ask(payloads.Begin, frames.BEGUN) for _ in range(count)]
    for request in asked:
        peer.core.submit(request)
    heard = peer.heard()
    order = data.draw(st.permutations(range(count)))
    stream = b"".join(
        frames.encode(heard[place].request, payloads.Begun(place, b"t" * 16)) for place in order
    )
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream)))))
    for start, end in itertools.pairwise([0, *cuts, len(stream)]):
        peer.core.receive(stream[start:end])
    assert [request.result().transaction for request in asked] == list(range(count))
    assert not peer.core.busy


@given(st.binary(max_size=200))
def test_any_bytes_are_answers_or_end_the_connection(data: bytes) -> None:
    peer = Peer()
    request = peer.ping()
    try:
        peer.core.receive(data)
    except (RemoteProtocolError, ClientConnectionError, QueueError):
        peer.core.lost()
    assert request.done or peer.core.busy


@given(st.binary(max_size=60))
def test_any_payload_of_an_answer_is_taken_or_ends_the_connection(payload: bytes) -> None:
    peer = Peer()
    for kind in sorted(frames.ANSWER_KINDS):
        request = peer.ping()
        (frame,) = peer.heard()
        head = (len(payload) + 5).to_bytes(4, "little") + bytes([kind])
        data = head + frame.request.to_bytes(4, "little") + payload
        try:
            peer.core.receive(data)
        except (RemoteProtocolError, ClientConnectionError):
            peer.core.lost()
            peer.connect()
        assert request.done or peer.core.busy


def test_an_answer_of_another_kind_ends_the_connection() -> None:
    peer = Peer()
    peer.ping()
    (frame,) = peer.heard()
    with pytest.raises(RemoteProtocolError, match="answered by kind"):
        peer.answer(frame.request, payloads.Counted(1))


def test_an_answer_to_nothing_ends_the_connection() -> None:
    with pytest.raises(RemoteProtocolError, match="not asked"):
        Peer().answer(77, payloads.Done())


def test_a_refusal_is_the_error_of_its_code_with_its_words() -> None:
    peer = Peer()
    request = peer.ping()
    (frame,) = peer.heard()
    peer.refuse(frame.request, QueueNotFound("there is no such queue", "Make one."))
    with pytest.raises(QueueNotFound) as caught:
        request.result()
    assert (caught.value.cause, caught.value.remedy) == ("there is no such queue", "Make one.")


def test_a_session_that_is_not_welcome_tells_why() -> None:
    peer = Peer(greet=False)
    peer.core.begin()
    (hello,) = peer.heard()
    with pytest.raises(AccessDenied):
        peer.refuse(hello.request, AccessDenied("the name belongs to another account"))


def test_an_end_by_the_queue_manager_tells_why() -> None:
    with pytest.raises(SessionEnded, match="it is stopping"):
        Peer().refuse(0, OperationCancelled("it is stopping"))


def test_two_welcomes_are_one_too_many() -> None:
    peer = Peer()
    with pytest.raises(RemoteProtocolError, match="twice"):
        peer.answer(1, peer.welcome())


def test_request_numbers_are_never_shared() -> None:
    peer = Peer()
    peer.core._last_number = 0xFFFFFFFF - 1
    asked = [peer.ping() for _ in range(4)]
    numbers = [frame.request for frame in peer.heard()]
    assert numbers == [0xFFFFFFFF, 2, 3, 4]
    for number in numbers:
        peer.answer(number, payloads.Done())
    assert all(request.done for request in asked)


# -- opening


def test_a_queue_is_opened_once_for_all_that_is_asked_of_it() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.receive(handle, 0)
    (opening,) = peer.heard()
    assert [frame.kind for frame in peer.opened(opening)] == [frames.RECEIVE, frames.RECEIVE]
    peer.receive(handle, 0)
    assert [frame.kind for frame in peer.heard()] == [frames.RECEIVE]


def test_a_queue_that_cannot_be_opened_refuses_all_that_waits_for_it() -> None:
    peer, handle = Peer(), receiving()
    asked = [peer.receive(handle, 0), peer.receive(handle, 0)]
    (opening,) = peer.heard()
    peer.refuse(opening.request, QueueNotFound("there is no such queue"))
    assert all(isinstance(request.error, QueueNotFound) for request in asked)
    peer.receive(handle, 0)
    assert [frame.kind for frame in peer.heard()] == [frames.OPEN]  # it may be there by now


def test_a_queue_is_opened_anew_in_the_next_connection() -> None:
    peer, handle = Peer(), receiving()
    wait = OpenWait(handle)
    peer.core.submit(wait)
    peer.opened(peer.heard()[0])
    assert wait.done
    first = handle.number
    waiting = peer.receive(handle)
    peer.heard()
    peer.core.lost()
    assert not waiting.done
    (opening,) = peer.connect()
    (again,) = peer.opened(opening)
    assert frames.decode_read(again.payload).queue == handle.number != first


def test_a_closed_handle_is_opened_again_when_it_is_used() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.opened(peer.heard()[0])
    assert peer.core.close_handle(handle) is not None
    assert peer.core.close_handle(handle) is None
    peer.receive(handle, 0)
    assert [frame.kind for frame in peer.heard()] == [frames.CLOSE, frames.OPEN]


# -- request ids


def test_a_queue_that_is_gone_is_closed_and_opened_anew_once() -> None:
    peer, handle = Peer(), receiving()
    asked = [peer.receive(handle) for _ in range(2)]
    first, second = peer.opened(peer.heard()[0])
    peer.refuse(first.request, QueueNotAvailable("it was deleted"))
    again = peer.receive(handle)
    closing, opening = peer.heard()
    assert closing.kind == frames.CLOSE
    (read,) = peer.opened(opening)
    peer.refuse(second.request, QueueNotAvailable("it was deleted"))
    peer.receive(handle)
    assert [frame.kind for frame in (read, *peer.heard())] == [frames.RECEIVE, frames.RECEIVE]
    assert all(isinstance(request.error, QueueNotAvailable) for request in asked)
    assert not again.done


def test_at_most_so_many_requests_with_an_id_are_unanswered() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    asked = [peer.send(handle) for _ in range(UNANSWERED_MAX + 3)]
    sent = peer.opened(peer.heard()[0])
    ids = [frames.decode_send(frame.payload).request_id for frame in sent]
    assert ids == list(range(1, UNANSWERED_MAX + 1))
    # The oldest holds all others back: its result may not be pushed out before it was heard.
    peer.core.receive(frames.encode_sent(sent[1].request, [1]))
    assert peer.heard() == []
    peer.core.receive(frames.encode_sent(sent[0].request, [1]))
    more = [frames.decode_send(frame.payload).request_id for frame in peer.heard()]
    assert more == [UNANSWERED_MAX + 1, UNANSWERED_MAX + 2]
    assert asked[0].done
    assert not asked[-1].done


def test_the_queue_manager_may_allow_fewer() -> None:
    peer, handle = Peer(unanswered_max=2), QueueHandle(ORDERS, QueueAccessType.SEND)
    for _ in range(5):
        peer.send(handle)
    assert len(peer.opened(peer.heard()[0])) == 2


def test_what_waits_for_an_id_survives_a_broken_connection() -> None:
    peer, handle = Peer(unanswered_max=1), QueueHandle(ORDERS, QueueAccessType.SEND)
    asked = [peer.send(handle) for _ in range(3)]
    peer.opened(peer.heard()[0])
    peer.core.lost()
    sent = peer.opened(peer.connect()[0])
    for number in range(1, 4):
        (frame,) = sent
        assert frames.decode_send(frame.payload).request_id == number
        peer.core.receive(frames.encode_sent(frame.request, [number]))
        sent = peer.heard()
    assert [request.result() for request in asked] == [(1,), (2,), (3,)]


def test_ids_come_first_and_in_order_when_asked_again() -> None:
    """An end has to reach the queue manager before a receive can lock its message again."""
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    first = peer.receive(handle, 0)
    *_, second = peer.opened(peer.heard()[0])
    peer.core.receive(frames.encode_messages(second.request, [delivered(5)]))
    ending = peer.core.end(handle, [5], first.generation)
    peer.heard()
    peer.core.lost()
    end, opening = peer.connect()
    assert end.kind == frames.END
    assert [frame.kind for frame in peer.opened(opening)] == [frames.RECEIVE]
    assert ending.repeated
    assert not waiting.done


# -- what breaks with the connection


def test_what_changes_something_and_has_no_id_is_not_asked_twice() -> None:
    peer = Peer()
    once = Ask(lambda: payloads.Call("POST", "/x"), frames.CALLED, repeatable=False)
    peer.core.submit(once)
    look = Ask(lambda: payloads.Call("GET", "/x"), frames.CALLED)
    peer.core.submit(look)
    peer.heard()
    peer.core.lost()
    with pytest.raises(SessionLost, match="before the answer"):
        once.result()
    (frame,) = peer.connect()
    peer.answer(frame.request, payloads.Called(200, b"{}"))
    assert look.result().status == 200


def test_what_has_not_left_yet_is_asked_in_the_next_connection() -> None:
    peer, handle = Peer(), receiving()
    opened = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    begin = Ask(payloads.Begin, frames.BEGUN, repeatable=False)
    unopened = peer.send(QueueHandle(ORDERS, QueueAccessType.SEND))
    peer.core.submit(begin)
    peer.core.lost()
    again = peer.connect()
    assert sorted(frame.kind for frame in again) == [frames.OPEN, frames.OPEN, frames.BEGIN]
    assert not any(request.done for request in (begin, opened, unopened))
    assert not begin.repeated
    assert read.kind == frames.RECEIVE


def test_a_transaction_breaks_with_its_connection() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    transaction = TransactionHandle(9, b"t" * 16, peer.core.generation)
    sent = peer.send(handle, transaction)
    peer.opened(peer.heard()[0])
    peer.core.lost()
    assert isinstance(sent.error, TransactionAborted)
    peer.connect()
    late = [peer.send(handle, transaction), CommitRequest(transaction)]
    peer.core.submit(late[1])
    assert all(isinstance(request.error, TransactionAborted) for request in late)
    assert peer.heard() == []


def test_what_is_asked_in_a_transaction_waits_until_it_has_begun() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    transaction = peer.core.begin_transaction()
    (begin,) = peer.heard()
    sent, commit = peer.send(handle, transaction), CommitRequest(transaction)
    peer.core.submit(commit)
    assert peer.heard() == []
    peer.answer(begin.request, payloads.Begun(9, b"t" * 16))
    assert (transaction.number, transaction.identifier) == (9, b"t" * 16)
    opening, committed = peer.heard()
    assert frames.decode_payload(committed.kind, committed.payload) == payloads.Commit(9, 1)
    (send,) = peer.opened(opening)
    assert frames.decode_send(send.payload).transaction == 9
    assert not sent.done


def test_a_transaction_that_could_not_begin_fails_all_that_was_asked_in_it() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    transaction = peer.core.begin_transaction()
    (begin,) = peer.heard()
    sent = peer.send(handle, transaction)
    peer.refuse(begin.request, InsufficientResources("too many"))
    late = CommitRequest(transaction)
    peer.core.submit(late)
    assert isinstance(sent.error, InsufficientResources)
    assert isinstance(late.error, InsufficientResources)
    assert peer.heard() == []


def test_a_transaction_that_has_not_begun_begins_in_the_next_connection() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    transaction = peer.core.begin_transaction()
    peer.heard()
    sent = peer.send(handle, transaction)
    peer.core.lost()
    assert not sent.done
    (begin,) = peer.connect()
    peer.answer(begin.request, payloads.Begun(4, b"u" * 16))
    (send,) = peer.opened(peer.heard()[0])
    assert frames.decode_send(send.payload).transaction == 4
    peer.core.fail(SessionLost("gone"))
    assert isinstance(sent.error, ClientConnectionError)


# -- transactions whose requests do not wait for their beginning


def opened_peer() -> tuple[Peer, QueueHandle]:
    """A queue manager that takes early handles, with a queue that is open."""
    peer, handle = Peer(revision=payloads.REVISION), QueueHandle(ORDERS, QueueAccessType.SEND)
    peer.core.submit(OpenWait(handle))
    peer.opened(peer.heard()[0])
    return peer, handle


def test_the_first_thing_in_a_transaction_leaves_with_its_beginning() -> None:
    peer, handle = opened_peer()
    transaction = peer.core.begin_transaction()
    peer.send(handle, transaction)
    commit = CommitRequest(transaction)
    peer.core.submit(commit)
    assert peer.core.begins
    begin, send, committed = peer.heard()
    assert not peer.core.begins
    early = payloads.early_handle(begin.request)
    assert frames.decode_send(send.payload).transaction == early
    assert frames.decode_payload(committed.kind, committed.payload) == payloads.Commit(early, 1)
    peer.answer(begin.request, payloads.Begun(9, b"t" * 16))
    assert (transaction.number, transaction.identifier) == (9, b"t" * 16)


def test_a_transaction_that_did_not_begin_is_why_what_was_sent_in_it_failed() -> None:
    peer, handle = opened_peer()
    sent = peer.send(handle, peer.core.begin_transaction())
    begin, send = peer.heard()
    peer.answer(begin.request, frames.refusal(InsufficientResources("too many are open")))
    peer.answer(send.request, frames.refusal(TransactionSequence("there is none")))
    assert isinstance(sent.error, InsufficientResources)


def test_a_transaction_whose_requests_have_left_breaks_with_its_connection() -> None:
    """Begun again it would lack what was sent in it."""
    peer, handle = opened_peer()
    transaction = peer.core.begin_transaction()
    sent = peer.send(handle, transaction)
    peer.heard()
    peer.core.lost()
    assert isinstance(sent.error, TransactionAborted)
    assert isinstance(transaction.failure, TransactionAborted)
    assert peer.connect() == []
    late = peer.send(handle, transaction)
    assert isinstance(late.error, TransactionAborted)


def test_a_transaction_that_nothing_was_sent_in_begins_again() -> None:
    peer, handle = opened_peer()
    transaction = peer.core.begin_transaction()
    peer.heard()
    peer.core.lost()
    (begin,) = peer.connect()
    peer.send(handle, transaction)
    (send,) = peer.opened(peer.heard()[0])
    assert frames.decode_send(send.payload).transaction == payloads.early_handle(begin.request)


def test_what_has_not_left_goes_into_the_next_connection_with_its_commit_last() -> None:
    peer, handle = opened_peer()
    transaction = peer.core.begin_transaction()
    peer.send(handle, transaction)
    peer.core.submit(CommitRequest(transaction))
    peer.core.lost()
    assert not peer.core.begins
    begin, opening, committed = peer.connect()
    early = payloads.early_handle(begin.request)
    assert (begin.kind, opening.kind) == (frames.BEGIN, frames.OPEN)
    assert frames.decode_payload(committed.kind, committed.payload) == payloads.Commit(early, 1)


def test_the_end_of_a_session_ends_what_waits_for_a_transaction() -> None:
    peer, handle = Peer(), QueueHandle(ORDERS, QueueAccessType.SEND)
    sent = peer.send(handle, peer.core.begin_transaction())
    peer.core.fail(SessionLost("gone"))
    assert isinstance(sent.error, SessionLost)


def test_a_commit_is_asked_again() -> None:
    peer = Peer()
    commit = CommitRequest(TransactionHandle(9, b"t" * 16, peer.core.generation))
    peer.core.submit(commit)
    peer.heard()
    peer.core.lost()
    (frame,) = peer.connect()
    again = frames.decode_payload(frame.kind, frame.payload)
    assert again == payloads.Commit(0, 1), "its handle may be that of another transaction here"


def test_a_commit_that_left_with_its_beginning_is_asked_again() -> None:
    """It may be done: to call it aborted would have its work done twice."""
    peer, handle = opened_peer()
    transaction = peer.core.begin_transaction()
    peer.send(handle, transaction)
    commit = CommitRequest(transaction)
    peer.core.submit(commit)
    assert len(peer.heard()) == 3
    peer.core.lost()
    frames_again = peer.connect()
    assert commit.error is None
    (frame,) = [one for one in frames_again if one.kind == frames.COMMIT]
    assert frames.decode_payload(frame.kind, frame.payload) == payloads.Commit(0, 1)


def test_a_cursor_breaks_with_its_connection() -> None:
    peer, handle = Peer(), receiving()
    cursor = CursorHandle(4, peer.core.generation)
    sent = peer.receive(handle, cursor=cursor)
    peer.opened(peer.heard()[0])
    peer.core.lost()
    peer.connect()
    late = peer.receive(handle, cursor=cursor)
    assert isinstance(sent.error, SessionLost)
    assert isinstance(late.error, SessionLost)


def test_a_message_of_a_broken_connection_is_not_ended_in_the_next() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.opened(peer.heard()[0])
    old = peer.core.generation
    early = peer.core.end(handle, [5], old)  # still with us when the connection breaks
    peer.core.lost()
    peer.connect()
    late = peer.core.end(handle, [6], old)
    assert not [frame for frame in peer.heard() if frame.kind == frames.END]
    assert isinstance(early.error, MessageReturned)
    assert isinstance(late.error, MessageReturned)


def test_what_goes_back_has_gone_back_with_the_connection() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.opened(peer.heard()[0])
    back = peer.core.give_back(handle, [5, 6], peer.core.generation)
    peer.heard()
    peer.core.lost()
    assert back.result() == 2


def test_when_no_connection_comes_everything_ends() -> None:
    peer, handle = Peer(), receiving()
    asked = [peer.receive(handle), peer.ping()]
    peer.heard()
    asked.append(peer.core.end(handle, [3], peer.core.generation))
    asked.append(peer.ping())
    peer.core.lost()
    asked.append(peer.ping())
    error = SessionEnded("nobody answers")
    peer.core.fail(error)
    assert [request.error for request in asked] == [error] * 5
    assert not peer.core.busy


def test_a_wait_goes_on_for_what_is_left_of_its_time() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 10)
    (read,) = peer.opened(peer.heard()[0])
    assert frames.decode_read(read.payload).timeout_ms == 10_000
    peer.now = 4.0
    peer.core.lost()
    (again,) = peer.opened(peer.connect()[0])
    assert frames.decode_read(again.payload).timeout_ms == 6_000
    peer.now = 40.0
    peer.core.lost()
    (last,) = peer.opened(peer.connect()[0])
    assert frames.decode_read(last.payload).timeout_ms == 0


# -- ends


def test_ends_of_one_moment_are_one_frame() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.opened(peer.heard()[0])
    generation = peer.core.generation
    ends = [peer.core.end(handle, [number], generation) for number in (7, 8, 9)]
    (frame,) = peer.heard()
    assert frames.decode_end(frame.payload).lookup_ids == (7, 8, 9)
    assert ends[0] is ends[2]
    assert ends[0].shared
    peer.core.receive(frames.encode_ended(frame.request, 3))
    assert ends[1].result() == 3
    peer.core.end(handle, [10], generation)
    assert len(peer.heard()) == 1


# -- waits that nobody waits for


def test_a_request_larger_than_the_queue_manager_allows_costs_nobody_the_session() -> None:
    peer = Peer()
    large = Ask(lambda: payloads.Call("PUT", "/", bytes(1 << 26)), frames.CALLED)
    peer.core.submit(large)
    with pytest.raises(InsufficientResources, match="body_size_max"):
        large.result()
    handle = receiving()
    sent = SendRequest(handle, [bytes(1 << 26)], 1 << 26, None)
    peer.core.submit(sent)
    assert peer.opened(peer.heard()[0]) == []
    assert isinstance(sent.error, InsufficientResources)
    assert not peer.core.busy
    assert not peer.core._unanswered
    peer.ping()
    assert [frame.kind for frame in peer.heard()] == [frames.PING]


def test_a_request_that_is_none_is_its_callers_mistake_whoever_sends_it() -> None:
    """It was asked for before its queue was open, and goes on in no other connection."""
    peer, handle = Peer(), receiving()
    wrong = Ask(lambda: payloads.Count(1 << 70), frames.COUNTED, handle)
    peer.core.submit(wrong)
    right = peer.receive(handle)
    assert len(peer.opened(peer.heard()[0])) == 1
    with pytest.raises(OverflowError):
        wrong.result()
    peer.core.lost()
    (opening,) = peer.connect()
    assert len(peer.opened(opening)) == 1
    assert not right.done


def test_a_request_that_is_none_holds_up_none_that_wait_for_an_id_with_it() -> None:
    peer, handle = Peer(unanswered_max=1), QueueHandle(ORDERS, QueueAccessType.SEND)
    peer.send(handle)
    (sent,) = peer.opened(peer.heard()[0])
    wrong = EndRequest(handle, [1 << 70], peer.core.generation)
    peer.core.submit(wrong)
    asked = [peer.send(handle) for _ in range(2)]
    for _ in asked:
        peer.core.receive(frames.encode_sent(sent.request, [1]))
        (sent,) = peer.heard()
    peer.core.receive(frames.encode_sent(sent.request, [1]))
    assert all(one.done for one in asked)
    with pytest.raises(struct.error, match="out of range"):
        wrong.result()


def test_a_queue_whose_name_cannot_be_sent_is_refused_each_time() -> None:
    peer, handle = Peer(), QueueHandle("\ud800", QueueAccessType.RECEIVE)
    for _ in range(2):
        with pytest.raises(UnicodeEncodeError):
            peer.receive(handle).result()
    assert not peer.core.busy


def test_an_abandoned_wait_is_called_off() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    peer.core.abandon(waiting)
    peer.core.abandon(waiting)
    (cancel,) = peer.heard()
    assert frames.decode_payload(cancel.kind, cancel.payload) == payloads.Cancel(read.request)
    peer.refuse(read.request, OperationCancelled("the read was cancelled"))
    peer.answer(cancel.request, payloads.Done())
    assert not peer.core.busy


def test_what_an_abandoned_wait_still_brings_goes_back() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    peer.core.abandon(waiting)
    peer.core.receive(frames.encode_messages(read.request, [delivered(4), delivered(5)]))
    ends = [frame for frame in peer.heard() if frame.kind == frames.END]
    (end,) = [frames.decode_end(frame.payload) for frame in ends]
    assert (end.positive, end.lookup_ids) == (False, (4, 5))


def test_what_came_and_was_not_looked_at_goes_back() -> None:
    """A task may be cancelled between the answer and its own next step."""
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    peer.core.receive(frames.encode_messages(read.request, [delivered(4)]))
    assert waiting.done
    peer.core.abandon(waiting)
    peer.core.abandon(waiting)
    (end,) = [frames.decode_end(frame.payload) for frame in peer.heard()]
    assert (end.positive, end.lookup_ids) == (False, (4,))


def test_what_is_gone_when_it_comes_does_not_go_back() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle, flags=frames.READ_AT_ONCE)
    (read,) = peer.opened(peer.heard()[0])
    peer.core.abandon(waiting)
    peer.core.receive(frames.encode_messages(read.request, [delivered(4)]))
    assert [frame.kind for frame in peer.heard()] == [frames.CANCEL]


def test_what_an_abandoned_wait_of_a_transaction_brings_spoils_it() -> None:
    peer, handle = Peer(), receiving()
    transaction = TransactionHandle(9, b"t" * 16, peer.core.generation)
    waiting = peer.receive(handle, transaction=transaction)
    (read,) = peer.opened(peer.heard()[0])
    peer.core.abandon(waiting)
    assert transaction.abandoned == [waiting]
    peer.core.receive(frames.encode_messages(read.request, [delivered(4)]))
    assert transaction.spoiled
    assert not [frame for frame in peer.heard() if frame.kind == frames.END]


def test_a_wait_that_was_never_sent_is_never_sent() -> None:
    peer = Peer(greet=False)
    waiting = peer.receive(receiving())
    peer.core.abandon(waiting)
    assert waiting.done
    assert peer.connect() == []


def test_a_commit_waits_for_a_lookup_that_was_abandoned() -> None:
    peer, handle = Peer(), receiving()
    transaction = TransactionHandle(7, b"t" * 16, peer.core.generation)
    first = MessageSeekAction.FIRST
    asked = LookupRequest(handle, 0, first, take=True, transaction=transaction)
    peer.core.submit(asked)
    (frame,) = peer.opened(peer.heard()[0])
    peer.core.abandon(asked)
    assert transaction.abandoned == [asked]
    peer.core.receive(frames.encode_messages(frame.request, [delivered(5)]))
    assert transaction.spoiled


def test_an_abandoned_wait_is_not_asked_again() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    peer.opened(peer.heard()[0])
    peer.core.abandon(waiting)
    peer.core.lost()
    assert peer.connect() == []
    assert not peer.core.busy


# -- a queue manager that stops


def test_a_wait_outlives_a_stop_of_the_queue_manager() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    peer.refuse(read.request, OperationCancelled("the queue manager is stopping"))
    assert [frame.kind for frame in peer.heard()] == [frames.PING]
    assert not waiting.done
    peer.core.lost()
    assert [frame.kind for frame in peer.opened(peer.connect()[0])] == [frames.RECEIVE]


def test_a_wait_that_was_called_off_by_a_living_queue_manager_is_over() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle)
    (read,) = peer.opened(peer.heard()[0])
    peer.refuse(read.request, OperationCancelled("an operator did it"))
    (ping,) = peer.heard()
    peer.answer(ping.request, payloads.Done())
    assert isinstance(waiting.error, OperationCancelled)


def test_a_wait_that_timed_out_says_so() -> None:
    peer, handle = Peer(), receiving()
    waiting = peer.receive(handle, 1)
    (read,) = peer.opened(peer.heard()[0])
    peer.refuse(read.request, IoTimeout("no message came"))
    assert isinstance(waiting.error, IoTimeout)


def test_an_end_that_was_sent_is_asked_again_with_its_id() -> None:
    peer, handle = Peer(), receiving()
    peer.receive(handle, 0)
    peer.opened(peer.heard()[0])
    request = EndRequest(handle, [5], peer.core.generation)
    peer.core.submit(request)
    (end,) = peer.heard()
    peer.core.lost()
    again = peer.connect()[0]
    assert again.kind == frames.END
    first, second = frames.decode_end(end.payload), frames.decode_end(again.payload)
    assert (first.request_id, first.lookup_ids) == (second.request_id, second.lookup_ids)
    assert second.queue == 0  # the queue may be one that this session can no longer open
    peer.core.receive(frames.encode_ended(again.request, 1))
    assert request.result() == 1
