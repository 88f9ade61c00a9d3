"""Engine calls of client sessions that the documents do not define."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from posthouse.engine.ledger.effects import Read
from posthouse.engine.manager import QueueManager
from posthouse.engine.messages.enqueue import destination_name
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.sessions.resumable import SENT, NamedSession, runs_of
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
) -> Sequence[Read] | None:
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


def send_as_transaction(
    manager: QueueManager,
    named: NamedSession | None,
    request_id: int,
    count: int,
    owner: object,
    send: Callable[[Transaction], list[int]],
    asked: bytes = b"",
) -> list[int]:
    """Messages that are a transaction of their own, once for each request id of a named session.

    What they came to is kept in the step that commits them. Returns their ordinals.
    """
    kept = None if named is None else named.kept(request_id, SENT, asked)
    if kept is not None:
        if kept.count != count:
            raise InvalidParameter(f"request {request_id} was a send of {kept.count} messages")
        return kept.ordinals
    transactions = manager.transactions
    transaction = transactions.create_transaction(manager.machine.new_guid(), owner)
    try:
        ordinals = send(transaction)
    except BaseException:
        transactions.transaction_abort(transaction.identifier)
        raise
    if named is None:
        transactions.transaction_commit(transaction.identifier)
    else:
        commit = partial(transactions.transaction_commit, transaction.identifier)
        runs = runs_of([sends.numbers for sends in transaction.sends()], ordinals)
        manager.sessions.now(named, request_id, SENT, count, commit, runs, asked)
    return ordinals


class SeriesNumber(NamedTuple):
    """What a caller without a session names a message by, so that it is sent once."""

    series: bytes
    number: int
    account: bytes
    asked: bytes  # a digest of the request


def send_numbered(
    manager: QueueManager,
    once: SeriesNumber,
    send: Callable[[Transaction | None], int],
    *,
    transactional: bool,
) -> int:
    """Sends a message unless it was sent under this number before. Returns its ordinal.

    A series is a named session that no client has: its last numbers are kept like the requests of
    one, and as long.
    """
    sessions, number, asked = manager.sessions, once.number, once.asked
    with sessions.taken_up(once.series, once.account) as named:
        if transactional:
            ordinals = send_as_transaction(
                manager, named, number, 1, None, lambda within: [send(within)], asked
            )
        else:
            ordinals = sessions.send_once(named, number, [b""], lambda _: [send(None)], asked)
    return ordinals[0]


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
