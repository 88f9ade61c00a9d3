"""Delivers what an embedded queue manager sends to other computers, from a thread of its own.

The engine belongs to the holder of the link's lock; the sockets belong to this thread. It begins
when the first message for another computer is there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from posthouse.engine.manager import QueueManager
from posthouse.protocols.binary.server import BinaryNode
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.engine_calls import Call, Desk, Release

STOP_S = 2.0  # what has come is stored and acknowledged within that time


class SettlingDesk(Desk, Protocol):
    """The desk of an embedded queue manager."""

    def settle(self) -> None:
        """Writes, syncs and lets out what was decided."""
        ...


class CourierDesk:
    """The embedded desk for this thread: a call is durable, and let out, when it returns."""

    def __init__(self, desk: SettlingDesk, lock: AbstractContextManager[object]) -> None:
        self._desk = desk
        self._lock = lock

    @property
    def manager(self) -> QueueManager:
        """The engine."""
        return self._desk.manager

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in a turn of its own, or in the one that is being let out."""
        with self._lock:
            self._desk.decide(call, release)
            self._desk.settle()


class Courier:
    """The binary protocol, for connections of our own only."""

    def __init__(self, desk: SettlingDesk, lock: AbstractContextManager[object]) -> None:
        self._desk = CourierDesk(desk, lock)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._node: BinaryNode | None = None
        self._ending: asyncio.Event | None = None
        self._started = threading.Event()
        self._stopped = False

    def active(self, queues: set[int]) -> None:
        """Outgoing queues have something to send; called by the thread that runs the engine."""
        if self._stopped:
            return  # what is left to send waits for the next start
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="posthouse-courier", daemon=True)
            self._thread.start()
        self._tell(lambda: self._look(set(queues)))

    def _tell(self, call: Callable[[], None]) -> None:
        self._started.wait()
        if self._loop is not None:  # else the system had no room for one, and nothing is delivered
            self._loop.call_soon_threadsafe(call)

    def _look(self, queues: set[int]) -> None:
        if self._node is not None and not self._node.stopping:
            self._node.protocol.active(queues)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._started.set()  # the thread that waits for it holds the lock of the engine

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._node = BinaryNode(self._desk, BinarySettings())
        self._started.set()
        await self._ending.wait()
        await self._node.stop(STOP_S)

    def stop(self) -> None:
        """Ends all sessions, for good. The lock must be free."""
        self._stopped = True
        if self._thread is None:
            return
        ending = self._ending
        self._tell(lambda: ending.set() if ending is not None else None)
        self._thread.join()
        self._thread = None
