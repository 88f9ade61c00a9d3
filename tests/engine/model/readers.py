"""Open queues, reads of every kind, cursors, waits, moves and purges of the model."""

from __future__ import annotations

from collections.abc import Iterator

from tests.engine.model.ground import Got, Ground
from tests.engine.model.parts import (
    ACK_RECEIVE,
    NACK_QUEUE_PURGED,
    OUT,
    Cursor,
    Descriptor,
    Facts,
    Letter,
    Lock,
    Operation,
    Queue,
    Refusal,
    Transaction,
    Waiter,
)

PERMITS = {
    "send": {"send"},
    "peek": {"peek"},
    "receive": {"peek", "receive"},
    "move": {"move"},
}
ALIASES_MAX = 16


class Readers(Ground):
    """What readers can do, and what becomes of the letters they hold."""

    # -- open and close

    def open(self, name: str, access: str, caller: str) -> Descriptor:
        """Open Queue; a missing subqueue comes into being for a reader with the right to it."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self._missing_subqueue(name, access, caller)
        elif access == "send" and queue.facts.role not in ("plain", "outgoing"):
            raise Refusal("UnsupportedFormatNameOperation")
        self._require(queue, access, caller)
        descriptor = Descriptor(self.shared.next_number(), name, access, caller, queue)
        queue.descriptors.append(descriptor)
        self.commit()
        return descriptor

    def _missing_subqueue(self, name: str, access: str, caller: str) -> Queue:
        root = self.queues.get(name.partition(";")[0])
        if root is None or ";" not in name or access == "send":
            raise Refusal("QueueNotFound")
        self._require(root, access, caller)
        facts = Facts(
            self.shared.next_number(),
            name,
            "subqueue",
            transactional=root.facts.transactional,
            parent=root.number,
        )
        queue = self.queues[name] = self.numbered[facts.number] = Queue(facts)
        self.define(queue)
        self.happened("subqueue made by opening it")
        return queue

    def _require(self, queue: Queue, access: str, caller: str) -> None:
        """Rights: the administrator's on everything, the user's where the queue gives them."""
        if caller == "admin" or access == "send":
            return
        root = self.root(queue)
        if root.facts.role != "plain" or not root.facts.readable:
            raise Refusal("AccessDenied")

    def check(self, descriptor: Descriptor, access: str) -> Queue:
        """Whether an operation may use the descriptor, looked up again each time."""
        if access not in PERMITS[descriptor.access]:
            raise Refusal("AccessDenied")
        if descriptor.queue is None:
            raise Refusal("QueueNotAvailable")
        self._require(descriptor.queue, descriptor.access, descriptor.caller)
        return descriptor.queue

    def close(self, descriptor: Descriptor, *, in_doubt: bool = False) -> None:
        """Close Queue: waits and cursors end, unfinished reads are given back in queue order."""
        if descriptor.closed:
            raise Refusal("InvalidHandle")
        descriptor.closed = True
        queue = descriptor.queue
        if queue is None:
            return
        for waiter in [w for w in queue.waiters if w.descriptor is descriptor]:
            self.end_wait(waiter, Refusal("OperationCancelled"))
        for cursor in list(descriptor.cursors):
            self.close_cursor(cursor)
        for letter in self.held_by(descriptor, queue):
            self.happened("unfinished read given back by closing")
            self.give_back(letter, in_doubt=in_doubt)
        queue.descriptors.remove(descriptor)
        descriptor.queue = None
        self.drop_if_empty(queue)

    def held_by(self, descriptor: Descriptor, queue: Queue) -> list[Letter]:
        """What a reader has read and not ended, outside transactions."""
        return [
            letter
            for letter in queue.letters
            if letter.lock is not None
            and letter.lock.holder is descriptor
            and letter.lock.transaction is None
        ]

    def drop_if_empty(self, queue: Queue) -> None:
        """A subqueue that nobody has open and nothing is in, or on its way to, goes away."""
        awaited = any(
            operation.kind == "move" and operation.queue is queue
            for transaction in self.transactions.values()
            for operation in transaction.operations
        )
        if queue.facts.role != "subqueue" or queue.deleted or awaited:
            return
        if queue.letters or queue.descriptors:
            return
        self.happened("empty subqueue went away")
        self.forget(queue)
        self.close_step()

    def forget(self, queue: Queue) -> None:
        """A queue is no more; letters that transactions hold are all that may be left of it."""
        queue.deleted = True
        del self.queues[queue.name]
        if queue.letters:
            self.ghosts.append(queue)
        else:
            del self.numbered[queue.number]
        self.step.append(("queue", queue.number, None))

    # -- cursors

    def open_cursor(self, descriptor: Descriptor) -> Cursor:
        """Open Cursor: before the first letter, unread."""
        if descriptor.queue is None:
            raise Refusal("QueueNotAvailable")
        if descriptor.access == "send":
            raise Refusal("AccessDenied")
        cursor = Cursor(descriptor)
        descriptor.cursors.append(cursor)
        return cursor

    def close_cursor(self, cursor: Cursor) -> None:
        """Close Cursor: the read that waits on it ends."""
        if cursor.closed:
            raise Refusal("InvalidHandle")
        queue = cursor.descriptor.queue
        for waiter in list(queue.waiters) if queue is not None else []:
            if waiter.cursor is cursor:
                self.end_wait(waiter, Refusal("OperationCancelled"))
        cursor.closed = True
        cursor.descriptor.cursors.remove(cursor)

    def _check_cursor(self, cursor: Cursor, *states: str) -> None:
        if cursor.closed or cursor.state not in states:
            raise Refusal("IllegalCursorAction")

    # -- seeking

    def _seek(
        self, queue: Queue, *, peek: bool, behind: tuple[int, int] | None = None
    ) -> Letter | None:
        for letter in queue.letters:
            if (behind is None or letter.order > behind) and self.visible(letter, peek=peek):
                return letter
        return None

    def _under(self, queue: Queue, cursor: Cursor, *, peek: bool) -> Letter:
        for letter in queue.letters:
            if letter.order == cursor.place and self.visible(letter, peek=peek):
                return letter
        raise Refusal("MessageAlreadyReceived")

    def check_transaction(self, queue: Queue, transaction: Transaction | None) -> None:
        """Whether the queue can take part; system queues and journals always can."""
        if transaction is None:
            return
        self.use(transaction)
        special = queue.facts.role in ("journal", "system")
        if not queue.facts.transactional and not special:
            raise Refusal("TransactionUsage")

    def use(self, transaction: Transaction) -> None:
        """An operation is to be added to a transaction that is still open for that."""
        if transaction.state != "active":
            raise Refusal("TransactionSequence")
        self.touch(transaction)

    # -- receive

    def dequeue(
        self,
        descriptor: Descriptor,
        *,
        timeout_ms: int | None,
        cursor: Cursor | None = None,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        tag: str = "",
    ) -> Got | Waiter:
        """Dequeue Message, and Dequeue Message Begin."""
        queue = self.check(descriptor, "receive")
        self.check_transaction(queue, transaction)
        if cursor is None:
            letter = self._seek(queue, peek=False)
        else:
            letter = self._through_cursor(queue, cursor, timeout_ms)
        if letter is None:
            two_phase = two_phase and transaction is None
            return self._wait(descriptor, True, timeout_ms, tag, cursor, transaction, two_phase)
        if cursor is not None:
            cursor.state, cursor.place = "unread", letter.order
        got = Got(letter.frozen())
        self._take(letter, descriptor, transaction, two_phase=two_phase)
        self.commit()
        return got

    def _through_cursor(
        self, queue: Queue, cursor: Cursor, timeout_ms: int | None
    ) -> Letter | None:
        self._check_cursor(cursor, "unread", "read")
        if cursor.state == "read":
            return self._under(queue, cursor, peek=False)
        letter = self._seek(queue, peek=False, behind=cursor.place)
        if letter is None and timeout_ms == 0:
            raise Refusal("MessageNotFound")
        return letter

    def dequeue_many(
        self, descriptor: Descriptor, count: int, transaction: Transaction | None
    ) -> list[Got]:
        """Up to `count` letters that are there: what their ends bring comes with the next call."""
        queue = self.check(descriptor, "receive")
        self.check_transaction(queue, transaction)
        got: list[Got] = []
        for letter in [one for one in queue.letters if self.visible(one, peek=False)][:count]:
            got.append(Got(letter.frozen()))
            self._take(letter, descriptor, transaction)
        self.commit()
        return got

    def _take(
        self,
        letter: Letter,
        descriptor: Descriptor,
        transaction: Transaction | None,
        *,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> None:
        """Locked by the transaction, locked until the reader's end, or received for good."""
        if transaction is not None:
            queue = self.numbered[letter.queue]
            letter.lock = Lock(transaction, descriptor, allow_peek)
            transaction.operations.append(Operation("receive", letter, queue))
            if transaction.unended is not None:
                transaction.unended.add(letter.number)
        elif two_phase:
            letter.lock = Lock(None, descriptor, allow_peek)
        else:
            self.end(letter, ACK_RECEIVE)
            self.close_step()

    def end_dequeue(
        self, descriptor: Descriptor, place: int, *, positive: bool, reason: int = ACK_RECEIVE
    ) -> None:
        """Dequeue Message End: only by the reader, only of what it read."""
        queue = self.check(descriptor, "receive")
        letter = self._current(queue, place)
        lock = letter.lock if letter is not None else None
        if letter is None or lock is None or lock.holder is not descriptor:
            raise Refusal("TransactionSequence")
        if lock.transaction is not None:
            self._end_in_transaction(letter, lock.transaction, positive, reason)
        elif positive:
            if lock.purged:
                self.happened("purged in somebody's hands, then received")
            letter.lock = None
            self.end(letter, reason)
        else:
            self.give_back(letter)
        self.commit()

    def _end_in_transaction(
        self, letter: Letter, transaction: Transaction, positive: bool, reason: int
    ) -> None:
        """Positive: it stays locked to its transaction. Negative: it leaves the transaction."""
        if positive and reason == ACK_RECEIVE and transaction.unended is None:
            return
        self.use(transaction)
        if transaction.unended is not None:
            transaction.unended.discard(letter.number)
        mine = [o for o in transaction.operations if o.letter is letter and o.kind == "receive"]
        if positive:
            for operation in mine:
                if reason != ACK_RECEIVE:  # who rejected it before has not taken that back
                    operation.reason = reason
            return
        transaction.operations = [o for o in transaction.operations if o not in mine]
        self.give_back(letter)

    def give_back(self, letter: Letter, *, in_doubt: bool = False) -> None:
        """A letter is its reader's no more; in doubt: the reader was lost with it."""
        lock, letter.lock = letter.lock, None
        assert lock is not None
        if in_doubt and not lock.purged:
            self.happened("given back in doubt")
            letter.in_doubt = True
            self.change(letter)
        self.returned(letter, lock)
        self.commit()

    # -- peek

    def peek(
        self,
        descriptor: Descriptor,
        *,
        timeout_ms: int | None,
        cursor: Cursor | None = None,
        tag: str = "",
    ) -> Got | Waiter:
        """Peek Message."""
        queue = self.check(descriptor, "peek")
        if cursor is None:
            letter = self._seek(queue, peek=True)
        else:
            self._check_cursor(cursor, "unread", "read")
            if cursor.state == "read":
                return Got(self._under(queue, cursor, peek=True).frozen())
            letter = self._seek(queue, peek=True, behind=cursor.place)
        return self._peeked(descriptor, letter, timeout_ms, cursor, tag)

    def peek_next(
        self, descriptor: Descriptor, cursor: Cursor, *, timeout_ms: int | None, tag: str = ""
    ) -> Got | Waiter:
        """Peek Next Message."""
        queue = self.check(descriptor, "peek")
        self._check_cursor(cursor, "read")
        letter = self._seek(queue, peek=True, behind=cursor.place)
        return self._peeked(descriptor, letter, timeout_ms, cursor, tag)

    def _peeked(
        self,
        descriptor: Descriptor,
        letter: Letter | None,
        timeout_ms: int | None,
        cursor: Cursor | None,
        tag: str,
    ) -> Got | Waiter:
        if letter is None:
            return self._wait(descriptor, False, timeout_ms, tag, cursor, None, False)
        if cursor is not None:
            cursor.state, cursor.place = "read", letter.order
        return Got(letter.frozen())

    # -- by lookup identifier

    def _current(self, queue: Queue, place: int) -> Letter | None:
        """By its identifier, or one it had before a move within the family."""
        for letter in queue.letters:
            if place == letter.place or place in letter.aliases:
                return letter
        return None

    def lookup(
        self,
        descriptor: Descriptor,
        place: int,
        action: str,
        *,
        peek: bool,
        transaction: Transaction | None = None,
        two_phase: bool = False,
        allow_peek: bool = False,
    ) -> Got:
        """Read Message By Lookup Identifier."""
        queue = self.check(descriptor, "peek" if peek else "receive")
        if peek and transaction is not None:
            raise Refusal("TransactionUsage")
        self.check_transaction(queue, transaction)
        letter = self._sought(queue, place, action, peek=peek)
        got = Got(letter.frozen())
        if not peek:
            self._take(letter, descriptor, transaction, two_phase=two_phase, allow_peek=allow_peek)
            self.commit()
        return got

    def _sought(self, queue: Queue, place: int, action: str, *, peek: bool) -> Letter:
        if action == "current":
            return self._available(self._current(queue, place), peek=peek)
        rows = list(queue.letters)
        if action in ("next", "previous"):
            at = [i for i, letter in enumerate(rows) if letter.place == place]
            if not at:
                raise Refusal("MessageNotFound")
            rows = rows[at[0] + 1 :] if action == "next" else rows[: at[0]]
        if action in ("last", "previous"):
            rows.reverse()
        for letter in rows:
            if self.visible(letter, peek=peek):
                return letter
        raise Refusal("MessageNotFound")

    def _available(self, letter: Letter | None, *, peek: bool) -> Letter:
        if letter is None:
            raise Refusal("MessageNotFound")
        if self.visible(letter, peek=peek):
            return letter
        assert letter.lock is not None
        if not peek:
            raise Refusal("MessageNotFound")
        raise Refusal("MessageAlreadyReceived" if letter.lock.purged else "TransactionUsage")

    # -- waiting

    def _wait(
        self,
        descriptor: Descriptor,
        destructive: bool,
        timeout_ms: int | None,
        tag: str,
        cursor: Cursor | None,
        transaction: Transaction | None,
        two_phase: bool,
    ) -> Waiter:
        if timeout_ms == 0:
            if cursor is not None:
                cursor.state = "unread"  # it waited, for no time at all
            raise Refusal("IoTimeout")
        deadline = None if timeout_ms is None else self.now_ms + timeout_ms
        self.shared.orders += 1
        waiter = Waiter(
            descriptor,
            destructive,
            deadline,
            tag,
            cursor,
            transaction,
            two_phase,
            self.shared.orders,
        )
        assert descriptor.queue is not None
        descriptor.queue.waiters.append(waiter)
        if cursor is not None:
            cursor.state = "wait_receive" if destructive else "wait_peek"
        return waiter

    def waiters(self) -> Iterator[Waiter]:
        """Every read that waits."""
        for queue in self.queues.values():
            yield from queue.waiters

    def _refuses(self, waiter: Waiter) -> Refusal | None:
        try:
            self.check(waiter.descriptor, "receive" if waiter.destructive else "peek")
            if waiter.transaction is not None:
                self.use(waiter.transaction)
        except Refusal as refusal:
            return refusal
        return None

    def _satisfy(self, waiter: Waiter, letter: Letter) -> None:
        queue = waiter.descriptor.queue
        assert queue is not None
        queue.waiters.remove(waiter)
        if waiter.cursor is not None:
            waiter.cursor.state = "unread" if waiter.destructive else "read"
            waiter.cursor.place = letter.order
            self.happened("waiting cursor served")
        self.happened("waiting receive served" if waiter.destructive else "waiting peek served")
        self.answers.append((waiter, Got(letter.frozen())))
        if waiter.destructive:
            self._take(letter, waiter.descriptor, waiter.transaction, two_phase=waiter.two_phase)

    def cancel(self, descriptor: Descriptor, tag: str) -> None:
        """Cancel Waiting Message Read Request."""
        if descriptor.queue is None:
            raise Refusal("QueueNotAvailable")
        for waiter in descriptor.queue.waiters:
            if waiter.tag == tag:
                self.end_wait(waiter, Refusal("OperationCancelled"))
                return
        raise Refusal("StatusNotFound")

    # -- move and purge

    def move(
        self,
        source: Descriptor,
        place: int,
        target: Descriptor,
        transaction: Transaction | None,
    ) -> None:
        """Move Message: a new identifier; the family still knows the old one."""
        from_queue = self.check(source, "move" if source.access == "move" else "receive")
        to_queue = self.check(target, "move")
        if source.caller != target.caller:
            raise Refusal("AccessDenied")
        if transaction is not None and to_queue.facts.role in ("journal", "system"):
            raise Refusal("TransactionUsage")
        self.check_transaction(to_queue, transaction)
        letter = self._movable(from_queue, place)
        reasons = self._why_not_there(from_queue, letter, to_queue)
        if reasons:
            raise Refusal(*reasons)
        if transaction is not None:
            letter.lock = Lock(transaction, None)
            self.reserve_move(letter, to_queue, letter.size)
            transaction.operations.append(Operation("move", letter, to_queue))
            return
        self.carry(letter, to_queue)
        self.commit()

    def _movable(self, queue: Queue, place: int) -> Letter:
        letter = self._current(queue, place)
        if letter is None:
            raise Refusal("MessageNotFound")
        lock = letter.lock
        if lock is None:
            return letter
        locked = lock.transaction is not None and not lock.purged
        raise Refusal("MessageLockedUnderTransaction" if locked else "MessageNotFound")

    def _why_not_there(self, source: Queue, letter: Letter, target: Queue) -> list[str]:
        reasons = []
        if source is target:
            reasons.append("UnsupportedOperation")
        root = self.root(target)
        if root is not self.root(source) and not self.has_room(root, letter.size):
            reasons.append("QueueQuotaExceeded")
        special = target.facts.role in ("journal", "system")
        if target.facts.transactional != letter.transactional and not special:
            reasons.append("TransactionUsage")
        return reasons

    def carry(self, letter: Letter, target: Queue) -> None:
        """A letter changes its queue; its aborts are counted again."""
        source = self.numbered[letter.queue]
        same_family = self.root(source) is self.root(target)
        aliases = (*letter.aliases, letter.place)[-ALIASES_MAX:] if same_family else ()
        letter.aliases = aliases
        letter.aborts, letter.doomed = 0, 0
        letter.moves += 1
        letter.last_move = self.utc
        self.happened("moved inside its family" if same_family else "moved to another family")
        self.relocate(letter, target, "moved_away")
        self.announce(target, letter)

    def purge(self, descriptor: Descriptor) -> int:
        """Purge Queue: what is available ends, what somebody holds never becomes available."""
        queue = self.check(descriptor, "receive")
        found = len(queue.letters)
        self.purge_all(queue, NACK_QUEUE_PURGED)
        self.commit()
        return found

    def purge_all(self, queue: Queue, message_class: int) -> None:
        """Every letter of a queue, for one reason."""
        for letter in list(queue.letters):
            if letter.lock is None:
                self.end(letter, message_class)
            elif not letter.lock.purged:
                letter.lock.purged = letter.doomed = message_class
                self.happened("purged in somebody's hands")
                self.change(letter)

    # -- outgoing queues

    def set_on_hold(self, on_hold: bool) -> None:
        """Pause Queue and Resume Queue."""
        queue = self.queues[OUT]
        queue.facts.on_hold = on_hold
        self.define(queue)
        self.commit()
