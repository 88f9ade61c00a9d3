"""A queue manager whose answers to a sender can be read."""

from __future__ import annotations

from typing import Any

from posthouse.model.message import (
    ACK_NEG_ARRIVAL,
    ACK_POS_ARRIVAL,
    Message,
)
from posthouse.model.names import PrivateName
from posthouse.wire.binary.order_acks import read_final_ack
from posthouse.wire.packet.message import deserialize
from tests.engine.arrivals import PeerRig
from tests.engine.letters import FAR_GUID

ANSWERS = r"DIRECT=TCP:192.0.2.7\private$\answers"


class AnswerRig(PeerRig):
    """A rig whose answers to the peer can be looked at."""

    def asking(self, body: bytes = b"asks", **attributes: Any) -> bytes:
        """A packet that wants every acknowledgment of its arrival."""
        attributes.setdefault("acknowledgements_requested", ACK_NEG_ARRIVAL | ACK_POS_ARRIVAL)
        attributes.setdefault("administration_queue_format_name", ANSWERS)
        return self.packet(body, **attributes)

    def sent(self, name: str) -> list[bytes]:
        """The packets in an outgoing queue."""
        for queue in self.manager.queues.outgoing_queues():
            if queue.definition.format_name.casefold() == name.casefold():
                return [self.store.read(number) for _, number in queue.state.order.forward()]
        return []

    def answers(self) -> list[Message]:
        return [deserialize(packet) for packet in self.sent(ANSWERS)]

    def answer_classes(self) -> list[int]:
        return [answer.message_class for answer in self.answers()]

    def final_acks(self, source: bytes = FAR_GUID) -> list[tuple[int, int, int]]:
        """Class, ordinal and sequence number of the final acknowledgments for a source."""
        found = []
        for packet in self.sent(str(PrivateName(source, 4))):
            body = read_final_ack(packet)
            assert body.source_queue_manager == source
            found.append((deserialize(packet).message_class, body.message_id, body.sequence_number))
        return found
