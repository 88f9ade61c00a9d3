"""SRMP on asyncio: the listeners for HTTP and HTTPS, connections to others ([MC-MQSRM] 2.1.1)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Final, cast

from posthouse.model.enumerations import ConnectionStatus
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
from posthouse.protocols.srmp.connection import Connection
from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.http_reader import ResponseReader
from posthouse.protocols.srmp.http_writer import connect_request
from posthouse.protocols.srmp.network import Attempt, Owner, Resolved, Secure
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.srmp.settings import SrmpSettings

POLL_S: Final = 0.01  # while a stop waits for what has begun
LINGER_S: Final = 10.0  # for the last bytes to a peer that may not read them
HANDSHAKE_S: Final = 20.0  # of TLS
RESOLVES_MAX: Final = 16  # names looked up at once
CONNECTS_MAX: Final = 256  # connections begun at once
READ_BUFFER: Final = 256 << 10
WRITE_BUFFER: Final = 1 << 20


class Wire(asyncio.BufferedProtocol):
    """One TCP connection: the `Transport` of its owner.

    All connections read into the one buffer of their node: what is in it is the owner's before the
    next of them reads.
    """

    def __init__(self, node: SrmpNode, attempt: Attempt | None = None) -> None:
        self._node = node
        self._attempt = attempt  # None: somebody else connects
        self._owner: Owner | None = None
        self._holder: Holder | None = None
        self._address = ""
        self._paused = False  # by the owner
        self._large = False  # a request larger than small ones is on its way
        self._linger: asyncio.TimerHandle | None = None
        self.writable = True
        self.local_address = ""

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Gives the connection its owner, or turns it away."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        address = address_of(self._transport)
        if self._attempt is None and (address == GONE or not self._node.admits(address)):
            self._transport.abort()
            return
        keep_alive(self._transport.get_extra_info("socket"))
        self._address = address
        here = self._transport.get_extra_info("sockname")
        self.local_address = str(here[0]).removeprefix("::ffff:") if here else ""
        self._holder = self._node.memory.open(address, self._too_much, self._continue)
        self._node.open.add(self)
        self._owner = self._begin()
        if self._owner is None:
            self._transport.abort()

    def _begin(self) -> Owner | None:
        if self._attempt is None:
            return self._node.protocol.accept(self, self._address)
        return self._attempt.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back."""
        node, memory = self._node, self._node.memory
        return node.buffer if 4 * memory.held < memory.limit else node.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the peer."""
        if self._owner is not None and not self._node.stopping:
            self._owner.receive(bytes(self._node.buffer[:nbytes]))
            self._count()

    def eof_received(self) -> bool:
        """A peer that sends no more may still read what it waits for; over TLS it may not."""
        owner = self._owner
        if isinstance(owner, Connection) and owner.is_waiting:
            owner.finish()
            return self._transport.get_extra_info("ssl_object") is None
        return False

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        self.writable = False
        self._read_or_wait()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self.writable = True
        self._read_or_wait()
        if self._owner is not None:
            self._count()
            self._owner.pump()

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
        # Nothing refers in a circle, or half a request would stay until somebody looks for circles.
        owner, self._owner, self._attempt = self._owner, None, None
        if owner is not None:
            words = "the peer closed the connection" if exc is None else f"connection lost: {exc}"
            owner.lost(words)

    # -- Transport

    def send(self, parts: list[bytes]) -> None:
        """Writes, or keeps what the peer does not take now."""
        self._transport.writelines(parts)
        if not self.writable:
            self._count()

    def close(self) -> None:
        """Ends it when what was written is sent, or its peer does not read it."""
        if not self._transport.is_closing():
            self._transport.close()
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._transport.abort)

    def pause(self) -> None:
        """The owner has enough for now."""
        self._paused = True
        self._read_or_wait()

    def resume(self) -> None:
        """The owner takes more."""
        self._paused = False
        self._read_or_wait()

    def relieved(self) -> None:
        """What was received has been answered."""
        self._count()

    # -- memory

    def _count(self) -> None:
        """Puts what the owner holds on the account, and waits where there is no room."""
        holder, owner = self._holder, self._owner
        if holder is None or owner is None:
            return
        held, unsynced, bytes_of = owner.held_bytes, owner.unsynced_bytes, holder.bytes
        unsent = 0 if self.writable else self._transport.get_write_buffer_size()
        if held != bytes_of[RECEIVE]:
            holder.hold(RECEIVE, held)
        if unsynced != bytes_of[UNSYNCED]:
            holder.hold(UNSYNCED, unsynced)
        if unsent != bytes_of[SEND]:
            holder.hold(SEND, unsent)
        if self._large or held > SMALL_REQUEST:
            self._look_at_request(holder, held)
        if unsynced and not holder.waiting and holder.is_ahead_of_disk:
            holder.wait()
            self._read_or_wait()

    def _look_at_request(self, holder: Holder, unfinished: int) -> None:
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
        if self._holder is not None and self._owner is not None:
            self._look_at_request(self._holder, self._owner.held_bytes)
            self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self._transport.is_closing():
            return
        short = self._holder is not None and self._holder.waiting
        # Who does not read our answers does not get to ask for more of them.
        deaf = not self.writable and isinstance(self._owner, Connection)
        if self._paused or short or deaf or self._node.stopping:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # -- the stop

    def stop_reading(self) -> None:
        """The server stops: what came is answered, nothing more comes."""
        self._read_or_wait()

    @property
    def unsynced(self) -> bool:
        """Whether requests of the peer are not answered yet."""
        return self._owner is not None and self._owner.unsynced_bytes > 0


class Tunnel(asyncio.Protocol):
    """The way to a proxy, until it has opened the way on (RFC 9110 9.3.6)."""

    def __init__(self, target: str, settings: SrmpSettings) -> None:
        self.answered: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        self._target = target
        self._reader = ResponseReader(settings, without_bodies=True)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks."""
        cast(asyncio.Transport, transport).write(connect_request(self._target))

    def data_received(self, data: bytes) -> None:
        """The answer; nothing may follow it before we speak."""
        heads = self._reader.feed(data)
        if self.answered.done():
            return
        if self._reader.error is not None:
            self.answered.set_exception(ConnectionError(self._reader.error.words))
        elif heads:
            self.answered.set_result(heads[0])

    def connection_lost(self, exc: Exception | None) -> None:
        """No answer will come."""
        if not self.answered.done():
            self.answered.set_exception(ConnectionError("the proxy closed the connection"))


class SrmpNode:
    """The protocol with its `Network`: what both listeners share."""

    def __init__(
        self,
        desk: Desk,
        settings: SrmpSettings,
        *,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        trust: ssl.SSLContext | None = None,
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.desk = desk
        self.settings = settings
        self.memory = memory or MemoryAccount()
        self.connections = connections or Connections()
        self.trust = trust or ssl.create_default_context()  # of peers that we connect to
        self.now = now
        self.stopping = False
        self.open: set[Wire] = set()
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.small_buffer = self.buffer[:SMALL_REQUEST]
        self.protocol = SrmpProtocol(desk, settings, self, now)
        self.listeners = 0  # that are still to open
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._resolving = asyncio.Semaphore(RESOLVES_MAX)
        self._connecting = asyncio.Semaphore(CONNECTS_MAX)
        self._stopped: asyncio.Future[None] | None = None

    # -- connections

    def admits(self, address: str) -> bool:
        """Counts a connection that somebody opened in, or says no."""
        reason = "stopping" if self.stopping else self.connections.admit(address)
        if reason:
            self.protocol.refused(reason)
        return not reason

    def left(self, wire: Wire, address: str, *, accepted: bool) -> None:
        """A connection has ended."""
        self.open.discard(wire)
        if accepted:
            self.connections.leave(address)

    def listens(self, scheme: str, address: str, port: int) -> None:
        """A listener is open; with the last of them sending begins."""
        self.protocol.listens(scheme, address, port)
        self.listeners -= 1
        if not self.listeners:
            self.protocol.start()

    # -- Network

    def soon(self, action: Callable[[], None]) -> None:
        """In the next round of the loop."""
        self._loop.call_soon(action)

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

    def connect(self, address: str, port: int, secure: Secure | None, attempt: Attempt) -> None:
        """Connects within `connect_timeout_ms`."""
        self._run(self._connect(address, port, secure, attempt))

    async def _connect(
        self, address: str, port: int, secure: Secure | None, attempt: Attempt
    ) -> None:
        where = f"{address} port {port}"
        try:
            async with self._connecting, asyncio.timeout(self.settings.connect_timeout_ms / 1000):
                await self._open(address, port, secure, attempt)
        except TimeoutError:
            attempt.failed(_STATUS.SOCKET_CONNECT_FAILURE, f"{where} does not answer")
        except ConnectionRefusedError:
            attempt.failed(_STATUS.CONNECTION_REFUSED, f"nobody listens on {where}")
        except ssl.SSLError as error:
            words = f"{where} is not trusted: {getattr(error, 'verify_message', '') or error}"
            attempt.failed(_STATUS.CERTIFICATE_VALIDATION_FAILURE, words)
        except UNREACHABLE as error:
            words = f"{where} cannot be reached: {words_of(error)}"
            attempt.failed(_STATUS.SOCKET_CONNECT_FAILURE, words)

    async def _open(self, address: str, port: int, secure: Secure | None, attempt: Attempt) -> None:
        if secure is None:
            await self._loop.create_connection(lambda: Wire(self, attempt), address, port)
        elif not secure.tunnel:
            await self._loop.create_connection(
                lambda: Wire(self, attempt),
                address,
                port,
                ssl=self.trust,
                server_hostname=secure.server_name,
            )
        else:
            await self._open_tunnel(address, port, secure, attempt)

    async def _open_tunnel(self, address: str, port: int, secure: Secure, attempt: Attempt) -> None:
        """TLS with the peer, by way of a proxy that sees nothing of it."""
        transport, tunnel = await self._loop.create_connection(
            lambda: Tunnel(secure.tunnel, self.settings), address, port
        )
        try:
            head = await tunnel.answered
            if not 200 <= head.status < 300:
                raise ConnectionError(f"the proxy answered {head.status} {head.reason}".strip())
            wire = Wire(self, attempt)
            inner = await self._loop.start_tls(
                transport, wire, self.trust, server_hostname=secure.server_name
            )
        except BaseException:
            transport.abort()
            raise
        assert inner is not None
        wire.connection_made(inner)

    def _run(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the stop

    async def stop(self, deadline_s: float) -> None:
        """Reads nothing more; closes when what came is answered, or time is up."""
        if self._stopped is not None:  # the other listener does it
            await self._stopped
            return
        self._stopped = self._loop.create_future()
        self.stopping = True
        self.protocol.stopping = True
        for wire in list(self.open):
            wire.stop_reading()
        end = self._loop.time() + deadline_s
        while self._loop.time() < end and any(wire.unsynced for wire in self.open):
            await asyncio.sleep(POLL_S)
        self.protocol.stop()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)
        self._stopped.set_result(None)


_STATUS = ConnectionStatus


class SrmpServer:
    """The endpoint `http`, or with a certificate `https`."""

    def __init__(
        self,
        node: SrmpNode,
        context: ssl.SSLContext | None = None,
        listening: Callable[[int], None] = lambda port: None,
    ) -> None:
        self.name = "http" if context is None else "https"
        node.listeners += 1
        self._node = node
        self._context = context
        self._listening = listening  # told the port, before anything is sent
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        loop = asyncio.get_running_loop()
        where = where_to_listen(host, port, socket.SOCK_STREAM)
        if self._context is not None:
            where |= {"ssl": self._context, "ssl_handshake_timeout": HANDSHAKE_S}
        self._server = await loop.create_server(lambda: Wire(self._node), **where, backlog=1024)
        address = self._server.sockets[0].getsockname()
        self._listening(address[1])
        self._node.listens(self.name, address[0], address[1])
        return shown_address(address)

    async def stop(self, deadline_s: float) -> None:
        """Accepts nothing more, and ends what is open."""
        if self._server is not None:
            self._server.close()
        await self._node.stop(deadline_s)
