"""TransactionCollection: create, prepare, commit, abort, recover ([MS-MQDMPR] 3.1.4.3-10).

A small transaction lives in memory until it is committed; a large one is appended as it comes, its
messages pending. Either way one CHANGE record at the end makes all of it true at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from posthouse.engine.ledger.core import Core
from posthouse.engine.ledger.ledger import Lock
from posthouse.engine.ledger.owner_index import Owned
from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    KEPT,
    MESSAGE,
    MOVED,
    TABLE_TRANSACTION,
    Change,
    Row,
    Settle,
    Span,
    pack_arrival,
)
from posthouse.engine.messages.enqueue_runs import commit_runs
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.engine.transactions.recovery import recovered
from posthouse.engine.transactions.transaction import (
    EnqueueRun,
    OperationType,
    Transaction,
    TransactionalOperation,
    TransactionState,
    Vote,
    pack_transaction,
    unpack_transaction,
)
from posthouse.model.errors import (
    InsufficientResources,
    OperationCancelled,
    QueueError,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.guids import NULL_GUID, format_guid
from posthouse.model.message import ACK_RECEIVE, NACK_QUEUE_DELETED
from posthouse.model.properties import ABORTS_MAX

TRANSACTION_NUMBER_MASK = 0xFFFFF  # [MS-MQMQ] 2.2.20.5: 20 bits
Also = Callable[[Change], None]  # adds to the record that ends a transaction


class Transactions:
    """TransactionCollection and its events."""

    on_end: Callable[[Transaction], None]  # tells those who share transactions between machines

    def __init__(self, core: Core) -> None:
        self.core = core
        self.open: dict[bytes, Transaction] = {}
        self.reserved = 0  # bytes of uncommitted sends
        self._by_use: OrderedDict[bytes, Transaction] = OrderedDict()  # active, idlest first
        self._owned: Owned[bytes, Transaction] = Owned()  # active, by owner
        self._numbers = 0

    # -- life

    def create(self, identifier: bytes, owner: object = None) -> Transaction:
        """Create Transaction (3.1.7.1.8)."""
        if identifier == NULL_GUID:
            raise TransactionUsage("a transaction needs an identifier that is not null")
        if identifier in self.open:
            raise TransactionSequence(f"the transaction {format_guid(identifier)} exists already")
        if len(self.open) >= self.core.settings.limits.transactions_max:
            raise InsufficientResources("too many transactions are open")
        self._numbers = self._numbers % TRANSACTION_NUMBER_MASK + 1
        transaction = Transaction(identifier, self._numbers, owner, self.core.now_ms)
        self.open[identifier] = self._by_use[identifier] = transaction
        self._owned.add(owner, identifier, transaction)
        return transaction

    def find(self, identifier: bytes) -> Transaction:
        """The transaction of that identifier, or MQ_ERROR_TRANSACTION_SEQUENCE."""
        transaction = self.open.get(identifier)
        if transaction is None:
            raise TransactionSequence(
                f"the transaction {format_guid(identifier)} is unknown or has ended"
            )
        return transaction

    def use(self, transaction: Transaction, count: int = 1) -> None:
        """Checks that operations may still be added, and notes that somebody works on it."""
        self._check_active(transaction)
        if transaction.count + count > self.core.settings.limits.operations_max:
            raise InsufficientResources("the transaction has too many operations")
        self.touch(transaction)

    def _check_active(self, transaction: Transaction) -> None:
        if transaction.state is not TransactionState.ACTIVE:
            what = transaction.state.value
        elif self.open.get(transaction.identifier) is not transaction:
            what = "not one of this queue manager"
        else:
            return
        raise TransactionSequence(
            f"the transaction {format_guid(transaction.identifier)} is {what} "
            "and takes no more operations"
        )

    def touch(self, transaction: Transaction) -> None:
        """Somebody works on it: its idle time begins again."""
        transaction.last_used_ms = self.core.now_ms
        if transaction.state is TransactionState.ACTIVE:
            self._by_use.move_to_end(transaction.identifier)

    # -- operations

    def add_enqueue(
        self,
        transaction: Transaction,
        queue: Queue,
        row: Row,
        packet: bytes,
        span: Span,
        sender: bytes,
        extra: bytes,
    ) -> int:
        """A send, by a caller who has asked `use`: nobody sees it before the commit."""
        core = self.core
        number = core.message_numbers.next()
        operation = TransactionalOperation(OperationType.ENQUEUE, queue.number, number)
        if not row.flags & FLAG_TRANSACTIONAL or row.priority:
            row = row._replace(flags=row.flags | FLAG_TRANSACTIONAL, priority=0)
        operation.row = row
        operation.packet, operation.span = packet, span
        operation.sender, operation.extra = sender, extra
        transaction.add(operation)
        transaction.marked = False
        transaction.size += row.size
        queue.reserved += row.size
        self.reserved += row.size
        if transaction.spilled:
            self._append_pending(operation)
        elif transaction.size > core.settings.transactions.buffer:
            self._spill(transaction)
        return number

    def add_enqueue_run(self, transaction: Transaction, queue: Queue, run: EnqueueRun) -> None:
        """The same for plain sends of one call."""
        size = sum([seen[0] for seen in run.looks])
        transaction.marked = False
        transaction.size += size
        queue.reserved += size
        self.reserved += size
        if transaction.spilled:
            for operation in run.operations():
                transaction.add(operation)
                self._append_pending(operation)
            return
        transaction.add_run(run)
        if transaction.size > self.core.settings.transactions.buffer:
            self._spill(transaction)

    def add_dequeue(
        self,
        transaction: Transaction,
        queue: Queue,
        number: int,
        *,
        reason: int = ACK_RECEIVE,
        holder: OpenQueueDescriptor | None = None,
        allow_peek: bool = False,
    ) -> None:
        """A receive: the message is locked until the end."""
        self.use(transaction)
        self.core.lock(queue, number, Lock(transaction, holder, allow_peek=allow_peek))
        transaction.add(TransactionalOperation(OperationType.DEQUEUE, queue.number, number, reason))
        if transaction.unended is not None:
            transaction.unended.add(number)

    def add_move(self, transaction: Transaction, queue: Queue, number: int, target: Queue) -> None:
        """A move: locked in the source, seen in the target after the commit, its room reserved."""
        self.use(transaction)
        self.core.lock(queue, number, Lock(transaction))
        target.reserved += self.core.reading.row(number).size
        transaction.add(TransactionalOperation(OperationType.MOVE, target.number, number))

    def remove_dequeue(self, transaction: Transaction, queue: Queue, number: int) -> None:
        """A transactional read was refused by its reader: it is not part of the transaction now."""
        del transaction.by_message[self._dequeue_of(transaction, number).number]
        self._ended(transaction, number)
        self.core.reading.give_back(queue, number)

    def reason_of(self, transaction: Transaction, number: int, reason: int) -> None:
        """Sets the class with which a dequeued message will end."""
        self._dequeue_of(transaction, number).reason = reason

    def end_dequeue(self, transaction: Transaction, number: int) -> None:
        """A transactional read has reached its reader; the message ends with the transaction."""
        if transaction.unended is not None:
            self._dequeue_of(transaction, number)
            self._ended(transaction, number)

    def _ended(self, transaction: Transaction, number: int) -> None:
        if transaction.unended is not None:
            transaction.unended.discard(number)

    def _dequeue_of(self, transaction: Transaction, number: int) -> TransactionalOperation:
        """A read that may still be changed."""
        self._check_active(transaction)
        self.touch(transaction)
        operation = transaction.by_message.get(number)
        assert operation is not None, f"message {number} is locked, and not in the transaction"
        assert operation.kind is OperationType.DEQUEUE
        return operation

    def _spill(self, transaction: Transaction) -> None:
        transaction.spilled = True
        for operation in transaction.operations:
            if operation.kind is OperationType.ENQUEUE:
                self._append_pending(operation)

    def _append_pending(self, operation: TransactionalOperation) -> None:
        assert operation.row is not None
        self.core.state.arrive(operation.number, operation.row, operation.extra)
        self._log_pending(operation)

    def _log_pending(self, operation: TransactionalOperation) -> None:
        number, row, packet = operation.number, operation.row, operation.packet
        assert row is not None
        assert packet is not None
        head = pack_arrival(number, row, operation.span, operation.sender, operation.extra)
        self.core.effects.records.append((MESSAGE, number, head, packet))
        operation.packet = None

    # -- prepare

    def prepare(
        self, identifier: bytes, *, single_phase: bool = True, coordinator: bytes = b""
    ) -> None:
        """Transaction Prepare (3.1.4.3). Two-phase: from here on only the coordinator decides."""
        transaction = self.find(identifier)
        if transaction.state is not TransactionState.ACTIVE:
            raise TransactionSequence(f"the transaction is {transaction.state.value} already")
        if transaction.unended:
            # They may have been lost on their way to a reader who now commits without them.
            raise TransactionSequence("messages received in the transaction were not acknowledged")
        self._cancel_waiting(transaction)
        if single_phase and transaction.runs:
            return  # their commit marks them
        self._mark_first_and_last(transaction)
        if single_phase:
            return
        core, change = self.core, Change()
        if not transaction.spilled:
            self._spill(transaction)
        for operation in transaction.operations:
            if operation.kind is OperationType.ENQUEUE:
                assert operation.row is not None
                core.settle(operation.number, operation.row, KEPT, change, operation.extra)
        transaction.state = TransactionState.PREPARED
        self._forget_active(transaction)
        transaction.coordinator = coordinator
        transaction.prepared_at = core.utc
        core.define(TABLE_TRANSACTION, identifier, pack_transaction(transaction), change)
        core.commit(change)

    def prepare_for(self, coordinator: bytes, identifier: bytes) -> Vote:
        """DTC Transaction Prepare (3.1.4.6), for the coordinator of decision 51.

        A transaction that is no longer here was aborted. Asked again, because the answer was
        lost, it stays prepared; somebody else's it stays too.
        """
        transaction = self.open.get(identifier)
        if transaction is None:
            return Vote.ABORTED
        if transaction.coordinator and transaction.coordinator != coordinator:
            raise TransactionSequence("the transaction belongs to another coordinator")
        if transaction.state is not TransactionState.PREPARED:
            self.prepare(identifier, single_phase=False, coordinator=coordinator)
        return Vote.PREPARED

    def _mark_first_and_last(self, transaction: Transaction) -> None:
        """Decision 43: enqueues only, per destination queue."""
        if transaction.marked:
            return
        transaction.marked = True
        last: dict[int, TransactionalOperation] = {}
        for operation in transaction.operations:
            if operation.kind is not OperationType.ENQUEUE:
                continue
            assert operation.row is not None
            flags = operation.row.flags & ~(FLAG_FIRST | FLAG_LAST)
            if operation.queue not in last:
                flags |= FLAG_FIRST
            if flags != operation.row.flags:
                operation.row = operation.row._replace(flags=flags)
            last[operation.queue] = operation
        for operation in last.values():
            assert operation.row is not None
            operation.row = operation.row._replace(flags=operation.row.flags | FLAG_LAST)

    # -- commit

    def commit(self, identifier: bytes, also: Also | None = None) -> None:
        """Transaction Commit (3.1.4.4): all of it, in the order it was asked for, in one record."""
        transaction = self.find(identifier)
        self._cancel_waiting(transaction)
        prepared = transaction.state is TransactionState.PREPARED
        change, subqueues = Change(), list[Queue]()
        if not commit_runs(self.core, transaction.runs, change):
            if not prepared:
                self._mark_first_and_last(transaction)
            subqueues = self._subqueues(transaction)
            self._commit_all(transaction.operations, change)
        if prepared:
            self.core.define(TABLE_TRANSACTION, identifier, None, change)
        if also is not None:
            also(change)
        self._finish(transaction)
        self.core.commit(change)
        for queue in subqueues:
            self.core.registry.drop_empty_subqueue(queue)

    def _commit_all(self, operations: list[TransactionalOperation], change: Change) -> None:
        done = 0
        while done < len(operations):
            operation = operations[done]
            if operation.kind is OperationType.ENQUEUE:
                done += self._commit_enqueues(operations, done, change)
                continue
            if operation.kind is OperationType.DEQUEUE:
                self._commit_dequeue(operation, change)
            else:
                self._commit_move(operation, change)
            done += 1

    def _commit_enqueues(
        self, operations: list[TransactionalOperation], first: int, change: Change
    ) -> int:
        """The next send, and with it those behind it that are alike; how many that were."""
        core, operation = self.core, operations[first]
        queue, end = core.queues.get(operation.queue), first + 1
        if queue is not None and queue.is_plain_target and operation.is_plain():
            while end < len(operations) and operations[end].follows(operation, end - first):
                end += 1
        row, run = operation.row, operations[first:end]
        assert row is not None
        if queue is None or end - first == 1 or row.expires <= core.utc:
            self._commit_enqueue(operation, change)
            return 1
        self.release(queue, sum(one.size for one in run))
        ids, place = core.lookup_ids.run(len(run)), 0
        row = row._replace(lookup_id=ids.start, arrived=core.utc)
        if queue.outgoing is not None:
            place = core.transfer.sequences.number_sends(queue, row, run, change)
        core.commit_run(operation.number, row, run, change, place)
        for one in run:
            one.packet = None
            core.announce(queue, one.number)
        return len(run)

    def _commit_enqueue(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        row = operation.row
        assert row is not None
        queue = core.queues.get(operation.queue)
        self.release(queue, row.size)
        if queue is None or queue.deleted:
            if operation.packet is not None:
                self._append_pending(operation)
            core.outcomes.undeliverable(operation.number, row, NACK_QUEUE_DELETED, change)
            return
        number, extra, packet = operation.number, operation.extra, operation.packet
        row = tuple.__new__(Row, (core.lookup_ids.next(), *row[1:3], core.utc, *row[4:]))
        if queue.outgoing is not None:
            row, packet = core.transfer.sequences.number(queue, row, packet, change)
            operation.packet = packet
        if packet is None:
            core.settle(number, row, KEPT, change, extra)
        else:  # in the log it is pending until the change; nobody here sees it so
            self._log_pending(operation)
            core.state.arrive(number, row, extra)
            change.settles.append(Settle(number, KEPT, row, extra))
        core.sending.arrived(queue, number, row, packet or b"", change)

    def _commit_dequeue(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        queue, row = core.queues[operation.queue], core.state.table.get(operation.number)
        assert row is not None
        core.unlock(queue, operation.number)
        core.outcomes.delete(queue, operation.number, row, operation.reason, change)

    def _commit_move(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        row = core.state.table.get(operation.number)
        assert row is not None
        source, target = core.queues[row.queue], core.queues.get(operation.queue)
        lock = core.unlock(source, operation.number)
        if target is not None:
            target.reserved -= row.size
        expired = lock.expired or row.expires <= core.utc  # it is over where it was
        if target is None or target.deleted or expired:
            core.reading.returned(source, operation.number, row, lock, change)
        else:
            core.moving.relocate(source, operation.number, row, target, MOVED, change)

    # -- abort

    def abort(self, identifier: bytes, also: Also | None = None) -> None:
        """Transaction Abort (3.1.4.5): sends vanish, what was received or moved is back."""
        transaction = self.find(identifier)
        self._cancel_waiting(transaction)
        change, subqueues = Change(), self._subqueues(transaction)
        reads: list[TransactionalOperation] = []
        for operation in transaction.operations:
            if operation.kind is OperationType.ENQUEUE:
                self._abort_enqueue(operation, change)
            else:
                reads.append(operation)
        # In queue order, as whoever waits for them is served in it.
        for operation in sorted(reads, key=lambda o: self.core.reading.queue_order(o.number)):
            self._abort_read(operation, change)
        if transaction.state is TransactionState.PREPARED:
            self.core.define(TABLE_TRANSACTION, identifier, None, change)
        if also is not None:
            also(change)
        self._finish(transaction)
        self.core.commit(change)
        for queue in subqueues:
            self.core.registry.drop_empty_subqueue(queue)

    def _abort_enqueue(self, operation: TransactionalOperation, change: Change) -> None:
        assert operation.row is not None
        self.release(self.core.queues.get(operation.queue), operation.row.size)
        if operation.packet is None:
            self.core.end(operation.number, operation.row, KEPT, change)

    def _abort_read(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        row = core.state.table.get(operation.number)
        assert row is not None
        queue = core.queues[row.queue]
        lock = core.unlock(queue, operation.number)
        if not lock.purged:
            row = row._replace(aborts=min(row.aborts + 1, ABORTS_MAX))
            received = operation.kind is OperationType.DEQUEUE
            if received and core.poison.aborted(queue, operation.number, row, lock, change):
                return
            core.settle(operation.number, row, KEPT, change)
        core.reading.returned(queue, operation.number, row, lock, change)
        target = core.queues.get(operation.queue)
        if operation.kind is OperationType.MOVE and target is not None:
            target.reserved -= row.size

    # -- shared

    def release(self, queue: Queue | None, size: int) -> None:
        """Uncommitted sends of this many bytes are no more."""
        self.reserved -= size
        if queue is not None:
            queue.reserved -= size

    def _subqueues(self, transaction: Transaction) -> list[Queue]:
        """The subqueues it read from or moves to: closed meanwhile, they may end empty."""
        numbers = set[int]()
        for operation in transaction.operations:
            if operation.kind is not OperationType.ENQUEUE:
                numbers.add(operation.queue)
            if operation.kind is OperationType.MOVE:
                numbers.add(self.core.reading.row(operation.number).queue)
        queues = [self.core.queues[number] for number in numbers if number in self.core.queues]
        return [queue for queue in queues if queue.definition.role is QueueRole.SUBQUEUE]

    def _finish(self, transaction: Transaction) -> None:
        transaction.state = TransactionState.ENDED
        del self.open[transaction.identifier]
        self._forget_active(transaction)
        self.on_end(transaction)

    def _forget_active(self, transaction: Transaction) -> None:
        """Neither its idle time nor the end of its session ends it any more."""
        self._by_use.pop(transaction.identifier, None)
        self._owned.discard(transaction.owner, transaction.identifier)

    def close(self, transaction: Transaction) -> None:
        """Participants elsewhere are asked for their votes: nothing is added to it any more."""
        self._check_active(transaction)
        self._cancel_waiting(transaction)
        transaction.state = TransactionState.DECIDING

    def _cancel_waiting(self, transaction: Transaction) -> None:
        error: QueueError = OperationCancelled("the transaction of this read has ended")
        for order in list(transaction.waiting):
            self.core.waiting.cancel(order, error)
        transaction.waiting.clear()

    def ordinals(self) -> Iterator[int]:
        """The ordinals of messages that are sent but not committed."""
        for transaction in self.open.values():
            for operation in transaction.operations:
                if operation.row is not None:
                    yield operation.row.ordinal

    def prepared(self) -> list[Transaction]:
        """The transactions that wait for their coordinator."""
        return [t for t in self.open.values() if t.state is TransactionState.PREPARED]

    # -- the clock and the end of sessions

    def abort_idle(self) -> None:
        """Decision 43: a client's transaction that nobody works on ends after a while."""
        limit = self.core.now_ms - self.core.settings.transactions.idle_s * 1000
        for _ in range(len(self._by_use)):
            transaction = next(iter(self._by_use.values()))
            if transaction.last_used_ms > limit:
                return
            if transaction.waiting:  # a read waits in it: somebody does
                self.touch(transaction)
            else:
                self.core.event("transaction_idle", id=format_guid(transaction.identifier))
                self.abort(transaction.identifier)

    def abort_of(self, owner: object) -> None:
        """Decision 43: a session that ends takes its open transactions along."""
        for transaction in self._owned.of(owner):
            self.abort(transaction.identifier)

    def next_deadline_ms(self) -> int | None:
        """When the next idle transaction is due."""
        for transaction in self._by_use.values():
            return transaction.last_used_ms + self.core.settings.transactions.idle_s * 1000
        return None

    # -- after a restart

    def recover(self) -> None:
        """Prepared transactions are found again, with their locks; everything else is undone."""
        core = self.core
        lost = core.state.pending.copy()
        for identifier, value in core.state.of_table(TABLE_TRANSACTION):
            transaction = recovered(core, identifier, unpack_transaction(value))
            for operation in transaction.operations:
                lost.discard(operation.number)
            self.open[identifier] = transaction
            self.reserved += transaction.size
            self._numbers = max(self._numbers, transaction.number)
            core.event("transaction_in_doubt", id=format_guid(identifier))
        for number, count in core.stages.runs():
            lost.discard_run(number, count)
        change = Change()
        for number, count in lost.runs():
            core.drop(number, count, change)
        core.effects.commit(change)
