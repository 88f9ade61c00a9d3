"""What the model is made of: letters, queues, and the part of both that a crash must not take.

Everything here follows from the documents and the design, not from the engine: a queue is a list
of letters in queue order, and what survives a crash is a dictionary changed by atomic steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, combinations

ACK_REACH_QUEUE = 0x0002
ACK_RECEIVE = 0x4000
NACK_REACH_QUEUE_TIMEOUT = 0x8002
NACK_QUEUE_DELETED = 0xC000
NACK_QUEUE_PURGED = 0xC001
NACK_RECEIVE_TIMEOUT = 0xC002
NACK_RECEIVE_REJECTED = 0xC004

COLUMN_OF_CLASS = {
    ACK_RECEIVE: "received",
    NACK_REACH_QUEUE_TIMEOUT: "expired",
    NACK_RECEIVE_TIMEOUT: "expired",
    NACK_QUEUE_DELETED: "purged",
    NACK_QUEUE_PURGED: "purged",
    NACK_RECEIVE_REJECTED: "rejected",
}
COLUMNS = (
    "accepted",
    "waiting",
    "locked",
    "received",
    "expired",
    "purged",
    "rejected",
    "moved_away",
    "lost_express",
)
DEADLETTER, DEADXACT, JOURNAL, OUT = "deadletter", "deadxact", "journal", "out"


class Refusal(Exception):
    """The model refuses a call; any of the named refusals is right."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names)
        self.names = names


@dataclass(slots=True)
class Lock:
    """Why a letter is not available."""

    transaction: Transaction | None
    holder: Descriptor | None
    allow_peek: bool = False
    expired: bool = False
    purged: int = 0  # the class it ends with unless it is received


@dataclass(slots=True)
class Letter:
    """A message. `place` is its place in the order of availability, as a lookup id is."""

    number: int
    name: str
    body: bytes
    size: int
    priority: int = 0
    message_class: int = 0
    express: bool = False
    transactional: bool = False
    first: bool = False
    last: bool = False
    copied: bool = False  # in a journal or dead-letter queue: it has no outcome of its own
    expires: int | None = None
    arrived: int = 0
    aborts: int = 0
    moves: int = 0
    last_move: int = 0
    asks: frozenset[str] = frozenset()  # arrival, receive, no_arrival, no_receive, dead, journal
    admin: str = ""
    admin_number: int = 0  # of a letter to another machine: its answers go to this very queue
    application: str = ""  # the dead-letter queue its sender named
    doomed: int = 0  # purged or deleted in somebody's hands, with this class
    in_doubt: bool = False  # a reader was lost that had it
    queue: int = 0
    place: int = 0
    aliases: tuple[int, ...] = ()
    sent_to: str = ""
    lock: Lock | None = None

    def frozen(self) -> Letter:
        """The letter as it is now, without what lives only as long as the process."""
        twin = copy(self)
        twin.lock = None
        return twin

    @property
    def order(self) -> tuple[int, int]:
        """Queue order: the highest priority first, then the longest there."""
        return -self.priority, self.place


@dataclass(slots=True)
class Facts:
    """What is stored of a queue."""

    number: int
    name: str
    role: str  # plain, journal, subqueue, system, outgoing
    transactional: bool = False
    journaling: bool = False
    quota: int | None = None  # bytes
    parent: int = 0
    readable: bool = True  # by the ordinary user; the administrator can always
    on_hold: bool = False


@dataclass(slots=True)
class Queue:
    """A queue at run time; `letters` is in queue order, locked ones included."""

    facts: Facts
    letters: list[Letter] = field(default_factory=list)
    books: Counter[str] = field(default_factory=Counter)
    express_books: Counter[str] = field(default_factory=Counter)
    waiters: list[Waiter] = field(default_factory=list)
    descriptors: list[Descriptor] = field(default_factory=list)
    reserved: int = 0
    deleted: bool = False

    @property
    def number(self) -> int:
        return self.facts.number

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def size(self) -> int:
        return sum(letter.size for letter in self.letters)

    def has_room(self, size: int, *, reserved: bool = True) -> bool:
        """Whether this many bytes more stay within the quota."""
        quota = self.facts.quota
        held = self.size + (self.reserved if reserved else 0)
        return quota is None or held + size <= quota

    def insert(self, letter: Letter) -> None:
        """Behind everything of its priority."""
        at = len(self.letters)
        while at and self.letters[at - 1].priority < letter.priority:
            at -= 1
        self.letters.insert(at, letter)

    def line(self, *, express: bool) -> tuple[int, ...]:
        """One line of the books, waiting and locked counted from the letters."""
        books = self.express_books if express else self.books
        mine = [letter for letter in self.letters if letter.express is express]
        locked = sum(letter.lock is not None for letter in mine)
        kept = [books[column] for column in COLUMNS[3:]]
        return (books["accepted"], len(mine) - locked, locked, *kept)


@dataclass(slots=True, eq=False)
class Descriptor:
    """An open queue."""

    number: int
    name: str
    access: str  # send, receive, peek, move
    caller: str  # admin, bob
    queue: Queue | None
    cursors: list[Cursor] = field(default_factory=list)
    closed: bool = False
    handle: object = None  # what the engine gave for it


@dataclass(slots=True, eq=False)
class Cursor:
    """[MS-MQDMPR] 3.2: unread, read, wait_peek, wait_receive; `place` is None before the first."""

    descriptor: Descriptor
    state: str = "unread"
    place: tuple[int, int] | None = None
    closed: bool = False
    handle: object = None


@dataclass(slots=True, eq=False)
class Waiter:
    """A read that waits."""

    descriptor: Descriptor
    destructive: bool
    deadline_ms: int | None
    tag: str
    cursor: Cursor | None
    transaction: Transaction | None
    two_phase: bool
    order: int


@dataclass(slots=True)
class Operation:
    """A send, receive or move of a transaction."""

    kind: str
    letter: Letter
    queue: Queue  # of a move: the target
    reason: int = ACK_RECEIVE


@dataclass(slots=True, eq=False)
class Transaction:
    """Active until it is prepared or ended."""

    name: str
    last_used_ms: int
    state: str = "active"  # active, prepared, ended
    operations: list[Operation] = field(default_factory=list)
    unended: set[int] | None = None  # of a remote reader: letters that may not have reached them
    handle: object = None


@dataclass(slots=True)
class Prepared:
    """A prepared transaction as it is stored: kind, letter, queue number, reason."""

    name: str
    operations: list[tuple[str, Letter, int, int]]


# -- what a crash must not take

Change = tuple[object, ...]
Step = list[Change]  # one atomic step


@dataclass(slots=True)
class Durable:
    """Everything that was promised, as atomic steps made it."""

    letters: dict[int, Letter] = field(default_factory=dict)
    queues: dict[int, Facts] = field(default_factory=dict)
    books: dict[int, Counter[str]] = field(default_factory=dict)
    prepared: dict[str, Prepared] = field(default_factory=dict)

    def clone(self) -> Durable:
        return Durable(
            dict(self.letters),
            dict(self.queues),
            {number: line.copy() for number, line in self.books.items()},
            dict(self.prepared),
        )

    def apply(self, step: Step) -> None:
        """All of a step; what it says of a letter that is not there counts for nothing."""
        for kind, *values in step:
            getattr(self, f"_{kind}")(*values)

    def _count(self, queue: int, column: str) -> None:
        self.books.setdefault(queue, Counter())[column] += 1

    def _arrive(self, letter: Letter) -> None:
        self.letters[letter.number] = letter
        self._count(letter.queue, "accepted")

    def _change(self, letter: Letter) -> None:
        if letter.number in self.letters:
            self.letters[letter.number] = letter

    def _leave(self, letter: Letter, column: str) -> None:
        old = self.letters.get(letter.number)
        if old is not None:
            self._count(old.queue, column)
            self._arrive(letter)

    def _end(self, number: int, column: str) -> None:
        old = self.letters.pop(number, None)
        if old is not None:
            self._count(old.queue, column)

    def _queue(self, number: int, facts: Facts | None) -> None:
        if facts is None:
            self.queues.pop(number, None)
        else:
            self.queues[number] = facts

    def _prepare(self, name: str, prepared: Prepared | None) -> None:
        if prepared is None:
            self.prepared.pop(name, None)
        else:
            self.prepared[name] = prepared


SUBSETS_OF = 7  # a torn turn with more steps is tried in prefixes only


def outcomes(base: Durable, turns: list[list[Step]]) -> Iterator[tuple[str, Durable]]:
    """What a crash may have left: whole turns in order, then any steps of the next, each whole."""
    state = base.clone()
    yield ("none" if turns else "nothing unsynced"), state.clone()
    for index, turn in enumerate(turns):
        for steps in _parts(turn):
            partial = state.clone()
            for step in steps:
                partial.apply(step)
            yield "part", partial
        for step in turn:
            state.apply(step)
        yield ("all" if index == len(turns) - 1 else "some turns"), state.clone()


def _parts(turn: list[Step]) -> Iterator[tuple[Step, ...]]:
    if len(turn) > SUBSETS_OF:
        return (tuple(turn[:size]) for size in range(1, len(turn)))
    sizes = range(1, len(turn))
    return chain.from_iterable(combinations(turn, size) for size in sizes)
