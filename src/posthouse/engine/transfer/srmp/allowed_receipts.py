"""Receipts that the sender of a message over HTTP may ask for (decisions 9 and 83)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.records import WANT_ARRIVAL
from posthouse.engine.transfer.arrivals import Arriving
from posthouse.engine.transfer.receiving import Receiving
from posthouse.engine.transfer.srmp.message_runs import SrmpBatch
from posthouse.engine.transfer.srmp.protocol_interface import SrmpArrival
from posthouse.engine.transfer.srmp.web_names import web_name
from posthouse.model.message_classes import NORMAL
from posthouse.model.names import DirectName
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import summarize
from posthouse.wire.packet.renaming import with_direct_administration
from posthouse.wire.srmp.mapping import packet_of


class SrmpAnswers:
    """What may be answered, and where."""

    def __init__(self, core: Ledger, receiving: Receiving) -> None:
        self.core = core
        self.receiving = receiving

    def allow(self, arrival: SrmpArrival, one: Arriving) -> DirectName | None:
        """Leaves of what its sender asks for what may be sent; acknowledgments ask for nothing.

        Returns the address of the delivery receipt where it has one of its own.
        """
        message, seen = arrival.message, one.seen
        if not seen.ack_flags:
            return None
        if message.message_class != NORMAL:
            one.seen = seen._replace(ack_flags=0)
            return None
        name = Packet(one.packet, seen).administration_queue
        allowed = self.allowed(arrival, name) if isinstance(name, DirectName) else None
        delivery_to = None
        apart = message.delivery_receipt_to and message.commitment_receipt_to
        if apart and message.delivery_receipt_to != message.commitment_receipt_to:
            wanted = web_name(message.delivery_receipt_to)
            delivery_to = None if wanted is None else self.allowed(arrival, wanted)
            seen = seen._replace(ack_flags=seen.ack_flags & ~WANT_ARRIVAL)
        if allowed is None:
            seen = seen._replace(ack_flags=0)
        elif allowed != name:
            flags = seen.ack_flags
            one.packet = with_direct_administration(one.packet, seen, allowed)
            seen = summarize(one.packet)._replace(ack_flags=flags)
        one.seen = seen
        return delivery_to

    def allowed(self, arrival: SrmpArrival, name: DirectName) -> DirectName | None:
        """Where receipts for a name go, if the sender may have them sent there (decision 9)."""
        targets, source = self.receiving.targets, arrival.message.source_guid
        return self._counted(targets.receipt_name(arrival.peer, source, name))

    def allowed_for_stream(self, arrival: SrmpArrival, name: DirectName) -> DirectName | None:
        """Where stream receipts for a name go."""
        stream = arrival.message.stream
        source = arrival.message.source_guid if stream is None else stream.guid
        return self._counted(self.receiving.targets.stream_receipt_name(arrival.peer, source, name))

    def _counted(self, allowed: DirectName | None) -> DirectName | None:
        if allowed is None:
            self.core.refusals["target_not_allowed"] += 1
        return allowed

    def came_again(self, batch: SrmpBatch, arrival: SrmpArrival, digest: bytes) -> None:
        """As `Receiving` does where somebody else has brought it first."""
        muted = self.receiving.answers
        key = arrival.message.source_guid, arrival.message.ordinal, digest
        if key in muted:
            packet = packet_of(arrival.message, arrival.parts, arrival.head, self.core.utc)
            one = Arriving(packet, summarize(packet))
            self.allow(arrival, one)
            if one.seen.ack_flags:
                muted.allow(key, one.packet, one.seen.ack_flags, batch.change)

    def mute(self, arrival: SrmpArrival, one: Arriving, number: int, digest: bytes) -> None:
        """Notes a message that came in without the receipts that it asks for."""
        if not one.seen.ack_flags:
            message = arrival.message
            key = message.source_guid, message.ordinal, digest
            self.receiving.answers.note(key, number)
