"""What a session acknowledges, and when: nothing before it is safe, [MS-MQQB] 3.1.6.4."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from posthouse.model.message import TxSequenceId
from posthouse.protocols.binary import close_reasons as breaches
from posthouse.protocols.binary.session import Role, SessionState
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.headers import SESSION_HEADER, SessionHeader
from tests.protocols.binary.session_rig import SETTINGS, End, Machine, ack, user_message

CLOSED = SessionState.CLOSED


def express(*numbers: int) -> list[bytes]:
    return [user_message(number, recoverable=False) for number in numbers]


def recoverable(*numbers: int) -> list[bytes]:
    return [user_message(number) for number in numbers]


@pytest.fixture
def end() -> End:
    end = End()
    end.machine.create("orders")
    return end.open()


# -- nothing before it is safe


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/3", "MS-MQQB 3.1.1.6.1/2")
@pytest.mark.parametrize("count", [1, 32, 64])
def test_nothing_is_acknowledged_before_it_is_synced(end: End, count: int) -> None:
    end.session.receive(b"".join(recoverable(*range(1, count + 1))))
    driver = end.machine.driver
    end.machine.desk.append()
    driver.release()
    end.machine.clock.advance(200_000)
    end.session.tick()
    assert not end.sent(), "appended is not synced"
    driver.sync()
    driver.release()
    end.wait(0 if count >= 32 else 500)
    assert [header.ack_sequence_number for header in end.acks()][-1] == count


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/3")
def test_an_answer_that_comes_after_the_close_does_nothing(end: End) -> None:
    end.session.receive(b"".join(recoverable(*range(1, 65))))
    end.session.lost("cut")
    end.settle()
    assert len(end.machine.bodies("orders")) == 64
    assert not end.line.sent
    assert end.session.unsynced_bytes == 0
    assert end.host.told == ["opened", "closed"]
    assert end.session.next_deadline_ms() is None


def test_one_chunk_is_one_call_on_the_engine(end: End) -> None:
    before = end.machine.desk.decisions
    end.session.receive(b"".join([*recoverable(*range(1, 30)), ack(sent=29, recoverable_sent=29)]))
    assert end.machine.desk.decisions == before + 1
    assert end.session.is_open


# -- when an acknowledgment is due


@pytest.mark.spec("MS-MQQB 3.1.2.5/3", "MS-MQQB 3.1.1.7.2/1")
def test_half_a_window_is_acknowledged_at_once(end: End) -> None:
    end.receive(*express(*range(1, 32)))
    assert not end.sent()
    end.receive(*express(32))
    assert end.acks() == [SessionHeader(32, 0, 0, 0, 0, 64)]
    end.receive(*express(*range(33, 64)))
    assert not end.sent()
    end.receive(*express(64, 65))
    assert end.acks() == [SessionHeader(65, 0, 0, 0, 0, 64)]


@pytest.mark.parametrize(("ours", "theirs"), [(256, 64), (64, 256)])
def test_the_smaller_window_decides_when_an_acknowledgment_is_due(ours: int, theirs: int) -> None:
    """By 3.1.7.1 a sender stops at its own window: it would wait for a timer at half of ours."""
    end = End(settings=replace(SETTINGS, window=ours))
    end.machine.create("orders")
    end.open(window=theirs)
    end.receive(*express(*range(1, 32)))
    assert not end.sent()
    end.receive(*express(32))
    assert end.acks() == [SessionHeader(32, 0, 0, 0, 0, ours)]


@pytest.mark.spec("MS-MQQB 3.1.2.5/3")
def test_with_a_window_of_one_every_message_is_acknowledged_at_once() -> None:
    end = End(settings=replace(SETTINGS, window=1))
    end.machine.create("orders")
    end.open()
    end.receive(*express(1))
    assert end.acks() == [SessionHeader(1, 0, 0, 0, 0, 1)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/1", "MS-MQQB 3.1.5.8.7/2", "MS-MQQB 3.1.5.8.7/7")
def test_thirty_two_stored_messages_are_acknowledged_at_once() -> None:
    end = End(settings=replace(SETTINGS, window=1000))
    end.machine.create("orders")
    end.open()
    end.receive(*recoverable(*range(1, 32)))
    assert not end.sent()
    end.receive(*recoverable(32))
    assert end.acks() == [SessionHeader(32, 1, 0xFFFFFFFF, 0, 0, 1000)]
    end.receive(*recoverable(*range(33, 105)))
    headers = end.acks()
    assert [(h[0], h[1], h[2]) for h in headers] == [
        (104, 33, 0xFFFFFFFF),
        (104, 65, 0xFFFFFFFF),
        (104, 97, 0xFF),
    ]


@pytest.mark.spec("MS-MQQB 3.1.2.5/1", "MS-MQQB 3.1.6.4/1", "MS-MQQB 3.1.5.8.2/5")
def test_express_messages_are_acknowledged_after_half_the_ack_wait(end: End) -> None:
    end.receive(*express(1))
    end.wait(4_000)
    end.receive(*express(2))
    end.wait(5_999)
    assert not end.sent()
    end.wait(1)
    assert end.acks() == [SessionHeader(2, 0, 0, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.2.5/2", "MS-MQQB 3.1.5.8.7/5", "MS-MQQB 3.1.5.8.7/4")
def test_the_first_recoverable_message_makes_it_sooner(end: End) -> None:
    end.receive(*express(1))
    end.wait(1_000)
    end.receive(*recoverable(2))
    end.wait(300)
    end.receive(*recoverable(3))
    end.wait(199)
    assert not end.sent()
    end.wait(1)
    assert end.acks() == [SessionHeader(3, 1, 0b11, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.5.4.1/1", "MS-MQQB 3.1.2.5/2")
def test_the_delays_are_those_of_the_peer() -> None:
    end = End()
    end.machine.create("orders")
    end.open(ack_timeout=100_000, recoverable=9_000)
    end.receive(*recoverable(1))
    end.wait(8_999)
    assert not end.sent()
    end.wait(1)
    assert len(end.acks()) == 1
    end.receive(*express(2))
    end.wait(49_999)
    assert not end.sent()
    end.wait(1)
    assert len(end.acks()) == 1


@pytest.mark.spec("MS-MQQB 3.1.6.4/1", "MS-MQQB 3.1.6.4/3")
def test_without_new_messages_the_timer_sends_nothing_and_runs_on(end: End) -> None:
    end.receive(*express(1))
    end.wait(10_000)
    assert len(end.acks()) == 1
    end.wait(5_000)
    end.receive(*express(2))
    end.wait(4_999)
    assert not end.sent()
    end.wait(1)
    assert end.acks() == [SessionHeader(2, 0, 0, 0, 0, 64)], "it was restarted at 10 s, not at 15"
    end.wait(60_000)
    assert not end.sent()


def test_a_sender_that_pauses_hears_soon_what_is_safe() -> None:
    end = End(settings=replace(SETTINGS, ack_quiet_ms=10))
    end.machine.create("orders")
    end.open()
    end.receive(*express(1))
    end.wait(9)
    end.receive(*recoverable(2))
    end.wait(9)
    assert not end.sent()
    end.wait(1)
    assert end.acks() == [SessionHeader(2, 1, 0b1, 0, 0, 64)]
    end.wait(60_000)
    assert not end.sent()


def test_a_pause_acknowledges_nothing_that_is_not_safe() -> None:
    end = End(settings=BinarySettings(ack_quiet_ms=10))
    end.machine.create("orders")
    end.open()
    end.session.receive(recoverable(1)[0])
    end.machine.desk.append()
    end.machine.driver.release()
    end.machine.clock.advance(200_000)
    end.session.tick()
    assert not end.sent()


@pytest.mark.spec("MS-MQQB 3.1.6.4/2", "MS-MQQB 3.1.1.6.1/3")
def test_what_was_acknowledged_is_not_acknowledged_again(end: End) -> None:
    end.receive(*recoverable(1, 2))
    end.wait(500)
    assert end.acks() == [SessionHeader(2, 1, 0b11, 0, 0, 64)]
    end.receive(*express(3))
    end.wait(10_000)
    assert end.acks() == [SessionHeader(3, 0, 0, 0, 0, 64)]
    end.receive(*recoverable(4))
    end.wait(500)
    assert end.acks() == [SessionHeader(4, 3, 0b1, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/6")
def test_what_becomes_safe_behind_an_ack_has_a_timer_still(end: End) -> None:
    end.session.receive(b"".join(recoverable(*range(1, 33))))
    end.machine.desk.append()
    end.machine.driver.sync()
    end.session.receive(b"".join(recoverable(33)))
    end.machine.driver.release()
    assert [header[:2] for header in end.acks()] == [(32, 1)]
    end.settle()
    assert not end.sent()
    end.wait(500)
    assert end.acks() == [SessionHeader(33, 33, 0b1, 0, 0, 64)]


def test_who_leaves_acknowledges_what_is_safe_first(end: End) -> None:
    end.receive(*recoverable(1, 2))
    end.session.receive(b"".join(recoverable(3)))
    end.session.leave("stopping")
    assert end.line.closed
    assert end.acks() == [SessionHeader(2, 1, 0b11, 0, 0, 64)]
    end.session.leave("again")
    assert end.host.told == ["opened", "closed"]


def test_who_leaves_with_nothing_to_say_says_nothing(end: End) -> None:
    end.session.leave("stopping")
    assert not end.sent()
    assert end.host.reason == "stopping"
    early = End().start()
    early.session.leave("stopping")
    assert not early.sent()
    assert early.session.state is CLOSED


# -- every message counts


@pytest.mark.spec(
    "MS-MQQB 3.1.1.3.1/6",
    "MS-MQQB 3.1.5.5.5/2",
    "MS-MQQB 3.1.5.8.1/4",
    "MS-MQQB 3.1.1.3.1/4",
    "MS-MQQB 3.1.5.8.2/2",
)
def test_duplicates_and_refused_messages_count_and_are_acknowledged(end: End) -> None:
    nowhere = user_message(9, "nowhere")
    end.receive(*recoverable(1, 1), nowhere, *express(1), ack(sent=4, recoverable_sent=3))
    assert end.session.is_open
    assert end.machine.bodies("orders") == [b"1", b"1"]  # the express one is another message
    end.wait(500)
    assert end.acks() == [SessionHeader(4, 1, 0b111, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.5.5.5/1", "MS-MQQB 3.1.5.5.5/2")
@pytest.mark.parametrize("counts", [(2, 3), (4, 3), (3, 2), (3, 4), (0, 0)])
def test_other_counts_close(end: End, counts: tuple[int, int]) -> None:
    end.receive(*recoverable(1, 2, 3), ack(sent=3, recoverable_sent=3))
    assert end.session.is_open
    end.receive(ack(sent=counts[0], recoverable_sent=counts[1]))
    assert end.session.state is CLOSED
    assert end.host.refusals == [breaches.MISCOUNTED]


@pytest.mark.spec("MS-MQQB 3.1.1.4/4", "MS-MQQB 3.1.1.3.1/1")
def test_two_sessions_with_the_same_peer_count_apart() -> None:
    machine = Machine()
    machine.create("orders")
    first, second = End(machine).open(), End(machine).open()
    first.receive(*recoverable(1, 2))
    second.receive(*recoverable(2, 3))
    assert first.session.remote_guid == second.session.remote_guid
    assert sorted(machine.bodies("orders")) == [b"1", b"2", b"3"]
    for end in (first, second):
        end.receive(ack(sent=2, recoverable_sent=2))
        end.wait(500)
        assert end.acks() == [SessionHeader(2, 1, 0b11, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.5.1/1", "MS-MQQB 3.1.1.3.1/4")
def test_counts_go_on_behind_the_end_of_the_numbers(end: End) -> None:
    received = end.session.received
    received.total = received.safe = received.told = 65_530
    received.recoverable = received.recoverable_safe = received.recoverable_told = 65_530
    end.receive(*recoverable(*range(1, 11)), ack(sent=4, recoverable_sent=4))
    assert end.session.is_open
    end.wait(500)
    assert end.acks() == [SessionHeader(4, 65_531, 0b1111111111, 0, 0, 64)]


@pytest.mark.spec("MS-MQQB 3.1.5.8.2/6")
def test_receiving_keeps_a_session_open(end: End) -> None:
    end.wait(299_999)
    end.receive(*express(1))
    end.wait(1)
    assert end.session.is_open
    end.wait(300_000)
    assert end.session.state is CLOSED


# -- SessionHeaders inside user messages


def with_header(packet: bytes, header: SessionHeader, *, inside: bool) -> bytes:
    """A piggy-backed SessionHeader; the documents disagree on whether PacketSize counts it."""
    whole = bytearray(packet + SESSION_HEADER.pack(header))
    whole[2] |= 0x10
    if inside:
        whole[8:12] = len(whole).to_bytes(4, "little")
    return bytes(whole)


@pytest.mark.spec("MS-MQQB 3.1.5.8.4/1", "MS-MQQB 2.2.6/3", "MS-MQQB 3.1.5.5/2")
@pytest.mark.parametrize("inside", [True, False])
def test_a_header_inside_a_message_counts_as_a_session_ack(end: End, inside: bool) -> None:
    header = SessionHeader(0, 0, 0, 2, 2, 7)
    end.receive(
        user_message(1),
        with_header(user_message(2, body=b"2222"), header, inside=inside),
        user_message(3),
    )
    assert end.session.is_open
    assert end.session.terms.peer_window == 7
    assert end.machine.bodies("orders") == [b"1", b"2222", b"3"]
    stored = [end.machine.store.read(n) for n in sorted(end.machine.store.disk.packets)]
    assert not any(packet[2] & 0x10 for packet in stored), "it belongs to the hop"
    wrong = SessionHeader(0, 0, 0, 99, 3, 7)
    end.receive(with_header(user_message(4), wrong, inside=inside))
    assert end.session.state is CLOSED


# -- order acknowledgments, and what the engine refuses


@pytest.mark.spec("MS-MQQB 3.1.5.8.6/1", "MS-MQQB 3.1.2.7/1")
def test_transactional_messages_are_told_when_they_are_safe(end: End) -> None:
    queue = end.machine.create("ledger", transactional=True)
    packet = user_message(
        1,
        "ledger",
        transactional_message_sequence_identifier=TxSequenceId(5, 1),
        transaction_sequence_number=1,
    )
    end.session.receive(packet)
    end.machine.desk.append()
    end.machine.driver.release()
    assert end.host.touched == []
    end.settle()
    assert end.host.touched == [(queue.number, packet[16:32])]


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/3")
def test_what_the_machine_has_no_room_for_closes_and_only_the_rest_is_acknowledged() -> None:
    machine = Machine(machine_quota_kib=4)
    machine.create("orders")
    end = End(machine).open()
    end.receive(*[user_message(number, body=bytes(1_500)) for number in (1, 2, 3, 4)])
    assert end.session.state is CLOSED
    assert end.host.refusals == [breaches.NOT_TAKEN]
    assert end.acks() == [SessionHeader(2, 1, 0b11, 0, 0, 64)]
    assert len(machine.bodies("orders")) == 2


# -- back-pressure


def test_reading_stops_while_too_much_waits_for_the_disk() -> None:
    end = End(settings=replace(SETTINGS, receive_ahead=10_000))
    end.machine.create("orders")
    end.open()
    for number in (1, 3):  # and again, when it was relieved
        end.session.receive(user_message(number, body=bytes(6_000)))
        assert end.line.reading
        end.session.receive(user_message(number + 1, body=bytes(6_000)))
        assert not end.line.reading
        assert end.session.unsynced_bytes > 12_000
        end.settle()
        assert end.line.reading
        assert end.session.unsynced_bytes == 0
    assert end.line.relieved_of == 4


def test_acknowledgments_wait_for_a_line_that_is_full(end: End) -> None:
    end.line.writable = False
    end.receive(*recoverable(*range(1, 41)))
    end.wait(30_000)
    assert not end.sent()
    end.line.writable = True
    end.session.pump()
    assert [header[0] for header in end.acks()] == [40, 40]
    end.session.pump()
    assert not end.sent()


def test_a_peer_that_ignores_the_window_beyond_all_numbers_is_closed(end: End) -> None:
    end.session.received.total = 65_535
    end.receive(*express(1))
    assert end.session.state is CLOSED
    assert end.host.refusals == [breaches.WINDOW_OVERRUN]


def test_a_session_shows_what_it_holds(end: End) -> None:
    packet = user_message(1, body=bytes(500))
    end.session.receive(packet + packet[:100])
    assert end.session.held_bytes == 100
    assert end.session.unsynced_bytes == len(packet)
    assert (end.session.packets_in, end.session.messages_in) == (3, 1)


def test_a_host_hears_of_deadlines_that_come_nearer() -> None:
    end = End(role=Role.ACCEPTOR)
    end.machine.create("orders")
    end.open()
    before = end.host.rearmed
    end.receive(*express(1))
    assert end.host.rearmed == before + 1
    end.receive(*recoverable(2))
    assert end.host.rearmed == before + 2
    end.receive(*recoverable(3))
    assert end.host.rearmed == before + 2
