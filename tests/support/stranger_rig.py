"""A sender and a stranger who uses the sender's identity."""

from __future__ import annotations

from typing import Any

from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.message_classes import ACK_RECEIVE
from posthouse.wire.binary.order_acks import ack_class, read_final_ack, read_order_ack
from tests.engine.arrivals import PEER, PeerRig
from tests.engine.letters import FAR_GUID

EAST = r"DIRECT=OS:ALPHA\private$\east"


STRANGER = Peer(bytes(range(64, 80)), "192.0.2.9")


class EastRig(PeerRig):
    """A rig with a transactional queue `east`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("east", transactional=True)

    def east(
        self, number: int, previous: int | None = None, body: bytes = b"", **more: Any
    ) -> bytes:
        """A message of the peer's sequence into `east`; its content follows from its number."""
        previous = number - 1 if previous is None else previous
        body = body or b"%d" % number
        more.setdefault("ordinal", 100 + number % 1000)
        return self.transactional(
            number, previous, body=body, destination_queue_format_name=EAST, **more
        )

    def bodies_of(self) -> list[str]:
        return [body.decode() for body in self.bodies("east")]

    def order(self, peer: Peer = PEER) -> list[tuple[int, int]]:
        """What the order acknowledgments for a host say, by where they would go."""
        queue, host = self.queue("east").number, peer.host
        self.run(lambda m: m.transfer.send_order_ack(queue, FAR_GUID, host))
        return [(ack.sequence_id >> 32, ack.sequence_number) for ack in self.owed_to(peer)]

    def owed_to(self, peer: Peer) -> list[Any]:
        """The acknowledgments that wait for a host."""
        found = []
        for queue in self.manager.queues.outgoing_queues():
            if queue.definition.answers_at == peer.host:
                for _, number in queue.state.order.forward():
                    packet = self.store.read(number)
                    code = ack_class(packet, 0, int.from_bytes(packet[60:64], "little"))
                    found.append(
                        (read_final_ack if code >= ACK_RECEIVE else read_order_ack)(packet)
                    )
        return found
