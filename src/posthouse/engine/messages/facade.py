"""Messages as protocols use them: send, read, move, wait ([MS-MQDMPR] 3.1.7.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from posthouse.engine.ledger.effects import Read, Unreadable
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.order import QueuePosition
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.state import State
from posthouse.engine.machine.facade import MachineFacade
from posthouse.engine.messages.admission import Admission
from posthouse.engine.messages.enqueue import Sending
from posthouse.engine.messages.expiry import Expiry
from posthouse.engine.messages.moving import Moving
from posthouse.engine.messages.outcome import MessageOutcomes
from posthouse.engine.messages.packet_reads import Fetching
from posthouse.engine.messages.reading import MessageSeekAction
from posthouse.engine.messages.room import Room
from posthouse.engine.messages.waiting import WaitingReads
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType
from posthouse.engine.queues.opening import Opening
from posthouse.engine.queues.queue import Cursor, Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    AccessDenied,
    OperationCancelled,
    QueueError,
    UnsupportedOperation,
)
from posthouse.model.message import ACK_RECEIVE, Message, MessageId
from posthouse.wire.packet.batch import Batch


class MessagesFacade:
    """Every event by which messages come, are read and go."""

    row: Callable[[int], Row]
    """What the queue manager keeps of a message beside its packet."""
    is_visible: Callable[[int, bool], bool]
    """Whether a reader, or with True one that peeks, could have the message now."""

    def __init__(
        self,
        core: Ledger,
        machine: MachineFacade,
        opening: Opening,
        reading: Fetching,
        outcomes: MessageOutcomes,
        waiting: WaitingReads,
        moving: Moving,
        sending: Sending,
        admission: Admission,
        expiry: Expiry,
    ) -> None:
        self.core = core
        self.machine = machine
        self.opening = opening
        self.reading = reading
        self.outcomes = outcomes
        self.waiting = waiting
        self.moving = moving
        self.sending = sending
        self.admission = admission
        self.expiry = expiry
        self.row = reading.row
        self.is_visible = reading.visible

    # -- sending

    def enqueue_message_to_an_open_queue(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None = None,
    ) -> MessageId:
        """Enqueue Message To An Open Queue (3.1.7.1.27), for a message of an application here."""
        self.machine.require_ready()
        return self.sending.send(descriptor, message, transaction)

    def send_packets(
        self,
        descriptor: OpenQueueDescriptor,
        packets: list[bytes],
        transaction: Transaction | None = None,
        check: Callable[[list[Batch]], None] | None = None,
    ) -> list[int]:
        """Sends packets that a client built: all of them or none. Returns their ordinals.

        `check` is what an endpoint asks of them before anything else.
        """
        self.machine.require_ready()
        return self.sending.send_packets(descriptor, packets, transaction, check)

    def check_admission(
        self, queue: Queue, packet: bytes, *, transactional: bool, room: Room
    ) -> None:
        """Refuses a message as its queue would; `room` has what was admitted before it."""
        self.admission.admit(queue, Batch.of(packet), 0, transactional, room)

    # -- looking

    def packet(self, number: int) -> bytes:
        """The packet of a message: of this turn, or from the store; empty if it is damaged."""
        return self.core.packet(number)

    def packets_read(self) -> dict[int, bytes]:
        """The packets that the reads of this turn have brought, by number."""
        return self.core.effects.packets

    def packet_read(self, number: int) -> bytes:
        """A packet that this turn has brought; empty: it has not."""
        return self.core.effects.packet(number) or b""

    def in_order(self, queue: Queue, place: QueuePosition) -> Iterator[tuple[QueuePosition, int]]:
        """The messages of a queue after a place, with their numbers, as they are received."""
        return queue.state.order.forward(place)

    def after(self, queue: Queue, lookup_id: int) -> Iterator[tuple[int, int]]:
        """Lookup identifiers and numbers of the messages that came after one, as they came."""
        return queue.state.order.after(lookup_id)

    def first_and_last(self, queue: Queue) -> tuple[int, int]:
        """The smallest and the largest lookup identifier in a queue; 0 and 0: it is empty."""
        return queue.state.order.first_id(), queue.state.order.last_id()

    def highest_priority(self, queue: Queue) -> int | None:
        """The highest priority of a message in a queue; None: it is empty."""
        return queue.state.order.highest()

    def find_row(self, number: int) -> Row | None:
        """What is kept of a message; None: it has ended."""
        return self.core.state.table.get(number)

    def read_of(self, number: int, row: Row) -> Read:
        """A message as a reader gets it; its packet is fetched with the turn."""
        return self.reading.read_of(number, row)

    def fetch_together(self, numbers: list[int]) -> None:
        """Fetches packets of messages for the reads that follow, with few reads of the disk.

        Where one is damaged none is fetched: the read of that one then refuses it.
        """
        with suppress(Unreadable):
            self.reading.fetch_many(numbers)

    def move_reason(self, number: int) -> str:
        """Why a message was moved to where it is; empty where that was not stated."""
        return self.core.extra(number).move_reason if self.core.state.extras else ""

    def is_locked(self, number: int) -> bool:
        """Whether a transaction or a reader has the message."""
        return number in self.core.locks

    def first(self, queue: Queue) -> tuple[QueuePosition, int] | None:
        """The first message that a reader could receive."""
        return self.reading.first(queue)

    def seek_by_lookup_id(
        self, queue: Queue, lookup_id: int, action: MessageSeekAction, *, peek: bool
    ) -> int:
        """The number of the message that a read by lookup id would bring."""
        return self.reading.seek_by_lookup_id(queue, lookup_id, action, peek=peek)

    def oldest_age_s(self, queue: Queue) -> int | None:
        """How long the oldest message of a queue has been there; None when it is empty.

        The first of each priority is the oldest of its kind.
        """
        order, table = queue.state.order, self.core.state.table
        firsts = [order.lane(priority).first() for priority in order.used]
        rows = [table.get(first[1]) for first in firsts if first is not None]
        arrived = [row.arrived for row in rows if row is not None]
        return max(self.core.utc - min(arrived), 0) if arrived else None

    def state(self) -> State:
        """The rows of all messages, for readers that look at many of them at once."""
        return self.core.state

    def met(self, damage: Unreadable) -> None:
        """A reader beside the engine met a damaged record."""
        self.reading.met(damage)

    def met_by_upkeep(self, damage: Unreadable | None) -> None:
        """Compaction met a damaged record that it cannot pass; None: it is none."""
        self.reading.met_by_upkeep(damage)

    @property
    def count(self) -> int:
        """How many messages there are."""
        return self.core.state.table.count

    @property
    def bytes(self) -> int:
        """How many bytes they have."""
        return self.core.state.bytes

    # -- reading

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
    ) -> Sequence[Read]:
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
        """The size that a read by lookup id would bring; 0: it will be refused."""
        with suppress(QueueError):
            queue, reading = descriptor.target(), self.reading
            found = reading.seek_by_lookup_id(queue, lookup_id, action, peek=peek)
            return reading.row(found).size
        return 0

    def dequeue_messages_end(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_ids: list[int],
        *,
        positive: bool = True,
        message_class: int = ACK_RECEIVE,
        in_transactions: bool = False,
    ) -> None:
        """Dequeue Message End (3.1.7.1.12) of several reads: all of them or none.

        Without `in_transactions` a read inside a transaction is refused: it ends with that.
        """
        self.opening.check(descriptor, QueueAccessType.RECEIVE)
        self.reading.end(
            descriptor,
            lookup_ids,
            positive=positive,
            message_class=message_class,
            in_transactions=in_transactions,
        )

    def dequeue_message_end(
        self,
        descriptor: OpenQueueDescriptor,
        lookup_id: int,
        *,
        positive: bool,
        message_class: int = ACK_RECEIVE,
    ) -> None:
        """Dequeue Message End (3.1.7.1.12); a rejection is positive with that class."""
        self.dequeue_messages_end(
            descriptor,
            [lookup_id],
            positive=positive,
            message_class=message_class,
            in_transactions=True,
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

    def check_move(
        self, source: OpenQueueDescriptor, lookup_id: int, target: Queue, bytes_before: int
    ) -> Row:
        """Refuses a move as `move_message` would; `bytes_before` were moved there before it."""
        queue = self.opening.check_source_of_move(source)
        return self.moving.check(queue, lookup_id, target, bytes_before)

    def move_message(
        self,
        source: OpenQueueDescriptor,
        lookup_id: int,
        target: OpenQueueDescriptor,
        transaction: Transaction | None = None,
        reason: str = "",
    ) -> None:
        """Move Message (3.1.7.1.16): rights on both, and both of the same association and user.

        Outside of a transaction a reason may be kept with the message, until it is moved again.
        """
        from_queue = self.opening.check_source_of_move(source)
        to_queue = self.opening.check(target, QueueAccessType.MOVE)
        same_user = source.caller.sid == target.caller.sid
        if source.association is not target.association or not same_user:
            raise AccessDenied("the target of the move was opened by another user")
        self.moving.move(from_queue, lookup_id, to_queue, transaction, reason)

    def cancel_waiting_message_read_request(
        self, descriptor: OpenQueueDescriptor, tag: object, error: QueueError | None = None
    ) -> None:
        """Cancel Waiting Message Read Request (3.1.7.1.17)."""
        queue = descriptor.target()
        status = error or OperationCancelled("the read was cancelled")
        self.waiting.cancel_tag(queue, tag, status)

    def cancel_reads_of(self, descriptor: OpenQueueDescriptor, error: QueueError) -> None:
        """Ends the reads that wait on an open queue."""
        self.waiting.cancel_of(descriptor, error)

    def cancel_all_reads(self, queues: Iterable[Queue], error: QueueError) -> None:
        """Ends every read that waits on these queues."""
        for queue in queues:
            for order in list(queue.waiters):
                self.waiting.cancel(order, error)

    def cursor(self, handle: int, association: object) -> Cursor:
        """An open cursor of an association."""
        return self.opening.cursor(handle, association)

    def _own(self, cursor: Cursor | None, descriptor: OpenQueueDescriptor) -> None:
        if cursor is not None and cursor.descriptor is not descriptor:
            raise UnsupportedOperation("the cursor belongs to another open queue")
