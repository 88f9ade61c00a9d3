"""The events of the queue manager by which messages are read and moved ([MS-MQDMPR] 3.1.7.1)."""

from __future__ import annotations

from contextlib import suppress

from posthouse.engine.ledger.effects import Read
from posthouse.engine.messages.cursor import Cursor
from posthouse.engine.messages.fetching import Fetching
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.engine.messages.waiting import Waiting
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.opening import Opening
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    AccessDenied,
    OperationCancelled,
    QueueError,
    UnsupportedOperation,
)
from posthouse.model.message import ACK_RECEIVE


class ManagerReads:
    """The part of the queue manager that readers use."""

    reading: Fetching
    waiting: Waiting
    moving: Moving
    opening: Opening

    def open_cursor(self, descriptor: OpenQueueDescriptor) -> Cursor:
        """Open Cursor (3.1.7.1.1)."""
        return self.opening.open_cursor(descriptor)

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor (3.1.7.1.2)."""
        self.opening.close_cursor(cursor)

    def dequeue_message(
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
        """Dequeue Message (3.1.7.1.10). None: it waits, and `token` is woken later."""
        self.opening.check(descriptor, QueueAccessType.RECEIVE)
        self._own(cursor, descriptor)
        return self.reading.dequeue(
            descriptor,
            timeout_ms=timeout_ms,
            cursor=cursor,
            transaction=transaction,
            tag=tag,
            two_phase=two_phase,
            token=token,
        )

    def dequeue_messages(
        self,
        descriptor: OpenQueueDescriptor,
        count: int,
        transaction: Transaction | None = None,
        *,
        two_phase: bool = False,
        room: int | None = None,
    ) -> list[Read]:
        """Up to `count` messages that are there now, not what follows from their ends.

        Together not more than `room` bytes, but one of any size.
        """
        self.opening.check(descriptor, QueueAccessType.RECEIVE)
        two_phase = two_phase and transaction is None
        return self.reading.dequeue_many(
            descriptor, count, transaction, two_phase=two_phase, room=room
        )

    def size_ahead(
        self,
        descriptor: OpenQueueDescriptor,
        cursor: Cursor | None = None,
        *,
        peek: bool,
        goes_on: bool = False,
    ) -> int:
        """Bytes of the message that a read would bring now; 0: none, or it will be refused."""
        with suppress(QueueError):
            queue = descriptor.target()
            return self.reading.size_ahead(queue, cursor, peek=peek, goes_on=goes_on)
        return 0

    def bytes_ahead(self, descriptor: OpenQueueDescriptor, count: int, most: int) -> int:
        """Bytes of the messages that could be received now, as far as `most` is passed."""
        return self.reading.bytes_ahead(descriptor.target(), count, most)

    def size_by_lookup_identifier(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        *,
        peek: bool,
    ) -> int:
        """The size that a read by lookup identifier would bring; 0: it will be refused."""
        with suppress(QueueError):
            queue, reading = descriptor.target(), self.reading
            found = reading.seek_by_lookup_id(queue, lookup_id, action, peek=peek)
            return reading.row(found).size
        return 0

    def dequeue_messages_end(self, descriptor: OpenQueueDescriptor, lookup_ids: list[int]) -> None:
        """Dequeue Message End, positive, for many: all of them or none."""
        self.opening.check(descriptor, QueueAccessType.RECEIVE)
        self.reading.end_many(descriptor, lookup_ids)

    def dequeue_message_end(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        *,
        positive: bool,
        message_class: int = ACK_RECEIVE,
    ) -> None:
        """Dequeue Message End (3.1.7.1.12); a rejection is positive with that class."""
        self.opening.check(descriptor, QueueAccessType.RECEIVE)
        self.reading.end_dequeue(
            descriptor, lookup_id, positive=positive, message_class=message_class
        )

    def read_message_by_lookup_identifier(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        action: MessageSeekAction = MessageSeekAction.CURRENT,
        *,
        peek: bool,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> Read:
        """Read Message By Lookup Identifier (3.1.7.1.13)."""
        self.opening.check(descriptor, QueueAccessType.PEEK if peek else QueueAccessType.RECEIVE)
        return self.reading.read_by_lookup_id(
            descriptor,
            lookup_id,
            action,
            peek=peek,
            transaction=transaction,
            two_phase=two_phase,
            allow_peek=allow_peek,
        )

    def peek_message(
        self,
        descriptor: OpenQueueDescriptor,
        *,
        timeout_ms: int | None = None,
        cursor: Cursor | None = None,
        tag: object = None,
        token: object = None,
    ) -> Read | None:
        """Peek Message (3.1.7.1.15). None: it waits."""
        self.opening.check(descriptor, QueueAccessType.PEEK)
        self._own(cursor, descriptor)
        return self.reading.peek(
            descriptor, timeout_ms=timeout_ms, cursor=cursor, tag=tag, token=token
        )

    def peek_next_message(
        self,
        descriptor: OpenQueueDescriptor,
        cursor: Cursor,
        *,
        timeout_ms: int | None = None,
        tag: object = None,
        token: object = None,
    ) -> Read | None:
        """Peek Next Message (3.1.7.1.14). None: it waits."""
        self.opening.check(descriptor, QueueAccessType.PEEK)
        self._own(cursor, descriptor)
        return self.reading.peek_next(
            descriptor, cursor, timeout_ms=timeout_ms, tag=tag, token=token
        )

    def move_message(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: Transaction | None = None,
    ) -> None:
        """Move Message (3.1.7.1.16): rights on both, and both of the same association and user."""
        from_queue = self.opening.check_source_of_move(source)
        to_queue = self.opening.check(target, QueueAccessType.MOVE)
        same_user = source.caller.sid == target.caller.sid
        if source.association is not target.association or not same_user:
            raise AccessDenied("the move's target was opened by somebody else")
        self.moving.move(from_queue, lookup_id, to_queue, transaction)

    def cancel_waiting_message_read_request(
        self, descriptor: OpenQueueDescriptor, tag: object, error: QueueError | None = None
    ) -> None:
        """Cancel Waiting Message Read Request (3.1.7.1.17)."""
        queue = descriptor.target()
        status = error or OperationCancelled("the read was cancelled")
        self.waiting.cancel_tag(queue, tag, status)

    def _own(self, cursor: Cursor | None, descriptor: OpenQueueDescriptor) -> None:
        if cursor is not None and cursor.descriptor is not descriptor:
            raise UnsupportedOperation("the cursor belongs to another open queue")
