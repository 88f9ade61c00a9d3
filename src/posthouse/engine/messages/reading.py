"""Dequeue, peek and lookup ([MS-MQDMPR] 3.1.7.1.10-15, 3.1.7.3.2-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from posthouse.engine.ledger.effects import READ_IN_DOUBT, Read, Reads, read_of_row
from posthouse.engine.ledger.ledger import Ledger, Lock, decode_extra, encode_extra
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.parts import ClaimedMessages, Endings, OpenTransactions, Waiters
from posthouse.engine.ledger.records import KEPT, Change, Row
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.ledger.spans import RECEIVE
from posthouse.engine.messages.cursor import CursorEvent, CursorState
from posthouse.engine.queues.empty_reads import remedy
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Cursor, Queue, QueueRole
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    InvalidParameter,
    IoTimeout,
    MessageAlreadyReceived,
    MessageNotFound,
    TransactionSequence,
    TransactionUsage,
)
from posthouse.model.message import ACK_RECEIVE, NACK_RECEIVE_REJECTED
from posthouse.model.message_classes import ACK_REACH_QUEUE, MESSAGE_CLASSES
from posthouse.model.properties import MessageSeekAction as MessageSeekAction

ENDS = frozenset({ACK_RECEIVE, NACK_RECEIVE_REJECTED})  # how a reader can end a message
# How a connector can end one: it is in its queue, it was received, or the reason why neither.
CONNECTOR_ENDS = ENDS | {
    ACK_REACH_QUEUE,
    *(one.code for one in MESSAGE_CLASSES if one.code & 0x8000),
}


def check_end(queue: Queue, message_class: int) -> None:
    """Refuses ends that a reader of this queue cannot give a message."""
    connector = queue.definition.role is QueueRole.CONNECTOR
    if message_class not in (CONNECTOR_ENDS if connector else ENDS):
        raise InvalidParameter(f"a read does not end with the class 0x{message_class:04X}")


class MessageReading:
    """Receives, peeks and looks up messages."""

    _groups: ClaimedMessages
    _outcomes: Endings
    _transactions: OpenTransactions
    _waiting: Waiters

    def __init__(self, core: Ledger) -> None:
        self.core = core

    # -- seeking (3.1.7.3.2, 3.1.7.3.3)

    def visible(self, number: int, peek: bool) -> bool:
        """Whether a seek stops at this message: available, or locked in a way that allows peeks."""
        lock = self.core.locks.get(number)
        if lock is not None:
            return peek and lock.allow_peek and not lock.purged
        return peek or not self.core.claims or not self._groups.is_claimed(self.row(number))

    def first(self, queue: Queue, peek: bool = False) -> tuple[QueuePosition, int] | None:
        """The first available message of the queue, in queue order."""
        if (peek and self.core.peekable_locks) or (queue.claim is not None and not peek):
            return self.seek(queue, START, peek=peek)
        order, locks = queue.state.order, self.core.locks
        for priority in reversed(order.used):
            entry = order.lane(priority).first_free(locks)
            if entry is not None:
                return QueuePosition(priority, entry[0]), entry[1]
        return None

    def seek(
        self, queue: Queue, place: QueuePosition, *, peek: bool
    ) -> tuple[QueuePosition, int] | None:
        """Seek Available Message Position (3.1.7.3.2), forward from after a place."""
        available = not (peek and self.core.peekable_locks)
        claim = None if peek else queue.claim
        ahead = queue.state.order.forward(place, available=available, without=claim)
        for found, number in ahead:
            if self.visible(number, peek):
                return found, number
        return None

    def seek_back(
        self, queue: Queue, place: QueuePosition | None, *, peek: bool
    ) -> tuple[QueuePosition, int] | None:
        """Seek Available Message Position (3.1.7.3.2), backward from before a place or the end."""
        claim = None if peek else queue.claim
        for found, number in queue.state.order.backward(place, without=claim):
            if self.visible(number, peek):
                return found, number
        return None

    def seek_by_lookup_id(
        self, queue: Queue, lookup_id: int, action: MessageSeekAction, *, peek: bool
    ) -> int:
        """Seek Available Message Position With Id (3.1.7.3.3). Returns the message's number."""
        found: tuple[QueuePosition, int] | None
        if action is MessageSeekAction.FIRST:
            found = self.first(queue, peek)
        elif action is MessageSeekAction.LAST:
            found = self.seek_back(queue, None, peek=peek)
        elif action is MessageSeekAction.CURRENT:
            return self._current(queue, lookup_id, peek=peek)
        else:
            place, _ = queue.place_of(lookup_id)
            if place is None:
                raise MessageNotFound(f"no message with lookup id {lookup_id} is in {queue.name}")
            forward = action is MessageSeekAction.NEXT
            seek = self.seek if forward else self.seek_back
            found = seek(queue, place, peek=peek)
        if found is None:
            raise MessageNotFound(f"{queue.name} has no {action.value} message to read")
        return found[1]

    def _current(self, queue: Queue, lookup_id: int, *, peek: bool) -> int:
        number = queue.current_number(lookup_id)
        if not number or self.row(number).queue != queue.number:
            raise MessageNotFound(f"no message with lookup id {lookup_id} is in {queue.name}")
        if self.visible(number, peek):
            return number
        if not peek:
            self._groups.check_taking(queue, self.row(number).lookup_id)
            if number in self.core.locks:
                raise MessageNotFound(
                    f"the message with lookup id {lookup_id} is locked by a transaction or a "
                    "reader that has not ended",
                    remedy(queue),
                )
            raise MessageNotFound(f"the message with lookup id {lookup_id} is not available")
        if self.core.locks[number].purged:
            raise MessageAlreadyReceived(f"the message with lookup id {lookup_id} is purged")
        raise TransactionUsage(f"the message with lookup id {lookup_id} is locked by a reader")

    def size_ahead(
        self, queue: Queue, cursor: Cursor | None, *, peek: bool, goes_on: bool = False
    ) -> int:
        """Bytes of the message that a read would find now; 0: none."""
        if cursor is None:
            found = self.first(queue, peek)
        elif cursor.state is CursorState.READ and not goes_on:
            place = cursor.place
            found = place, queue.state.order.lane(place.priority).number(place.lookup_id)
        else:
            found = self.seek(queue, cursor.place, peek=peek)
        row = self.core.state.table.get(found[1]) if found is not None else None
        return 0 if row is None else row.size

    def bytes_ahead(self, queue: Queue, count: int, most: int) -> int:
        """Bytes of the first available messages, up to the one with which it is enough."""
        size = 0
        for number in queue.state.order.available(self.core.locks, count, queue.claim):
            size += self.row(number).size
            if size >= most:
                break
        return size

    def row(self, number: int) -> Row:
        """The row of a message that is there."""
        row = self.core.state.table.get(number)
        assert row is not None
        return row

    # -- taking

    def read_of(self, number: int, row: Row) -> Read:
        """What a reader gets; the sender comes with the packet."""
        read = read_of_row(number, row, self.core.effects.senders.get(number, b""))
        return self._marked(read) if self.core.state.extras else read

    def _marked(self, read: Read) -> Read:
        if not self.is_in_doubt(read.number):
            return read
        return read._replace(flags=read.flags | READ_IN_DOUBT)

    def take(
        self,
        queue: Queue,
        numbers: list[int],
        rows: Sequence[Row],
        transaction: Transaction | None,
        holder: OpenQueueDescriptor,
        *,
        two_phase: bool,
        allow_peek: bool = False,
    ) -> Sequence[Read]:
        """Messages go to a reader: locked by its transaction or until their end, or deleted.

        Of several the packets have been fetched.
        """
        core, reads = self.core, self.reads_of(numbers, rows)
        if core.spans is not None:
            core.spans.begins(RECEIVE, queue, numbers, rows)
        if transaction is not None:
            for number in numbers:
                self._transactions.add_dequeue(
                    transaction, queue, number, holder=holder, allow_peek=allow_peek
                )
        elif two_phase:
            core.lock_all(queue, numbers, holder, allow_peek=allow_peek)
        else:
            self._outcomes.received(queue, numbers, rows)
        return reads

    def dequeue(
        self,
        descriptor: OpenQueueDescriptor,
        *,
        timeout_ms: int | None = None,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        tag: object = None,
        two_phase: bool = False,
        token: object = None,
    ) -> Read | None:
        """Dequeue Message (3.1.7.1.10). None: it waits, and `token` is woken."""
        queue = descriptor.target()
        self.check_transaction(queue, transaction)
        self._groups.check_receiver(queue)
        if cursor is not None:
            found = self._cursor_dequeue(queue, cursor, timeout_ms)
        else:
            found = self.first(queue)
        if found is not None:
            place, number = found
            (read,) = self.take(
                queue, [number], [self.row(number)], transaction, descriptor, two_phase=two_phase
            )
            if cursor is not None:
                cursor.advance(CursorEvent.DEQUEUED, place)
            return read
        self._waiting.wait(
            queue,
            descriptor,
            timeout_ms,
            destructive=True,
            cursor=cursor,
            transaction=transaction,
            tag=tag,
            two_phase=two_phase and transaction is None,
            token=token,
        )
        if cursor is not None:
            cursor.advance(CursorEvent.DEQUEUE_WAITS)
        return None

    def reads_of(self, numbers: list[int], rows: Sequence[Row]) -> Sequence[Read]:
        """What a reader of several gets, whose packets have been fetched; or of any one."""
        senders = self.core.effects.senders
        if len(numbers) == 1 and numbers[0] not in senders:
            return [self.read_of(numbers[0], rows[0])]
        in_doubt = frozenset[int]()
        if extras := self.core.state.extras:
            in_doubt = frozenset(filter(self.is_in_doubt, extras.keys() & numbers))
        return Reads(numbers, Rows.of(rows), list(map(senders.__getitem__, numbers)), in_doubt)

    def _cursor_dequeue(
        self, queue: Queue, cursor: Cursor, timeout_ms: int | None
    ) -> tuple[QueuePosition, int] | None:
        """Get Next Message For Dequeue (3.2.7.4)."""
        cursor.require(CursorState.UNREAD, CursorState.READ)
        if cursor.state is CursorState.READ:
            return cursor.place, self._under(queue, cursor, peek=False)
        found = self.seek(queue, cursor.place, peek=False)
        if found is None and timeout_ms is not None and timeout_ms <= 0:
            raise MessageNotFound(f"the cursor is after the last message of {queue.name}")
        return found

    def _under(self, queue: Queue, cursor: Cursor, *, peek: bool) -> int:
        """The message the cursor stands on, or MQ_ERROR_MESSAGE_ALREADY_RECEIVED."""
        number = queue.state.order.lane(cursor.place.priority).number(cursor.place.lookup_id)
        if not number or not self.visible(number, peek):
            raise MessageAlreadyReceived("the message under the cursor is gone or locked")
        return number

    def check_transaction(self, queue: Queue, transaction: Transaction | None) -> None:
        """Whether the queue can take part in the transaction, if there is one."""
        if transaction is not None:
            self._transactions.use(transaction)
            self.check_transactional(queue)

    def check_transactional(self, queue: Queue) -> None:
        """MQ_ERROR_TRANSACTION_USAGE for a queue that no transaction reads from."""
        definition = queue.definition
        if not definition.transactional and definition.role in (
            QueueRole.PLAIN,
            QueueRole.SUBQUEUE,
            QueueRole.OUTGOING,
        ):
            raise TransactionUsage(f"the queue {queue.name} is not transactional")

    def end(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_ids: list[int],
        *,
        positive: bool = True,
        message_class: int = ACK_RECEIVE,
        in_transactions: bool = True,
    ) -> None:
        """Dequeue Message End (3.1.7.1.12) of one message or of many: all of them or none."""
        core, queue = self.core, descriptor.target()
        check_end(queue, message_class)
        received = positive and message_class == ACK_RECEIVE
        numbers = self._held(queue, descriptor, lookup_ids)
        locks = list(map(core.locks.__getitem__, numbers))
        within = [lock.transaction for lock in set(locks) if lock.transaction is not None]
        if within and not in_transactions:
            raise TransactionSequence("a read inside a transaction ends with the transaction")
        if not received:
            for transaction in within:
                self._transactions.check_active(transaction)
        elif not within and len(numbers) > 1:
            rows = core.state.table.gather(numbers)
            core.unlock_all(queue, numbers, descriptor)
            core.departures.reader = descriptor.caller.name
            self._outcomes.received(queue, numbers, rows)
            core.departures.reader = ""
            return
        for number, lock in zip(numbers, locks, strict=True):
            if lock.transaction is not None:
                self._end_in_transaction(lock.transaction, queue, number, positive, message_class)
            elif positive:
                row = self.row(number)
                core.unlock(queue, number)
                core.departures.reader = descriptor.caller.name
                self._outcomes.delete(queue, number, row, message_class)
                core.departures.reader = ""
            else:
                self.give_back(queue, number)

    def _held(
        self, queue: Queue, descriptor: OpenQueueDescriptor, lookup_ids: list[int]
    ) -> list[int]:
        """The messages that a descriptor has read and not ended, by their identifiers."""
        held = descriptor.held
        if len(lookup_ids) > max(len(held), 1):
            raise TransactionSequence("more reads are to end than wait for it here")
        numbers = queue.state.order.numbers(lookup_ids)
        if 0 in numbers:
            numbers = [
                number or queue.current_number(lookup_id)
                for number, lookup_id in zip(numbers, lookup_ids, strict=True)
            ]
        if not held.issuperset(numbers):
            self._refuse_end(held, dict(zip(lookup_ids, numbers, strict=True)))
        # A moved message answers to several identifiers.
        if len(numbers) > 1 and len(set(numbers)) != len(numbers):
            raise TransactionSequence("a read is to end twice")
        return numbers

    def _refuse_end(self, held: set[int], found: dict[int, int]) -> NoReturn:
        """The first of the messages, by their identifiers, that the reader does not hold."""
        lookup_id, number = next(each for each in found.items() if each[1] not in held)
        if number in self.core.locks:
            raise TransactionSequence(f"lookup id {lookup_id} was read by another user")
        raise TransactionSequence(f"no read of lookup id {lookup_id} is waiting for its end")

    def _end_in_transaction(
        self,
        transaction: Transaction,
        queue: Queue,
        number: int,
        positive: bool,
        message_class: int,
    ) -> None:
        """Positive: it stays locked to its transaction. Negative: it is no longer part of that.

        State-machines 9 b; the document does nothing in either case.
        """
        transactions = self._transactions
        if not positive:
            transactions.remove_dequeue(transaction, queue, number)
            return
        transactions.end_dequeue(transaction, number)
        if message_class != ACK_RECEIVE:
            transactions.reason_of(transaction, number, message_class)

    def give_back(self, queue: Queue, number: int, *, in_doubt: bool = False) -> None:
        """A reader did not want the message after all; in doubt: or is gone with it."""
        row = self.row(number)
        lock = self.core.unlock(queue, number)
        change = Change()
        if in_doubt and not lock.purged:
            self._mark_in_doubt(queue, number, row, change)
        self.returned(queue, number, row, lock, change)
        self.core.commit(change)

    def _mark_in_doubt(self, queue: Queue, number: int, row: Row, change: Change) -> None:
        """Decision 42: who reads it next is told that somebody may have had it before."""
        core, extra = self.core, self.core.extra(number)
        extra.in_doubt = True
        core.settle(number, row, KEPT, change, encode_extra(extra))
        core.refusals["message_in_doubt"] += 1
        core.event("message_in_doubt", queue=queue.name, lookup_id=row.lookup_id)

    def is_in_doubt(self, number: int) -> bool:
        """Whether a reader was lost that had the message."""
        extra = self.core.state.extras.get(number)
        return extra is not None and decode_extra(extra).in_doubt

    def returned(self, queue: Queue, number: int, row: Row, lock: Lock, change: Change) -> None:
        """A message is no longer held: available at its old place, purged, or expired by now."""
        core = self.core
        if core.spans is not None:
            core.spans.returned(row)
        if lock.purged:
            self._groups.note_purged(queue, row.lookup_id, change)
            self._outcomes.delete(queue, number, row, lock.purged, change)
        elif lock.expired or row.expires <= core.utc:
            self._outcomes.expire(queue, number, row, change)
        else:
            queue.make_room(row.priority, row.lookup_id)
            core.announce(queue, number)

    def return_all(self, descriptor: OpenQueueDescriptor, *, in_doubt: bool = False) -> None:
        """Decision 92: closing gives back what was read and not ended, in queue order."""
        queue = descriptor.queue
        if queue is None:
            return
        for number in sorted(self.core.held_by(descriptor), key=self.queue_order):
            self.give_back(queue, number, in_doubt=in_doubt)

    def queue_order(self, number: int) -> tuple[int, int]:
        """What sorts messages as their queue does."""
        row = self.row(number)
        return -row.priority, row.lookup_id

    # -- peeking

    def peek(
        self,
        descriptor: OpenQueueDescriptor,
        *,
        timeout_ms: int | None = None,
        cursor: Cursor | None = None,
        tag: object = None,
        token: object = None,
    ) -> Read | None:
        """Peek Message (3.1.7.1.15). None: it waits."""
        queue = descriptor.target()
        if cursor is None:
            found = self.first(queue, peek=True)
        else:
            cursor.require(CursorState.UNREAD, CursorState.READ)
            if cursor.state is CursorState.READ:
                number = self._under(queue, cursor, peek=True)
                return self.read_of(number, self.row(number))
            found = self.seek(queue, cursor.place, peek=True)
        return self._peeked(queue, descriptor, found, timeout_ms, cursor, tag, token, first=True)

    def peek_next(
        self,
        descriptor: OpenQueueDescriptor,
        cursor: Cursor,
        *,
        timeout_ms: int | None = None,
        tag: object = None,
        token: object = None,
    ) -> Read | None:
        """Peek Next Message (3.1.7.1.14). None: it waits."""
        queue = descriptor.target()
        cursor.require(CursorState.READ)
        found = self.seek(queue, cursor.place, peek=True)
        return self._peeked(queue, descriptor, found, timeout_ms, cursor, tag, token, first=False)

    def _peeked(
        self,
        queue: Queue,
        descriptor: OpenQueueDescriptor,
        found: tuple[QueuePosition, int] | None,
        timeout_ms: int | None,
        cursor: Cursor | None,
        tag: object,
        token: object,
        *,
        first: bool,
    ) -> Read | None:
        if found is not None:
            if cursor is not None:
                event = CursorEvent.PEEKED if first else CursorEvent.NEXT_PEEKED
                cursor.advance(event, found[0])
            return self.read_of(found[1], self.row(found[1]))
        waits = CursorEvent.PEEK_WAITS if first else CursorEvent.NEXT_PEEK_WAITS
        try:
            self._waiting.wait(
                queue,
                descriptor,
                timeout_ms,
                destructive=False,
                cursor=cursor,
                transaction=None,
                tag=tag,
                two_phase=False,
                token=token,
            )
        except IoTimeout:
            if cursor is not None:  # it waited, for no time at all: 3.2.7.6
                cursor.advance(waits)
                cursor.advance(CursorEvent.WAIT_TIME_EXPIRED)
            raise
        if cursor is not None:
            cursor.advance(waits)
        return None

    def read_by_lookup_id(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        action: MessageSeekAction,
        *,
        peek: bool,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> Read:
        """Read Message By Lookup Identifier (3.1.7.1.13). It never waits."""
        queue = descriptor.target()
        if peek and transaction is not None:
            raise TransactionUsage("a peek cannot be part of a transaction")
        self.check_transaction(queue, transaction)
        if not peek:
            self._groups.check_receiver(queue)
        number = self.seek_by_lookup_id(queue, lookup_id, action, peek=peek)
        if peek:
            return self.read_of(number, self.row(number))
        (read,) = self.take(
            queue,
            [number],
            [self.row(number)],
            transaction,
            descriptor,
            two_phase=two_phase,
            allow_peek=allow_peek,
        )
        return read
