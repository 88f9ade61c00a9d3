"""A rig whose outgoing queues have sessions: what their peers get, and what they answer."""

from __future__ import annotations

from typing import Any

from posthouse.engine.transfer.outgoing_cursor import OutgoingCursor
from posthouse.engine.transfer.protocol_interface import Outbound, Peer
from posthouse.model.message import Message
from posthouse.wire.packet.message import deserialize
from tests.engine.letters import FAR, FAR_GUID, PostRig

EVERYTHING = 1 << 30


class SessionRig(PostRig):
    """A rig with short names for what sessions do."""

    def session(self, name: str = FAR) -> OutgoingCursor:
        """A new session for an outgoing queue, which is made if need be."""
        self.close(self.open(name))
        number = self.outgoing(name)[0].number
        return self.run(lambda m: m.transfer.begin_sending(number))

    def take(
        self, sender: OutgoingCursor, count: int = 1000, size: int = EVERYTHING
    ) -> list[Outbound]:
        return self.run(lambda m: sender.take(count, size))

    def sent(self, sender: OutgoingCursor, count: int = 1000) -> list[bytes]:
        """The bodies of what a session takes."""
        return [deserialize(out.packet).body for out in self.take(sender, count)]

    def acknowledge(self, sender: OutgoingCursor, taken: list[Outbound]) -> None:
        self.run(lambda m: sender.acknowledged([out.number for out in taken]))

    def end(self, sender: OutgoingCursor) -> None:
        self.run(lambda m: sender.end())

    def resend(self, sender: OutgoingCursor) -> None:
        self.run(lambda m: sender.resend())

    def commit_sends(self, bodies: str, to: str = FAR, **attributes: Any) -> None:
        """One transaction with a message for each letter."""
        self.tags = getattr(self, "tags", 0) + 1
        tx = self.begin(f"sends {self.tags}")
        for body in bodies:
            self.send(to, body.encode(), tx=tx, **attributes)
        self.commit(tx)

    def order_ack(self, sequence_id: int, number: int, peer: Peer | None = None) -> bool:
        peer = peer or Peer(FAR_GUID, "10.0.0.2")
        return self.run(
            lambda m: m.transfer.outgoing.order_acknowledged_by(peer, sequence_id, number)
        )

    def final_ack(self, message: Message, message_class: int, peer: Peer | None = None) -> bool:
        """The answer about a message that was sent."""
        peer = peer or Peer(FAR_GUID, "10.0.0.2")
        identifier, sequence = message.identifier, sequence_of(message)
        number = message.transaction_sequence_number
        return self.run(
            lambda m: m.transfer.outgoing.final_acknowledged_by(
                peer, message_class, identifier.guid, identifier.ordinal, sequence, number
            )
        )

    def waiting_bodies(self, name: str = FAR) -> list[bytes]:
        """Everything that is still in an outgoing queue."""
        queue = self.outgoing(name)[0]
        return [deserialize(self.store.read(n)).body for _, n in queue.state.order.forward()]


def sequence_of(message: Message) -> int:
    """TxSequenceID of a message that was sent."""
    sequence = message.transactional_message_sequence_identifier
    assert sequence is not None
    return int(sequence)


def places(taken: list[Outbound]) -> list[tuple[bytes, int, int]]:
    """Body, number and previous number of each."""
    messages = [deserialize(out.packet) for out in taken]
    return [
        (m.body, m.transaction_sequence_number, m.transaction_previous_sequence_number)
        for m in messages
    ]
