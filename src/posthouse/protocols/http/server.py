"""The servers of the admin endpoint and the control socket: listening and stopping."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from posthouse.model.roles import Role
from posthouse.net import control_socket as control
from posthouse.net.connections import Connections
from posthouse.net.listening import Listener
from posthouse.net.sockets import shown_address
from posthouse.protocols.http.authentication import (
    ApiIdentity,
    Gate,
)
from posthouse.protocols.http.background_work import (
    is_of_owner,
)
from posthouse.protocols.http.connection import HttpConnection
from posthouse.protocols.http.console import Console
from posthouse.protocols.http.door import Admin, AdminDoor
from posthouse.security.access import Caller


class AdminServer(AdminDoor):
    """The endpoint `admin`: TCP, with TLS where a certificate is given."""

    name = "admin"

    def __init__(
        self,
        admin: Admin,
        connections: Connections | None = None,
        tls: ssl.SSLContext | None = None,
        listening: Callable[[int], None] = lambda port: None,
    ) -> None:
        super().__init__(admin, connections, Gate(admin.tokens, admin.hosts))
        self._tls = tls
        self._listening = listening  # told the port

    def use_tls(self, tls: ssl.SSLContext) -> None:
        """Use this TLS for connections that come from now on."""
        self._tls = tls
        if self._listener is not None:
            self._listener.tls = tls

    def address_of(self, transport: asyncio.Transport) -> str:
        """The peer's address, without its port."""
        peer = transport.get_extra_info("peername")
        return str(peer[0]) if peer else "unknown"

    def _console(self) -> Console | None:
        """The web console, where the settings have it."""
        admin = self.admin
        if not admin.settings.serves_console:
            return None
        name = admin.desk.manager.machine.settings.computer_name
        return Console(admin.console_sessions, admin.passwords, name, admin.version)

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        self._listener = Listener(
            lambda admission: HttpConnection(self, admission),
            self.connections,
            self.refused,
            tls=self._tls,
            handshake_s=self.admin.settings.header_timeout_s,  # no more time than a header
        )
        address = self._listener.start(host, port)
        self.admin.enter()
        self._listening(address[1])
        return shown_address(address)


class ControlSocket(AdminDoor):
    """The control socket in the home: a user who may open it acts as administrator."""

    name = "control"

    def __init__(self, admin: Admin, connections: Connections | None = None) -> None:
        local = ApiIdentity(Caller.administrator(), Role.ADMINISTER)
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
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            bound.bind(str(self._path))
        except OSError:
            bound.close()
            raise
        finally:
            os.umask(mask)
        self._listener = Listener(
            lambda admission: HttpConnection(self, admission), self.connections, self.refused
        )
        self._listener.start_on([bound])
        self.admin.enter()
        return str(self._path)

    async def stop(self, deadline_s: float) -> None:
        """Stop listening, and remove the socket."""
        await super().stop(deadline_s)
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
