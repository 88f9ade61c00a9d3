"""NCP on a real engine: no sockets, turns by hand, our own client at the other end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace

from posthouse.client.ncp.calls import NcpCalls
from posthouse.client.ncp.core import NcpConversation
from posthouse.client.ncp.link import NcpLink
from posthouse.engine.jobs.bindery.stations import Station
from posthouse.engine.jobs.settings import QmsSettings
from posthouse.model.bindery import NWOT_USER, SUPERVISOR
from posthouse.model.errors import QmsError
from posthouse.protocols.ncp.protocol import NcpProtocol
from posthouse.protocols.ncp.settings import NcpSettings
from posthouse.wire.ncp.calls import NcpCall
from posthouse.wire.ncp.framing import Reply
from tests.engine.rig import Rig
from tests.protocols.admin.session_rig import TurnDesk

ADDRESS = "192.0.2.7"
PASSWORD = "SECRET"
PATH = "SYS:SYSTEM"
KEY = bytes(range(32))  # of the key file
JOB_QUEUE, JOB_SERVER = 0x0A, 5


class NcpRig(Rig):
    """A queue manager with NCP on it.

    Names are shown before a login, as the documents have it; `names=False` is the default of the
    product.
    """

    def __init__(
        self, settings: NcpSettings | None = None, names: bool = True, **engine: Any
    ) -> None:
        qms = engine.pop("qms", QmsSettings())
        super().__init__(qms=replace(qms, names_before_login=names), **engine)
        self.ncp_settings = settings or NcpSettings()
        self.serve()

    def serve(self) -> None:
        self.manager.certificates.key_file = lambda: KEY
        self.desk = TurnDesk(self.driver)
        self.wakes: list[int] = []
        self.ncp = NcpProtocol(
            self.desk,
            self.ncp_settings,
            "ALPHA",
            lambda: self.clock.now_ms,
            self.wakes.append,
        )

    def restart(self) -> None:
        super().restart()
        self.serve()

    def pass_time(self, milliseconds: int) -> None:
        """The clock goes on; engine and protocol do what is due."""
        self.clock.advance(milliseconds)
        self.turn()
        self.ncp.tick()
        self.desk.settle()

    def root(self) -> Station:
        """A station of SUPERVISOR, who came by another door."""

        def enter(manager: Any) -> Station:
            station: Station = manager.stations.begin("rig")
            manager.bindery.enter(station, self.admin)
            return station

        station: Station = self.run(enter)
        return station

    def user(self, name: str, kind: int = NWOT_USER, password: str = PASSWORD) -> int:
        """An object that can log in; its ID."""
        root = self.root()

        def make(manager: Any) -> int:
            if name != SUPERVISOR:
                manager.bindery.create_object(root, kind, name)
            manager.bindery.change_object_password(root, kind, name, "", password)
            found: int = manager.bindery.get_object_id(root, kind, name).id
            manager.stations.end(root)
            return found

        made: int = self.run(make)
        return made

    def queue(self, name: str = "JOBS", kind: int = JOB_QUEUE, **members: str) -> int:
        """A queue; `users`, `operators`, `servers` name one member each."""
        root = self.root()

        def make(manager: Any) -> int:
            made: int = manager.jobs.create_queue(root, kind, name, PATH)
            for role, member in members.items():
                who, _, of_type = member.partition("/")
                manager.bindery.add_object_to_set(
                    root, kind, name, f"Q_{role.upper()}", int(of_type or NWOT_USER), who
                )
            manager.stations.end(root)
            return made

        queue: int = self.run(make)
        return queue

    # -- clients

    def client(self, *, udp: bool = False, address: str = ADDRESS) -> NcpCalls:
        """A connection that nobody has logged in on."""
        link: Line = UdpLine(self, address) if udp else TcpLine(self, address)
        link.open()
        return NcpCalls(cast(NcpLink, link))

    def logged_in(
        self, name: str, kind: int = NWOT_USER, password: str = PASSWORD, **options: Any
    ) -> NcpCalls:
        """The same with a login."""
        calls = self.client(**options)
        calls.login(name, kind, password)
        return calls


class Line:
    """What `NcpCalls` needs of an `NcpLink`, with the server at its other end."""

    datagrams: bool

    def __init__(self, rig: NcpRig, address: str) -> None:
        self.rig = rig
        self.address = address
        self.buffer_size = 1024
        self.core = NcpConversation(datagrams=self.datagrams)
        self.replies: list[bytes] = []  # as they came, framing included
        self.closed = False

    @property
    def connection(self) -> int:
        return self.core.connection

    @property
    def station(self) -> Station:
        found = self.rig.manager.stations.find(self.connection)
        assert found is not None
        return found

    def open(self) -> None:
        self.core.create(self.rig.clock.now_ms)
        assert self.answer().completion == 0

    def close(self) -> None:
        self.core.destroy(self.rig.clock.now_ms)
        self.answer()

    def request(self, call: NcpCall[Any, Any], asked: Any) -> Any:
        return call.reply.read(self.ask(call, asked))

    def ask(self, call: NcpCall[Any, Any], asked: Any) -> bytes:
        reply = self.raw(call.function, call.ask(asked))
        if reply.completion:
            raise QmsError(reply.completion, f"{call.name} was refused")
        return reply.data

    def raw(self, function: int, data: bytes) -> Reply:
        """A request of any bytes."""
        self.core.ask(function, data, self.rig.clock.now_ms)
        return self.answer()

    def answer(self) -> Reply:
        self.push()
        self.rig.desk.settle()
        assert self.core.reply is not None, "no answer came"
        return self.core.reply

    def push(self) -> None:
        """What the client has to send reaches the server."""
        for data in self.core.take_outgoing():
            self.deliver(data)

    def deliver(self, data: bytes) -> None:
        raise NotImplementedError

    def lose(self) -> None:
        raise NotImplementedError

    def send(self, *args: Any) -> None:
        self.replies.append(args[0])
        self.core.receive(args[0], self.rig.clock.now_ms)


class ServerSide:
    """The transport of a server's session."""

    def __init__(self, line: TcpLine) -> None:
        self._line = line
        self.writable = True

    def send(self, data: bytes) -> None:
        self._line.send(data)

    def close(self) -> None:
        self._line.closed = True

    def counted(self) -> None:
        pass


class TcpLine(Line):
    """A TCP connection."""

    datagrams = False

    def __init__(self, rig: NcpRig, address: str) -> None:
        super().__init__(rig, address)
        self.transport = ServerSide(self)
        self.session = rig.ncp.accept(self.transport, address)

    def deliver(self, data: bytes) -> None:
        if not self.closed:
            self.session.receive(data)

    def close(self) -> None:
        super().close()
        self.lose()

    def lose(self) -> None:
        self.closed = True
        self.session.lost()
        self.rig.desk.settle()


class UdpLine(Line):
    """A port on a network that loses what `drop` says."""

    datagrams = True
    ports = iter(range(40_000, 60_000))

    def __init__(self, rig: NcpRig, address: str) -> None:
        super().__init__(rig, address)
        self.peer = address, next(self.ports)
        self.server = _port_of(rig)
        self.drop: Callable[[bytes], bool] = lambda datagram: False
        _LINES[id(rig.ncp), self.peer] = self

    def deliver(self, data: bytes) -> None:
        self.server.receive(data, self.peer)

    def lose(self) -> None:
        raise AssertionError("nobody hears of it")


_LINES: dict[tuple[int, tuple[str, int]], UdpLine] = {}
_PORTS: dict[int, Any] = {}


def _port_of(rig: NcpRig) -> Any:
    """The one UDP port of a server."""
    ncp = rig.ncp

    def send(message: bytes, peer: tuple[str, int]) -> None:
        line = _LINES[id(ncp), peer]
        if not line.drop(message):
            line.send(message)

    if id(ncp) not in _PORTS:
        _PORTS[id(ncp)] = ncp.datagrams(send)
    return _PORTS[id(ncp)]
