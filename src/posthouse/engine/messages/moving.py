"""Move Message and Purge Queue ([MS-MQDMPR] 3.1.7.1.7, 3.1.7.1.16)."""

from __future__ import annotations

from collections import deque
from itertools import islice

from posthouse.engine.ledger.ledger import Extra, Ledger, encode_extra
from posthouse.engine.ledger.order import START, QueuePosition
from posthouse.engine.ledger.parts import (
    ClaimedMessages,
    Endings,
    FailedReads,
    OpenTransactions,
    PacketReads,
)
from posthouse.engine.ledger.records import (
    DOOMED_DELETED,
    DOOMED_PURGED,
    FLAG_TRANSACTIONAL,
    KEPT,
    MOVED,
    NEVER,
    Change,
    Row,
)
from posthouse.engine.ledger.rows import class_of_doom
from posthouse.engine.ledger.steps import Allowance, SteppedWork
from posthouse.engine.ledger.transfer_parts import MachineTransfer
from posthouse.engine.messages.admission import other_kind
from posthouse.engine.queues.queue import Queue, QueueRole
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import (
    MessageLockedUnderTransaction,
    MessageNotFound,
    QueueError,
    QueueQuotaExceeded,
    TransactionUsage,
    UnsupportedOperation,
)

MOVES_MAX = 0xFFFF
ALIASES_MAX = 16  # earlier lookup ids that a much-moved message keeps
_SYSTEM_ROLES = frozenset(
    {
        QueueRole.JOURNAL,
        QueueRole.DEAD_LETTER,
        QueueRole.SYSTEM_JOURNAL,
        QueueRole.INTERNAL,
    }
)


class Emptying(SteppedWork):
    """A purge, or the messages' part of a deletion: of everything that was there when it began.

    It walks the queue once. What arrives meanwhile has a greater lookup id and stays;
    what a reader takes meanwhile was taken before it was purged.
    """

    __slots__ = ("doom", "limit", "place", "queue")

    def __init__(self, queue: Queue, doom: int, limit: int) -> None:
        super().__init__()
        self.queue = queue
        self.doom = doom
        self.limit = limit  # the first lookup id that is spared
        self.place: QueuePosition = START


class Moving:
    """Moves messages between queues, and purges queues."""

    def __init__(
        self,
        core: Ledger,
        reading: PacketReads,
        groups: ClaimedMessages,
        outcomes: Endings,
        transfer: MachineTransfer,
    ) -> None:
        self.core = core
        self._reading = reading
        self._groups = groups
        self._outcomes = outcomes
        self._transfer = transfer
        self._allowance = Allowance(core.settings)
        self._turn = core.turn  # whose allowance that is
        self._unfinished: deque[Emptying] = deque()
        self.begun: list[Emptying] = []

    def connect(self, poison: FailedReads, transactions: OpenTransactions) -> None:
        """Parts that are made after this one, since they need it."""
        self._poison = poison
        self._transactions = transactions

    def move(
        self,
        source: Queue,
        lookup_id: int,
        target: Queue,
        transaction: Transaction | None,
        reason: str = "",
    ) -> None:
        """Move Message (3.1.7.1.16); with a reason it is kept, and the queue it came from."""
        if target.definition.role in _SYSTEM_ROLES and transaction is not None:
            raise TransactionUsage("a message cannot be moved into a system queue in a transaction")
        self._reading.check_transaction(target, transaction)
        row = self.check(source, lookup_id, target)
        number = source.current_number(lookup_id)
        self._reading.release(number)
        if transaction is not None:
            self._transactions.add_move(transaction, source, number, target)
            return
        change = Change()
        failed_in = source.name if reason and target.root is not source.root else ""
        self.relocate(source, number, row, target, MOVED, change, failed_in, reason)
        self.core.commit(change)

    def check(self, source: Queue, lookup_id: int, target: Queue, before: int = 0) -> Row:
        """Every reason not to move a message, with this many bytes in front of it; its row."""
        row = self._reading.row(self.movable(source, lookup_id))
        self.admit(source, row, target, before)
        return row

    def movable(self, source: Queue, lookup_id: int) -> int:
        """The message, under its identifier or one it had before a move."""
        number = source.current_number(lookup_id)
        if not number or self._reading.row(number).queue != source.number:
            raise MessageNotFound(f"no message with lookup id {lookup_id} is in {source.name}")
        self._groups.check_taking(source, self._reading.row(number).lookup_id)
        lock = self.core.locks.get(number)
        if lock is None or number in self._reading.damaged:
            return number
        if lock.transaction is not None and not lock.purged:
            raise MessageLockedUnderTransaction(
                f"the message with lookup id {lookup_id} is part of a transaction"
            )
        raise MessageNotFound(f"the message with lookup id {lookup_id} is not available")

    def admit(self, source: Queue, row: Row, target: Queue, before: int = 0) -> None:
        """Every reason why the target does not take the message."""
        if source is target:
            raise UnsupportedOperation(
                "the message is already in that queue", "Name another queue to move it to."
            )
        root = target.root
        if root is not source.root and not root.has_room_for(before + row.size):
            raise QueueQuotaExceeded(f"the quota of {root.name} would be exceeded")
        if target.definition.role in _SYSTEM_ROLES:
            return
        if target.definition.transactional is not bool(row.flags & FLAG_TRANSACTIONAL):
            # Choice: a move must not bring in what a send could not.
            raise other_kind(
                target,
                "It keeps its kind when it is moved. `posthouse message resend SRC --to DEST` "
                "sends it there as a new message, and removes it here.",
            )

    def relocate(
        self,
        source: Queue,
        number: int,
        row: Row,
        target: Queue,
        reason: int,
        change: Change,
        failed_in: str = "",
        move_reason: str = "",
    ) -> None:
        """A message changes its queue and its lookup id; the family still has the old one."""
        core = self.core
        system = target.definition.role in _SYSTEM_ROLES
        moved = row._replace(
            lookup_id=core.lookup_ids.next(),
            queue=target.number,
            expires=NEVER if system else row.expires,  # 3.1.2.4: private and public queues only
            aborts=0,  # counted since it was placed in its queue
            moves=min(row.moves + 1, MOVES_MAX),
            last_move=core.utc,
            doomed=0,
        )
        if source.outgoing is not None:
            self._transfer.sequences.left(source, (row.flags,))
        extra = core.extra(number)
        core.forget_aliases(number, row)
        extra.aliases = self._aliases(source, number, row, target, extra.aliases)
        extra.retry_at, extra.failed_in, extra.move_reason = 0, failed_in, move_reason
        data = encode_extra(extra) if extra != Extra() else b""
        core.settle(number, moved, reason, change, data)
        core.announce(target, number)

    def _aliases(
        self, source: Queue, number: int, row: Row, target: Queue, known: list[int]
    ) -> list[int]:
        """The identifiers a moved message answers to beside its own: those of its family."""
        if source.root is not target.root:
            return []
        aliases = [*known, row.lookup_id][-ALIASES_MAX:]
        for alias in aliases:
            target.root.aliases[alias] = number
        return aliases

    # -- purge and delete, in steps

    def purge(self, queue: Queue, doom: int = DOOMED_PURGED, change: Change | None = None) -> int:
        """Purge Queue (3.1.7.1.7), and the messages' part of Delete Queue (3.1.7.1.4).

        What a group has claimed stays. The first step is part of `change`, if there is one. Returns
        the number of messages. Before you answer, wait for what `take_begun` returns: many messages
        take several turns.
        """
        found = self.purgeable(queue)
        emptying = Emptying(queue, doom, self.core.lookup_ids.value)
        self._step(emptying, change)
        if not emptying.done:
            self._unfinished.append(emptying)
            self.begun.append(emptying)
            self.core.deadlines.note(self.core.now_ms)
        return found

    def purgeable(self, queue: Queue) -> int:
        """How many messages a purge finds."""
        state, claim = queue.state, queue.claim
        return state.count if claim is None else state.count - state.order.count_of(claim)

    def take_begun(self) -> list[Emptying]:
        """What was begun since the last call of this and is not done yet."""
        begun, self.begun = self.begun, []
        return begun

    def go_on(self) -> None:
        """A new turn: the next step of what is unfinished, each in its turn."""
        unfinished = self._unfinished
        while unfinished and not self.allowance.spent:
            emptying = unfinished.popleft()
            self._step(emptying)
            if not emptying.done:
                unfinished.append(emptying)

    @property
    def allowance(self) -> Allowance:
        """What this turn may still do."""
        if self._turn != self.core.turn:
            self._turn, self._allowance = self.core.turn, Allowance(self.core.settings)
        return self._allowance

    def break_off(self, error: QueueError) -> None:
        """The queue manager stops: a purge ends where it is, a deletion after the next start."""
        for emptying in self._unfinished:
            emptying.done, emptying.error = True, error
        self._unfinished.clear()

    def next_deadline_ms(self) -> int | None:
        """At once while anything is unfinished."""
        return self.core.now_ms if self._unfinished else None

    def _step(self, emptying: Emptying, change: Change | None = None) -> None:
        allowance, queue = self.allowance, emptying.queue
        step = Change() if change is None else change
        ahead, purged = queue.state.order.forward(emptying.place, without=queue.claim), 0
        for place, number in list(islice(ahead, max(allowance.messages, 0) + 1)):
            if allowance.spent:
                break
            emptying.place = place
            row = self._reading.row(number)
            allowance.spend(row)
            if place.lookup_id < emptying.limit and self._end(
                queue, number, row, emptying.doom, step
            ):
                purged = max(purged, place.lookup_id)
        else:
            emptying.done = True
        if purged:
            self._groups.note_purged(queue, purged, step)
        if change is None:
            self.core.commit(step)

    def _end(self, queue: Queue, number: int, row: Row, doom: int, step: Change) -> bool:
        """Ends a message; one that somebody holds when it is not received after all."""
        core, message_class = self.core, class_of_doom(doom)
        self._reading.release(number)
        self._poison.release(number)
        lock = core.locks.get(number)
        if lock is None:
            self._outcomes.delete(queue, number, row, message_class, step)
        elif not lock.purged:
            core.locks[number] = lock.of_purged(message_class)
            core.settle(number, row._replace(doomed=doom), KEPT, step)
        return lock is None

    def empty_deleted(self) -> None:
        """At start: a deletion goes on if the last process did not come to its end."""
        for number in sorted(self.core.deleted_queues):
            self.purge(self.core.queues[number], DOOMED_DELETED)
        self.begun.clear()  # no caller waits for it at start

    def end_doomed(self) -> None:
        """At start: the holder of a purged message is gone, so it ends as purged."""
        for number in sorted(self.core.state.doomed):  # in the order they came
            row = self._reading.row(number)
            if number not in self.core.locks:
                queue = self.core.queues[row.queue]
                self._groups.note_purged(queue, row.lookup_id, None)
                self._outcomes.delete(queue, number, row, class_of_doom(row.doomed))
