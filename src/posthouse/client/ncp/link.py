"""An NCP connection with a blocking socket, over TCP or UDP; for any number of threads, in turn."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from typing import Any, Final, Literal

from posthouse.client.ncp.core import RETRANSMIT_MS, RETRIES, NcpConversation, NcpLost
from posthouse.client.process_ownership import of_the_parent, watch
from posthouse.model.completion_codes import (
    BAD_PASSWORD,
    FAILURE,
    LOGIN_DISABLED,
    PASSWORD_TOO_SHORT,
    TOO_MANY_CONNECTIONS,
    UNENCRYPTED_REFUSED,
    UNSUPPORTED,
)
from posthouse.model.errors import QmsError, RemoteProtocolError
from posthouse.wire.ncp.bindery_calls import (
    CHANGE_PASSWORD,
    KEYED_LOGIN,
    KEYED_VERIFY,
    LOGIN,
    LOGIN_KEY,
    VERIFY_PASSWORD,
)
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.framing import Reply
from posthouse.wire.ncp.functions import NEGOTIATE_SIZE, ProposedSize

Transport = Literal["tcp", "udp"]

PORT: Final = 524
READ_SIZE: Final = 128 << 10
BUFFER_SIZE: Final = {"tcp": 60 << 10, "udp": 8 << 10}  # what is proposed
BUFFER_MIN: Final = 512
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


_LOGINS: Final = frozenset(
    call.key
    for call in (LOGIN_KEY, LOGIN, KEYED_LOGIN, VERIFY_PASSWORD, KEYED_VERIFY, CHANGE_PASSWORD)
)
# For logins these codes mean something else than for queues (qms-facts 4.3, 7.5).
_OF_LOGINS: Final = {
    UNENCRYPTED_REFUSED: "Passwords in clear text are not taken there; `[ncp] clear_text_logins`.",
    PASSWORD_TOO_SHORT: "The password is too short.",
    TOO_MANY_CONNECTIONS: "The object has too many connections.",
    LOGIN_DISABLED: "The account is disabled.",
    UNSUPPORTED: "That server takes no keyed logins; `clear_text=True` sends the password itself.",
    BAD_PASSWORD: "Check name and password.",
    FAILURE: "Check name and password.",
}


def refusal(call: NcpCall[Any, Any], completion: int) -> QmsError:
    """The error that a completion code means for a call."""
    remedy = _OF_LOGINS.get(completion, "") if call.key in _LOGINS else ""
    return QmsError(completion, f"{call.name} ({call.number}) was refused", remedy)


class NcpLink:
    """One service connection: `request` makes calls, `close` ends it."""

    def __init__(
        self,
        host: str,
        port: int = PORT,
        *,
        transport: Transport = "tcp",
        timeout_s: float = 60.0,
        retransmit_ms: int = RETRANSMIT_MS,
        retries: int = RETRIES,
    ) -> None:
        self.place = host, port
        self.timeout_s = timeout_s
        self.buffer_size = 1024
        self._lock = threading.RLock()
        self._lost: NcpLost | None = None
        self._forked = False
        self._core = NcpConversation(
            datagrams=transport == "udp", retransmit_ms=retransmit_ms, retries=retries
        )
        self._socket = _connected(host, port, transport, timeout_s)
        watch(self)
        try:
            self._open(transport)
        except BaseException:
            self._socket.close()
            raise
        if transport == "udp":
            threading.Thread(target=self._answer_server, name="posthouse-ncp", daemon=True).start()

    def _open(self, transport: Transport) -> None:
        """As real clients begin: a connection, then the size of its packets (1.4)."""
        self._core.create(_now_ms())
        refused = self._answer().completion
        if refused:
            raise QmsError(refused, "the server gave no connection")
        proposed = ProposedSize(BUFFER_SIZE[transport], 0)
        accepted = self.request(NEGOTIATE_SIZE, proposed)
        self.buffer_size = max(min(accepted.size, proposed.size), BUFFER_MIN)

    @property
    def connection(self) -> int:
        """The connection number; other calls name stations by it."""
        return self._core.connection

    @property
    def repeated(self) -> int:
        """Requests that were sent again, because no answer came in time."""
        return self._core.repeated

    # -- calls

    def request(self, call: NcpCall[Any, Any], asked: Any) -> Any:
        """One call; raises `QmsError` with the completion code, or `NcpLost`."""
        data = self.ask(call, asked)
        try:
            return call.reply.read(data)
        except RemoteProtocolError as error:
            raise self._lose(error) from None

    def ask(self, call: NcpCall[Any, Any], asked: Any) -> bytes:
        """One call, answered with the bytes of the reply."""
        with self._lock:
            if self._lost is not None:
                raise self._lost.with_traceback(None)  # each raise would add to the last one's
            if self._forked:
                raise of_the_parent()
            self._core.ask(call.function, call.ask(asked), _now_ms())
            reply = self._answer()
        if reply.completion:
            raise refusal(call, reply.completion)
        return reply.data

    def _answer(self) -> Reply:
        """Until the reply to what was asked is there."""
        deadline = time.monotonic() + self.timeout_s
        try:
            while True:
                self._send()
                if self._core.reply is not None:
                    return self._core.reply
                self._wait(deadline)
        except (OSError, RemoteProtocolError) as error:
            raise self._lose(error) from None
        except BaseException as error:  # an interrupt: no caller waits for the answer
            self._lose(error)
            raise

    def _send(self) -> None:
        for data in self._core.take_outgoing():
            self._socket.sendall(data)

    def _wait(self, deadline: float) -> None:
        """Reads once, or sends again what was not answered."""
        core = self._core
        left_s = deadline - time.monotonic()
        due_ms = core.next_deadline_ms()
        if due_ms is None:
            if left_s <= 0:
                raise NcpLost("the server does not answer")
        else:
            left_s = max(due_ms - _now_ms(), 0) / 1000
        if self._is_readable(left_s):
            self._read()
        core.tick(_now_ms())

    def _is_readable(self, seconds: float) -> bool:
        """Whether something comes in time. `select` would refuse descriptors above 1,023."""
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(seconds * 1000))

    def _read(self) -> None:
        try:
            data = self._socket.recv(READ_SIZE)
        except (BlockingIOError, ConnectionRefusedError):
            return  # on UDP a refusal is news of an earlier datagram; the next may arrive
        if not data and not self._core.datagrams:
            raise NcpLost("the server closed the connection")
        self._core.receive(data, _now_ms())

    # -- between calls

    def _answer_server(self) -> None:
        """Answers the watchdog between calls; on TCP the system does that."""
        while self._lost is None and not self._forked:
            try:
                if not self._is_readable(1.0):
                    continue
                with self._lock:
                    if self._lost is None and self._is_readable(0):
                        self._read()
                        self._send()
            except (OSError, ValueError, RemoteProtocolError):
                return  # the next call raises the error

    # -- the end

    def _lose(self, error: BaseException) -> NcpLost:
        if self._lost is None:
            host, port = self.place
            cause = getattr(error, "cause", "") or str(error) or type(error).__name__
            self._lost = NcpLost(f"the NCP connection to {host}:{port} broke: {cause}")
            with contextlib.suppress(OSError):
                self._socket.close()
        return self._lost

    def close(self) -> None:
        """Logs out and ends the connection."""
        with self._lock:
            if self._lost is not None or self._forked:
                return
            with contextlib.suppress(NcpLost, OSError):
                self._core.destroy(_now_ms())
                self._answer()
            self._lose(NcpLost("it was closed"))

    def forked(self) -> None:
        """A child lets go of its copy."""
        self._forked = True
        self._socket.close()


def _connected(host: str, port: int, transport: Transport, timeout_s: float) -> socket.socket:
    try:
        if transport == "tcp":
            made = socket.create_connection((host, port), timeout_s)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEPALIVE:
                if hasattr(socket, name):
                    made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            return made
        family, kind, number, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        made = socket.socket(family, kind, number)
        made.connect(place)
        made.setblocking(False)
        return made
    except OSError as error:
        raise NcpLost(f"{host}:{port} cannot be reached: {error.strerror or error}") from None


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
