"""Order Ack Send Timers: one acknowledgment for many messages, but not too late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.binary.order_acks import OrderAckTimers
from posthouse.protocols.binary.settings import BinarySettings

SETTINGS = BinarySettings()
ORDERS = (7, b"source".ljust(16))
BILLS = (8, b"source".ljust(16))
SESSION, ANOTHER = "session", "another"


def timers() -> OrderAckTimers:
    return OrderAckTimers(SETTINGS)


@pytest.mark.spec("MS-MQQB 3.1.3.2/12")
def test_the_last_acknowledgment_counts_as_sent_when_the_timer_is_made() -> None:
    """However long the machine has been up: the first one is put off as any other."""
    acks, up_ms = timers(), 1_000_000
    acks.touched(SESSION, [ORDERS], up_ms)
    acks.touched(SESSION, [ORDERS], up_ms + 400)
    assert acks.due(up_ms + 899) == []
    assert acks.due(up_ms + 900) == [ORDERS]


@pytest.mark.spec("MS-MQQB 3.1.2.7/1", "MS-MQQB 3.1.3.2/12")
def test_an_order_ack_is_due_half_a_second_behind_a_message() -> None:
    acks = timers()
    assert acks.next_deadline_ms() is None
    acks.touched(SESSION, [ORDERS], 1000)
    assert acks.next_deadline_ms() == 1500
    assert acks.due(1499) == []
    assert acks.due(1500) == [ORDERS]
    assert acks.due(9000) == []
    assert acks.next_deadline_ms() is None


@pytest.mark.spec("MS-MQQB 3.1.2.7/2", "MS-MQQB 3.1.3.2/13")
def test_further_messages_put_it_off_for_ten_seconds_at_most() -> None:
    acks = timers()
    now = 1000
    while not (due := acks.due(now)):
        acks.touched(SESSION, [ORDERS], now)
        now += 400
    assert due == [ORDERS]
    # Up to 10 s behind the last acknowledgment each message restarts the timer; none later.
    assert 1000 + 10_000 <= now <= 1000 + 10_000 + 500 + 400


@pytest.mark.spec("MS-MQQB 3.1.6.9/2", "MS-MQQB 3.1.2.7/2")
def test_the_ten_seconds_begin_with_the_last_acknowledgment() -> None:
    acks = timers()
    acks.touched(SESSION, [ORDERS], 0)
    assert acks.due(500) == [ORDERS]
    acks.touched(SESSION, [ORDERS], 10_400)
    acks.touched(SESSION, [ORDERS], 10_499)
    acks.touched(SESSION, [ORDERS], 10_600)
    assert acks.due(10_998) == []
    assert acks.due(10_999) == [ORDERS]
    acks.touched(SESSION, [ORDERS], 30_000)
    acks.touched(SESSION, [ORDERS], 30_400)
    assert acks.due(30_500) == [ORDERS], "long after the last one the timer is not put off"


@pytest.mark.spec("MS-MQQB 3.1.6.9/1")
def test_nothing_is_due_for_a_closed_session() -> None:
    acks = timers()
    acks.touched(SESSION, [ORDERS], 0)
    acks.touched(ANOTHER, [BILLS], 0)
    acks.forget(SESSION)
    assert acks.due(500) == [BILLS]
    acks.forget(ANOTHER)
    assert len(acks) == 0


def test_a_timer_belongs_to_the_session_of_the_last_message() -> None:
    acks = timers()
    acks.touched(SESSION, [ORDERS], 0)
    acks.touched(ANOTHER, [ORDERS], 100)
    acks.forget(SESSION)
    assert acks.due(600) == [ORDERS]


def test_each_sequence_has_a_timer_of_its_own() -> None:
    acks = timers()
    acks.touched(SESSION, [ORDERS], 0)
    acks.touched(SESSION, [BILLS], 300)
    assert acks.due(500) == [ORDERS]
    assert acks.next_deadline_ms() == 800
    assert acks.due(800) == [BILLS]


@given(st.lists(st.tuples(st.integers(0, 800), st.booleans()), max_size=60))
def test_every_message_is_acknowledged_in_time(steps: list[tuple[int, bool]]) -> None:
    acks, now, waiting = timers(), 0, None
    for pause, touched in steps:
        now += pause
        if acks.due(now):
            assert waiting is not None
            waiting = None
        if touched:
            acks.touched(SESSION, [ORDERS], now)
            waiting = now if waiting is None else waiting
        if waiting is not None:
            deadline = acks.next_deadline_ms()
            assert deadline is not None
            assert deadline <= waiting + 10_000 + 500 + 800
    if waiting is not None:
        assert acks.due(now + 500) == [ORDERS]
