"""Remote read on asyncio: the endpoints `rpc` and `epm` ([MS-MQRR] 2.1, 3.1.3)."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from posthouse.net.connections import Connections
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.memory import MemoryAccount
from posthouse.protocols.remote_read.protocol import RemoteRead
from posthouse.protocols.remote_read.settings import RemoteReadSettings
from posthouse.protocols.remote_read.stubs import REMOTE_READ
from posthouse.rpc.domain_logins import DomainLogins
from posthouse.rpc.endpoint_mapper import EndpointMapper, Entry
from posthouse.rpc.ept import EPT
from posthouse.rpc.interface import Interface
from posthouse.rpc.kerberos import KerberosService
from posthouse.rpc.ntlm.authentication import ServerNames
from posthouse.rpc.providers import Acceptors
from posthouse.rpc.server import RpcServer

PORT_STEP: Final = 11  # 3.1.4.1
PORT_MAX: Final = 65_535
ANNOTATION: Final = "Message Queuing - RemoteRead V1"
MAPPER: Final = "Endpoint mapper"
_FILETIME_1970: Final = 116_444_736_000_000_000


def filetime() -> int:
    """The time as NTLM has it: tenths of a microsecond since 1601."""
    return _FILETIME_1970 + time.time_ns() // 100


class NodeFigures(NamedTuple):
    """The figures of the endpoints, for the metrics."""

    connections: int
    clients: int
    opened: int
    waiting: int
    pending: int
    cleaned_up: int
    logins_refused: int
    calls: Mapping[str, int]  # by method
    faults: Mapping[str, int]  # by status
    refused: Mapping[str, int]  # connections, by reason


class Neighbour(NamedTuple):
    """An interface that shares the port of remote read, and its logins."""

    interface: Interface
    about: str  # what the endpoint mapper prints beside it
    calls: Mapping[str, int]  # by method


class RemoteReadNode:
    """The protocol with its clock, its accounts and the map of its port."""

    def __init__(
        self,
        desk: Desk,
        settings: RemoteReadSettings,
        names: ServerNames,
        *,
        memory: MemoryAccount | None = None,
        bug: Callable[[Exception], None] | None = None,
        kerberos: KerberosService | None = None,
        domain: DomainLogins | None = None,
        now: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.settings = settings
        self.memory = memory
        self.bug = bug
        self.now = now
        self.remote = RemoteRead(desk, settings, now, self._wake_at, memory)
        self.remote.logins.takes_domain_users = settings.domain_users
        self.domain = domain
        self.authenticator = Acceptors(
            self.remote.logins, names, os.urandom, filetime, kerberos, domain
        )
        self.mapper = EndpointMapper(self._entries)
        self.mapper_port = 0
        self.servers: list[RpcServer] = []
        self._neighbours: list[Neighbour] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    def _entries(self) -> list[Entry]:
        """What there is to be found: remote read, and the mapper itself where it has a port."""
        ports = [(REMOTE_READ, self.remote.port, ANNOTATION), (EPT, self.mapper_port, MAPPER)]
        ports += [(one.interface.syntax, self.remote.port, one.about) for one in self._neighbours]
        return [Entry(*entry) for entry in ports if entry[1]]

    def add(self, interface: Interface, about: str, calls: Mapping[str, int]) -> None:
        """Another interface on the port of remote read; to be added before the port is opened."""
        self._neighbours.append(Neighbour(interface, about, calls))

    def server(self, name: str, connections: Connections | None) -> RpcServer:
        """A port with the mapper on it, and on the one named `rpc` with remote read, too."""
        interfaces = [self.mapper.interface]
        if name == "rpc":
            neighbours = [one.interface for one in self._neighbours]
            interfaces = [self.remote.interface, *neighbours, *interfaces]
        made = RpcServer(
            interfaces,
            self.authenticator,
            self.settings,
            name=name,
            memory=self.memory,
            connections=connections,
            now=self.now,
            bug=self.bug,
        )
        self.servers.append(made)
        return made

    def figures(self) -> NodeFigures:
        """For the metrics."""
        remote = self.remote.figures
        faults: Counter[str] = Counter()
        refused: Counter[str] = Counter()
        calls = dict(remote.calls)
        for neighbour in self._neighbours:
            calls.update(neighbour.calls)
        for server in self.servers:
            faults.update({f"0x{status:08X}": n for status, n in server.counts.faults.items()})
            refused.update(server.refused)
        return NodeFigures(
            sum(len(server.links) for server in self.servers),
            remote.clients,
            remote.opened,
            remote.waiting,
            remote.pending,
            remote.cleaned_up,
            self.remote.logins.refusals,
            calls,
            faults,
            refused,
        )

    # -- one timer for everything

    def _wake_at(self, when_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= when_ms:
                return
            self._timer.cancel()
        self._timer_ms = when_ms
        delay_s = max(when_ms - self.now(), 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.remote.tick()

    def stop(self) -> None:
        """Closes the interface and stops its timer."""
        if self.domain is not None:
            self.domain.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class RemoteReadServer:
    """The endpoint `rpc`. Where its port is not configured, it takes the next one that is free."""

    name = "rpc"

    def __init__(
        self, node: RemoteReadNode, connections: Connections | None = None, *, step: bool = False
    ) -> None:
        self._node = node
        self._server = node.server(self.name, connections)
        self._step = step

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`."""
        if self._node.domain is not None:
            self._node.domain.start()
        while True:
            try:
                where = await self._server.start(host, port)
            except OSError as error:
                taken = error.errno == errno.EADDRINUSE and self._step and port
                if not taken or port + PORT_STEP > PORT_MAX:
                    raise
                port += PORT_STEP
            else:
                self._node.remote.port = int(where.rpartition(":")[2])
                return where

    async def stop(self, deadline_s: float) -> None:
        """Waits are cancelled, calls begun are answered, clients are let go."""
        await self._server.stop(deadline_s)
        self._node.stop()


class EndpointMapperServer:
    """The endpoint `epm`. Unless it was asked for, it does without a port it may not have."""

    name = "epm"

    def __init__(
        self,
        node: RemoteReadNode,
        connections: Connections | None = None,
        missed: Callable[[str, OSError], None] | None = None,
    ) -> None:
        self._node = node
        self._server = node.server(self.name, connections)
        self._missed = missed  # told why there is none; None: then nothing starts

    async def start(self, host: str, port: int) -> str:
        """Listens; returns `address:port`, or nothing."""
        try:
            where = await self._server.start(host, port)
        except OSError as error:
            if self._missed is None:
                raise
            self._missed(f"{host}:{port}", error)
            return ""
        self._node.mapper_port = int(where.rpartition(":")[2])
        return where

    async def stop(self, deadline_s: float) -> None:
        """Stops answering."""
        if self._node.mapper_port:
            await self._server.stop(deadline_s)
