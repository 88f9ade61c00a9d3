"""Stored operations: the request of each, and its progress.

A step of an operation ends, moves or sends each message in one CHANGE, as a single call does. What
was done is not found again, so that an operation may look at a place twice after a crash. A copy
leaves its original where it is: so its place is in the same CHANGE as the copy, and none is made
twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

import msgspec

from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.parts import Accepting, OpenTransactions
from posthouse.engine.ledger.records import TABLE_OPERATION, Change
from posthouse.engine.messages.returning import is_transactional
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import InsufficientResources, InvalidParameter, QueueError
from posthouse.model.message import Message
from posthouse.security.accounts import user_key

KEPT_MAX: Final = 200  # operations that have ended; older ones are forgotten
OPERATIONS_MAX: Final = 1_000
_KEY: Final = struct.Struct("<cI")
Made = Callable[[Change], None]
RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"


class OperationDefinition(msgspec.Struct, array_like=True, frozen=True):
    """What was asked for, and by whom."""

    number: int
    act: str
    queue: str
    to: str
    where: str
    lookup_ids: tuple[int, ...]
    group: str
    dry_run: bool
    user: str
    begun: int  # UTC seconds
    ceiling: int  # the first lookup id that is left alone
    total: int  # messages of the queue when it began
    key: str = ""  # the caller's name for it: begun again under it, it is this one
    asked: bytes = b""  # a digest of the request, to see whether that is repeated


class OperationProgress(msgspec.Struct, array_like=True):
    """How far it has come; written with every step."""

    state: str = RUNNING
    place: str = ""  # where it goes on
    scanned: int = 0
    matched: int = 0
    done: int = 0
    gone: int = 0
    refused: int = 0
    error: str = ""  # the first reason why one was refused, or why it failed
    sample: list[int] = msgspec.field(default_factory=list)
    skip: list[str] = msgspec.field(default_factory=list)  # targets that have refused a message
    changed: int = 0  # UTC seconds


class Operation:
    """One operation."""

    def __init__(self, definition: OperationDefinition, progress: OperationProgress) -> None:
        self.definition = definition
        self.progress = progress
        self.run: object | None = None  # who works on it in this process

    @property
    def number(self) -> int:
        """Its number."""
        return self.definition.number

    @property
    def state(self) -> str:
        """How it stands: `interrupted` where a restart has ended its run."""
        if self.progress.state == RUNNING and self.run is None:
            return "interrupted"
        return self.progress.state


class Operations:
    """All operations."""

    def __init__(self, core: Ledger, sending: Accepting, transactions: OpenTransactions) -> None:
        self.core = core
        self._sending = sending
        self._transactions = transactions
        self._operations: dict[int, Operation] = {}
        self._last_number = 0

    def load(self) -> None:
        """Everything the log kept."""
        progress: dict[int, OperationProgress] = {}
        definitions: list[OperationDefinition] = []
        for key, value in self.core.state.of_table(TABLE_OPERATION):
            kind, number = _KEY.unpack(key)
            self._last_number = max(self._last_number, number)
            if kind == b"d":
                definitions.append(msgspec.msgpack.decode(value, type=OperationDefinition))
            else:
                progress[number] = msgspec.msgpack.decode(value, type=OperationProgress)
        for one in definitions:
            self._operations[one.number] = Operation(
                one, progress.get(one.number, OperationProgress())
            )

    def all(self) -> list[Operation]:
        """Every operation, in the order in which they began."""
        return [self._operations[number] for number in sorted(self._operations)]

    def get(self, number: int) -> Operation:
        """An operation by its number."""
        found = self._operations.get(number)
        if found is None:
            raise InvalidParameter(
                f"there is no operation {number}", "`posthouse operation list` shows them."
            )
        return found

    def begun(self, user: str, key: str, asked: bytes) -> Operation | None:
        """The one that a user has begun under a key, with the same request."""
        for one in self._operations.values() if key else ():
            what = one.definition
            if what.key == key and user_key(what.user) == user_key(user):
                if what.asked != asked:
                    raise InvalidParameter(
                        f"the operation {one.number} was begun under this key by another request",
                        "Use a new key for each operation.",
                    )
                return one
        return None

    def create(
        self,
        act: str,
        queue: str,
        *,
        to: str,
        where: str,
        lookup_ids: tuple[int, ...],
        group: str,
        dry_run: bool,
        user: str,
        total: int,
        key: str = "",
        asked: bytes = b"",
    ) -> Operation:
        """A new one; messages that come from now on are left alone."""
        change = Change()
        self._make_room(change)
        if self._last_number and self._last_number not in self._operations:  # see `_forget`
            self.core.define(TABLE_OPERATION, _KEY.pack(b"p", self._last_number), None, change)
        self._last_number += 1
        definition = OperationDefinition(
            self._last_number,
            act,
            queue,
            to,
            where,
            lookup_ids,
            group,
            dry_run,
            user,
            self.core.utc,
            self.core.lookup_ids.value,
            total,
            key,
            asked,
        )
        operation = Operation(definition, OperationProgress(changed=self.core.utc))
        self._operations[operation.number] = operation
        row = _KEY.pack(b"d", operation.number)
        self.core.define(TABLE_OPERATION, row, msgspec.msgpack.encode(definition), change)
        self._define_progress(operation, change)
        self.core.commit(change)
        return operation

    def _make_room(self, change: Change) -> None:
        """Drops the oldest that has ended of the user with the most, who displaces no other one."""
        ended: dict[str, list[Operation]] = {}
        for one in self.all():
            if one.progress.state in (DONE, FAILED, STOPPED):
                ended.setdefault(user_key(one.definition.user), []).append(one)
        for _ in range(sum(map(len, ended.values())) - KEPT_MAX + 1):
            self._forget(max(ended.values(), key=len).pop(0), change)
        if len(self._operations) >= OPERATIONS_MAX:
            raise InsufficientResources(
                "there are too many operations", "Delete some: posthouse operation delete N."
            )

    def save(self, operation: Operation) -> None:
        """Writes how far it has come."""
        change = Change()
        self._define_progress(operation, change)
        self.core.commit(change)

    def forget(self, operation: Operation) -> None:
        """Nothing is kept of it; what it did stays done."""
        change = Change()
        self._forget(operation, change)
        self.core.commit(change)

    def _forget(self, operation: Operation, change: Change) -> None:
        del self._operations[operation.number]
        # The newest leaves empty progress: no version, older ones too, gives its number again.
        is_newest = operation.number == self._last_number
        left = msgspec.msgpack.encode(OperationProgress()) if is_newest else None
        for kind, value in ((b"d", None), (b"p", left)):
            self.core.define(TABLE_OPERATION, _KEY.pack(kind, operation.number), value, change)

    def _define_progress(self, operation: Operation, change: Change) -> None:
        operation.progress.changed = self.core.utc
        value = msgspec.msgpack.encode(operation.progress)
        self.core.define(TABLE_OPERATION, _KEY.pack(b"p", operation.number), value, change)

    def copy(
        self, operation: Operation, target: OpenQueueDescriptor, message: Message, place: str
    ) -> None:
        """Sends a copy; that it was made is written with it, so that it is not made again."""
        progress, before = operation.progress, operation.progress.place

        def made(change: Change) -> None:
            progress.place, progress.done = place, progress.done + 1
            self._define_progress(operation, change)

        core = self.core
        try:
            if is_transactional(target, message):
                self._copy_in_transaction(target, message, made)
                return
            change = Change()
            self._sending.send(target, message, None, change)
            made(change)
            core.commit(change)
        except QueueError:
            progress.place = before
            raise

    def _copy_in_transaction(
        self, target: OpenQueueDescriptor, message: Message, made: Made
    ) -> None:
        core = self.core
        transaction = self._transactions.create(core.new_guid())
        try:
            self._sending.send(target, message, transaction)
        except QueueError:
            self._transactions.abort(transaction.identifier)
            raise
        self._transactions.commit(transaction.identifier, made)
