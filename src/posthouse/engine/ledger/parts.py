"""Interfaces between parts of the engine.

A protocol has the methods of one part that others call. Parts get each other as arguments, in
`engine/manager.py`. So no part imports another one that imports it, not even for its types.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Protocol

from posthouse.engine.ledger.effects import Read
from posthouse.engine.ledger.ledger import Lock
from posthouse.engine.ledger.records import Change, Row
from posthouse.engine.ledger.row_columns import Rows
from posthouse.engine.queues.open_queues import OpenQueueDescriptor, QueueAccessType, QueueShareMode
from posthouse.engine.queues.queue import Cursor, Group, Queue
from posthouse.engine.transactions.transaction import Also, Transaction, Vote
from posthouse.engine.transfer.order_queue_names import OrderQueueNames
from posthouse.model.errors import MessageStorageFailed, QueueError
from posthouse.model.message import Message, MessageId
from posthouse.model.names import FormatName, PathName
from posthouse.model.properties import MessageSeekAction
from posthouse.security.access import Caller
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet_fields import PacketSummary


class AckSender(Protocol):
    """Acknowledgments of other machines and for administration queues."""

    names: OrderQueueNames

    def administration(
        self,
        packet: bytes,
        row: Row,
        message_class: int,
        change: Change | None,
        name: FormatName | None = ...,
    ) -> None:
        """Send Administration Acknowledgment (3.1.7.15)."""

    def ended(self, number: int, row: Row, message_class: int, step: Change) -> None:
        """Administration Acknowledgment (3.1.7.2.1), if the sender asked for one of this end."""

    def final(
        self,
        packet: bytes,
        message_class: int,
        address: str,
        change: Change | None,
        host: str = ...,
        kept_s: int = ...,
    ) -> None:
        """A FinalAck for a transactional message of another machine; nothing for any other."""

    def final_from(
        self, queue: Queue, packet: bytes, message_class: int, host: str, step: Change
    ) -> None:
        """A FinalAck for a message that has left its queue, to the host that it came from."""

    def is_enough(self, source: bytes, host: str) -> bool:
        """Whether a machine takes none of its answers, and gets no more of them."""

    def order(self, queue: int, source: bytes, host: str | None = ...) -> bool:
        """An OrderAck for everything that was accepted of a source's sequence into a queue."""

    def refused(self, packet: bytes, row: Row, message_class: int, change: Change | None) -> None:
        """Administration Acknowledgment for a message that was refused on arrival."""

    def send(
        self,
        source: bytes,
        host: str,
        packet: bytes,
        address: str,
        change: Change | None,
        kept_s: int = ...,
    ) -> int:
        """Into the outgoing queue that belongs to the machine, however the packet names it."""


class PacketReads(Protocol):
    """Reads of packets, and of messages of queues."""

    damaged: set[int]

    def at_hand(self, queue: Queue, number: int) -> bool:
        """Whether who waits can be offered a message; if it is damaged, the first is told so."""

    def check_transaction(self, queue: Queue, transaction: Transaction | None) -> None:
        """Whether the queue can take part in the transaction, if there is one."""

    def dequeue_many(
        self,
        descriptor: OpenQueueDescriptor,
        count: int,
        transaction: Transaction | None,
        *,
        two_phase: bool = ...,
        room: int | None = ...,
    ) -> Sequence[Read]:
        """Up to `count` messages at once, in queue order, without damaged ones."""

    def fetch_many(self, numbers: list[int]) -> None:
        """Puts packets into the turn's effects; Unreadable if any of them is damaged."""

    def fetch_sound(self, numbers: list[int]) -> tuple[list[int], MessageStorageFailed | None]:
        """Fetches those that are not damaged, and sets the others aside."""

    def give_back(self, queue: Queue, number: int, *, in_doubt: bool = ...) -> None:
        """A reader did not want the message after all; in doubt: or is gone with it."""

    def queue_order(self, number: int) -> tuple[int, int]:
        """What sorts messages as their queue does."""

    def read_of(self, number: int, row: Row) -> Read:
        """What a reader gets. Every read comes by here before it changes anything."""

    def release(self, number: int) -> None:
        """What was set aside is as available as any other message, for who needs no packet."""

    def return_all(self, descriptor: OpenQueueDescriptor, *, in_doubt: bool = ...) -> None:
        """Decision 92: closing gives back what was read and not ended, in queue order."""

    def returned(self, queue: Queue, number: int, row: Row, lock: Lock, change: Change) -> None:
        """A message is not held now: available at its old place, purged, or expired by now."""

    def row(self, number: int) -> Row:
        """The row of a message that is there."""

    def seek_by_lookup_id(
        self, queue: Queue, lookup_id: int, action: MessageSeekAction, *, peek: bool
    ) -> int:
        """Seek Available Message Position With Id (3.1.7.3.3). Returns the message's number."""

    def take(
        self,
        queue: Queue,
        numbers: list[int],
        rows: Sequence[Row],
        transaction: Transaction | None,
        holder: OpenQueueDescriptor,
        *,
        two_phase: bool,
        allow_peek: bool = ...,
    ) -> Sequence[Read]:
        """Messages go to a reader: locked by its transaction or until their end, or deleted."""

    def visible(self, number: int, peek: bool) -> bool:
        """Whether a seek stops at this message: available, or locked in a way that allows peeks."""


class ForeignSystems(Protocol):
    """Queues of foreign systems."""

    def takes(self, machine: bytes) -> bool:
        """Whether messages for this queue manager go no further than a connector queue here."""

    def tidy(self, queue: Queue) -> None:
        """It is not open now: it goes if it was kept for its messages only."""

    def queue_for(self, machine: bytes, *, transactional: bool) -> Queue | None:
        """The connector queue for messages to a foreign system that this machine `takes`."""

    def refusal(self, name: FormatName | None, *, transactional: bool) -> int:
        """The class of a message that cannot be for this queue of a foreign system; else NORMAL."""


class ClaimedMessages(Protocol):
    """The interface to messages that groups have claimed."""

    def check_receiver(self, queue: Queue) -> None:
        """MQ_ERROR_SHARING_VIOLATION for a destructive read while a group has the lease."""

    def check_taking(self, queue: Queue, lookup_id: int) -> None:
        """Refuse to take a claimed message, or any while a group has the lease."""

    def claimed_messages(self, group: Group) -> int:
        """How many messages are in its claim."""

    def is_claimed(self, row: Row) -> bool:
        """Whether a message is kept from everybody but the group."""

    def note_purged(self, queue: Queue, lookup_id: int, change: Change | None) -> None:
        """A message is purged: readers that come later can see that they missed it."""


class Accepting(Protocol):
    """The interface that puts messages into queues."""

    def accept(
        self,
        queue: Queue,
        batch: Batch,
        flags: int,
        transaction: Transaction | None,
        sender: bytes,
        dead_letter: str,
        change: Change | None,
        host: str = ...,
    ) -> int:
        """Takes in a batch that has been admitted: nothing can refuse it after this."""

    def arrived(
        self, queue: Queue, numbers: range, row: Row, packet: bytes, change: Change | None
    ) -> None:
        """A batch has become available for the first time: everything that follows from it."""

    def copy(self, queue: Queue, original: Row, packet: bytes, change: Change | None) -> None:
        """Puts a copy of a message into a journal; over its quota the copy is dropped."""

    def enqueue(
        self,
        queue: Queue,
        packet: bytes,
        *,
        transaction: Transaction | None = ...,
        sender: bytes = ...,
        flags: int = ...,
        dead_letter: str = ...,
        change: Change | None = ...,
    ) -> int:
        """Enqueue Message (3.1.7.1.9). Returns the internal number; raises what refuses it."""

    def expiry(self, queue: Queue, batch: Batch) -> int:
        """The second from which it is expired: both times count from SentTime."""

    def send(
        self,
        descriptor: OpenQueueDescriptor,
        message: Message,
        transaction: Transaction | None,
        change: Change | None = ...,
    ) -> MessageId:
        """Enqueue Message To An Open Queue (3.1.7.1.27), for an application of this machine."""


class StagedRuns(Protocol):
    """Messages of batches that are not published yet."""

    def runs(self) -> Iterator[tuple[int, int]]:
        """First number and count of all messages that are staged."""


class Endings(Protocol):
    """The interface that ends messages."""

    def answered_finally(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change
    ) -> None:
        """What became of it at its destination ([MS-MQQB] 3.1.5.7, [MC-MQSRM] 3.1.5.1.9)."""

    def application_queue(self, name: str) -> Queue | None:
        """The queue of ours that a sender named for its dead letters, if there is one."""

    def arrived_all(self, queue: Queue, numbers: list[int], rows: Rows) -> None:
        """Numbered messages are order-acknowledged ([MS-MQQB] 3.1.5.6)."""

    def delete(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change | None = ...
    ) -> None:
        """Message Position Deleted (3.1.7.2.1)."""

    def delivered(
        self, queue: Queue, number: int, row: Row, packet: bytes, change: Change | None
    ) -> None:
        """A message has been stored in its destination queue here."""

    def expire(self, queue: Queue, number: int, row: Row, change: Change | None = ...) -> None:
        """Time To Be Received Timer Expired (3.1.7.2.7), and the reach-queue time while sending."""

    def received(self, queue: Queue, numbers: list[int], rows: Sequence[Row]) -> None:
        """Ends messages that readers received: together if they leave no journal copy or
        acknowledgment.
        """

    def refused(
        self, queue: Queue, number: int, row: Row, message_class: int, change: Change
    ) -> None:
        """The destination refused the message, and has itself sent the administration
        acknowledgment.
        """

    def take_back(self, queue: Queue, number: int) -> None:
        """It is not held now."""

    def transferred(self, queue: Queue, number: int, row: Row, change: Change) -> None:
        """The destination has it: a copy for the system journal if the sender asked for one."""

    def transferred_all(self, queue: Queue, numbers: list[int], rows: Sequence[Row]) -> None:
        """The destination has these messages: journal copies for those that asked for one."""

    def undeliverable(self, number: int, row: Row, message_class: int, change: Change) -> None:
        """A pending message whose queue is gone: a dead letter if its sender asked for that."""


class FailedReads(Protocol):
    """Messages that were read too often."""

    def aborted(self, queue: Queue, number: int, row: Row, lock: Lock, change: Change) -> bool:
        """Whether the policy has decided on a message; its row has this abort counted already."""

    def release(self, number: int) -> None:
        """It does not wait any longer: it is available, or about to end."""

    def waiting_in(self, queue: Queue) -> int:
        """How many messages of a queue wait for their next try; they count as locked."""


class OpenTransactions(Protocol):
    """Transactions that are open."""

    open: dict[bytes, Transaction]

    def abort(self, identifier: bytes, also: Also | None = ...) -> None:
        """Transaction Abort (3.1.4.5): sends vanish, what was received or moved is back."""

    def add_dequeue(
        self,
        transaction: Transaction,
        queue: Queue,
        number: int,
        *,
        reason: int = ...,
        holder: OpenQueueDescriptor | None = ...,
        allow_peek: bool = ...,
    ) -> None:
        """A receive: the message is locked until the end."""

    def add_enqueue(
        self,
        transaction: Transaction,
        queue: Queue,
        row: Row,
        batch: Batch,
        sender: bytes,
        extra: bytes,
    ) -> int:
        """Sends, by a caller who has asked `use`: they are invisible before the commit."""

    def add_move(self, transaction: Transaction, queue: Queue, number: int, target: Queue) -> None:
        """A move: locked in the source, seen in the target after the commit, its room reserved."""

    def check_active(self, transaction: Transaction) -> None:
        """Refuses more operations in a transaction that has begun to end."""

    def close(self, transaction: Transaction) -> None:
        """Participants elsewhere are asked for their votes: nothing more is added to it."""

    def commit(self, identifier: bytes, also: Also | None = ...) -> None:
        """Transaction Commit (3.1.4.4): all of it, in the order it was asked for, in one record."""

    def create(self, identifier: bytes, owner: object = ..., account: bytes = ...) -> Transaction:
        """Create Transaction (3.1.7.1.8)."""

    def find(self, identifier: bytes) -> Transaction:
        """The transaction of that identifier, or MQ_ERROR_TRANSACTION_SEQUENCE."""

    def prepare_for(self, coordinator: bytes, identifier: bytes) -> Vote:
        """DTC Transaction Prepare (3.1.4.6), for the coordinator of decision 51."""

    def prepared(self) -> list[Transaction]:
        """The transactions that wait for their coordinator."""

    def release(self, queue: Queue | None, size: int) -> None:
        """Releases the space that uncommitted sends of this size had reserved."""

    def remove_dequeue(self, transaction: Transaction, queue: Queue, number: int) -> None:
        """A transactional read was refused by its reader: it is not part of the transaction now."""

    def reason_of(self, transaction: Transaction, number: int, reason: int) -> None:
        """Sets the class with which a dequeued message will end."""

    def end_dequeue(self, transaction: Transaction, number: int) -> None:
        """A transactional read has reached its reader; the message ends with the transaction."""

    def touch(self, transaction: Transaction) -> None:
        """Somebody works on it: its idle time begins again."""

    def use(self, transaction: Transaction, count: int = ...) -> None:
        """Checks that operations may still be added, and notes that somebody works on it."""


class MachineTargets(Protocol):
    """Which machine a name leads to."""

    def knows_machine(self, guid: bytes) -> bool:
        """Whether a queue manager is in the directory."""

    def may_be_peer(self, name: FormatName | None) -> bool:
        """Whether this computer name is unknown here: it may be that of the sender."""

    def owner_of(self, format_name: str) -> bytes:
        """The queue manager of a public queue, by its GUID; empty while that is unknown."""


class TraceReports(Protocol):
    """Reports for messages that are traced."""

    def received(self, packet: bytes, seen: PacketSummary, change: Change) -> None:
        """Sending a Trace Message (3.1.5.8.9), for a message that was taken in."""

    def sent(
        self, packet: bytes, seen: PacketSummary, next_hop: str, change: Change | None
    ) -> None:
        """Sending Trace Message (3.1.7.1.7); `next_hop` is the address it goes to now."""


class Waiters(Protocol):
    """Reads that wait for a message."""

    def cancel(self, order: int, error: QueueError) -> None:
        """Waiting Message Read Timer Stop (3.1.7.3.5): the read ends with this error."""

    def cancel_of(
        self, descriptor: OpenQueueDescriptor, error: QueueError, cursor: Cursor | None = ...
    ) -> None:
        """Ends the waiting reads of a descriptor, or those through one of its cursors."""

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor (3.1.7.1.2)."""

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
        count: int = ...,
    ) -> None:
        """Wait For New Message (3.1.7.3.1), with its timer (3.1.7.3.4)."""


class Relocating(Protocol):
    """Messages that go from one queue to another."""

    def admit(self, source: Queue, row: Row, target: Queue, before: int = ...) -> None:
        """Every reason why the target does not take the message."""

    def purge(self, queue: Queue, doom: int = ..., change: Change | None = ...) -> int:
        """Purge Queue (3.1.7.1.7), and the messages' part of Delete Queue (3.1.7.1.4)."""

    def relocate(
        self,
        source: Queue,
        number: int,
        row: Row,
        target: Queue,
        reason: int,
        change: Change,
        failed_in: str = ...,
    ) -> None:
        """A message changes its queue and its lookup id; the family still has the old one."""


class OpenedQueues(Protocol):
    """Queues that are open."""

    def check(self, descriptor: OpenQueueDescriptor, access: QueueAccessType) -> Queue:
        """Whether an operation may use a descriptor; rights are read again when they change."""

    def check_answer_queue(self, name: PathName | FormatName, caller: Caller) -> None:
        """A queue that a message names for its acknowledgments or as its dead-letter queue."""

    def check_open(self, descriptor: OpenQueueDescriptor, access: QueueAccessType) -> None:
        """The check for a descriptor that may have elements: they are checked one by one later."""

    def check_role(self, queue: Queue, access: QueueAccessType) -> None:
        """Queues that only the queue manager itself writes to or opens at all."""

    def close(self, descriptor: OpenQueueDescriptor, *, in_doubt: bool = ...) -> None:
        """Close Queue (3.1.7.1.6); in doubt: its reader is gone without closing it."""

    def close_of(self, association: object) -> None:
        """A session that ends closes what it had open."""

    def open(
        self,
        name: PathName | FormatName,
        access: QueueAccessType,
        share: QueueShareMode,
        caller: Caller,
        association: object = ...,
    ) -> OpenQueueDescriptor:
        """Open Queue (3.1.7.1.5); distribution lists have been expanded before."""

    def opened_by(self, association: object) -> list[OpenQueueDescriptor]:
        """What a session has open, the oldest first."""

    def require(self, queue: Queue, caller: Caller, access: QueueAccessType) -> None:
        """The one access check (decision 5) for reading and sending."""
