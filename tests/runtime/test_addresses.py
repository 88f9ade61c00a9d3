"""Which addresses this machine has."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posthouse.runtime import addresses
from posthouse.runtime.addresses import (
    AddressWatch,
    ipv4_addresses,
    ipv6_addresses,
    local_addresses,
)

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


# -- while it runs


async def changes(
    known: list[str], now: list[tuple[str, ...]], count: int
) -> list[tuple[str, ...]]:
    """What a watch tells, whose looks find these addresses one after the other."""
    told, enough = list[tuple[str, ...]](), asyncio.Event()

    def look() -> tuple[str, ...]:
        found = now.pop(0)
        if not now:
            enough.set()
        return found

    watch = AddressWatch(asyncio.get_running_loop(), known, told.append, look)
    await asyncio.wait_for(enough.wait(), 30)
    watch.close()
    assert len(told) == count
    return told


def test_an_address_that_came_during_the_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SETTLE_S", 0.001)
    assert asyncio.run(changes(["a"], [("a", "b")], 1)) == [("a", "b")]
    assert asyncio.run(changes(["a", "b"], [("b", "a")], 0)) == []


def test_without_notices_of_the_kernel_addresses_are_looked_at_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "_address_notices", lambda: None)
    monkeypatch.setattr(addresses, "SETTLE_S", 0.001)
    monkeypatch.setattr(addresses, "LOOK_S", 0.001)
    looks = [("a",), ("a", "b"), ("a", "b"), ("b",)]
    assert asyncio.run(changes(["a"], looks, 2)) == [("a", "b"), ("b",)]


def test_a_look_that_finds_nothing_takes_no_address_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There was no descriptor to ask the kernel with; it is asked again."""
    monkeypatch.setattr(addresses, "SETTLE_S", 0.001)
    monkeypatch.setattr(addresses, "LOOK_S", 0.001)
    assert asyncio.run(changes(["a"], [(), ("a",)], 0)) == []


PROGRAM = """
import asyncio, subprocess, sys
from posthouse.runtime.addresses import AddressWatch, local_addresses
async def main():
    told = asyncio.Queue()
    watch = AddressWatch(asyncio.get_running_loop(), local_addresses(), told.put_nowait)
    assert watch._notices is not None
    for words in (["link", "set", "lo", "up"], ["addr", "add", "192.0.2.77/32", "dev", "lo"],
                  ["addr", "del", "192.0.2.77/32", "dev", "lo"]):
        subprocess.run(["ip", *words], check=True)
        print(" ".join(sorted(await asyncio.wait_for(told.get(), 30))), flush=True)
    watch.close()
asyncio.run(main())
"""


@pytest.mark.skipif(
    not (shutil.which("unshare") and shutil.which("ip"))
    or subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode,
    reason="needs a network namespace of its own",
)
def test_the_kernel_tells_when_an_interface_gets_or_loses_an_address() -> None:
    done = subprocess.run(
        ["unshare", "-Urn", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    up, more, less = (line.split() for line in done.stdout.splitlines())
    assert "127.0.0.1" in up
    assert "192.0.2.77" in more
    assert "192.0.2.77" not in up + less
