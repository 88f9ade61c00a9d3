"""Ping datagrams, [MS-MQQB] 2.2.7: is a queue manager there, and would it take a session?"""

from typing import Annotated, NamedTuple

from posthouse.model.errors import MalformedPacket
from posthouse.wire.layout import Flags, Layout, bits, guid, u16, u32

PING_SIGNATURE = 0x5548


class PingFlags(Flags):
    """[MS-MQQB] 2.2.7: RC and RF; the other bits may hold anything."""

    client = bits(0)  # the initiator is not a server system
    refused = bits(1)


class Ping(NamedTuple):
    """[MS-MQQB] 2.2.7: a request and its response look the same."""

    flags: Annotated[PingFlags, "H"]
    signature: u16
    cookie: u32
    queue_manager: guid  # the one that built the packet

    @property
    def refused(self) -> bool:
        """RF: the acceptor would refuse a session now."""
        return bool(self.flags.refused)

    def pack(self) -> bytes:
        """The 24 bytes of the datagram."""
        return PING.pack(self)


PING = Layout(Ping)
PING_SIZE = PING.size
assert PING_SIZE == 24


def ping_request(queue_manager: bytes, cookie: int, *, server: bool = True) -> bytes:
    """A request of this queue manager, [MS-MQQB] 2.2.7."""
    return Ping(PingFlags.of(client=not server), PING_SIGNATURE, cookie, queue_manager).pack()


def ping_response(request: Ping, queue_manager: bytes, *, refused: bool) -> bytes:
    """The answer to a request, [MS-MQQB] 3.1.7.7: its RC and Cookie, our GUID."""
    flags = PingFlags.of(client=request.flags.client, refused=refused)
    return Ping(flags, PING_SIGNATURE, request.cookie, queue_manager).pack()


def read_ping(datagram: bytes) -> Ping:
    """Reads a datagram of the ping port; one that is `MalformedPacket` is to be ignored."""
    if len(datagram) != PING_SIZE:
        raise MalformedPacket(f"ping packet of {len(datagram)} bytes")
    ping = PING.unpack(datagram)
    if ping.signature != PING_SIGNATURE:
        raise MalformedPacket(f"ping packet with signature 0x{ping.signature:04X}")
    return ping
