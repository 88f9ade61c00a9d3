"""The calendar of expiring messages against a plain list of entries."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.engine.ledger import expiry_times
from posthouse.engine.ledger.expiry_times import STALE_MIN, Calendar

ENTRIES = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 1 << 63)), max_size=30)


@given(ENTRIES, st.integers(0, 21), ENTRIES)
def test_due_entries_come_earliest_first_and_once(
    before: list[tuple[int, int]], now: int, after: list[tuple[int, int]]
) -> None:
    kept = Calendar()
    for entry in before:
        kept.add(*entry)
    due = [number for second, number in sorted(before, key=lambda e: e[0]) if second <= now]
    assert kept.take(now) == due
    assert kept.take(now) == []
    rest = [entry for entry in before if entry[0] > now] + after
    for entry in after:
        kept.add(*entry)
    assert kept.earliest == min((second for second, _ in rest), default=inf)
    assert kept.count == len(rest)
    again = Calendar()
    again.load(kept.dump())
    assert (again.count, again.earliest) == (kept.count, kept.earliest)
    expected = [number for _, number in sorted(rest, key=lambda e: e[0])]
    assert again.take(21) == kept.take(21) == expected


def test_entries_nobody_needs_are_thrown_away_in_time() -> None:
    kept, alive = Calendar(), set(range(100))
    for number in range(STALE_MIN + 200):
        kept.add(10 + number % 3, number)
    for _ in range(STALE_MIN):
        kept.left(lambda second, numbers: [n for n in numbers if n in alive])
    assert kept.count == len(alive)
    assert sorted(kept.take(12)) == sorted(alive)


def test_the_last_entry_of_a_second_takes_the_second_along() -> None:
    kept = Calendar()
    kept.add(5, 1)
    kept.add(9, 2)
    for _ in range(STALE_MIN):
        kept.left(lambda second, numbers: numbers if second == 9 else [])
    assert kept.earliest == 9


def test_an_entry_made_twice_is_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry_times, "STALE_MIN", 1)
    kept = Calendar()
    kept.add(5, 1)
    kept.add(5, 1)
    kept.left(lambda second, numbers: numbers)
    assert kept.take(5) == [1]


def test_entries_of_a_wrong_size_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        Calendar().load({1: b"123"})


@given(ENTRIES, st.integers(0, 21), st.integers(1, 7))
def test_due_entries_can_be_taken_some_at_a_time(
    entries: list[tuple[int, int]], now: int, limit: int
) -> None:
    kept, taken = Calendar(), list[int]()
    for entry in entries:
        kept.add(*entry)
    while some := kept.take(now, limit):
        assert len(some) <= limit
        taken += some
        assert kept.count == len(entries) - len(taken)
    assert taken == [n for second, n in sorted(entries, key=lambda e: e[0]) if second <= now]
    assert kept.earliest == min((s for s, _ in entries if s > now), default=inf)
