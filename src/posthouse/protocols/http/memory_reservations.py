"""Memory reservations: HTTP requests wait for memory before messages are fetched for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from posthouse.model.errors import InsufficientResources, OperationCancelled
from posthouse.protocols.handlers.request_steps import Outside, Resume
from posthouse.protocols.memory import FETCHED, SEND, Holder, MemoryAccount

ROOM_WAIT_S: Final = 30.0


class Awaited:
    """The steps of one request that are coroutines: they end when the caller has gone."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def step(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Outside:
        """A step that ends with its coroutine, with its value or its error."""

        def start(resume: Resume) -> None:
            task = asyncio.get_running_loop().create_task(work())
            self._running.add(task)
            task.add_done_callback(partial(self._ended, resume))

        return Outside(start)

    def _ended(self, resume: Resume, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, Exception)
        if task.cancelled() or isinstance(error, ConnectionError):
            resume(None, OperationCancelled("the caller has gone"))
        else:
            resume(None if error else task.result(), error)

    def cancel(self) -> None:
        """The client has left: cancels what waits."""
        for task in list(self._running):
            task.cancel()


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


class Loan:
    """What one request has fetched for its answer."""

    def __init__(self, account: MemoryAccount, holder: Holder) -> None:
        self._account = account
        self._holder = holder
        self._size = 0

    def take(self, size: int) -> bool:
        """Whether there was room for these bytes; then they are on the account."""
        holder = self._holder
        if holder.gone:  # what runs on after its client left is not counted
            return True
        if not self._account.may_hold(holder, size):
            return False
        holder.take(FETCHED, size)
        self._size += size
        return True

    def change(self, size: int) -> None:
        """More bytes, which may be refused, or fewer."""
        if size > 0 and not self.take(size):
            raise self._refusal()
        if size < 0 and not self._holder.gone:
            self._holder.give(FETCHED, -size)
            self._size += size

    def send(self, size: int, *, in_any_case: bool) -> None:
        """Turns fetched bytes into those of an answer, which count until it is sent.

        What the answer takes beyond that may be refused. No other request is admitted in between.
        """
        holder, fetched = self._holder, self._size
        if holder.gone:
            return
        if not (in_any_case or self._account.may_hold(holder, size, instead=fetched)):
            raise self._refusal()
        self._size = 0
        holder.turn(FETCHED, SEND, fetched)
        holder.hold(SEND, size)

    def _refusal(self) -> InsufficientResources:
        return self._account.refusal("answer", "Ask for less, or try again.")


class Rooms:
    """The steps of one request that wait for memory, and what is fetched with it."""

    def __init__(self, memory: MemoryAccount, holder: Holder) -> None:
        self._memory = memory
        self._holder = holder
        self._loan = Loan(memory, holder)
        self._waits = Awaited()
        self._left = self._working = False

    def take(self, size: int) -> bool:
        """Whether there was room for these bytes; then they are on the account."""
        return self._loan.take(size)

    def change(self, size: int) -> None:
        """More bytes, which may be refused, or fewer."""
        self._loan.change(size)

    def send(self, size: int, *, in_any_case: bool) -> None:
        """The answer is there; what was fetched for it is not needed."""
        self._loan.send(size, in_any_case=in_any_case)

    def begin(self) -> None:
        """The steps of the request begin."""
        self._working = True

    def finished(self) -> None:
        """They have ended, perhaps for somebody who has gone."""
        self._working = False
        if self._left:
            self._holder.leave()

    def cancel(self) -> None:
        """The caller has lost their rights, or has gone: ends steps that wait or are coroutines."""
        self._waits.cancel()

    def leave(self) -> None:
        """The client has left: nothing waits, and nothing is held once the steps have ended."""
        self._left = True
        self.cancel()
        if not self._working:
            self._holder.leave()

    def room(self, size: int) -> Outside:
        """A step that waits until there is memory for these bytes, and has them then."""
        remedy = "Ask for less, or try again."
        take = self._loan.change
        return self._waits.step(lambda: room_for(self._memory, self._holder, size, take, remedy))

    def until_gone(self, work: Callable[[], Coroutine[Any, Any, object]]) -> Outside:
        """A step that ends with its coroutine, which is cancelled when the caller has gone."""
        return self._waits.step(work)
