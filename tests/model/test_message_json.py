"""Times and texts of the message JSON."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message_json import MessageJson, body_text, parse_time, time_text


@given(st.integers(0, 0xFFFFFFFF))
def test_times_come_back(seconds: int) -> None:
    assert parse_time(time_text(seconds)) == seconds


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_times_sort_as_texts(one: int, other: int) -> None:
    assert (time_text(one) < time_text(other)) == (one < other)


@given(st.text())
def test_any_text_is_a_time_or_refused(text: str) -> None:
    with suppress(IllegalPropertyValue):
        assert 0 <= parse_time(text) <= 0xFFFFFFFF


@pytest.mark.parametrize(
    ("body", "body_type", "text"),
    [
        (b"plain", 0, "plain"),
        ("Grüße\n".encode(), 0, "Grüße\n"),
        (b"\x00\x01", 0, None),
        (b"\xff", 0, None),
        (b"\x1b[31m", 0, None),
        ("wide".encode("utf-16-le"), 8, "wide"),
        ("\ufeffwide".encode("utf-16-le"), 31, "wide"),
        (b"\x00", 8, None),
        (b"narrow\0", 30, "narrow"),
        (b"text", 17, None),
        (b"", 0, ""),
    ],
)
def test_text_of_bodies(body: bytes, body_type: int, text: str | None) -> None:
    assert body_text(body, body_type) == text


@given(st.binary(), st.sampled_from([0, 8, 17, 30, 31]))
def test_any_body_is_text_or_not(body: bytes, body_type: int) -> None:
    text = body_text(body, body_type)
    assert text is None or msgspec.json.encode(text)


def test_class_is_called_class() -> None:
    names = [field.encode_name for field in msgspec.structs.fields(MessageJson)]
    assert "class" in names
    assert "class_" not in names
