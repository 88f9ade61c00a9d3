"""What a session sends, and what the peer's acknowledgments do, [MS-MQQB] 3.1.5.5, 3.1.6.3-5."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.protocols.binary import close_reasons as breaches
from posthouse.protocols.binary.session import Role, SessionState
from posthouse.wire.binary.internal import session_ack
from posthouse.wire.binary.order_acks import OrderAck, Origin, order_ack, order_queue_at
from posthouse.wire.packet.headers import SessionHeader
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from tests.engine.letters import JOURNAL
from tests.engine.rig import START_UTC
from tests.protocols.binary.session_rig import (
    PEER_GUID,
    SETTINGS,
    ack,
    user_message,
)
from tests.support.sending_end import FAR, SendingEnd, bits, numbered

CLOSED = SessionState.CLOSED
ELSEWHERE = r"DIRECT=OS:BETA\private$\bills"
MINUTE_MS = 60_000


def place(packet: bytes) -> tuple[int, int, int]:
    """Sequence, number and previous number of a transactional message."""
    header = Packet(packet).transaction
    assert header is not None
    return header.sequence_id, header.sequence_number, header.previous_sequence_number


def order_ack_of(packet: bytes, ordinal: int = 900) -> bytes:
    """What the destination answers for everything up to this message."""
    sequence_id, number, _ = place(packet)
    origin = Origin(PEER_GUID, ordinal, START_UTC)
    return order_ack(OrderAck.of(sequence_id, number), order_queue_at("192.0.2.1"), origin)


@pytest.fixture
def end() -> SendingEnd:
    return SendingEnd()


# -- what goes out


@pytest.mark.spec(
    "MS-MQQB 3.1.1.1.1.1/2",
    "MS-MQQB 3.1.1.4/3",
    "MS-MQQB 3.1.1.7.2/1",
    "MS-MQQB 3.1.7.1.6/1",
)
def test_what_waits_is_sent_when_the_session_opens(end: SendingEnd) -> None:
    end.session.attach(end.put(b"one", b"two"))
    end.start()
    for packet in end.handshake():
        end.receive(packet)
    assert end.bodies_sent() == [b"one", b"two"]
    assert end.session.messages_out == 2


@pytest.mark.spec("MS-MQQB 3.1.7.11/1")
def test_a_message_goes_out_as_the_queue_manager_built_it(end: SendingEnd) -> None:
    number = end.put(b"one", label="first", priority=5)
    end.open()
    end.attach(number)
    (packet,) = end.user_messages()
    message = deserialize(packet)
    assert (message.body, message.label, message.priority) == (b"one", "first", 5)
    assert str(message.destination_queue_format_name).lower() == FAR.lower()
    assert message.source_machine_identifier == end.machine.guid


@pytest.mark.spec("MS-MQQB 3.1.7.13/3")
def test_a_paused_queue_sends_nothing_and_announces_nothing(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 9))
    end.open(window=3)
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 3)
    queue = end.machine.manager.ledger.queues[number]
    end.machine.run(lambda manager: manager.transfer.pause_queue(queue))
    end.session.detach(number)
    end.receive(ack(upto=3, base=1, flags=bits(3), window=3))
    end.attach(number)
    assert not end.sent()
    assert end.waiting() == numbered(4, 9)
    end.machine.run(lambda manager: manager.transfer.resume_queue(queue))
    end.attach(number)
    assert end.bodies_sent() == numbered(4, 6)


@pytest.mark.spec("MS-MQQB 3.1.5.4.1/4")
def test_an_acceptor_sends_too() -> None:
    end = SendingEnd(role=Role.ACCEPTOR)
    end.open()
    end.attach(end.put(b"one"))
    assert end.bodies_sent() == [b"one"]


def test_nothing_goes_out_before_its_turn_is_synced(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.session.attach(number)
    assert not end.line.sent
    end.machine.desk.append()
    end.machine.driver.sync()
    assert not end.line.sent
    end.machine.driver.release()
    assert end.bodies_sent() == [b"one"]


def test_a_session_that_closes_meanwhile_sends_nothing(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.session.attach(number)
    end.session.lost("cut")
    end.settle()
    assert not end.line.sent
    assert end.waiting() == [b"one"]


@pytest.mark.spec(
    "MS-MQQB 3.1.1.3.1/14",
    "MS-MQQB 3.1.5.5/3",
    "MS-MQQB 3.1.1.3.1/18",
    "MS-MQQB 3.1.7.1/2",
    "MS-MQMQ 2.2.20.4/3",
)
def test_no_more_is_in_flight_than_the_peers_last_window_allows(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 30))
    end.open(window=5)
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 5)
    end.receive(ack(upto=2, base=1, flags=0b11, window=5))
    assert end.bodies_sent() == numbered(6, 7)
    end.receive(ack(upto=3, base=3, flags=0b1, window=9))
    assert end.bodies_sent() == numbered(8, 12)
    end.receive(ack(upto=4, base=4, flags=0b1, window=2))
    assert end.bodies_sent() == []
    end.receive(ack(upto=12, base=5, flags=bits(8), window=0))
    assert end.bodies_sent() == numbered(13, 13), "a window of 0 is one of 1"


@pytest.mark.spec("MS-MQQB 3.1.5.5.1/3", "MS-MQQB 3.1.5.5.1/2", "MS-MQQB 3.1.7.1.6/1")
def test_an_acknowledgment_sends_what_was_not_sent_and_nothing_again(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 100))
    end.open()
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 64)
    end.receive(ack(upto=32, base=1, flags=bits(32)))
    assert end.bodies_sent() == numbered(65, 96)
    assert end.waiting() == numbered(33, 100)


def test_queues_take_turns(end: SendingEnd) -> None:
    first, second = end.put(*numbered(1, 9)), end.put(*numbered(101, 109), to=ELSEWHERE)
    end.session.attach(first)
    end.session.attach(second)
    end.start()
    for packet in end.handshake(window=4):
        end.receive(packet)
    assert end.bodies_sent() == numbered(1, 4)
    end.receive(ack(upto=4, base=1, flags=bits(4), window=4))
    assert end.bodies_sent() == numbered(101, 104)
    end.receive(ack(upto=8, base=5, flags=bits(4), window=4))
    assert end.bodies_sent() == numbered(5, 8)
    end.receive(ack(upto=12, base=9, flags=bits(4), window=20))
    assert sorted(end.bodies_sent()) == [b"105", b"106", b"107", b"108", b"109", b"9"]
    end.receive(ack(upto=18, base=13, flags=bits(6), window=20))
    assert end.waiting() == end.waiting(ELSEWHERE) == []


def test_large_messages_are_fetched_a_few_at_a_time() -> None:
    end = SendingEnd(settings=replace(SETTINGS, send_batch=5_000))
    number = end.put(*[bytes(2_000)] * 6)
    end.open()
    end.session.attach(number)
    end.machine.desk.append()
    end.machine.driver.sync()
    end.machine.driver.release()
    assert len(end.user_messages()) == 2
    end.settle()
    assert len(end.user_messages()) == 4


def test_the_next_messages_are_ready_when_the_window_opens(end: SendingEnd) -> None:
    """They do not wait for the log, which has to take in the acknowledgments."""
    number = end.put(*numbered(1, 20))
    end.open(window=4)
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 4)
    end.session.receive(ack(upto=4, base=1, flags=bits(4), window=4))
    assert end.bodies_sent() == numbered(5, 8)
    assert end.bytes_ahead == 0
    end.settle()
    assert not end.sent()
    assert end.bytes_ahead > 0


def test_large_messages_are_not_taken_ahead_of_the_window(end: SendingEnd) -> None:
    number = end.put(*[bytes(200_000)] * 6)
    end.open(window=2)
    end.attach(number)
    assert len(end.user_messages()) == 2
    assert end.bytes_ahead <= 256 << 10


@pytest.mark.parametrize("synced", [True, False])
def test_what_was_taken_and_not_sent_is_taken_again_when_the_queue_comes_back(
    end: SendingEnd, synced: bool
) -> None:
    number = end.put(*numbered(1, 9))
    end.open(window=2)
    end.attach(number)
    assert end.bodies_sent() == numbered(1, 2)
    end.session.receive(ack(upto=2, base=1, flags=0b11, window=2))
    if synced:
        end.settle()
    sent = end.bodies_sent()
    end.session.detach(number)
    end.settle()
    assert end.bytes_ahead == 0
    end.receive(ack(upto=4, base=3, flags=0b11, window=2))
    assert not end.sent()
    assert len(end.session.queues) == 0
    end.attach(number)
    assert sent + end.bodies_sent() == numbered(3, 6)


def test_a_queue_that_comes_back_while_messages_are_in_flight_loses_none(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 9))
    end.open(window=2)
    end.attach(number)
    end.receive(ack(upto=2, base=1, flags=0b11, window=2))
    assert end.bytes_ahead > 0
    end.session.detach(number)
    end.attach(number)
    sent = end.bodies_sent()
    for _ in range(5):
        end.receive(stored(end, window=2))
        sent += end.bodies_sent()
    assert set(sent) == set(numbered(1, 9))
    assert end.waiting() == []


def test_nothing_is_fetched_for_a_line_that_is_full(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.line.writable = False
    end.attach(number)
    assert not end.sent()
    end.line.writable = True
    end.session.pump()
    end.settle()
    assert end.bodies_sent() == [b"one"]


def test_new_messages_go_out_when_the_queue_is_attached_again(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.attach(number)
    end.put(b"two")
    end.attach(number)
    assert end.bodies_sent() == [b"one", b"two"]


def test_a_detached_queue_gives_nothing_more_but_its_acknowledgments_count(
    end: SendingEnd,
) -> None:
    number = end.put(*numbered(1, 9))
    end.open(window=4)
    end.attach(number)
    end.session.detach(number)
    end.receive(ack(upto=4, base=1, flags=bits(3), window=4))
    assert end.bodies_sent() == numbered(1, 4)
    assert end.waiting() == numbered(4, 9)
    assert len(end.session.queues) == 1
    end.receive(ack(upto=4, base=4, flags=1, window=4))
    assert end.waiting() == numbered(5, 9)
    assert len(end.session.queues) == 0
    end.attach(number)
    assert end.bodies_sent() == numbered(5, 8)


def test_a_detached_queue_without_messages_in_flight_ends_at_once(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.session.attach(number)
    end.session.detach(number)
    end.session.detach(number)
    end.open()
    end.settle()
    assert not end.sent()
    assert len(end.session.queues) == 0


def test_a_queue_that_is_gone_is_passed_over(end: SendingEnd) -> None:
    end.open()
    end.attach(4711, end.put(b"one"))
    assert end.session.is_open
    assert end.bodies_sent() == [b"one"]


# -- what acknowledgments do


@pytest.mark.spec("MS-MQQB 3.1.5.5.2/1", "MS-MQQB 3.1.1.6.1/1", "MS-MQQB 3.1.1.6/1")
def test_a_count_ends_express_messages_and_no_others(end: SendingEnd) -> None:
    end.put(b"one", recoverable=False)
    end.put(b"two")
    number = end.put(b"three", b"four", recoverable=False)
    end.open(window=3)
    end.attach(number)
    end.receive(ack(upto=3))
    assert end.waiting() == [b"two", b"four"]


@pytest.mark.spec("MS-MQQB 3.1.5.5.3/1", "MS-MQQB 3.1.5.5.3/2", "MS-MQQB 3.1.1.6.1/2")
def test_recoverable_messages_end_when_the_peer_has_stored_them(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 6))
    end.open()
    end.attach(number)
    end.receive(ack(upto=6, base=2, flags=0b1101))
    assert end.waiting() == [b"1", b"3", b"6"]
    end.receive(ack(upto=6, base=1, flags=0b100001))
    assert end.waiting() == [b"3"]


@pytest.mark.spec("MS-MQQB 3.1.5.5.4/1")
def test_a_message_that_arrived_is_journaled_where_that_was_asked_for(end: SendingEnd) -> None:
    number = end.put(b"one", positive_journaling_requested=True)
    end.put(b"two")
    end.open()
    end.attach(number)
    end.receive(ack(upto=2, base=1, flags=0b11))
    assert [message.body for message in end.machine.messages(JOURNAL)] == [b"one"]
    assert end.waiting() == []


@pytest.mark.spec("MS-MQQB 3.1.5.5.3/3", "MS-MQQB 3.1.5.5.4/2", "MS-MQQB 3.1.5.5.5/4")
def test_a_transactional_message_stays_until_its_order_ack(end: SendingEnd) -> None:
    number = end.put_transaction(b"one", b"two")
    end.open()
    end.attach(number)
    first, second = end.user_messages()
    end.receive(ack(upto=2, base=1, flags=0b11))
    assert end.waiting() == [b"one", b"two"]
    end.receive(order_ack_of(first))
    assert end.waiting() == [b"two"]
    end.receive(order_ack_of(second, 901))
    assert end.waiting() == []


@pytest.mark.spec("MS-MQQB 3.1.5.5/4")
@pytest.mark.parametrize(
    "beyond", [ack(upto=3), ack(upto=2, base=3, flags=1), ack(upto=2, base=1, flags=0b111)]
)
def test_an_acknowledgment_of_more_than_was_sent_closes_and_ends_nothing(
    end: SendingEnd, beyond: bytes
) -> None:
    number = end.put(b"one", b"two")
    end.open()
    end.attach(number)
    end.receive(beyond)
    assert end.session.state is CLOSED
    assert end.host.refusals == [breaches.TOO_MANY_ACKNOWLEDGED]
    assert end.waiting() == [b"one", b"two"]


@pytest.mark.spec("MS-MQMQ 2.2.20.4/3")
def test_the_reserved_word_of_an_acknowledgment_says_nothing(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.attach(number)
    end.receive(session_ack(SessionHeader(1, 1, 1, 0, 0, 64, reserved=0xFFFF)))
    assert end.session.is_open
    assert end.waiting() == []


def test_acknowledgments_with_wrong_counts_are_heard_before_the_close(end: SendingEnd) -> None:
    number = end.put(b"one", b"two")
    end.open()
    end.attach(number)
    end.receive(ack(upto=1, base=1, flags=1, sent=5))
    assert end.session.state is CLOSED
    assert end.waiting() == [b"two"]


def test_many_acknowledgments_in_one_chunk_are_one_call_on_the_engine(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 20))
    end.open()
    end.attach(number)
    before = end.machine.desk.decisions
    chunk = [ack(upto=at, base=at, flags=1) for at in range(1, 21)]
    end.session.receive(b"".join(chunk))
    assert end.machine.desk.decisions == before + 1
    assert end.waiting() == []


# -- a new session


@pytest.mark.spec(
    "MS-MQQB 3.1.3.2/6", "MS-MQQB 3.1.3.2/8", "MS-MQQB 3.1.1.4/4", "MS-MQQB 3.1.1.6/1"
)
def test_what_was_not_acknowledged_goes_out_again_on_a_new_session(end: SendingEnd) -> None:
    number = end.put(*numbered(1, 5))
    end.open()
    end.attach(number)
    end.receive(ack(upto=5, base=1, flags=0b101))
    end.session.lost("cut")
    end.settle()
    again = SendingEnd(end.machine)
    again.open()
    assert again.session.sent.unacknowledged == 0
    again.attach(number)
    assert again.bodies_sent() == [b"2", b"4", b"5"]
    again.receive(ack(upto=3, base=1, flags=0b111))
    assert again.waiting() == []


@pytest.mark.spec("MS-MQQB 3.1.3.2/7")
def test_a_new_session_gives_no_new_numbers_to_transactional_messages(end: SendingEnd) -> None:
    number = end.put_transaction(b"one", b"two")
    end.open()
    end.attach(number)
    before = [place(packet) for packet in end.user_messages()]
    end.session.lost("cut")
    again = SendingEnd(end.machine)
    again.open()
    again.attach(number)
    assert [place(packet) for packet in again.user_messages()] == before
    assert [at for _, at, _ in before] == [1, 2]


# -- the Session Ack Wait Timer


@pytest.mark.spec("MS-MQQB 3.1.2.4/2", "MS-MQQB 3.1.6.3/2", "MS-MQQB 3.1.3.2/11")
@pytest.mark.parametrize(
    ("direct", "round_trip_ms", "wait_ms"),
    [(True, 0, 40_000), (False, 0, 20_000), (True, 1_500, 43_000), (False, 1_500, 21_500)],
)
def test_a_peer_that_is_silent_for_long_loses_the_session(
    direct: bool, round_trip_ms: int, wait_ms: int
) -> None:
    end = SendingEnd(settings=replace(SETTINGS, round_trip_ms=round_trip_ms), direct=direct)
    number = end.put(b"one")
    end.open()
    end.wait(7_000)
    end.session._received_ack = False
    end.attach(number)
    end.wait(wait_ms - 1)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.3.2/2")
def test_no_timer_of_acknowledgments_runs_in_a_new_session(end: SendingEnd) -> None:
    end.open()
    begun = end.machine.clock.now_ms
    assert end.session.next_deadline_ms() == begun + SETTINGS.cleanup_ms
    number = end.put(b"one")
    end.attach(number)
    assert end.session.next_deadline_ms() == begun + 20_000  # now one is waited for


@pytest.mark.spec("MS-MQQB 3.1.2.4/1")
def test_the_wait_for_an_acknowledgment_begins_with_the_first_message_only(
    end: SendingEnd,
) -> None:
    number = end.put(b"one")
    end.open()
    end.wait(7_000)
    end.session._received_ack = False
    end.attach(number)
    end.wait(15_000)
    end.put(b"two")
    end.attach(number)
    assert end.bodies_sent() == [b"one", b"two"]
    end.wait(4_999)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.6.3/3", "MS-MQQB 3.1.1.3.1/17", "MS-MQQB 3.1.5.1/1")
def test_a_peer_that_says_anything_is_given_another_round(end: SendingEnd) -> None:
    end.machine.create("orders")
    number = end.put(b"one")
    end.open()
    end.attach(number)
    end.wait(20_000)
    assert end.session.is_open, "the handshake was heard since the session began"
    end.receive(user_message(1))
    end.wait(20_000)
    assert end.session.is_open
    end.wait(19_999)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED


def test_a_large_packet_on_a_slow_line_keeps_the_session(end: SendingEnd) -> None:
    end.machine.create("orders")
    number = end.put(b"one")
    end.open()
    end.attach(number)
    large = user_message(1, body=bytes(10_000))
    for at in range(0, 10_000, 1_000):
        end.session.receive(large[at : at + 1_000])
        end.wait(15_000)
    end.receive(large[10_000:], ack(upto=1, base=1, flags=1, sent=1, recoverable_sent=1))
    assert end.session.is_open
    assert end.waiting() == []


@pytest.mark.spec("MS-MQQB 3.1.6.3/1", "MS-MQQB 3.1.7.1.3/9")
def test_without_messages_in_flight_the_timer_stays_off(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.attach(number)
    end.receive(ack(upto=1, base=1, flags=1))
    end.wait(20_000)
    assert end.session.is_open
    assert not end.session._received_ack
    end.wait(200_000)
    assert end.session.is_open
    end.put(b"two")
    end.attach(number)
    end.wait(19_999)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED, "it was started by the next message"


@pytest.mark.spec("MS-MQQB 3.1.5.5.5/3")
def test_an_acknowledgment_restarts_the_timer_while_messages_wait_for_theirs(
    end: SendingEnd,
) -> None:
    number = end.put(b"one", b"two")
    end.open()
    end.attach(number)
    end.wait(15_000)
    end.receive(ack(upto=1, base=1, flags=1))
    end.wait(19_999)
    assert end.session._received_ack, "it has not run yet"
    end.wait(1)
    assert not end.session._received_ack
    end.wait(20_000)
    assert end.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.5.4.1/2")
def test_an_acceptor_waits_as_long_as_its_peer_said() -> None:
    end = SendingEnd(role=Role.ACCEPTOR)
    number = end.put(b"one")
    end.open(ack_timeout=30_000)
    end.attach(number)
    end.wait(60_000)
    assert end.session.is_open
    end.wait(59_999)
    assert end.session.is_open
    end.wait(1)
    assert end.session.state is CLOSED


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/16", "MS-MQQB 3.1.7.1.3/9")
def test_sending_keeps_a_session_open(end: SendingEnd) -> None:
    number = end.put(b"one")
    end.open()
    end.wait(299_999)
    end.attach(number)
    end.receive(ack(upto=1, base=1, flags=1))
    end.wait(1)
    assert end.session.is_open
    end.wait(300_000)
    assert end.session.state is CLOSED


# -- acknowledgments of ours


@pytest.mark.spec(
    "MS-MQQB 3.1.5.8.7/7", "MS-MQQB 3.1.7.11/2", "MS-MQQB 2.2.6/3", "MS-MQQB 3.1.7.1.3/8"
)
def test_acknowledgments_say_what_was_sent_and_travel_alone(end: SendingEnd) -> None:
    end.machine.create("orders")
    end.put(b"one", recoverable=False)
    number = end.put(b"two")
    end.open()
    end.receive(user_message(1, recoverable=False))
    end.wait(9_000)
    end.attach(number)
    packets = end.user_messages()
    assert len(packets) == 2
    assert not any(summarize(packet).base_flags & 0x10 for packet in packets)
    end.wait(1_000)
    assert end.acks() == [SessionHeader(1, 0, 0, 2, 1, 64)]
    queue = end.machine.manager.ledger.queues[number]
    assert queue.state.count == 2
    end.receive(ack(upto=2, sent=1))  # the express one; the other waits until it is stored
    assert queue.state.count == 1
    end.receive(ack(upto=2, base=1, flags=1, sent=1))
    assert queue.state.count == 0


@pytest.mark.spec("MS-MQQB 3.1.1.7.3/1", "MS-MQQB 3.1.1.3.1/5")
def test_order_acks_are_counted_and_acknowledged_like_other_messages(end: SendingEnd) -> None:
    number = end.put_transaction(b"one")
    end.open()
    end.attach(number)
    (packet,) = end.user_messages()
    end.receive(order_ack_of(packet), ack(upto=1, base=1, flags=1, sent=1))
    assert end.session.is_open
    assert end.session.messages_in == 1
    end.wait(10_000)
    assert end.acks() == [SessionHeader(1, 0, 0, 1, 1, 64)]


# -- the Transactional Ack Wait Timer


@pytest.mark.spec(
    "MS-MQQB 3.1.2.6/1",
    "MS-MQQB 3.1.6.5/1",
    "MS-MQQB 3.1.6.5/2",
    "MS-MQQB 3.1.7.1.3/4",
)
def test_without_an_order_ack_transactional_messages_are_sent_again(end: SendingEnd) -> None:
    number = end.put_transaction(b"one", b"two")
    end.put(b"plain")
    end.open()
    end.attach(number)
    before = end.user_messages()
    assert len(before) == 3
    end.receive(ack(upto=3, base=1, flags=0b11))
    end.wait(29_999)
    assert not end.sent()
    end.wait(1)
    again = end.user_messages()
    assert [Packet(packet).body for packet in again] == [b"one", b"two"]
    assert [place(packet) for packet in again] == [place(packet) for packet in before[1:]]
    assert (end.session.sent.total, end.session.sent.recoverable) == (5, 5)


def keep_alive(end: SendingEnd, milliseconds: int) -> None:
    """Time passes on a session whose peer stores everything and orders nothing."""
    clock, until = end.machine.clock, end.machine.clock.now_ms + milliseconds
    while clock.now_ms < until:
        end.wait(min(10_000, until - clock.now_ms))
        end.receive(stored(end))


def stored(end: SendingEnd, window: int = 64) -> bytes:
    """The peer has stored all that was sent."""
    sent = end.session.sent
    oldest = sent._recoverable.oldest
    flags = bits(sent.recoverable - oldest + 1) if oldest else 0
    received = end.session.received
    return ack(sent.total, oldest, flags, received.total, received.recoverable, window)


@pytest.mark.spec("MS-MQQB 3.1.6.5/3", "MS-MQQB 3.1.2.6/1", "MS-MQQB 3.1.1.3.1.1/3")
def test_the_pauses_grow_as_the_table_says(end: SendingEnd) -> None:
    settings = replace(SETTINGS, cleanup_ms=1 << 40)
    end = SendingEnd(settings=settings)
    number = end.put_transaction(b"one")
    end.open()
    end.attach(number)
    assert len(end.user_messages()) == 1
    for pause_ms in (*SETTINGS.resend_ms, SETTINGS.resend_ms[-1]):
        end.receive(stored(end))
        end.wait(pause_ms - 1)
        assert end.user_messages() == []
        end.wait(1)
        assert len(end.user_messages()) == 1, f"after {pause_ms} ms"


@pytest.mark.spec(
    "MS-MQQB 3.1.2.6/2", "MS-MQQB 3.1.6.5/3", "MS-MQQB 3.1.3.2/5", "MS-MQDMPR 3.1.1.4/3"
)
def test_the_next_resend_is_there_for_administrators(end: SendingEnd) -> None:
    number = end.put_transaction(b"one")
    end.open()
    end.attach(number)
    transfer = end.machine.manager.transfer
    queue = end.machine.manager.ledger.queues[number]
    report = transfer.report(queue)
    assert (report.resend_count, report.resend_interval_s) == (0, 30)
    assert report.resend_time == end.machine.clock.utc_seconds + 30
    end.receive(stored(end))
    end.wait(30_000)
    report = transfer.report(queue)
    assert (report.resend_count, report.resend_interval_s) == (1, 30)
    assert report.resend_time == end.machine.clock.utc_seconds + 30


@pytest.mark.spec("MS-MQQB 3.1.6.5/3", "MS-MQQB 3.1.2.6/1", "MS-MQQB 3.1.5.6/5")
def test_progress_takes_the_pause_back_to_the_first(end: SendingEnd) -> None:
    number = end.put_transaction(b"one", b"two")
    end.open()
    end.attach(number)
    first, _ = end.user_messages()
    for _ in range(3):
        end.receive(stored(end))
        end.wait(30_000)
        assert len(end.user_messages()) == 2
    end.receive(stored(end))
    end.wait(MINUTE_MS)
    end.receive(order_ack_of(first))
    end.attach(number)  # the engine says that the queue is active
    end.wait(29_999)
    assert end.user_messages() == []
    end.wait(1)
    assert [Packet(packet).body for packet in end.user_messages()] == [b"two"]
    for _ in range(2):  # three pauses of this length in all
        end.receive(stored(end))
        end.wait(30_000)
        assert [Packet(packet).body for packet in end.user_messages()] == [b"two"]


@pytest.mark.spec("MS-MQQB 3.1.6.5/1")
def test_when_all_is_order_acknowledged_nothing_is_sent_again(end: SendingEnd) -> None:
    number = end.put_transaction(b"one", b"two")
    end.open()
    end.attach(number)
    _, second = end.user_messages()
    end.receive(stored(end))
    end.receive(order_ack_of(second))
    keep_alive(end, 120_000)
    assert end.session.sent.total == 2
    end.put_transaction(b"three")
    end.attach(number)
    end.wait(29_999)
    assert end.session.sent.total == 3
    end.wait(1)
    assert end.session.sent.total == 4


def test_a_detached_queue_is_not_sent_again(end: SendingEnd) -> None:
    number = end.put_transaction(b"one")
    end.open()
    end.attach(number)
    end.session.detach(number)
    keep_alive(end, 120_000)
    assert end.session.sent.total == 1
