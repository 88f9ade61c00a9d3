"""Transactional messages on their way: numbers, order and final acknowledgments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posthouse.engine.ledger.books import sender_books_of
from posthouse.engine.ledger.effects import Unreadable
from posthouse.engine.ledger.records import CHANGE, TABLE_SEQUENCE, unpack_change
from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.outgoing_sequences import SEQUENCE_NUMBER_MAX
from posthouse.engine.transfer.protocol_interface import Outbound, Peer
from posthouse.engine.transfer.sequence_values import SequenceInfo
from posthouse.model.message import (
    ACK_RECEIVE,
    NACK_ACCESS_DENIED,
    NACK_QUEUE_EXCEED_QUOTA,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_TIMEOUT,
    Message,
)
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.sequence_places import place_of
from tests.engine.cost import steps
from tests.engine.letters import (
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    FAR,
    FAR_GUID,
    JOURNAL,
    RECEIVE_ADMIN,
)
from tests.engine.rig import START_UTC
from tests.engine.sessions import SessionRig, places, sequence_of

JN: dict[str, Any] = {"negative_journaling_requested": True}
JP: dict[str, Any] = {"positive_journaling_requested": True}
FA: dict[str, Any] = {"final_ack_required": True}


@pytest.fixture
def rig() -> Iterator[SessionRig]:
    rig = SessionRig()
    yield rig
    rig.check_books()


def messages(taken: list[Outbound]) -> list[Message]:
    return [deserialize(out.packet) for out in taken]


def sequences(taken: list[Outbound]) -> set[int]:
    return {sequence_of(message) for message in messages(taken)}


def send_all(
    rig: SessionRig, bodies: str, **attributes: Any
) -> tuple[OutgoingCursor, list[Outbound], int]:
    """Commits messages and sends them on a new session."""
    rig.commit_sends(bodies, **attributes)
    sender = rig.session()
    taken = rig.take(sender)
    (sequence,) = sequences(taken)
    return sender, taken, sequence


# -- numbers


@pytest.mark.spec("MS-MQQB 3.1.1.5/1", "MS-MQQB 3.1.1.5/6", "MS-MQQB 3.1.1.3.1/8")
@pytest.mark.spec("MS-MQQB 3.1.7.1.3/1", "MS-MQQB 3.1.7.1.3/2", "MS-MQQB 3.1.1.3.1.2/2")
def test_messages_carry_their_place_in_the_sequence(rig: SessionRig) -> None:
    _, taken, sequence = send_all(rig, "abc")
    assert places(taken) == [(b"a", 1, 0), (b"b", 2, 1), (b"c", 3, 2)]
    assert sequence & 0xFFFFFFFF == 1
    assert sequence >> 32 == rig.manager.machine.record.sequence_timestamp
    assert all(out.transactional and out.recoverable for out in taken)
    marks = [(m.first_in_transaction, m.last_in_transaction) for m in messages(taken)]
    assert marks == [(True, False), (False, False), (False, True)]


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/1", "MS-MQQB 3.1.1.3.1.2/2")
@pytest.mark.parametrize("crash", [True, False])
def test_a_number_is_given_once(rig: SessionRig, crash: bool) -> None:
    _, first, _ = send_all(rig, "abc")
    if crash:
        rig.restart()
    again = rig.take(rig.session())
    assert [out.packet for out in again] == [out.packet for out in first]
    rig.commit_sends("d")
    assert places(rig.take(rig.session()))[-1] == (b"d", 4, 3)


def test_a_message_that_was_in_the_log_before_its_commit_is_sent_with_its_place(
    rig: SessionRig,
) -> None:
    rig.commit_sends("a")
    tx = rig.begin("prepared")
    rig.send(FAR, b"b", tx=tx)
    rig.send(FAR, b"c", tx=tx)
    rig.run(lambda m: m.transactions.collection.prepare(tx.identifier, single_phase=False))
    rig.restart()
    rig.commit(tx)
    taken = rig.take(rig.session())
    assert places(taken) == [(b"a", 1, 0), (b"b", 2, 1), (b"c", 3, 2)]
    assert len(sequences(taken)) == 1
    assert [m.last_in_transaction for m in messages(taken)] == [True, False, True]


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/5", "MS-MQQB 3.1.1.5/7", "MS-MQQB 3.1.1.3.1/21")
@pytest.mark.spec("MS-MQQB 3.1.1.6.2/1")
def test_a_message_of_another_machine_is_passed_on_unchanged(rig: SessionRig) -> None:
    sender = rig.session()
    rig.create("via", transactional=True)
    rig.from_afar("via", b"x", transactional=True, ordinal=77)
    packet = rig.store.read(next(n for _, n in rig.queue("via").state.order.forward()))
    queue = rig.outgoing()[0]
    rig.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=0x80))
    rig.commit_sends("a")
    forwarded, own = rig.take(sender)
    assert forwarded.packet == packet
    assert not forwarded.transactional
    assert places([own]) == [(b"a", 1, 0)]
    rig.acknowledge(sender, [forwarded, own])
    assert rig.waiting_bodies() == [b"a"]  # the other one has gone its way


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/3", "MS-MQQB 3.1.1.5/3")
def test_gaps_are_bridged(rig: SessionRig) -> None:
    rig.commit_sends("a")
    rig.commit_sends("b", time_to_reach_queue=10)
    rig.commit_sends("c")
    sender = rig.session()
    assert places(rig.take(sender)) == [(b"a", 1, 0), (b"b", 2, 1), (b"c", 3, 2)]
    rig.end(sender)
    rig.advance(11)
    assert places(rig.take(rig.session())) == [(b"a", 1, 0), (b"c", 3, 1)]


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/2")
def test_if_the_first_expires_the_next_one_has_nothing_before_it(rig: SessionRig) -> None:
    rig.commit_sends("a", time_to_reach_queue=10)
    rig.commit_sends("b")
    rig.advance(11)
    assert places(rig.take(rig.session())) == [(b"b", 2, 0)]


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/3")
def test_what_arrived_is_the_number_before_the_first_that_is_left(rig: SessionRig) -> None:
    sender, _, sequence = send_all(rig, "abcd")
    assert rig.order_ack(sequence, 2)
    rig.end(sender)
    assert places(rig.take(rig.session())) == [(b"c", 3, 2), (b"d", 4, 3)]
    rig.restart()
    assert places(rig.take(rig.session())) == [(b"c", 3, 2), (b"d", 4, 3)]


def test_batches_of_a_session_follow_on_each_other(rig: SessionRig) -> None:
    rig.commit_sends("abcde")
    sender = rig.session()
    found = [places(rig.take(sender, 2)) for _ in range(3)]
    assert found == [
        [(b"a", 1, 0), (b"b", 2, 1)],
        [(b"c", 3, 2), (b"d", 4, 3)],
        [(b"e", 5, 4)],
    ]


def test_plain_messages_between_take_no_numbers(rig: SessionRig) -> None:
    rig.commit_sends("a")
    rig.send(FAR, b"-", priority=0)
    rig.commit_sends("b")
    sender = rig.session()
    taken = rig.take(sender)
    assert places(taken) == [(b"a", 1, 0), (b"-", 0, 0), (b"b", 2, 1)]
    rig.resend(sender)
    assert places(rig.take(sender)) == [(b"a", 1, 0), (b"b", 2, 1)]


# -- session acknowledgments


@pytest.mark.spec("MS-MQQB 3.1.5.5.3/3", "MS-MQQB 3.1.5.5.5/4", "MS-MQQB 3.1.5.5.4/2")
@pytest.mark.spec("MS-MQQB 3.1.1.6.2/6", "MS-MQQB 3.1.1.1.1.7/1", "MS-MQQB 3.1.1.3.1.2/3")
def test_a_session_acknowledgment_ends_no_transactional_message(rig: SessionRig) -> None:
    sender, taken, sequence = send_all(rig, "ab", **JP)
    rig.acknowledge(sender, taken)
    assert rig.waiting_bodies() == [b"a", b"b"]
    assert rig.bodies(JOURNAL) == []
    assert rig.take(sender) == []
    assert sender.unacknowledged == 2
    assert rig.order_ack(sequence, 1)
    assert sender.unacknowledged == 1
    for message in messages(taken)[:1]:
        assert rig.final_ack(message, ACK_RECEIVE)
    assert rig.waiting_bodies() == [b"b"]
    assert rig.bodies(JOURNAL) == [b"a"]


# -- order acknowledgments


@pytest.mark.spec("MS-MQQB 3.1.5.6/7", "MS-MQQB 3.1.1.6.2/5", "MS-MQQB 3.1.1.6.2/4")
def test_an_order_acknowledgment_ends_all_messages_up_to_it(rig: SessionRig) -> None:
    sender, taken, sequence = send_all(rig, "abcd")
    rig.acknowledge(sender, taken)
    assert rig.order_ack(sequence, 3)
    assert rig.waiting_bodies() == [b"d"]
    queue = rig.outgoing()[0]
    books = sender_books_of(queue, rig.manager.transfer.unacknowledged(queue))
    assert (books.sent, books.unacknowledged, books.delivered) == (4, 1, 3)
    rig.restart()
    assert rig.waiting_bodies() == [b"d"]


def test_each_order_acknowledgment_of_a_sequence_is_progress(rig: SessionRig) -> None:
    sender, taken, sequence = send_all(rig, "abcd")
    rig.acknowledge(sender, taken)
    seen = [sender.last_ack]
    for number in (1, 3):
        assert rig.order_ack(sequence, number)
        seen.append(sender.last_ack)
    assert seen[1:] == [(sequence, 1), (sequence, 3)]
    assert seen[0] not in seen[1:]


@pytest.mark.spec("MS-MQQB 3.1.5.6/2", "MS-MQQB 3.1.5.6/6", "MS-MQQB 3.1.5.6/3")
def test_order_acknowledgments_that_fit_nothing_are_ignored_and_counted(rig: SessionRig) -> None:
    rig.commit_sends("abc")
    sender = rig.session()
    taken = rig.take(sender, 2)
    (sequence,) = sequences(taken)
    other = r"DIRECT=OS:CHARLIE\private$\q"
    rig.commit_sends("x", to=other)
    (theirs,) = sequences(rig.take(rig.session(other)))
    stranger = Peer(FAR_GUID, "10.0.0.2", lambda queue: queue != rig.outgoing()[0].number)
    wrong = [(sequence, 3), (sequence, 0), (sequence + 99, 1), (0, 0), (sequence - 1, 1)]
    assert not any(rig.order_ack(*each) for each in wrong)
    assert not rig.order_ack(sequence, 1, stranger)
    assert rig.waiting_bodies() == [b"a", b"b", b"c"]
    assert rig.manager.machine.refusals["order_acknowledgment_ignored"] == len(wrong) + 1
    assert rig.order_ack(theirs, 1, stranger)  # found by its sequence, whatever the session
    assert rig.waiting_bodies(other) == []
    assert rig.order_ack(sequence, 2)
    assert rig.order_ack(sequence, 1)  # late: it was sent, and lowers nothing
    assert rig.manager.transfer.report(rig.outgoing()[0]).last_ack == SequenceInfo(sequence, 2, 1)


@pytest.mark.spec("MS-MQQB 3.1.5.6/4", "MS-MQQB 3.1.5.6/10", "MS-MQQB 3.1.1.3.1.1/1")
@pytest.mark.spec("MS-MQQB 3.1.1.5/4", "MS-MQQB 3.1.1.3.1.1/2")
def test_the_record_shows_what_an_acknowledgment_said(rig: SessionRig) -> None:
    _, _, sequence = send_all(rig, "abcd", **JN)
    queue = rig.outgoing()[0]
    rig.advance(5)
    rig.run(lambda m: m.transfer.outgoing.resend_planned(queue, 4, 300, START_UTC + 300))
    for count, number in enumerate((1, 2, 2, 1, 2), 1):
        assert rig.order_ack(sequence, number)
        shown = rig.manager.transfer.report(rig.outgoing()[0])
        assert (shown.last_ack_time, shown.last_ack_count) == (START_UTC + 4 + count, count)
        rig.advance(1)
    for _ in range(2):
        shown = rig.manager.transfer.report(rig.outgoing()[0])
        assert shown.last_ack == SequenceInfo(sequence, 2, 1)
        assert (shown.last_ack_time, shown.last_ack_count) == (START_UTC + 9, 5)
        assert shown.first_non_ack == SequenceInfo(sequence, 3, 2)
        assert shown.last_non_ack == SequenceInfo(sequence, 4, 3)
        assert (shown.no_ack_count, shown.no_read_count) == (2, 2)
        assert (shown.resend_count, shown.resend_interval_s, shown.resend_time) == (0, 0, 0)
        rig.restart()


@pytest.mark.spec("MS-MQQB 3.1.5.6/5")
def test_only_progress_begins_the_resends_anew(rig: SessionRig) -> None:
    _, _, sequence = send_all(rig, "ab")
    queue = rig.outgoing()[0]
    assert rig.order_ack(sequence, 1)
    rig.run(lambda m: m.transfer.outgoing.resend_planned(queue, 4, 300, START_UTC + 300))
    assert rig.order_ack(sequence, 1)
    shown = rig.manager.transfer.report(queue)
    assert (shown.resend_count, shown.resend_interval_s, shown.no_ack_count) == (4, 300, 1)
    assert shown.first_non_ack == shown.last_non_ack == SequenceInfo(sequence, 2, 1)
    assert rig.order_ack(sequence, 2)
    shown = rig.manager.transfer.report(queue)
    assert (shown.resend_count, shown.resend_interval_s, shown.no_ack_count) == (0, 0, 0)
    assert shown.first_non_ack is shown.last_non_ack is None


@pytest.mark.spec("MS-MQQB 3.1.5.6/9", "MS-MQQB 3.1.1.5/5", "MS-MQQB 3.1.1.5/2")
@pytest.mark.spec("MS-MQQB 3.1.1.3.1/7")
@pytest.mark.parametrize("wants", [{}, JN], ids=["plain", "journaled"])
@pytest.mark.parametrize("crash", [True, False])
def test_a_sequence_of_which_all_has_arrived_is_followed_by_another(
    rig: SessionRig, wants: dict[str, Any], crash: bool
) -> None:
    sender, _, sequence = send_all(rig, "ab", **wants)
    assert rig.order_ack(sequence, 1)
    assert rig.manager.transfer.report(rig.outgoing()[0]).next_sequence.sequence_id == sequence
    assert rig.order_ack(sequence, 2)
    if crash:
        rig.restart()
        sender = rig.session()
    shown = rig.manager.transfer.report(rig.outgoing()[0]).next_sequence
    assert shown == SequenceInfo(sequence + 1, 1, 0)
    rig.commit_sends("cd", **wants)
    taken = rig.take(sender)
    assert sequences(taken) == {sequence + 1}
    assert places(taken) == [(b"c", 1, 0), (b"d", 2, 1)]
    assert not rig.order_ack(sequence, 3)
    assert rig.order_ack(sequence + 1, 1)


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/7")
def test_sequences_of_a_new_installation_are_greater_than_those_of_the_one_before(
    rig: SessionRig,
) -> None:
    found = [send_all(rig, "ab")[2]]
    assert found[0] >> 32 == START_UTC
    rig.advance(1)
    rig.restart([])
    found.append(send_all(rig, "ab")[2])
    assert found[1] > found[0]
    assert found[1] >> 32 == START_UTC + 1


def test_sequences_of_which_nothing_is_here_are_forgotten(rig: SessionRig) -> None:
    sender = rig.session()
    for round_ in range(5):
        rig.commit_sends("ab", **(JN if round_ == 2 else {}))
        (sequence,) = sequences(rig.take(sender))
        assert rig.order_ack(sequence, 2)
    assert len(rig.manager.ledger.state.of_table(TABLE_SEQUENCE)) == 4  # those behind the third
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.run(lambda m: m.queues.purge_queue(reader))
    rig.commit_sends("a")
    (sequence,) = sequences(rig.take(sender))
    assert rig.order_ack(sequence, 1)
    assert len(rig.manager.ledger.state.of_table(TABLE_SEQUENCE)) == 1
    rig.restart()
    rig.commit_sends("z")
    assert places(rig.take(rig.session())) == [(b"z", 1, 0)]


def test_a_sequence_that_ran_out_of_numbers_is_acknowledged_as_any(rig: SessionRig) -> None:
    rig.commit_sends("a")
    info = rig.manager.transfer.info(rig.outgoing()[0])
    info.next_number, info.last_number = SEQUENCE_NUMBER_MAX, SEQUENCE_NUMBER_MAX - 1
    rig.commit_sends("b")
    rig.commit_sends("cd")
    sender = rig.session()
    taken = rig.take(sender)
    assert places(taken) == [
        (b"a", 1, 0),
        (b"b", SEQUENCE_NUMBER_MAX, 1),
        (b"c", 1, 0),
        (b"d", 2, 1),
    ]
    old, new = sorted(sequences(taken))
    assert rig.order_ack(old, 1)
    assert rig.waiting_bodies() == [b"b", b"c", b"d"]
    assert rig.order_ack(new, 1)  # nothing of the old one can follow
    assert rig.waiting_bodies() == [b"d"]
    assert not rig.order_ack(old, SEQUENCE_NUMBER_MAX)
    rig.end(sender)
    assert places(rig.take(rig.session())) == [(b"d", 2, 1)]


@pytest.mark.spec("MS-MQQB 3.1.5.6/8", "MS-MQQB 3.1.1.3.1/13", "MS-MQQB 3.1.1.6.2/6")
@pytest.mark.parametrize("wants", [JN, JP, FA], ids=["JN", "JP", "FA"])
def test_messages_with_a_final_answer_to_come_stay_and_are_not_sent_again(
    rig: SessionRig, wants: dict[str, Any]
) -> None:
    sender, taken, sequence = send_all(rig, "ab", **wants)
    assert rig.order_ack(sequence, 2)
    rig.commit_sends("c")
    for _ in range(2):
        rig.resend(sender)
        assert [place[0] for place in places(rig.take(sender))] == [b"c"]
        assert rig.waiting_bodies() == [b"a", b"b", b"c"]
        queue = rig.outgoing()[0]
        shown = rig.manager.transfer.report(queue)
        assert (shown.no_ack_count, shown.no_read_count) == (1, 2)
        books = sender_books_of(queue, rig.manager.transfer.unacknowledged(queue))
        assert (books.sent, books.unsent, books.unacknowledged) == (3, 0, 3)
        rig.restart()
        sender = rig.session()
    for message in messages(taken):
        assert rig.final_ack(message, ACK_RECEIVE)
    assert rig.waiting_bodies() == [b"c"]
    assert rig.bodies(JOURNAL) == ([b"a", b"b"] if wants is JP else [])


def test_an_order_acknowledgment_takes_a_message_out_of_its_readers_hands(rig: SessionRig) -> None:
    _, _, sequence = send_all(rig, "ab")
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    assert rig.order_ack(sequence, 2)
    assert rig.waiting_bodies() == []
    assert rig.manager.ledger.locks == {}


def test_nothing_overtakes_a_numbered_message_that_somebody_holds(rig: SessionRig) -> None:
    """Behind those that follow it, its destination would not take it any more."""
    rig.commit_sends("ab")
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.driver.read(lambda m: m.messages.dequeue_message(reader, timeout_ms=0, two_phase=True))
    sender = rig.session()
    rig.send(FAR, b"urgent", priority=5)
    assert rig.sent(sender) == [b"urgent"]
    assert not sender.waiting
    rig.close(reader)
    assert sender.waiting
    assert places(rig.take(sender)) == [(b"a", 1, 0), (b"b", 2, 1)]
    rig.driver.read(
        lambda m: m.messages.dequeue_message(
            rig.open(FAR, RECEIVE_ADMIN), timeout_ms=0, two_phase=True
        )
    )


# -- resends


def test_what_is_new_does_not_overtake_what_is_sent_again_and_held(rig: SessionRig) -> None:
    """Its destination may not have what is held, and would take what follows for its successor."""
    sender, _, _ = send_all(rig, "abc")
    reader = rig.open(FAR, RECEIVE_ADMIN)
    held = rig.outgoing()[0].state.order.lane(0).some_after(0, 2)[0][1]
    rig.driver.read(
        lambda m: m.messages.read_message_by_lookup_identifier(
            reader, held, peek=False, two_phase=True
        )
    )
    rig.commit_sends("d")
    rig.resend(sender)
    assert places(rig.take(sender)) == [(b"a", 1, 0)]
    assert not sender.waiting
    rig.close(reader)
    assert sender.waiting
    assert places(rig.take(sender)) == [(b"b", 2, 1), (b"c", 3, 2), (b"d", 4, 3)]


@pytest.mark.spec("MS-MQQB 3.1.7.1.3/3")
def test_a_resend_begins_with_the_first_that_has_not_arrived(rig: SessionRig) -> None:
    sender, taken, sequence = send_all(rig, "abcd")
    rig.acknowledge(sender, taken)
    assert rig.order_ack(sequence, 2)
    rig.active.clear()
    rig.resend(sender)
    assert rig.active == {rig.outgoing()[0].number}
    assert sender.waiting
    rig.commit_sends("e")
    assert places(rig.take(sender, 2)) == [(b"c", 3, 2), (b"d", 4, 3)]
    assert places(rig.take(sender)) == [(b"e", 5, 4)]
    assert not sender.waiting


def test_a_resend_looks_at_the_time_and_another_begins_in_front(rig: SessionRig) -> None:
    rig.commit_sends("a")
    rig.commit_sends("b", time_to_reach_queue=10, **JN)
    rig.commit_sends("c")
    sender = rig.session()
    rig.take(sender)
    rig.advance(11)
    assert rig.waiting_bodies() == [b"a", b"b", b"c"]  # the peer may have it
    rig.resend(sender)
    assert places(rig.take(sender, 1)) == [(b"a", 1, 0)]
    rig.resend(sender)
    assert places(rig.take(sender)) == [(b"a", 1, 0), (b"c", 3, 1)]
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"b"]


# -- final acknowledgments


@pytest.mark.spec("MS-MQQB 3.1.5.7/2", "MS-MQQB 3.1.5.7/4", "MS-MQQB 3.1.5.7/5")
@pytest.mark.spec("MS-MQQB 3.1.5.7/6", "MS-MQQB 3.1.1.1.1.7/2")
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "before"])
@pytest.mark.parametrize("wants", [{}, JN, JP, JN | JP, FA], ids=["", "JN", "JP", "JNJP", "FA"])
@pytest.mark.parametrize("answer", [ACK_RECEIVE, NACK_ACCESS_DENIED, NACK_RECEIVE_TIMEOUT])
def test_the_final_answer_decides(
    rig: SessionRig, ordered: bool, wants: dict[str, Any], answer: int
) -> None:
    _, taken, sequence = send_all(rig, "ab", **wants)
    if ordered:
        assert rig.order_ack(sequence, 2)
    second = messages(taken)[1]
    stays = bool(wants) or not ordered
    assert rig.final_ack(second, answer) == stays
    positive = answer == ACK_RECEIVE
    journaled = positive and "positive_journaling_requested" in wants and stays
    dead = not positive and "negative_journaling_requested" in wants and stays
    for _ in range(2):
        assert rig.bodies(JOURNAL) == ([b"b"] if journaled else [])
        assert rig.bodies(DEAD_TRANSACTIONAL) == ([b"b"] if dead else [])
        assert rig.reasons(DEAD_TRANSACTIONAL) == ([answer] if dead else [])
        assert rig.waiting_bodies() == ([b"a"] if stays else [])
        rig.restart()
    assert not rig.final_ack(second, answer)  # once is enough


@pytest.mark.spec("MS-MQQB 3.1.5.7/5")
@pytest.mark.parametrize("transactional", [True, False])
def test_a_refused_message_goes_to_its_applications_dead_letter_queue(
    rig: SessionRig, transactional: bool
) -> None:
    rig.create("mourning", transactional=transactional)
    name = r".\private$\mourning"
    _, taken, _ = send_all(rig, "a", application_deadletter_queue=name, **JN)
    assert rig.final_ack(messages(taken)[0], NACK_ACCESS_DENIED)
    assert rig.bodies("mourning") == ([b"a"] if transactional else [])
    assert rig.bodies(DEAD_TRANSACTIONAL) == ([] if transactional else [b"a"])


def test_a_sequence_whose_last_message_is_refused_is_followed_by_another(rig: SessionRig) -> None:
    """A queue that was deleted and made again would wait for the beginning of the old one."""
    sender, taken, sequence = send_all(rig, "ab")
    assert rig.order_ack(sequence, 1)
    assert rig.final_ack(messages(taken)[1], NACK_ACCESS_DENIED)
    rig.commit_sends("c")
    again = rig.take(sender)
    assert places(again) == [(b"c", 1, 0)]
    assert sequences(again) == {sequence + 1}


@pytest.mark.spec("MS-MQQB 3.1.5.7/3")
def test_final_acknowledgments_that_fit_nothing_are_ignored_and_counted(rig: SessionRig) -> None:
    rig.commit_sends("abc", **JN)
    sender = rig.session()
    taken = rig.take(sender, 2)
    (sequence,) = sequences(taken)
    message = messages(taken)[0]
    ordinal = message.identifier.ordinal
    peer = Peer(FAR_GUID, "10.0.0.2")
    stranger = Peer(FAR_GUID, "10.0.0.2", lambda queue: False)
    rows = [rig.manager.messages.row(n) for _, n in rig.outgoing()[0].state.order.forward()]
    wrong = [
        (peer, rig.guid, ordinal, sequence + 1, 1),
        (peer, rig.guid, ordinal, sequence, 2),
        (peer, rig.guid, ordinal + 1, sequence, 1),
        (peer, FAR_GUID, ordinal, sequence, 1),
        (peer, rig.guid, rows[2].ordinal, sequence, 3),  # never sent
        (peer, rig.guid, ordinal, sequence, 0),
        (stranger, rig.guid, ordinal, sequence, 1),
    ]
    for who, source, its_ordinal, its_sequence, number in wrong:
        assert not rig.run(
            lambda m, a=(who, 0x8000, source, its_ordinal, its_sequence, number): (
                m.transfer.outgoing.final_acknowledged_by(*a)
            )
        )
    assert rig.waiting_bodies() == [b"a", b"b", b"c"]
    assert rig.manager.machine.refusals["final_acknowledgment_ignored"] == len(wrong)
    assert rig.final_ack(message, 0x8000)


def test_behind_a_refused_message_the_rest_is_sent_again_at_once(rig: SessionRig) -> None:
    """Decision 76: its destination waits for nothing, as the gap is bridged."""
    sender, taken, sequence = send_all(rig, "abcd")
    assert rig.order_ack(sequence, 1)
    assert rig.take(sender) == []
    rig.active.clear()
    assert rig.final_ack(messages(taken)[1], NACK_QUEUE_EXCEED_QUOTA)
    assert rig.active == {rig.outgoing()[0].number}
    assert places(rig.take(sender)) == [(b"c", 3, 1), (b"d", 4, 3)]
    assert rig.order_ack(sequence, 4)
    assert rig.waiting_bodies() == []


def test_a_message_is_found_among_many(rig: SessionRig) -> None:
    sender = rig.session()
    found: dict[int, Message] = {}
    for _ in range(3):
        rig.commit_sends("a" * 40, **JN)
        rig.send(FAR, b"-", priority=0)
        taken = [out for out in rig.take(sender) if out.transactional]
        (sequence,) = sequences(taken)
        assert rig.order_ack(sequence, 40)
        found |= {out.number: message for out, message in zip(taken, messages(taken), strict=True)}
    for number in sorted(found, key=lambda n: n * 7919 % 121):
        assert rig.final_ack(found[number], NACK_RECEIVE_TIMEOUT)
    assert rig.waiting_bodies() == [b"-"] * 3


@pytest.mark.spec("MS-MQQB 3.1.1.1.1.7/3")
@pytest.mark.parametrize("received_s", [20, None])
def test_waiting_for_a_final_answer_is_bounded(rig: SessionRig, received_s: int | None) -> None:
    times: dict[str, Any] = {"time_to_reach_queue": 10}
    if received_s is not None:
        times["time_to_be_received"] = received_s
    _, _, sequence = send_all(rig, "a", **times, **JN)
    rig.advance(5)
    assert rig.order_ack(sequence, 1)
    for crash in (False, True):
        if crash:
            rig.restart()
        assert rig.manager.transfer.report(rig.outgoing()[0]).no_read_count == 1
        rig.advance(12)
    assert rig.waiting_bodies() == [b"a"]  # 29 s
    rig.advance(2)
    if received_s is None:
        assert rig.waiting_bodies() == [b"a"]
    else:
        assert rig.waiting_bodies() == []
        assert rig.reasons(DEAD_TRANSACTIONAL) == [NACK_RECEIVE_TIMEOUT]


@pytest.mark.spec("MS-MQQB 3.1.7.1.2/5", "MS-MQQB 3.1.7.1.2/3")
def test_an_expired_transactional_message_is_dead_lettered_and_told(rig: SessionRig) -> None:
    rig.create("answers")
    rig.commit_sends(
        "a",
        time_to_reach_queue=10,
        acknowledgements_requested=4,
        administration_queue_format_name=r"DIRECT=OS:ALPHA\private$\answers",
        **JN,
    )
    rig.advance(11)
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"a"]
    assert rig.bodies(DEAD_LETTERS) == []
    assert rig.classes("answers") == [NACK_REACH_QUEUE_TIMEOUT]


def test_purging_takes_what_waits_for_answers_too(rig: SessionRig) -> None:
    _, _, sequence = send_all(rig, "ab", **JN)
    assert rig.order_ack(sequence, 1)
    reader = rig.open(FAR, RECEIVE_ADMIN)
    rig.run(lambda m: m.queues.purge_queue(reader))
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"a", b"b"]
    shown = rig.manager.transfer.report(rig.outgoing()[0])
    assert (shown.no_ack_count, shown.no_read_count) == (0, 0)
    reads = rig.reads(DEAD_TRANSACTIONAL)
    assert [(read.moves, read.last_move) for read in reads] == [(0, 0), (0, 0)]


def test_a_damaged_message_is_bridged_and_fails_with_the_sequence(
    rig: SessionRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.commit_sends("abc")
    bad = [number for _, number in rig.outgoing()[0].state.order.forward()][1]
    sound = rig.store.read_many

    def read_many(numbers: list[int]) -> list[tuple[bytes, bytes]]:
        if bad in numbers:
            raise Unreadable("checksum")
        return sound(numbers)

    monkeypatch.setattr(rig.manager.messages.reading, "_read_many", read_many)
    sender = rig.session()
    taken = rig.take(sender)
    assert places(taken) == [(b"a", 1, 0), (b"c", 3, 1)]
    (sequence,) = sequences(taken)
    rig.resend(sender)
    assert places(rig.take(sender)) == [(b"a", 1, 0), (b"c", 3, 1)]
    assert rig.order_ack(sequence, 3)
    assert rig.waiting_bodies() == []
    books = sender_books_of(rig.outgoing()[0])
    assert (books.delivered, books.failed) == (2, 1)


# -- together


def test_an_acknowledgment_is_one_record(rig: SessionRig) -> None:
    sender, taken, sequence = send_all(rig, "abcdef")
    rig.acknowledge(sender, taken)
    peer = Peer(FAR_GUID, "10.0.0.2")
    effects = rig.decide(lambda m: m.transfer.outgoing.order_acknowledged_by(peer, sequence, 6))
    changes = [unpack_change(record[2]) for record in effects.records if record[0] == CHANGE]
    assert [len(change.ends) for change in changes] == [6]


@pytest.mark.parametrize("wants", [{}, JN], ids=["plain", "journaled"])
def test_acknowledgments_cost_the_same_however_many_wait(
    rig: SessionRig, wants: dict[str, Any]
) -> None:
    sender, costs = rig.session(), []
    for waiting in (100, 1000):
        while rig.outgoing()[0].state.count < waiting + 100:
            rig.commit_sends("x" * 100, **wants)
        taken = rig.take(sender, 50)
        place, transfer = place_of(taken[-1].packet), rig.manager.transfer.outgoing
        costs.append(steps(lambda p=place, t=transfer: t.order_acknowledged(*p[:2])))
        rig.turn()
    assert costs[1] < costs[0] * 1.15


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 4)),
        st.tuples(st.just("plain"), st.just(0)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("order"), st.just(0)),
        st.tuples(st.just("resend"), st.just(0)),
        st.tuples(st.just("session ack"), st.integers(0, 3)),
        st.tuples(st.just("refuse"), st.integers(0, 9)),
        st.tuples(st.just("crash"), st.just(0)),
    ),
    max_size=40,
)


class Far:
    """A destination that accepts as [MS-MQQB] 3.1.5.8.6 says."""

    def __init__(self) -> None:
        self.last = (0, 0)
        self.accepted: list[bytes] = []
        self.refused: set[bytes] = set()

    def receive(self, out: Outbound) -> None:
        sequence, number, previous = place_of(out.packet)
        known, last = self.last
        follows = sequence == known and number > last >= previous
        body = deserialize(out.packet).body
        if (follows or (sequence > known and not previous)) and body not in self.refused:
            self.last = sequence, number
            self.accepted.append(body)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_everything_arrives_once_and_in_order(actions: list[tuple[str, int]]) -> None:
    """Whatever is cut, lost, refused or sent again: the far end sees each once, in order."""
    rig, far, serial = SessionRig(), Far(), 0
    sender = rig.session()
    committed: list[bytes] = []
    taken: dict[bytes, Outbound] = {}
    for kind, value in [*actions, ("cut", 0), ("take", 99), ("order", 0)]:
        if kind == "commit":
            bodies = [chr(0x100 + serial + each) for each in range(value)]
            serial += value
            rig.commit_sends("".join(bodies), **(JN if value == 3 else {}))
            committed += [body.encode() for body in bodies]
        elif kind == "plain":
            rig.send(FAR, b"-", priority=0)
        elif kind == "take":
            for out in rig.take(sender, value):
                if out.transactional:
                    taken[deserialize(out.packet).body] = out
                    far.receive(out)
        elif kind == "cut":
            sender = rig.session()
        elif kind == "order" and far.accepted:
            rig.order_ack(*far.last)
        elif kind == "resend":
            rig.resend(sender)
        elif kind == "session ack":
            rig.acknowledge(sender, list(taken.values())[value:])
        elif kind == "refuse":
            open_ones = [body for body in taken if body not in far.accepted]
            if open_ones:
                body = open_ones[value % len(open_ones)]
                far.refused.add(body)
                rig.final_ack(deserialize(taken[body].packet), NACK_ACCESS_DENIED)
        elif kind == "crash":
            rig.restart()
            sender = rig.session()
    assert far.accepted == [body for body in committed if body not in far.refused]
    shown = rig.manager.transfer.report(rig.outgoing()[0])
    assert shown.no_ack_count == 0
    waiting = [body for body in rig.waiting_bodies() if body != b"-"]
    assert set(waiting) <= set(far.accepted)
    assert shown.no_read_count == len(waiting)
    rig.check_books()


def test_a_sequence_is_known_while_a_message_of_it_waits_beside_others(rig: SessionRig) -> None:
    """Messages outside transactions may lie in front, in the same priority."""
    rig.send(FAR, b"plain", priority=0)
    rig.commit_sends("a", **JP)
    _, message = messages(rig.take(rig.session()))
    assert rig.order_ack(sequence_of(message), 1)
    assert rig.final_ack(message, ACK_RECEIVE)
    assert rig.bodies(JOURNAL) == [b"a"]


def test_messages_whose_sequence_is_lost_get_another(rig: SessionRig) -> None:
    """Its record may be among those that an operator gave up."""
    _, _, sequence = send_all(rig, "abc")
    assert rig.order_ack(sequence, 1)

    def lose(manager: Any) -> None:
        for key, _ in manager.ledger.state.of_table(TABLE_SEQUENCE):
            manager.ledger.define(TABLE_SEQUENCE, key, None)

    rig.run(lose)
    for _ in range(2):
        rig.restart()
        taken = rig.take(rig.session())
        assert places(taken) == [(b"b", 1, 0), (b"c", 2, 1)]
        (another,) = sequences(taken)
        assert another > sequence
    assert [event.name for event in rig.events].count("sequence_begun_anew") == 1
    assert rig.order_ack(another, 2)
    assert rig.waiting_bodies() == []


# -- what the peer takes and does not confirm


def unconfirmed(rig: SessionRig) -> int:
    """For how long the first message of the outgoing queue lacks its acknowledgment."""
    return rig.manager.transfer.unconfirmed_s(rig.outgoing()[0])


def test_the_time_without_confirmation_counts_from_when_a_message_is_sent(rig: SessionRig) -> None:
    sender = rig.session()
    rig.clock.advance(50_000)
    rig.commit_sends("ab")
    rig.clock.advance(400_000)  # a pause, a slow line, or messages in front of it
    assert unconfirmed(rig) == 0
    taken = rig.take(sender)
    rig.acknowledge(sender, taken)
    assert unconfirmed(rig) == 0
    rig.clock.advance(400_000)
    assert unconfirmed(rig) == 400
    assert rig.order_ack(*sequences(taken), 1)
    assert unconfirmed(rig) == 0  # the sequence goes on
    rig.clock.advance(30_000)
    assert rig.order_ack(*sequences(taken), 1)  # a repeated one shows no progress
    assert unconfirmed(rig) == 30
    assert rig.order_ack(*sequences(taken), 2)
    assert unconfirmed(rig) == 0
    rig.commit_sends("c")
    rig.clock.advance(500_000)
    rig.take(sender)
    rig.clock.advance(7_000)
    assert unconfirmed(rig) == 7


def test_a_peer_that_was_away_has_its_time_to_confirm(rig: SessionRig) -> None:
    sender = rig.session()
    rig.commit_sends("a")
    taken = rig.take(sender)
    rig.end(sender)
    queue = rig.outgoing()[0]
    rig.run(lambda m: m.transfer.connection_planned(queue, 0, "refused"))
    rig.clock.advance(400_000)
    assert unconfirmed(rig) == 0  # the line about the machine that is away says it
    sender = rig.session()
    rig.take(sender)
    rig.clock.advance(60_000)
    assert unconfirmed(rig) == 60
    rig.end(sender)  # as sessions do that have nothing to send, until it is sent again
    rig.run(lambda m: m.transfer.connection_planned(queue, 0, ""))
    rig.clock.advance(60_000)
    rig.take(rig.session())
    assert unconfirmed(rig) == 120
    rig.restart()
    rig.clock.advance(60_000)
    assert unconfirmed(rig) == 0
    rig.session()
    rig.clock.advance(5_000)
    assert unconfirmed(rig) == 5
    assert rig.order_ack(*sequences(taken), 1)
    assert unconfirmed(rig) == 0
