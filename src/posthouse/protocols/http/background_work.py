"""Work of the API outside the engine: coroutines, threads, the user of a Unix socket."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final

from posthouse.protocols.handlers.request_steps import Outside, Resume
from posthouse.protocols.pacing import Busy, Pace

Backup = Callable[[str], Awaitable[object]]
_PEER: Final = struct.Struct("3i")


def awaited(backup: Backup) -> Callable[[str], Outside]:
    """A step of the API that waits for a coroutine."""
    running: set[asyncio.Task[None]] = set()

    def step(directory: str) -> Outside:
        async def run(resume: Resume) -> None:
            try:
                value = await backup(directory)
            except Exception as error:
                resume(None, error)
            else:
                resume(value, None)

        def start(resume: Resume) -> None:
            task = asyncio.get_running_loop().create_task(run(resume))
            running.add(task)
            task.add_done_callback(running.discard)

        return Outside(start)

    return step


def in_a_thread(work: Callable[[], object], executor: Executor | None = None) -> Outside:
    """A step of the API that would hold up the loop."""

    def start(resume: Resume) -> None:
        def finished(future: asyncio.Future[object]) -> None:
            error = future.exception()
            assert error is None or isinstance(error, Exception)
            resume(None if error else future.result(), error)

        asyncio.get_running_loop().run_in_executor(executor, work).add_done_callback(finished)

    return Outside(start)


def in_the_background(
    count: int, pace: Pace, busy: Callable[[], Busy]
) -> Callable[[Callable[[], object]], Outside]:
    """Steps in threads that give way to others, at most `count` of them at a time.

    Each thread keeps memory for the largest that it has had to do with.
    """
    executor = ThreadPoolExecutor(count, "bulk")  # starts none before it is needed

    def step(work: Callable[[], object]) -> Outside:
        def start(resume: Resume) -> None:
            loop, begun_s = asyncio.get_running_loop(), list[float]()

            def timed() -> object:
                begun_s.append(loop.time())
                return work()

            def ended(value: object, error: Exception | None) -> None:
                pace.made(begun_s[0], loop.time(), busy())
                resume(value, error)

            begin = partial(in_a_thread(timed, executor).start, ended)
            wait_s = pace.wait_s(loop.time())
            if wait_s > 0:
                loop.call_later(wait_s, begin)
            else:
                begin()

        return Outside(start)

    return step


def paused(seconds: float) -> Outside:
    """A step of the API that lets some time pass."""

    def start(resume: Resume) -> None:
        asyncio.get_running_loop().call_later(seconds, resume, None, None)

    return Outside(start)


def is_of_owner(peer: socket.socket) -> bool:
    """Whether the server's own user or root is at the other end, for any mode of the file."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(raw)
    return uid in (0, os.geteuid())
