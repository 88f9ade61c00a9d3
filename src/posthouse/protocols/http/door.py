"""What the admin endpoint and the control socket share, and what each door of theirs does."""

from __future__ import annotations

import asyncio
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

from aiohttp import HttpVersion10, web

from posthouse.engine.accounts.logins import Told
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.errors import QueueError
from posthouse.net.connections import Admission, Connections
from posthouse.net.listening import Listener
from posthouse.protocols.engine_calls import Desk, OneTurn, Turns
from posthouse.protocols.handlers.audit_trail import AuditTrail, NoTrail
from posthouse.protocols.handlers.content_view import content_views, parse_masks
from posthouse.protocols.handlers.context import Services
from posthouse.protocols.handlers.dispatch import Api
from posthouse.protocols.handlers.history_samples import TICK_S, History
from posthouse.protocols.handlers.lease_table import Leases
from posthouse.protocols.handlers.query_limits import QueryLimits
from posthouse.protocols.handlers.rates import SAMPLE_INTERVAL_MS, Rates
from posthouse.protocols.handlers.recent_lines import RecentLines
from posthouse.protocols.handlers.scan_limits import ScanLimits
from posthouse.protocols.http.answers import Pages
from posthouse.protocols.http.authentication import (
    Gate,
)
from posthouse.protocols.http.background_work import (
    Backup,
    awaited,
    in_a_thread,
    in_the_background,
    paused,
)
from posthouse.protocols.http.console import Console
from posthouse.protocols.http.console_sessions import ConsoleSessions
from posthouse.protocols.http.passwords import PasswordLogins, monotonic_ms
from posthouse.protocols.http.requests import HttpFace, PendingRequests, RequestHandler
from posthouse.protocols.http.settings import AdminSettings
from posthouse.protocols.http.wrong_tokens import WrongTokens
from posthouse.protocols.memory import (
    SMALL_REQUEST,
    MemoryAccount,
)
from posthouse.protocols.metrics.binary import AskFigures
from posthouse.protocols.metrics.exposition import AskMetrics, Metrics, SyncTimes, Traffic
from posthouse.protocols.metrics.remote_read import AskFigures as AskRemoteRead
from posthouse.protocols.pacing import GIVES_WAY, Busy, Pace
from posthouse.protocols.sessions.handles import SessionLimits
from posthouse.protocols.sessions.session import OpenSession
from posthouse.protocols.settings import LimitSettings
from posthouse.store.log import LogStore

READ_BUFFER: Final = 256 << 10
KEPT_UNCOUNTED: Final = 16 << 10  # aiohttp keeps twice that and one read of a body not asked for
LINE_MAX: Final = 1 << 16  # a filter in a query, percent-encoded
GATHERERS: Final = 2  # bulk reads beside each other; more would only wait for each other
SEARCHERS: Final = 1  # searches beside the loop; threads of Python would wait for each other
POLL_S: Final = 0.02  # while a stop waits for what has begun


HEADER_MAX: Final = 8192


class OpenConnection(Protocol):
    """A connection of a door: an `HttpConnection`."""

    admission: Admission
    busy: int  # HTTP requests under way
    idle_since: float

    @property
    def session(self) -> OpenSession | None:
        """The client session on it, if it is one."""
        ...

    def end(self) -> None:
        """Its login is worth nothing from now on."""
        ...

    def stop_reading(self) -> None:
        """The server stops: what was asked is answered, nothing more is."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class Admin:
    """What the admin endpoint and the control socket share."""

    def __init__(
        self,
        desk: Desk,
        *,
        version: str,
        settings: AdminSettings | None = None,
        limits: LimitSettings | None = None,
        qms: QmsSettings | None = None,
        sync_times: SyncTimes | None = None,
        backup: Backup | None = None,
        refresh: Callable[[], Awaitable[object]] | None = None,
        fault: Callable[[Exception], None] = lambda error: None,
        healthy: Callable[[], bool] = lambda: True,
        login_refused: Told = lambda user, address, cause: None,
        session_limits: SessionLimits | None = None,
        memory: MemoryAccount | None = None,
        binary: AskFigures | None = None,
        remote_read: AskRemoteRead | None = None,
        more_metrics: Sequence[AskMetrics] = (),
        store: LogStore | None = None,
        busy: Callable[[], Busy] = lambda: Busy(0.0, 0),
        turns: Turns | None = None,
        audit: AuditTrail | None = None,
        log: RecentLines | None = None,
        disk_free: Callable[[], int | None] = lambda: None,
        problems: Callable[[], list[str]] = list,
        ask_peers: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        manager = desk.manager
        limits, qms = limits or LimitSettings(), qms or QmsSettings()
        self.desk = desk
        self.turns = turns or OneTurn()
        self.version = version
        self.settings = settings or AdminSettings()
        self.session_limits = session_limits
        self.memory = memory or MemoryAccount()
        self.buffer = memoryview(bytearray(READ_BUFFER))  # that all connections read into
        self.small_buffer = self.buffer[:SMALL_REQUEST]
        self.tokens = manager.tokens
        self.tokens.gone = self.end_sessions_of
        self.passwords = PasswordLogins(manager.accounts, login_refused)
        self.wrong_tokens = WrongTokens(login_refused, monotonic_ms)
        self.console_sessions = ConsoleSessions(
            self.tokens, self.passwords, self.settings.console_idle_s, monotonic_ms, os.urandom
        )
        self.traffic = Traffic()
        self.pending = PendingRequests()
        self.rates, self.history = Rates(), History()
        share = limits.bulk_read_share
        pace, search_pace = Pace(share), Pace(share, GIVES_WAY)
        self.services = Services(
            tokens=self.tokens,
            machine=manager.machine,
            rates=self.rates,
            version=version,
            backup=None if backup is None else awaited(backup),
            refresh=None if refresh is None else awaited(lambda nothing: refresh()),
            ask_peers=None if ask_peers is None else awaited(ask_peers),
            problems=problems,
            store=store,
            offload=in_a_thread,
            gather=in_the_background(GATHERERS, pace, busy),
            pace=pace,
            search=in_the_background(SEARCHERS, search_pace, busy),
            search_pace=search_pace,
            scans=ScanLimits(limits.scans_per_user),
            queries=QueryLimits(self.settings.queries_max),
            clock_s=time.perf_counter,
            pause=paused,
            revoked=self.end_sessions_of,
            fault=fault,
            station_lease_ms=qms.station_lease_s * 1000,
            audit=audit or NoTrail(),
            log=log or RecentLines(),
            leases=Leases(self.tokens.is_over),
            history=self.history,
            views=content_views(parse_masks(self.settings.masks)),
        )
        self.api = Api(desk, self.services)
        metrics = Metrics(
            manager, self.traffic, version, sync_times, binary, remote_read, more_metrics
        )
        self.pages = Pages(manager, metrics, version, healthy)
        self.sessions: dict[str, set[OpenConnection]] = {}
        self._sampling: asyncio.TimerHandle | None = None
        self._next_tick_ms = 0
        self._disk_free = disk_free
        self._users = 0

    @property
    def hosts(self) -> frozenset[str]:
        """The names that this endpoint answers to."""
        return self.desk.manager.queues.own_hosts().union(self.settings.hosts)

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
        now_ms = time.monotonic_ns() // 1_000_000
        self.rates.sample(self.desk.manager, now_ms)
        if now_ms >= self._next_tick_ms:
            self._next_tick_ms = now_ms + TICK_S * 1000 - SAMPLE_INTERVAL_MS // 2
            # A turn of the engine, which has the time: ages are those of now.
            tick = partial(self.history.tick, now_ms=now_ms, disk_free=self._disk_free())
            with suppress(QueueError):
                self.desk.decide(tick, lambda answer: None)
        if len(self.services.leases):
            with suppress(QueueError):
                self.desk.decide(self.services.leases.expire, lambda answer: None)
        loop = asyncio.get_running_loop()
        self._sampling = loop.call_later(SAMPLE_INTERVAL_MS / 1000, self._sample)

    def end_sessions_of(self, token_ids: list[str]) -> None:
        """Tokens were revoked, or their user has changed: what was opened with them closes."""
        self.console_sessions.end_of(token_ids)
        for connection in [one for id in token_ids for one in self.sessions.get(id, ())]:
            connection.end()
        self.services.operations.stop_of(token_ids)
        self.services.leases.end_of(self.desk.manager, set(token_ids))
        loop = asyncio.get_running_loop()  # this is a turn of the engine, and cancelling another
        for token_id in token_ids:
            loop.call_soon(self.pending.cancel, token_id)


class AdminDoor(ABC):
    """A listener for HTTP and client sessions; `AdminServer` and `ControlSocket` are the two."""

    name = ""

    def __init__(self, admin: Admin, connections: Connections | None, gate: Gate) -> None:
        self.admin = admin
        self.connections = connections or Connections()
        self.gate = gate
        self.stopping = False
        self.open: set[OpenConnection] = set()
        self.handlers: dict[Any, OpenConnection] = {}
        self.face = HttpFace(
            admin.api,
            gate,
            admin.passwords,
            admin.wrong_tokens,
            admin.pages,
            admin.traffic,
            memory=admin.memory,
            pending=admin.pending,
            body_size_max=admin.settings.body_size_max,
            body_timeout_s=admin.settings.body_timeout_s,
            identified=self._identified,
            turns=admin.turns,
            console=self._console(),
        )
        self.web = web.Server(self._handle, handler_cancellation=True)
        self._listener: Listener | None = None

    # -- what differs

    @abstractmethod
    def address_of(self, transport: asyncio.Transport) -> str:
        """Who connections are counted by."""

    def _console(self) -> Console | None:
        """The web console, where it is served."""
        return None

    def refuses(self, transport: asyncio.Transport) -> str:
        """Why a connection is turned away, if it is."""
        return ""

    def refused(self, reason: str) -> None:
        """A connection was turned away."""
        self.admin.traffic.refused[reason] += 1

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
            read_bufsize=KEPT_UNCOUNTED,
        )
        handler.face = self.face
        return handler

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = self.handlers.get(request.protocol)
        if connection is None:  # lost while its request waited for its turn
            return web.Response(status=503)
        if request.version < HttpVersion10:
            return web.Response(status=505)
        connection.busy += 1
        try:
            return await self.face.respond(request)
        finally:
            connection.busy -= 1
            connection.idle_since = asyncio.get_running_loop().time()

    def _identified(self, request: web.BaseRequest) -> None:
        """The peer is known: its connection keeps its place."""
        connection = self.handlers.get(request.protocol)
        if connection is not None:
            connection.admission.prove()

    # -- the end

    async def stop(self, deadline_s: float) -> None:
        """Stops accepting and reading; what has begun is answered, at most this many seconds."""
        self.stopping = self.face.closing = True
        if self._listener is not None:
            self._listener.close()
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

    def _working(self, connection: OpenConnection) -> bool:
        session = connection.session
        return bool(connection.busy) or (session is not None and bool(session.requests))
