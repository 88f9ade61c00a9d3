"""GUIDs as text and as packet bytes."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import IllegalPropertyValue, QueueError
from posthouse.model.guids import NULL_GUID, format_guid, parse_guid
from tests.model.strategies import attempt, guids

# The bytes of an MS-MQQB sample frame and the GUID that they stand for.
SAMPLE_BYTES = bytes.fromhex("D1587355509195954997B6E611EA26C6")
SAMPLE_TEXT = "557358d1-9150-9595-4997-b6e611ea26c6"


def test_the_sample_frame_gives_its_guid() -> None:
    assert format_guid(SAMPLE_BYTES) == SAMPLE_TEXT
    assert parse_guid(SAMPLE_TEXT) == SAMPLE_BYTES


@given(guids)
def test_text_and_bytes_agree_with_the_standard_library(guid: bytes) -> None:
    assert format_guid(guid) == str(uuid.UUID(bytes_le=guid))
    assert parse_guid(format_guid(guid)) == guid


def test_braces_and_capitals_are_accepted() -> None:
    assert parse_guid("{" + SAMPLE_TEXT.upper() + "}") == SAMPLE_BYTES


def test_the_null_guid_is_zero() -> None:
    assert format_guid(NULL_GUID) == "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    "text",
    [
        "",
        SAMPLE_TEXT[:-1],
        SAMPLE_TEXT + "0",
        "{" + SAMPLE_TEXT,
        SAMPLE_TEXT + "}",
        SAMPLE_TEXT.replace("-", ""),
        SAMPLE_TEXT + "\n",
        SAMPLE_TEXT.replace("5", "\u0665"),
    ],
)
def test_what_is_no_guid_is_refused(text: str) -> None:
    with pytest.raises(IllegalPropertyValue):
        parse_guid(text)


@given(st.text())
def test_any_text_is_a_guid_or_refused(text: str) -> None:
    guid = attempt(parse_guid, text, IllegalPropertyValue)
    assert isinstance(guid, QueueError) or format_guid(guid) in text.lower()
