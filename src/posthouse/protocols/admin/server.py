"""The admin endpoint and the control socket: connections, HTTP by aiohttp, client sessions.

A connection's first bytes decide: `GET /api/v1/session ` becomes a client session, anything else is
aiohttp's. Both stay behind this protocol, which counts and bounds them.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

from aiohttp import web

from posthouse.engine.tokens import Tokens
from posthouse.model.errors import QueueError
from posthouse.protocols.admin import control
from posthouse.protocols.admin.answers import Pages, plain_response, refusal
from posthouse.protocols.admin.api import Api, Done
from posthouse.protocols.admin.binary_metrics import AskFigures
from posthouse.protocols.admin.context import Services
from posthouse.protocols.admin.conversation import Conversation
from posthouse.protocols.admin.gate import (
    SESSION_LINE,
    SWITCHING,
    Gate,
    HeaderTooLarge,
    Identity,
    upgrade_headers,
)
from posthouse.protocols.admin.http import HttpFace, Pending, RequestHandler
from posthouse.protocols.admin.metrics import Metrics, SyncTimes, Traffic
from posthouse.protocols.admin.outside import Backup, awaited, in_a_thread, is_of_owner
from posthouse.protocols.admin.rates import SAMPLE_INTERVAL_MS, Rates
from posthouse.protocols.admin.session import ClientSession
from posthouse.protocols.admin.session_handles import SessionLimits
from posthouse.protocols.connections import Connections
from posthouse.protocols.desk import Desk
from posthouse.protocols.memory import (
    RECEIVE,
    SMALL_REQUEST,
    UNSYNCED,
    Buffer,
    Holder,
    Loan,
    MemoryAccount,
)
from posthouse.security.access import Caller
from posthouse.security.accounts import Role

HEADER_MAX: Final = 8192
LINE_MAX: Final = 1 << 16  # a filter in a query, percent-encoded
POLL_S: Final = 0.02  # while a stop waits for what has begun
LINGER_S: Final = 10.0  # for the last bytes to a peer that may not read them
FAREWELL_S: Final = 0.2  # for answers on their way, to a session whose token is good no more
# A client that vanished is noticed within a minute: what it has locked is others' then.
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_COUNTED: Final = (RECEIVE, UNSYNCED, Buffer.SEND.value)


@dataclass(frozen=True)
class AdminSettings:
    """What the runtime's settings say about this endpoint."""

    hosts: frozenset[str] = frozenset()
    body_size_max: int = 64 << 20
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 75.0


class Admin:
    """What the admin endpoint and the control socket share."""

    def __init__(
        self,
        desk: Desk,
        *,
        version: str,
        settings: AdminSettings | None = None,
        sync_times: SyncTimes | None = None,
        backup: Backup | None = None,
        fault: Callable[[Exception], None] = lambda error: None,
        healthy: Callable[[], bool] = lambda: True,
        session_limits: SessionLimits | None = None,
        memory: MemoryAccount | None = None,
        binary: AskFigures | None = None,
    ) -> None:
        manager = desk.manager
        self.desk = desk
        self.version = version
        self.settings = settings or AdminSettings()
        self.session_limits = session_limits
        self.memory = memory or MemoryAccount()
        self.tokens = Tokens(manager.core, manager.accounts)
        self.traffic = Traffic()
        self.pending = Pending()
        self.rates = Rates()
        self.services = Services(
            tokens=self.tokens,
            rates=self.rates,
            version=version,
            backup=None if backup is None else awaited(backup),
            offload=in_a_thread,
            revoked=self.end_sessions_of,
            fault=fault,
        )
        self.api = Api(desk, self.services)
        metrics = Metrics(manager, self.traffic, version, sync_times, binary)
        self.pages = Pages(manager, metrics, version, healthy)
        self.sessions: dict[str, set[Connection]] = {}
        self._sampling: asyncio.TimerHandle | None = None
        self._users = 0

    @property
    def hosts(self) -> frozenset[str]:
        """The names that this endpoint answers to."""
        return self.settings.hosts | self.desk.manager.core.settings.own_names

    def enter(self) -> None:
        """A door opens: from the first one on the books are looked at for the rates."""
        self._users += 1
        if self._sampling is None:
            self._sample()

    def leave(self) -> None:
        """A door closes."""
        self._users -= 1
        if not self._users and self._sampling is not None:
            self._sampling.cancel()
            self._sampling = None

    def _sample(self) -> None:
        self.rates.sample(self.desk.manager, time.monotonic_ns() // 1_000_000)
        loop = asyncio.get_running_loop()
        self._sampling = loop.call_later(SAMPLE_INTERVAL_MS / 1000, self._sample)

    def end_sessions_of(self, token_ids: list[str]) -> None:
        """Tokens were revoked, or their user has changed: what was opened with them closes."""
        for connection in [one for id in token_ids for one in self.sessions.get(id, ())]:
            connection.end()
        loop = asyncio.get_running_loop()  # this is a turn of the engine, and cancelling another
        for token_id in token_ids:
            loop.call_soon(self.pending.cancel, token_id)


class Connection(asyncio.Protocol):
    """One connection: undecided, then HTTP or a client session."""

    def __init__(self, door: AdminDoor) -> None:
        self.door = door
        self.admin = door.admin
        self.session: ClientSession | None = None
        self.http: Any = None  # aiohttp's RequestHandler
        self.busy = 0  # HTTP requests under way
        self.idle_since = 0.0
        self._address = ""
        self._head = bytearray()
        self._identity: Identity | None = None
        self._holder: Holder | None = None
        self._calls: dict[object, Conversation[Any]] = {}  # of the API, under way
        self._ending = False
        self._large = False  # a frame larger than small ones is on its way
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    # -- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts it in, or turns it away."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from it
        transport = self.transport
        address = self.door.address_of(transport)
        reason = self.door.refuses(transport) or self.door.connections.admit(address)
        if reason:
            self.admin.traffic.refused[reason] += 1
            transport.abort()
            return
        self._address = address
        self.admin.traffic.connections += 1
        self.door.open.add(self)
        self._set_timer(self.admin.settings.header_timeout_s, self._late)

    def data_received(self, data: bytes) -> None:
        """Bytes for whoever has the connection."""
        if self.session is not None:
            self.session.receive(data)
            self._count(self.session)
        elif self.http is not None:
            self.http.data_received(data)
        elif self._address:
            self._head += data
            self._begin()

    def eof_received(self) -> bool | None:
        """The peer sends nothing more."""
        if self.http is not None:
            self.http.eof_received()
        return None

    def pause_writing(self) -> None:
        """The peer does not read fast enough."""
        if self.session is not None:
            self.session.hold(True)
        elif self.http is not None:
            self.http.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self.session is not None:
            self._count(self.session)
            self.session.hold(False)
        elif self.http is not None:
            self.http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever made it."""
        if not self._address:
            return
        self._stop_timer()
        self.door.open.discard(self)
        self.door.connections.leave(self._address)
        self.admin.traffic.connections -= 1
        if self.http is not None:
            self.door.handlers.pop(self.http, None)
            self.http.connection_lost(exc)
        if self.session is not None:
            self._session_lost(self.session)

    def _session_lost(self, session: ClientSession) -> None:
        self.admin.traffic.sessions -= 1
        token_id = self._identity.token_id if self._identity else ""
        opened = self.admin.sessions.get(token_id, set())
        opened.discard(self)
        if not opened:
            self.admin.sessions.pop(token_id, None)
        if self._holder is not None:
            self._holder.leave()
            self._holder = None
        session.lost()
        for call in list(self._calls.values()):
            call.cancel()

    # -- timers

    def _set_timer(self, seconds: float, call: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, call)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self.admin.traffic.refused["no request in time"] += 1
        self.transport.abort()

    def _look_idle(self) -> None:
        """A connection on which no request is under way ends after a while, whatever trickles."""
        left = self.idle_since + self.admin.settings.idle_timeout_s - self._loop.time()
        if self.busy:
            self._set_timer(self.admin.settings.idle_timeout_s, self._look_idle)
        elif left > 0:
            self._set_timer(left, self._look_idle)
        else:
            self.transport.abort()

    def close(self) -> None:
        """Ends it when what was written is sent, or its peer does not read it."""
        if self.session is not None:
            self.session.flush()  # answers of this round of the loop
        self.transport.close()
        self._set_timer(LINGER_S, self.transport.abort)

    def end(self) -> None:
        """Takes nothing more in, and closes once what was asked a moment ago is answered."""
        self._ending = True
        self._pause(True)
        self._set_timer(FAREWELL_S, self.close)

    # -- the first bytes

    def _begin(self) -> None:
        """Waits for the whole header, so that the timer covers it."""
        head = bytes(self._head)
        end = head.find(b"\r\n\r\n")
        if end < 0 and len(head) <= HEADER_MAX:
            return
        self._stop_timer()
        self._head.clear()
        if not head.startswith(SESSION_LINE):
            self._begin_http(head)
        elif 0 <= end <= HEADER_MAX:
            self._begin_session(head[:end], head[end + 4 :])
        else:
            self._refuse(HeaderTooLarge(f"the header has more than {HEADER_MAX} bytes"))

    def _begin_http(self, head: bytes) -> None:
        self.http = self.door.handler()
        self.door.handlers[self.http] = self
        self.http.connection_made(self.transport)
        self.http.data_received(head)
        self.idle_since = self._loop.time()
        self._set_timer(self.admin.settings.idle_timeout_s, self._look_idle)

    def _begin_session(self, head: bytes, rest: bytes) -> None:
        try:
            headers = upgrade_headers(head)
            self.door.gate.check(headers)
            identity = self.door.gate.identify(headers, int(time.time()))
        except QueueError as error:
            self._refuse(error)
            return
        self.transport.write(SWITCHING)
        self._identity = identity
        self._holder = self.admin.memory.open(self._address, self._too_much, self._resume)
        self.session = session = ClientSession(
            self.admin.desk,
            identity.caller,
            identity.role.value,
            self._write,
            api=self._call,
            limits=self.admin.session_limits,
            soon=self._soon,
            close=self.close,
            pause=self._pause,
            software=f"posthouse {self.admin.version}",
        )
        self.admin.traffic.sessions += 1
        self.admin.sessions.setdefault(identity.token_id, set()).add(self)
        if identity.expires_s is not None:
            self._set_timer(max(identity.expires_s - time.time(), 0.0), self.close)
        if rest:
            session.receive(rest)

    def _call(
        self, caller: Caller, role: str, method: str, target: str, body: bytes, done: Done
    ) -> None:
        """The API for the CALL frames of the session; what waits ends with it."""
        assert self._holder is not None
        asked, loan = object(), Loan(self.admin.memory, self._holder)

        def finished(status: int, content: bytes) -> None:
            self._calls.pop(asked, None)
            loan.end()
            done(status, content)

        api = self.admin.api
        call = api.call(caller, Role(role), method, target, body, finished, loan.change)
        if call is not None and not call.ended:
            self._calls[asked] = call

    def _write(self, frames: list[bytes]) -> None:
        self.transport.writelines(frames)
        if self.session is not None:
            self._count(self.session)

    def _count(self, session: ClientSession) -> None:
        """Puts what the session holds on the account, and waits where there is no room."""
        holder, pending = self._holder, session.pending_bytes
        if holder is None:
            return
        unsent = self.transport.get_write_buffer_size()
        if unsent <= SMALL_REQUEST:  # nobody tells when the last of it is gone
            unsent = 0
        sizes = pending, session.request_bytes, unsent
        for kind, size in zip(_COUNTED, sizes, strict=True):
            grown = size - holder.bytes[kind]
            if grown > 0:
                holder.take(kind, grown)
            elif grown < 0:
                holder.give(kind, -grown)
        large = pending > SMALL_REQUEST
        if large and not self._large:
            if not holder.may_begin(pending, time.monotonic_ns() // 1_000_000):
                self.transport.pause_reading()
        elif self._large and not large:
            holder.finished()
        self._large = large

    def _too_much(self, reason: str) -> None:
        self.admin.traffic.refused[reason] += 1
        self.transport.abort()

    def _resume(self) -> None:
        """There is memory again; the session may have reasons of its own to read nothing."""
        self._large = False  # what waited asks again, and counts as begun from then on
        self._pause(self.session is not None and self.session.paused)

    def _soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def _pause(self, paused: bool) -> None:
        if self.transport.is_closing():
            return
        short = self._holder is not None and self._holder.waiting
        if paused or short or self._ending or self.door.stopping:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _refuse(self, error: QueueError) -> None:
        self.admin.desk.manager.refused(error)
        answer = refusal(error)
        self.admin.traffic.requests["GET", answer.status] += 1
        self.transport.write(plain_response(answer, HTTPStatus(answer.status).phrase))
        self.transport.close()

    def stop_reading(self) -> None:
        """The server stops: what was asked is answered, nothing more is."""
        if self.session is not None and not self.transport.is_closing():
            self.transport.pause_reading()
        elif self.http is None:
            self.transport.abort()


class AdminDoor(ABC):
    """A listener for HTTP and client sessions; `AdminServer` and `ControlSocket` are the two."""

    name = ""

    def __init__(self, admin: Admin, connections: Connections | None, gate: Gate) -> None:
        self.admin = admin
        self.connections = connections or Connections()
        self.gate = gate
        self.stopping = False
        self.open: set[Connection] = set()
        self.handlers: dict[Any, Connection] = {}
        self.face = HttpFace(
            admin.api,
            gate,
            admin.pages,
            admin.traffic,
            memory=admin.memory,
            pending=admin.pending,
            body_size_max=admin.settings.body_size_max,
            body_timeout_s=admin.settings.body_timeout_s,
        )
        self.web = web.Server(self._handle, handler_cancellation=True)
        self._server: asyncio.Server | None = None

    # -- what differs

    @abstractmethod
    def address_of(self, transport: asyncio.Transport) -> str:
        """Who connections are counted by."""

    def refuses(self, transport: asyncio.Transport) -> str:
        """Why a connection is turned away, if it is."""
        return ""

    def handler(self) -> RequestHandler:
        """aiohttp's end of a new connection."""
        handler = RequestHandler(
            self.web,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]
            auto_decompress=False,
            keepalive_timeout=self.admin.settings.idle_timeout_s,
            max_line_size=LINE_MAX,
            max_field_size=HEADER_MAX,
        )
        handler.face = self.face
        return handler

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = self.handlers.get(request.protocol)
        if connection is None:  # lost while its request waited for its turn
            return web.Response(status=503)
        connection.busy += 1
        try:
            return await self.face.respond(request)
        finally:
            connection.busy -= 1
            connection.idle_since = asyncio.get_running_loop().time()

    # -- the end

    async def stop(self, deadline_s: float) -> None:
        """Stops accepting and reading; what has begun is answered, at most so many seconds."""
        self.stopping = self.face.closing = True
        if self._server is not None:
            self._server.close()
        self.web.pre_shutdown()
        for connection in list(self.open):
            connection.stop_reading()
        loop = asyncio.get_running_loop()
        end = loop.time() + deadline_s
        while any(self._working(one) for one in self.open) and loop.time() < end:
            await asyncio.sleep(POLL_S)
        await self.web.shutdown(max(end - loop.time(), POLL_S))
        for connection in list(self.open):
            connection.close()
        await asyncio.sleep(0)
        self.admin.leave()

    def _working(self, connection: Connection) -> bool:
        session = connection.session
        return bool(connection.busy) or (session is not None and bool(session.requests))


class AdminServer(AdminDoor):
    """The endpoint `admin`: TCP, with TLS where a certificate is given."""

    name = "admin"

    def __init__(
        self,
        admin: Admin,
        connections: Connections | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(admin, connections, Gate(admin.tokens, admin.hosts))
        self._tls = tls

    def address_of(self, transport: asyncio.Transport) -> str:
        """The peer's address, without its port."""
        peer = transport.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        loop = asyncio.get_running_loop()
        # A handshake comes before the connection is counted in: it has no more time than a header.
        handshake_s = self.admin.settings.header_timeout_s if self._tls else None
        self._server = await loop.create_server(
            lambda: Connection(self),
            host,
            port,
            ssl=self._tls,
            ssl_handshake_timeout=handshake_s,
            backlog=1024,
        )
        for listener in self._server.sockets:
            _keep_alive(listener)
        self.admin.enter()
        address = self._server.sockets[0].getsockname()
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        return f"{shown}:{address[1]}"


def _keep_alive(listener: Any) -> None:
    """What a listener has set, its connections have."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class ControlSocket(AdminDoor):
    """The socket in the home: whoever may open it is the administrator."""

    name = "control"

    def __init__(self, admin: Admin, connections: Connections | None = None) -> None:
        local = Identity(Caller.administrator(), Role.ADMINISTER)
        super().__init__(admin, connections, Gate(admin.tokens, admin.hosts, local))
        self._path: Path | None = None

    def address_of(self, transport: asyncio.Transport) -> str:
        """All of them count together."""
        return "local"

    def refuses(self, transport: asyncio.Transport) -> str:
        """Only the server's own user and root are let in."""
        peer = transport.get_extra_info("socket")
        return "" if is_of_owner(peer) else "control socket: another user"

    async def start(self, host: str, port: int) -> str:
        """Listens in the home that `host` names; returns the path of the socket."""
        self._path = control.prepare(Path(host))
        loop = asyncio.get_running_loop()
        mask = os.umask(0o177)
        try:
            self._server = await loop.create_unix_server(
                lambda: Connection(self), str(self._path), backlog=1024
            )
        finally:
            os.umask(mask)
        self.admin.enter()
        return str(self._path)

    async def stop(self, deadline_s: float) -> None:
        """The same, and the socket is gone."""
        await super().stop(deadline_s)
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
