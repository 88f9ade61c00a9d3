"""Change notifications: version 2 both ways, version 1 recognised, anything else refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.model.errors import MalformedPacket
from posthouse.wire.binary.change_notification import (
    Notification,
    OldUpdate,
    pack_notification,
    unpack_notification,
)

GUID = bytes(range(16))
TEXT = (
    "<Notification><Event>2</Event><ObjectGuid>03020100-0504-0706-0809-0a0b0c0d0e0f</ObjectGuid>"
    "<DomainController>dc1</DomainController></Notification>"
)


def body(text: str, version: int = 2, count: int = 1) -> bytes:
    return bytes((version, count)) + text.encode("utf-16-le")


def test_a_notification_is_as_the_document_has_it() -> None:
    packed = pack_notification(Notification(2, GUID, "dc1"))
    assert packed == body(TEXT) + b"\0"
    assert unpack_notification(packed) == Notification(2, GUID, "dc1")


@pytest.mark.parametrize("end", [b"", b"\0", b"\0\0", b"\0\0\0"])
def test_bytes_behind_the_text_do_not_count(end: bytes) -> None:
    assert unpack_notification(body(TEXT) + end) == Notification(2, GUID, "dc1")


def test_the_blank_of_the_printed_grammar_is_accepted() -> None:
    text = TEXT.replace("</ObjectGuid>", "</ObjectGuid >")
    assert unpack_notification(body(text)) == Notification(2, GUID, "dc1")


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\2",
        b"\2\0",
        b"\3\1",
        body(TEXT, count=2),
        body(""),
        body(TEXT.replace("dc1", "")),
        body(TEXT.replace("dc1", "d" * 257)),
        body(TEXT.replace("dc1", "a b")),
        body(TEXT.replace("0a0b0c0d0e0f", "0a0b0c0d0e0z")),
        body(TEXT.replace("03020100-0504", "-30201000504-")),
        body(TEXT + TEXT),
        body(TEXT) + b" " * 4096,
        b"\2\1\x00\xd8",
        b"\1\1",
        b"\1\1\0\1" + bytes(20),
        b"\1\1\0\0a\0b\0",
    ],
)
def test_anything_else_is_malformed(wrong: bytes) -> None:
    with pytest.raises(MalformedPacket):
        unpack_notification(wrong)


def test_version_1_is_recognised_by_its_first_update() -> None:
    rest = bytes(16 + 24 + 1)
    by_guid = b"\1\3\2\1" + GUID + rest
    assert unpack_notification(by_guid) == OldUpdate(3, 2, GUID, "")
    by_name = b"\1\1\0\0" + "A\\b\0".encode("utf-16-le") + rest
    assert unpack_notification(by_name) == OldUpdate(1, 0, b"", "A\\b")


@given(st.binary(max_size=300) | st.text(max_size=200).map(body))
def test_any_bytes_give_a_notification_or_the_one_error(data: bytes) -> None:
    with contextlib.suppress(MalformedPacket):
        assert isinstance(unpack_notification(data), Notification | OldUpdate)


@given(
    st.integers(0, 999_999_999),
    st.binary(min_size=16, max_size=16),
    st.text(min_size=1, max_size=300),
)
def test_what_is_packed_is_read_back(event: int, identifier: bytes, server: str) -> None:
    packed = pack_notification(Notification(event, identifier, server))
    found = unpack_notification(packed)
    assert found[:2] == (event, identifier)
    assert found == Notification(event, identifier, found[2])
    fits = all("!" <= letter <= "~" and letter != "<" for letter in server) and len(server) <= 256
    assert (found[2] == server) is fits or server.startswith("-")
