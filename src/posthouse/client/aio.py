"""The asyncio session: an asyncio protocol around the core.

Frames of one round of the event loop leave together.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from posthouse.client.address import Address
from posthouse.client.blocking import FRUITLESS_MAX, LOOK_S, RETRY_FIRST_S, RETRY_MAX_S, spread
from posthouse.client.connection_log import log_attempt, log_given_up, log_lost, log_restored
from posthouse.client.core import SessionCore
from posthouse.client.errors import SessionEnded
from posthouse.client.operations import Operation, ask
from posthouse.client.process_ownership import of_the_parent, watch
from posthouse.client.requests import Request, TransactionHandle
from posthouse.client.session_upgrade import (
    Upgrading,
    as_connection_error,
    lost_connection,
    out_of_reach,
    unreachable,
    upgrade_request,
    worth_retrying,
)
from posthouse.model.errors import QueueError, RemoteProtocolError

T = TypeVar("T")


class _Connection(asyncio.Protocol):
    """One connection: the upgrade first, then frames for the core."""

    def __init__(self, channel: AioChannel, address: Address) -> None:
        self._channel = channel
        self._address = address
        self._upgrading: Upgrading | None = Upgrading(address)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks for a session."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(upgrade_request(self._address))

    def data_received(self, data: bytes) -> None:
        """Bytes for the upgrade or the core."""
        try:
            if self._upgrading is not None:
                rest = self._upgrading.receive(data)
                if rest is None:
                    return
                self._upgrading, data = None, rest
                self._channel.begun(self)
            self._channel.received(self, data)
        except (OSError, RemoteProtocolError, QueueError) as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, by either side."""
        error = exc or SessionEnded("the queue manager closed the connection")
        self._fail(self._upgrading.ended() if self._upgrading is not None else error)

    def _fail(self, error: Exception) -> None:
        if not self.ready.done():
            self.ready.set_exception(as_connection_error(error))
        self._channel.lost(self, error)
        if self.transport is not None:
            self.transport.abort()


class AioChannel:
    """Runs operations over a connection."""

    def __init__(
        self,
        address: Address,
        session: bytes,
        client: str,
        timeout: float,
        reconnect: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.core = SessionCore(session, client, self._loop.time)
        self._address = address
        self._timeout = timeout
        self._reconnect = reconnect
        self._tls = tls
        self._connection: _Connection | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._flushing = False
        self._closed = False
        self._forked = False  # this is a child of the process that opened it
        self._fruitless = 0
        self._failed = False  # an attempt at another connection
        self._overdue: asyncio.TimerHandle | None = None  # of reads, while there is no connection
        self._reason: Exception = _closed()  # why the last connection broke
        # Tasks whose cancellation was held back, and how often they were cancelled by then.
        self._held_back: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()  # consumers that the program has dropped
        watch(self)

    # -- operations

    async def run(self, operation: Operation[T]) -> T:
        """Drives an operation to its end."""
        if self._forked:
            raise of_the_parent()
        if self._is_owed():
            raise asyncio.CancelledError
        try:
            while True:
                request = next(operation)
                self._flush_soon()
                if request is None:
                    await self._room()
                elif not request.done:
                    await self._wait(request)
        except StopIteration as end:
            value: T = end.value
            return value
        finally:
            self._flush_soon()  # frames of the last step that no caller waits for

    def abandon(self, close: Callable[[], Operation[None]]) -> None:
        """Close a consumer that the program has dropped, in the next round of the event loop."""
        if not self._forked and not self._closed:
            with suppress(RuntimeError):  # the loop is closed, and the session with it
                self._loop.call_soon_threadsafe(self._close_abandoned, close)

    def _close_abandoned(self, close: Callable[[], Operation[None]]) -> None:
        task = self._loop.create_task(self.run(close()))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def ask(self, request: Request) -> Any:
        """One request and its answer."""
        return await self.run(ask(self.core, request))

    def begin_transaction(self) -> TransactionHandle:
        """A new transaction; nothing waits for its beginning."""
        if self._forked:
            raise of_the_parent()
        try:
            return self.core.begin_transaction()
        finally:
            self._flush_soon()

    async def _wait(self, request: Request) -> None:
        """Waits until a request is done. A request with `holds` delays a cancellation until then.

        The task is cancelled the next time it waits, unless the cancellation was withdrawn
        meanwhile, as a timeout does when its block is left.
        """
        done = self._loop.create_future()

        def tell() -> None:
            if not done.done():
                done.set_result(None)

        request.on_done += (tell,)
        if self._connection is None:
            self._look_at(request.deadline)
        if request.holds:
            if await _held(done):
                self._owe()
            return
        try:
            if self._is_owed():
                raise asyncio.CancelledError
            await done
        except asyncio.CancelledError:
            self.core.abandon(request)
            self._flush_soon()
            raise

    def _owe(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._held_back[task] = task.cancelling()
            self._loop.call_soon(self._pay, task)  # its turn is when the task waits again

    def _pay(self, task: asyncio.Task[Any]) -> None:
        """Cancels a task that waits for something else than this session."""
        if 0 < self._held_back.pop(task, 0) <= task.cancelling() and not task.done():
            task.uncancel()  # the same cancellation, not one more
            task.cancel()

    def _is_owed(self) -> bool:
        """Whether this task's cancellation is still to come."""
        if not self._held_back:
            return False
        task = asyncio.current_task()
        count = self._held_back.pop(task, 0) if task is not None else 0
        return task is not None and 0 < count <= task.cancelling()

    async def _room(self) -> None:
        """Lets the loop write what was handed over."""
        self._flush()
        await asyncio.sleep(0)

    def _flush_soon(self) -> None:
        if self._closed:
            self.core.fail(_closed())
        elif self._connection is None:
            if self.core.busy:
                self._connect_soon()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        connection = self._connection
        if connection is not None and connection.transport is not None:
            outgoing = self.core.take_outgoing()
            if outgoing:
                connection.transport.writelines(outgoing)

    # -- the connection

    async def connect(self) -> None:
        """The first connection; raises what is in the way."""
        await self._connect(self._timeout)

    async def _connect(self, timeout: float) -> None:
        address, loop = self._address, self._loop
        connection = _Connection(self, address)
        try:
            async with asyncio.timeout(timeout):
                if address.home is not None:
                    path = str(address.socket_path)
                    await loop.create_unix_connection(lambda: connection, path)
                else:
                    tls = (self._tls or True) if address.tls else None
                    await loop.create_connection(
                        lambda: connection, address.host, address.port, ssl=tls
                    )
                await connection.ready
        except BaseException as error:
            connection.ready.cancel()
            if connection.transport is not None:
                connection.transport.abort()
            self.lost(connection, error if isinstance(error, Exception) else _closed())
            if isinstance(error, OSError):
                raise unreachable(address, error) from None
            raise

    def begun(self, connection: _Connection) -> None:
        """The upgrade is done: the session begins."""
        self._connection = connection
        self.core.begin()
        self._flush()

    def received(self, connection: _Connection, data: bytes) -> None:
        """Frames of the queue manager."""
        if connection is not self._connection:
            return
        self.core.receive(data)
        if self.core.open and not connection.ready.done():
            connection.ready.set_result(None)
        self._flush_soon()

    def lost(self, connection: _Connection, error: Exception) -> None:
        """The connection is gone; if anybody waits, another one is tried."""
        if connection is not self._connection:
            return
        self._connection = None
        self._reason = lost_connection(error)
        self._fruitless = 0 if self.core.answers else self._fruitless + 1
        self.core.lost()
        self._failed = False
        self._give_up_overdue()
        if self.core.busy:
            self._connect_soon()

    def _look_at(self, deadline: float | None) -> None:
        """Looks then for reads that have waited long enough."""
        if deadline is None or self._closed:
            return
        when = max(deadline, self._loop.time() + LOOK_S)
        if self._overdue is not None:
            if self._overdue.when() <= when:
                return
            self._overdue.cancel()
        self._overdue = self._loop.call_at(when, self._give_up_overdue)

    def _give_up_overdue(self) -> None:
        """They end, once an attempt at another connection has failed."""
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if self._connection is None:
            now = self._loop.time()
            tried = now if self._failed else now - RETRY_MAX_S
            self._look_at(self.core.give_up(tried, out_of_reach(self._reason)))

    def _connect_soon(self) -> None:
        if self._reconnecting is None and not self._closed:
            self._reconnecting = self._loop.create_task(self._connect_again())

    async def _connect_again(self) -> None:
        """Tries until the time for it is over; then everything that waits ends."""
        try:
            if not await self._tried_again():
                log_given_up(self.core.computer, self._reason)
                self._fruitless = 0
                self.core.fail(self._reason)
        finally:
            self._reconnecting = None
        if self._connection is None and self.core.busy:
            self._connect_soon()

    async def _tried_again(self) -> bool:
        begun, manager = self._loop.time(), self.core.computer
        deadline, pause = begun + self._reconnect, RETRY_FIRST_S
        log_lost(manager, self._reason, self._reconnect)
        while self._fruitless < FRUITLESS_MAX and self.core.busy:
            left = deadline - self._loop.time()
            if left <= 0:
                return False
            try:
                await self._connect(max(RETRY_MAX_S, min(self._timeout, left)))
                log_restored(manager, self._loop.time() - begun)
                return True
            except (OSError, QueueError) as error:
                self._reason, self._failed = error, True
                log_attempt(manager, error)
                if not worth_retrying(error):
                    return False
            await asyncio.sleep(min(spread(pause), max(0.0, deadline - self._loop.time())))
            pause = min(2 * pause, RETRY_MAX_S)
        return not self.core.busy

    async def close(self) -> None:
        """Ends the session; who waits gets an error."""
        if self._forked:
            return
        self._closed = True
        task, connection = self._reconnecting, self._connection
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._connection = None
        self.core.fail(_closed())
        self._give_up_overdue()
        if connection is not None and connection.transport is not None:
            connection.transport.close()

    def forked(self) -> None:
        """A child has no session, and its event loop is another."""
        self._forked = True


async def _held(done: asyncio.Future[None]) -> bool:
    """Waits to the end, also when cancelled: a message that is ended belongs to its receiver.

    Returns whether it was.
    """
    cancelled = False
    while not done.done():
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _closed() -> SessionEnded:
    return SessionEnded("this session has been closed")
