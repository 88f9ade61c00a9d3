"""What Posthouse would have answered: runs the protocols on the bytes of a capture.

A queue manager is made in memory for each session, with the GUID of the machine that answered and
the queues that the messages name. It takes any name, has no accounts, and connects to no machine.
So it answers for binary sessions and for SRMP over HTTP. It is not asked for what depends on logins
(remote procedure calls, NCP), nor for encrypted messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from posthouse.cli.decode.capture.transcript import Line, Session
from posthouse.cli.decode.packets import View
from posthouse.directory.settings import DirectorySettings
from posthouse.engine.manager import QueueManager
from posthouse.engine.settings import EngineSettings, QueueManagerSettings
from posthouse.model.enumerations import ConnectionStatus
from posthouse.model.errors import QueueError, RemoteProtocolError
from posthouse.model.guids import NULL_GUID, parse_guid
from posthouse.model.names import DirectName, PathKind, PathName, parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.protocols.transport import Resolved
from posthouse.runtime.driver import Driver
from posthouse.security.access import Caller
from posthouse.sim.disk import SimDisk
from posthouse.store.log import LogStore
from posthouse.store.settings import StoreSettings

ASKED: Final = ("binary", "http")
NOT_ASKED: Final = {
    "rpc": "not asked: the answers depend on the login and on rights",
    "ncp": "not asked: the answers depend on the bindery",
    "ncp udp": "not asked: the answers depend on the bindery",
    "pgm": "not asked: receivers answer with requests for repairs only",
    "ping": "",
}
NAME: Final = "POSTHOUSE"
QUEUES_MAX: Final = 1_000
STEPS_MAX: Final = 10_000
AFTER_MS: Final = 12_000  # order acknowledgments wait 10 s at most
UPTIME_MS: Final = 1_000_000


class OwnAnswer(NamedTuple):
    """Something that Posthouse would have sent, or done, after a message of the client."""

    at_us: int
    data: bytes
    closed: str = ""


class _Transport:
    """Both protocols' connection: what is sent is kept, with the time."""

    writable = True

    def __init__(self, now_us: Callable[[], int], address: str) -> None:
        self._now_us = now_us
        self.local_address = address
        self.answers: list[OwnAnswer] = []
        self.closed = False

    def send(self, parts: list[bytes]) -> None:
        """Keeps it."""
        self.answers.append(OwnAnswer(self._now_us(), b"".join(parts)))

    def close(self) -> None:
        """Posthouse ends the connection."""
        if not self.closed:
            self.closed = True
            self.answers.append(OwnAnswer(self._now_us(), b"", "closes the connection"))

    def pause(self) -> None:
        """Nothing is read ahead here."""

    def resume(self) -> None:
        """Nothing is read ahead here."""

    def relieved(self) -> None:
        """Nothing waits here."""

    def later(self, work: Callable[[], None]) -> None:
        """At once."""
        work()


class _Draws:
    """Bytes instead of chance: the same capture gives the same answers."""

    def __init__(self) -> None:
        self._number = 0

    def bytes(self, count: int) -> bytes:
        """The next ones."""
        drawn = b""
        while len(drawn) < count:
            self._number += 1
            drawn += blake2b(self._number.to_bytes(8, "big")).digest()
        return drawn[:count]


class OfflineMachine:
    """A queue manager in memory, on a clock that the capture moves; its network leads nowhere."""

    def __init__(self, guid: bytes, at_us: int) -> None:
        self._begun_us = at_us
        self.now_us = at_us
        self._soon: list[Callable[[], None]] = []
        self._turning = False
        self._disk = SimDisk(0)
        self.driver = self._boot()
        if guid != NULL_GUID:
            self.decide(lambda manager: manager.machine.adopt(guid), lambda answer: None)
            self.settle()
            self.driver.store.close()
            self.driver = self._boot()
        self.binary = BinaryProtocol(self, BinarySettings(), self, self._now_ms)
        self.srmp = SrmpProtocol(self, SrmpSettings(), self, self._now_ms)
        self.driver.on_active = self._active

    def _boot(self) -> Driver:
        store = LogStore(self._disk, StoreSettings(store_id=bytes(16), disk_reserve=0))
        state = store.recover().state
        settings = EngineSettings(
            NAME,
            QueueManagerSettings(accept_any_name=True),
            DirectorySettings(integrated=False),
        )
        manager = QueueManager(settings, state, store.read, _Draws().bytes, store.read_many)
        manager.start(self._now_ms(), self.now_us // 1_000_000)
        driver = Driver(manager, store, lambda: (self._now_ms(), self.now_us // 1_000_000))
        driver.end_turn()
        driver.sync()
        return driver

    def _now_ms(self) -> int:
        return UPTIME_MS + (self.now_us - self._begun_us) // 1000

    def _active(self, numbers: set[int]) -> None:
        self.binary.active(numbers)

    # -- Desk

    @property
    def manager(self) -> QueueManager:
        """The engine."""
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        """Runs a call in the open turn, or begins one."""
        if not self._turning:
            self.driver.begin_turn()
            self._turning = True
        self.driver.decide(call, release)

    def settle(self) -> None:
        """Ends turns until nothing is left to do."""
        for _ in range(STEPS_MAX):
            while self._soon:
                self._soon.pop(0)()
            if self._turning:
                self._turning = False
                self.driver.end_turn()
            self.driver.sync()
            if not self.driver.release() and not self._turning and not self._soon:
                return

    # -- the network of both protocols: there is none

    def resolve(self, host: str, done: Resolved) -> None:
        """No name is known."""
        self._soon.append(lambda: done([], "this is a capture"))

    def connect(self, address: str, port: int, *more: object) -> None:
        """No machine is reached."""
        attempt = more[-1]
        assert attempt is not None
        self._soon.append(
            lambda: attempt.failed(ConnectionStatus.SOCKET_CONNECT_FAILURE, "this is a capture")  # type: ignore[attr-defined]
        )

    def ping(self, address: str, datagram: bytes) -> None:
        """No machine answers."""

    def soon(self, action: Callable[[], None]) -> None:
        """After what is done now."""
        self._soon.append(action)

    def wake_at(self, when_ms: int) -> None:
        """Timers are looked at when the clock moves."""

    # -- the clock

    def advance(self, to_us: int) -> None:
        """Moves the clock, and runs what is due on the way."""
        for _ in range(STEPS_MAX):
            due = [
                one
                for one in (self.binary.next_deadline_ms(), self.srmp.next_deadline_ms())
                if one is not None
            ]
            at_us = self._begun_us + (min(due) - UPTIME_MS) * 1000 if due else to_us
            if at_us >= to_us:
                break
            self.now_us = max(self.now_us, at_us)
            self._tick()
        self.now_us = max(self.now_us, to_us)
        self._tick()

    def _tick(self) -> None:
        self.binary.tick()
        self.srmp.tick()
        self.settle()


# -- one session


def own_answers(session: Session) -> list[OwnAnswer]:
    """What Posthouse would have sent to the client of a session that it can be asked for."""
    if session.protocol not in ASKED or not session.begun:
        return []
    machine = OfflineMachine(_guid_of(session.lines), session.at_us)
    for name, transactional in _queues_of(session.lines).items():
        _create(machine, name, transactional)
    transport = _Transport(lambda: machine.now_us, session.server.address)
    if session.protocol == "binary":
        party: object = machine.binary.accept(transport, session.client.address)
    else:
        machine.srmp.listens("http", session.server.address, session.server.port)
        machine.manager.queues.add_own_port(session.server.port)
        party = machine.srmp.accept(transport, session.client.address)
    machine.settle()
    for line in session.lines:
        if line.from_client and not transport.closed:
            if line.lost:
                break  # what was not captured cannot be answered
            machine.advance(line.at_us)
            party.receive(line.data)  # type: ignore[attr-defined]
            machine.settle()
    if not transport.closed:
        machine.advance(machine.now_us + AFTER_MS * 1000)
    return transport.answers


def not_asked(session: Session) -> str:
    """Why a session has no answers of ours."""
    if session.protocol in ASKED:
        return "" if session.begun else "not asked: the beginning was not captured"
    return NOT_ASKED.get(session.protocol, "")


def _guid_of(lines: Iterable[Line]) -> bytes:
    """Of the machine that was called, as the handshake has it."""
    for line in lines:
        if line.view is not None and line.view.kind == "EstablishConnection":
            value = str(line.view.headers[-1].fields["server_guid"])
            if parse_guid(value) != NULL_GUID:
                return parse_guid(value)
    return NULL_GUID


def _queues_of(lines: Iterable[Line]) -> dict[str, bool]:
    """The queues that messages of the client name, and whether they are transactional."""
    found: dict[str, bool] = {}
    for line in lines:
        if line.view is not None and line.from_client and len(found) < QUEUES_MAX:
            name, transactional = _destination(line.view)
            if name:
                found.setdefault(name, transactional)
    return found


def _destination(view: View) -> tuple[str, bool]:
    headers = {header.name: header.fields for header in view.headers}
    if view.kind == "UserMessage":
        text = str(headers["UserHeader"].get("destination", ""))
        return _local_path(text), "TransactionHeader" in headers
    if view.kind.startswith("SRMP"):
        url = str(headers.get("path", {}).get("to", ""))
        return _local_path(f"DIRECT={url}"), bool({"stream", "Stream"} & headers.keys())
    return "", False


def _local_path(text: str) -> str:
    try:
        name = parse_format_name(text)
    except QueueError:
        return ""
    if not isinstance(name, DirectName) or name.kind is PathKind.SYSTEM or name.subqueue:
        return ""
    if name.queue.endswith("$"):
        return ""  # queues of the queue manager itself
    return str(PathName(".", name.queue, name.kind))


def _create(machine: OfflineMachine, path: str, transactional: bool) -> None:
    def create(manager: QueueManager) -> None:
        properties = QueueProperties(transactional=transactional)
        manager.queues.create_queue(PathName.parse(path), properties, Caller.administrator())

    try:
        machine.decide(create, lambda answer: None)
        machine.settle()
    except (QueueError, RemoteProtocolError):
        pass  # a public queue needs a directory; its messages are refused then
