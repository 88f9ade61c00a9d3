"""How large the portions are that tasks read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from posthouse.spark.read_tasks import PORTION_BYTES, portion_bytes


def test_little_is_cut_into_as_many_as_were_asked_for() -> None:
    assert portion_bytes(1000, 4) == 250
    assert portion_bytes(0, 4) == 1


def test_much_is_cut_into_some_times_as_many() -> None:
    assert portion_bytes(5 * PORTION_BYTES, 2) == 5 * PORTION_BYTES // 6 + 1


@given(st.integers(1 << 20, 1 << 40), st.integers(1, 64))
def test_every_core_has_as_many_portions_as_the_others(total: int, least: int) -> None:
    size = portion_bytes(total, least)
    assert size <= PORTION_BYTES
    assert -(-total // size) % least == 0
