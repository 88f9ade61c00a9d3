"""Connections that die: the client itself and a server, in one thread, over lines in memory.

`posthouse.msmq` finds its sockets here. What it sends is carried to the server PDU by PDU while it
waits for something, and what the server answers is carried back. Before every PDU and in the
middle of each there is a place where the line can be cut, and where the server can die.
"""

from __future__ import annotations

import os
import select as real_select
import socket as real_socket
from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from posthouse.client import rpc_link
from posthouse.client.remote import consumer as remote_consuming
from posthouse.protocols.remote_read.protocol import RemoteRead
from posthouse.protocols.remote_read.server import filetime
from posthouse.protocols.remote_read.settings import MinimumAuthentication, RemoteReadSettings
from posthouse.protocols.remote_read.stubs import Opnum
from posthouse.rpc import pdu
from posthouse.rpc.association import AssociationGroups
from posthouse.rpc.connection import ServerConnection
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.providers import Acceptors
from posthouse.rpc.security import Authenticator
from posthouse.rpc.settings import RpcSettings
from posthouse.sim.faults import PowerLost
from tests.protocols.admin.session_rig import TurnDesk

ADDRESS = "192.0.2.7"
OPNUM_AT = 22
IDLE_MS = 1000
FOR_EVER_MS = 100 * IDLE_MS
STEPS_MAX, LINES_MAX = 5000, 100
ENDS = (Opnum.END_RECEIVE, Opnum.END_TRANSACTIONAL_RECEIVE)


class Noticed(Enum):
    """Who finds out at once that a line was cut; the other one does much later."""

    BOTH = "both"
    CLIENT = "client"
    SERVER = "server"


class ServerDied(Exception):
    """The process of the server ended in the middle of what it did."""


class MortalDesk(TurnDesk):
    """A desk with places to die at between the steps of a turn."""

    def __init__(self, driver: Any, point: Callable[[], None]) -> None:
        super().__init__(driver)
        self._point = point

    def settle(self) -> None:
        while True:
            self._point()
            self.append()
            self._point()
            self.driver.sync()
            self._point()
            if not self.driver.release() and not self.turning:
                return


class Server:
    """A process that serves remote read."""

    def __init__(
        self,
        desk: TurnDesk,
        now: Callable[[], int],
        *,
        minimum: MinimumAuthentication = "none",
        settings: RemoteReadSettings | None = None,
    ) -> None:
        self.desk = desk
        self.bugs: list[Exception] = []
        self.remote = RemoteRead(
            desk, settings or RemoteReadSettings(minimum_authentication=minimum), now
        )
        names = ServerNames("ALPHA", "alpha.example.com")
        self.authenticator: Authenticator = Acceptors(
            self.remote.logins, names, os.urandom, filetime
        )
        self.groups = AssociationGroups(os.urandom)

    def connection(self, line: Line) -> ServerConnection:
        return ServerConnection(
            [self.remote.interface],
            self.groups,
            self.authenticator,
            RpcSettings(),
            ADDRESS,
            line.answered,
            line.closed_by_server,
            bug=self.bugs.append,
        )

    def check_empty(self) -> None:
        """All clients are gone, and nothing is left of them."""
        assert self.bugs == []
        assert self.remote.figures[1:5] == (0, 0, 0, 0)
        assert len(self.groups) == 0


class Line:
    """One connection."""

    def __init__(self, net: Net, server: Server) -> None:
        self.net = net
        self.server = server
        self.broken = False  # carries nothing any more
        self.client_knows = self.server_knows = False
        self.to_server = self.to_client = b""  # on their way
        self.arrived = b""
        self.unanswered_ends: set[int] = set()  # calls
        self.connection = server.connection(self)

    # -- what the ends do

    def sent(self, data: bytes) -> None:
        """By the client. What goes into a dead line is sent, too, for all that they know."""
        ends = {call_of(one) for one in split(data) if is_end(one)}
        if self.broken:
            self.net.doubts += len(ends)
        else:
            self.unanswered_ends |= ends
            self.to_server += data

    def answered(self, parts: list[bytes]) -> None:
        """By the server."""
        self.to_client += b"".join(parts)

    def closed_by_server(self) -> None:
        self.closed_by_client()

    def closed_by_client(self) -> None:
        if not self.broken:
            self.broken = True
            self.client_knows = True
            self.tell_server()

    # -- the end

    def cut(self, noticed: Noticed) -> None:
        """What is on its way gets lost."""
        self.broken = True
        self.to_server = self.to_client = b""
        self.client_knows = noticed is not Noticed.SERVER
        if noticed is not Noticed.CLIENT:
            self.tell_server()

    def tell_server(self) -> None:
        if not self.server_knows:
            self.server_knows = True
            if self.net.server is self.server:
                self.connection.lost()


class Net:
    """All lines between one client and the server; `cut_at` and `die_at` are places."""

    fatal: tuple[type[BaseException], ...] = (ServerDied, PowerLost)

    def __init__(self, serve: Callable[[Net], Server], *, chunks: bool = False) -> None:
        self.places = self.points = self.steps = 0
        self.cut_at = self.die_at = 0  # 0: never
        self.noticed = Noticed.BOTH
        self.answers_survive = False  # what a server wrote before it died
        self.chunks = chunks  # the server reads all that has come at once
        self.lines: list[Line] = []
        self.doubts = 0  # ends without an answer when their line broke
        self.deaths = 0
        self.idle: Callable[[], None] = lambda: None  # a second in which nothing else happens
        self._serve = serve
        self.server: Server | None = None
        self.server = serve(self)

    # -- the server's life

    def point(self) -> None:
        """Between two steps of the server."""
        self.points += 1
        if self.points == self.die_at:
            raise ServerDied

    def _die(self) -> None:
        """All its lines break; another one is started."""
        self.deaths += 1
        self.server = None
        for line in self.lines:
            if not line.broken:
                kept = line.to_client if self.answers_survive else b""
                self._break(line, Noticed.BOTH)
                line.to_client = kept
        self.server = self._serve(self)

    def _settle(self) -> None:
        try:
            if self.server is not None:
                self.server.desk.settle()
        except self.fatal:
            self._die()

    # -- carrying

    def connect(self) -> SimSocket:
        if self.server is None:
            raise ConnectionRefusedError
        line = Line(self, self.server)
        self.lines.append(line)
        assert len(self.lines) < LINES_MAX, "the client does nothing but connect"
        return SimSocket(line)

    def carry(self, line: Line, patience_ms: float = 0) -> bool:
        """Something for the client has come, or the line is dead; False: nothing in this time."""
        while not line.arrived and not (line.client_knows and not line.to_client):
            if self._step(line):
                continue
            if line.broken or patience_ms <= 0:
                return False
            self.idle()
            patience_ms -= IDLE_MS
        return True

    def _step(self, line: Line) -> bool:
        self.steps += 1
        assert self.steps < STEPS_MAX, "it has no end"
        if line.to_client:
            one, line.to_client = first(line.to_client)
            self._carry_one(line, one, lambda data: self._to_client(line, data))
            return True
        if line.to_server and not line.broken:
            one, line.to_server = line.to_server, b""
            if not self.chunks:
                one, line.to_server = first(one)
            self._carry_one(line, one, lambda data: self._to_server(line, data))
            return True
        if self.server is not None and self.server.desk.turning:
            self._settle()
            return True
        return False

    def _carry_one(self, line: Line, data: bytes, deliver: Callable[[bytes], None]) -> None:
        """A chunk, unless the line is cut in front of one of its PDUs or in the middle of it."""
        whole = 0
        for one in split(data):
            for part in (0, len(one) // 2):
                self.places += 1
                if self.places == self.cut_at:
                    deliver(data[: whole + part])
                    self._break(line, self.noticed)
                    self._settle()
                    return
            whole += len(one)
        deliver(data)

    def _break(self, line: Line, noticed: Noticed) -> None:
        self.doubts += len(line.unanswered_ends)
        line.cut(noticed)

    def _to_server(self, line: Line, data: bytes) -> None:
        if data and not line.server_knows:
            line.connection.receive(data)
            self._settle()

    def _to_client(self, line: Line, data: bytes) -> None:
        line.arrived += data
        for one in split(data):
            if one[2] in (pdu.RESPONSE, pdu.FAULT) and len(one) == size_of(one):
                line.unanswered_ends.discard(call_of(one))

    # -- afterwards

    def rest(self) -> None:
        """The server notices the end of every line at last."""
        self.cut_at = self.die_at = 0
        for line in self.lines:
            line.broken = True
            line.tell_server()
        self._settle()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Gives the client these sockets, and nothing that depends on time."""
        monkeypatch.setattr(rpc_link, "socket", SimSockets(self))
        monkeypatch.setattr(rpc_link, "select", SimSelect)
        monkeypatch.setattr(remote_consuming, "END_AFTER_S", 3600.0)


class SimSocket:
    """What the client has of a line."""

    def __init__(self, line: Line) -> None:
        self.line = line

    def setsockopt(self, *options: object) -> None:
        pass

    def settimeout(self, seconds: float | None) -> None:
        pass

    def setblocking(self, blocks: bool) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self.send(data)

    def send(self, data: bytes) -> int:
        self.line.sent(bytes(data))
        if self.line.client_knows:
            raise BrokenPipeError("the line is dead")
        return len(data)

    def recv(self, size: int) -> bytes:
        line = self.line
        if not line.net.carry(line) and not line.broken:
            raise AssertionError("the client waits for ever")
        data, line.arrived = line.arrived[:size], line.arrived[size:]
        if not data and line.broken and not line.client_knows:
            raise TimeoutError("nothing comes")
        return data

    def shutdown(self, how: int) -> None:
        pass

    def close(self) -> None:
        self.line.closed_by_client()


class SimSockets:
    """What the client has of the module `socket`."""

    def __init__(self, net: Net) -> None:
        self._net = net

    def create_connection(self, place: tuple[str, int], timeout: float) -> SimSocket:
        return self._net.connect()

    def __getattr__(self, name: str) -> Any:
        return getattr(real_socket, name)


class SimPoll:
    """A poll in whose time the world goes on."""

    def __init__(self) -> None:
        self._socket: SimSocket | None = None

    def register(self, socket: SimSocket, events: int) -> None:
        self._socket = socket

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        assert self._socket is not None
        line = self._socket.line
        patience_ms = FOR_EVER_MS if milliseconds is None else milliseconds
        if line.net.carry(line, patience_ms):
            return [(0, real_select.POLLIN)]
        assert milliseconds is not None, "the client waits for ever"
        return []


class SimSelect:
    """What the client has of the module `select`."""

    poll = SimPoll
    POLLIN, POLLOUT = real_select.POLLIN, real_select.POLLOUT


def split(data: bytes) -> list[bytes]:
    """PDUs, and what is left of one."""
    pdus = []
    while data:
        one, data = first(data)
        pdus.append(one)
    return pdus


def first(data: bytes) -> tuple[bytes, bytes]:
    size = size_of(data)
    return data[:size], data[size:]


def size_of(data: bytes) -> int:
    return int.from_bytes(data[8:10], "little") if len(data) >= 10 else len(data)


def is_end(one: bytes) -> bool:
    return one[2] == pdu.REQUEST and int.from_bytes(one[OPNUM_AT : OPNUM_AT + 2], "little") in ENDS


def call_of(one: bytes) -> int:
    return int.from_bytes(one[12:16], "little")
