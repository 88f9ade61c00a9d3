"""A transaction: its captured operations ([MS-MQDMPR] 3.1.1.13-14), and its stored form."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

from posthouse.engine.ledger.records import Change, Row
from posthouse.wire.packet.batch import Batch

Also = Callable[[Change], None]  # adds to the record that ends a transaction


class OperationType(Enum):
    """[MS-MQDMPR] 3.1.1.13."""

    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"
    MOVE = "move"


class TransactionState(Enum):
    """Where a transaction is in its life."""

    ACTIVE = "active"
    DECIDING = "deciding"  # participants elsewhere are asked for their votes
    PREPARED = "prepared"
    ENDED = "ended"


class Vote(Enum):
    """The answer to a coordinator that asks to prepare ([MS-MQDMPR] 3.1.4.6)."""

    PREPARED = "prepared"
    ABORTED = "aborted"


class TransactionalOperation:
    """[MS-MQDMPR] 3.1.1.13. A receive or a move; or one send of an `EnqueuedBatch`."""

    __slots__ = ("kind", "number", "queue", "reason")

    def __init__(self, kind: OperationType, queue: int, number: int, reason: int = 0) -> None:
        self.kind = kind
        self.queue = queue  # of a move: the target
        self.number = number
        self.reason = reason


class EnqueuedBatch:
    """The sends of one batch. Their numbers follow on each other."""

    __slots__ = ("batch", "extra", "first", "last", "numbers", "queue", "row", "sender", "size")
    kind = OperationType.ENQUEUE

    def __init__(
        self,
        queue: int,
        numbers: range,
        row: Row,
        batch: Batch | None,
        size: int,
        sender: bytes = b"",
        extra: bytes = b"",
    ) -> None:
        self.queue = queue
        self.numbers = numbers
        self.row = row  # of the first; the columns of the batch make the others
        self.batch = batch  # None: they are in the log, pending
        self.size = size
        self.sender = sender
        self.extra = extra
        # FLAG_FIRST and FLAG_LAST, once it is known that its first or last message gets them.
        self.first = self.last = 0

    def is_followed_by(self, other: EnqueuedBatch) -> bool:
        """Whether another batch goes on where this one ends, with nothing in between."""
        row, its_row, batch, its_batch = self.row, other.row, self.batch, other.batch
        return (
            batch is not None
            and its_batch is not None
            and self.numbers.stop == other.numbers.start
            and self.queue == other.queue
            and not (row.wants or its_row.wants or self.extra or other.extra)
            and self.sender == other.sender
            and row.expires == its_row.expires
            and row.flags == its_row.flags
            and row.message_class == its_row.message_class
            and batch.head.transaction_at == its_batch.head.transaction_at
        )

    def extend(self, other: EnqueuedBatch) -> None:
        """Takes over the sends of a batch that follows."""
        assert self.batch is not None
        assert other.batch is not None
        self.batch.extend(other.batch)
        self.numbers = range(self.numbers.start, other.numbers.stop)
        self.size += other.size

    def each(self) -> Iterator[EnqueuedBatch]:
        """Its sends as batches of one; they are not in the log yet."""
        batch, count = self.batch, len(self.numbers)
        assert batch is not None
        for at, single in enumerate(batch.each()):
            number = self.numbers[at]
            row = self.row._replace(size=single.size, ordinal=single.ordinals[0])
            numbers = range(number, number + 1)
            one = EnqueuedBatch(
                self.queue, numbers, row, single, single.size, self.sender, self.extra
            )
            one.first, one.last = self.first if at == 0 else 0, self.last if at == count - 1 else 0
            yield one

    def operations(self) -> Iterator[TransactionalOperation]:
        """Its sends one by one, as the document has them."""
        for number in self.numbers:
            yield TransactionalOperation(self.kind, self.queue, number)


Step = EnqueuedBatch | TransactionalOperation


class StoredOperation(msgspec.Struct, array_like=True):
    """An operation of a prepared transaction, as it is kept."""

    kind: OperationType
    queue: int
    number: int
    reason: int


class StoredTransaction(msgspec.Struct, array_like=True):
    """A prepared transaction, as it is kept."""

    number: int
    coordinator: bytes
    prepared_at: int
    operations: list[StoredOperation]
    account: bytes = b""


class Transaction:
    """[MS-MQDMPR] 3.1.1.14."""

    __slots__ = (
        "account",
        "by_message",
        "coordinator",
        "count",
        "identifier",
        "last_used_ms",
        "number",
        "owner",
        "prepared_at",
        "size",
        "spilled",
        "state",
        "unended",
        "waiting",
    )

    def __init__(self, identifier: bytes, number: int, owner: object, now_ms: int) -> None:
        self.identifier = identifier
        self.number = number  # of the TransactionHeader
        self.owner = owner
        self.account = b""  # the SID of the user that began it
        self.last_used_ms = now_ms
        self.state = TransactionState.ACTIVE
        # What it does, in the order of the calls, by message: a message is in it once only. A
        # batch is here by its first.
        self.by_message: dict[int, Step] = {}
        self.count = 0  # operations
        self.size = 0
        self.spilled = False  # its messages are in the log already, pending
        self.coordinator = b""
        self.prepared_at = 0
        self.waiting: set[int] = set()  # reads that wait on its behalf
        # Of a remote reader: messages of which they have not said that they reached them.
        self.unended: set[int] | None = None

    @property
    def steps(self) -> list[Step]:
        """What it does, in the order of the calls."""
        return list(self.by_message.values())

    @property
    def operations(self) -> list[TransactionalOperation]:
        """TransactionalOperationCollection, in the order of the calls."""
        operations: list[TransactionalOperation] = []
        for step in self.by_message.values():
            operations += step.operations() if isinstance(step, EnqueuedBatch) else (step,)
        return operations

    def sends(self) -> list[EnqueuedBatch]:
        """What it sends."""
        return [step for step in self.by_message.values() if isinstance(step, EnqueuedBatch)]

    def add(self, operation: TransactionalOperation) -> None:
        """One more, after all others."""
        assert operation.number not in self.by_message
        self.by_message[operation.number] = operation
        self.count += 1

    def add_sends(self, sends: EnqueuedBatch) -> None:
        """A batch more, after all others; with the last one it makes one batch if it is alike."""
        last = self.by_message[next(reversed(self.by_message))] if self.by_message else None
        if isinstance(last, EnqueuedBatch) and last.is_followed_by(sends):
            last.extend(sends)
        else:
            self.by_message[sends.numbers.start] = sends
        self.count += len(sends.numbers)
        self.size += sends.size

    def remove(self, number: int) -> None:
        """A receive is no longer part of it."""
        del self.by_message[number]
        self.count -= 1


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredTransaction).decode


def pack_transaction(transaction: Transaction) -> bytes:
    """A prepared transaction as a definition of the log."""
    operations = [
        StoredOperation(o.kind, o.queue, o.number, o.reason) for o in transaction.operations
    ]
    return _encode(
        StoredTransaction(
            transaction.number,
            transaction.coordinator,
            transaction.prepared_at,
            operations,
            transaction.account,
        )
    )


def unpack_transaction(value: bytes) -> StoredTransaction:
    """A prepared transaction read back."""
    return _decode(value)
