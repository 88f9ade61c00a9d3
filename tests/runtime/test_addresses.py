"""Which addresses this machine has."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st

from posthouse.runtime.addresses import ipv4_addresses, ipv6_addresses, local_addresses

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.1.0.0/16 2 0 2
        |-- 10.1.0.0
           /16 link UNICAST
        |-- 10.1.0.5
           /32 host LOCAL
        |-- 10.1.255.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fe800000000000000242acfffe110002 02 40 20 80     eth0
20010db8000000000000000000000007 02 40 00 80     eth0
"""


def test_addresses_are_read_from_what_the_kernel_shows() -> None:
    assert ipv4_addresses(FIB_TRIE) == ["10.1.0.5", "127.0.0.1"]
    assert ipv6_addresses(IF_INET6) == ["::1", "2001:db8::7"]


def test_this_machine_has_a_loopback_and_only_addresses_it_can_bind() -> None:
    found = local_addresses()
    assert "127.0.0.1" in found
    for address in found:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))


@given(st.text(max_size=200))
def test_any_text_gives_addresses_or_none(text: str) -> None:
    assert isinstance(ipv4_addresses(text) + ipv6_addresses(text), list)
