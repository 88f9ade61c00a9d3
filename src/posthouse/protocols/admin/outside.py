"""What the API has to do with outside the engine: coroutines, threads, who opened a socket."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from posthouse.protocols.admin.conversation import Outside, Resume

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


def in_few_threads(count: int) -> Callable[[Callable[[], object]], Outside]:
    """The same for steps of which no more than so many run beside each other.

    Each thread keeps memory for the largest that it has had to do with.
    """
    executor = ThreadPoolExecutor(count, "bulk")  # starts none before it is needed
    return lambda work: in_a_thread(work, executor)


def paused(seconds: float) -> Outside:
    """A step of the API that lets some time pass."""

    def start(resume: Resume) -> None:
        asyncio.get_running_loop().call_later(seconds, resume, None, None)

    return Outside(start)


def is_of_owner(peer: socket.socket) -> bool:
    """Whether the server's own user or root is at the other end, whatever the file's mode says."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, uid, _ = _PEER.unpack(raw)
    return uid in (0, os.geteuid())
