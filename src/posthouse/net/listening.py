"""Listeners: each connection is counted as it is accepted, before TLS and before its first byte.

asyncio's own servers accept without limit and show a connection only when its TLS handshake is
over; a client that stays silent until then would hold a descriptor that nothing counts.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from posthouse.net.connections import Admission, Connections, Refused
from posthouse.net.sockets import address_of_peer, bound_sockets, keep_alive

BACKLOG: Final = 1024
AT_ONCE: Final = 64  # connections accepted, or closed, before the loop does something else
REST_S: Final = 0.2  # where the system has no descriptor or memory for another connection
NO_DESCRIPTOR: Final = "no descriptor is left"
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

Make = Callable[[Admission], asyncio.BaseProtocol]


class Ends:
    """Connections whose peers have gone: some of them are closed in each round of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, close: Callable[[], None]) -> None:
        """One more."""
        if not self._waiting:
            self._loop.call_soon(self._close_some)
        self._waiting.append(close)

    def _close_some(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            self._loop.call_soon(self._close_some)


class Listener:
    """The sockets that one door listens on. `make` gives each connection its protocol.

    The protocol of a connection calls `leave` of its admission when the connection is lost, and
    `prove` when the peer has sent a valid request. `refused` is called for each connection that is
    turned away.
    """

    def __init__(
        self,
        make: Make,
        connections: Connections,
        refused: Callable[[str], None],
        *,
        tls: ssl.SSLContext | None = None,
        handshake_s: float | None = None,
    ) -> None:
        self._make = make
        self._connections = connections
        self._refused = refused
        self.tls = tls  # of the next connections; replaced when certificates are renewed
        self._handshake_s = handshake_s if tls is not None else None
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._spare = _spare_descriptor()
        self._rest: asyncio.TimerHandle | None = None
        self._ends = Ends(self._loop)
        self._has_accepted = False

    def start(self, host: str, port: int) -> tuple[Any, ...]:
        """Listens on an address; returns the first socket's own address. `::` is both families."""
        try:
            return self.start_on(bound_sockets(host, port))
        except OSError:
            self.close()
            raise

    def start_on(self, sockets: list[socket.socket]) -> tuple[Any, ...]:
        """Listens on sockets that are bound already."""
        self._sockets = sockets
        for listener in sockets:
            listener.setblocking(False)
            listener.listen(BACKLOG)
        self._watch()
        return cast(tuple[Any, ...], sockets[0].getsockname())

    def close(self) -> None:
        """Accepts nothing more; handshakes that are not over end."""
        if self._rest is not None:
            self._rest.cancel()
        for listener in self._sockets:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._sockets = []
        for task in list(self._starting):
            task.cancel()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    # -- accepting

    def _watch(self) -> None:
        self._rest = None
        for listener in self._sockets:
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        if self._has_accepted:  # in this round: while very many peers speak the loop asks again
            return
        self._has_accepted = True
        self._loop.call_soon(self._accept_more)
        for _ in range(AT_ONCE):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._turn_away(listener)
                    return
                continue  # that peer has left again
            self._begin(connection)

    def _accept_more(self) -> None:
        self._has_accepted = False

    def _turn_away(self, listener: socket.socket) -> None:
        """No descriptor is left: with the one kept for this the next peer is told so, by a reset.

        Left in the queue it would wake the loop for ever.
        """
        self._refused(NO_DESCRIPTOR)
        if self._spare is not None:
            os.close(self._spare)
            with suppress(OSError):
                listener.accept()[0].close()
            self._spare = _spare_descriptor()
        if self._rest is None:
            for one in self._sockets:
                self._loop.remove_reader(one.fileno())
            self._rest = self._loop.call_later(REST_S, self._watch)

    def _begin(self, connection: socket.socket) -> None:
        address = address_of_peer(connection)
        try:
            if not address:
                raise Refused("the peer has left")
            admission = self._connections.admit(address)
        except Refused as error:
            self._refused(str(error))
            connection.close()
            return
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            keep_alive(connection)
            with suppress(OSError):  # the peer may have left
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._serve(connection, admission))
        admission.drop, admission.later = task.cancel, self._ends.add
        self._starting.add(task)
        task.add_done_callback(lambda task: self._begun(task, connection, admission))

    def _begun(
        self, task: asyncio.Task[None], connection: socket.socket, admission: Admission
    ) -> None:
        """Also of a task that was cancelled before its first step."""
        self._starting.discard(task)
        if task.cancelled():
            admission.leave()
            connection.close()

    async def _serve(self, connection: socket.socket, admission: Admission) -> None:
        """Up to the moment when the protocol of the connection has it."""
        protocol = self._make(admission)
        more: dict[str, Any] = {}
        if (tls := self.tls) is not None:
            more = {"ssl": tls, "ssl_handshake_timeout": self._handshake_s}
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection, **more)
        except (TimeoutError, OSError, ssl.SSLError) as error:
            admission.leave()
            connection.close()
            if more:
                self._refused(f"TLS: {type(error).__name__}")


def _spare_descriptor() -> int | None:
    """A descriptor that is given up to accept, and turn away, one more connection."""
    with suppress(OSError):
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return None
