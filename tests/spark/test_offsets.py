"""Offsets as Spark keeps them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.spark.offsets import StreamOffset, offset_of

NUMBERS = st.dictionaries(st.text(max_size=8), st.integers(1, 2**62), max_size=4)
URLS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=4)
TEXTS = URLS
FIRST = (st.text(max_size=8), NUMBERS, URLS, NUMBERS, NUMBERS, NUMBERS)
NOTHING = {name: st.just({}) for name in ("incarnations", "created", "managers")}
OFFSETS = st.builds(
    StreamOffset, *FIRST, stream=st.just(""), starts=st.none(), **NOTHING
) | st.builds(StreamOffset, *FIRST, st.text(max_size=8), NUMBERS, TEXTS, TEXTS, TEXTS)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
)


@given(OFFSETS)
def test_an_offset_comes_back_as_it_was(offset: StreamOffset) -> None:
    assert offset_of(json.loads(json.dumps(offset.to_json()))) == offset


@given(OFFSETS)
def test_the_text_of_an_offset_is_always_the_same(offset: StreamOffset) -> None:
    turned = offset._replace(queues=dict(reversed(offset.queues.items())))
    text = json.dumps(offset.to_json())
    assert json.dumps(turned.to_json()) == text
    assert json.dumps(offset_of(json.loads(text)).to_json()) == text


@given(JSON)
def test_any_json_is_an_offset_or_one_error(value: Any) -> None:
    parts = ("queues", "urls", "from", "incarnations", "stream")
    for json_value in (value, *({"v": v, part: value} for v in (1, 2) for part in parts)):
        try:
            offset_of(json_value)
        except InvalidParameter:
            continue


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"v": 3},
        [],
        None,
        {"v": 1, "queues": {"a": "1"}},
        {"v": 1, "queues": {"a": True}},
        {"v": 1, "queues": {"a": -1}},
        {"v": 1, "urls": []},
    ],
)
def test_offsets_of_others_are_refused(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="use a new one"):
        offset_of(value)


def test_nothing_known_is_not_written() -> None:
    offset = StreamOffset("g", {"q": 3}, {"A": "http://a"}, {"q": 0}, {})
    assert offset.to_json() == {"group": "g", "queues": {"q": 3}, "urls": {"A": "http://a"}, "v": 1}
