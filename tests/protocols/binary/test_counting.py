"""Counts of a session: windows, acknowledgments, and what becomes of them beyond 65,535."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.transfer.protocol_interface import Outbound
from posthouse.protocols.binary.ack_window import (
    InFlight,
    ReceivedCounts,
    SentCounts,
    TooManyAcknowledged,
)
from posthouse.wire.packet.headers import SessionHeader

QUEUE, OTHER = "queue", "other"


def outbound(number: int, recoverable: bool = True) -> Outbound:
    return Outbound(number, b"packet", recoverable, False)


def messages(*numbers: int, recoverable: bool = True) -> list[Outbound]:
    return [outbound(number, recoverable) for number in numbers]


def sent(*numbers: int, recoverable: bool = True) -> SentCounts[str]:
    counts: SentCounts[str] = SentCounts()
    counts.note(QUEUE, messages(*numbers, recoverable=recoverable))
    return counts


def header(upto: int = 0, base: int = 0, flags: int = 0) -> SessionHeader:
    return SessionHeader(upto & 0xFFFF, base & 0xFFFF, flags)


# -- what was sent


@pytest.mark.spec(
    "MS-MQQB 3.1.1.4/1",
    "MS-MQQB 3.1.1.4/3",
    "MS-MQQB 3.1.1.3.1/5",
    "MS-MQQB 3.1.7.1.3/6",
)
def test_numbers_begin_at_one_and_count_every_message() -> None:
    counts = sent(101, 102, 103, recoverable=False)
    assert counts.total == 3
    assert counts.acknowledge(header(1)) == {QUEUE: [101]}
    assert counts.acknowledge(header(3)) == {QUEUE: [102, 103]}


@pytest.mark.spec(
    "MS-MQQB 3.1.1.4/2",
    "MS-MQQB 3.1.5.5.3/1",
    "MS-MQQB 3.1.5.5.3/2",
    "MS-MQQB 3.1.1.3.1.2/1",
    "MS-MQQB 3.1.7.1.3/7",
)
def test_recoverable_messages_have_numbers_of_their_own() -> None:
    counts: SentCounts[str] = SentCounts()
    counts.note(QUEUE, [outbound(1, False), outbound(2), outbound(3, False), outbound(4)])
    assert (counts.total, counts.recoverable) == (4, 2)
    assert counts.acknowledge(header(4, 1, 0b01)) == {QUEUE: [1, 3, 2]}
    assert counts.acknowledge(header(4, 2, 0b01)) == {QUEUE: [4]}


@pytest.mark.spec("MS-MQQB 3.1.5.5.2/1", "MS-MQQB 3.1.5.5.1/1", "MS-MQQB 3.1.1.6.1/1")
def test_a_count_takes_out_express_messages_up_to_it_and_no_recoverable_one() -> None:
    counts: SentCounts[str] = SentCounts()
    counts.note(QUEUE, [outbound(1, False), outbound(2), outbound(3, False)])
    assert counts.acknowledge(header(2)) == {QUEUE: [1]}
    assert counts.in_flight == 2
    assert counts.acknowledge(header(3)) == {QUEUE: [3]}
    assert counts.in_flight == 1


@pytest.mark.spec("MS-MQQB 3.1.5.5.3/2", "MS-MQMQ 2.2.20.4/2")
def test_flags_name_exactly_the_messages_that_are_stored() -> None:
    counts = sent(11, 12, 13, 14, 15)
    assert counts.acknowledge(header(5, 2, 0b1101)) == {QUEUE: [12, 14, 15]}
    assert counts.acknowledge(header(5, 1, 0b1)) == {QUEUE: [11]}
    assert counts.acknowledge(header(5, 3)) == {QUEUE: [13]}, "the base names itself"
    assert not counts.in_flight


@pytest.mark.spec("MS-MQQB 3.1.1.6.1/3")
def test_a_base_of_zero_names_nothing_whatever_the_flags_say() -> None:
    counts = sent(11, 12)
    assert counts.acknowledge(header(2, 0, 0xFFFFFFFF)) == {}
    assert counts.in_flight == 2


@pytest.mark.spec(
    "MS-MQQB 3.1.1.3.1/18",
    "MS-MQQB 3.1.5.5.1/2",
    "MS-MQQB 3.1.3.2/8",
    "MS-MQQB 3.1.7.1.3/6",
)
def test_the_window_counts_what_was_sent_and_not_acknowledged() -> None:
    counts: SentCounts[str] = SentCounts()
    assert counts.unacknowledged == 0
    assert counts.room(64) == 64
    counts.note(QUEUE, messages(*range(1, 41)))
    assert (counts.unacknowledged, counts.room(64), counts.room(30)) == (40, 24, -10)
    counts.acknowledge(header(32))
    assert (counts.unacknowledged, counts.room(64)) == (8, 56)


@pytest.mark.spec("MS-MQQB 3.1.5.5/4")
@pytest.mark.parametrize(
    "beyond",
    [header(4), header(3, 4, 1), header(3, 2, 0b100), header(0xFFFF), header(0, 0xFFFF, 1)],
)
def test_what_was_not_sent_cannot_be_acknowledged_and_takes_nothing(beyond: SessionHeader) -> None:
    counts = sent(1, 2, 3)
    with pytest.raises(TooManyAcknowledged):
        counts.acknowledge(beyond)
    assert (counts.in_flight, counts.unacknowledged) == (3, 3)


def test_the_same_acknowledgment_again_takes_nothing() -> None:
    counts = sent(1, 2, 3)
    counts.acknowledge(header(3, 1, 0b111))
    assert counts.acknowledge(header(3, 1, 0b111)) == {}


def test_acknowledgments_are_told_by_owner() -> None:
    counts = sent(1, 2)
    counts.note(OTHER, messages(7, recoverable=False))
    counts.note(QUEUE, messages(3))
    assert counts.acknowledge(header(4, 1, 0b111)) == {OTHER: [7], QUEUE: [1, 2, 3]}


def test_recoverable_messages_that_are_never_stored_end_the_sending() -> None:
    counts: SentCounts[str] = SentCounts()
    number = 0
    while (room := counts.room(1000)) > 0:
        counts.note(QUEUE, messages(*range(number, number + room)))
        number += room
        counts.acknowledge(header(counts.total))
    assert 0x7000 < counts.recoverable <= 0x8000, "their numbers must stay unambiguous"
    assert counts.unacknowledged == 0
    counts.acknowledge(header(counts.total, 1, 0b1))
    assert counts.room(1000) <= 0, "the run that is not done still counts"


@pytest.mark.spec("MS-MQQB 3.1.1.3.1/4")
@pytest.mark.parametrize("recoverable", [False, True])
def test_seventy_thousand_messages_pass_the_end_of_the_numbers(recoverable: bool) -> None:
    counts: SentCounts[str] = SentCounts()
    received = ReceivedCounts()
    numbers = iter(range(1, 70_001))
    acknowledged: list[int] = []
    while counts.total < 70_000:
        batch = messages(*[next(numbers) for _ in range(50)], recoverable=recoverable)
        counts.note(QUEUE, batch)
        received.total = received.safe = received.safe + 50
        received.recoverable += 50 * recoverable
        received.recoverable_safe = received.recoverable
        for told in received.acknowledgments(0, 0, 64):
            assert max(told) <= 0xFFFFFFFF
            acknowledged += counts.acknowledge(told).get(QUEUE, [])
    assert acknowledged == list(range(1, 70_001))
    assert counts.in_flight == counts.unacknowledged == 0
    final = SessionHeader(0, 0, 0, counts.total & 0xFFFF, counts.recoverable & 0xFFFF, 64)
    assert received.matches(final)
    assert counts.total & 0xFFFF == 70_000 - 65_536


@pytest.mark.spec("MS-MQQB 3.1.5.5/4", "MS-MQQB 3.1.1.3.1/4")
def test_beyond_the_end_of_the_numbers_too_much_is_still_too_much() -> None:
    counts: SentCounts[str] = SentCounts()
    for at in range(0, 100_000, 1000):
        counts.note(QUEUE, messages(*range(at, at + 1000)))
        for base in range(at + 1, at + 1001, 32):
            bits = min(32, at + 1001 - base)
            if base & 0xFFFF:
                counts.acknowledge(header(at + 1000, base, (1 << bits) - 1))
            else:
                counts.acknowledge(header(at + 1000, base - 1, (2 << bits) - 1))
    counts.note(QUEUE, messages(1, 2, 3))
    for beyond in (header(100_004), header(100_003, 100_004), header(99_999)):
        with pytest.raises(TooManyAcknowledged):
            counts.acknowledge(beyond)
    assert counts.in_flight == 3


# -- what was received


@pytest.mark.spec("MS-MQQB 3.1.3.2/1")
def test_a_new_session_starts_at_zero() -> None:
    received, counts = ReceivedCounts(), sent()
    assert (received.total, received.recoverable, counts.total, counts.recoverable) == (0, 0, 0, 0)
    assert (received.unacknowledged, received.recoverable_unacknowledged) == (0, 0)
    assert received.recoverable_told == 0
    assert received.matches(SessionHeader())


def received_counts(safe: int, recoverable_safe: int, told: int = 0) -> ReceivedCounts:
    counts = ReceivedCounts()
    counts.total = counts.safe = safe
    counts.recoverable = counts.recoverable_safe = recoverable_safe
    counts.recoverable_told = told
    return counts


@pytest.mark.spec("MS-MQQB 3.1.1.6.1/2", "MS-MQQB 3.1.5.8.7/6", "MS-MQQB 3.1.5.8.7/7")
def test_an_acknowledgment_names_the_lowest_new_number_and_a_bit_for_each_stored() -> None:
    counts = received_counts(9, 8, told=5)
    (told,) = counts.acknowledgments(70_000, 65_540, 64)
    assert told == SessionHeader(9, 6, 0b111, 70_000 & 0xFFFF, 65_540 & 0xFFFF, 64)


@pytest.mark.spec("MS-MQQB 3.1.1.6.1/3")
def test_without_new_stored_messages_number_and_flags_are_zero() -> None:
    (told,) = received_counts(5, 3, told=3).acknowledgments(0, 0, 64)
    assert told == SessionHeader(5, 0, 0, 0, 0, 64)


@pytest.mark.spec("MS-MQQB 3.1.6.4/2", "MS-MQQB 3.1.5.8.7/2")
def test_what_was_told_is_not_told_again() -> None:
    counts = received_counts(40, 40)
    first, second = counts.acknowledgments(0, 0, 64)
    assert (first.recoverable_ack_sequence_number, first.recoverable_ack_flags) == (1, 0xFFFFFFFF)
    assert (second.recoverable_ack_sequence_number, second.recoverable_ack_flags) == (33, 0xFF)
    assert counts.unacknowledged == counts.recoverable_unacknowledged == 0
    assert counts.recoverable_told == 40


@pytest.mark.spec("MS-MQQB 3.1.5.8.7/3")
def test_what_is_not_safe_is_not_told() -> None:
    counts = ReceivedCounts()
    counts.total = counts.recoverable = 10
    counts.safe = counts.recoverable_safe = 4
    (told,) = counts.acknowledgments(0, 0, 64)
    assert told[:3] == (4, 1, 0b1111)


def test_the_number_that_means_none_is_named_by_the_one_before_it() -> None:
    counts = received_counts(65_538, 65_538, told=65_535)
    (told,) = counts.acknowledgments(0, 0, 64)
    assert told[1:3] == (0xFFFF, 0b1111)
    many = received_counts(65_567, 65_567, told=65_535)
    first, second = many.acknowledgments(0, 0, 64)
    assert first[1:3] == (0xFFFF, 0xFFFFFFFF)
    assert second[1:3] == (31, 1)


@pytest.mark.spec("MS-MQQB 3.1.5.5.5/1")
def test_counts_of_the_peer_have_to_be_ours() -> None:
    counts = received_counts(65_537, 65_536)
    assert counts.matches(SessionHeader(user_sequence_number=1, recoverable_sequence_number=0))
    assert not counts.matches(SessionHeader(user_sequence_number=2))
    assert not counts.matches(SessionHeader(user_sequence_number=1, recoverable_sequence_number=1))


# -- any course of events


@given(st.data())
def test_every_message_is_taken_out_of_flight_once(data: st.DataObject) -> None:
    """Sender and receiver side by side, acknowledging whatever is safe whenever they like."""
    counts: SentCounts[str] = SentCounts()
    received = ReceivedCounts()
    kinds: list[bool] = []
    taken: list[int] = []
    for _ in range(data.draw(st.integers(1, 12))):
        batch = data.draw(st.lists(st.booleans(), max_size=40))
        counts.note(QUEUE, [outbound(len(kinds) + at, kind) for at, kind in enumerate(batch)])
        kinds += batch
        received.total += len(batch)
        received.recoverable += sum(batch)
        safe = data.draw(st.integers(received.safe, received.total))
        received.recoverable_safe += sum(kinds[received.safe : safe])
        received.safe = safe
        if data.draw(st.booleans()):
            for told in received.acknowledgments(0, 0, 64):
                taken += counts.acknowledge(told).get(QUEUE, [])
            assert sorted(taken) == list(range(safe))
    assert len(set(taken)) == len(taken)
    assert counts.in_flight == len(kinds) - len(taken)


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), max_size=12),
)
def test_messages_in_flight_are_as_a_plain_dictionary_has_them(
    runs: list[int], takes: list[tuple[int, int]]
) -> None:
    flight: InFlight[int] = InFlight()
    plain: dict[int, int] = {}
    place = 1
    for owner, length in enumerate(runs):
        places = range(place, place + 2 * length, 2)
        flight.add(owner, places, [10 * at for at in places])
        plain |= dict.fromkeys(places, owner)
        place += 2 * length
    for first, last in takes:
        taken: dict[int, list[int]] = {}
        flight.take(first, last, taken)
        expected: dict[int, list[int]] = {}
        for at in [at for at in plain if first <= at <= last]:
            expected.setdefault(plain.pop(at), []).append(10 * at)
        assert taken == expected
        assert flight.count == len(plain)
        assert flight.oldest <= min(plain, default=0)
