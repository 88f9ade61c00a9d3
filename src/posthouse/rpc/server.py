"""DCE/RPC over TCP on asyncio: the listener and its connections ([MS-RPCE] 2.1.1.1)."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Protocol, cast

from posthouse.net.connections import Admission, Connections
from posthouse.net.listening import Listener
from posthouse.net.peer_disconnects import Departures
from posthouse.net.sockets import GONE, address_of, shown_address
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.calls import Counts
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.interface import Interface
from posthouse.rpc.security import Authenticator
from posthouse.rpc.settings import RpcSettings

UNREAD: Final = "a client does not read its answers"
SHORT: Final = "memory is short, and a client does not read its answers"
LINGER_S: Final = 10.0  # for the last bytes to a client that may not read them
POLL_S: Final = 0.01  # while a stop waits for what has begun
ABORT_S: Final = 1.0  # for handles to be run down, where nothing else is waited for
SWEEP_S: Final = 5.0  # how often connections are looked at that should be over
READ_BUFFER: Final = 256 << 10
WRITE_BUFFER: Final = 1 << 20  # above it nothing more is read
SMALL: Final = 64 << 10  # always read, and not worth counting while it is sent
RECEIVE: Final = 0  # what a buffer is for, as the account of memory has it
SEND: Final = 2
# A client that vanished is noticed within a minute, also where nothing is to be sent.


class Holder(Protocol):
    """What one connection holds, on an account of memory."""

    waiting: bool
    bytes: list[int]

    def take(self, kind: int, size: int) -> None:
        """A buffer grew."""
        ...

    def give(self, kind: int, size: int) -> None:
        """A buffer shrank."""
        ...

    def follow(self, size: int, now: Callable[[], int]) -> bool:
        """Something of this size is on its way, perhaps; whether to look again if it may be."""
        ...

    def leave(self) -> None:
        """The connection is gone."""
        ...


class Memory(Protocol):
    """An account of memory that others may share."""

    limit: int
    held: int

    @property
    def used(self) -> int:
        """What is held, and what was announced."""
        ...

    def open(
        self, address: str, close: Callable[[str], None], resume: Callable[[], None]
    ) -> Holder:
        """A holder for a new connection."""
        ...


class Link(asyncio.BufferedProtocol):
    """The TCP connection of a client. All of them read into the one buffer of their server."""

    def __init__(self, server: RpcServer, admission: Admission) -> None:
        self._server = server
        self._admission = admission
        self._connection: ServerConnection | None = None
        self._holder: Holder | None = None
        self._address = ""
        self._unsent: list[bytes] = []  # answers of this round of the loop
        self._unsent_bytes = 0
        self._written = 0  # bytes, ever
        self._is_receiving = False
        self._is_full = False  # the client does not read
        self._taken = 0, 0  # bytes that the client has taken, and when it was seen to take some
        self._linger: asyncio.TimerHandle | None = None

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes the connection in, or turns it away."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._admission.drop = self._transport.abort
        address = address_of(self._transport)
        if address == GONE or self._server.stopping:
            self._transport.abort()
            return
        self._address = address
        self._connection = self._server.connect(self, address)
        if self._server.memory is not None:
            self._holder = self._server.memory.open(address, self._too_much, self._continue)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back."""
        server, memory = self._server, self._server.memory
        if memory is None or 4 * memory.used < memory.limit:
            return server.buffer
        return server.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the client."""
        connection = self._connection
        if connection is None or self._server.stopping:
            return
        self._is_receiving = True
        connection.receive(bytes(self._server.buffer[:nbytes]))
        self._is_receiving = False
        if self._holder is not None:
            self._count()
        if self._admission.unproven and connection.association is not None:
            self._admission.prove()

    def pause_writing(self) -> None:
        """The client does not read fast enough: no more is done for it meanwhile."""
        self._is_full = True
        if self._connection is not None:
            self._connection.hold()
        self._count()
        self._read_or_wait()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_full = False
        self._read_or_wait()
        if self._connection is not None:
            self._is_receiving = True
            self._connection.go_on()
            self._is_receiving = False
        self._count()

    def eof_received(self) -> bool:
        """The client sends nothing more."""
        return self._admission.ends(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, by either side."""
        self._admission.leave()
        if self._connection is None:
            return
        if self._linger is not None:
            self._linger.cancel()
        if self._holder is not None:
            self._holder.leave()
            self._holder = None
        self._server.departures.forget(self._transport)
        self._unsent, self._unsent_bytes = [], 0
        connection, self._connection = self._connection, None
        self._server.left(self)
        connection.lost()

    # -- from the connection

    def send(self, parts: list[bytes]) -> None:
        """Writes; what is answered later, by many methods at once, goes out together."""
        if self._is_receiving and not self._unsent:
            self._write(parts)
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent += parts
        self._unsent_bytes += sum(map(len, parts))
        if self._unsent_bytes > SMALL:
            self._flush()

    def _flush(self) -> None:
        if self._unsent:
            parts, self._unsent, self._unsent_bytes = self._unsent, [], 0
            self._write(parts)
            if self._connection is not None:
                self._connection.look_at_drain()

    def unsent(self) -> int:
        """Bytes that are written and not gone."""
        return self._unsent_bytes + self._transport.get_write_buffer_size()

    def _write(self, parts: list[bytes]) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        self._written += sum(map(len, parts))
        transport.writelines(parts)
        if transport.get_write_buffer_size() > self._server.settings.unsent_max:
            self._too_much(UNREAD)
        elif self._holder is not None and not self._is_receiving:
            self._count()

    def close(self) -> None:
        """Ends it when what was written is sent, or its client does not read it."""
        self._flush()
        if not self._transport.is_closing():
            self._transport.close()
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    # -- memory

    def _count(self) -> None:
        """Puts what the connection holds on the account, and waits where there is no room."""
        holder, connection = self._holder, self._connection
        if holder is None or connection is None:
            return
        _change(holder, RECEIVE, connection.held_bytes)
        if self._holder is not None:  # or that was too much
            self._count_unsent(holder)
        self._look_at_size(connection)

    def _count_unsent(self, holder: Holder) -> None:
        """Where it would fill the account this one goes, before others have to for its sake."""
        unsent, memory = self._transport.get_write_buffer_size(), self._server.memory
        size = unsent if unsent > SMALL else 0
        grown = size - holder.bytes[SEND]
        if memory is not None and grown > 0 and 10 * (memory.held + grown) >= 8 * memory.limit:
            self._too_much(SHORT)
        else:
            _change(holder, SEND, size)

    def _look_at_size(self, connection: ServerConnection) -> None:
        """What is announced is reserved, or is not read before there is room for it."""
        holder = self._holder
        if holder is not None and holder.follow(connection.announced_bytes, self._server.now):
            self._read_or_wait()

    def _too_much(self, reason: str) -> None:
        self._server.refused[reason] += 1
        if self._connection is not None:
            self._connection.drop()
        self._transport.abort()

    def _continue(self) -> None:
        """There may be memory again: what waited asks before it reads on."""
        if self._holder is not None and self._connection is not None:
            self._look_at_size(self._connection)
            self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self._transport.is_closing():
            return
        is_short = self._holder is not None and self._holder.waiting
        if is_short:
            self._server.departures.watch(self._transport, self._left)
        else:
            self._server.departures.forget(self._transport)
        asks = self._connection is not None and self._connection.is_asking
        if self._is_full or is_short or asks or self._server.stopping:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def pace(self) -> None:
        """A login begins or ends to wait for a verdict."""
        self._read_or_wait()

    def _left(self) -> None:
        """The client is gone, and what it holds of the account with it."""
        self._transport.abort()

    # -- time, and the stop

    def look(self, now_ms: int) -> None:
        """Ends a connection whose time is up, or whose client has stopped to read."""
        reason = self._connection.overdue(now_ms) if self._connection is not None else ""
        size = self._transport.get_write_buffer_size()
        taken, since_ms = self._taken
        if not size or self._written - size > taken:
            self._taken = self._written - size, now_ms
        elif now_ms - since_ms > self._server.settings.unfinished_ms:
            reason = UNREAD
        if reason:
            self._too_much(reason)

    def cancel(self) -> None:
        """The server stops: nothing more is read, and what waits is told to end."""
        self._read_or_wait()
        if self._connection is not None:
            self._connection.cancel()

    def shut_down(self) -> None:
        """Asks the client to leave, and closes the connection."""
        if self._connection is not None:
            self._connection.shut_down()

    @property
    def is_busy(self) -> bool:
        """Whether calls are not answered, or answers not sent."""
        calls = self._connection.calls if self._connection is not None else 0
        return calls > 0 or bool(self._unsent) or self._transport.get_write_buffer_size() > 0

    def abort(self) -> None:
        """Waits for nothing."""
        self._transport.abort()


class RpcServer:
    """A port with one or several interfaces; its connections share their association groups."""

    def __init__(
        self,
        interfaces: Sequence[Interface],
        authenticator: Authenticator | None = None,
        settings: RpcSettings | None = None,
        *,
        name: str = "rpc",
        memory: Memory | None = None,
        connections: Connections | None = None,
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        bug: Callable[[Exception], None] | None = None,
    ) -> None:
        self.name = name
        self.interfaces = list(interfaces)
        self.settings = settings or RpcSettings()
        self.groups = AssociationGroups(os.urandom, self.settings.handles_max)
        self.counts = Counts()
        self.refused: Counter[str] = Counter()  # connections, by reason
        self.memory = memory
        self.now = now
        self.stopping = False
        self.links: dict[Link, None] = {}
        self.departures = Departures()  # of clients that are not read from
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.small_buffer = self.buffer[:SMALL]
        self._authenticator = authenticator
        self._connections = connections or Connections()
        self._bug = bug or self._report
        self._listener: Listener | None = None
        self._port = 0
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def calls(self) -> int:
        """Calls that wait for their answers, on all connections."""
        return self.counts.waiting

    # -- connections

    def refuse(self, reason: str) -> None:
        """Counts a connection that was turned away."""
        self.refused[reason] += 1

    def connect(self, link: Link, address: str) -> ServerConnection:
        """What speaks on a new connection."""
        self.links[link] = None
        return ServerConnection(
            self.interfaces,
            self.groups,
            self._authenticator,
            self.settings,
            address,
            link.send,
            link.close,
            now=self.now,
            unsent=link.unsent,
            secondary_address=str(self._port),
            counts=self.counts,
            bug=self._bug,
            paced=link.pace,
        )

    def left(self, link: Link) -> None:
        """A connection has ended."""
        self.links.pop(link, None)

    def _report(self, error: Exception) -> None:
        """Reports a fault of our own code to the loop's exception handler."""
        asyncio.get_running_loop().call_exception_handler(
            {"message": "a remote procedure failed", "exception": error}
        )

    # -- start and stop

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        loop = asyncio.get_running_loop()
        self._listener = Listener(
            lambda admission: Link(self, admission), self._connections, self.refuse
        )
        address = self._listener.start(host, port)
        self._port = address[1]
        self._sweep = loop.call_later(SWEEP_S, self.sweep)
        return shown_address(address)

    def sweep(self) -> None:
        """Ends connections whose time is up; from time to time."""
        now_ms = self.now()
        for link in list(self.links):
            link.look(now_ms)
        self._sweep = asyncio.get_running_loop().call_later(SWEEP_S, self.sweep)

    async def stop(self, deadline_s: float) -> None:
        """Takes no more calls, lets those that wait end, and closes, at the latest then."""
        self.stopping = True
        if self._listener is not None:
            self._listener.close()
        if self._sweep is not None:
            self._sweep.cancel()
        for link in list(self.links):
            link.cancel()
        end = asyncio.get_running_loop().time() + deadline_s
        await self._wait(end, lambda: any(link.is_busy for link in self.links))
        for link in list(self.links):
            link.shut_down()
        await self._wait(end, lambda: bool(self.links))
        for link in list(self.links):
            link.abort()
        await self._wait(asyncio.get_running_loop().time() + ABORT_S, lambda: bool(self.links))
        self.departures.close()

    async def _wait(self, end: float, unfinished: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        while unfinished() and loop.time() < end:
            await asyncio.sleep(POLL_S)


def _change(holder: Holder, kind: int, size: int) -> None:
    grown = size - holder.bytes[kind]
    if grown > 0:
        holder.take(kind, grown)
    elif grown < 0:
        holder.give(kind, -grown)
