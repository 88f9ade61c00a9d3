"""Packets as clients and peers build them, and how they come in."""

from __future__ import annotations

from typing import Any

from posthouse.engine.ledger.records import (
    FLAG_REMOTE,
)
from posthouse.engine.queues.queue import Queue
from posthouse.model.message import (
    Message,
    TxSequenceId,
)
from posthouse.wire.packet.message import serialize
from tests.engine.rig import RECOVERABLE, START_UTC, Rig

PEER = bytes(range(16))


def packet_of(**attributes: Any) -> bytes:
    """A packet as a client or a peer builds it."""
    attributes.setdefault("delivery_guarantee", RECOVERABLE)
    attributes.setdefault("sent_time", START_UTC)
    attributes.setdefault("destination_queue_format_name", r"DIRECT=OS:ALPHA\private$\orders")
    return serialize(Message(**attributes))


def transactional_packet(**attributes: Any) -> bytes:
    return packet_of(
        transaction_identifier=1,
        transactional_message_sequence_identifier=TxSequenceId(5, 6),
        **attributes,
    )


def arrives(rig: Rig, queue: Queue, packet: bytes, flags: int = FLAG_REMOTE) -> int:
    """Enqueue Message for a packet that a peer sent."""
    return rig.run(lambda m: m.messages.sending.enqueue(queue, packet, flags=flags))


def size_of(body: bytes) -> int:
    rig = Rig()
    rig.create("scale")
    rig.send("scale", body)
    return rig.queue("scale").state.bytes
