"""The Via field of messages that are passed on over HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.wire.srmp.forwarding_headers import hops_in, sender_in, via_of, with_sender


@given(st.integers(1, 29))
def test_hops_are_read_as_they_were_written(hops: int) -> None:
    head = f"POST / HTTP/1.1\r\nHost: x\r\nVia: {via_of(hops)}\r\n\r\n".encode()
    assert hops_in(head) == hops


@pytest.mark.parametrize(
    ("fields", "hops"),
    [
        (b"Host: via", 0),
        (b"VIA: 1.1 a\r\nX: y\r\nvia:1.0 b , 1.1 c", 3),  # several fields are one list
        (b"Via: ,, 1.1 a,", 1),
        (b"Via:", 0),
    ],
)
def test_others_write_it_differently(fields: bytes, hops: int) -> None:
    assert hops_in(b"POST / HTTP/1.1\r\n" + fields + b"\r\n\r\n") == hops


@given(st.binary())
def test_any_bytes_have_some_hops(head: bytes) -> None:
    assert hops_in(head) >= 0


@pytest.mark.parametrize("fields", [b"Host: x", b"x-forwarded-for: 1.2.3.4, 5.6.7.8\r\nA: b"])
def test_who_passes_a_message_on_names_its_sender_alone(fields: bytes) -> None:
    head = b"POST / HTTP/1.1\r\n" + fields + b"\r\n\r\n"
    named = with_sender(head, "2001:db8::1")
    assert named.lower().count(b"x-forwarded-for") == 1
    assert sender_in(named) == "2001:db8::1"
    assert sender_in(head) == ("5.6.7.8" if b"5.6" in fields else "")
    assert named.endswith(b"\r\n\r\n")
