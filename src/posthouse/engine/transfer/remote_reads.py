"""Engine calls of remote readers ([MS-MQRR]) that [MS-MQDMPR] does not define.

Their calls name things by numbers: a transaction by its XACTUOW, a move's target by its context, a
message by its lookup id. Each function here finds them, in the order of checks that its method has,
and then raises the event. An association is the object that stands for a client there; no other
association can use what it opened or began (decision 6).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.records import FLAG_REMOTE, WANT_APPLICATION_DEAD_LETTER
from posthouse.engine.manager import QueueManager
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.engine.transactions.transaction import OperationType, Transaction, TransactionState
from posthouse.model.errors import (
    InvalidHandle,
    InvalidParameter,
    MessageNotFound,
    OperationCancelled,
    StatusInvalidParameter,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.message import NACK_RECEIVE_REJECTED
from posthouse.wire.packet.patch import source_of

_LOOPBACK: Final = "127.0.0.1"


class Particulars(NamedTuple):
    """What a packet does not hold of its message, and a remote reader is told ([MS-MQRR] 2.2.5)."""

    subqueue: str = ""  # the subqueue it lies in
    target_subqueue: str = ""  # where an open transaction moves it
    dead_letter: str = ""  # path name of the dead-letter queue its sender chose
    dead_letter_invalid: bool = False
    source_address: str = ""  # where it came from; empty: no longer known


_USUAL = Particulars(source_address=_LOOPBACK)


def particulars(manager: QueueManager, read: Read, packet: bytes) -> Particulars:
    """The particulars of a message that was read.

    Choice: the address is the last one of its sender's queue manager, as no message keeps its own.
    """
    core = manager.ledger
    queue = core.queues.get(read.queue)
    plain = queue is not None and queue.definition.role is not QueueRole.SUBQUEUE
    simple = plain and not core.peekable_locks and read.number not in core.state.extras
    if simple and not read.flags & FLAG_REMOTE:
        return _USUAL
    path, invalid = _dead_letter(manager, read.number)
    return Particulars(
        _subqueue_name(queue),
        _subqueue_name(_target_of_move(manager, read.number)),
        path,
        invalid,
        _source_address(manager, read, packet),
    )


def _subqueue_name(queue: Queue | None) -> str:
    if queue is None or queue.path is None or queue.definition.role is not QueueRole.SUBQUEUE:
        return ""
    return queue.path.subqueue


def _target_of_move(manager: QueueManager, number: int) -> Queue | None:
    lock = manager.ledger.locks.get(number)
    if lock is None or lock.transaction is None:
        return None
    operation = lock.transaction.by_message.get(number)
    if operation is None or operation.kind is not OperationType.MOVE:
        return None
    return manager.queues.get(operation.queue)


def _dead_letter(manager: QueueManager, number: int) -> tuple[str, bool]:
    """The queue that gets the message if it cannot be received, and whether that is none."""
    core = manager.ledger
    row = core.state.table.get(number)
    if row is None or not row.wants & WANT_APPLICATION_DEAD_LETTER:
        return "", False
    name = core.extra(number).dead_letter
    queue = manager.messages.outcomes.application_queue(name)
    return (name, True) if queue is None else (queue.name, False)


def _source_address(manager: QueueManager, read: Read, packet: bytes) -> str:
    source = source_of(packet)
    if not read.flags & FLAG_REMOTE or source == manager.machine.identifier:
        return _LOOPBACK
    known = manager.transfer.outgoing.machines.address_of(source)
    return "" if known is None else known[0]


# -- transactions


def enlist(
    manager: QueueManager,
    identifier: bytes,
    token: bytes,
    association: object,
    account: bytes = b"",
) -> None:
    """R_QMEnlistRemoteTransaction ([MS-MQRR] 3.1.4.12): a token of our own coordinators only.

    Choice: it is prepared only when every read in it was ended. One that was not may have been
    lost on its way, and its client would commit without it.
    """
    transaction = manager.transactions.enlist(token, association, identifier, account)
    if transaction.unended is None:
        transaction.unended = set()


def transaction_of(
    manager: QueueManager, descriptor: OpenQueueDescriptor, identifier: bytes, *, peek: bool = False
) -> Transaction | None:
    """The transaction of R_StartTransactionalReceive ([MS-MQRR] 3.1.4.13); None for the null one.

    Decision 90: one that was not enlisted gives MQ_ERROR_TRANSACTION_SEQUENCE.
    """
    if identifier == NULL_GUID:
        return None
    manager.messages.reading.check_transactional(descriptor.target())
    if peek:
        raise TransactionUsage("a peek cannot be part of a transaction")
    return _transaction(manager, identifier, descriptor.association)


def _transaction(manager: QueueManager, identifier: bytes, association: object) -> Transaction:
    transaction = manager.transactions.find(identifier)
    if transaction.owner is not association:
        raise TransactionSequence(
            f"the transaction {format_guid(identifier)} was not enlisted by this client"
        )
    return transaction


# -- the end of a read


def end_read(
    manager: QueueManager, descriptor: OpenQueueDescriptor, lookup_id: int, *, positive: bool
) -> None:
    """R_EndReceive and R_EndTransactionalReceive ([MS-MQRR] 3.1.4.9, .15), without the table.

    In a transaction a positive end changes nothing; a negative one takes the read out of it.
    """
    queue = manager.queues.opening.check(descriptor, QueueAccessType.RECEIVE)
    _present(manager, queue, lookup_id)
    manager.messages.dequeue_message_end(descriptor, lookup_id, positive=positive)


def return_message(
    manager: QueueManager, descriptor: OpenQueueDescriptor, lookup_id: int, *, in_doubt: bool
) -> None:
    """Returns a message that was read and not ended to its queue: [MS-MQRR] 3.1.5.1, 3.1.6.2.

    With `in_doubt` it is marked, since its reader may have used it. No right is needed. Nothing
    happens if the message is gone or not locked.
    """
    queue = descriptor.queue
    number = queue.current_number(lookup_id) if queue is not None else 0
    if queue is None or number not in descriptor.held:
        return
    transaction = manager.ledger.locks[number].transaction
    if transaction is None:
        manager.messages.reading.give_back(queue, number, in_doubt=in_doubt)
    elif transaction.state is TransactionState.ACTIVE:
        manager.transactions.collection.remove_dequeue(transaction, queue, number)


def run_down(manager: QueueManager, descriptor: OpenQueueDescriptor) -> None:
    """Rundown of a context handle ([MS-MQRR] 3.1.6.2): messages first, then the queue.

    What was read in a transaction stays in it; `return_message` takes out what was not ended.
    """
    manager.queues.opening.close(descriptor, in_doubt=True)


def end_association(manager: QueueManager, association: object) -> None:
    """A client is gone ([MS-MQRR] 3.1.6): waits, transactions, then everything it has open.

    The waits first, or what the rest gives back would go to a reader that is gone.
    """
    manager.messages.waiting.cancel_session(association, OperationCancelled("the client is gone"))
    manager.transactions.collection.abort_of(association)
    for descriptor in manager.queues.opening.opened_by(association):
        run_down(manager, descriptor)


def set_acknowledgement_class(
    manager: QueueManager, descriptor: OpenQueueDescriptor, lookup_id: int, message_class: int
) -> None:
    """R_SetUserAcknowledgementClass ([MS-MQRR] 3.1.4.14); it counts when the transaction commits.

    Decision 94: nothing but 0, which changes nothing, and MQMSG_CLASS_NACK_RECEIVE_REJECTED.
    """
    queue = manager.queues.opening.check(descriptor, QueueAccessType.RECEIVE)
    if message_class not in (0, NACK_RECEIVE_REJECTED):
        raise InvalidParameter(f"no reader gives a message the class 0x{message_class:04X}")
    number = _present(manager, queue, lookup_id)
    transaction = _reader_of(manager, number, descriptor.association)
    if message_class:
        manager.transactions.collection.reason_of(transaction, number, message_class)


def _reader_of(manager: QueueManager, number: int, association: object) -> Transaction:
    """The client's transaction that has received a message."""
    lock = manager.ledger.locks.get(number)
    transaction = None if lock is None else lock.transaction
    if (
        transaction is None
        or transaction.owner is not association
        or transaction.by_message[number].kind is not OperationType.DEQUEUE
    ):
        raise TransactionUsage("the message was not received in a transaction of this client")
    return transaction


def _present(manager: QueueManager, queue: Queue, lookup_id: int) -> int:
    """A message of the queue, held or not."""
    number = queue.current_number(lookup_id)
    if not number or manager.messages.row(number).queue != queue.number:
        raise MessageNotFound(f"no message with lookup id {lookup_id} is in {queue.name}")
    return number


# -- moves


def move_message(
    manager: QueueManager,
    source: OpenQueueDescriptor,
    context: int,
    lookup_id: int,
    identifier: bytes,
) -> None:
    """R_MoveMessage ([MS-MQRR] 3.1.4.10), its refusals in that order."""
    opening = manager.queues.opening
    from_queue = opening.check_source_of_move(source)
    target = opening.move_context(context, source.association)
    if target.access is not QueueAccessType.MOVE or target.caller.sid != source.caller.sid:
        raise InvalidHandle("no queue is open for moves under that handle")
    to_queue = opening.check(target, QueueAccessType.MOVE)
    if from_queue is to_queue or from_queue.root is not to_queue.root:
        raise StatusInvalidParameter(
            f"{from_queue.name} and {to_queue.name} are not a queue and its subqueue"
        )
    transactional = to_queue.definition.transactional
    if transactional is (identifier == NULL_GUID):  # decision 95
        raise TransactionUsage(
            f"the queue {to_queue.name} is {'' if transactional else 'not '}transactional"
        )
    manager.messages.moving.movable(from_queue, lookup_id)
    transaction = None
    if transactional:
        transaction = _transaction(manager, identifier, source.association)
    manager.messages.moving.move(from_queue, lookup_id, to_queue, transaction)
