"""How requests over HTTP wait for memory before messages are fetched for their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from posthouse.protocols.handlers.conversation import Outside, Resume
from posthouse.protocols.memory import Holder, Loan, MemoryAccount

ROOM_WAIT_S: Final = 30.0


async def granted(holder: Holder, ask: Callable[[], bool]) -> bool:
    """Whether `ask` was granted within half a minute. Those who wait are served in turn."""
    found: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def look() -> None:
        if not found.done() and (holder.gone or ask()):
            found.set_result(None)

    holder.resume = look
    look()
    try:
        async with asyncio.timeout(ROOM_WAIT_S):
            await found
    except TimeoutError:
        return False
    else:
        return True
    finally:
        found.cancel()
        holder.wait_no_more()


async def room_for(
    memory: MemoryAccount, holder: Holder, size: int, take: Callable[[int], None], remedy: str
) -> None:
    """Ends when there was room for these bytes, and `take` has put them on the account."""

    def ask() -> bool:
        if not holder.may_answer(size):
            return False
        take(size)
        return True

    if not await granted(holder, ask):
        raise memory.refusal("answer", remedy)


class Rooms:
    """The steps of one request that wait for memory, and what is fetched with it."""

    def __init__(self, memory: MemoryAccount, holder: Holder) -> None:
        self._memory = memory
        self._holder = holder
        self._loan = Loan(memory, holder)
        self._running: set[asyncio.Task[None]] = set()

    def change(self, size: int) -> None:
        """More bytes, which may be refused, or fewer."""
        self._loan.change(size)

    def end(self) -> None:
        """The answer is there, or is not wanted."""
        self._loan.end()

    def leave(self) -> None:
        """Whoever asked is gone: nothing waits, and nothing is held."""
        for task in list(self._running):
            task.cancel()
        self._holder.leave()

    def room(self, size: int) -> Outside:
        """A step that waits until there is memory for these bytes, and has them then."""

        async def run(resume: Resume) -> None:
            try:
                remedy = "Ask for less, or try again."
                await room_for(self._memory, self._holder, size, self._loan.change, remedy)
            except Exception as error:
                resume(None, error)
            else:
                resume(None, None)

        def start(resume: Resume) -> None:
            task = asyncio.get_running_loop().create_task(run(resume))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        return Outside(start)
