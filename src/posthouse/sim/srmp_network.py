"""SRMP on a simulated network: HTTP connections between machines, and names."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.protocols.srmp.network import Secure, SrmpAttempt
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.protocols.transport import Resolved
from posthouse.sim.binary_network import Dialling, Wire, resolve
from posthouse.sim.clock import Timer
from posthouse.sim.machine import SimMachine
from posthouse.sim.network import Address, Connection

HTTP_PORT = 80


class Posts:
    """`posthouse.protocols.srmp.network.Network` for one simulated machine."""

    def __init__(self, machine: SimMachine) -> None:
        self._machine = machine
        self._network = machine.world.network
        self._timer: Timer | None = None
        self._protocol: SrmpProtocol

    def plug_in(self, protocol: SrmpProtocol) -> None:
        """Listens for requests."""
        self._protocol = protocol
        machine = self._machine
        self._network.listen(machine.address, HTTP_PORT, self._accept)
        if machine.seen_as:
            port = machine.world.forwarded[machine.name]
            self._network.listen(machine.seen_as, port, self._accept, home=machine.address)

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

    # -- Network

    def resolve(self, host: str, done: Resolved) -> None:
        """Asks the names of the world."""
        resolve(self._machine, host, done)

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        """Opens a connection; it learns later how that went. There is no TLS here."""
        assert secure is None, secure
        machine = self._machine
        self._network.connect(
            machine.address,
            Address(address, port),
            lambda connection: Dialling(machine, connection, attempt),
            seen_as=machine.seen_as,
        )

    def soon(self, action: Callable[[], None]) -> None:
        """Runs an action after everything that is due now."""
        self._machine.later(0, action)

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        machine = self._machine
        if self._timer is not None:
            self._timer.cancel()
        self._timer = machine.later(when_ms - machine.world.clock.now_ms, self._tick)

    def _tick(self) -> None:
        self._machine.point()
        self._protocol.tick()
