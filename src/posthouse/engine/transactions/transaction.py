"""What a transaction is: its captured operations ([MS-MQDMPR] 3.1.1.13-14), and how it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import Row, Span
from posthouse.engine.ledger.rows import span_of
from posthouse.wire.packet.glance import Glance


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
    """What a coordinator hears that asks to prepare ([MS-MQDMPR] 3.1.4.6)."""

    PREPARED = "prepared"
    ABORTED = "aborted"


class TransactionalOperation:
    """[MS-MQDMPR] 3.1.1.13. An enqueue that is not in the log yet carries its message."""

    __slots__ = ("extra", "kind", "number", "packet", "queue", "reason", "row", "sender", "span")

    def __init__(self, kind: OperationType, queue: int, number: int, reason: int = 0) -> None:
        self.kind = kind
        self.queue = queue  # of a move: the target
        self.number = number
        self.reason = reason
        self.row: Row | None = None
        self.packet: bytes | None = None
        self.span = Span()
        self.sender = b""
        self.extra = b""

    @property
    def size(self) -> int:
        """Bytes of the packet of an enqueue."""
        assert self.row is not None
        return self.row.size

    @property
    def ordinal(self) -> int:
        """Of the message identifier of an enqueue."""
        assert self.row is not None
        return self.row.ordinal

    def is_plain(self) -> bool:
        """An enqueue that asks for nothing and is not in the log yet."""
        row = self.row
        return row is not None and self.packet is not None and not self.extra and not row[12]

    def follows(self, other: TransactionalOperation, distance: int) -> bool:
        """Whether a plain enqueue is alike another one, this many numbers in front of it."""
        row, its_row = self.row, other.row
        assert its_row is not None
        return (
            self.is_plain()
            and row is not None
            and self.queue == other.queue
            and self.number == other.number + distance
            and row[11] == its_row[11]
            and row[7] == its_row[7]
            and row[2] == its_row[2]
        )


class EnqueueRun(NamedTuple):
    """Sends of one call that are alike but for packet, size and ordinal; numbers follow on."""

    queue: int
    numbers: range
    row: Row  # of all of them, without size and ordinal
    packets: list[bytes]
    looks: list[Glance]
    ordinals: list[int]
    sender: bytes

    def operations(self) -> Iterator[TransactionalOperation]:
        """The same one by one."""
        for number, packet, seen, ordinal in zip(
            self.numbers, self.packets, self.looks, self.ordinals, strict=True
        ):
            operation = TransactionalOperation(OperationType.ENQUEUE, self.queue, number)
            operation.row = self.row._replace(size=seen.packet_size, ordinal=ordinal)
            operation.packet, operation.span = packet, span_of(seen)
            operation.sender = self.sender
            yield operation


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


class Transaction:
    """[MS-MQDMPR] 3.1.1.14."""

    __slots__ = (
        "_by_message",
        "_runs",
        "coordinator",
        "identifier",
        "last_used_ms",
        "marked",
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
        self.last_used_ms = now_ms
        self.state = TransactionState.ACTIVE
        self._by_message: dict[int, TransactionalOperation] = {}
        self._runs: list[EnqueueRun] = []  # behind these, as long as nobody asks for single ones
        self.marked = False  # first and last are known, and nothing has come since
        self.size = 0
        self.spilled = False  # its messages are in the log already, pending
        self.coordinator = b""
        self.prepared_at = 0
        self.waiting: set[int] = set()  # reads that wait on its behalf
        # Of a remote reader: messages of which they have not said that they reached them.
        self.unended: set[int] | None = None

    @property
    def by_message(self) -> dict[int, TransactionalOperation]:
        """The operations by message, which is in it once only."""
        if self._runs:
            runs, self._runs = self._runs, []
            for run in runs:
                self._by_message.update((one.number, one) for one in run.operations())
        return self._by_message

    @property
    def count(self) -> int:
        """How many operations it has."""
        return len(self._by_message) + sum(len(run.packets) for run in self._runs)

    @property
    def runs(self) -> list[EnqueueRun]:
        """All of its operations, where they are nothing but sends that came in runs."""
        return [] if self._by_message else self._runs

    @property
    def operations(self) -> list[TransactionalOperation]:
        """TransactionalOperationCollection, in the order of the calls."""
        return list(self.by_message.values())

    def add(self, operation: TransactionalOperation) -> None:
        """One more, behind all others."""
        by_message = self.by_message
        assert operation.number not in by_message
        by_message[operation.number] = operation

    def add_run(self, run: EnqueueRun) -> None:
        """Several more, behind all others."""
        self._runs.append(run)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredTransaction).decode


def pack_transaction(transaction: Transaction) -> bytes:
    """A prepared transaction as a definition of the log."""
    operations = [
        StoredOperation(o.kind, o.queue, o.number, o.reason) for o in transaction.operations
    ]
    return _encode(
        StoredTransaction(
            transaction.number, transaction.coordinator, transaction.prepared_at, operations
        )
    )


def unpack_transaction(value: bytes) -> StoredTransaction:
    """A prepared transaction read back."""
    return _decode(value)
