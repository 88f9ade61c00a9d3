"""Queue managers on one simple network in memory: no delays, no losses, time by hand.

`posthouse.sim.network` has the bad weather; here a test says what breaks, and when.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.queue import Queue
from posthouse.model.enumerations import ConnectionStatus, QueueAccessType
from posthouse.model.message import DeliveryGuarantee, Message
from posthouse.model.names import parse_format_name
from posthouse.model.properties import QueueProperties
from posthouse.protocols.binary.network import BinaryAttempt
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.binary.session import BinarySession
from posthouse.protocols.binary.settings import BinarySettings, PingSettings
from posthouse.protocols.engine_calls import Call, Release
from posthouse.protocols.transport import Resolved
from posthouse.runtime.driver import Driver
from posthouse.security.access import Caller
from posthouse.sim.clock import SimClock
from posthouse.wire.packet.message import deserialize
from tests.engine.settings import engine_settings
from tests.support.memory_store import MemoryStore

START_UTC = 1_700_000_000
ROUNDS_MAX = 100_000
ADMIN = Caller.administrator()


class Net:
    """Who is where, and what is on its way."""

    def __init__(self) -> None:
        self.clock = SimClock(utc_seconds=START_UTC)
        self.machines: list[Machine] = []
        self.names: dict[str, list[str]] = {}  # of the name service
        self.unreachable: set[str] = set()  # addresses that do not answer
        self.events: deque[Callable[[], None]] = deque()
        self.resolved: list[str] = []
        self.connects: list[tuple[str, int]] = []
        self.pings: list[tuple[str, bytes]] = []

    def machine(self, name: str, address: str, port: int = 1801, **options: Any) -> Machine:
        """A queue manager that listens."""
        made = Machine(self, name, address, port, **options)
        self.machines.append(made)
        made.start()
        self.run()
        return made

    def at(self, address: str, port: int) -> Machine | None:
        """Who listens there."""
        if address in self.unreachable:
            return None
        for machine in self.machines:
            if machine.up and address in machine.addresses and machine.port == port:
                return machine
        return None

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
            due = [m.wake_ms for m in self.machines if m.wake_ms is not None]
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

    @property
    def manager(self) -> QueueManager:
        return self.driver.manager

    def decide(self, call: Call, release: Release) -> None:
        if not self.turning:
            self.driver.begin_turn()
            self.turning = True
        self.driver.decide(call, release)

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
    """One end of a connection: the Transport of a session."""

    def __init__(self, net: Net, owner: Machine, peer_address: str) -> None:
        self.net = net
        self.owner = owner
        self.peer_address = peer_address
        self.writable = True
        self.other: Cable | None = None
        self.session: BinarySession | None = None
        self.closed = False
        self.paused = False
        self.sent: list[bytes] = []

    def send(self, parts: list[bytes]) -> None:
        self.sent += parts
        data, other = b"".join(parts), self.other
        if other is not None:
            self.net.events.append(lambda: other.take(data))

    def take(self, data: bytes) -> None:
        if not self.closed and self.session is not None:
            self.session.receive(data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if (other := self.other) is not None:
                self.net.events.append(other.lose)

    def lose(self, reason: str = "the peer closed the connection") -> None:
        if not self.closed:
            self.closed = True
            if self.session is not None:
                self.session.lost(reason)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def later(self, work: Callable[[], None]) -> None:
        """At once."""
        work()

    def relieved(self) -> None:
        """Nobody counts memory here."""


class Machine:
    """A queue manager with its protocol, and the `Network` that the protocol sees."""

    def __init__(
        self,
        net: Net,
        name: str,
        address: str,
        port: int,
        *,
        settings: BinarySettings | None = None,
        ping: PingSettings | None = None,
        **engine: Any,
    ) -> None:
        self.net = net
        self.name = name
        self.addresses = [address]
        self.port = port
        self.settings = settings or BinarySettings()
        self.ping_settings = ping or PingSettings()
        self.engine = engine_settings(name, addresses=(address,), ports=frozenset({port}), **engine)
        self.random = random.Random(name)
        self.store = MemoryStore()
        self.up = False
        self.wake_ms: int | None = None
        self.cables: list[Cable] = []
        net.names[name.lower()] = self.addresses

    # -- start and end

    def start(self) -> None:
        clock = self.net.clock
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
        self.protocol = BinaryProtocol(
            self.desk, self.settings, self, lambda: clock.now_ms, self.ping_settings
        )
        self.driver.on_active = self.protocol.active
        self.up = True
        self.protocol.start()

    def kill(self) -> None:
        """Loses what was not synced; its peers notice at once."""
        self.up = False
        self.wake_ms = None
        for cable in self.cables:
            cable.session = None
            cable.close()
        self.cables = []

    def restart(self) -> None:
        self.kill()
        self.store = self.store.crash()
        self.start()
        self.net.run()

    def stop(self) -> None:
        self.protocol.stop()
        self.net.run()

    # -- Network

    def resolve(self, host: str, done: Resolved) -> None:
        self.net.resolved.append(host)
        found = list(self.net.names.get(host.lower(), []))
        words = "" if found else f"{host} cannot be resolved: no such name"
        self.net.events.append(lambda: done(found, words))

    def connect(self, address: str, port: int, attempt: BinaryAttempt) -> None:
        self.net.connects.append((address, port))
        self.net.events.append(lambda: self._connect(address, port, attempt))

    def _connect(self, address: str, port: int, attempt: BinaryAttempt) -> None:
        target = self.net.at(address, port)
        if target is None or not self.up:
            attempt.failed(
                ConnectionStatus.CONNECTION_REFUSED, f"there is no listener on {address}"
            )
            return
        mine = Cable(self.net, self, address)
        theirs = Cable(self.net, target, self.addresses[0])
        mine.other, theirs.other = theirs, mine
        mine.session = attempt.connected(mine)
        if mine.session is None:
            return
        theirs.session = target.protocol.accept(theirs, self.addresses[0])
        self.cables.append(mine)
        target.cables.append(theirs)

    def ping(self, address: str, datagram: bytes) -> None:
        self.net.pings.append((address, datagram))
        target = next((m for m in self.net.machines if m.up and address in m.addresses), None)
        if target is None or not target.ping_settings.answer:
            return
        answer = target.protocol.ping_asked(datagram)
        if answer is not None:
            self.net.events.append(lambda: self.protocol.ping_answered(answer, address))

    def wake_at(self, when_ms: int) -> None:
        self.wake_ms = when_ms

    def wake(self) -> None:
        if self.up and self.wake_ms is not None and self.wake_ms <= self.net.clock.now_ms:
            self.wake_ms = None
            self.protocol.tick()

    # -- work

    def call(self, call: Callable[[QueueManager], Any]) -> Any:
        """One call on the engine, with all that follows from it."""
        answers: list[Any] = []
        self.desk.decide(call, answers.append)
        self.net.run()
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
