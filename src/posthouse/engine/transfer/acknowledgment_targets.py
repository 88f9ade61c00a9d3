"""Which acknowledgments the sender of a message may ask for, and when (decision 9).

A name for answers counts only where it leads to who brings the message. Somebody who
has captured a message can be faster than its machine: the message is taken in from them, without
its answers. When the machine brings it, it is a duplicate, but its answers are wanted from then on.
"""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import AckSender
from posthouse.engine.ledger.records import (
    FLAG_REMOTE,
    KEPT,
    NEVER,
    WANT_ACKNOWLEDGMENT,
    WANT_ARRIVAL,
    Change,
)
from posthouse.engine.ledger.rows import flags_of, row_of
from posthouse.engine.transfer.arrivals import ReceivedBatch
from posthouse.engine.transfer.connect_targets import Targets
from posthouse.engine.transfer.protocol_interface import Peer
from posthouse.model.bounded_tables import Bounded
from posthouse.model.message_classes import ACK_REACH_QUEUE, NORMAL
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, summarize

MUTED_MAX = 10_000

Key = tuple[bytes, int, bytes]  # source, ordinal, digest


class AllowedAnswers:
    """What may be answered, and messages whose answers were not allowed."""

    def __init__(self, core: Ledger, acks: AckSender, targets: Targets) -> None:
        self.core = core
        self._acks = acks
        self.targets = targets
        self._numbers: Bounded[Key, int] = Bounded(MUTED_MAX)

    def note(self, key: Key, number: int) -> None:
        """A message came in without the answers that it asks for."""
        self._numbers[key] = number

    def __contains__(self, key: Key) -> bool:
        return key in self._numbers

    def allow(self, key: Key, packet: bytes, ack_flags: int, change: Change) -> None:
        """It came again from where its answers may go; `packet` names them."""
        core, number = self.core, self._numbers.pop(key)
        row, wants = core.state.table.get(number), ack_flags & WANT_ACKNOWLEDGMENT
        if row is not None and row.queue in core.queues:
            core.settle(number, row._replace(wants=row.wants | wants), KEPT, change)
        else:  # what became of it is no longer known; but it did arrive
            seen = summarize(packet)
            row = row_of(seen, 0, core.utc, NEVER, flags_of(seen, FLAG_REMOTE), wants)
        if wants & WANT_ARRIVAL:
            self._acks.administration(packet, row, ACK_REACH_QUEUE, change)

    def allowed(self, peer: Peer, packet: bytes, seen: PacketSummary) -> PacketSummary:
        """What its sender may ask for: nothing where the name leads elsewhere (decision 9).

        Acknowledgments ask for none themselves.
        """
        if not seen.ack_flags:
            return seen
        if seen.message_class == NORMAL:
            name = Packet(packet, seen).administration_queue
            its_own = seen.source_guid == peer.guid and self.targets.may_be_peer(name)
            if its_own or self.targets.allows(peer, name, seen.source_guid):
                return seen
            self.core.refusals["target_not_allowed"] += 1
        return seen._replace(ack_flags=0)

    def came_again(
        self, batch: ReceivedBatch, packet: bytes, seen: PacketSummary, digest: bytes
    ) -> None:
        """A duplicate; perhaps somebody else has brought it first, and its answers were muted."""
        key = seen.source_guid, seen.ordinal, digest
        if key in self and seen.source_guid != self.core.guid:
            flags = summarize(packet).ack_flags
            seen = self.allowed(batch.peer, packet, seen._replace(ack_flags=flags))
            if seen.ack_flags:
                self.allow(key, packet, seen.ack_flags, batch.change)
