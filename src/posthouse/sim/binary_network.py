"""The binary protocol on a simulated network: connections, names and pings.

`posthouse.sim.srmp_network` has the same for SRMP, on the same connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from posthouse.model.enumerations import ConnectionStatus
from posthouse.protocols.binary.network import BinaryAttempt
from posthouse.protocols.binary.next_hop_lookup import STANDARD_PORT
from posthouse.protocols.binary.protocol import BinaryProtocol
from posthouse.protocols.engine_calls import Desk
from posthouse.protocols.transport import Resolved
from posthouse.sim.clock import Timer
from posthouse.sim.machine import SimMachine
from posthouse.sim.network import Address, Connection, Reason

PING_PORT = 3527
ASKING_PORT = 40_000  # that pings are sent from
WRITABLE_BYTES = 32 << 10
LOOK_AGAIN_MS = 10
RESOLVE_MS = 30
_STATUS = ConnectionStatus


class Party(Protocol):
    """Who has a connection: a session of the binary protocol, or an end of an HTTP connection."""

    def receive(self, data: bytes) -> None:
        """Bytes of the peer."""
        ...

    def pump(self) -> None:
        """The peer takes more."""
        ...

    def lost(self, words: str) -> None:
        """The connection has ended."""
        ...


class Wire:
    """One connection: the `Transport` of its party, and its `Endpoint`."""

    def __init__(self, machine: SimMachine, connection: Connection) -> None:
        self._machine = machine
        self._connection = connection
        self._life = machine.life
        self._held: list[bytes] = []  # what came while reading was paused
        self._paused = False
        self._watched = False
        self.party: Party | None = None

    # -- Transport

    @property
    def writable(self) -> bool:
        """Whether little enough is on its way."""
        return self._connection.unsent < WRITABLE_BYTES

    @property
    def local_address(self) -> str:
        """Where we are."""
        return self._connection.home

    def send(self, parts: list[bytes]) -> None:
        """The machine may go off before or after the bytes have left it."""
        self._machine.point()
        self._machine.world.overheard(self._connection, parts)
        self._connection.send(b"".join(parts))
        self._machine.point()
        if not self.writable and not self._watched:
            self._watched = True
            self._machine.later(LOOK_AGAIN_MS, self._look)

    def _look(self) -> None:
        self._watched = not self.writable and self._connection.state != "closed"
        if self._watched:
            self._machine.later(LOOK_AGAIN_MS, self._look)
        elif self.party is not None:
            self.party.pump()

    def close(self) -> None:
        """Ends it after what was sent."""
        self._connection.close()

    def pause(self) -> None:
        """Bytes are kept from here on."""
        self._paused = True

    def resume(self) -> None:
        """Hands over what was kept, a moment later; what comes until then follows it."""
        self._paused = False
        if self._held:
            self._machine.later(0, self._hand_over_held)

    def _hand_over_held(self) -> None:
        if self._held and not self._paused:
            held, self._held = self._held, []
            self._hand_over(b"".join(held))

    def later(self, work: Callable[[], None]) -> None:
        """At once."""
        work()

    def relieved(self) -> None:
        """Nothing is counted here."""

    # -- Endpoint

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Bytes of the peer."""
        self._machine.enter(lambda: self._hand_over(data), self._life)
        return b""

    def _hand_over(self, data: bytes) -> None:
        if self._paused or self._held:
            self._held.append(data)
        elif self.party is not None:
            self._machine.point()
            self.party.receive(data)

    def closed(self, reason: Reason, now_ms: int) -> None:
        """The connection is over, and what was kept is gone with it."""
        self._held.clear()
        if self.party is not None:
            lost = self.party.lost
            self._machine.enter(lambda: lost(f"the connection ended: {reason}"), self._life)


class Caller(Protocol):
    """Who waits for a connection, of either protocol."""

    def connected(self, transport: Wire) -> Party | None:
        """It is there."""
        ...

    def failed(self, status: ConnectionStatus, words: str) -> None:
        """It is not."""
        ...


class Dialling:
    """A connection that is not there yet; afterwards its wire gets everything."""

    def __init__(self, machine: SimMachine, connection: Connection, attempt: Caller) -> None:
        self._machine = machine
        self._life = machine.life
        self._connection = connection
        self._attempt = attempt
        self._wire: Wire | None = None
        connection.on_open = lambda: machine.enter(self._opened, self._life)

    def _opened(self) -> None:
        wire = Wire(self._machine, self._connection)
        wire.party = self._attempt.connected(wire)
        if wire.party is None:
            self._connection.reset()
        self._wire = wire

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Bytes come only after the opening."""
        return b"" if self._wire is None else self._wire.receive(data, now_ms)

    def closed(self, reason: Reason, now_ms: int) -> None:
        """It failed, or it is over."""
        if self._wire is not None:
            self._wire.closed(reason, now_ms)
            return
        refused = reason == "refused"
        status = _STATUS.CONNECTION_REFUSED if refused else _STATUS.SOCKET_CONNECT_FAILURE
        self._machine.enter(lambda: self._attempt.failed(status, reason), self._life)


class Served(Protocol):
    """A protocol of a machine: it gets connections and the time."""

    @property
    def desk(self) -> Desk:
        """The way to the engine."""
        ...

    def accept(self, transport: Wire, address: str) -> Party | None:
        """A connection from that address; None: it is refused."""
        ...

    def tick(self) -> None:
        """Timers that are due."""
        ...


P = TypeVar("P", bound=Served)


class MachineNetwork(Generic[P]):
    """The network as one protocol of one simulated machine sees it."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._network = machine.world.network
        self._timer: Timer | None = None
        self._protocol: P

    def _accept(self, connection: Connection) -> Wire:
        machine = self._machine
        wire = Wire(machine, connection)

        def begin() -> None:
            self._protocol.desk.manager.queues.add_own_address(wire.local_address)
            wire.party = self._protocol.accept(wire, connection.remote.host)

        machine.enter(begin, machine.life)
        if not machine.up:
            connection.reset()
        return wire

    def resolve(self, host: str, done: Resolved) -> None:
        """Asks the names of the world; sometimes there is no answer."""
        machine = self._machine
        address = machine.world.names.get(host.upper())
        if address is None or machine.world.happens("unnamed"):
            addresses, words = list[str](), f"{host} cannot be resolved"
        else:
            addresses, words = [address], ""
        machine.later(machine.chance.randint(0, RESOLVE_MS), lambda: done(addresses, words))

    def _dial(self, address: str, port: int, attempt: Caller) -> None:
        machine = self._machine
        self._network.connect(
            machine.address,
            Address(address, port),
            lambda connection: Dialling(machine, connection, attempt),
            seen_as=machine.seen_as,
        )

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        machine = self._machine
        if self._timer is not None:
            self._timer.cancel()
        self._timer = machine.later(when_ms - machine.world.clock.now_ms, self._tick)

    def _tick(self) -> None:
        self._machine.point()
        self._protocol.tick()


class Wires(MachineNetwork[BinaryProtocol]):
    """`posthouse.protocols.binary.network.BinaryNetwork` for one simulated machine."""

    def plug_in(self, protocol: BinaryProtocol) -> None:
        """Listens for sessions and pings."""
        self._protocol = protocol
        machine, network = self._machine, self._network
        network.listen(machine.address, STANDARD_PORT, self._accept)
        network.bind(Address(machine.address, PING_PORT), self._asked)
        network.bind(Address(machine.address, ASKING_PORT), self._answered)

    # -- Network

    def connect(self, address: str, port: int, attempt: BinaryAttempt) -> None:
        """Opens a connection; it learns later how that went."""
        self._dial(address, port, attempt)

    def ping(self, address: str, datagram: bytes) -> None:
        """Asks whether a session would be taken."""
        here = Address(self._machine.address, ASKING_PORT)
        self._network.send_datagram(here, Address(address, PING_PORT), datagram)

    # -- datagrams

    def _asked(self, data: bytes, sender: Address, now_ms: int) -> None:
        self._machine.enter(lambda: self._answer(data, sender), self._machine.life)

    def _answer(self, data: bytes, sender: Address) -> None:
        answer = self._protocol.ping_asked(data)
        if answer is not None:
            here = Address(self._machine.address, PING_PORT)
            self._network.send_datagram(here, sender, answer)

    def _answered(self, data: bytes, sender: Address, now_ms: int) -> None:
        machine = self._machine
        machine.enter(lambda: self._protocol.ping_answered(data, sender.host), machine.life)
