"""Things tried again after longer and longer pauses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger.retries import Retries


def test_pauses_double_up_to_the_longest() -> None:
    retries: Retries[str] = Retries(1000, 6000)
    retries.begin("a", 50)
    times, now = [], 0
    for _ in range(6):
        now = retries.next_ms() or 0
        assert retries.due(now - 1, 9) == []
        assert retries.due(now, 9) == ["a"]
        times.append(now)
    assert times == [50, 1050, 3050, 7050, 13050, 19050]


def test_what_is_dropped_is_not_tried_and_what_begins_anew_waits_shortly_again() -> None:
    retries: Retries[str] = Retries(1000, 60_000)
    retries.begin("a", 0)
    retries.begin("b", 10)
    assert retries.due(10, 9) == ["a", "b"]
    retries.drop("a")
    retries.drop("never there")
    assert "a" not in retries
    assert list(retries) == ["b"]
    retries.begin("b", 20)
    assert retries.due(20, 9) == ["b"]
    assert retries.next_ms() == 1020
    retries.drop("b")
    assert retries.next_ms() is None
    assert len(retries) == 0


def test_of_very_many_some_are_left_for_later() -> None:
    retries: Retries[int] = Retries(1000, 1000)
    for key in range(10):
        retries.begin(key, 0)
    assert retries.due(0, 4) == [0, 1, 2, 3]
    assert retries.next_ms() == 0
    assert retries.due(0, 100) == [4, 5, 6, 7, 8, 9]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3000), st.booleans()), max_size=30))
def test_the_next_time_is_that_of_the_earliest_key(steps: list[tuple[int, int, bool]]) -> None:
    retries: Retries[int] = Retries(100, 800)
    times: dict[int, int] = {}
    for key, at_ms, drop in steps:
        if drop:
            retries.drop(key)
            times.pop(key, None)
        else:
            retries.begin(key, at_ms)
            times[key] = at_ms
        assert retries.next_ms() == min(times.values(), default=None)
        assert set(retries) == times.keys()
    assert set(retries.due(10_000, 100)) == times.keys()
