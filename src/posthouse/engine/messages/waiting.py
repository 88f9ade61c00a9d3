"""Reads that wait for a message ([MS-MQDMPR] 3.1.2.3, 3.1.6.3, 3.1.7.1.17, 3.1.7.2.2, 3.1.7.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush

from posthouse.engine.ledger.effects import Read, Wake
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.order import QueuePosition
from posthouse.engine.ledger.parts import (
    ClaimedMessages,
    FailedReads,
    OpenedQueues,
    OpenTransactions,
    PacketReads,
)
from posthouse.engine.ledger.records import Row
from posthouse.engine.messages.cursor import CursorEvent
from posthouse.engine.queues.empty_reads import no_message
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, WaitingMessageReadOperation
from posthouse.engine.queues.queue import Cursor, Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    InsufficientResources,
    OperationCancelled,
    QueueError,
    StatusNotFound,
)

STALE_MAX = 1024  # deadlines of ended reads that may lie about


class WaitingReads:
    """WaitingMessageReadOperationCollection of all queues, in arrival order in each."""

    def __init__(self, core: Ledger, reading: PacketReads) -> None:
        self.core = core
        self._reading = reading
        self._orders = 0
        self._waiting: dict[int, WaitingMessageReadOperation] = {}
        self._of_user: Counter[bytes] = Counter()
        self._deadlines: list[tuple[int, int]] = []
        self._tagged: dict[tuple[int, Hashable], dict[int, None]] = {}  # by queue and tag

    def connect(
        self,
        groups: ClaimedMessages,
        opening: OpenedQueues,
        poison: FailedReads,
        transactions: OpenTransactions,
    ) -> None:
        """Parts that are made after this one, since they need it."""
        self._groups = groups
        self._opening = opening
        self._poison = poison
        self._transactions = transactions

    def wait(
        self,
        queue: Queue,
        descriptor: OpenQueueDescriptor,
        timeout_ms: int | None,
        *,
        destructive: bool,
        cursor: Cursor | None,
        transaction: Transaction | None,
        tag: Hashable,
        two_phase: bool,
        token: object,
        count: int = 1,
    ) -> None:
        """Wait For New Message (3.1.7.3.1), with its timer (3.1.7.3.4)."""
        if timeout_ms is not None and timeout_ms <= 0:
            cause = f"no message in {queue.name}"
            raise no_message(self._groups, self._poison, queue, cause, destructive=destructive)
        if len(self._waiting) >= self.core.settings.limits.waiting_reads_max:
            raise InsufficientResources("too many reads are waiting")
        user = descriptor.caller.sid
        if self._of_user[user] >= self.core.settings.limits.waiting_reads_per_user:
            raise InsufficientResources(
                f"{self._of_user[user]} reads of this user are waiting",
                "Wait with fewer reads, or raise [limits] waiting_reads_per_user.",
            )
        self._of_user[user] += 1
        self._orders += 1
        deadline = None if timeout_ms is None else self.core.now_ms + timeout_ms
        operation = WaitingMessageReadOperation(
            self._orders,
            queue,
            descriptor,
            destructive=destructive,
            token=token,
            tag=tag,
            deadline_ms=deadline,
            cursor=cursor,
            transaction=transaction,
            two_phase=two_phase,
            count=count,
        )
        self._waiting[self._orders] = operation
        queue.waiters[self._orders] = operation
        descriptor.waiting[self._orders] = operation
        if tag is not None:
            self._tagged.setdefault((queue.number, tag), {})[self._orders] = None
        if transaction is not None:
            transaction.waiting.add(self._orders)
        if deadline is not None:
            heappush(self._deadlines, (deadline, self._orders))
            self.core.deadlines.note(deadline)
            if len(self._deadlines) > 2 * len(self._waiting) + STALE_MAX:
                self._drop_stale()

    def _drop_stale(self) -> None:
        """Reads that were served long before their time leave nothing."""
        self._deadlines = [entry for entry in self._deadlines if entry[1] in self._waiting]
        heapify(self._deadlines)
        self._of_user = +self._of_user  # without those that have none

    def _forget(self, operation: WaitingMessageReadOperation) -> None:
        del self._waiting[operation.order]
        self._of_user[operation.descriptor.caller.sid] -= 1
        del operation.queue.waiters[operation.order]
        del operation.descriptor.waiting[operation.order]
        if operation.tag is not None:
            self._untag(operation)
        if operation.transaction is not None:
            operation.transaction.waiting.discard(operation.order)
            self._transactions.touch(operation.transaction)

    def _untag(self, operation: WaitingMessageReadOperation) -> None:
        key = operation.queue.number, operation.tag
        orders = self._tagged[key]
        del orders[operation.order]
        if not orders:
            del self._tagged[key]

    def serve(self, queue: Queue, number: int) -> None:
        """Message Position Available (3.1.7.2.2): readers in arrival order until one takes it.

        A peeking reader lets the next one proceed at once (Release Next Reader, 3.1.7.3.7). A
        cursor is served only with messages after its place, so that it never jumps back.
        """
        row = self.core.state.table.get(number)
        if row is None or not self._reading.at_hand(queue, number):
            return  # taken, moved or expired since it was announced, or damaged
        place = QueuePosition(row.priority, row.lookup_id)
        for operation, refusal in self._in_turn(queue, number, place):
            if refusal is not None:
                self.cancel(operation.order, refusal)
            else:
                self._satisfy(operation, number, row, place)

    def _in_turn(
        self, queue: Queue, number: int, place: QueuePosition
    ) -> list[tuple[WaitingMessageReadOperation, QueueError | None]]:
        """Whom a message concerns, up to the reader that takes it: served, or refused by now."""
        concerned: list[tuple[WaitingMessageReadOperation, QueueError | None]] = []
        for operation in queue.waiters.values():
            cursor = operation.cursor
            if cursor is not None and not _behind(place, cursor.place):
                continue
            if not self._reading.visible(number, not operation.destructive):
                continue
            refusal = self._refusal(operation)
            concerned.append((operation, refusal))
            if operation.destructive and refusal is None:
                break
        return concerned

    def _refusal(self, operation: WaitingMessageReadOperation) -> QueueError | None:
        """Why a read that waited may not be served: rights and limits change."""
        try:
            self._opening.check(operation.descriptor, operation.access)
            if operation.transaction is not None:
                self._transactions.use(operation.transaction)
        except QueueError as error:
            return error
        return None

    def _satisfy(
        self, operation: WaitingMessageReadOperation, number: int, row: Row, place: QueuePosition
    ) -> None:
        """Waiting Message Read Satisfied (3.1.7.3.6)."""
        self._forget(operation)
        if operation.cursor is not None:
            operation.cursor.advance(CursorEvent.MESSAGE_AVAILABLE, place)
        if operation.destructive:
            (read,) = self._reading.take(
                operation.queue,
                [number],
                [row],
                operation.transaction,
                operation.descriptor,
                two_phase=operation.two_phase,
            )
        else:
            read = self._reading.read_of(number, row)
        found = read if operation.count == 1 else [read, *self._more(operation)]
        self.core.effects.wakes.append(Wake(operation.token, found, None))

    def _more(self, operation: WaitingMessageReadOperation) -> Sequence[Read]:
        """What came together with the message that a reader of several waited for."""
        try:
            return self._reading.dequeue_many(
                operation.descriptor,
                operation.count - 1,
                operation.transaction,
                two_phase=operation.two_phase,
            )
        except QueueError:  # they are damaged, or too many for its transaction: it has the one
            return []

    def cancel(self, order: int, error: QueueError) -> None:
        """Waiting Message Read Timer Stop (3.1.7.3.5): the read ends with this error."""
        operation = self._waiting.get(order)
        if operation is None:
            return
        self._forget(operation)
        if operation.cursor is not None and operation.cursor.waiting:
            operation.cursor.advance(CursorEvent.WAIT_TIME_EXPIRED)
        self.core.effects.wakes.append(Wake(operation.token, None, error))

    def cancel_tag(self, queue: Queue, tag: Hashable, error: QueueError) -> None:
        """Cancel Waiting Message Read Request (3.1.7.1.17): of those so tagged the oldest."""
        for order in self._tagged.get((queue.number, tag), ()):
            self.cancel(order, error)
            return
        raise StatusNotFound("no waiting read has that tag")

    def cancel_of(
        self, descriptor: OpenQueueDescriptor, error: QueueError, cursor: Cursor | None = None
    ) -> None:
        """Ends the waiting reads of a descriptor, or those through one of its cursors."""
        for operation in list(descriptor.waiting.values()):
            if cursor is None or operation.cursor is cursor:
                self.cancel(operation.order, error)

    def cancel_session(self, association: object, error: QueueError) -> None:
        """Ends the waiting reads of a session that is gone: their messages would be lost."""
        descriptors = self._opening.opened_by(association)
        for order in sorted(order for opened in descriptors for order in opened.waiting):
            self.cancel(order, error)

    def expire_waits(self) -> None:
        """Waiting Message Read Timer Expired (3.1.6.3)."""
        now, deadlines = self.core.now_ms, self._deadlines
        while deadlines and deadlines[0][0] <= now:
            _, order = heappop(deadlines)
            operation = self._waiting.get(order)
            if operation is not None:
                queue, taking = operation.queue, operation.destructive
                cause = f"no message came to {queue.name} in time"
                self.cancel(
                    order, no_message(self._groups, self._poison, queue, cause, destructive=taking)
                )

    def next_deadline_ms(self) -> int | None:
        """When the next waiting read is due."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._waiting:
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor (3.1.7.1.2)."""
        error = OperationCancelled("the cursor was closed")
        self.cancel_of(cursor.descriptor, error, cursor)
        cursor.closed = True
        cursor.descriptor.cursors.pop(cursor.handle, None)


def _behind(place: QueuePosition, other: QueuePosition) -> bool:
    """Whether a place comes later in queue order than another."""
    if place.priority != other.priority:
        return place.priority < other.priority
    return place.lookup_id > other.lookup_id
