"""The socket of a blocking session, with writes that do not wait."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections import deque
from itertools import islice
from threading import get_ident
from typing import Final, Protocol

from posthouse.client.address import Address
from posthouse.client.errors import SessionEnded
from posthouse.client.session_upgrade import Upgrading, unreachable, upgrade_request

READ_SIZE: Final = 1 << 16
READ_SIZE_MAX: Final = 1 << 20
BUFFERS_MAX: Final = 64  # of one write
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class ClientLink(Protocol):
    """The way to a queue manager. One thread at a time reads, one writes; any may wake it.

    `idle` is the thread that waits for bytes, and has read none; 0: there is none.
    """

    idle: int

    def open(self, timeout: float) -> bytes:
        """Connects; returns the first bytes of the session."""

    def write(self, data: list[bytes]) -> None:
        """Takes bytes to be written, and writes what goes at once."""

    def read(self, timeout: float | None, room: memoryview | None = None) -> bytes | memoryview:
        """Waits for bytes, writing meanwhile what is left. Empty when woken; raises when lost.

        With `room` they may be read into that: then it is the part of it that was filled.
        """

    def look(self) -> bytes | memoryview:
        """Reads without waiting; empty when there is nothing."""

    def wake(self) -> None:
        """Makes a waiting `read` return."""

    def disconnect(self) -> None:
        """Ends the connection, if there is one; another may follow."""

    def close(self) -> None:
        """For good."""

    def forked(self) -> bool:
        """Let go of everything, which is the parent's; whether a child can connect by itself."""


class SocketLink:
    """A control socket or an admin endpoint."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self._address = address
        self._tls = tls
        self._plain = not address.tls
        self._reset()

    def _reset(self) -> None:
        self._socket: socket.socket | None = None
        self._left: deque[memoryview] = deque()  # to be written
        self._poll = select.poll()
        self._polls_out = False
        self._read_size = READ_SIZE
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._woken_file = self._woken.fileno()
        self.idle = 0
        self._write_begun = self._rest_begun = False  # and not ended, if by Ctrl-C
        self._lock = threading.Lock()  # of what is written, and of all that TLS does

    def open(self, timeout: float) -> bytes:
        """Connects and asks for a session."""
        self.disconnect()
        try:
            return self._connect(timeout)
        except OSError as error:
            self.disconnect()
            raise unreachable(self._address, error) from None
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
        connection = self._socket
        if self._write_begun:
            raise _cut_off()
        if len(data) == 1 and self._plain and not self._left and connection is not None:
            self._write_begun = True
            whole = data[0]  # where nothing is left no other thread writes: no lock
            try:
                sent = connection.send(whole)
            except BlockingIOError:
                sent = 0
            if sent == len(whole):
                self._write_begun = False
                return
            data = [whole[sent:]]
        with self._lock:
            self._write_begun = True  # or the thread that reads would take this for a cut
            connection = self._socket
            if connection is not None:
                waiting = bool(self._left)
                self._left.extend(map(memoryview, data))
                if not waiting:
                    _write_some(connection, self._left)
                    if self._left:
                        self.wake()
            self._write_begun = False

    def read(self, timeout: float | None, room: memoryview | None = None) -> bytes | memoryview:
        """Bytes of the queue manager."""
        connection = self._socket
        if connection is None:
            raise SessionEnded("the connection is closed")
        if not self._plain and (data := self._pending(connection)) is not None:
            return data
        if self._polls_out is not bool(self._left):
            self._polls_out = not self._polls_out
            out = select.POLLOUT if self._polls_out else 0
            self._poll.modify(connection, select.POLLIN | out)
        self.idle = get_ident()
        ready = self._poll.poll(None if timeout is None else timeout * 1000)
        self.idle = 0
        for file, events in ready:
            if file == self._woken_file:
                with contextlib.suppress(BlockingIOError):
                    self._woken.recv(4096)
                continue
            if events & select.POLLOUT:
                with self._lock:
                    self._write_rest(connection)
            if events & ~select.POLLOUT:
                if self._plain:
                    return self._receive(connection, room)
                with self._lock:  # TLS does not read in one thread while it writes in another
                    return self._receive(connection, None)
        return b""

    def look(self) -> bytes | memoryview:
        """What has come by now."""
        return self.read(0)

    def _pending(self, connection: socket.socket) -> bytes | memoryview | None:
        """What TLS has decrypted already; the system does not report it."""
        if isinstance(connection, ssl.SSLSocket):
            with self._lock:
                return self._receive(connection, None) if connection.pending() else None
        return None

    def _receive(self, connection: socket.socket, room: memoryview | None) -> bytes | memoryview:
        size = self._read_size
        try:
            if room is not None:
                data: bytes | memoryview = room[: connection.recv_into(room)]
            else:
                data = connection.recv(size)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""
        if not data:
            raise SessionEnded("the queue manager closed the connection")
        # A large buffer costs something to make: only while there is much to read.
        if room is None and len(data) == size:
            self._read_size = min(2 * size, READ_SIZE_MAX)
        elif size != READ_SIZE:
            self._read_size = READ_SIZE
        return data

    def _write_rest(self, connection: socket.socket) -> None:
        if self._left and (self._write_begun or self._rest_begun):
            raise _cut_off()
        self._rest_begun = True
        _write_some(connection, self._left)
        self._rest_begun = False

    def wake(self) -> None:
        """One byte is enough, and more are not harm."""
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"\0")

    def disconnect(self) -> None:
        """Only the connection; another may follow."""
        with self._lock:
            connection, self._socket = self._socket, None
            self._left.clear()
            self._write_begun = self._rest_begun = False
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """For good."""
        self.disconnect()
        self._woken.close()
        self._waker.close()

    def forked(self) -> bool:
        """Close copies only: the parent goes on, and its end is noticed when it comes."""
        for connection in (self._socket, self._woken, self._waker):
            if connection is not None:
                connection.close()
        self._reset()
        return True


def _tune(connection: socket.socket) -> None:
    """Small frames at once; a peer that vanished is noticed within a minute."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _cut_off() -> OSError:
    """How much of it the system took is not known: what followed would be taken for its rest."""
    return ConnectionAbortedError("Ctrl-C cut off a write")


def _write_some(connection: socket.socket, left: deque[memoryview]) -> None:
    """Writes what the system takes now; what it does not take stays."""
    while left:
        sent = _try_send(connection, left)
        if not sent:
            return
        while left and sent >= len(left[0]):
            sent -= len(left.popleft())
        if sent:
            left[0] = left[0][sent:]


def _try_send(connection: socket.socket, left: deque[memoryview]) -> int:
    try:
        if len(left) == 1 or isinstance(connection, ssl.SSLSocket):
            return connection.send(left[0])
        return connection.sendmsg(list(islice(left, BUFFERS_MAX)))
    except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
        return 0
