"""Fuzz target: any stub of an endpoint mapper is read and written again, or refused."""

from typing import Any

from posthouse.rpc import ept
from posthouse.rpc.ept import Element, Listed
from posthouse.rpc.ndr import NULL_HANDLE, BadStub, Stub
from posthouse.rpc.syntax import NDR
from posthouse.rpc.towers import TcpTower

TOWER = TcpTower(NDR, NDR, 135).pack()
HANDLE = bytes(4) + bytes(range(16))
LINES = [Element(HANDLE[4:], TOWER, b"mapper\0"), Element(bytes(16), None, b"\0")]
VALUES: list[tuple[Stub[Any], Any]] = [
    (ept.MAP_REQUEST, ept.MapRequest(HANDLE[4:], TOWER, NULL_HANDLE, 4)),
    (ept.MAP_RESPONSE, ept.MapResponse(HANDLE, Listed(4, [TOWER, TOWER]), 0)),
    (ept.LOOKUP_REQUEST, ept.LookupRequest(3, HANDLE[4:], NDR, 2, HANDLE, 500)),
    (ept.LOOKUP_RESPONSE, ept.LookupResponse(HANDLE, Listed(500, LINES), 0)),
    (ept.FREE_REQUEST, ept.FreeRequest(HANDLE)),
    (ept.FREE_RESPONSE, ept.FreeResponse(NULL_HANDLE, 0)),
]
SEEDS = [
    bytes([2 * number + ndr64]) + stub.encode(value, ndr64=bool(ndr64))
    for number, (stub, value) in enumerate(VALUES)
    for ndr64 in (0, 1)
]


def fuzz_one(data: bytes) -> bool:
    """The first byte chooses method, direction and syntax."""
    number, ndr64 = divmod(data[0] if data else 0, 2)
    stub, _ = VALUES[number % len(VALUES)]
    try:
        value = stub.decode(data[1:], ndr64=bool(ndr64))
    except BadStub:
        return False
    again = stub.encode(value, ndr64=bool(ndr64))
    assert stub.decode(again, ndr64=bool(ndr64)) == value
    if isinstance(value, ept.MapResponse):
        assert all(ept.tcp_ports(value, NDR))
    return True
