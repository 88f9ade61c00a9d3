"""A peer that speaks the binary protocol over a real socket, packet by packet."""

from __future__ import annotations

import asyncio
import socket

from posthouse.wire.binary.internal import (
    CONNECTION_PARAMETERS_SIZE,
    ESTABLISH_CONNECTION_SIZE,
    connection_parameters,
    establish_connection,
    read_establish_connection,
)
from tests.protocols.binary.socket_rig import Server

STRANGER = b"\x77" * 16


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class Stranger:
    """A client that does as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server: Server) -> Stranger:
        return cls(*await asyncio.open_connection("127.0.0.1", server.port))

    async def open(self, guid: bytes = STRANGER) -> None:
        """The handshake, to its end."""
        self.writer.write(establish_connection(guid, time_stamp=1))
        answer = await self.reader.readexactly(ESTABLISH_CONNECTION_SIZE)
        assert not read_establish_connection(answer).refused
        self.writer.write(connection_parameters(500, 20_000, 64))
        await self.reader.readexactly(CONNECTION_PARAMETERS_SIZE)

    async def is_closed(self) -> bool:
        """Whether the other side has closed, without a word."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()
