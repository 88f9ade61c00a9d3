"""Protocol towers: the entries of an endpoint mapper (C706 appendix L; [MS-RPCE] 2.2.1.2).

A tower is a count and that many floors, each two counted strings: what the floor speaks, and what
belongs to it there. The counts are little-endian, ports and addresses are not.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc.syntax import NDR, SyntaxId

MAX_TOWER_SIZE: Final = 2000  # [MS-RPCE] 2.2.1.2.2
ANY_ADDRESS: Final = bytes(4)

_UUID: Final = 0x0D
_CONNECTION_ORIENTED: Final = b"\x0b"
_TCP: Final = b"\x07"
_IP: Final = b"\x09"
_OVER_TCP: Final = (_CONNECTION_ORIENTED, _TCP, _IP)  # above them interface and transfer syntax

_count = Struct("<H")
_syntax = Struct("<B16sH")
_port = Struct(">H")

Floor = tuple[bytes, bytes]


class TcpTower(NamedTuple):
    """Where an interface is to be had over ncacn_ip_tcp, under one transfer syntax."""

    interface: SyntaxId
    transfer: SyntaxId = NDR
    port: int = 0
    address: bytes = ANY_ADDRESS  # IPv4, as on the wire

    def pack(self) -> bytes:
        """Its octets, C706 appendix L."""
        return pack_floors(
            [
                _syntax_floor(self.interface),
                _syntax_floor(self.transfer),
                (_CONNECTION_ORIENTED, bytes(2)),
                (_TCP, _port.pack(self.port)),
                (_IP, self.address),
            ]
        )


def read_tcp_tower(octets: bytes) -> TcpTower | None:
    """A tower of ncacn_ip_tcp; None: it is one of other protocols. Raises RemoteProtocolError."""
    floors = read_floors(octets)
    if tuple(left for left, _ in floors[2:]) != _OVER_TCP:
        return None
    port, address = floors[3][1], floors[4][1]
    if len(port) != _port.size or len(address) != len(ANY_ADDRESS):
        raise RemoteProtocolError("tower with a port or an address of another size")
    return TcpTower(
        _read_syntax(floors[0]), _read_syntax(floors[1]), int.from_bytes(port, "big"), address
    )


def pack_floors(floors: list[Floor]) -> bytes:
    """Any tower, C706 appendix L."""
    parts = [_count.pack(len(floors))]
    for floor in floors:
        for side in floor:
            parts += (_count.pack(len(side)), side)
    return b"".join(parts)


def read_floors(octets: bytes) -> list[Floor]:
    """The floors of any tower; raises RemoteProtocolError. What follows the last is let pass."""
    place = _count.size
    floors = []
    for _ in range(_read_count(octets, 0)):
        left, place = _take(octets, place)
        right, place = _take(octets, place)
        floors.append((left, right))
    return floors


def _take(octets: bytes, place: int) -> tuple[bytes, int]:
    end = place + _count.size + _read_count(octets, place)
    if end > len(octets):
        raise RemoteProtocolError("tower ends within a floor")
    return octets[place + _count.size : end], end


def _read_count(octets: bytes, place: int) -> int:
    if place + _count.size > len(octets):
        raise RemoteProtocolError("tower ends within a count")
    return int.from_bytes(octets[place : place + _count.size], "little")


def _syntax_floor(named: SyntaxId) -> Floor:
    return _syntax.pack(_UUID, named.uuid, named.major), _count.pack(named.minor)


def _read_syntax(floor: Floor) -> SyntaxId:
    left, right = floor
    if len(left) != _syntax.size or left[0] != _UUID or len(right) != _count.size:
        raise RemoteProtocolError("tower whose first floors are not UUIDs")
    _, uuid, major = _syntax.unpack(left)
    return SyntaxId(uuid, major, int.from_bytes(right, "little"))
