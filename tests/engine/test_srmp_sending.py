"""Outgoing HTTP queues: streams, their receipts, what a 400 does, journals and dead letters.

[MC-MQSRM] 3.1.1.1.2.1, 3.1.1.1.2.4, 3.1.5.1.8-9, 3.1.5.2, 3.1.6.2, 3.1.7.2.1-3.
"""

from __future__ import annotations

from typing import Any

import pytest

from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.sequence_values import SequenceInfo
from posthouse.model.message import MessageId
from posthouse.model.message_classes import (
    ACK_RECEIVE,
    NACK_BAD_DEST_QUEUE,
    NACK_PURGED,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_REJECTED,
    NACK_RECEIVE_TIMEOUT,
)
from posthouse.model.names import PrivateName, parse_format_name
from posthouse.wire.packet.packet import Packet
from posthouse.wire.srmp.message import SrmpMessage, Stream
from tests.engine.letters import DEAD_LETTERS, DEAD_TRANSACTIONAL, JOURNAL
from tests.engine.web import AWAY, STRANGER, WebRig, stream_id

DEAD = {"negative_journaling_requested": True}
KEPT = {"positive_journaling_requested": True}
UNSURE = Peer(b"", "192.0.2.7", lambda queue: None)


class AwayRig(WebRig):
    """A rig that sends to a queue far away."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.to = self.open(AWAY)
        self.sends = 0

    def send_stream(self, *bodies: bytes, **attributes: Any) -> list[MessageId]:
        """A transaction with these messages."""
        self.sends += 1
        transaction = self.begin(f"t{self.sends}")
        sent = [self.send(self.to, body, tx=transaction, **attributes) for body in bodies]
        self.commit(transaction)
        return sent

    @property
    def sender(self) -> OutgoingCursor:
        queue = self.away()
        assert queue.outgoing is not None
        if queue.outgoing.sender is None:
            return self.run(lambda m: m.transfer.begin_sending(queue.number))
        return queue.outgoing.sender

    def streams(self, packets: list[Packet]) -> list[Stream]:
        """The stream elements that these get on the wire."""
        messages = [self.request(packet)[1] for packet in packets]
        assert all(message.stream is not None for message in messages)
        return [message.stream for message in messages if message.stream is not None]

    def places(self, packets: list[Packet]) -> list[tuple[int, int]]:
        return [(stream.current, stream.previous) for stream in self.streams(packets)]

    def send_all(self) -> list[Stream]:
        return self.streams(self.take())

    @property
    def sequence(self) -> int:
        """The stream that is sent now."""
        return self.manager.transfer.report(self.away()).next_sequence.sequence_id

    def acknowledge(self, number: int, sequence: int, **elements: Any) -> None:
        assert self.post(self.stream_receipt(number, sequence, **elements)) == [200]

    def numbers(self) -> list[int]:
        """The internal numbers of what waits, in order."""
        return [number for _, number in self.away().state.order.forward()]

    def waiting_bodies(self) -> list[bytes]:
        return [packet.body for packet in self.waiting(AWAY)]

    @property
    def report(self) -> Any:
        return self.manager.transfer.report(self.away())

    def refuse(self, index: int = 0) -> None:
        """HTTP 400 for one of the messages."""
        number = self.numbers()[index]
        self.run(lambda m: m.transfer.refused_by_peer(self.away().number, number))


@pytest.fixture
def rig() -> AwayRig:
    return AwayRig()


# -- stream numbers (3.1.7.2.3)


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.3/1",
    "MC-MQSRM 3.1.7.2.3/4",
    "MC-MQSRM 3.1.7.2.3/5",
    "MC-MQSRM 3.1.1.2/1",
    "MC-MQSRM 3.1.1.1.3/3",
    "MC-MQSRM 3.1.7.2.2/1",
)
def test_messages_of_transactions_are_numbered_others_are_not(rig: AwayRig) -> None:
    rig.active.clear()
    sent = rig.send_stream(b"1", b"2")
    rig.send_stream(b"3")
    assert rig.away().number in rig.active
    shown = rig.manager.transfer.report(rig.away())
    assert (shown.no_ack_count, shown.no_read_count) == (3, 0)
    assert shown.last_ack == SequenceInfo(rig.sequence, 0, 0)
    assert shown.last_non_ack == SequenceInfo(rig.sequence, 3, 2)
    rig.send(rig.to, b"alone")
    alone, *others = rig.take()
    assert alone.body == b"alone"  # a higher priority
    assert rig.request(alone)[1].stream is None
    assert rig.places(others) == [(1, 0), (2, 1), (3, 2)]
    first = rig.request(others[0])[1]
    assert (first.source_guid, first.ordinal) == sent[0] == (rig.guid, first.ordinal)
    assert [rig.request(p)[1].ordinal for p in others] == [first.ordinal + n for n in range(3)]
    streams = rig.streams(others)
    assert {stream.stream_id for stream in streams} == {stream_id(rig.guid, rig.sequence)}
    assert [stream.send_receipts_to is not None for stream in streams] == [True, False, False]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.3/2", "MC-MQSRM 3.1.1.1.5/5", "MC-MQSRM 3.1.1.1.6/1")
def test_each_outgoing_queue_has_a_stream_of_its_own(rig: AwayRig) -> None:
    other = AWAY.replace("inbox", "outbox")  # on the same host
    rig.send_stream(b"1")
    transaction = rig.begin("other")
    rig.send(other, b"2", tx=transaction)
    rig.commit(transaction)
    (one,), (two,) = rig.send_all(), rig.streams(rig.take(other))
    assert (one.current, two.current) == (1, 1)
    assert one.sequence_id != two.sequence_id


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.3/4",
    "MC-MQSRM 3.1.7.2.2/2",
    "MC-MQSRM 3.1.7.2.3/3",
    "MC-MQSRM 3.1.1.1.6/1",
    "MC-MQSRM 3.1.1.1.3/2",
    "MC-MQSRM 3.1.1.1.1/1",
    "MC-MQSRM 3.1.3.2/1",
    "MC-MQSRM 3.1.7.7/3",
    "MC-MQSRM 3.1.1.1.3/1",
)
def test_a_message_keeps_its_place_and_its_identifier_over_everything(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3")
    guid, first = rig.guid, [rig.request(packet) for packet in rig.take()]
    rig.run(lambda m: rig.sender.resend())
    assert [rig.request(packet) for packet in rig.take()] == first
    rig.restart()
    assert rig.guid == guid
    assert [rig.request(packet) for packet in rig.take()] == first
    rig.to = rig.open(AWAY)
    rig.send_stream(b"4")
    assert rig.places(rig.take()) == [(4, 3)]


@pytest.mark.spec("MC-MQSRM 3.1.1.1.5/1", "MC-MQSRM 3.1.1.1.5/2", "MC-MQSRM 3.1.1.1.5/3")
@pytest.mark.spec("MC-MQSRM 3.1.3.1/2", "MC-MQSRM 3.1.3.1/3")
def test_all_outgoing_queues_share_message_index_and_stream_ordinal() -> None:
    rig, names = AwayRig(), [AWAY.replace("inbox", name) for name in ("a", "b", "c")]
    indexes, ordinals = [], []
    for at, name in enumerate(names):
        transaction = rig.begin(f"s{at}")
        sent = [rig.send(name, b"x", tx=transaction) for _ in range(2)]
        rig.commit(transaction)
        indexes += [one.ordinal for one in sent]
        ordinals.append(rig.streams(rig.take(name))[0].sequence_id & 0xFFFF_FFFF)
    assert indexes == [1, 2, 3, 4, 5, 6]  # the index before the first message is 0
    assert ordinals == [1, 2, 3]


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.5/2", "MC-MQSRM 3.1.1.1.5/3", "MC-MQSRM 3.1.3.1/2", "MC-MQSRM 3.1.3.1/3"
)
def test_neither_identifiers_nor_streams_come_again_after_a_restart(rig: AwayRig) -> None:
    identifiers, sequences = [], []
    for _ in range(3):
        identifiers += rig.send_stream(b"x")
        (stream,) = rig.send_all()
        sequences.append(stream.sequence_id)
        rig.acknowledge(1, stream.sequence_id)
        rig.restart()
        rig.to = rig.open(AWAY)
    assert [i.ordinal for i in identifiers] == sorted({i.ordinal for i in identifiers})
    assert sequences == sorted(set(sequences))


@pytest.mark.spec("MC-MQSRM 3.1.1.2/4", "MC-MQSRM 3.1.1.2/5", "MC-MQSRM 3.1.7.6/1")
def test_when_all_is_acknowledged_the_next_message_opens_a_new_stream(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2")
    first = rig.send_all()[0].sequence_id
    rig.acknowledge(1, first)
    rig.send_stream(b"3")  # number 2 is still on its way
    (third,) = rig.send_all()
    assert (third.sequence_id, third.current) == (first, 3)
    rig.acknowledge(3, first)
    rig.send_stream(b"4")
    (fourth,) = rig.send_all()
    assert fourth.sequence_id > first
    assert (fourth.current, fourth.previous) == (1, 0)
    assert fourth.send_receipts_to is not None
    assert rig.manager.transfer.outgoing.sequences.queue_of(first) is None  # it is deleted


@pytest.mark.spec("MC-MQSRM 3.1.7.2.3/6", "MC-MQSRM 3.1.6.2/1", "MC-MQSRM 3.1.1.1.2.4/2")
def test_a_resend_bridges_what_is_gone(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3", b"4")
    assert rig.places(rig.take()) == [(1, 0), (2, 1), (3, 2), (4, 3)]
    queue, number = rig.away(), rig.numbers()[1]
    row = rig.manager.messages.find_row(number)
    assert row is not None
    rig.run(lambda m: m.messages.outcomes.delete(queue, number, row, NACK_PURGED))
    rig.run(lambda m: rig.sender.resend())
    assert rig.places(rig.take()) == [(1, 0), (3, 1), (4, 3)]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.1/5", "MC-MQSRM 3.1.1.1.2.4/2")
@pytest.mark.spec("MC-MQSRM 3.1.7.2.3/5")
def test_an_expired_message_leaves_a_bridge_and_the_first_a_start(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", time_to_reach_queue=10)
    rig.send_stream(b"3", b"4", time_to_reach_queue=60)
    rig.advance(12)
    packets = rig.take()
    assert [packet.body for packet in packets] == [b"3", b"4"]
    assert rig.places(packets) == [(3, 0), (4, 3)]
    assert rig.streams(packets)[0].send_receipts_to is not None  # decision 76
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.2.1/6")
def test_the_message_after_expired_ones_names_the_one_before_them(rig: AwayRig) -> None:
    rig.send_stream(b"1", time_to_reach_queue=60)
    rig.send_stream(b"2", b"3", time_to_reach_queue=10)
    rig.send_stream(b"4", b"5", time_to_reach_queue=60)
    rig.advance(12)
    packets = rig.take()
    assert [packet.body for packet in packets] == [b"1", b"4", b"5"]
    assert rig.places(packets) == [(1, 0), (4, 1), (5, 4)]


@pytest.mark.spec("MC-MQSRM 3.1.7.2.1/5", "MC-MQSRM 3.1.7.6/1")
def test_a_stream_whose_last_message_expired_is_finished(rig: AwayRig) -> None:
    rig.send_stream(b"1", time_to_reach_queue=10)
    before = rig.sequence
    shown = rig.manager.transfer.report(rig.away())
    assert (shown.no_ack_count, shown.last_non_ack) == (1, SequenceInfo(before, 1, 0))
    rig.advance(12)
    assert rig.take() == []
    shown = rig.manager.transfer.report(rig.away())
    assert (shown.no_ack_count, shown.first_non_ack, shown.last_non_ack) == (0, None, None)
    rig.send_stream(b"2")
    (stream,) = rig.send_all()
    assert stream.sequence_id > before
    assert (stream.current, stream.previous) == (1, 0)
    shown = rig.manager.transfer.report(rig.away())
    assert (shown.no_ack_count, shown.first_non_ack) == (1, SequenceInfo(stream.sequence_id, 1, 0))
    assert shown.last_ack == SequenceInfo(stream.sequence_id, 0, 0)


# -- expiry before sending (3.1.7.2.1)


@pytest.mark.spec("MC-MQSRM 3.1.7.2/1")
@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.1/1",
    "MC-MQSRM 3.1.7.2.1/2",
    "MC-MQSRM 3.1.7.2.1/3",
    "MC-MQSRM 3.1.7.2.1/4",
    "MC-MQSRM 3.1.1.1.2.1/3",
    "MC-MQSRM 3.1.5.2.2/2",
    "MC-MQSRM 3.1.5.2.1/1",
)
@pytest.mark.parametrize("retry", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_an_expired_message_is_not_sent(rig: AwayRig, retry: bool, stream: bool) -> None:
    for body, asks in ((b"kept", DEAD | KEPT), (b"lost", KEPT)):
        options = asks | {"time_to_reach_queue": 10}
        if stream:
            rig.send_stream(body, **options)
        else:
            rig.send(rig.to, body, **options)
    if retry:
        assert len(rig.take()) == 2
        rig.run(lambda m: rig.sender.end())
    rig.advance(10)
    assert len(rig.take()) == 2  # the whole last second is left
    rig.run(lambda m: rig.sender.end())
    rig.advance(1)
    assert rig.take() == []
    dead = DEAD_TRANSACTIONAL if stream else DEAD_LETTERS
    assert rig.bodies(dead) == [b"kept"]
    assert rig.reasons(dead) == [NACK_REACH_QUEUE_TIMEOUT]
    assert rig.bodies(JOURNAL) == []
    rig.check_books()


# -- answers for messages outside of streams


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.1/1",
    "MC-MQSRM 3.1.5.2.2/1",
    "MC-MQSRM 3.1.7.2.5/2",
    "MC-MQSRM 3.1.5.2.1.1/2",
)
def test_a_delivered_message_is_gone_or_in_the_journal(rig: AwayRig) -> None:
    rig.send(rig.to, b"gone")
    rig.send(rig.to, b"kept", label="its label", **KEPT)
    assert len(rig.take()) == 2
    assert rig.waiting_bodies() == [b"gone", b"kept"]  # until the answer comes
    numbers = rig.numbers()
    rig.run(lambda m: rig.sender.acknowledged(numbers))
    assert rig.waiting_bodies() == []
    (kept,) = rig.messages(JOURNAL)
    assert (kept.body, kept.label) == (b"kept", "its label")
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.1.1.2.1/2", "MC-MQSRM 3.1.1.1.2.1/1")
def test_without_an_answer_a_message_stays_and_is_sent_again(rig: AwayRig) -> None:
    rig.send(rig.to, b"1")
    (first,) = rig.take()
    rig.run(lambda m: rig.sender.end())
    (again,) = rig.take()
    assert again.data == first.data


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.1/3",
    "MC-MQSRM 3.1.7.2.5/5",
    "MC-MQSRM 3.1.5.2.1/1",
    "MC-MQSRM 3.1.5.2.1.1/2",
    "MC-MQSRM 3.1.5.2.2/2",
)
def test_a_refused_message_is_deleted_or_a_dead_letter(rig: AwayRig) -> None:
    rig.send(rig.to, b"kept", label="its label", **DEAD, **KEPT)
    rig.send(rig.to, b"lost", **KEPT)
    rig.take()
    rig.refuse()
    rig.refuse()
    assert rig.waiting_bodies() == []
    (dead,) = rig.messages(DEAD_LETTERS)
    assert (dead.body, dead.label) == (b"kept", "its label")
    assert rig.reasons(DEAD_LETTERS) == [NACK_BAD_DEST_QUEUE]
    assert rig.bodies(JOURNAL) == []
    rig.check_books()


def test_whoever_asked_learns_of_a_refusal(rig: AwayRig) -> None:
    rig.create("admin")
    name = r"DIRECT=OS:ALPHA\private$\admin"
    rig.send(rig.to, b"x", administration_queue_format_name=name, acknowledgements_requested=4)
    rig.take()
    rig.refuse()
    assert rig.classes("admin") == [NACK_BAD_DEST_QUEUE]


def test_a_refusal_for_a_message_that_is_gone_does_nothing(rig: AwayRig) -> None:
    rig.send(rig.to, b"1")
    rig.take()
    (number,) = rig.numbers()
    rig.refuse()
    before = rig.manager.ledger.state.dump()
    rig.run(lambda m: m.transfer.refused_by_peer(rig.away().number, number))
    rig.run(lambda m: m.transfer.refused_by_peer(4711, number))
    assert rig.manager.ledger.state.dump() == before


# -- 400 in a stream (decision 82)


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/6", "MC-MQSRM 3.1.1.2/5")
@pytest.mark.parametrize("taken", [2, 4])
@pytest.mark.parametrize("restart", [False, True])
def test_behind_a_refused_message_a_new_stream_begins(
    rig: AwayRig, taken: int, restart: bool
) -> None:
    rig.send_stream(b"1", b"2", b"3", b"4", **DEAD)
    old = rig.streams(rig.take(count=taken))[0].sequence_id
    rig.refuse(1)
    if restart:
        rig.restart()
        rig.to = rig.open(AWAY)
        rig.take(count=1)
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"2"]
    new = rig.send_all()
    assert [(s.current, s.previous) for s in new] == [(1, 0), (2, 1)]
    assert {s.sequence_id for s in new} == {rig.sequence}
    assert rig.sequence > old
    rig.send_stream(b"5")
    assert rig.places(rig.take()) == [(3, 2)]
    rig.run(lambda m: rig.sender.resend())
    again = rig.send_all()
    assert [s.current for s in again] == [1, 1, 2, 3]
    assert [s.sequence_id for s in again] == [old, *[rig.sequence] * 3]
    rig.acknowledge(1, old)
    rig.acknowledge(3, rig.sequence)
    assert rig.report.no_ack_count == 0
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/6")
def test_refusals_one_after_the_other_number_anew_each_time(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3", b"4")
    sequences = []
    for _ in range(3):
        (packet,) = rig.take(count=1)
        (stream,) = rig.streams([packet])
        assert (stream.current, stream.previous) == (1, 0)
        sequences.append(stream.sequence_id)
        rig.refuse()
    assert sequences == sorted(set(sequences))
    (last,) = rig.send_all()
    assert last.current == 1
    rig.acknowledge(1, last.sequence_id)
    assert rig.waiting_bodies() == []
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.7.2.5/6")
@pytest.mark.parametrize("restart", [False, True])
def test_a_new_stream_begins_also_where_nothing_waits_behind(rig: AwayRig, restart: bool) -> None:
    rig.send_stream(b"1", b"2")
    old = rig.send_all()[0].sequence_id
    rig.refuse(1)
    if restart:
        rig.restart()
        rig.to = rig.open(AWAY)
        rig.take()
    rig.send_stream(b"3")
    (stream,) = rig.send_all()
    assert (stream.current, stream.previous) == (1, 0)
    assert stream.sequence_id > old
    rig.acknowledge(1, old)
    assert rig.waiting_bodies() == [b"3"]
    rig.acknowledge(1, stream.sequence_id)
    assert rig.waiting_bodies() == []


def test_a_refusal_in_an_older_stream_numbers_all_that_follows(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3", b"4")
    rig.take()
    rig.refuse(2)  # 3: now 4 is in a second stream
    rig.refuse(0)  # 1, of the first
    assert rig.waiting_bodies() == [b"2", b"4"]
    assert [(s.current, s.previous) for s in rig.send_all()] == [(1, 0), (2, 1)]
    assert len(rig.manager.ledger.state.of_table(16)) <= 2
    rig.restart()
    assert [(s.current, s.previous) for s in rig.send_all()] == [(1, 0), (2, 1)]
    rig.acknowledge(2, rig.sequence)
    assert rig.waiting_bodies() == []


# -- stream receipts (3.1.5.1.8)


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.4/1",
    "MC-MQSRM 3.1.7.2.5/4",
    "MC-MQSRM 3.1.7.2.3/7",
    "MC-MQSRM 3.1.1.1.4/1",
    "MC-MQSRM 3.1.5.1.8/1",
    "MC-MQSRM 3.1.5.1.8.1/2",
    "MC-MQSRM 3.1.5.1.8.3/1",
    "MC-MQSRM 3.1.1.1.2.4/3",
    "MC-MQSRM 3.1.5.1.5/4",
    "MC-MQSRM 2.2.5.6/1",
    "MC-MQSRM 2.2.5.6/4",
)
def test_a_stream_message_stays_until_its_receipt_covers_it(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3")
    (first, *_) = rig.send_all()
    numbers = rig.numbers()
    rig.run(lambda m: rig.sender.acknowledged(numbers))  # 200 for each
    assert rig.waiting_bodies() == [b"1", b"2", b"3"]
    rig.acknowledge(2, first.sequence_id)
    assert rig.waiting_bodies() == [b"3"]
    assert rig.messages(r".\private$\order_queue$") == []  # decision 87
    rig.check_books()


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.4/3",
    "MC-MQSRM 3.1.7.2.3/7",
    "MC-MQSRM 3.1.6.2/2",
    "MC-MQSRM 3.1.5.1.8.4/1",
    "MC-MQSRM 3.1.5.2.2/1",
)
def test_a_journal_is_filled_by_the_receipt_and_dead_letters_wait_for_more(rig: AwayRig) -> None:
    rig.send_stream(b"journal", **KEPT)
    rig.send_stream(b"dead", **DEAD)
    rig.send_stream(b"plain", final_ack_required=True)
    (first, *_) = rig.send_all()
    assert rig.bodies(JOURNAL) == []
    rig.acknowledge(3, first.sequence_id)
    assert rig.bodies(JOURNAL) == [b"journal"]
    assert rig.waiting_bodies() == [b"dead"]
    rig.run(lambda m: rig.sender.resend())
    assert rig.take() == []
    rig.restart()
    assert rig.take() == []
    rig.check_books()


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.8.4/1",
    "MC-MQSRM 3.1.5.2.2/1",
    "MC-MQSRM 3.1.5.1.9.3/1",
    "MC-MQSRM 3.1.5.2.1.2/1",
)
@pytest.mark.parametrize("end", [ACK_RECEIVE, NACK_QUEUE_PURGED])
@pytest.mark.parametrize("first", ["the stream receipt", "the final receipt", "a restart"])
def test_what_was_delivered_is_journaled_once_whatever_becomes_of_it(
    rig: AwayRig, end: int, first: str
) -> None:
    (sent,) = rig.send_stream(b"1", **KEPT, **DEAD)
    sequence = rig.send_all()[0].sequence_id
    if first != "the final receipt":
        rig.acknowledge(1, sequence)
        assert rig.bodies(JOURNAL) == [b"1"]
        assert rig.waiting_bodies() == [b"1"]
    if first == "a restart":
        rig.restart()
    assert rig.post(rig.final_receipt(1, sequence, sent, end)) == [200]
    assert rig.waiting_bodies() == []
    assert rig.bodies(JOURNAL) == [b"1"]
    assert rig.bodies(DEAD_TRANSACTIONAL) == ([] if end == ACK_RECEIVE else [b"1"])
    rig.acknowledge(1, sequence)
    assert rig.bodies(JOURNAL) == [b"1"]
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.2.2/2")
def test_what_was_refused_at_the_door_is_not_journaled(rig: AwayRig) -> None:
    rig.send_stream(b"1", **KEPT, **DEAD)
    rig.send_all()
    rig.refuse()
    assert rig.bodies(JOURNAL) == []
    assert rig.bodies(DEAD_TRANSACTIONAL) == [b"1"]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.8.1/5", "MC-MQSRM 3.1.5.1.8.2/2")
def test_an_older_receipt_changes_nothing(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3")
    sequence = rig.send_all()[0].sequence_id
    rig.acknowledge(2, sequence)
    rig.acknowledge(1, sequence)
    assert rig.waiting_bodies() == [b"3"]
    assert rig.report.last_ack.number == 2


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.3/9",
    "MC-MQSRM 3.1.7.2.3/10",
    "MC-MQSRM 3.1.7.2.3/11",
    "MC-MQSRM 3.1.7.2.3/12",
)
def test_the_transfer_info_shows_what_was_sent(rig: AwayRig) -> None:
    sequence = 0
    for count, body in enumerate((b"1", b"2", b"3"), 1):
        rig.send_stream(body)
        sequence = rig.send_all()[-1].sequence_id
        report = rig.report
        assert report.first_non_ack == (sequence, 1, 0)
        assert report.last_non_ack == (sequence, count, count - 1)
        assert report.next_sequence == (sequence, count + 1, count)
        assert report.last_ack == (sequence, 0, 0)
        assert (report.no_ack_count, report.no_read_count, report.last_ack_count) == (count, 0, 0)
    rig.run(lambda m: rig.sender.resend())
    assert len(rig.take()) == 3
    assert rig.report.no_ack_count == 3


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.8.2/1",
    "MC-MQSRM 3.1.5.1.8.2/2",
    "MC-MQSRM 3.1.5.1.8.2/3",
    "MC-MQSRM 3.1.5.1.8.2/4",
    "MC-MQSRM 3.1.5.1.8.2/5",
    "MC-MQSRM 3.1.5.1.8.2/6",
    "MC-MQSRM 3.1.5.1.8.3/2",
)
def test_each_receipt_raises_the_count_and_lowers_nothing(rig: AwayRig) -> None:
    """New ones, those that come again, and late ones."""
    rig.send_stream(b"1", b"2", b"3", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    acknowledged = 0
    for count, number in enumerate((1, 2, 2, 1, 2, 3, 3), 1):
        rig.advance(5)
        rig.acknowledge(number, sequence)
        acknowledged = max(acknowledged, number)
        report = rig.report
        assert report.last_ack == (sequence, acknowledged, acknowledged - 1)
        assert (report.last_ack_count, report.last_ack_time) == (count, rig.utc)
        assert (report.no_ack_count, report.no_read_count) == (3 - acknowledged, acknowledged)
        first = None if acknowledged == 3 else (sequence, acknowledged + 1, acknowledged)
        last = None if acknowledged == 3 else (sequence, 3, 2)
        assert (report.first_non_ack, report.last_non_ack) == (first, last)
    assert rig.waiting_bodies() == [b"1", b"2", b"3"]


@pytest.mark.spec(
    "MC-MQSRM 3.1.7.2.3/8",
    "MC-MQSRM 3.1.7.2.3/11",
    "MC-MQSRM 3.1.5.1.9.2/1",
    "MC-MQSRM 3.1.5.1.9.1/5",
)
@pytest.mark.parametrize("restart", [False, True])
def test_the_first_message_of_a_stream_sets_the_counts_back(rig: AwayRig, restart: bool) -> None:
    sent = rig.send_stream(b"1", b"2", b"3", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    for number in (2, 3, 3):
        rig.acknowledge(number, sequence)
    report = rig.report
    assert (report.last_ack_count, report.no_read_count) == (3, 3)
    assert report.last_ack == (sequence, 3, 2)
    rig.post(rig.final_receipt(1, sequence, sent[0]))
    assert rig.report.no_read_count == 2
    rig.send_stream(b"4", **DEAD)
    if restart:
        rig.restart()
    report = rig.report
    new = report.next_sequence.sequence_id
    assert new > sequence
    assert report.next_sequence == (new, 2, 1)
    assert report.first_non_ack == report.last_non_ack == (new, 1, 0)
    assert report.last_ack == (new, 0, 0)
    assert (report.no_ack_count, report.last_ack_count, report.no_read_count) == (1, 0, 0)
    assert rig.manager.transfer.arrived(rig.away()) == 2, "they wait all the same"


@pytest.mark.spec("MC-MQSRM 3.1.7.2.3/8")
def test_counts_go_on_with_the_new_stream(rig: AwayRig) -> None:
    sent = rig.send_stream(b"1", b"2", **DEAD)
    old = rig.send_all()[0].sequence_id
    rig.acknowledge(2, old)
    more = rig.send_stream(b"3", b"4", **DEAD)
    new = rig.send_all()[0].sequence_id
    rig.acknowledge(1, new)
    report = rig.report
    assert (report.last_ack, report.last_ack_count) == ((new, 1, 0), 1)
    assert (report.no_ack_count, report.no_read_count) == (1, 1)
    rig.post(rig.final_receipt(1, old, sent[0]))
    assert rig.report.no_read_count == 1
    rig.post(rig.final_receipt(1, new, more[0]))
    assert rig.report.no_read_count == 0


@pytest.mark.spec("MC-MQSRM 3.1.5.1.8.2/8", "MC-MQSRM 3.1.6.2/3")
def test_progress_sets_the_resend_plan_back(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2")
    sequence = rig.send_all()[0].sequence_id
    queue = rig.away()
    rig.run(lambda m: m.transfer.outgoing.resend_planned(queue, 3, 300, rig.utc + 300))
    report = rig.report
    assert (report.resend_count, report.resend_interval_s) == (3, 300)
    assert report.resend_time == rig.utc + 300
    rig.acknowledge(1, sequence)
    assert (rig.report.resend_count, rig.report.resend_interval_s) == (0, 0)


# -- final stream receipts (3.1.5.1.9)


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.4/4",
    "MC-MQSRM 3.1.5.1.5/5",
    "MC-MQSRM 3.1.5.1.5/6",
    "MC-MQSRM 3.1.5.1.9.1/2",
    "MC-MQSRM 3.1.5.1.9.3/1",
)
@pytest.mark.parametrize("action", ["MSMQ:QM Ordering Ack", "MSMQ:its own label"])
def test_a_positive_final_receipt_deletes_its_message(rig: AwayRig, action: str) -> None:
    sent = rig.send_stream(b"1", b"2", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    rig.acknowledge(2, sequence)
    assert rig.post(rig.final_receipt(2, sequence, sent[1], action=action)) == [200]
    assert rig.waiting_bodies() == [b"1"]
    assert rig.bodies(DEAD_TRANSACTIONAL) == []
    rig.check_books()


@pytest.mark.spec(
    "MC-MQSRM 3.1.1.1.2.4/4",
    "MC-MQSRM 3.1.5.1.5/7",
    "MC-MQSRM 3.1.5.1.9.1/4",
    "MC-MQSRM 3.1.5.1.9.3/1",
    "MC-MQSRM 3.1.5.2.1.2/1",
    "MC-MQSRM 3.1.5.2.1.2/3",
)
@pytest.mark.parametrize(
    "code",
    [
        *(NACK_PURGED, NACK_QUEUE_DELETED, NACK_QUEUE_PURGED, NACK_RECEIVE_TIMEOUT),
        NACK_RECEIVE_REJECTED,  # decision 85
    ],
)
@pytest.mark.parametrize("receipted", [False, True])
def test_a_negative_final_receipt_makes_a_dead_letter(
    rig: AwayRig, code: int, receipted: bool
) -> None:
    (sent,) = rig.send_stream(b"1", label="its label", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    if receipted:
        rig.acknowledge(1, sequence)
    assert rig.post(rig.final_receipt(1, sequence, sent, code)) == [200]
    assert rig.waiting_bodies() == []
    (dead,) = rig.messages(DEAD_TRANSACTIONAL)
    assert (dead.body, dead.label) == (b"1", "its label")
    assert rig.reasons(DEAD_TRANSACTIONAL) == [code]
    rig.check_books()


@pytest.mark.spec("MC-MQSRM 3.1.5.2.1.2/2", "MC-MQSRM 3.1.5.2.1.2/3")
@pytest.mark.parametrize(
    ("name", "used"),
    [
        (r"ALPHA\private$\dead", True),
        (r"ALPHA\private$\plain", False),  # it is not transactional
        (r"ALPHA\private$\nowhere", False),
    ],
)
def test_an_application_may_have_its_own_dead_letter_queue(
    rig: AwayRig, name: str, used: bool
) -> None:
    rig.create("dead", transactional=True)
    rig.create("plain")
    options = DEAD | {"application_deadletter_queue": name}
    if "nowhere" in name:
        rig.create("nowhere", transactional=True)
    (sent,) = rig.send_stream(b"1", **options)
    if "nowhere" in name:
        rig.delete("nowhere")
    sequence = rig.send_all()[0].sequence_id
    rig.acknowledge(1, sequence)
    rig.post(rig.final_receipt(1, sequence, sent, NACK_QUEUE_PURGED))
    assert rig.bodies("dead" if used else DEAD_TRANSACTIONAL) == [b"1"]


# -- receipts that count for nothing (decisions 24 and 65)


def forged(rig: AwayRig, sequence: int, sent: list[MessageId]) -> list[SrmpMessage]:
    """Receipts that fit nothing that was sent."""
    last = sent[-1]
    return [
        rig.stream_receipt(4, sequence),  # beyond what was sent
        rig.stream_receipt(0, sequence),
        rig.stream_receipt(2, sequence + 1),
        rig.stream_receipt(2, sequence - 1),
        rig.stream_receipt(2, sequence, stream_guid=b"another machine!"),
        rig.stream_receipt(2, sequence, message_class=ACK_RECEIVE),
        rig.stream_receipt(2, sequence, action="MSMQ:something else"),
        rig.final_receipt(4, sequence, last),
        rig.final_receipt(3, sequence + 1, last),
        rig.final_receipt(3, sequence, MessageId(rig.guid, last.ordinal + 1)),
        rig.final_receipt(3, sequence, MessageId(b"another machine!", last.ordinal)),
        rig.final_receipt(3, sequence, last, stream_guid=b"another machine!"),
        rig.final_receipt(3, sequence, last, decision="negative"),
        rig.final_receipt(3, sequence, last, NACK_PURGED, decision="positive"),
        rig.final_receipt(3, sequence, last, 0x8004),
    ]


@pytest.mark.spec(
    "MC-MQSRM 3.1.5.1.8.1/1",
    "MC-MQSRM 3.1.5.1.8.1/3",
    "MC-MQSRM 3.1.5.1.8.1/4",
    "MC-MQSRM 3.1.5.1.9.1/1",
    "MC-MQSRM 3.1.5.1.9.1/3",
    "MC-MQSRM 3.1.5.1.5/8",
)
@pytest.mark.parametrize("which", range(15))
def test_a_receipt_that_fits_nothing_deletes_nothing(rig: AwayRig, which: int) -> None:
    sent = rig.send_stream(b"1", b"2", b"3", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    rows = rig.manager.ledger.state.dump()
    receipts = forged(rig, sequence, sent)
    assert len(receipts) == 15
    assert rig.post(receipts[which]) == [200]
    assert rig.manager.ledger.state.dump() == rows
    assert rig.waiting_bodies() == [b"1", b"2", b"3"]


@pytest.mark.spec("MC-MQSRM 3.1.5.1.8.1/4")
def test_what_was_numbered_and_not_sent_cannot_be_acknowledged(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", b"3")
    sequence = rig.streams(rig.take(count=2))[0].sequence_id
    rig.acknowledge(3, sequence)
    assert rig.waiting_bodies() == [b"1", b"2", b"3"]
    rig.acknowledge(2, sequence)
    assert rig.waiting_bodies() == [b"3"]


def test_receipts_count_from_where_the_stream_leads_and_from_nowhere_else(rig: AwayRig) -> None:
    sent = rig.send_stream(b"1", b"2", **DEAD)
    sequence = rig.send_all()[0].sequence_id
    receipts = [rig.stream_receipt(2, sequence), rig.final_receipt(1, sequence, sent[0])]
    assert rig.post(*receipts, peer=STRANGER) == [200, 200]
    assert rig.report.no_ack_count == 2
    assert rig.manager.machine.refusals["order_acknowledgment_ignored"] == 1
    assert rig.manager.machine.refusals["final_acknowledgment_ignored"] == 1
    assert rig.post(*receipts, peer=UNSURE) == [500, 500]  # not known yet: they come again
    assert rig.report.no_ack_count == 2
    assert rig.post(*receipts) == [200, 200]
    assert (rig.report.no_ack_count, rig.waiting_bodies()) == (0, [b"2"])


@pytest.mark.parametrize(
    "to",
    [
        "http://alpha/msmq/private$/orders",
        "http://alpha/msmq/private$/nowhere",
        "http://bravo/msmq/private$/order_queue$",
    ],
)
def test_a_receipt_for_a_stream_of_ours_is_known_by_its_elements(rig: AwayRig, to: str) -> None:
    """The examples of 4.4 name other queues than the order queue, as a peer may that rewrites."""
    rig.send_stream(b"1")
    sequence = rig.send_all()[0].sequence_id
    assert rig.post(rig.stream_receipt(1, sequence + 1, to=to)) == [400]
    assert rig.post(rig.stream_receipt(1, sequence, to=to), peer=STRANGER) == [200]
    assert rig.waiting_bodies() == [b"1"]
    assert rig.post(rig.stream_receipt(1, sequence, to=to)) == [200]
    assert rig.waiting_bodies() == []


def test_nobody_here_can_write_receipts(rig: AwayRig) -> None:
    """What queue managers tell each other is not for applications to say."""
    with rig.refused(0xC00E0025):
        rig.open("DIRECT=HTTP://far.example/msmq/private$/order_queue$")


# -- the queue itself


def test_a_private_queue_for_acknowledgments_has_a_url(rig: AwayRig) -> None:
    rig.create("admin")
    rig.create(r".\shared")
    url_of = rig.manager.transfer.url_of
    base = "http://10.0.0.1:8080"
    own = rig.queue("admin")
    for name in (
        parse_format_name(r"DIRECT=OS:ALPHA\private$\admin"),
        PrivateName(rig.guid, own.number),
    ):
        assert url_of(name, base) == f"{base}/msmq/private$/admin"
    shared = parse_format_name(r"DIRECT=OS:ALPHA\shared")
    assert url_of(shared, base) == f"{base}/msmq/shared"
    web = parse_format_name("DIRECT=HTTPS://far/msmq/q")
    assert url_of(web, base) == "https://far/msmq/q"
    for other in (r"DIRECT=OS:BRAVO\private$\admin", r"DIRECT=OS:ALPHA\private$\none"):
        assert url_of(parse_format_name(other), base) is None
    assert url_of(parse_format_name(r"DIRECT=OS:ALPHA\private$\order_queue$"), base) is None


def test_the_receipt_is_written_down_with_what_it_ends(rig: AwayRig) -> None:
    rig.send_stream(b"1", b"2", **KEPT)
    sequence = rig.send_all()[0].sequence_id
    rig.acknowledge(1, sequence)
    rig.restart()
    assert rig.waiting_bodies() == [b"2"]
    assert rig.bodies(JOURNAL) == [b"1"]
    assert rig.report.last_ack.number == 1
    assert rig.places(rig.take()) == [(2, 1)]
    rig.check_books()


def test_paused_queues_send_nothing(rig: AwayRig) -> None:
    rig.send_stream(b"1")
    queue = rig.away()
    rig.run(lambda m: m.transfer.pause_queue(queue))
    assert rig.sender.take(10, 1000) == []
    assert rig.report.no_ack_count == 1


def test_a_receipt_that_was_written_later_than_now_shows_that_our_clock_is_behind(
    rig: AwayRig,
) -> None:
    rig.send_stream(b"1", b"2")
    (first, *_) = rig.send_all()
    rig.acknowledge(1, first.sequence_id)
    assert rig.manager.transfer.clocks_that_differ() == []
    rig.acknowledge(2, first.sequence_id, sent_at=rig.utc + 86_400)
    (known,) = rig.manager.transfer.clocks_that_differ()
    assert known.behind_s == -86_400
