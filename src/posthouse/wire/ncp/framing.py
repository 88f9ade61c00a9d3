"""NetWare Core Protocol messages and their framing (qms-facts 1.1-1.3).

A message is the same on every transport: a datagram is one bare message, on TCP each has a header
of its own that states how long it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from posthouse.model.errors import MalformedPacket, Truncated

CREATE_CONNECTION: Final = 0x1111
REQUEST: Final = 0x2222
REPLY: Final = 0x3333
WATCHDOG: Final = 0x3E3E
DESTROY_CONNECTION: Final = 0x5555
BURST: Final = 0x7777  # not served
WORKING: Final = 0x9999  # the request is still being worked on

NO_CONNECTION: Final = 0xFFFF  # in a request to create one
BAD_CONNECTION: Final = 0x01  # of the connection status bits
FUNCTION_GROUPS: Final = frozenset((0x15, 0x16, 0x17))  # their data has a length and a subfunction

_REQUEST: Final = struct.Struct(">HBBBB")
_REPLY: Final = struct.Struct(">HBBBBBB")
_SUBFUNCTION: Final = struct.Struct(">HB")
_TCP_REQUEST: Final = struct.Struct(">4sIII")
_TCP_REPLY: Final = struct.Struct(">4sI")
REQUEST_SIZE: Final = _REQUEST.size  # in front of the function
REPLY_SIZE: Final = _REPLY.size
TCP_REQUEST_SIZE: Final = _TCP_REQUEST.size
TCP_REPLY_SIZE: Final = _TCP_REPLY.size

REQUEST_MAGIC: Final = b"DmdT"
REPLY_MAGIC: Final = b"tNcP"
TCP_VERSION: Final = 1
SIGNED: Final = 0x8000_0000  # of a PDU's length: a signature follows, which was never agreed on
PDU_SIZE_MAX: Final = 128 << 10
REPLY_BUFFER_SIZE: Final = 65_536  # what ncpfs asks for

WATCHDOG_SIZE: Final = 10
POLL: Final = ord("?")
ALIVE: Final = ord("Y")


class Request(NamedTuple):
    """What a client sends: 0x1111, 0x2222 or 0x5555."""

    kind: int
    sequence: int
    connection: int
    task: int
    function: int = 0  # of 0x2222 only
    data: bytes = b""


class Reply(NamedTuple):
    """What a server answers: 0x3333, or 0x9999 while it is not done."""

    kind: int
    sequence: int
    connection: int
    task: int
    completion: int = 0
    status: int = 0
    data: bytes = b""


def read_request(message: bytes) -> Request:
    """A client's message; `RemoteProtocolError` if it is none."""
    if len(message) < REQUEST_SIZE:
        raise Truncated(f"an NCP request of {len(message)} bytes")
    kind, sequence, low, task, high = _REQUEST.unpack_from(message)
    if kind == REQUEST:
        if len(message) == REQUEST_SIZE:
            raise Truncated("an NCP request without a function")
        return Request(
            kind,
            sequence,
            low | high << 8,
            task,
            message[REQUEST_SIZE],
            message[REQUEST_SIZE + 1 :],
        )
    if kind not in (CREATE_CONNECTION, DESTROY_CONNECTION):
        raise MalformedPacket(f"NCP messages of type 0x{kind:04X} are not served")
    return Request(kind, sequence, low | high << 8, task, 0, message[REQUEST_SIZE:])


def write_request(request: Request) -> bytes:
    """The bytes of a client's message."""
    kind, sequence, connection, task, function, data = request
    head = _REQUEST.pack(kind, sequence, connection & 0xFF, task, connection >> 8)
    return head + (bytes((function,)) + data if kind == REQUEST else data)


def read_reply(message: bytes) -> Reply:
    """A server's message; `RemoteProtocolError` if it is none."""
    if len(message) < REPLY_SIZE:
        raise Truncated(f"an NCP reply of {len(message)} bytes")
    kind, sequence, low, task, high, completion, status = _REPLY.unpack_from(message)
    if kind not in (REPLY, WORKING):
        raise MalformedPacket(f"an NCP reply of type 0x{kind:04X}")
    return Reply(kind, sequence, low | high << 8, task, completion, status, message[REPLY_SIZE:])


def write_reply(reply: Reply) -> bytes:
    """The bytes of a server's message."""
    kind, sequence, connection, task, completion, status, data = reply
    head = _REPLY.pack(kind, sequence, connection & 0xFF, task, connection >> 8, completion, status)
    return head + data


def is_watchdog(message: bytes) -> bool:
    """Whether a datagram belongs to the watchdog and not to a request."""
    return message[:2] == b"\x3e\x3e"


def write_watchdog(connection: int, signature: int = POLL) -> bytes:
    """The question whether a client is still there, and its answer (qms-facts 7.3).

    On UDP it has the form of a reply with the slot and the signature after it, as the clients of
    Linux and tshark have it.
    """
    head = _REPLY.pack(WATCHDOG, 0, connection & 0xFF, 0, connection >> 8, 0, 0)
    return head + bytes((0, signature))


def read_watchdog(message: bytes) -> tuple[int, int]:
    """The connection it is about and the signature; `RemoteProtocolError` if it is none."""
    if len(message) < WATCHDOG_SIZE:
        raise Truncated(f"a watchdog packet of {len(message)} bytes")
    if not is_watchdog(message):
        raise MalformedPacket("no watchdog packet")
    return message[3] | message[5] << 8, message[WATCHDOG_SIZE - 1]


# -- calls with subfunctions


def read_subfunction(data: bytes) -> tuple[int, bytes]:
    """Subfunction and its data; `Truncated` where the length is not that of what follows (1.1)."""
    if len(data) < _SUBFUNCTION.size:
        raise Truncated("a call without a subfunction")
    size, subfunction = _SUBFUNCTION.unpack_from(data)
    if size != len(data) - 2:
        raise Truncated(f"a call of {len(data) - 2} bytes announces {size}")
    return subfunction, data[_SUBFUNCTION.size :]


def write_subfunction(subfunction: int, data: bytes) -> bytes:
    """The data of a call with a subfunction."""
    return _SUBFUNCTION.pack(1 + len(data), subfunction) + data


# -- TCP


def frame_request(message: bytes) -> bytes:
    """A client's PDU on TCP."""
    size = TCP_REQUEST_SIZE + len(message)
    return _TCP_REQUEST.pack(REQUEST_MAGIC, size, TCP_VERSION, REPLY_BUFFER_SIZE) + message


def frame_reply(message: bytes) -> bytes:
    """A server's PDU on TCP."""
    return _TCP_REPLY.pack(REPLY_MAGIC, TCP_REPLY_SIZE + len(message)) + message


class Stream:
    """Cuts what comes over TCP into messages; one for each direction of a connection.

    A length is looked at as soon as it is there, before anything of its size is kept.
    """

    def __init__(self, magic: bytes = REQUEST_MAGIC, size_max: int = PDU_SIZE_MAX) -> None:
        self._magic = magic
        self._head = TCP_REQUEST_SIZE if magic == REQUEST_MAGIC else TCP_REPLY_SIZE
        self._size_max = size_max
        self._held = bytearray()
        self._wanted = 0  # the size of the PDU in front, once it is known

    @property
    def announced_bytes(self) -> int:
        """The size that a message announces that is not whole yet."""
        return self._wanted

    @property
    def held_bytes(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._held)

    def add(self, data: bytes) -> None:
        """Bytes that came."""
        self._held += data

    def take(self) -> bytes | None:
        """The next whole message; `RemoteProtocolError` where there can be none."""
        held = self._held
        self._wanted = size = self._size() if held else 0
        if not size or size > len(held):
            return None
        message = bytes(held[self._head : size])
        del held[:size]
        self._wanted = 0
        return message

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole now; `RemoteProtocolError` after the last good one."""
        self.add(data)
        while (message := self.take()) is not None:
            yield message

    def _size(self) -> int:
        """The size of the PDU in front; 0: not enough of it has come."""
        held, magic = self._held, self._magic
        if held[:4] != magic[: len(held)]:
            raise MalformedPacket(f"no {magic.decode()} where a PDU begins")
        if len(held) < 8:
            return 0
        size = int.from_bytes(held[4:8], "big")
        if size & SIGNED:
            raise MalformedPacket("a signed PDU; signing was never agreed on")
        if not self._head + REQUEST_SIZE <= size <= self._size_max:
            raise MalformedPacket(f"a PDU of {size} bytes")
        if magic == REQUEST_MAGIC and len(held) >= 12:
            version = int.from_bytes(held[8:12], "big")
            if version != TCP_VERSION:
                raise MalformedPacket(f"NCP over TCP of version {version}")
        return size
