"""Towers as endpoint mappers exchange them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from impacket.dcerpc.v5 import epm

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc.syntax import NDR64, SyntaxId
from posthouse.rpc.towers import TcpTower, pack_floors, read_floors, read_tcp_tower
from tests.support.rpc_tower import OCTETS, REMOTE_READ, TOWER

uuids = st.binary(min_size=16, max_size=16)
ushorts = st.integers(0, 0xFFFF)
syntaxes = st.builds(SyntaxId, uuids, ushorts, ushorts)
towers = st.builds(TcpTower, syntaxes, syntaxes, ushorts, st.binary(min_size=4, max_size=4))
floors = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=9)


@pytest.mark.spec("MS-MQRR 2.1/1")
def test_a_tower_is_interface_syntax_rpc_tcp_and_address() -> None:
    assert TOWER.pack() == OCTETS
    assert read_tcp_tower(OCTETS) == TOWER


@given(towers)
def test_a_tower_is_read_as_it_was_packed(tower: TcpTower) -> None:
    assert read_tcp_tower(tower.pack()) == tower
    assert read_tcp_tower(tower.pack() + b"more") == tower


@given(floors)
def test_floors_are_read_as_they_were_packed(given_floors: list[tuple[bytes, bytes]]) -> None:
    assert read_floors(pack_floors(given_floors)) == given_floors


@pytest.mark.parametrize("size", range(len(OCTETS)))
def test_a_tower_that_ends_too_early_is_refused(size: int) -> None:
    with pytest.raises(RemoteProtocolError):
        read_tcp_tower(OCTETS[:size])


@pytest.mark.parametrize(
    ("place", "protocol"),
    [(2, 0x0A), (2, 0x0C), (3, 0x08), (3, 0x0F), (3, 0x1F), (4, 0x11)],
    ids=["datagram RPC", "local RPC", "UDP", "named pipe", "HTTP", "NetBIOS"],
)
def test_other_protocols_are_told_from_tcp(place: int, protocol: int) -> None:
    changed = read_floors(OCTETS)
    changed[place] = (bytes([protocol]), changed[place][1])
    assert read_tcp_tower(pack_floors(changed)) is None


@pytest.mark.parametrize("count", range(5))
def test_a_tower_of_fewer_floors_is_not_one_of_tcp(count: int) -> None:
    assert read_tcp_tower(pack_floors(read_floors(OCTETS)[:count])) is None


@pytest.mark.parametrize(
    ("place", "floor"),
    [
        (0, (b"\x0e" + OCTETS[5:23], bytes(2))),
        (0, (OCTETS[4:22], bytes(2))),
        (1, (OCTETS[4:23], bytes(3))),
        (3, (b"\x07", bytes(4))),
        (4, (b"\x09", bytes(16))),
    ],
    ids=["no UUID", "short UUID", "long minor version", "long port", "long address"],
)
def test_a_floor_of_the_wrong_size_is_refused(place: int, floor: tuple[bytes, bytes]) -> None:
    changed = read_floors(OCTETS)
    changed[place] = floor
    with pytest.raises(RemoteProtocolError):
        read_tcp_tower(pack_floors(changed))


@given(st.binary(max_size=200))
def test_any_octets_are_a_tower_or_refused(octets: bytes) -> None:
    try:
        read_tcp_tower(octets)
    except RemoteProtocolError:
        return


@given(st.integers(0, len(OCTETS) - 1), st.integers(1, 255))
def test_any_changed_octet_is_a_tower_or_refused(place: int, change: int) -> None:
    octets = bytearray(OCTETS)
    octets[place] ^= change
    try:
        read_tcp_tower(bytes(octets))
    except RemoteProtocolError:
        return


def test_impacket_reads_our_tower() -> None:
    tower = epm.EPMTower(TcpTower(REMOTE_READ, NDR64, 2103, bytes([192, 0, 2, 7])).pack())
    interface, transfer, *_ = tower["Floors"]
    assert str(interface).startswith("1A9134DD-7B39-45BA-AD88-44D01CA47F28 v1.0")
    assert str(transfer).startswith("71710533-BEBA-4937-8319-B5DBEF9CCC36 v1.0")
    assert epm.PrintStringBinding(tower["Floors"]) == "ncacn_ip_tcp:192.0.2.7[2103]"
