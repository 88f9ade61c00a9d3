"""A queue manager that forwards to a machine beyond it."""

from __future__ import annotations

from typing import Any

from posthouse.model.names import PrivateName
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.patch import patch
from tests.support.answer_rig import AnswerRig

BEYOND_GUID = bytes(range(48, 64))


BEYOND = str(PrivateName(BEYOND_GUID, 0x21))


class RoutingRig(AnswerRig):
    """A rig that passes messages on to the queue BEYOND."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("routing_server", True)
        super().__init__(**settings)
        self.enter_machine()

    def through(self, body: bytes = b"through", hops: int = 0, **attributes: Any) -> bytes:
        packet = self.asking(body, destination_queue_format_name=BEYOND, **attributes)
        return patch(packet, hop_count=hops) if hops else packet

    def passed_on(self) -> list[Packet]:
        return [Packet(packet) for packet in self.sent(BEYOND)]
