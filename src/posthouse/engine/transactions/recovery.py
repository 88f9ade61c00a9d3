"""Prepared transactions after a restart: found again with their locks ([MS-MQDMPR] 3.1.4.9-11)."""

from __future__ import annotations

from posthouse.engine.ledger.ledger import Ledger, Lock
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.rows import class_of_doom
from posthouse.engine.transactions.transaction import (
    EnqueuedBatch,
    OperationType,
    StoredOperation,
    StoredTransaction,
    Transaction,
    TransactionalOperation,
    TransactionState,
)
from posthouse.model.guids import format_guid


def recovered(core: Ledger, identifier: bytes, stored: StoredTransaction) -> Transaction:
    """A prepared transaction as it was, its messages locked and room reserved for them."""
    transaction = Transaction(identifier, stored.number, None, core.now_ms)
    transaction.state = TransactionState.PREPARED
    transaction.coordinator = stored.coordinator
    transaction.account = stored.account
    transaction.prepared_at = stored.prepared_at
    transaction.spilled = True
    for kept in stored.operations:
        row = core.state.table.get(kept.number)
        if row is not None and _fits(core, kept, row):
            _find_again(core, transaction, kept, row)
    missing = len(stored.operations) - transaction.count
    if missing:
        core.event("transaction_incomplete", id=format_guid(identifier), operations=missing)
    return transaction


def _fits(core: Ledger, stored: StoredOperation, row: Row) -> bool:
    """Whether a message is still as the transaction left it.

    It is not where a crash took an express message out of a journal, and where the loss of
    damaged records was accepted: the message may be gone then, be back in its queue though
    it was committed, or have been moved or read again since.
    """
    if stored.kind is OperationType.ENQUEUE:
        return not row.lookup_id
    if stored.kind is OperationType.DEQUEUE and row.queue != stored.queue:
        return False
    return bool(row.lookup_id) and stored.number not in core.locks


def _find_again(core: Ledger, transaction: Transaction, stored: StoredOperation, row: Row) -> None:
    number = stored.number
    if stored.kind is OperationType.ENQUEUE:
        extra = core.state.extras.get(number, b"")
        numbers = range(number, number + 1)
        transaction.add_sends(
            EnqueuedBatch(stored.queue, numbers, row, None, row.size, extra=extra)
        )
    else:
        lock = Lock(transaction, purged=class_of_doom(row.doomed))
        core.lock(core.queues[row.queue], number, lock)
        operation = TransactionalOperation(stored.kind, stored.queue, number, stored.reason)
        transaction.add(operation)
    target = core.queues.get(stored.queue)
    if target is None or stored.kind is OperationType.DEQUEUE:
        return
    if stored.kind is OperationType.ENQUEUE:
        target.reserved += row.size
    else:
        target.expect(core.queues[row.queue], row.size)
