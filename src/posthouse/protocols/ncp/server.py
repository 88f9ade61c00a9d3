"""NCP on asyncio: the endpoint `ncp`, TCP and UDP on one port (qms-facts 1.2, 1.3)."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from typing import Any, Final, cast

from posthouse.net.connections import Admission, Connections
from posthouse.net.listening import Listener
from posthouse.net.peer_disconnects import Departures, is_cut_off
from posthouse.net.sockets import GONE, address_of, shown_address
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.memory import (
    RECEIVE,
    SEND,
    SMALL_REQUEST,
    UNSYNCED,
    Holder,
    MemoryAccount,
)
from posthouse.protocols.ncp.datagrams import Datagrams, Peer
from posthouse.protocols.ncp.protocol import NcpProtocol
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.protocols.ncp.streams import StreamSession

POLL_S: Final = 0.01  # while a stop waits for what has begun
READ_BUFFER: Final = 256 << 10
WRITE_BUFFER: Final = 256 << 10  # above it a client's requests wait
PORT_TRIES: Final = 32  # for one that is free on TCP and UDP
_COUNTED: Final = (RECEIVE, UNSYNCED, SEND)


class NcpConnection(asyncio.BufferedProtocol):
    """One TCP connection: the `Transport` of its session. All read into the node's one buffer."""

    def __init__(self, node: NcpNode, admission: Admission) -> None:
        self._node = node
        self._admission = admission
        self._session: StreamSession | None = None
        self._holder: Holder | None = None
        self._address = ""
        self.writable = True

    # -- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Gives the connection its session, or turns it away."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER)
        self._admission.drop = self._transport.abort
        address = address_of(self._transport)
        if address == GONE or self._node.stopping:
            self._transport.abort()
            return
        self._address = address
        self._holder = self._node.memory.open(address, self._too_much, self._continue)
        self._node.open.add(self)
        self._session = self._node.protocol.accept(self, address)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go; few while much is held, for they cannot be put back."""
        node, memory = self._node, self._node.memory
        return node.buffer if 4 * memory.used < memory.limit else node.small_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of the client."""
        if self._session is not None and not self._node.stopping:
            self._session.receive(bytes(self._node.buffer[:nbytes]))
            self.counted()
            if self._admission.unproven and self._session.is_proven:
                self._admission.prove()

    def pause_writing(self) -> None:
        """The client does not read fast enough: it gets no further answers."""
        self.writable = False
        self.counted()

    def resume_writing(self) -> None:
        """The client reads again."""
        self.writable = True
        if self._session is not None and not self._node.stopping:
            self._session.pump()
        self.counted()
        self._read_or_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, by either side."""
        self._admission.leave()
        if not self._address:
            return
        if self._holder is not None:
            self._holder.leave()
            self._holder = None
        self._node.departures.forget(self._transport)
        self._node.open.discard(self)
        session, self._session = self._session, None
        if session is not None:
            session.lost()

    # -- Transport

    def send(self, data: bytes) -> None:
        """Writes, or keeps what the client does not take now."""
        self._transport.write(data)

    def close(self) -> None:
        """Ends it at once: there is nothing that such a client waits for."""
        self._transport.abort()

    def counted(self) -> None:
        """Puts what the session holds on the account, and waits where there is no room."""
        holder, session = self._holder, self._session
        if holder is None or session is None:
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent <= SMALL_REQUEST:  # the end of the rest is not reported
            unsent = 0
        sizes = session.held_bytes, session.unsynced_bytes, unsent
        for kind, size in zip(_COUNTED, sizes, strict=True):
            grown = size - holder.bytes[kind]
            if grown > 0:
                holder.take(kind, grown)
            elif grown < 0:
                holder.give(kind, -grown)
        self._look_at_request(holder, session)
        if session.unsynced_bytes and not holder.waiting and holder.is_ahead_of_disk:
            holder.wait()
        self._read_or_wait()

    # -- memory

    def _look_at_request(self, holder: Holder, session: StreamSession) -> None:
        holder.follow(max(session.announced_bytes, session.held_bytes), self._node.now)

    def _too_much(self, reason: str) -> None:
        self._node.protocol.refused(reason)
        self._transport.abort()

    def _continue(self) -> None:
        """There may be memory again: what waited asks before it reads on."""
        if self._holder is not None and self._session is not None:
            self._look_at_request(self._holder, self._session)
            self._read_or_wait()

    def _read_or_wait(self) -> None:
        if self._transport.is_closing() or self._session is None:
            return
        waits = self._holder is not None and self._holder.waiting
        if waits:
            self._node.departures.watch(self._transport, self._left)
        else:
            self._node.departures.forget(self._transport)
        much = self._session.held_bytes > self._node.held_max
        if waits or much or not self.writable or self._node.stopping:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _left(self) -> None:
        """The client sends no more: a request that it began is let go with it."""
        session = self._session
        missing = 0 if session is None else session.announced_bytes - session.held_bytes
        if session is None or is_cut_off(self._transport, missing):
            self._transport.abort()

    # -- the stop

    def stop_reading(self) -> None:
        """Nothing more is read."""
        self._read_or_wait()

    @property
    def is_answering(self) -> bool:
        """Whether requests wait for their answers."""
        return self._session is not None and self._session.unsynced_bytes > 0

    def abort(self) -> None:
        """Lets the client go when what was written is sent."""
        self._transport.close()


class NcpNode:
    """The protocol with its clock and what its two ports share."""

    def __init__(
        self,
        desk: Desk,
        settings: NcpSettings,
        server_name: str,
        *,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.memory = memory or MemoryAccount()
        self.now = now
        self.stopping = False
        self.held_max = settings.request_max + READ_BUFFER  # of requests not looked at
        self.open: set[NcpConnection] = set()
        self.departures = Departures()  # of clients that are not read from
        self.ports: list[_Port] = []
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self.small_buffer = self.buffer[:SMALL_REQUEST]
        self.connections = connections or Connections()
        # Datagrams have no descriptors, and their senders' addresses may be forged: apart.
        apart = Connections(self.connections.connections_max, self.connections.per_address_max)
        self.protocol = NcpProtocol(desk, settings, server_name, now, self._wake_at, apart)
        self._timer: asyncio.TimerHandle | None = None

    def _wake_at(self, when_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(when_ms - self.now(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._deadline_passed)

    def _deadline_passed(self) -> None:
        self._timer = None
        if not self.stopping:
            self.protocol.tick()

    def _is_answering(self) -> bool:
        """Whether requests wait for their answers."""
        on_tcp = any(connection.is_answering for connection in self.open)
        return on_tcp or any(port.is_answering for port in self.ports)

    async def stop(self, deadline_s: float) -> None:
        """Reads nothing more; what was begun is answered, then clients are let go."""
        self.stopping = True
        for connection in list(self.open):
            connection.stop_reading()
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        while loop.time() < end and self._is_answering():
            await asyncio.sleep(POLL_S)
        for connection in list(self.open):
            connection.abort()
        for port in self.ports:
            port.stop()
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.sleep(0)
        self.departures.close()


class NcpServer:
    """The endpoint `ncp`: the same port on TCP and UDP."""

    name = "ncp"

    def __init__(self, node: NcpNode) -> None:
        self._node = node
        self._listener: Listener | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`. Where the system chooses, both get the same one."""
        for attempt in range(PORT_TRIES):
            try:
                return await self._start(host, port)
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE or attempt == PORT_TRIES - 1:
                    raise
        raise AssertionError("the last attempt raises")

    async def _start(self, host: str, port: int) -> str:
        loop = asyncio.get_running_loop()
        node = self._node
        listener = Listener(
            lambda admission: NcpConnection(node, admission),
            node.connections,
            node.protocol.refused,
        )
        address = listener.start(host, port)
        try:
            datagrams = _Port(self._node)
            await loop.create_datagram_endpoint(lambda: datagrams, local_addr=(host, address[1]))
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._node.ports.append(datagrams)
        return shown_address(address)

    async def stop(self, deadline_s: float) -> None:
        """Stops answering."""
        if self._listener is not None:
            self._listener.close()
        await self._node.stop(deadline_s)


class _Port(asyncio.DatagramProtocol):
    """The UDP port."""

    def __init__(self, node: NcpNode) -> None:
        self._node = node
        self._datagrams: Datagrams | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The port is open."""
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._datagrams = self._node.protocol.datagrams(self._send)

    def _send(self, message: bytes, peer: Peer) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(message, peer)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """A request, perhaps."""
        if self._datagrams is not None and not self._node.stopping:
            self._datagrams.receive(data, (str(addr[0]), addr[1]))

    def error_received(self, exc: Exception) -> None:
        """A client that is no longer there; the watchdog notices."""

    @property
    def is_answering(self) -> bool:
        """Whether requests wait for their answers."""
        return self._datagrams is not None and self._datagrams.is_answering

    def stop(self) -> None:
        """Ends the connections; what they were told last is not repeated."""
        if self._datagrams is not None:
            self._datagrams.stop()
        self._transport.close()
