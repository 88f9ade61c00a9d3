"""SRMP on a simulated network: HTTP connections between machines, and names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from posthouse.protocols.srmp.network import Secure, SrmpAttempt
from posthouse.protocols.transport import Resolved
from posthouse.sim.binary_network import Dialling, Wire, resolve
from posthouse.sim.clock import Timer
from posthouse.sim.network import Address, Connection

if TYPE_CHECKING:
    from posthouse.protocols.srmp.protocol import SrmpProtocol
    from posthouse.sim.managers import SimManager

HTTP_PORT = 80


class Posts:
    """`posthouse.protocols.srmp.network.Network` for one simulated machine."""

    def __init__(self, manager: SimManager) -> None:
        self._manager = manager
        self._network = manager.world.network
        self._timer: Timer | None = None
        self._protocol: SrmpProtocol

    def plug_in(self, protocol: SrmpProtocol) -> None:
        """Listens for requests."""
        self._protocol = protocol
        manager = self._manager
        self._network.listen(manager.address, HTTP_PORT, self._accept)
        if manager.seen_as:
            port = manager.world.forwarded[manager.name]
            self._network.listen(manager.seen_as, port, self._accept, home=manager.address)

    def _accept(self, connection: Connection) -> Wire:
        manager = self._manager
        wire = Wire(manager, connection)

        def begin() -> None:
            manager.manager.queues.add_own_address(wire.local_address)
            wire.party = self._protocol.accept(wire, connection.remote.host)

        manager.enter(begin, manager.life)
        if not manager.up:
            connection.reset()
        return wire

    # -- Network

    def resolve(self, host: str, done: Resolved) -> None:
        """Asks the names of the world."""
        resolve(self._manager, host, done)

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        """Opens a connection; it learns later how that went. There is no TLS here."""
        assert secure is None, secure
        manager = self._manager
        self._network.connect(
            manager.address,
            Address(address, port),
            lambda connection: Dialling(manager, connection, attempt),
            seen_as=manager.seen_as,
        )

    def soon(self, action: Callable[[], None]) -> None:
        """Runs an action after everything that is due now."""
        self._manager.later(0, action)

    def wake_at(self, when_ms: int) -> None:
        """One timer for everything."""
        manager = self._manager
        if self._timer is not None:
            self._timer.cancel()
        self._timer = manager.later(when_ms - manager.world.clock.now_ms, self._tick)

    def _tick(self) -> None:
        self._manager.point()
        self._protocol.tick()
