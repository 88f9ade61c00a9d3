"""A DCE/RPC connection with a blocking socket, for any number of threads.

The thread that waits for an answer reads for all others too: there is no thread of our own. When
they have their answer they hand over to one of those who still wait. A broken link is not used
again; its user makes another one. A server that does not multiplex gets one call after the other.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from posthouse.client.errors import ClientConnectionError, SessionEnded
from posthouse.client.process_ownership import of_the_parent, watch
from posthouse.model.errors import RemoteProtocolError
from posthouse.rpc.client import BindRefused, ClientConnection
from posthouse.rpc.security import LoginRefused
from posthouse.rpc.statuses import Fault

READ_SIZE: Final = 256 << 10
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


_LEADS: Final = threading.Lock()


class LinkLost(ClientConnectionError):
    """The connection broke; what was asked and not answered may be done or not."""


class CallTimeout(Exception):
    """No answer came in time; the call is still under way."""


class PendingCall:
    """A call under way."""

    __slots__ = ("call_id", "done", "error", "status", "stub", "then", "wake")

    def __init__(self) -> None:
        self.call_id = 0
        self.done = False
        self.status = 0
        self.stub = b""
        self.error: LinkLost | None = None
        self.wake: threading.Lock | None = None  # held by the thread that waits for it
        self.then: Callable[[PendingCall], None] | None = (
            None  # called at its end, if no thread waits
        )

    def result(self) -> bytes:
        """What came; raises `Fault` or `LinkLost`."""
        if self.error is not None:
            raise self.error.with_traceback(None)  # that of all calls: each raise would add to it
        if self.status:
            raise Fault(self.status)
        return self.stub


class RpcLink:
    """One connection, bound."""

    def __init__(
        self, place: tuple[str, int], connection: ClientConnection, timeout_s: float
    ) -> None:
        self.place = place
        self.connection = connection
        self.timeout_s = timeout_s
        self.lost: LinkLost | None = None
        self._lock = threading.Lock()  # of everything but the socket
        self._writing = threading.Lock()  # taken before the other one
        self._waiting: dict[int, PendingCall] = {}
        self._held: deque[tuple[PendingCall, int, bytes]] = deque()  # calls that have to take turns
        self._followers: dict[PendingCall, threading.Lock] = {}
        self._is_read = False  # by some thread
        self._closed = False
        self._forked = False
        self._socket = socket.create_connection(place, timeout_s)
        self._poll = select.poll()
        watch(self)
        try:
            self._bind()
        except BaseException:
            self._socket.close()
            raise

    def _bind(self) -> None:
        """Until calls can be made; raises `BindRefused`, `LoginRefused`, `RemoteProtocolError`."""
        connection, deadline = self.connection, time.monotonic() + self.timeout_s
        _tune(self._socket)
        connection.begin()
        while True:
            self._socket.sendall(connection.take_outgoing())
            if connection.is_open:
                break
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError("the other computer closed the connection")
            connection.receive(data)
        self._socket.setblocking(False)
        self._poll.register(self._socket, select.POLLIN)

    # -- calls

    def submit(self, opnum: int, stub: bytes) -> PendingCall:
        """Puts a call among those that `flush` sends; raises `LinkLost` if that is too late."""
        pending = PendingCall()
        with self._lock:
            if self.lost is not None:
                raise self.lost.with_traceback(None)
            if self._forked:
                raise of_the_parent()
            if self._waiting and not self.connection.multiplexed:
                self._held.append((pending, opnum, stub))
            else:
                self._request(pending, opnum, stub)
        return pending

    def _request(self, pending: PendingCall, opnum: int, stub: bytes) -> None:
        pending.call_id = call_id = self.connection.request(opnum, stub)
        self._waiting[call_id] = pending

    def flush(self) -> None:
        """Sends all that was submitted, in order and at once."""
        with self._writing:
            try:
                with self._lock:
                    data = self.connection.take_outgoing() if self.lost is None else b""
                if data:
                    self._write(data)
            except OSError as error:
                self._lose(error)
            except BaseException as error:  # an interrupt: some of it may never be sent
                self._lose(error)
                raise

    def call(self, opnum: int, stub: bytes, timeout_s: float | None = None) -> bytes:
        """One call, with its answer; raises `Fault`, `LinkLost`, or `CallTimeout`."""
        pending = self.submit(opnum, stub)
        self.flush()
        deadline = time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s)
        self.wait(pending, deadline)
        return pending.result()

    def wait(self, pending: PendingCall, deadline: float | None) -> None:
        """Until it has ended; raises `CallTimeout` when that takes too long."""
        while not pending.done:
            wake = self._queue_up(pending)
            if wake is None:
                return
            if wake is not _LEADS:
                self._follow(pending, wake, deadline)
                continue
            try:
                self._read(deadline)
            finally:
                self._step_down()

    def look(self) -> None:
        """Reads what has come so far: the link is read only while a thread waits."""
        with self._lock:
            if self._is_read or self.lost is not None:
                return
            self._is_read = True
        try:
            with contextlib.suppress(CallTimeout):
                self._read(0.0)
        finally:
            self._step_down()

    def abandon(self, pending: PendingCall, then: Callable[[PendingCall], None]) -> None:
        """Stops waiting for a call; the thread that reads its end calls `then`."""
        with self._lock:
            if not pending.done:
                pending.then = then
                return
        then(pending)

    # -- reading

    def _queue_up(self, pending: PendingCall) -> threading.Lock | None:
        """What to wait for; `_LEADS`: this thread is to read; None: the call has ended."""
        with self._lock:
            if pending.done:
                return None
            if not self._is_read:
                self._is_read = True
                return _LEADS
            wake = threading.Lock()
            wake.acquire()
            self._followers[pending] = wake
            return wake

    def _follow(self, pending: PendingCall, wake: threading.Lock, deadline: float | None) -> None:
        """Waits to be woken: by the end of the call, or to be the next who reads."""
        left = -1.0 if deadline is None else max(deadline - time.monotonic(), 0.0)
        try:
            if wake.acquire(timeout=left):
                return
        except BaseException:
            self._leave(pending)
            raise
        self._leave(pending)
        if not pending.done:
            raise CallTimeout

    def _leave(self, pending: PendingCall) -> None:
        with self._lock:
            if self._followers.pop(pending, None) is None:
                self._wake_next()  # it may have been this one's turn

    def _step_down(self) -> None:
        with self._lock:
            self._is_read = False
            self._wake_next()
            is_over = self._closed
        if is_over:
            self._close_socket()

    def _wake_next(self) -> None:
        if self._followers and not self._is_read:
            self._followers.pop(next(iter(self._followers))).release()

    def _read(self, deadline: float | None) -> None:
        """Reads once; raises `CallTimeout` when nothing comes."""
        left_ms = None if deadline is None else max(deadline - time.monotonic(), 0.0) * 1000
        if not self._poll.poll(left_ms):
            raise CallTimeout
        try:
            data = self._socket.recv(READ_SIZE)
            if not data:
                raise ConnectionResetError("the other computer closed the connection")
            with self._lock:
                ended = self._take(data)
        except BlockingIOError:
            return
        except (OSError, RemoteProtocolError, BindRefused, LoginRefused) as error:
            self._lose(error)
            return
        except BaseException as error:  # an interrupt: what was read may be lost
            self._lose(error)
            raise
        if not self.connection.multiplexed:
            self.flush()  # the next one in turn
        for pending in ended:
            if pending.then is not None:
                pending.then(pending)

    def _take(self, data: bytes) -> list[PendingCall]:
        """Ends the calls whose answers came; returns those that have to be reported."""
        waiting, followers, heard = self._waiting, self._followers, []
        for call_id, status, stub in self.connection.receive(data):
            pending = waiting.pop(call_id, None)
            if pending is None:
                raise RemoteProtocolError(f"an answer to call {call_id}, which was not made")
            pending.status, pending.stub, pending.done = status, stub, True
            if followers:
                wake = followers.pop(pending, None)
                if wake is not None:
                    wake.release()
            if pending.then is not None:
                heard.append(pending)
        if self._held and not waiting:
            self._request(*self._held.popleft())
        if self.connection.is_shut_down:
            raise ConnectionResetError("the other computer asks to end the connection")
        return heard

    # -- writing and closing

    def _write(self, data: bytes) -> None:
        """All of it; the poll is not the reader's."""
        left, poll = memoryview(data), None
        while left:
            with contextlib.suppress(BlockingIOError):
                left = left[self._socket.send(left) :]
                continue
            if poll is None:
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
            if not poll.poll(self.timeout_s * 1000):
                raise TimeoutError("the other computer does not read what it is sent")

    def _lose(self, error: BaseException) -> None:
        """Everything under way ends."""
        host, port = self.place
        with self._lock:
            if self.lost is not None:
                return
            self.lost = lost = LinkLost(
                f"the connection to {host}:{port} broke: {str(error) or type(error).__name__}",
                "Check that the queue manager there runs, then try again.",
            )
            ended = [*self._waiting.values(), *(pending for pending, _, _ in self._held)]
            self._waiting.clear()
            self._held.clear()
            for pending in ended:
                pending.error, pending.done = lost, True
            for wake in self._followers.values():
                wake.release()
            self._followers.clear()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # wakes who reads
        for pending in ended:
            if pending.then is not None:
                pending.then(pending)

    def close(self) -> None:
        """Ends the connection; who waits gets an error."""
        if self._forked:
            return
        self._lose(SessionEnded("it was closed"))
        with self._lock:
            self._closed = True
            if self._is_read:
                return  # the reader closes it: the system may reuse the file number
        self._close_socket()

    def _close_socket(self) -> None:
        with self._writing:
            self._socket.close()

    def forked(self) -> None:
        """A child lets go of its copy."""
        self._forked = True
        self._socket.close()


def _tune(connection: socket.socket) -> None:
    """Small PDUs at once; a peer that vanished is noticed within a minute."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
