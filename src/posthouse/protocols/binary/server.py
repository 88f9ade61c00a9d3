"""The binary protocol on asyncio: the listener, connections to others, pings ([MS-MQQB] 2.1)."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any, Final, cast

from posthouse.model.enumerations import ConnectionStatus
from posthouse.protocols.binary.network import Attempt, Resolved
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.binary.session import Session
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.connections import Connections
from posthouse.protocols.desk import Desk
from posthouse.protocols.memory import (
    RECEIVE,
    SEND,
    SMALL_REQUEST,
    UNSYNCED,
    Holder,
    MemoryAccount,
)
from posthouse.protocols.sockets import (
    GONE,
    UNREACHABLE,
    address_of,
    keep_alive,
    look_up,
    shown_address,
    where_to_listen,
    words_of,
)

POLL_S: Final = 0.01  # while a stop waits for what has begun
LINGER_S: Final = 10.0  # for the last bytes to a peer that may not read them
RESOLVES_MAX: Final = 16  # names looked up at once
CONNECTS_MAX: Final = 256  # connections begun at once
READ_BUFFER: Final = 256 << 10
WRITE_BUFFER: Final = 1 << 20  # above it nothing more is fetched for a peer
_COUNTED: Final = (RECEIVE, UNSYNCED, SEND)


class Connection(asyncio.BufferedProtocol):
    """One TCP connection: the `Transport` of its session.

    All connections read into the one buffer of their node: what is in it is the session's before
    the next of them reads.
    """

    def __init__(self, node: BinaryNode, attempt: Attempt | None = None) -> None:
        self._node = node
        self._attempt = attempt  # None: somebody else connects
        self._session: Session | None = None
        self._holder: Holder | None = None
        self._address = ""
        self._paused = False  # by the session
        self._large = False  # a packet larger than small ones is on its way
        self._linger: asyncio.TimerHandle | None = None
        self.writable = True

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Gives the connection its session, or turns it away."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        address = address_of(self._transport)
        if self._attempt is None and (address == GONE or not self._node.admits(address)):
            self._transport.abort()
            return
        keep_alive(self._transport.get_extra_info("socket"))
        self._address = address
        self._holder = self._node.memory.open(address, self._too_much, self._continue)
        self._node.open.add(self)
        self._session = self._begin()
        if self._session is None:
            self._transport.abort()

    def _begin(self) -> Session | None:
        if self._attempt is None:
            return self._node.protocol.accept(self, self._address)
        return self._attempt.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back."""
        node, memory = self._node, self._node.memory
        return node.buffer if 4 * memory.held < memory.limit else node.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the peer."""
        if self._session is not None and not self._node.stopping:
            self._session.receive(bytes(self._node.buffer[:nbytes]))
            self._count()

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        self.writable = False

    def resume_writing(self) -> None:
        """The peer reads again."""
        self.writable = True
        if self._session is not None:
            self._count()
            self._session.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever made it."""
        if not self._address:
            return
        if self._linger is not None:
            self._linger.cancel()
        if self._holder is not None:
            self._holder.leave()
            self._holder = None
        self._node.left(self, self._address, accepted=self._attempt is None)
        # Nothing refers in a circle, or half a packet would stay until somebody looks for circles.
        session, self._session, self._attempt = self._session, None, None
        if session is not None:
            words = "the peer closed the connection" if exc is None else f"connection lost: {exc}"
            session.lost(words)

    # -- Transport

    def send(self, parts: list[bytes]) -> None:
        """Writes, or keeps what the peer does not take now."""
        self._transport.writelines(parts)
        self._count()

    def close(self) -> None:
        """Ends it when what was written is sent, or its peer does not read it."""
        if not self._transport.is_closing():
            self._transport.close()
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def pause(self) -> None:
        """The session has enough for now."""
        self._paused = True
        self._read_or_wait()

    def resume(self) -> None:
        """The session takes more."""
        self._paused = False
        self._read_or_wait()

    def relieved(self) -> None:
        """What was received has been synced."""
        self._count()

    # -- memory

    def _count(self) -> None:
        """Puts what the session holds on the account, and waits where there is no room."""
        holder, session = self._holder, self._session
        if holder is None or session is None:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent <= SMALL_REQUEST:  # nobody tells when the last of it is gone
            unsent = 0
        sizes = session.held_bytes, max(session.unsynced_bytes, 0), unsent
        for kind, size in zip(_COUNTED, sizes, strict=True):
            grown = size - holder.bytes[kind]
            if grown > 0:
                holder.take(kind, grown)
            elif grown < 0:
                holder.give(kind, -grown)
        self._look_at_packet(holder, sizes[0])
        if sizes[1] and not holder.waiting and holder.is_ahead_of_disk:
            holder.wait()
            self._read_or_wait()

    def _look_at_packet(self, holder: Holder, unfinished: int) -> None:
        large = unfinished > SMALL_REQUEST
        if large and not self._large:
            self._large = holder.may_begin(unfinished, self._node.now())
            self._read_or_wait()
        elif self._large and not large:
            self._large = False
            holder.finished()

    def _too_much(self, reason: str) -> None:
        self._node.protocol.refused(reason)
        self._transport.abort()

    def _continue(self) -> None:
        """There may be memory again: what waited asks before it reads on."""
        if self._holder is not None and self._session is not None:
            self._look_at_packet(self._holder, self._session.held_bytes)
            self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self._transport.is_closing():
            return
        short = self._holder is not None and self._holder.waiting
        if self._paused or short or self._node.stopping:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # -- the stop

    def stop_reading(self) -> None:
        """The server stops: what came is acknowledged as far as it is safe, nothing more comes."""
        self._read_or_wait()

    @property
    def unsynced(self) -> bool:
        """Whether messages of the peer are not safe yet."""
        return self._session is not None and self._session.unsynced_bytes > 0


class BinaryNode:
    """The protocol with its `Network`: what the listener and the ping port share."""

    def __init__(
        self,
        desk: Desk,
        settings: BinarySettings,
        *,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.memory = memory or MemoryAccount()
        self.connections = connections or Connections()
        self.now = now
        self.stopping = False
        self.open: set[Connection] = set()
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.small_buffer = self.buffer[:SMALL_REQUEST]
        self.protocol = BinaryProtocol(desk, settings, self, now)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._resolving = asyncio.Semaphore(RESOLVES_MAX)
        self._connecting = asyncio.Semaphore(CONNECTS_MAX)
        self._askers: dict[int, asyncio.DatagramTransport] = {}

    # -- connections

    def admits(self, address: str) -> bool:
        """Counts a connection that somebody opened in, or says no."""
        reason = "stopping" if self.stopping else self.connections.admit(address)
        if reason:
            self.protocol.refused(reason)
        return not reason

    def left(self, connection: Connection, address: str, *, accepted: bool) -> None:
        """A connection has ended."""
        self.open.discard(connection)
        if accepted:
            self.connections.leave(address)

    # -- Network

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(when_ms - self.now(), 0) / 1000
        self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self.stopping:
            self.protocol.tick()

    def resolve(self, host: str, done: Resolved) -> None:
        """Asks the system's resolver, in a thread."""
        self._run(self._resolve(host, done))

    async def _resolve(self, host: str, done: Resolved) -> None:
        addresses: list[str] = []
        words = ""
        try:
            async with self._resolving:
                addresses = await look_up(host)
        except UNREACHABLE as error:
            words = f"{host} cannot be resolved: {words_of(error)}"
        done(addresses, words)

    def connect(self, address: str, port: int, attempt: Attempt) -> None:
        """Connects within `connect_timeout_ms`."""
        self._run(self._connect(address, port, attempt))

    async def _connect(self, address: str, port: int, attempt: Attempt) -> None:
        where = f"{address} port {port}"
        try:
            async with self._connecting, asyncio.timeout(self.settings.connect_timeout_ms / 1000):
                await self._loop.create_connection(lambda: Connection(self, attempt), address, port)
        except TimeoutError:
            attempt.failed(_STATUS.SOCKET_CONNECT_FAILURE, f"{where} does not answer")
        except ConnectionRefusedError:
            attempt.failed(_STATUS.CONNECTION_REFUSED, f"nobody listens on {where}")
        except UNREACHABLE as error:
            words = f"{where} cannot be reached: {words_of(error)}"
            attempt.failed(_STATUS.SOCKET_CONNECT_FAILURE, words)

    def ping(self, address: str, datagram: bytes) -> None:
        """Sends from a port of our own, on which the answer is awaited (2.1.2)."""
        self._run(self._ping(address, datagram))

    async def _ping(self, address: str, datagram: bytes) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            asker = self._askers.get(family)
            if asker is None:
                asker, _ = await self._loop.create_datagram_endpoint(
                    lambda: _Answers(self.protocol), family=family
                )
                self._askers[family] = asker
            asker.sendto(datagram, (address, self.settings.ping_port))
        except OSError:
            return  # the timer says no

    def _run(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the stop

    async def stop(self, deadline_s: float) -> None:
        """Reads nothing more; closes when what came is safe and acknowledged, or time is up."""
        self.stopping = True
        self.protocol.stopping = True
        for connection in list(self.open):
            connection.stop_reading()
        end = self._loop.time() + deadline_s
        while self._loop.time() < end and any(one.unsynced for one in self.open):
            await asyncio.sleep(POLL_S)
        self.protocol.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        for asker in self._askers.values():
            asker.close()
        await asyncio.sleep(0)


_STATUS = ConnectionStatus


class _Answers(asyncio.DatagramProtocol):
    """The port that pings are sent from."""

    def __init__(self, protocol: BinaryProtocol) -> None:
        self._protocol = protocol

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """An answer, perhaps."""
        self._protocol.ping_answered(data, str(addr[0]))


class BinaryServer:
    """The endpoint `binary`: the listener for sessions (2.1.1)."""

    name = "binary"

    def __init__(self, node: BinaryNode, listening: Callable[[int], None] = lambda port: None):
        self._node = node
        self._listening = listening  # told the port, before anything is sent
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens, then connects for what waits; returns `address:port`."""
        loop = asyncio.get_running_loop()
        where = where_to_listen(host, port, socket.SOCK_STREAM)
        self._server = await loop.create_server(
            lambda: Connection(self._node), **where, backlog=1024
        )
        address = self._server.sockets[0].getsockname()
        self._listening(address[1])
        self._node.protocol.start()
        return shown_address(address)

    async def stop(self, deadline_s: float) -> None:
        """Queue Manager Stopped (3.1.4.2)."""
        if self._server is not None:
            self._server.close()
        await self._node.stop(deadline_s)


class PingServer:
    """The endpoint `ping`: answers on UDP (2.1.2, 3.1.7.7)."""

    name = "ping"

    def __init__(self, node: BinaryNode) -> None:
        self._node = node
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        loop = asyncio.get_running_loop()
        where = where_to_listen(host, port, socket.SOCK_DGRAM)
        if "sock" not in where:
            where = {"local_addr": (host, port)}
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Requests(self._node.protocol), **where
        )
        return shown_address(self._transport.get_extra_info("sockname"))

    async def stop(self, deadline_s: float) -> None:
        """Answers nobody any more."""
        if self._transport is not None:
            self._transport.close()


class _Requests(asyncio.DatagramProtocol):
    """The ping port. An answer goes to where its request came from, and is no larger."""

    def __init__(self, protocol: BinaryProtocol) -> None:
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The port is open."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Receive Ping Request (3.1.7.7)."""
        answer = self._protocol.ping_asked(data)
        if answer is not None:
            self._transport.sendto(answer, addr)
