"""TransactionCollection: create, prepare, commit, abort, recover ([MS-MQDMPR] 3.1.4.3-10).

A small transaction lives in memory until it is committed; a large one is appended as it comes, its
messages pending. Either way one CHANGE record at the end makes all of it true at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from posthouse.engine.ledger.ledger import Ledger, Lock
from posthouse.engine.ledger.owner_index import Owned
from posthouse.engine.ledger.parts import (
    Accepting,
    Endings,
    FailedReads,
    PacketReads,
    Relocating,
    StagedRuns,
    Waiters,
)
from posthouse.engine.ledger.records import (
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_TRANSACTIONAL,
    KEPT,
    MOVED,
    TABLE_TRANSACTION,
    Change,
    Row,
)
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.engine.transactions.recovery import recovered
from posthouse.engine.transactions.transaction import (
    Also,
    EnqueuedBatch,
    OperationType,
    Step,
    Transaction,
    TransactionalOperation,
    TransactionState,
    Vote,
    pack_transaction,
    unpack_transaction,
)
from posthouse.model.bounded_tables import HeldPlaces
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
from posthouse.wire.packet.batch import Batch

TRANSACTION_NUMBER_MASK = 0xFFFFF  # [MS-MQMQ] 2.2.20.5: 20 bits


class Transactions:
    """TransactionCollection and its events."""

    on_end: Callable[[Transaction], None]  # for transactions that are shared between machines

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        reading: PacketReads,
        waiting: Waiters,
        outcomes: Endings,
        sending: Accepting,
        transfer: MachineTransfer,
        moving: Relocating,
        poison: FailedReads,
    ) -> None:
        self.core = core
        self._registry = registry
        self._reading = reading
        self._waiting = waiting
        self._outcomes = outcomes
        self._sending = sending
        self._transfer = transfer
        self._moving = moving
        self._poison = poison
        self.open: dict[bytes, Transaction] = {}
        self._held = HeldPlaces()  # by account
        self._by_use: OrderedDict[bytes, Transaction] = OrderedDict()  # active, idlest first
        self._owned: Owned[bytes, Transaction] = Owned()  # active, by owner
        self._numbers = 0

    def connect(self, stages: StagedRuns) -> None:
        """Parts that are made after this one, since they need it."""
        self._stages = stages

    # -- life

    def create(self, identifier: bytes, owner: object = None, account: bytes = b"") -> Transaction:
        """Create Transaction (3.1.7.1.8). An account has a share of them, prepared ones too."""
        if identifier == NULL_GUID:
            raise TransactionUsage("a transaction needs an identifier that is not null")
        if identifier in self.open:
            raise TransactionSequence(f"the transaction {format_guid(identifier)} exists already")
        most = self.core.settings.limits.transactions_max
        if len(self.open) >= most:
            raise InsufficientResources("too many transactions are open")
        if account and not self._held.has_room(account, most):
            raise InsufficientResources(
                f"this user has {self._held.of(account)} transactions open, prepared ones included",
                "Commit or abort some: other users need the places that are left.",
            )
        self._numbers = self._numbers % TRANSACTION_NUMBER_MASK + 1
        transaction = Transaction(identifier, self._numbers, owner, self.core.now_ms)
        self.open[identifier] = self._by_use[identifier] = transaction
        transaction.account = account
        self._held.take(account)
        self._owned.add(owner, identifier, transaction)
        self.core.deadlines.note(self._idle_at_ms(transaction))
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
        self.check_active(transaction)
        if transaction.count + count > self.core.settings.limits.operations_max:
            raise InsufficientResources("the transaction has too many operations")
        self.touch(transaction)

    def check_active(self, transaction: Transaction) -> None:
        """Refuses more operations in a transaction that has begun to end."""
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
        batch: Batch,
        sender: bytes,
        extra: bytes,
    ) -> int:
        """Sends, by a caller who has asked `use`: they are invisible before the commit.

        Returns the number of the first.
        """
        assert row.flags & FLAG_TRANSACTIONAL
        core, size = self.core, batch.size
        numbers = core.message_numbers.run(len(batch.packets))
        sends = EnqueuedBatch(queue.number, numbers, row, batch, size, sender, extra)
        transaction.add_sends(sends)
        queue.reserved += size
        self.core.reserved += size
        if transaction.spilled:
            self._append_pending(sends)
        elif transaction.size > core.settings.transactions.buffer:
            self._spill(transaction)
        return numbers.start

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
        target.expect(queue, self._reading.row(number).size)
        transaction.add(TransactionalOperation(OperationType.MOVE, target.number, number))

    def remove_dequeue(self, transaction: Transaction, queue: Queue, number: int) -> None:
        """A transactional read was refused by its reader: it is not part of the transaction now."""
        transaction.remove(self._dequeue_of(transaction, number).number)
        self._ended(transaction, number)
        self._reading.give_back(queue, number)

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
        self.check_active(transaction)
        self.touch(transaction)
        operation = transaction.by_message.get(number)
        assert operation is not None, f"message {number} is locked, and not in the transaction"
        assert isinstance(operation, TransactionalOperation)
        assert operation.kind is OperationType.DEQUEUE
        return operation

    def _spill(self, transaction: Transaction) -> None:
        transaction.spilled = True
        for sends in transaction.sends():
            self._append_pending(sends)

    def _append_pending(self, sends: EnqueuedBatch) -> None:
        if sends.batch is not None:
            self.core.arrive(
                sends.row, sends.batch, sends.sender, sends.extra, numbers=sends.numbers
            )
            sends.batch = None

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
        if single_phase:
            return
        self._mark_first_and_last(transaction)
        core, change = self.core, Change()
        if not transaction.spilled:
            self._spill(transaction)
        for sends in transaction.sends():
            for number, row in self._pending(sends):
                core.settle(number, row, KEPT, change, sends.extra)
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
        last: dict[int, EnqueuedBatch] = {}
        for sends in transaction.sends():
            sends.first, sends.last = 0 if sends.queue in last else FLAG_FIRST, 0
            last[sends.queue] = sends
        for sends in last.values():
            sends.last = FLAG_LAST

    def _pending(self, sends: EnqueuedBatch) -> list[tuple[int, Row]]:
        """Numbers and rows of sends that are in the log, marked as first and last."""
        numbers = list(sends.numbers)
        rows = self.core.state.table.rows(numbers)
        rows[0] = rows[0]._replace(flags=rows[0].flags | sends.first)
        rows[-1] = rows[-1]._replace(flags=rows[-1].flags | sends.last)
        return list(zip(numbers, rows, strict=True))

    # -- commit

    def commit(self, identifier: bytes, also: Also | None = None) -> None:
        """Transaction Commit (3.1.4.4): all of it, in the order it was asked for, in one record."""
        transaction = self.find(identifier)
        self._cancel_waiting(transaction)
        prepared = transaction.state is TransactionState.PREPARED
        change, subqueues = Change(), self._subqueues(transaction)
        if not prepared:
            self._mark_first_and_last(transaction)
        for step in transaction.steps:
            self._commit(step, change)
        if prepared:
            self.core.define(TABLE_TRANSACTION, identifier, None, change)
        if also is not None:
            also(change)
        self._finish(transaction)
        self.core.commit(change)
        for queue in subqueues:
            self._registry.drop_empty_subqueue(queue)

    def _commit(self, step: Step, change: Change) -> None:
        if isinstance(step, EnqueuedBatch):
            self._commit_sends(step, change)
        elif step.kind is OperationType.DEQUEUE:
            self._commit_dequeue(step, change)
        else:
            self._commit_move(step, change)

    def _commit_sends(self, sends: EnqueuedBatch, change: Change) -> None:
        core = self.core
        queue = core.queues.get(sends.queue)
        self.release(queue, sends.size)
        if queue is None or queue.deleted:
            self._append_pending(sends)
            for number, row in self._pending(sends):
                self._outcomes.undeliverable(number, row, NACK_QUEUE_DELETED, change)
        elif sends.batch is None:
            self._commit_pending(queue, sends, change)
        else:  # what expires at once has consequences before the next one comes
            expired = sends.row.expires <= core.utc
            for one in sends.each() if expired else (sends,):
                self._commit_batch(queue, one, change)

    def _commit_pending(self, queue: Queue, sends: EnqueuedBatch, change: Change) -> None:
        """Sends that are in the log become available."""
        core, utc = self.core, self.core.utc
        for number, row in self._pending(sends):
            row = row._replace(lookup_id=core.lookup_ids.next(), arrived=utc)
            if queue.outgoing is not None:
                begin = self._transfer.sequences.number(queue, row.lookup_id, 1, change)
                row = row._replace(last_move=begin.number)
            core.settle(number, row, KEPT, change, sends.extra)
            self._sending.arrived(queue, range(number, number + 1), row, b"", change)

    def _commit_batch(self, queue: Queue, sends: EnqueuedBatch, change: Change) -> None:
        """Sends that are in memory come in; in the log they are pending until the change."""
        core, batch, numbers, place = self.core, sends.batch, sends.numbers, 0
        assert batch is not None
        count, first, last = len(numbers), sends.first, sends.last
        lookup_id = core.lookup_ids.run(count).start
        if queue.outgoing is not None:
            begin = self._transfer.sequences.number(queue, lookup_id, count, change)
            place, batch = begin.number, batch.placed(*begin, first, last)
        row, marks = sends.row, first | last if count == 1 else 0
        row = row._replace(
            lookup_id=lookup_id, arrived=core.utc, last_move=place, flags=row.flags | marks
        )
        core.arrive(
            *(row, batch, sends.sender, sends.extra, change),
            numbers=numbers,
            place=place,
            first=first,
            last=last,
        )
        self._sending.arrived(queue, numbers, row, batch.packets[0], change)

    def _commit_dequeue(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        queue, row = core.queues[operation.queue], core.state.table.get(operation.number)
        assert row is not None
        holder = core.unlock(queue, operation.number).holder
        core.departures.reader = "" if holder is None else holder.caller.name
        self._outcomes.delete(queue, operation.number, row, operation.reason, change)
        core.departures.reader = ""

    def _commit_move(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        row = core.state.table.get(operation.number)
        assert row is not None
        source, target = core.queues[row.queue], core.queues.get(operation.queue)
        lock = core.unlock(source, operation.number)
        if target is not None:
            target.expect_no_more(source, row.size)
        expired = lock.expired or row.expires <= core.utc  # it is over where it was
        if target is None or target.deleted or expired:
            self._reading.returned(source, operation.number, row, lock, change)
        else:
            self._moving.relocate(source, operation.number, row, target, MOVED, change)

    # -- abort

    def abort(self, identifier: bytes, also: Also | None = None) -> None:
        """Transaction Abort (3.1.4.5): sends vanish, what was received or moved is back."""
        transaction = self.find(identifier)
        self._cancel_waiting(transaction)
        change, subqueues = Change(), self._subqueues(transaction)
        reads: list[TransactionalOperation] = []
        for step in transaction.steps:
            if isinstance(step, EnqueuedBatch):
                self._abort_sends(step, change)
            else:
                reads.append(step)
        # In queue order, since waiting readers are served in that order.
        for operation in sorted(reads, key=lambda o: self._reading.queue_order(o.number)):
            self._abort_read(operation, change)
        if transaction.state is TransactionState.PREPARED:
            self.core.define(TABLE_TRANSACTION, identifier, None, change)
        if also is not None:
            also(change)
        self._finish(transaction)
        self.core.commit(change)
        for queue in subqueues:
            self._registry.drop_empty_subqueue(queue)

    def _abort_sends(self, sends: EnqueuedBatch, change: Change) -> None:
        self.release(self.core.queues.get(sends.queue), sends.size)
        if sends.batch is None:
            for number, row in self._pending(sends):
                self.core.end(number, row, KEPT, change)

    def _abort_read(self, operation: TransactionalOperation, change: Change) -> None:
        core = self.core
        row = core.state.table.get(operation.number)
        assert row is not None
        queue = core.queues[row.queue]
        lock = core.unlock(queue, operation.number)
        if not lock.purged:
            row = row._replace(aborts=min(row.aborts + 1, ABORTS_MAX))
            received = operation.kind is OperationType.DEQUEUE
            if received and self._poison.aborted(queue, operation.number, row, lock, change):
                return
            core.settle(operation.number, row, KEPT, change)
        self._reading.returned(queue, operation.number, row, lock, change)
        target = core.queues.get(operation.queue)
        if operation.kind is OperationType.MOVE and target is not None:
            target.expect_no_more(queue, row.size)

    # -- shared

    def release(self, queue: Queue | None, size: int) -> None:
        """Releases the space that uncommitted sends of this size had reserved."""
        self.core.reserved -= size
        if queue is not None:
            queue.reserved -= size

    def _subqueues(self, transaction: Transaction) -> list[Queue]:
        """The subqueues it read from or moves to: closed meanwhile, they may end empty."""
        numbers = set[int]()
        for step in transaction.steps:
            if isinstance(step, EnqueuedBatch):
                continue
            numbers.add(step.queue)
            if step.kind is OperationType.MOVE:
                numbers.add(self._reading.row(step.number).queue)
        queues = [self.core.queues[number] for number in numbers if number in self.core.queues]
        return [queue for queue in queues if queue.definition.role is QueueRole.SUBQUEUE]

    def _finish(self, transaction: Transaction) -> None:
        transaction.state = TransactionState.ENDED
        del self.open[transaction.identifier]
        self._held.give(transaction.account)
        self._forget_active(transaction)
        self.on_end(transaction)

    def _forget_active(self, transaction: Transaction) -> None:
        """From now on neither idle time nor the end of its session ends it."""
        self._by_use.pop(transaction.identifier, None)
        self._owned.discard(transaction.owner, transaction.identifier)

    def close(self, transaction: Transaction) -> None:
        """Participants elsewhere are asked for their votes: nothing more is added to it."""
        self.check_active(transaction)
        self._cancel_waiting(transaction)
        transaction.state = TransactionState.DECIDING

    def _cancel_waiting(self, transaction: Transaction) -> None:
        error: QueueError = OperationCancelled("the transaction of this read has ended")
        for order in list(transaction.waiting):
            self._waiting.cancel(order, error)
        transaction.waiting.clear()

    def ordinals(self) -> Iterator[int]:
        """The ordinals of messages that are sent, but neither committed nor in the log."""
        for transaction in self.open.values():
            for sends in transaction.sends():
                if sends.batch is not None:
                    yield from sends.batch.ordinals

    def prepared(self) -> list[Transaction]:
        """The transactions that wait for their coordinator."""
        return [t for t in self.open.values() if t.state is TransactionState.PREPARED]

    # -- the clock and the end of sessions

    def abort_idle(self) -> None:
        """Decision 43: an idle transaction of a client ends after a while."""
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
            return self._idle_at_ms(transaction)
        return None

    def _idle_at_ms(self, transaction: Transaction) -> int:
        return transaction.last_used_ms + self.core.settings.transactions.idle_s * 1000

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
            self._held.take(transaction.account)
            self.core.reserved += transaction.size
            self._numbers = max(self._numbers, transaction.number)
            core.event("transaction_in_doubt", id=format_guid(identifier))
        for number, count in self._stages.runs():
            lost.discard_run(number, count)
        change = Change()
        for number, count in lost.runs():
            core.drop(number, count, change)
        core.effects.commit(change)
