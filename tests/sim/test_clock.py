"""Two clocks and the timers of one of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.sim import SimClock


def test_both_clocks_go_on_together() -> None:
    clock = SimClock(now_ms=500, utc_seconds=1000)
    clock.advance(1499)
    assert (clock.now_ms, clock.utc_seconds) == (1999, 1001)
    clock.advance(1)
    assert (clock.now_ms, clock.utc_seconds) == (2000, 1001)
    clock.advance(500)
    assert clock.utc_seconds == 1002


@pytest.mark.parametrize("seconds", [-86_400, -1, 0, 3600])
def test_date_is_set_without_moving_the_monotonic_clock(seconds: int) -> None:
    clock = SimClock(now_ms=10, utc_seconds=1_000_000)
    clock.step_utc(seconds)
    assert (clock.now_ms, clock.utc_seconds) == (10, 1_000_000 + seconds)
    clock.advance(1000)
    assert (clock.now_ms, clock.utc_seconds) == (1010, 1_000_001 + seconds)


def test_monotonic_clock_never_goes_back() -> None:
    clock = SimClock(now_ms=10)
    with pytest.raises(AssertionError):
        clock.advance(-1)
    with pytest.raises(AssertionError):
        clock.advance_to(9)


@given(times=st.lists(st.integers(0, 50)), end_ms=st.integers(0, 60))
def test_timers_run_in_order_at_their_own_time(times: list[int], end_ms: int) -> None:
    clock = SimClock()
    ran: list[tuple[int, int]] = []
    for place, when_ms in enumerate(times):
        clock.call_at(when_ms, lambda place=place: ran.append((clock.now_ms, place)))  # type: ignore[misc]
    clock.advance(end_ms)
    due = sorted((when_ms, place) for place, when_ms in enumerate(times) if when_ms <= end_ms)
    assert ran == due
    assert clock.now_ms == end_ms
    assert clock.next_timer_ms() == min((t for t in times if t > end_ms), default=None)


def test_timer_in_the_past_is_due_at_once() -> None:
    clock = SimClock(now_ms=100)
    ran: list[int] = []
    clock.call_at(50, lambda: ran.append(clock.now_ms))
    clock.advance(0)
    assert ran == [100]


def test_cancelled_timer_does_not_run() -> None:
    clock = SimClock()
    ran: list[str] = []
    timer = clock.call_later(5, lambda: ran.append("cancelled"))
    clock.call_later(7, lambda: ran.append("kept"))
    timer.cancel()
    timer.cancel()
    assert clock.next_timer_ms() == 7
    clock.advance(10)
    timer.cancel()
    assert ran == ["kept"]


def test_timer_asked_for_by_a_timer_runs_on_the_same_way() -> None:
    clock = SimClock()
    ran: list[int] = []

    def tick() -> None:
        ran.append(clock.now_ms)
        clock.call_later(10, tick)

    clock.call_later(10, tick)
    clock.advance(35)
    assert ran == [10, 20, 30]
    assert clock.next_timer_ms() == 40


def test_next_timer_is_run_by_itself() -> None:
    clock = SimClock()
    ran: list[int] = []
    clock.call_later(3, lambda: ran.append(clock.now_ms))
    assert clock.run_next()
    assert not clock.run_next()
    assert ran == [3]
