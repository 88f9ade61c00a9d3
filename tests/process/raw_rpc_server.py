"""A server of our RPC runtime for samba's tests of raw DCE/RPC, which want interfaces of Windows.

Beside the endpoint mapper there are two of them under their own names, with answers that are
always the same: what is tested is how a call gets to a method and back. Run as a program with a
port, it prints a line when it listens, and stops with its standard input.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
import time
from typing import NamedTuple

from posthouse.rpc import ept
from posthouse.rpc.endpoint_mapper import EndpointMapper, Entry
from posthouse.rpc.interface import Call, Interface
from posthouse.rpc.ndr import Writer
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.providers import Acceptors
from posthouse.rpc.security import Level
from posthouse.rpc.server import RpcServer
from posthouse.rpc.syntax import syntax
from posthouse.security.nt_hash import nt_hash

USER, PASSWORD = "reader", "Reader of raw bytes 1!"
MANAGEMENT = syntax("afa8bd80-7d8a-11c9-bef4-08002b102989", 1)
NETLOGON = syntax("12345678-1234-abcd-ef00-01234567cffb", 1)
_FILETIME_1970 = 116_444_736_000_000_000


class Known(NamedTuple):
    """An account that was proved."""

    name: str
    sid: bytes = b"S-1-0-0"


class Accounts:
    """One user."""

    def nt_hash(self, user: str, address: str) -> bytes | None:
        return nt_hash(PASSWORD) if user == USER else None

    def accepted(self, user: str, address: str) -> Known:
        return Known(user)

    def knows(self, user: str) -> bool:
        return user == USER

    def refused(self, user: str, address: str, cause: str) -> None:
        print(f"refused {user}: {cause}", file=sys.stderr)


def inq_if_ids(call: Call) -> None:
    """The interfaces of a server, C706 appendix Q."""
    writer, interfaces = Writer(ndr64=call.ndr64), (MANAGEMENT, ept.EPT)
    writer.pointer(True)
    writer.wide(len(interfaces))
    writer.u32(len(interfaces))
    for _ in interfaces:
        writer.pointer(True)
    for interface in interfaces:
        writer.align(4)
        writer.put(struct.pack("<16sHH", *interface))
    writer.u32(0)
    call.answer(bytes(writer.buffer))


def inq_stats(call: Call) -> None:
    """As many counters as are asked for, but not more than there are."""
    count = min(int.from_bytes(call.stub[:4], "little"), 4)
    call.answer(struct.pack(f"<II{count}II", count, count, *range(count), 0))


def server_req_challenge(call: Call) -> None:
    """A challenge, and success."""
    call.answer(bytes(12))


async def serve(port: int) -> None:
    """Until nobody wants it any more."""
    names = (MANAGEMENT, NETLOGON, ept.EPT)
    mapper = EndpointMapper(lambda: [Entry(name, port) for name in names])
    management = {0: inq_if_ids, 1: inq_stats}
    interfaces = [
        mapper.interface,
        Interface(MANAGEMENT, "management", management, Level.NONE),
        Interface(NETLOGON, "netlogon", {4: server_req_challenge}, Level.NONE),
    ]
    server = RpcServer(
        interfaces, Acceptors(Accounts(), ServerNames("ALPHA"), os.urandom, filetime)
    )
    print(await server.start("127.0.0.1", port), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(1.0)


def filetime() -> int:
    return time.time_ns() // 100 + _FILETIME_1970


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
