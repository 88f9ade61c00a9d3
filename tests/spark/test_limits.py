"""How queues share what one micro-batch may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
)

from posthouse.spark.limits import Limits, default_limit, limits_of, shares
from posthouse.spark.options import source_options

SIZES = st.dictionaries(st.text(max_size=3), st.integers(0, 1000), max_size=6)


@given(st.integers(1, 2000), SIZES, st.integers(0, 10))
def test_shares_use_the_limit_up_and_never_exceed_it(
    limit: int, sizes: dict[str, int], turn: int
) -> None:
    given_out = shares(limit, sizes, turn)
    assert all(0 < part <= sizes[name] for name, part in given_out.items())
    assert sum(given_out.values()) == min(limit, sum(sizes.values()))
    waiting = [name for name, size in sizes.items() if size]
    assert len(given_out) == min(limit, len(waiting))


def test_everybody_has_a_turn() -> None:
    sizes = {"a": 5, "b": 5, "c": 5}
    assert [set(shares(1, sizes, turn)) for turn in range(3)] == [{"a"}, {"b"}, {"c"}]


def test_shares_follow_sizes() -> None:
    assert shares(100, {"large": 9000, "small": 1000}, 0) == {"large": 90, "small": 10}


@pytest.mark.parametrize(
    ("options", "limit", "limits"),
    [
        ({}, ReadAllAvailable(), Limits()),
        ({"maxmessagespertrigger": "5"}, ReadMaxRows(5), Limits(5)),
        ({"maxbytespertrigger": "7"}, ReadMaxBytes(7), Limits(None, 7)),
        ({"maxoffsetspertrigger": "5", "maxbytespertrigger": "7"}, ReadMaxRows(5), Limits(5, 7)),
    ],
)
def test_options_become_limits(options: dict[str, str], limit: ReadLimit, limits: Limits) -> None:
    read = source_options({"queue": "q", **options})
    assert default_limit(read) == limit
    assert limits_of(limit, read) == limits
    assert limits_of(ReadAllAvailable(), read) == Limits()
