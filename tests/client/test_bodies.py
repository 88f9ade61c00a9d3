"""Python values as bodies, and back."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.client.bodies import decode_json, decode_text, encode_body
from posthouse.model.errors import IllegalPropertyValue

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(st.binary())
def test_bytes_stay_what_they_are(body: bytes) -> None:
    for given_body in (body, bytearray(body), memoryview(body)):
        assert encode_body(given_body) == (body, 0)


@given(st.binary(), st.integers(0, 0xFFFFFFFF))
def test_bytes_may_have_any_type(body: bytes, body_type: int) -> None:
    assert encode_body(body, body_type) == (body, body_type)


@given(texts)
def test_a_text_is_a_string_that_windows_programs_read(text: str) -> None:
    body, body_type = encode_body(text)
    assert (body, body_type) == (text.encode("utf-16-le"), 8)


@given(texts.filter(lambda text: not text.startswith("\ufeff") and not text.endswith("\0")))
def test_texts_come_back(text: str) -> None:
    for body_type in (None, 8, 31, 30, 0):
        assert decode_text(*encode_body(text, body_type)) == text


@given(st.lists(values) | st.dictionaries(texts, values))
def test_structures_come_back(value: Any) -> None:
    body, body_type = encode_body(value)
    assert body_type == 0
    assert json.loads(body) == value
    assert decode_json(body, body_type) == value


@given(st.dictionaries(texts, texts))
def test_json_in_a_text_is_json_too(value: dict[str, str]) -> None:
    for body_type in (8, 30, 31):
        assert decode_json(*encode_body(json.dumps(value), body_type)) == value


@given(st.binary(), st.integers(0, 40))
def test_any_bytes_are_text_and_json_or_a_value_error(body: bytes, body_type: int) -> None:
    for decode in (decode_text, decode_json):
        with suppress(ValueError):
            decode(body, body_type)


def test_a_mark_in_front_of_json_is_passed_over() -> None:
    assert decode_json(b'\xef\xbb\xbf{"a":1}', 0) == {"a": 1}


def test_numbers_of_any_size_are_kept() -> None:
    value = {"n": [2**64, -(2**70)]}
    assert decode_json(*encode_body(value)) == value


def test_what_json_has_no_form_for_is_refused() -> None:
    with pytest.raises(IllegalPropertyValue, match="JSON"):
        encode_body({"when": object()})


def test_a_text_that_is_none_is_refused() -> None:
    with pytest.raises(IllegalPropertyValue, match="not text"):
        encode_body("\ud800")


def test_deep_json_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nested"):
        decode_json(b"[" * 100_000, 0)


def test_other_things_are_no_bodies() -> None:
    with pytest.raises(TypeError, match="a body is"):
        encode_body(7)  # type: ignore[arg-type]
