"""The way to a queue manager for threads: a socket that is written to without waiting."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from typing import Final, Protocol

from posthouse.client.address import Address
from posthouse.client.errors import ClientConnectionError, ServerUnreachable, SessionEnded
from posthouse.client.upgrade import Upgrading, upgrade_request

READ_SIZE: Final = 1 << 18
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class Link(Protocol):
    """The way to a queue manager. One thread at a time reads; any may write or wake it."""

    def open(self, timeout: float) -> bytes:
        """Connects; returns the first bytes of the session."""

    def write(self, data: list[bytes]) -> None:
        """Takes bytes to be written, and writes what goes at once."""

    def read(self, timeout: float | None) -> bytes:
        """Waits for bytes, writing meanwhile what is left. Empty when woken; raises when lost."""

    def wake(self) -> None:
        """Makes a waiting `read` return."""

    def disconnect(self) -> None:
        """Ends the connection, if there is one; another may follow."""

    def close(self) -> None:
        """For good."""


class SocketLink:
    """A control socket or an admin endpoint."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls
        self._socket: socket.socket | None = None
        self._left = bytearray()  # to be written
        self._poll = select.poll()
        self._polls_out = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._lock = threading.Lock()  # of what is written

    def open(self, timeout: float) -> bytes:
        """Connects and asks for a session."""
        self.disconnect()
        try:
            return self._connect(timeout)
        except OSError as error:
            self.disconnect()
            if isinstance(error, ClientConnectionError):
                raise
            raise ServerUnreachable(
                f"no queue manager answers at {self._address.shown}: {error.strerror or error}"
            ) from None
        except BaseException:
            self.disconnect()
            raise

    def _connect(self, timeout: float) -> bytes:
        address = self._address
        if address.home is not None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket = connection
            connection.settimeout(timeout)
            connection.connect(str(address.socket_path))
        else:
            connection = socket.create_connection((address.host, address.port), timeout)
            _tune(connection)
            if address.tls:
                context = self._tls or ssl.create_default_context()
                connection = context.wrap_socket(connection, server_hostname=address.host)
            self._socket = connection
        connection.sendall(upgrade_request(address))
        upgrading, first = Upgrading(address), None
        while first is None:
            data = connection.recv(READ_SIZE)
            if not data:
                raise upgrading.ended()
            first = upgrading.receive(data)
        connection.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        self._poll.register(connection, select.POLLIN)
        self._polls_out = False
        return first

    def write(self, data: list[bytes]) -> None:
        """Without waiting; the reader sees to the rest."""
        with self._lock:
            connection = self._socket
            if connection is None:
                return
            joined = data[0] if len(data) == 1 else b"".join(data)
            if self._left:
                self._left += joined
                return
            sent = _try_send(connection, joined)
            if sent < len(joined):
                self._left += memoryview(joined)[sent:]
                self.wake()

    def read(self, timeout: float | None) -> bytes:
        """Bytes of the queue manager."""
        connection = self._socket
        if connection is None:
            raise SessionEnded("the connection is closed")
        data = self._pending(connection)
        if data is not None:
            return data
        if self._polls_out is not bool(self._left):
            self._polls_out = not self._polls_out
            out = select.POLLOUT if self._polls_out else 0
            self._poll.modify(connection, select.POLLIN | out)
        for file, events in self._poll.poll(None if timeout is None else timeout * 1000):
            if file == self._woken.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            if events & select.POLLOUT:
                self._write_left(connection)
            if events & ~select.POLLOUT:
                return _try_receive(connection)
        return b""

    def _pending(self, connection: socket.socket) -> bytes | None:
        """What TLS has decrypted already; the system does not tell of it."""
        if isinstance(connection, ssl.SSLSocket) and connection.pending():
            return _try_receive(connection)
        return None

    def _write_left(self, connection: socket.socket) -> None:
        with self._lock:
            while self._left:
                sent = _try_send(connection, bytes(self._left[: 1 << 20]))
                if not sent:
                    return
                del self._left[:sent]

    def wake(self) -> None:
        """One byte is enough, and more are no harm."""
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"\0")

    def disconnect(self) -> None:
        """Only the connection; another may follow."""
        with self._lock:
            connection, self._socket = self._socket, None
            self._left.clear()
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """For good."""
        self.disconnect()
        self._woken.close()
        self._waker.close()


def _tune(connection: socket.socket) -> None:
    """Small frames at once; a peer that vanished is noticed within a minute."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _try_send(connection: socket.socket, data: bytes) -> int:
    try:
        return connection.send(data)
    except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
        return 0


def _try_receive(connection: socket.socket) -> bytes:
    try:
        data = connection.recv(READ_SIZE)
    except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return b""
    if not data:
        raise SessionEnded("the queue manager closed the connection")
    return data
