"""A client of the admin endpoint that speaks the frames of client sessions."""

from __future__ import annotations

import asyncio

from posthouse.wire.frames import frames, payloads
from tests.protocols.admin.api_rig import ApiRig

UPGRADE = {"Host": "localhost", "Connection": "keep-alive, Upgrade", "Upgrade": "posthouse/1"}


def request(**headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value]
    return "\r\n".join(["GET /api/v1/session HTTP/1.1", *lines, "", ""]).encode()


class Peer:
    """A client that speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.splitter = frames.Splitter()
        self.frames: list[frames.Frame] = []

    @classmethod
    async def connect(cls, rig: ApiRig, token: str, first: bytes = b"") -> Peer:
        host, _, port = rig.url.removeprefix("http://").rpartition(":")
        peer = cls(*await asyncio.open_connection(host, int(port)))
        peer.writer.write(request(**UPGRADE, Authorization=f"Bearer {token}") + first)
        head = await peer.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        return peer

    async def ask(self, payload: payloads.Payload, number: int = 1) -> object:
        self.writer.write(frames.encode(number, payload))
        return await self.answer()

    async def answer(self) -> object:
        while not self.frames:
            data = await self.reader.read(65536)
            assert data, "the session ended"
            self.frames += self.splitter.feed(data)
        frame = self.frames.pop(0)
        return frames.decode(frame.kind, frame.payload)

    async def ended(self) -> bool:
        """Waits until the server closes."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True
