"""A queue manager as plain lists and dictionaries: what the engine is held against.

Written from [MS-MQDMPR], the rulings and the design. It knows nothing of records, segments or
indexes: only which letters lie where, who holds them, and which changes belong together.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass

from tests.engine.model.far_readers import FarReaders
from tests.engine.model.ground import Shared
from tests.engine.model.parts import (
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    NACK_QUEUE_DELETED,
    OUT,
    Descriptor,
    Durable,
    Facts,
    Letter,
    Lock,
    Operation,
    Prepared,
    Queue,
    Refusal,
    Transaction,
)


@dataclass
class Kept:
    """What a clean stop keeps beside everything durable: express letters and their books."""

    letters: list[Letter]
    books: dict[int, Counter[str]]


def fresh(journal_quota: int | None) -> Durable:
    """A queue manager that has never run."""
    durable = Durable()
    for number, name in enumerate((DEADLETTER, DEADXACT, JOURNAL), 1):
        durable.queues[-number] = Facts(
            -number, name, "system", transactional=name == DEADXACT, quota=journal_quota
        )
    return durable


class Model(FarReaders):
    """One run of the queue manager, from a start to a stop or a crash."""

    @classmethod
    def started(
        cls,
        durable: Durable,
        shared: Shared,
        now_ms: int,
        utc: int,
        kept: Kept | None = None,
        lost_express: dict[str, int] | None = None,
    ) -> Model:
        """Initialization: everything stored is there again, everything unfinished is undone."""
        model = cls(shared, now_ms, utc)
        for facts in durable.queues.values():
            queue = Queue(copy(facts), books=durable.books.get(facts.number, Counter()).copy())
            model.queues[facts.name] = model.numbered[facts.number] = queue
        model._place(list(durable.letters.values()), kept)
        for name, count in (lost_express or {}).items():
            model.queues[name].express_books.update(accepted=count, lost_express=count)
        for prepared in durable.prepared.values():
            model._resume(prepared)
        model._end_doomed()
        for queue in list(model.queues.values()):
            model.drop_if_empty(queue)
        return model

    def _place(self, letters: list[Letter], kept: Kept | None) -> None:
        for letter in sorted([*letters, *(kept.letters if kept else [])], key=lambda x: x.order):
            queue = self.numbered.get(letter.queue)
            if queue is None:  # deleted while a prepared transaction held it
                facts = Facts(letter.queue, "(deleted)", "plain")
                queue = self.numbered[letter.queue] = Queue(facts, deleted=True)
                self.ghosts.append(queue)
            queue.letters.append(letter.frozen())
        for number, line in (kept.books if kept else {}).items():
            if number in self.numbered:
                self.numbered[number].express_books = line.copy()

    def _resume(self, prepared: Prepared) -> None:
        """A prepared transaction is found again, with its locks and its reservations."""
        transaction = Transaction(prepared.name, self.now_ms, "prepared")
        here = {letter.number: letter for q in self.numbered.values() for letter in q.letters}
        for kind, stored, number, reason in prepared.operations:
            queue = self.numbered.get(number) or Queue(Facts(number, "", "plain"), deleted=True)
            if kind == "send":
                letter = stored.frozen()
            elif stored.number in here:
                letter = here[stored.number]
                letter.lock = Lock(transaction, None, purged=letter.doomed)
            else:
                self.happened("express letter of a prepared receive lost in a crash")
                continue
            if kind == "move":
                self.reserve_move(letter, queue, letter.size)
            if kind == "send":
                queue.reserved += letter.size
                self.reserved += letter.size
            transaction.operations.append(Operation(kind, letter, queue, reason))
        self.transactions[prepared.name] = transaction
        self.happened("prepared transaction found again")

    def _end_doomed(self) -> None:
        doomed = [
            letter
            for queue in self.numbered.values()
            for letter in queue.letters
            if letter.doomed and letter.lock is None
        ]
        for letter in sorted(doomed, key=lambda x: x.number):
            self.happened("purged in somebody's hands, ended at start")
            self.end(letter, letter.doomed)
            self.commit()

    def kept(self) -> Kept:
        """What a clean stop would keep now."""
        queues = list(self.numbered.values())
        letters = [x.frozen() for queue in queues for x in queue.letters if x.express]
        return Kept(letters, {q.number: q.express_books.copy() for q in queues})

    # -- turns

    def begin_turn(self, now_ms: int, utc: int) -> None:
        """The clocks move: letters, waits and idle transactions end."""
        self.now_ms, self.utc = now_ms, utc
        self._expire_letters()
        self._expire_waits()
        self._abort_idle()

    def _expire_letters(self) -> None:
        due = [
            letter
            for queue in self.numbered.values()
            for letter in queue.letters
            if letter.expires is not None and letter.expires <= self.utc
        ]
        for letter in sorted(due, key=lambda x: (x.expires, x.number)):
            if letter.lock is not None:
                letter.lock.expired = True
                continue
            queue = self.numbered[letter.queue]
            self.expire(letter)
            self.commit()
            self.drop_if_empty(queue)

    def _expire_waits(self) -> None:
        due = [w for w in self.waiters() if (w.deadline_ms or self.now_ms + 1) <= self.now_ms]
        for waiter in sorted(due, key=lambda w: (w.deadline_ms, w.order)):
            self.happened("waiting read timed out")
            self.end_wait(waiter, Refusal("IoTimeout"))

    def _abort_idle(self) -> None:
        busy = {id(waiter.transaction) for waiter in self.waiters()}
        active = [t for t in self.transactions.values() if t.state == "active"]
        for transaction in sorted(active, key=lambda t: t.last_used_ms):
            if transaction.last_used_ms > self.now_ms - self.shared.idle_ms:
                continue
            if id(transaction) in busy:
                self.touch(transaction)
            else:
                self.happened("idle transaction aborted")
                self.abort(transaction.name)

    def next_due_ms(self) -> int | None:
        """When the next letter, wait or transaction ends by itself."""
        due = [waiter.deadline_ms for waiter in self.waiters() if waiter.deadline_ms is not None]
        due += [
            self.now_ms + max(0, letter.expires - self.utc) * 1000
            for queue in self.numbered.values()
            for letter in queue.letters
            if letter.expires is not None and letter.lock is None
        ]
        busy = {id(waiter.transaction) for waiter in self.waiters()}
        due += [
            transaction.last_used_ms + self.shared.idle_ms
            for transaction in self.transactions.values()
            if transaction.state == "active" and id(transaction) not in busy
        ]
        return min(due, default=None)

    def stop(self) -> None:
        """Queue Manager Stopped: whoever waits is told."""
        for waiter in sorted(self.waiters(), key=lambda w: w.order):
            self.end_wait(waiter, Refusal("OperationCancelled"))

    # -- queues

    def create(self, name: str, *, transactional: bool, journaling: bool) -> None:
        """Create Queue, with its journal."""
        if name in self.queues:
            raise Refusal("QueueExists")
        root = Facts(
            self.shared.next_number(),
            name,
            "plain",
            transactional=transactional,
            journaling=journaling,
        )
        journal = Facts(
            self.shared.next_number(),
            f"{name};journal",
            "journal",
            transactional=transactional,
            parent=root.number,
        )
        for facts in (root, journal):
            queue = self.queues[facts.name] = self.numbered[facts.number] = Queue(facts)
            self.define(queue)
        self.commit()

    def create_outgoing(self) -> None:
        """An outgoing queue comes into being when somebody opens it to send."""
        facts = Facts(self.shared.next_number(), OUT, "outgoing")
        self.queues[OUT] = self.numbered[facts.number] = Queue(facts)
        self.define(self.queues[OUT])
        self.commit()

    def delete(self, name: str) -> None:
        """Delete Queue, with its subqueues and its journal, in one step."""
        root = self.queues.get(name)
        if root is None:
            raise Refusal("QueueNotFound")
        family = [root, *self.subqueues(root), self.queues[f"{name};journal"]]
        for queue in family:  # its names go first: nothing comes back to it
            del self.queues[queue.name]
        for queue in family:
            self._detach(queue)
        for queue in family:
            self.purge_all(queue, NACK_QUEUE_DELETED)
        for queue in family:
            self.queues[queue.name] = queue
            self.forget(queue)
        self.commit()

    def subqueues(self, root: Queue) -> list[Queue]:
        """The subqueues of a queue, the oldest first."""
        return [
            q for q in self.queues.values() if q.facts.role == "subqueue" and self.root(q) is root
        ]

    def _detach(self, queue: Queue) -> None:
        for waiter in list(queue.waiters):
            self.end_wait(waiter, Refusal("QueueDeleted"))
        for descriptor in queue.descriptors:
            for cursor in list(descriptor.cursors):
                self.close_cursor(cursor)
            for letter in self.held_by(descriptor, queue):
                lock, letter.lock = letter.lock, None
                assert lock is not None
                if lock.purged:
                    self.end(letter, lock.purged)
        for descriptor in queue.descriptors:
            descriptor.queue = None
        queue.descriptors.clear()

    def set_queue(self, name: str, **values: object) -> None:
        """Changes of stored attributes: quota, journal_quota, journaling, readable."""
        queue = self.queues.get(name)
        if queue is None:
            raise Refusal("QueueNotFound")
        if "journal_quota" in values:
            journal = self.queues[f"{name};journal"]
            journal.facts.quota = values.pop("journal_quota")  # type: ignore[assignment]
            self.define(journal)
        for attribute, value in values.items():
            setattr(queue.facts, attribute, value)
        self.define(queue)
        self.commit()

    # -- sending

    def send(
        self, descriptor: Descriptor, letters: list[Letter], transaction: Transaction | None
    ) -> None:
        """Enqueue Message To An Open Queue; of several, all or none."""
        queue = self.check(descriptor, "send")
        if transaction is not None:
            self.use(transaction)
        self._admit(queue, letters, transaction)
        for letter in letters:
            letter.transactional = transaction is not None
            if transaction is not None:
                letter.express, letter.priority = False, 0
                queue.reserved += letter.size
                self.reserved += letter.size
                transaction.operations.append(Operation("send", letter, queue))
            else:
                self.arrive(queue, letter)
                self.arrived(queue, letter)
                self.commit()

    def _admit(self, queue: Queue, letters: list[Letter], transaction: Transaction | None) -> None:
        """Whether a queue takes letters; the machine's quota is tested before its own."""
        total = 0
        for letter in letters:
            total += letter.size
            full = self.why_full(queue, total)
            transactional = transaction is not None
            wrong_kind = queue.facts.transactional != transactional
            if wrong_kind and queue.facts.role != "outgoing":
                raise Refusal("TransactionUsage", *([full] if full else []))
            if full:
                raise Refusal(full)

    # -- transactions

    def begin(self, name: str) -> Transaction:
        """Create Transaction."""
        transaction = self.transactions[name] = Transaction(name, self.now_ms)
        return transaction

    def _find(self, name: str) -> Transaction:
        transaction = self.transactions.get(name)
        if transaction is None:
            raise Refusal("TransactionSequence")
        return transaction

    def _end_waits(self, transaction: Transaction) -> None:
        mine = [waiter for waiter in self.waiters() if waiter.transaction is transaction]
        for waiter in sorted(mine, key=lambda w: w.order):
            self.end_wait(waiter, Refusal("OperationCancelled"))

    def _mark(self, transaction: Transaction) -> None:
        """The first and the last send to each queue, and nothing else."""
        sends: dict[int, list[Letter]] = {}
        for operation in transaction.operations:
            if operation.kind == "send":
                sends.setdefault(operation.queue.number, []).append(operation.letter)
        for letters in sends.values():
            for letter in letters:
                letter.first, letter.last = letter is letters[0], letter is letters[-1]

    def prepare(self, name: str, *, single_phase: bool) -> None:
        """Transaction Prepare; two-phase work is stored and waits for its coordinator."""
        transaction = self._find(name)
        if transaction.state == "prepared" or transaction.unended:
            raise Refusal("TransactionSequence")
        self._end_waits(transaction)
        self._mark(transaction)
        if single_phase:
            return
        transaction.state = "prepared"
        operations = [
            (o.kind, o.letter.frozen(), o.queue.number, o.reason) for o in transaction.operations
        ]
        self.step.append(("prepare", name, Prepared(name, operations)))
        self.commit()

    def transact(self, name: str) -> None:
        """Transaction Commit: everything, in the order it was asked for, in one step."""
        transaction = self._find(name)
        self._end_waits(transaction)
        if transaction.state == "active":
            self._mark(transaction)
        touched = self._touched(transaction)
        for operation in transaction.operations:
            getattr(self, f"_commit_{operation.kind}")(operation)
        self._finish(transaction)
        self.commit()
        for queue in touched:
            self.drop_if_empty(queue)

    def _touched(self, transaction: Transaction) -> list[Queue]:
        queues = [operation.queue for operation in transaction.operations]
        sources = [o.letter.queue for o in transaction.operations if o.kind != "send"]
        queues += [self.numbered[number] for number in sources]
        return [queue for queue in queues if queue.name in self.queues]

    def _commit_send(self, operation: Operation) -> None:
        queue, letter = operation.queue, operation.letter
        queue.reserved -= letter.size
        self.reserved -= letter.size
        if queue.deleted:
            self.undeliverable(letter)
        else:
            self.arrive(queue, letter)
            self.arrived(queue, letter)

    def _commit_receive(self, operation: Operation) -> None:
        letter = operation.letter
        if letter.lock is not None and letter.lock.purged:
            self.happened("purged in somebody's hands, then received")
        letter.lock = None
        self.end(letter, operation.reason)

    def _commit_move(self, operation: Operation) -> None:
        letter, target = operation.letter, operation.queue
        self.reserve_move(letter, target, -letter.size)
        lock, letter.lock = letter.lock, None
        assert lock is not None
        expired = lock.expired or (letter.expires is not None and letter.expires <= self.utc)
        if target.deleted or expired:
            if target.deleted:
                self.happened("committed move to a deleted queue")
            self.returned(letter, lock)
        else:
            self.carry(letter, target)

    def abort(self, name: str) -> None:
        """Transaction Abort: sends vanish, everything else is back where it was, in queue order."""
        transaction = self._find(name)
        self._end_waits(transaction)
        touched = self._touched(transaction)
        for operation in sorted(transaction.operations, key=lambda one: one.letter.order):
            letter = operation.letter
            if operation.kind == "move":
                self.reserve_move(letter, operation.queue, -letter.size)
            if operation.kind == "send":
                operation.queue.reserved -= letter.size
                self.reserved -= letter.size
            if operation.kind != "send":
                lock, letter.lock = letter.lock, None
                assert lock is not None
                if not lock.purged:
                    letter.aborts += 1
                    self.change(letter)
                self.returned(letter, lock)
        self._finish(transaction)
        self.commit()
        for queue in touched:
            self.drop_if_empty(queue)

    def _finish(self, transaction: Transaction) -> None:
        if transaction.state == "prepared":
            self.step.append(("prepare", transaction.name, None))
        transaction.state = "ended"
        del self.transactions[transaction.name]
