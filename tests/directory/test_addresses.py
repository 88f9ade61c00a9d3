"""Addresses of machines: read, printed, refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.directory.addresses import Address
from posthouse.model.errors import IllegalPropertyValue

from .world import machine


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("beta.example.com", "beta.example.com", None),
        ("beta:2801", "beta", 2801),
        ("10.0.0.2", "10.0.0.2", None),
        ("10.0.0.2:1", "10.0.0.2", 1),
        ("fe80::1", "fe80::1", None),
        ("[fe80::1]", "fe80::1", None),
        ("[fe80::1]:65535", "fe80::1", 65535),
        ("fe80::1%eth0.7", "fe80::1%eth0.7", None),
    ],
)
def test_an_address_is_a_host_with_or_without_a_port(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    ["", "a b", ":1801", "beta:", "beta:0", "beta:65536", "beta:1e3", "[beta]:1", "[::1]x", "ä",
     "[fe80::1]1801", "[::1]:", "a\\b", "x" * 256, "beta:9" + "9" * 5000,
     "beta:00000199999", "fe80::1%" + "x" * 256, "fe80::1%a b", "[fe80::1%\n]:1"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(IllegalPropertyValue, match="is not an address"):
        Address.parse(text)
    with pytest.raises(IllegalPropertyValue):
        machine(1, "BETA", addresses=(text,)).validate()


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        address = Address.parse(text)
    except IllegalPropertyValue:
        return
    assert Address.parse(str(address)) == address
