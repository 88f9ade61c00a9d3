"""A client process with very many remote receives that wait, told by lines what to do.

One thread, the client's end of the runtime (`posthouse.rpc.client`) on plain asyncio connections.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from posthouse.model.names import parse_format_name
from posthouse.protocols.queue_format import queue_format_of
from posthouse.protocols.remote_read.stubs import (
    METHODS,
    REMOTE_READ,
    Ack,
    CancelReceive,
    EndReceive,
    OpenQueueRequest,
    Opnum,
    Received,
    StartReceive,
)
from posthouse.rpc.client import ClientConnection
from posthouse.wire.packet.message import deserialize
from posthouse.wire.packet.remote_read import read_packet

PATIENCE_S = 120.0
INFINITE = 0xFFFFFFFF
CANCELLED = 0xC00E0008


class Line(asyncio.Protocol):
    """One connection with its reads."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd = crowd
        self.connection = ClientConnection(REMOTE_READ)
        self.handle = b""
        self.waiting: set[int] = set()  # request ids
        self._calls: dict[int, Callable[[Any], None]] = {}
        self._opnums: dict[int, int] = {}
        self._requests = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.connection.begin()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.lines.discard(self)

    def data_received(self, data: bytes) -> None:
        was_open = self.connection.is_open
        for call_id, status, stub in self.connection.receive(data):
            assert not status, hex(status)
            answer = METHODS[self._opnums.pop(call_id)].response.decode(stub)
            self._calls.pop(call_id)(answer)
        if not was_open and self.connection.is_open:
            self.ask(Opnum.OPEN_QUEUE, self.crowd.opening, self._opened)
        self._flush()

    def _flush(self) -> None:
        self.transport.write(self.connection.take_outgoing())

    def ask(self, opnum: int, request: Any, then: Callable[[Any], None]) -> None:
        call_id = self.connection.request(opnum, METHODS[opnum].request.encode(request))
        self._opnums[call_id], self._calls[call_id] = opnum, then

    def _opened(self, answer: Any) -> None:
        self.handle = answer.handle
        self.crowd.lines.add(self)

    def wait(self, count: int) -> None:
        """This many receives that wait for ever."""
        for _ in range(count):
            self._requests += 1
            self._wait(self._requests)
        self._flush()

    def _wait(self, number: int) -> None:
        start = StartReceive(self.handle, 0, 0, 0, INFINITE, number, INFINITE, INFINITE)
        self.waiting.add(number)
        self.ask(Opnum.START_RECEIVE, start, lambda received: self._received(number, received))

    def _received(self, number: int, received: Received) -> None:
        self.waiting.discard(number)
        if received.result == CANCELLED:
            self.crowd.cancelled += 1
            return
        assert not received.result, hex(received.result)
        packet = b"".join(section.buffer for section in received.sections)
        body = deserialize(read_packet(packet).message).body.decode()
        end = EndReceive(self.handle, Ack.ACK, number)
        self.ask(Opnum.END_RECEIVE, end, lambda answer: self._ended(body, answer))

    def _ended(self, body: str, answer: Any) -> None:
        assert not answer.result, hex(answer.result)
        self.crowd.served.append(body)

    def cancel(self, count: int) -> None:
        for number in list(self.waiting)[:count]:
            cancel = CancelReceive(self.handle, number)
            self.ask(Opnum.CANCEL_RECEIVE, cancel, lambda answer: None)
        self._flush()


class Crowd:
    """All connections."""

    def __init__(self, port: int, queue: str) -> None:
        self.port = port
        name = queue_format_of(parse_format_name(queue))
        self.opening = OpenQueueRequest(name, 1, 0, bytes(16), 1, 6, 1, 0, 1)
        self.lines: set[Line] = set()
        self.served: list[str] = []
        self.cancelled = 0

    async def connect(self, count: int) -> int:
        loop, wanted = asyncio.get_running_loop(), len(self.lines) + count
        for _ in range(count):
            await loop.create_connection(lambda: Line(self), "127.0.0.1", self.port)
        await self._until(lambda: len(self.lines) == wanted)
        return len(self.lines)

    async def wait(self, count: int) -> int:
        """Until this many wait on each connection."""
        for line in self.lines:
            line.wait(count - len(line.waiting))
        return sum(len(line.waiting) for line in self.lines)

    async def cancel(self, count: int) -> int:
        """This many of each connection."""
        wanted = self.cancelled + count * len(self.lines)
        for line in self.lines:
            line.cancel(count)
        await self._until(lambda: self.cancelled == wanted)
        return sum(len(line.waiting) for line in self.lines)

    async def drop(self, count: int) -> int:
        """This many connections break."""
        wanted = len(self.lines) - count
        for line in list(self.lines)[:count]:
            line.transport.abort()
        await self._until(lambda: len(self.lines) == wanted)
        return sum(len(line.waiting) for line in self.lines)

    async def bodies(self, count: int) -> list[str]:
        """What was received and ended, when that is so much."""
        await self._until(lambda: len(self.served) == count)
        return self.served

    async def _until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not met():
                await asyncio.sleep(0.02)


async def obey(port: int, queue: str) -> None:
    """Lines come in: a word and a number; the answer goes out as one line."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    crowd = Crowd(port, queue)
    words: dict[str, Callable[[int], Awaitable[object]]] = {
        "connect": crowd.connect,
        "wait": crowd.wait,
        "cancel": crowd.cancel,
        "drop": crowd.drop,
        "bodies": crowd.bodies,
    }
    while line := await lines.readline():
        word, number = line.split()
        answer = await words[word.decode()](int(number))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(obey(int(sys.argv[1]), sys.argv[2]))
