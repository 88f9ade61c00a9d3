"""SRMP on a simulated network: HTTP connections between machines, and names."""

from __future__ import annotations

from collections.abc import Callable

from posthouse.protocols.srmp.network import Secure, SrmpAttempt
from posthouse.protocols.srmp.protocol import SrmpProtocol
from posthouse.sim.binary_network import MachineNetwork

HTTP_PORT = 80


class Posts(MachineNetwork[SrmpProtocol]):
    """`posthouse.protocols.srmp.network.SrmpNetwork` for one simulated machine."""

    def plug_in(self, protocol: SrmpProtocol) -> None:
        """Listens for requests."""
        self._protocol = protocol
        machine = self._machine
        self._network.listen(machine.address, HTTP_PORT, self._accept)
        if machine.seen_as:
            port = machine.world.forwarded[machine.name]
            self._network.listen(machine.seen_as, port, self._accept, home=machine.address)

    # -- Network

    def connect(self, address: str, port: int, secure: Secure | None, attempt: SrmpAttempt) -> None:
        """Opens a connection; it learns later how that went. There is no TLS here."""
        assert secure is None, secure
        self._dial(address, port, attempt)

    def soon(self, action: Callable[[], None]) -> None:
        """Runs an action after everything that is due now."""
        self._machine.later(0, action)
