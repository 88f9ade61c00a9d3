"""The sending end of a binary session, driven by hand."""

from __future__ import annotations

from typing import Any

from posthouse.protocols.binary.session import Role
from posthouse.protocols.binary.settings import BinarySettings
from posthouse.wire.packet.packet import Packet
from tests.protocols.binary.session_rig import (
    SETTINGS,
    End,
    Machine,
)

FAR = r"DIRECT=OS:BETA\private$\orders"


class SendingEnd(End):
    """An initiator with messages for the other side."""

    def __init__(
        self,
        machine: Machine | None = None,
        settings: BinarySettings = SETTINGS,
        role: Role = Role.INITIATOR,
        **options: Any,
    ) -> None:
        super().__init__(machine, role, settings, **options)

    def put(self, *bodies: bytes, to: str = FAR, **attributes: Any) -> int:
        """Messages in an outgoing queue; returns the queue's number."""
        for body in bodies:
            self.machine.send(to, body, **attributes)
        return self.number(to)

    def put_transaction(self, *bodies: bytes) -> int:
        tx = self.machine.begin(bodies[0].decode())
        for body in bodies:
            self.machine.send(FAR, body, tx=tx)
        self.machine.commit(tx)
        return self.number(FAR)

    def number(self, name: str) -> int:
        descriptor = self.machine.open(name)
        number = descriptor.target().number
        self.machine.close(descriptor)
        return number

    def attach(self, *numbers: int) -> None:
        for number in numbers:
            self.session.attach(number)
        self.settle()

    def waiting(self, name: str = FAR) -> list[bytes]:
        """What is in an outgoing queue."""
        queue = self.machine.manager.ledger.queues[self.number(name)]
        order = queue.state.order.forward()
        return [Packet(self.machine.store.read(number)).body for _, number in order]

    def bodies_sent(self) -> list[bytes]:
        return [Packet(packet).body for packet in self.user_messages()]


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]


def bits(count: int) -> int:
    return (1 << count) - 1
