"""What client sessions ask of the engine beside the events of the document."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.enqueue import destination_name
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import InvalidParameter
from posthouse.wire.packet.message import deserialize


class OpenQueueInfo(NamedTuple):
    """What a client needs of a queue it has opened."""

    destination: str  # the name its packets carry; of a list, that of its first element
    transactional: bool
    outgoing: bool


class QueueCount(NamedTuple):
    """How much a queue holds, what its readers have locked included."""

    messages: int
    locked: int
    size: int


def about(manager: QueueManager, descriptor: OpenQueueDescriptor) -> OpenQueueInfo:
    """How messages for an open queue are made."""
    if descriptor.nested:
        return OpenQueueInfo(destination_name(manager.ledger, descriptor.nested[0]), False, False)
    queue = descriptor.target()
    return OpenQueueInfo(
        destination_name(manager.ledger, descriptor),
        queue.definition.transactional,
        queue.outgoing is not None,
    )


def count(manager: QueueManager, descriptor: OpenQueueDescriptor) -> QueueCount:
    """For callers who may look into the queue."""
    queue = manager.queues.opening.check(descriptor, QueueAccessType.PEEK)
    return QueueCount(queue.state.count, queue.locked, queue.state.bytes)


def receive_several(
    manager: QueueManager,
    descriptor: OpenQueueDescriptor,
    count: int,
    transaction: Transaction | None,
    *,
    two_phase: bool,
    timeout_ms: int | None,
    token: object,
    tag: Hashable,
    room: int | None = None,
) -> list[Read] | None:
    """Messages that are there, several if there are. None: it waits for the first that comes."""
    reads = manager.messages.dequeue_messages(
        descriptor, count, transaction, two_phase=two_phase, room=room
    )
    if reads:
        return reads
    manager.messages.waiting.wait(
        descriptor.target(),
        descriptor,
        timeout_ms,
        destructive=True,
        cursor=None,
        transaction=transaction,
        tag=tag,
        two_phase=two_phase and transaction is None,
        token=token,
        count=count,
    )
    return None


def send_to_list(
    manager: QueueManager,
    descriptor: OpenQueueDescriptor,
    packets: list[bytes],
    transaction: Transaction | None,
) -> list[int]:
    """A packet for each element of a list of queues: the engine makes them, from one that came."""
    if len(packets) > 1:
        raise InvalidParameter(
            "a list of queues takes one message at a time",
            "Send the messages one by one, or in a transaction.",
        )
    return [
        manager.messages.enqueue_message_to_an_open_queue(
            descriptor, deserialize(packet), transaction
        ).ordinal
        for packet in packets
    ]
