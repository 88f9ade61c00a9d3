"""JSON of answers: the same values, and nothing that steers a terminal."""

from __future__ import annotations

import unicodedata

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from posthouse.api.encoding import encode_json

STEERING = "\x00\x1b\x7f\x80\x9b\x9f\u200b\u200e\u202a\u202e\u2028\u2029\u2066\u2069\ufeff\r\n"


@given(st.text(), st.text())
def test_values_stay_the_same(key: str, value: str) -> None:
    assert msgspec.json.decode(encode_json({key: [value, 7]})) == {key: [value, 7]}


@given(st.text(st.sampled_from(STEERING + 'aü€😀\\"')))
def test_nothing_steers_a_terminal(text: str) -> None:
    printed = encode_json(text).decode()
    assert msgspec.json.decode(printed) == text
    assert not [c for c in printed if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")]
