"""A tower of the endpoint mapper, as octets and as a value."""

from __future__ import annotations

from posthouse.rpc.syntax import NDR, syntax
from posthouse.rpc.towers import TcpTower

REMOTE_READ = syntax("1a9134dd-7b39-45ba-ad88-44d01ca47f28", 1)


TOWER = TcpTower(REMOTE_READ, NDR, 2103, bytes([192, 0, 2, 7]))


OCTETS = bytes.fromhex(
    "0500"
    "1300 0d dd34911a 397b ba45 ad8844d01ca47f28 0100  0200 0000"
    "1300 0d 045d888a eb1c c911 9fe808002b104860 0200  0200 0000"
    "0100 0b  0200 0000"
    "0100 07  0200 0837"
    "0100 09  0400 c0000207"
)
