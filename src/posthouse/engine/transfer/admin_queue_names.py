"""The format name to which other machines send acknowledgments for us ([MS-MQQB] 3.1.7.15)."""

from __future__ import annotations

from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Queue, QueueRole, QueueType
from posthouse.model.errors import ComputerDoesNotSupportEncryption
from posthouse.model.names import DirectName
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.headers import OVER_HTTP
from posthouse.wire.packet.packet import Packet
from posthouse.wire.packet.packet_fields import PacketSummary, summarize
from posthouse.wire.packet.renaming import with_private_administration
from posthouse.wire.srmp.stored_messages import without_srmp


def answerable(
    guid: bytes, registry: Queues, queue: Queue, packet: bytes, seen: PacketSummary | None = None
) -> tuple[bytes, PacketSummary]:
    """A message for another machine, its administration queue named so that it can be answered.

    A private queue of ours goes by our GUID, as it does with Windows: our computer name may mean
    nothing there, and answers to names from the wire go only to machines that are known.
    """
    seen = summarize(packet) if seen is None else seen
    if queue.outgoing is None or not seen.ack_flags:
        return packet, seen
    name = Packet(packet, seen).administration_queue
    own = registry.find_local(name) if isinstance(name, DirectName) else None
    if own is None or own.definition.role is not QueueRole.PLAIN:
        return packet, seen
    if own.definition.queue_type is not QueueType.PRIVATE:
        return packet, seen
    renamed = with_private_administration(packet, seen, guid, own.number)
    return renamed, summarize(renamed)


def addressed(guid: bytes, registry: Queues, queue: Queue, batch: Batch) -> list[Batch]:
    """Packets of a client, addressed so that they can be answered, or refused if not encryptable.

    One that was read elsewhere may be marked as come over HTTP: sent again it did not.
    """
    leaving, over_http = queue.outgoing is not None, batch.head.user_flags & OVER_HTTP
    if leaving and batch.leads_nowhere_secret:
        raise ComputerDoesNotSupportEncryption(
            "a direct name does not identify the queue manager whose key encrypts",
            "Send by the queue's PRIVATE= or PUBLIC= name: queue show has it.",
        )
    if over_http:
        (packet,) = batch.packets
        return addressed(guid, registry, queue, Batch.of(without_srmp(packet, batch.head)))
    if not leaving or not batch.head.ack_flags:
        return [batch]
    pairs = zip(batch.packets, batch.looks, strict=True)
    return [Batch.of(*answerable(guid, registry, queue, *pair)) for pair in pairs]
