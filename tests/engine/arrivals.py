"""A rig that gets packets from another queue manager, as a session hands them in."""

from __future__ import annotations

from typing import Any

from posthouse.directory import objects
from posthouse.engine.transfer.protocol_interface import Peer, Verdict
from posthouse.model.message import DeliveryGuarantee, Message, MessageId, TxSequenceId
from posthouse.wire.packet.message import serialize
from posthouse.wire.packet.packet_fields import summarize_alike
from tests.engine.letters import FAR_GUID, PostRig

PEER = Peer(FAR_GUID, "192.0.2.7")
ORDERS = r"DIRECT=OS:ALPHA\private$\orders"


class PeerRig(PostRig):
    """A rig with a queue `orders` and a peer that sends to it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.create("orders")
        self.ordinal = 0

    def enter_machine(self, guid: bytes = FAR_GUID, name: str = "FAR") -> None:
        """The directory has a machine."""
        entry = objects.QueueManager(identifier=guid, computer_name=name)
        service, clock = self.manager.directory.service, self.clock
        self.run(lambda m: service.create_directory_object(entry, clock.now_ms, clock.utc_seconds))

    def packet(
        self, body: bytes = b"", *, express: bool = False, ordinal: int = 0, **attributes: Any
    ) -> bytes:
        """A packet of the peer's; each has a new ordinal unless one is given."""
        self.ordinal += not ordinal
        source = attributes.pop("source", FAR_GUID)
        attributes.setdefault("sent_time", self.clock.utc_seconds)
        attributes.setdefault("destination_queue_format_name", ORDERS)
        message = Message(
            body=body,
            identifier=MessageId(source, ordinal or self.ordinal),
            source_machine_identifier=source,
            delivery_guarantee=(
                DeliveryGuarantee.EXPRESS if express else DeliveryGuarantee.RECOVERABLE
            ),
            **attributes,
        )
        return serialize(message)

    def transactional(
        self, number: int, previous: int, sequence: tuple[int, int] = (5, 1), **attributes: Any
    ) -> bytes:
        """A packet in a sequence of the peer's."""
        attributes.setdefault("body", str(number).encode())
        return self.packet(
            transaction_identifier=1,
            transactional_message_sequence_identifier=TxSequenceId(*sequence),
            transaction_sequence_number=number,
            transaction_previous_sequence_number=previous,
            **attributes,
        )

    def take(self, *packets: bytes, peer: Peer = PEER) -> Verdict:
        """The packets arrive in one batch; what became of them is durable."""
        looks = summarize_alike(list(packets))
        return self.run(lambda m: m.transfer.receive_packets(peer, list(packets), looks))

    def take_each(self, *packets: bytes, peer: Peer = PEER) -> None:
        """The packets arrive one by one."""
        for packet in packets:
            assert self.take(packet, peer=peer) == Verdict(1)
