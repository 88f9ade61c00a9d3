"""One heap for all timers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.timers import BROKEN_PAUSE_MS, Timers


class Owner:
    """Wants ticks at certain times."""

    def __init__(self, timers: Timers, *times: int) -> None:
        self.timers = timers
        self.times = sorted(times)
        self.now = 0
        self.ticked: list[int] = []

    def next_deadline_ms(self) -> int | None:
        return self.times[0] if self.times else None

    def tick(self) -> None:
        self.ticked.append(self.now)
        self.times = [at for at in self.times if at > self.now]


def run(timers: Timers, owners: list[Owner], now_ms: int) -> None:
    for owner in owners:
        owner.now = now_ms
    timers.run(now_ms)


def test_an_owner_is_told_at_its_time_and_armed_anew() -> None:
    woken: list[int] = []
    timers = Timers(woken.append)
    owner = Owner(timers, 10, 30)
    timers.arm(owner)
    run(timers, [owner], 9)
    assert owner.ticked == []
    run(timers, [owner], 10)
    assert (owner.ticked, timers.next_deadline_ms()) == ([10], 30)
    run(timers, [owner], 40)
    assert (owner.ticked, timers.next_deadline_ms()) == ([10, 40], None)
    assert woken == [10, 10, 30]


def test_the_clock_is_set_for_earlier_times_only() -> None:
    woken: list[int] = []
    timers = Timers(woken.append)
    for at in (50, 70, 20, 60):
        timers.arm(Owner(timers, at))
    assert woken == [50, 20]


def test_a_deadline_that_moves_to_later_stands_in_the_heap_once() -> None:
    timers = Timers(lambda at: None)
    owner = Owner(timers, 10)
    timers.arm(owner)
    for at in range(11, 1_000):
        owner.times = [at]
        timers.arm(owner)
    assert len(timers._heap) == 1
    run(timers, [owner], 10)
    assert timers.next_deadline_ms() == 999


def test_an_owner_that_is_gone_gets_no_tick() -> None:
    timers = Timers(lambda at: None)
    owner = Owner(timers, 10)
    timers.arm(owner)
    timers.forget(owner)
    timers.forget(owner)
    run(timers, [owner], 20)
    assert owner.ticked == []
    assert timers.next_deadline_ms() is None


class Broken(Owner):
    """Has a mistake."""

    def tick(self) -> None:
        super().tick()
        raise ZeroDivisionError


def test_one_that_breaks_does_not_stop_the_clocks_of_the_others() -> None:
    timers = Timers(lambda at: None)
    broken, other = Broken(timers, 10, 20), Owner(timers, 10, 30)
    timers.arm(broken)
    timers.arm(other)
    with pytest.raises(ZeroDivisionError):
        run(timers, [broken, other], 10)
    assert other.ticked == [10]
    assert timers.next_deadline_ms() == 30, "what has broken is tried after a pause"
    run(timers, [broken, other], 30)
    assert other.ticked == [10, 30]
    with pytest.raises(ZeroDivisionError):
        run(timers, [broken, other], 10 + BROKEN_PAUSE_MS)


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), max_size=6))
def test_nobody_is_ever_told_late(plans: list[list[int]]) -> None:
    timers = Timers(lambda at: None)
    owners = [Owner(timers, *times) for times in plans]
    for owner in owners:
        timers.arm(owner)
    for now_ms in range(51):
        run(timers, owners, now_ms)
        assert all(at > now_ms for owner in owners for at in owner.times)


class Stuck(Owner):
    """Breaks before it has done anything, so that it is due again and again."""

    def tick(self) -> None:
        raise ZeroDivisionError


class Unclear(Owner):
    """Does what is due, and then cannot tell what is due next."""

    def next_deadline_ms(self) -> int | None:
        if self.ticked:
            raise ZeroDivisionError
        return super().next_deadline_ms()


@pytest.mark.parametrize("kind", [Stuck, Unclear])
def test_one_that_stays_due_and_breaks_holds_up_no_others(kind: type[Owner]) -> None:
    """Nor does it keep the processor busy: it would be due at once, for ever."""
    woken: list[int] = []
    timers = Timers(woken.append)
    broken, other = kind(timers, 10), Owner(timers, 11, 30)
    timers.arm(broken)
    timers.arm(other)
    with pytest.raises(ZeroDivisionError):
        run(timers, [broken, other], 20)
    assert other.ticked == [20]
    assert timers.next_deadline_ms() == 30
    run(timers, [broken, other], 40)
    assert other.ticked == [20, 40]
    assert timers.next_deadline_ms() == 20 + BROKEN_PAUSE_MS
    assert min(woken[1:]) > 20
