"""The token bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.protocols.pgm.source import TokenBucket


@pytest.mark.spec("MC-MQSRM 2.1.3.1/8")
def test_it_holds_forty_milliseconds_of_its_rate() -> None:
    bucket = TokenBucket(70_000, 40, 1_400, 0)
    assert bucket.take(2_800, 0)
    assert not bucket.take(1, 0)
    assert bucket.ready_ms(70, 0) == 1
    assert bucket.take(70, 1)
    assert not bucket.take(2_801, 10_000)
    assert bucket.take(2_800, 10_000)


def test_one_packet_always_fits() -> None:
    bucket = TokenBucket(1_000, 40, 1_400, 0)
    assert bucket.take(1_400, 0)
    assert bucket.ready_ms(1_400, 0) == 1_400
    assert not bucket.take(1_400, 1_399)
    assert bucket.take(1_400, 1_400)


def test_a_clock_that_stands_or_steps_back_gives_nothing() -> None:
    bucket = TokenBucket(70_000, 40, 1_400, 1_000)
    assert bucket.take(2_800, 1_000)
    assert not bucket.take(1, 500)
    assert bucket.ready_ms(70, 1_000) == 1_001


@given(
    st.integers(1_000, 10_000_000),
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 1_400)), max_size=60),
)
def test_no_interval_gets_more_than_the_bucket_and_its_share(
    rate: int, steps: list[tuple[int, int]]
) -> None:
    bucket, now_ms = TokenBucket(rate, 40, 1_400, 0), 0
    size = max(rate * 40 // 1000, 1_400)
    taken: list[tuple[int, int]] = []
    for wait_ms, wanted in steps:
        now_ms += wait_ms
        if bucket.take(wanted, now_ms):
            taken.append((now_ms, wanted))
        else:
            ready = bucket.ready_ms(wanted, now_ms)
            assert ready > now_ms
    for at, (begin, _) in enumerate(taken):
        total = 0
        for end, wanted in taken[at:]:
            total += wanted
            assert total <= size + (end - begin) * rate / 1000 + 1
