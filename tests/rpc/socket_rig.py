"""A toy server on real sockets, and strangers that connect to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from posthouse.rpc import pdu
from posthouse.rpc.security import Level
from posthouse.rpc.server import Admission, Memory, RpcServer
from posthouse.rpc.settings import RpcSettings
from tests.support.loop_server import until

from .toy import GUARDED, Accounts, Toy, item, request


class House:
    """A server with the toy at level none, and again at privacy; a clock that stands still."""

    def __init__(
        self,
        settings: RpcSettings | None = None,
        memory: Memory | None = None,
        connections: Admission | None = None,
    ) -> None:
        self.toy = Toy()
        self.accounts = Accounts()
        self.now_ms = 0
        self.bugs: list[Exception] = []
        self.server = RpcServer(
            [self.toy.interface(), self.toy.interface(GUARDED, Level.PRIVACY)],
            self.accounts,
            settings,
            memory=memory,
            connections=connections,
            now=lambda: self.now_ms,
            bug=self.bugs.append,
        )
        self.strangers: list[Stranger] = []

    async def connect(self) -> Stranger:
        stranger = Stranger(*await asyncio.open_connection(self.host, self.port))
        self.strangers.append(stranger)
        return stranger

    async def bound(self, **particulars: int) -> Stranger:
        stranger = await self.connect()
        await stranger.bind(**particulars)
        return stranger

    async def start(self, host: str) -> None:
        self.address = await self.server.start(host, 0)
        self.port = int(self.address.rpartition(":")[2])
        self.host = "127.0.0.1" if host == "::" else host


class Stranger:
    """A client that does as it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def hear(self) -> tuple[pdu.Header, bytes]:
        """One PDU."""
        head = await self.reader.readexactly(16)
        header = pdu.read_header(head)
        return header, head + await self.reader.readexactly(header.frag_length - 16)

    async def bind(self, group_id: int = 0, max_recv: int = 5840) -> pdu.BindAck:
        bind = pdu.Bind(5840, max_recv, group_id, (item(0), item(1, GUARDED)))
        self.writer.write(pdu.pack(pdu.BIND, pdu.WHOLE, 1, pdu.pack_bind(bind)))
        header, whole = await self.hear()
        assert header.kind == pdu.BIND_ACK
        return pdu.read_bind_ack(whole[16:])

    async def call(self, opnum: int, stub: bytes = b"", *, call_id: int = 7) -> bytes:
        self.writer.write(request(opnum, stub, call_id=call_id))
        header, whole = await self.hear()
        assert header.call_id == call_id
        assert header.kind == pdu.RESPONSE
        return pdu.read_response(whole[16:]).stub

    def say(self, *pdus: bytes) -> None:
        self.writer.write(b"".join(pdus))

    async def is_closed(self) -> bool:
        """Whether the other side has closed, without a word."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def serving(
    settings: RpcSettings | None = None,
    *,
    memory: Memory | None = None,
    connections: Admission | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[House]:
    """A server, for a while."""
    house = House(settings, memory, connections)
    await house.start(host)
    try:
        yield house
    finally:
        for stranger in house.strangers:
            stranger.close()
        await house.server.stop(0)
        await until(lambda: not house.server.links)


async def hear_all(strangers: Sequence[Stranger]) -> list[bytes]:
    """What each of them is told next, as stubs."""
    heard = await asyncio.gather(*(stranger.hear() for stranger in strangers))
    return [pdu.read_response(whole[16:]).stub for _, whole in heard]
