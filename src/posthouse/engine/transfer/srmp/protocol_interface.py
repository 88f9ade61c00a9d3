"""What the engine and the protocols of SRMP exchange: messages that were read, and answers."""

from __future__ import annotations

from typing import NamedTuple

from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.srmp.mapping import packet_of
from posthouse.wire.srmp.message import SrmpMessage
from posthouse.wire.srmp.mime_parts import Parts
from posthouse.wire.srmp.repeated_messages import MessageTemplate


class SrmpArrival(NamedTuple):
    """A message that a door has read: from whom, its elements, its parts, its HTTP head."""

    peer: Peer
    message: SrmpMessage
    parts: Parts
    head: bytes
    template: MessageTemplate | None = None  # of messages that differ in number and body only

    def packed(self, utc: int) -> tuple[bytes, PacketSummary]:
        """The packet that is kept of it, if nothing has to be verified; and its summary."""
        if self.template is not None:
            return self.template.packet(self.parts.payload)
        packet = packet_of(self.message, self.parts, self.head, utc)
        return packet, summarize(packet)


class SrmpVerdict(NamedTuple):
    """The answer: 200 done with, 400 never, 500 not now; and why."""

    status: int
    why: str = ""
