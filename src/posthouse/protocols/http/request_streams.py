"""Reads long HTTP requests message by message, at the engine's pace."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from posthouse.model.errors import without_frames
from posthouse.protocols.arrow.ipc_frames import Frame, IpcFrames
from posthouse.protocols.handlers.refusals import BadRequest
from posthouse.protocols.handlers.request_steps import Outside
from posthouse.protocols.http.memory_reservations import Awaited, granted
from posthouse.protocols.memory import RECEIVE, SMALL_REQUEST, Holder, MemoryAccount

UPLOAD_BYTES: Final = 256 << 10  # of each upload, with what aiohttp has read ahead of it
FIRST_LOOK: Final = 4096  # bytes of a message whose size is not known
PORTIONS_MAX: Final = 4  # made at a time, of some 8 MiB each; more would not be faster


class Incoming:
    """`posthouse.protocols.handlers.context.Inflow` of one request.

    While a message is worked on the next one is read, and no more than that.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        holder: Holder,
        memory: MemoryAccount,
        portions: asyncio.Semaphore,
        *,
        timeout_s: float,
    ) -> None:
        self._request = request
        self._holder = holder
        self._memory = memory
        self._portions = portions
        self._portion = False  # this upload makes one
        self._timeout_s = timeout_s
        self._frames = IpcFrames()
        self._ready: list[Frame] = []
        self._held = 0  # bytes on the account that are not given back
        self._worked_on = 0
        self._begun = False  # a large message is on its way
        self._reading: asyncio.Task[Frame | None] | None = None
        self._awaited = Awaited()

    def next(self) -> Outside:
        """A step for the next message of the stream; None at its end."""
        return self._awaited.step(self._next)

    async def _next(self) -> Frame | None:
        reading = self._reading or asyncio.ensure_future(self._read())
        self._reading = None
        frame = await reading
        if frame is not None:
            self._worked_on = len(frame.data)
            self._reading = asyncio.ensure_future(self._read())
        return frame

    def done(self) -> None:
        """The message that `next` gave is worked up: its memory is free."""
        size, self._worked_on = min(self._worked_on, self._held), 0
        self._held -= size
        if not self._holder.gone:
            self._holder.give(RECEIVE, size)

    def begin_portion(self) -> Outside:
        """A step that waits its turn to make packets: all uploads together have few of them."""
        return self._awaited.step(self._begin_portion)

    async def _begin_portion(self) -> None:
        await self._portions.acquire()
        self._portion = True

    def end_portion(self) -> None:
        """The packets are in the log, or given up."""
        if self._portion:
            self._portion = False
            self._portions.release()

    def close(self) -> None:
        """The rest is not wanted."""
        self._awaited.cancel()
        reading, self._reading = self._reading, None
        self._frames, self._ready = IpcFrames(), []  # nor what has come of it
        if reading is not None and not reading.cancel() and not reading.cancelled():
            reading.exception()  # marks it as seen: no one else asks for it

    async def _read(self) -> Frame | None:
        while not self._ready and not self._frames.ended:
            await self._wait_for_room()
            try:
                async with asyncio.timeout(self._timeout_s):
                    data = await self._piece()
            except TimeoutError:
                raise BadRequest("the body did not arrive in time") from None
            except (web.RequestPayloadError, web.PayloadAccessError, ConnectionError) as error:
                without_frames(error)  # the body keeps it, and would be kept by it as a circle
                raise BadRequest("the body broke off, or its chunks are malformed") from None
            if not data:
                raise BadRequest("the stream breaks off before its end")
            self._take(len(data))
            self._ready += self._frames.feed(data)
            if self._ready:
                self._end_message()
        if self._ready:
            return self._ready.pop(0)
        await self._expect_end()
        return None

    async def _expect_end(self) -> None:
        """Reads what ends a chunked body, so that the connection can go on."""
        async with asyncio.timeout(self._timeout_s):
            if await self._request.content.readany():
                raise BadRequest("there are bytes after the end of the stream")

    def _take(self, size: int) -> None:
        if not self._holder.gone:
            self._holder.take(RECEIVE, size)
            self._held += size

    async def _piece(self) -> bytes:
        """What has come; little of it before the size of a message is known, and may be read."""
        content = self._request.content
        if self._begun:
            return await content.readany()
        return await content.read(max(self._frames.missing, FIRST_LOOK))

    async def _wait_for_room(self) -> None:
        """Before a message grows large; what has begun comes to its end.

        A stream that waits too long is refused.
        """
        holder, missing = self._holder, self._frames.missing
        if self._begun or missing <= SMALL_REQUEST or holder.gone:
            return
        size, time = holder.bytes[RECEIVE] + missing, asyncio.get_running_loop().time
        if not await granted(holder, lambda: holder.may_begin(size, int(time() * 1000))):
            raise self._memory.refusal("body", "Try again.")
        self._begun = True

    def _end_message(self) -> None:
        self._begun = False
        if not self._holder.gone:
            self._holder.finished()
