"""The binary protocol on asyncio: the listener, connections to others, pings ([MS-MQQB] 2.1)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from posthouse.net.connections import Admission, Connections
from posthouse.net.listening import Listener
from posthouse.net.sockets import bound_sockets, shown_address
from posthouse.protocols.binary.network import BinaryAttempt
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.binary.session import BinarySession
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.memory import MemoryAccount
from posthouse.protocols.streams import Stream, StreamNode, monotonic_ms


class BinaryConnection(Stream):
    """One TCP connection: the `Transport` of its session."""

    def __init__(
        self, node: BinaryNode, admission: Admission | None, attempt: BinaryAttempt | None
    ) -> None:
        super().__init__(node, admission, attempt)
        self._protocol = node.protocol
        self._attempt = attempt

    def begin(self, address: str) -> BinarySession | None:
        """The session that gets the bytes."""
        attempt, self._attempt = self._attempt, None
        if attempt is None:
            self._protocol.desk.manager.queues.add_own_address(self.local_address)
            return self._protocol.accept(self, address)
        return attempt.connected(self)

    @property
    def is_proven(self) -> bool:
        """Whether the handshake is over."""
        return isinstance(self._owner, BinarySession) and self._owner.is_open


class BinaryNode(StreamNode):
    """The protocol with its `Network`: what the listener and the ping port share."""

    def __init__(
        self,
        desk: Desk,
        settings: BinarySettings,
        ping: PingSettings | None = None,
        *,
        memory: MemoryAccount | None = None,
        connections: Connections | None = None,
        now: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(memory, connections, now, settings.connect_timeout_ms)
        self.desk = desk
        self.machine = self.protocol = BinaryProtocol(desk, settings, self, now, ping)
        self._ping_port = (ping or PingSettings()).target_port
        self._askers: dict[int, asyncio.DatagramTransport] = {}

    # -- Network

    def connect(self, address: str, port: int, attempt: BinaryAttempt) -> None:
        """Connects within `connect_timeout_ms`."""
        make, open_it = partial(BinaryConnection, self, None, attempt), self._loop.create_connection
        where = f"{address} port {port}"
        self.run(self.connected(where, partial(open_it, make, address, port), attempt))

    def ping(self, address: str, datagram: bytes) -> None:
        """Sends from a port of our own, on which the answer is awaited (2.1.2)."""
        self.run(self._ping(address, datagram))

    async def _ping(self, address: str, datagram: bytes) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            asker = self._askers.get(family)
            if asker is None:
                asker, _ = await self._loop.create_datagram_endpoint(
                    lambda: _Answers(self.protocol), family=family
                )
                self._askers[family] = asker
            asker.sendto(datagram, (address, self._ping_port))
        except OSError:
            return  # the timer reports the failure

    async def stop(self, deadline_s: float) -> None:
        """Stop as `BinaryNode` does, and send no more pings."""
        await super().stop(deadline_s)
        for asker in self._askers.values():
            asker.close()


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
        self._listener: Listener | None = None

    async def start(self, host: str, port: int) -> str:
        """Listens, then connects for what waits; returns `address:port`."""
        node = self._node
        self._listener = Listener(
            lambda admission: BinaryConnection(node, admission, None),
            node.connections,
            node.protocol.refused,
        )
        address = self._listener.start(host, port)
        self._listening(address[1])
        self._node.protocol.start()
        return shown_address(address)

    async def stop(self, deadline_s: float) -> None:
        """Queue Manager Stopped (3.1.4.2)."""
        if self._listener is not None:
            self._listener.close()
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
        bound, *others = bound_sockets(host, port, socket.SOCK_DGRAM)
        for other in others:  # a name may have several addresses
            other.close()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: _Requests(self._node.protocol), sock=bound
        )
        return shown_address(self._transport.get_extra_info("sockname"))

    async def stop(self, deadline_s: float) -> None:
        """Stops answering."""
        if self._transport is not None:
            self._transport.close()


class _Requests(asyncio.DatagramProtocol):
    """The ping port. An answer goes to where its request came from, and is not larger."""

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
