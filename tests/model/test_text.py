"""Counting text as packets do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.text import counted, excerpt, has_lone_surrogate, utf16_length


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("abc", 3), ("ä€", 2), ("\U0001f4ee", 2), ("\ud800", 1)]
)
def test_characters_count_as_wchars(text: str, length: int) -> None:
    assert utf16_length(text) == length


def test_halves_of_pairs_are_seen() -> None:
    assert has_lone_surrogate("a\udfff")
    assert not has_lone_surrogate("a\U0001f4ee")


@given(st.text(st.characters()))
def test_excerpts_are_short_and_printable(text: str) -> None:
    shown = excerpt(text * 50)
    assert shown.isascii()
    assert shown.isprintable()
    assert len(shown) < 1000


def test_a_number_has_its_noun() -> None:
    assert [counted(n, "message") for n in (0, 1, 2, 2000)] == [
        "0 messages",
        "1 message",
        "2 messages",
        "2,000 messages",
    ]
