"""Offsets of streams from any MSMQ: which messages, and how far."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import InvalidParameter
from posthouse.spark.msmq.offsets import Marks, offset_of, queues_of, read_ids, write_ids

IDS = st.integers(1, (8 << 56) - 1) | st.integers(1, 30)


@given(st.sets(IDS))
def test_identifiers_come_back_as_they_were(ids: set[int]) -> None:
    assert read_ids(write_ids(ids)) == sorted(ids)


def test_a_row_without_gaps_is_written_by_its_ends() -> None:
    assert write_ids(range(1, 100_001)) == "1-100000"
    assert write_ids([9, 1, 2, 5]) == "1-2,5,9"
    assert write_ids([]) == ""


@given(st.text())
def test_any_text_is_a_list_of_identifiers_or_refused(text: str) -> None:
    try:
        marks = Marks(text)
    except InvalidParameter:
        return
    assert str(Marks(str(marks))) == str(marks)


@pytest.mark.parametrize("text", ["-", "1-", "-1", "1,,2", "a", "1.5"])
def test_damaged_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="damaged"):
        read_ids(text)


def test_each_highest_byte_has_a_mark_of_its_own() -> None:
    """A message of higher priority comes later and has a smaller identifier, on Windows."""
    low, high = 4 << 56, 1 << 56
    marks = Marks()
    marks.add(low + 7)
    assert low + 7 in marks
    assert low + 8 not in marks
    assert high + 3 not in marks
    marks.add(high + 3)
    assert str(marks) == f"{high + 3},{low + 7}"


@given(st.lists(IDS))
def test_what_was_seen_stays_seen(ids: list[int]) -> None:
    marks = Marks()
    for number in ids:
        marks.add(number)
    again = Marks(str(marks))
    assert all(number in again for number in ids)


def test_offset_has_its_keys_in_order() -> None:
    offset = offset_of("consume", {"b": "1", "a": ""})
    assert json.dumps(offset) == '{"mode": "consume", "queues": {"a": "", "b": "1"}, "v": 1}'
    assert queues_of("consume", json.loads(json.dumps(offset))) == {"a": "", "b": "1"}


@pytest.mark.parametrize(
    "offset", [{}, {"v": 2, "mode": "consume", "queues": {}}, offset_of("observe", {})]
)
def test_offset_of_another_stream_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter, match="another kind of stream"):
        queues_of("consume", offset)
