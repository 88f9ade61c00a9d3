"""Move Message and Purge Queue ([MS-MQDMPR] 3.1.7.1.7, 3.1.7.1.16)."""

from __future__ import annotations

from posthouse.engine.core import Core, encode_extra
from posthouse.engine.queue import Queue, QueueRole
from posthouse.engine.records import (
    DOOMED_DELETED,
    DOOMED_PURGED,
    KEPT,
    MOVED,
    Change,
    Row,
)
from posthouse.engine.transaction import Transaction
from posthouse.model.errors import (
    MessageNotFound,
    QueueQuotaExceeded,
    TransactionUsage,
    UnsupportedOperation,
)
from posthouse.model.message import NACK_QUEUE_DELETED, NACK_QUEUE_PURGED

MOVES_MAX = 0xFFFF
ALIASES_MAX = 16  # earlier lookup ids that a much-moved message keeps
CLASS_OF_DOOM = {DOOMED_PURGED: NACK_QUEUE_PURGED, DOOMED_DELETED: NACK_QUEUE_DELETED}
_SYSTEM_ROLES = frozenset(
    {
        QueueRole.JOURNAL,
        QueueRole.DEAD_LETTER,
        QueueRole.SYSTEM_JOURNAL,
        QueueRole.INTERNAL,
    }
)


class Moving:
    """How messages change their queue, or leave it all at once."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def move(
        self, source: Queue, lookup_id: int, target: Queue, transaction: Transaction | None
    ) -> None:
        """Move Message (3.1.7.1.16)."""
        if target.definition.role in _SYSTEM_ROLES and transaction is not None:
            raise TransactionUsage("a message cannot be moved into a system queue in a transaction")
        number = source.current_number(lookup_id)
        if not number or self.core.reading.row(number).queue != source.number:
            raise MessageNotFound(f"no message with lookup id {lookup_id} is in {source.name}")
        if number in self.core.locks:
            raise MessageNotFound(f"the message with lookup id {lookup_id} is not available")
        if source is target:
            raise UnsupportedOperation("a message cannot be moved to where it is")
        row = self.core.reading.row(number)
        if target.state.bytes + target.reserved + row.size > target.limit:
            raise QueueQuotaExceeded(f"the quota of {target.name} would be exceeded")
        if transaction is not None:
            self.core.reading.check_transaction(source, transaction)
            self.core.transactions.add_move(transaction, source, number, target)
            return
        change = Change()
        self.relocate(source, number, row, target, MOVED, change)
        self.core.commit(change)

    def relocate(
        self, source: Queue, number: int, row: Row, target: Queue, reason: int, change: Change
    ) -> None:
        """A message changes its queue and its lookup id; the family still knows the old one."""
        core = self.core
        moved = row._replace(
            lookup_id=core.lookup_ids.next(),
            queue=target.number,
            moves=min(row.moves + 1, MOVES_MAX),
            last_move=core.utc,
            doomed=0,
        )
        extra = core.extra(number)
        if source.root is target.root:
            extra.aliases = [*extra.aliases, row.lookup_id][-ALIASES_MAX:]
            source.root.aliases[row.lookup_id] = number
        else:
            core.forget_aliases(number, row)
            extra.aliases = []
        core.settle(number, moved, reason, change, encode_extra(extra))
        core.announce(target, number)

    def purge(self, queue: Queue, doom: int = DOOMED_PURGED, change: Change | None = None) -> int:
        """Purge Queue (3.1.7.1.7), and the messages' part of Delete Queue (3.1.7.1.4)."""
        core, message_class = self.core, CLASS_OF_DOOM[doom]
        step = Change() if change is None else change
        numbers = [number for _, number in queue.state.order.forward()]
        for number in numbers:
            row = self.core.reading.row(number)
            lock = core.locks.get(number)
            if lock is None:
                core.outcomes.delete(queue, number, row, message_class, step)
            elif not lock.purged:
                lock.purged = message_class
                core.settle(number, row._replace(doomed=doom), KEPT, step)
        if change is None:
            core.commit(step)
        return len(numbers)

    def class_of_doom(self, row: Row) -> int:
        """The class with which a message purged in somebody's hands ends; 0: it was not."""
        return CLASS_OF_DOOM.get(row.doomed, 0)

    def end_doomed(self) -> None:
        """At start: whoever held a purged message is gone, so it ends as purged."""
        for number in list(self.core.state.doomed):
            row = self.core.reading.row(number)
            if number not in self.core.locks:
                queue = self.core.queues[row.queue]
                self.core.outcomes.delete(queue, number, row, self.class_of_doom(row))
