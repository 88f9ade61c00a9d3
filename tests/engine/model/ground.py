"""The ground of the model: how letters come, change and end, and what follows from their ends."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.engine.model.parts import (
    ACK_REACH_QUEUE,
    ACK_RECEIVE,
    COLUMN_OF_CLASS,
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    NACK_QUEUE_DELETED,
    NACK_QUEUE_PURGED,
    NACK_REACH_QUEUE_TIMEOUT,
    NACK_RECEIVE_TIMEOUT,
    Facts,
    Letter,
    Lock,
    Queue,
    Refusal,
    Step,
    Transaction,
    Waiter,
)

NACK_PURGED = 0x8001
_NEGATIVE, _RECEIVING = 0x8000, 0x4000


@dataclass
class Shared:
    """What outlives a restart of the model: its counters, limits and tally."""

    size_of_acknowledgment: Callable[[Letter, int, str], int]
    machine_quota: int | None = None
    idle_ms: int = 60_000
    happened: Counter[str] = field(default_factory=Counter)
    numbers: int = 0
    places: int = 0
    orders: int = 0

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers


@dataclass(frozen=True)
class Got:
    """A reader gets this letter, as it was when it was found."""

    letter: Letter


class Ground:
    """State of a running queue manager, and the changes of single letters."""

    def __init__(self, shared: Shared, now_ms: int, utc: int) -> None:
        self.shared = shared
        self.now_ms, self.utc = now_ms, utc
        self.reserved = 0  # bytes of uncommitted sends
        self.queues: dict[str, Queue] = {}
        self.ghosts: list[Queue] = []  # deleted, with letters that transactions hold
        self.numbered: dict[int, Queue] = {}
        self.transactions: dict[str, Transaction] = {}
        self.step: Step = []
        self.steps: list[Step] = []  # of this turn
        self.answers: list[tuple[Waiter, Got | Refusal]] = []  # of this turn, for waiting reads
        self._announced: deque[tuple[Queue, Letter]] = deque()

    def happened(self, what: str) -> None:
        self.shared.happened[what] += 1

    # -- atomic steps

    def close_step(self) -> None:
        """What was done since the last one holds together."""
        if self.step:
            self.steps.append(self.step)
            self.step = []

    def commit(self) -> None:
        """The step is whole: now whoever waited for what it made available is served."""
        self.close_step()
        while self._announced:
            self._serve(*self._announced.popleft())

    def take_steps(self) -> list[Step]:
        """The steps of a turn that ends."""
        steps, self.steps = self.steps, []
        return steps

    # -- the changes of one letter

    def _books(self, queue: Queue, letter: Letter) -> Counter[str]:
        return queue.express_books if letter.express else queue.books

    def _enter(self, queue: Queue, letter: Letter) -> None:
        self.shared.places += 1
        letter.place = self.shared.places
        letter.queue = queue.number
        letter.lock = None
        queue.insert(letter)
        self._books(queue, letter)["accepted"] += 1

    def arrive(self, queue: Queue, letter: Letter) -> None:
        """A letter becomes available for the first time."""
        letter.arrived = self.utc
        self._enter(queue, letter)
        if not letter.express:
            self.step.append(("arrive", letter.frozen()))

    def _out_of(self, letter: Letter, column: str) -> Queue:
        queue = self.numbered[letter.queue]
        queue.letters.remove(letter)
        self._books(queue, letter)[column] += 1
        return queue

    def relocate(self, letter: Letter, target: Queue, column: str) -> None:
        """A letter leaves its queue for another."""
        source = self._out_of(letter, column)
        self._enter(target, letter)
        if not letter.express:
            self.step.append(("leave", letter.frozen(), column))
        self._bury(source)

    def change(self, letter: Letter) -> None:
        """A letter stays where it is with another row."""
        if not letter.express:
            self.step.append(("change", letter.frozen()))

    def gone(self, letter: Letter, column: str) -> None:
        """A letter is no more."""
        queue = self._out_of(letter, column)
        letter.queue, letter.lock = 0, None
        if not letter.express:
            self.step.append(("end", letter.number, column))
        self._bury(queue)

    def _bury(self, queue: Queue) -> None:
        if queue.deleted and not queue.letters and queue in self.ghosts:
            self.ghosts.remove(queue)
            del self.numbered[queue.number]

    def define(self, queue: Queue) -> None:
        """A queue's facts are stored."""
        facts = queue.facts
        self.step.append(("queue", facts.number, Facts(**_fields(facts))))

    # -- ends ([MS-MQDMPR] 3.1.7.2.1 and what follows from it here)

    def end(self, letter: Letter, message_class: int) -> None:
        """Message Position Deleted, with journals, dead letters and acknowledgments."""
        queue = self.numbered[letter.queue]
        if queue.facts.role == "outgoing" and message_class in (
            NACK_QUEUE_PURGED,
            NACK_QUEUE_DELETED,
        ):
            message_class = NACK_PURGED
        column = COLUMN_OF_CLASS.get(message_class, "purged")
        self._acknowledge_end(letter, message_class)
        for target in self._keepers(queue, letter, message_class):
            if target.has_room(letter.size):
                self._keep(letter, target, message_class, column)
                return
            self.happened(f"{target.facts.role} queue too full for a letter")
        self.gone(letter, column)

    def _keepers(self, queue: Queue, letter: Letter, message_class: int) -> list[Queue]:
        if message_class != ACK_RECEIVE:
            return self._dead_letter_queues(letter)
        root = self.root(queue)
        if not root.facts.journaling or root.deleted:
            return []
        return [self.queues[f"{root.name};journal"]]

    def _dead_letter_queues(self, letter: Letter) -> list[Queue]:
        if "dead" not in letter.asks:
            return []
        system = self.queues[DEADXACT if letter.transactional else DEADLETTER]
        named = self.queues.get(letter.application)
        if named is None or named.facts.transactional != letter.transactional:
            return [system]
        return [named, system]

    def _keep(self, letter: Letter, target: Queue, message_class: int, column: str) -> None:
        if message_class != ACK_RECEIVE:
            letter.message_class = message_class
        letter.copied, letter.expires, letter.arrived = True, None, self.utc
        letter.asks, letter.admin, letter.application = frozenset(), "", ""
        letter.admin_number = 0
        letter.doomed, letter.aliases, letter.in_doubt = 0, (), False
        if column == "undelivered":
            self.arrive(target, letter)
        else:
            self.relocate(letter, target, column)
        self.happened(f"kept in a {target.facts.role} queue, {column}")
        self.announce(target, letter)

    def undeliverable(self, letter: Letter) -> None:
        """A committed send whose queue was deleted: it never arrived anywhere."""
        self.happened("committed send to a deleted queue")
        self._acknowledge_end(letter, NACK_QUEUE_DELETED)
        for target in self._dead_letter_queues(letter):
            if target.has_room(letter.size):
                self._keep(letter, target, NACK_QUEUE_DELETED, "undelivered")
                return

    def expire(self, letter: Letter) -> None:
        """Its time is up."""
        queue = self.numbered[letter.queue]
        outgoing = queue.facts.role == "outgoing"
        self.happened("expired on the way" if outgoing else "expired in its queue")
        self.end(letter, NACK_REACH_QUEUE_TIMEOUT if outgoing else NACK_RECEIVE_TIMEOUT)

    def arrived(self, queue: Queue, letter: Letter) -> None:
        """What follows when a letter has become available for the first time."""
        if queue.facts.role != "outgoing":
            if "arrival" in letter.asks:
                self._acknowledge(letter, ACK_REACH_QUEUE)
            if "journal" in letter.asks:
                self._copy_to_journal(letter)
        if letter.expires is not None and letter.expires <= self.utc:
            if not letter.transactional:
                self.close_step()  # it may be seen to have arrived and expire later
            self.expire(letter)
        else:
            self.announce(queue, letter)

    def _copy_to_journal(self, letter: Letter) -> None:
        journal = self.queues[JOURNAL]
        if not journal.has_room(letter.size, reserved=False):
            self.happened("system journal too full for a copy")
            return
        twin = letter.frozen()
        twin.number = self.shared.next_number()
        twin.copied, twin.expires, twin.asks = True, None, frozenset()
        twin.aborts = twin.moves = twin.last_move = 0
        self.arrive(journal, twin)
        self.happened("copied to the system journal")
        self.announce(journal, twin)

    # -- acknowledgments

    def _acknowledge_end(self, letter: Letter, message_class: int) -> None:
        if message_class == ACK_RECEIVE:
            wanted = "receive"
        else:
            wanted = "no_receive" if message_class & _RECEIVING else "no_arrival"
        if wanted in letter.asks:
            self._acknowledge(letter, message_class)

    def _acknowledge(self, letter: Letter, message_class: int) -> None:
        if not letter.admin:
            return
        target = self.queues.get(letter.admin)
        if target is not None and letter.admin_number not in (0, target.number):
            target = None  # another queue with the old one's name
        size = self.shared.size_of_acknowledgment(letter, message_class, letter.admin)
        if target is None or target.facts.transactional or self.why_full(target, size):
            self.happened("acknowledgment dropped")
            return
        answer = Letter(
            number=self.shared.next_number(),
            name=letter.name,
            body=letter.body if message_class & _NEGATIVE else b"",
            size=size,
            priority=letter.priority,
            message_class=message_class,
            express=letter.express,
        )
        self.arrive(target, answer)
        self.happened(f"acknowledgment 0x{message_class:04X}")
        self.announce(target, answer)

    # -- room

    @property
    def size(self) -> int:
        """Bytes of all queues."""
        return sum(queue.size for queue in self.numbered.values())

    def why_full(self, queue: Queue, size: int) -> str:
        """The machine's quota is tested before the queue's."""
        quota = self.shared.machine_quota
        if quota is not None and self.size + self.reserved + size > quota:
            return "MachineQuotaExceeded"
        return "" if self.has_room(queue, size) else "QueueQuotaExceeded"

    def has_room(self, root: Queue, size: int) -> bool:
        """Whether a queue takes this many bytes more; its subqueues share its quota."""
        inside = [
            queue.size
            for queue in self.numbered.values()
            if queue.facts.role == "subqueue" and queue.facts.parent == root.number
        ]
        return root.has_room(sum(inside) + size)

    def reserve_move(self, letter: Letter, target: Queue, size: int) -> None:
        """Room for a move of an open transaction; moves inside a family need none."""
        if self.root(self.numbered[letter.queue]) is not self.root(target):
            self.root(target).reserved += size

    def root(self, queue: Queue) -> Queue:
        """The queue a subqueue belongs to, or the queue itself."""
        if queue.facts.role != "subqueue":
            return queue
        return self.numbered.get(queue.facts.parent, queue)

    # -- availability

    def announce(self, queue: Queue, letter: Letter) -> None:
        """Message Position Available: told when the step is whole."""
        self._announced.append((queue, letter))

    def _serve(self, queue: Queue, letter: Letter) -> None:
        """Readers in the order they came, until one takes it; peeking ones all see it."""
        if letter.queue != queue.number:
            return
        for waiter in list(queue.waiters):
            if waiter.cursor is not None and not _behind(letter, waiter.cursor.place):
                self.happened("waiting cursor passed over, letter in front of it")
                continue
            if not self.visible(letter, peek=not waiter.destructive):
                continue
            refusal = self._refuses(waiter)
            if refusal is not None:
                self.happened("waiting read refused when its turn came")
                self.end_wait(waiter, refusal)
                continue
            self._satisfy(waiter, letter)
            if waiter.destructive:
                return

    def visible(self, letter: Letter, *, peek: bool) -> bool:
        """Available, or locked in a way that lets peeks see it."""
        lock = letter.lock
        return lock is None or (peek and lock.allow_peek and not lock.purged)

    def _refuses(self, waiter: Waiter) -> Refusal | None:
        raise NotImplementedError

    def _satisfy(self, waiter: Waiter, letter: Letter) -> None:
        raise NotImplementedError

    def end_wait(self, waiter: Waiter, refusal: Refusal) -> None:
        """A waiting read ends without a letter; a cursor becomes unread where it is."""
        queue = waiter.descriptor.queue
        assert queue is not None
        queue.waiters.remove(waiter)
        if waiter.cursor is not None:
            waiter.cursor.state = "unread"
        if waiter.transaction is not None:
            self.touch(waiter.transaction)
        self.answers.append((waiter, refusal))

    def touch(self, transaction: Transaction) -> None:
        """Somebody works on it."""
        transaction.last_used_ms = self.now_ms

    # -- letters that come back

    def returned(self, letter: Letter, lock: Lock) -> None:
        """Nobody holds it any more: available at its old place, or at its end."""
        queue = self.numbered[letter.queue]
        if lock.purged:
            self.happened("purged in somebody's hands, then given back")
            self.end(letter, lock.purged)
        elif lock.expired or (letter.expires is not None and letter.expires <= self.utc):
            self.happened("expired in somebody's hands, then given back")
            self.expire(letter)
        else:
            self.announce(queue, letter)


def _behind(letter: Letter, place: tuple[int, int] | None) -> bool:
    return place is None or letter.order > place


def _fields(facts: Facts) -> dict[str, object]:
    return {name: getattr(facts, name) for name in Facts.__slots__}
