"""Queue managers and web servers on one simple network in memory; time by hand.

`posthouse.sim` has the bad weather; here a test says what breaks, and when.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.enumerations import ConnectionStatus, QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.srmp.http_reader import HttpRequest, RequestReader
from posthouse.protocols.srmp.http_writer import response
from posthouse.protocols.srmp.network import Secure, SrmpAttempt, SrmpTransport
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.srmp.settings import SrmpSettings
from posthouse.protocols.transport import ConnectionOwner, Resolved
from posthouse.runtime.driver import Driver
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.wire.packet.message import deserialize
from posthouse.wire.srmp.envelope import read_envelope
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import read_parts
from tests.engine.settings import changed, engine_settings
from tests.support.memory_store import MemoryStore

START_UTC = 1_700_000_000
ROUNDS_MAX = 100_000
ADMIN = Caller.administrator()


class Listener(Protocol):
    """What answers at an address and port."""

    def accept(self, transport: SrmpTransport, address: str) -> ConnectionOwner: ...


class Web:
    """Who is where, and what is on its way."""

    def __init__(self) -> None:
        self.clock = SimClock(utc_seconds=START_UTC)
        self.machines: list[Machine] = []
        self.listeners: dict[tuple[str, int], Listener] = {}
        self.names: dict[str, list[str]] = {}  # of the name service
        self.events: deque[Callable[[], None]] = deque()
        self.connects: list[tuple[str, int, Secure | None]] = []
        self.cables: list[Cable] = []

    def machine(self, name: str, address: str, port: int = 80, **options: Any) -> Machine:
        """A queue manager that listens."""
        made = Machine(self, name, address, port, **options)
        self.machines.append(made)
        made.start()
        self.run()
        return made

    def site(self, address: str, port: int = 80) -> Site:
        """A web server that answers what the test says."""
        made = self.listeners[address, port] = Site(self)
        return made

    def run(self) -> None:
        """Everything that needs no time to pass."""
        for _ in range(ROUNDS_MAX):
            busy = False
            for machine in list(self.machines):
                busy |= machine.desk.settle()
            if self.events:
                self.events.popleft()()
            elif not busy:
                return
        raise AssertionError("the network does not come to rest")

    def advance(self, ms: int) -> None:
        """Lets time go by; everything due on the way happens at its own time."""
        end = self.clock.now_ms + ms
        self.run()
        while True:
            due = [at for m in self.machines for at in m.deadlines()]
            at = max(min(due, default=end), self.clock.now_ms)
            if at > end or not due:
                break
            self.clock.advance_to(at)
            for machine in list(self.machines):
                machine.wake()
            self.run()
        self.clock.advance_to(end)
        self.run()


class Desk:
    """Turns that end when the network comes to it."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.turning = False
        self.calls = 0

    @property
    def manager(self) -> QueueManager:
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        self.begin()
        self.calls += 1
        self.driver.decide(call, release)

    def begin(self) -> None:
        if not self.turning:
            self.driver.begin_turn()
            self.turning = True

    def settle(self) -> bool:
        """Ends the turn, syncs and lets out; False: there was nothing to do."""
        if self.turning:
            self.turning = False
            self.driver.end_turn()
            self.driver.sync()
            self.driver.release()
            return True
        return False


class Cable:
    """One end of a connection: a `SrmpTransport`."""

    def __init__(self, web: Web, local_address: str) -> None:
        self.web = web
        self.local_address = local_address
        self.writable = True
        self.other: Cable | None = None
        self.owner: ConnectionOwner | None = None
        self.closed = False
        self.paused = False
        self.sent = b""

    def send(self, parts: list[bytes]) -> None:
        data, other = b"".join(parts), self.other
        self.sent += data
        if other is not None:
            self.web.events.append(lambda: other.take(data))

    def take(self, data: bytes) -> None:
        if not self.closed and self.owner is not None:
            self.owner.receive(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if (other := self.other) is not None:
                self.web.events.append(other.lose)

    def lose(self, reason: str = "the peer closed the connection") -> None:
        if not self.closed:
            self.closed = True
            if self.owner is not None:
                self.owner.lost(reason)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def relieved(self) -> None:
        """Nobody counts memory here."""


class Visitor:
    """A client of the test's own: sends bytes, keeps what comes back."""

    held_bytes = unsynced_bytes = 0

    def __init__(self, web: Web, machine: Machine, address: str = "10.0.0.9") -> None:
        self.web = web
        self.cable, theirs = Cable(web, address), Cable(web, machine.address)
        self.cable.other, theirs.other = theirs, self.cable
        self.theirs = theirs
        self.cable.owner = self
        self.got = b""
        self.is_closed = False
        self.connection = theirs.owner = machine.protocol.accept(theirs, address)

    def say(self, data: bytes) -> bytes:
        """Sends, and what has come back since the last time."""
        self.cable.send([data])
        self.web.run()
        got, self.got = self.got, b""
        return got

    def receive(self, data: bytes) -> None:
        self.got += data

    def pump(self) -> None: ...

    def lost(self, words: str) -> None:
        self.is_closed = True


class Site:
    """A web server. Each request gets what `answers` has next, or the last of it again."""

    def __init__(self, web: Web) -> None:
        self.web = web
        self.requests: list[HttpRequest] = []
        self.answers: list[bytes] = [response(200)]
        self.visits: list[_Visit] = []

    def accept(self, transport: SrmpTransport, address: str) -> _Visit:
        self.visits.append(_Visit(self, transport))
        return self.visits[-1]

    def say(self, *statuses: int) -> None:
        self.answers = [response(status) for status in statuses]

    def messages(self) -> list[SrmpMessage]:
        """What has come, read."""
        return [envelope_of(request) for request in self.requests]

    @property
    def bodies(self) -> list[bytes]:
        return [body_of(request) for request in self.requests]


class _Visit:
    held_bytes = unsynced_bytes = 0

    def __init__(self, site: Site, transport: SrmpTransport) -> None:
        self.site = site
        self.transport = transport
        self.reader = RequestReader(SrmpSettings())
        self.is_over = False

    def receive(self, data: bytes) -> None:
        for request in self.reader.feed(data):
            self.site.requests.append(request)
            answers = self.site.answers
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if answer == CLOSE:
                self.transport.close()
            elif answer:
                self.transport.send([answer])

    def pump(self) -> None: ...

    def lost(self, words: str) -> None:
        self.is_over = True


SILENCE = b""
CLOSE = b"close"


def envelope_of(request: HttpRequest) -> SrmpMessage:
    """The message in a request."""
    return read_envelope(read_parts(request.head.content_type, request.body).envelope)


def body_of(request: HttpRequest) -> bytes:
    """What its application sent."""
    return read_parts(request.head.content_type, request.body).body


class Machine:
    """A queue manager with its protocol, and the `Network` that the protocol sees."""

    def __init__(
        self,
        web: Web,
        name: str,
        address: str,
        port: int,
        *,
        settings: SrmpSettings | None = None,
        **engine: Any,
    ) -> None:
        self.web = web
        self.name = name
        self.address = address
        self.port = port
        self.settings = settings or SrmpSettings()
        self.engine = engine_settings(name, addresses=(address,), ports=frozenset({port}), **engine)
        self.random = random.Random(name)
        self.store = MemoryStore()
        self.up = False
        self.wake_ms: int | None = None
        self.cables: list[Cable] = []
        self.said: list[tuple[str, dict[str, Any]]] = []
        web.names[name.lower()] = [address]

    # -- start and end

    def start(self) -> None:
        clock = self.web.clock
        self.manager = manager = QueueManager(
            self.engine,
            self.store.recover().state,
            self.store.read,
            self.random.randbytes,
            self.store.read_many,
        )
        self.driver = Driver(manager, self.store, lambda: (clock.now_ms, clock.utc_seconds))
        self.desk = Desk(self.driver)
        manager.start(clock.now_ms, clock.utc_seconds)
        self.driver.end_turn()
        self.driver.sync()
        self.driver.release()
        self.protocol = SrmpProtocol(self.desk, self.settings, self, lambda: clock.now_ms)
        self.protocol.on_event = lambda event: self.said.append((event.name, event.details))
        self.driver.on_active = self.protocol.active
        self.web.listeners[self.address, self.port] = self.protocol
        self.up = True
        self.protocol.listens("http", self.address, self.port)
        self.protocol.start()

    def kill(self) -> None:
        """Loses what was not synced; its peers notice at once."""
        self.up = False
        self.wake_ms = None
        self.web.listeners.pop((self.address, self.port), None)
        for cable in self.cables:
            cable.owner = None
            cable.close()
        self.cables = []

    def restart(self) -> None:
        self.kill()
        self.store = self.store.crash()
        self.start()
        self.web.run()

    def move(self, address: str) -> None:
        """Starts again at another address."""
        self.kill()
        self.address, self.engine = address, changed(self.engine, addresses=(address,))
        self.web.names[self.name.lower()] = [address]
        self.restart()

    # -- Network

    def resolve(self, host: str, done: Resolved) -> None:
        found = list(self.web.names.get(host.lower(), []))
        words = "" if found else f"{host} cannot be resolved: no such name"
        self.web.events.append(lambda: done(found, words))

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        self.web.connects.append((address, port, secure))
        self.web.events.append(lambda: self._connect(address, port, attempt))

    def _connect(self, address: str, port: int, attempt: SrmpAttempt) -> None:
        target = self.web.listeners.get((address, port))
        if target is None or not self.up:
            attempt.failed(
                ConnectionStatus.CONNECTION_REFUSED, f"there is no listener on {address}"
            )
            return
        mine, theirs = Cable(self.web, self.address), Cable(self.web, address)
        mine.other, theirs.other = theirs, mine
        self.cables.append(mine)
        mine.owner = attempt.connected(mine)
        if mine.owner is not None:
            theirs.owner = target.accept(theirs, self.address)
            for machine in self.web.machines:
                if machine.protocol is target:
                    machine.cables.append(theirs)

    def soon(self, action: Callable[[], None]) -> None:
        self.web.events.append(action)

    def wake_at(self, when_ms: int) -> None:
        self.wake_ms = when_ms

    def deadlines(self) -> list[int]:
        """When protocol or engine have something to do."""
        if not self.up:
            return []
        return [at for at in (self.wake_ms, self.manager.next_deadline_ms()) if at is not None]

    def wake(self) -> None:
        now_ms = self.web.clock.now_ms
        if self.up and self.wake_ms is not None and self.wake_ms <= now_ms:
            self.wake_ms = None
            self.protocol.tick()
        due = self.manager.next_deadline_ms()
        if self.up and due is not None and due <= now_ms:
            self.desk.begin()

    # -- work

    def call(self, call: Callable[[QueueManager], Any]) -> Any:
        """One call on the engine, with all that follows from it."""
        answers: list[Any] = []
        self.desk.decide(call, answers.append)
        self.web.run()
        assert answers[0].error is None, answers[0].error
        return answers[0].value

    def create(self, path: str, **properties: Any) -> Queue:
        made = self.call(
            lambda m: m.queues.create_queue(path, QueueProperties(**properties), ADMIN)
        )
        assert isinstance(made, Queue)
        return made

    def send(self, name: str, *bodies: bytes, express: bool = False, **attributes: Any) -> None:
        """Messages to a format name, outside transactions."""
        guarantee = DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE

        def run(manager: QueueManager) -> None:
            opened = manager.queues.open_queue(name, QueueAccessType.SEND, ADMIN)
            for body in bodies:
                message = Message(body=body, delivery_guarantee=guarantee, **attributes)
                manager.messages.enqueue_message_to_an_open_queue(opened, message)
            manager.queues.close_queue(opened)

        self.call(run)

    def send_in_transaction(self, name: str, *bodies: bytes, **attributes: Any) -> None:
        """One transaction of messages to a format name."""

        def run(manager: QueueManager) -> None:
            identifier = self.random.randbytes(16)
            transaction = manager.transactions.create_transaction(identifier)
            opened = manager.queues.open_queue(name, QueueAccessType.SEND, ADMIN)
            for body in bodies:
                message = Message(
                    body=body, delivery_guarantee=DeliveryGuarantee.RECOVERABLE, **attributes
                )
                manager.messages.enqueue_message_to_an_open_queue(opened, message, transaction)
            manager.queues.close_queue(opened)
            manager.transactions.transaction_commit(identifier)

        self.call(run)

    def receive(self, path: str) -> None:
        """Takes the first message out of a queue."""

        def run(manager: QueueManager) -> None:
            opened = manager.queues.open_queue(f"DIRECT=OS:{path}", QueueAccessType.RECEIVE, ADMIN)
            manager.messages.dequeue_message(opened, timeout_ms=0)
            manager.queues.close_queue(opened)

        self.call(run)

    def outgoing(self, name: str) -> Queue:
        queue = self.manager.queues.find_outgoing(parse_format_name(name))
        assert queue is not None
        return queue

    def bodies(self, path: str) -> list[bytes]:
        """What waits in a queue of this machine."""
        queue = self.manager.queues.local_queue(parse_format_name(f"DIRECT=OS:{path}"))
        numbers = [number for _, number in queue.state.order.forward()]
        return [deserialize(self.store.read(number)).body for number in numbers]

    def extensions(self, path: str) -> list[bytes]:
        """The extensions of what waits there."""
        queue = self.manager.queues.local_queue(parse_format_name(f"DIRECT=OS:{path}"))
        numbers = [number for _, number in queue.state.order.forward()]
        return [deserialize(self.store.read(number)).extension for number in numbers]
