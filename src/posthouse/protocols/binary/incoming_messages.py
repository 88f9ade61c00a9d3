"""Hands received user messages of a session to the engine, in order and in steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from posthouse.engine.manager import QueueManager
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.protocols.engine_calls import Answer, Desk
from posthouse.protocols.sending_queue import NEVER
from posthouse.wire.packet.packet_fields import PacketSummary


class PacketPortion(NamedTuple):
    """Packets of a chunk, and what was seen of them."""

    packets: list[bytes]
    looks: list[PacketSummary]
    size: int


class IntakeSession(Protocol):
    """The session that the messages came on."""

    peer: Peer

    @property
    def is_open(self) -> bool:
        """Whether user messages may go either way."""
        ...

    def safe(self, looks: list[PacketSummary], size: int, answer: Answer) -> None:
        """These were dealt with, and what was decided is on disk."""
        ...

    def later(self, work: Callable[[], None]) -> None:
        """Does something in its turn."""
        ...


class Intake:
    """What a session has received and not handed in yet.

    It waits while it is not known who sends it. What is too much for one turn follows when the
    first of it is safe, and others have had their turn. The session is an argument throughout, so
    that the two make no circle.
    """

    def __init__(self, desk: Desk) -> None:
        self.held_until = NEVER
        self._desk = desk
        self._held: list[PacketPortion] = []
        self._left: list[PacketPortion] = []

    def take(self, receiver: IntakeSession, portion: PacketPortion) -> None:
        """One more portion."""
        if self.held_until == NEVER:
            self._give(receiver, portion)
        else:
            self._held.append(portion)

    def release(self, receiver: IntakeSession) -> None:
        """What has waited is handed in, in its order."""
        self.held_until, held, self._held = NEVER, self._held, []
        for portion in held if receiver.is_open else ():
            self._give(receiver, portion)

    def _give(self, receiver: IntakeSession, portion: PacketPortion) -> None:
        if self._left:
            self._left.append(portion)
            return
        peer, (packets, looks, size) = receiver.peer, portion
        taken, verdicts = len(packets), list[Verdict]()

        def receive(manager: QueueManager) -> Verdict:
            verdicts.append(manager.transfer.receive_packets(peer, packets, looks))
            return verdicts[0]

        def safe(answer: Answer) -> None:
            receiver.safe(looks[:taken], size, answer)
            if taken < len(packets):
                receiver.later(partial(self._go_on, receiver))

        self._desk.decide(receive, safe)
        if verdicts and not verdicts[0].close and verdicts[0].dealt_with < len(packets):
            taken = verdicts[0].dealt_with
            left = sum(map(len, packets[taken:]))
            size -= left
            self._left.append(PacketPortion(packets[taken:], looks[taken:], left))

    def _go_on(self, receiver: IntakeSession) -> None:
        left, self._left = self._left, []
        for portion in left if receiver.is_open else ():
            self._give(receiver, portion)
