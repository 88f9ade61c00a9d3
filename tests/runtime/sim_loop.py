"""An event loop on simulated time: when nothing is ready the clock goes on to the next timer."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from posthouse.sim import SimClock

T = TypeVar("T")
THREAD_S = 30.0  # how long a thread may take to wake us before a test fails


class SimSelector(selectors.DefaultSelector):
    """Never waits for a timer; waits for real only for threads and sockets."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self.clock = clock
        self.rounds = 0
        self.quiet: list[asyncio.Future[None]] = []

    def select(self, timeout: float | None = None) -> Any:
        self.rounds += 1
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.quiet:
            for future in self.quiet:
                future.set_result(None)
            self.quiet.clear()
        elif timeout is not None:
            self.clock.advance(math.ceil(timeout * 1000))
        else:
            ready = super().select(THREAD_S)
            assert ready, "nothing will ever happen again"
        return ready


class SimLoop(asyncio.SelectorEventLoop):
    """asyncio on a `SimClock`."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.selector = SimSelector(clock)
        super().__init__(self.selector)

    def time(self) -> float:
        return self.clock.now_ms / 1000

    async def quiet(self) -> None:
        """Returns when nothing is left to do now: only timers, threads or sockets."""
        future: asyncio.Future[None] = self.create_future()
        self.selector.quiet.append(future)
        await future

    async def pass_time(self, seconds: float) -> None:
        """Lets so much time go by."""
        future: asyncio.Future[None] = self.create_future()
        self.call_later(seconds, future.set_result, None)
        await future


def run(loop: SimLoop, main: Coroutine[Any, Any, T]) -> T:
    """Runs to the end and closes the loop."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
