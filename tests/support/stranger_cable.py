"""A connection whose peer claims the identity of another machine."""

from __future__ import annotations

from posthouse.protocols.binary.session import SessionState
from posthouse.wire.binary.internal import connection_parameters, establish_connection
from tests.protocols.binary.memory_net import Cable, Machine


def stranger(machine: Machine, claimed: bytes) -> Cable:
    """A session from elsewhere, which nobody closes."""
    cable = Cable(machine.net, machine, "10.6.6.6")
    session = cable.session = machine.protocol.accept(cable, "10.6.6.6")
    session.receive(establish_connection(claimed, machine.manager.machine.identifier, time_stamp=1))
    session.receive(connection_parameters(500, 20_000, 64))
    assert session.state is SessionState.OPEN
    cable.sent.clear()
    return cable
