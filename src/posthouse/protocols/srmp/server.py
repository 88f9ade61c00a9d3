"""SRMP on asyncio: the listeners for HTTP and HTTPS, connections to others ([MC-MQSRM] 2.1.1)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final, cast

from posthouse.net.connections import Admission, Connections
from posthouse.net.listening import Listener
from posthouse.net.sockets import shown_address
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.memory import MemoryAccount
from posthouse.protocols.srmp.connection import SrmpConnection
from posthouse.protocols.srmp.http_head import ResponseHead
from posthouse.protocols.srmp.http_reader import ResponseReader
from posthouse.protocols.srmp.http_writer import connect_request
from posthouse.protocols.srmp.network import Secure, SrmpAttempt
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.protocols.streams import Stream, StreamNode, monotonic_ms
from posthouse.protocols.transport import ConnectionOwner

HANDSHAKE_S: Final = 20.0  # of TLS
UNCOUNTED: Final = 16  # this part of what may wait for a sync need not be on the account


class Wire(Stream):
    """One TCP connection: the `Transport` of its owner."""

    def __init__(
        self, node: SrmpNode, attempt: SrmpAttempt | None, admission: Admission | None = None
    ) -> None:
        super().__init__(node, admission, attempt)
        self._protocol = node.protocol
        self._attempt = attempt
        self._uncounted_max = node.memory.unsynced_max // UNCOUNTED

    def begin(self, address: str) -> ConnectionOwner | None:
        """Who gets the bytes."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            self._protocol.desk.manager.queues.add_own_address(self.local_address)
            return self._protocol.accept(self, address)
        return attempt.connected(self)

    @property
    def is_proven(self) -> bool:
        """Whether a request has come whole."""
        return isinstance(self._owner, SrmpConnection) and self._owner.has_asked

    def eof_received(self) -> bool:
        """A peer that sends no more may still read what it waits for; over TLS it may not."""
        owner = self._owner
        if isinstance(owner, SrmpConnection) and owner.is_waiting:
            owner.finish()
            return self._transport.get_extra_info("ssl_object") is None
        return super().eof_received()

    def send(self, parts: list[bytes]) -> None:
        """Writes, or keeps what the peer does not take now."""
        self._transport.writelines(parts)
        if not self.writable:
            self._count()

    def _count(self) -> None:
        """A small request is not on the account while it waits for its sync, if few others do."""
        holder, owner = self._holder, self._owner
        if (
            holder is None
            or holder.held
            or holder.announced
            or holder.lapsed
            or self._protocol.unsynced_bytes > self._uncounted_max
            or holder.is_ahead_of_disk
            or not self.writable
            or self._waiting
            or not isinstance(owner, SrmpConnection)
            or not owner.is_small
        ):
            super()._count()

    def _unsent(self) -> int:
        """Answers are small: only what a deaf peer leaves is worth a look."""
        return 0 if self.writable else self._transport.get_write_buffer_size()

    @property
    def is_deaf(self) -> bool:
        """Who does not read our answers does not get to ask for more of them."""
        return not self.writable and isinstance(self._owner, SrmpConnection)


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


class SrmpNode(StreamNode):
    """The protocol with its `Network`: what both listeners share."""

    def __init__(
        self,
        desk: Desk,
        settings: SrmpSettings,
        *,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        trust: ssl.SSLContext | None = None,
        now: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(memory, connections, now, settings.connect_timeout_ms)
        self.desk = desk
        self.settings = settings
        self.trust = trust or ssl.create_default_context()  # of peers that we connect to
        self.machine = self.protocol = SrmpProtocol(desk, settings, self, now)
        self.listeners = 0  # that are still to open

    def use_trust(self, trust: ssl.SSLContext) -> None:
        """Use this TLS for connections that are made from now on."""
        self.trust = trust

    def listens(self, scheme: str, address: str, port: int) -> None:
        """A listener is open; with the last of them sending begins."""
        self.protocol.listens(scheme, address, port)
        self.listeners -= 1
        if not self.listeners:
            self.protocol.start()

    # -- Network

    def soon(self, action: Callable[[], None]) -> None:
        """Before the turn ends that is open, or in the next round of the loop."""
        if not self.turns.join(action):
            self._loop.call_soon(action)

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        """Connects within `connect_timeout_ms`."""
        opening = partial(self._open, address, port, secure, attempt)
        self.run(self.connected(f"{address} port {port}", opening, attempt))

    async def _open(
        self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt
    ) -> None:
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

    async def _open_tunnel(
        self, address: str, port: int, secure: Secure, attempt: SrmpAttempt
    ) -> None:
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
        self._listener: Listener | None = None

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use this TLS for connections that come from now on."""
        self._context = tls
        if self._listener is not None:
            self._listener.tls = tls

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        node = self._node
        self._listener = Listener(
            lambda admission: Wire(node, None, admission),
            node.connections,
            node.protocol.refused,
            tls=self._context,
            handshake_s=HANDSHAKE_S,
        )
        address = self._listener.start(host, port)
        self._listening(address[1])
        self._node.listens(self.name, address[0], address[1])
        return shown_address(address)

    async def stop(self, deadline_s: float) -> None:
        """Accepts nothing more, and ends what is open."""
        if self._listener is not None:
            self._listener.close()
        await self._node.stop(deadline_s)
