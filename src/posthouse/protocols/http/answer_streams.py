"""Streams long HTTP answers piece by piece, at the reader's pace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from aiohttp import web

from posthouse.api.route import ARROW
from posthouse.protocols.handlers.request_steps import Outside
from posthouse.protocols.http.memory_reservations import Awaited, room_for
from posthouse.protocols.memory import Buffer, Holder, MemoryAccount

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Server": "posthouse",
}
"""What every answer carries."""
STALL_S: Final = 60.0  # a reader that takes nothing for this long gives its memory to others
FIRST: Final = 1024  # bytes that go with the header
PIECE: Final = 512 << 10  # written at once
_ARROW: Final = Buffer.ARROW.value


class Streaming:
    """The `Outflow` (handlers.context) of one request. Begins with the first piece."""

    def __init__(
        self,
        request: web.BaseRequest,
        holder: Holder,
        memory: MemoryAccount,
        *,
        closing: bool,
    ) -> None:
        self.response: web.StreamResponse | None = None
        self._request = request
        self._holder = holder
        self._memory = memory
        self._closing = closing
        self._awaited = Awaited()

    def has_room(self, size: int) -> bool:
        """Whether there is memory for this many bytes now."""
        return self._holder.gone or self._memory.may_hold(self._holder, size)

    def room(self, size: int) -> Outside:
        """Waits until there is memory for this many bytes."""
        return self._awaited.step(partial(self._wait, size))

    def send(self, pieces: Sequence[bytes | memoryview], room: int) -> Outside:
        """Writes; ends when the peer has taken most of it in."""
        return self._awaited.step(partial(self._write, pieces, room))

    def leave(self) -> None:
        """The client has left: stops waiting for memory."""
        self._awaited.cancel()

    def finished(self, *, whole: bool) -> web.StreamResponse:
        """The response for aiohttp, which ends it. One that broke off never ends cleanly."""
        assert self.response is not None
        transport = self._request.transport
        if not whole and transport is not None:
            transport.abort()
        return self.response

    async def _wait(self, size: int) -> None:
        remedy = "Read with fewer tasks at a time, or raise [limits] memory."
        await room_for(self._memory, self._holder, size, self._take, remedy)

    def _take(self, size: int) -> None:
        if not self._holder.gone:
            self._holder.take(_ARROW, size)

    async def _write(self, pieces: Sequence[bytes | memoryview], room: int) -> None:
        views = [memoryview(piece).cast("B") for piece in pieces]
        if self.response is None:
            await self._begin(views[0][:FIRST])
            views[0] = views[0][FIRST:]
        for some in _portions(views, PIECE):
            await self._put(some)
        if not self._holder.gone:
            self._holder.give(_ARROW, room)

    async def _put(self, views: list[memoryview]) -> None:
        """One chunk, without the copy that aiohttp would make of it; others have their turn."""
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the caller has gone")
        transport.writelines([b"%x\r\n" % sum(map(len, views)), *views, b"\r\n"])
        try:
            async with asyncio.timeout(STALL_S):
                await self._request.writer.drain()
        except TimeoutError:
            raise ConnectionResetError("the caller takes nothing") from None
        await asyncio.sleep(0)

    async def _begin(self, view: memoryview) -> None:
        """The header and the first bytes."""
        response = web.StreamResponse(headers={"Content-Type": ARROW, **HEADERS})
        response.enable_chunked_encoding()
        if self._closing:
            response.force_close()
        await response.prepare(self._request)
        self.response = response
        await response.write(view)


def _portions(views: Iterable[memoryview], size: int) -> Iterator[list[memoryview]]:
    """The bytes in lists of `size`; the last one may have fewer."""
    portion, room = list[memoryview](), size
    for view in views:
        while len(view) >= room:
            yield [*portion, view[:room]]
            view, portion, room = view[room:], [], size
        if len(view):
            portion.append(view)
            room -= len(view)
    if portion:
        yield portion
