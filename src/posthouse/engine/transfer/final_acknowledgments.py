"""Which senders get a FinalAck for a transactional message that is refused (decisions 8, 80).

A negative one shows whether a queue exists, of which kind it is and who may send to it. The sender
of a sequence that is bound to the queue needs it, or it waits for the end of the message's time; a
stranger who tries names gets none. A message that another host has brought before, and that has
ended since, is answered with how it ended.
"""

from __future__ import annotations

from collections.abc import Callable

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import AckSender
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transfer.arrivals import Arriving, ReceivedBatch
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.engine.transfer.source_check import Speakers
from posthouse.model.guids import format_guid
from posthouse.model.message_classes import (
    NACK_HOP_COUNT_EXCEEDED,
    NACK_REACH_QUEUE_TIMEOUT,
    class_name,
)
from posthouse.model.names import SingleName
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.sequence_places import place_seen

# Whether the queue exists does not matter for these.
_NOT_OF_THE_QUEUE = frozenset({NACK_REACH_QUEUE_TIMEOUT, NACK_HOP_COUNT_EXCEEDED})
Find = Callable[[SingleName | None], Queue | None]


class FinalAnswers:
    """Final acknowledgments for messages that are not taken, for those who may have them."""

    def __init__(
        self,
        core: Ledger,
        transfer: MachineTransfer,
        acks: AckSender,
        speakers: Speakers,
        find: Find,
    ) -> None:
        self.core = core
        self._transfer = transfer
        self._acks = acks
        self.speakers = speakers
        self._find = find

    def withholds(self, peer: Peer, arrival: Arriving, message_class: int) -> bool:
        """Whether the sender of a refused message gets no answer; the log has a line instead."""
        own = arrival.seen.source_guid == peer.guid
        if self.may_be_sent(peer, arrival) or (own and message_class in _NOT_OF_THE_QUEUE):
            return False
        self.core.refusals["final_acknowledgment_withheld"] += 1
        self.core.event(
            "final_acknowledgment_withheld",
            address=peer.address,
            source=format_guid(arrival.seen.source_guid),
            why=class_name(message_class),
        )
        return True

    def may_be_sent(self, peer: Peer, arrival: Arriving) -> bool:
        """Whether a final acknowledgment may go to this sender: it signs, its sequence is bound, or
        the directory has it at that address.

        A sender with the right to send learns nothing from a refusal that an accepted message would
        not show: from that sender, a full queue need not be kept secret.
        """
        source = arrival.seen.source_guid
        return (
            bool(arrival.signed)
            or self.core.settings.queue_manager.send_insecure_nacks
            or (source == peer.guid and (arrival.may_enter or self._is_bound(peer, arrival)))
            or self.speakers.is_relayed(peer, source)
        )

    def came_again(self, batch: ReceivedBatch, arrival: Arriving, host: str) -> None:
        """A message that came before; the answer to another host, if it has ended since.

        `host` is its lineage.
        """
        acks, packet, seen = self._acks, arrival.packet, arrival.seen
        source, name = seen.source_guid, str(Packet(packet, seen).destination_queue)
        sequence_id, number, _ = place_seen(packet, seen)
        place, digest = (sequence_id, number), arrival.digest
        message_class = self._transfer.end_of(source, name, host, place, digest)
        if message_class and not acks.is_enough(source, host):
            acks.final(packet, message_class, batch.peer.address, batch.change, host)

    def _is_bound(self, peer: Peer, arrival: Arriving) -> bool:
        """Whether a message of this source has come in from there under this name of the queue."""
        name = Packet(arrival.packet, arrival.seen).destination_queue
        queue = self._find(name)
        number = 0 if queue is None else queue.number
        source, known = arrival.seen.source_guid, self._transfer.incoming_at
        found = [known(number, source, str(name), host) for host in (peer.host, "")]
        return any(info is not None and info.sequence_number for info in found)
