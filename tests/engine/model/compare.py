"""The engine and the model side by side: the first difference, in words."""

from __future__ import annotations

from itertools import chain, zip_longest
from operator import attrgetter

from posthouse.engine.ledger.order import START
from posthouse.engine.queues.queue import OutgoingQueueState
from posthouse.engine.queues.queue import Queue as EngineQueue
from posthouse.model.properties import UNLIMITED
from tests.engine.model.model import Model
from tests.engine.model.parts import COLUMNS, Cursor, Letter, Queue
from tests.engine.model.world import Held, Seen, World, name_of_transaction

_line = attrgetter(*COLUMNS)


class Different(AssertionError):
    """The engine does not do what the model says."""


def faces(letter: Letter) -> Seen:
    """A letter as the engine should show it."""
    return Seen(
        letter.name,
        letter.body,
        letter.message_class,
        letter.priority,
        letter.express,
        letter.transactional,
        letter.first,
        letter.last,
        letter.copied,
        letter.expires,
        letter.arrived,
        letter.aborts,
        letter.moves,
        letter.last_move,
        letter.size,
        letter.doomed,
        letter.in_doubt,
        _held(letter),
    )


def _held(letter: Letter) -> Held | None:
    lock = letter.lock
    if lock is None:
        return None
    name = "" if lock.transaction is None else lock.transaction.name
    holder = None if lock.holder is None else lock.holder.handle
    return Held(name, holder, lock.allow_peek, lock.expired, lock.purged)


class Identifiers:
    """Lookup identifiers and internal numbers as they were seen: never twice, always growing."""

    def __init__(self) -> None:
        self.of_place: dict[int, int] = {}
        self.letter_of: dict[int, int] = {}  # internal number of the engine: letter
        self.highest = 0
        self._promised = 0
        self._unsynced_places: list[int] = []
        self._unsynced_numbers: list[int] = []

    def learn(self, found: list[tuple[int, int, Letter]]) -> None:
        """What a look at the engine showed: number, lookup identifier and letter."""
        new: list[tuple[int, int]] = []
        for number, lookup_id, letter in found:
            known = self.of_place.get(letter.place)
            if known is None:
                new.append((lookup_id, letter.place))
            elif known != lookup_id:
                raise Different(f"{letter.name} had lookup id {known} and now has {lookup_id}")
            owner = self.letter_of.get(number)
            if owner is None:
                self.letter_of[number] = letter.number
                self._unsynced_numbers.append(number)
            elif owner != letter.number:
                raise Different(f"internal number {number} was given twice")
        for lookup_id, place in new:
            if lookup_id <= self.highest:
                raise Different(f"lookup id {lookup_id} is not above {self.highest}")
            if lookup_id >> 56:
                raise Different(f"lookup id {lookup_id:#x} has a high byte")
            self.of_place[place] = lookup_id
            self._unsynced_places.append(place)
        if len({lookup_id for lookup_id, _ in new}) < len(new):
            raise Different("a lookup id was given twice")
        self.highest = max([self.highest, *(lookup_id for lookup_id, _ in new)])

    def note(self, place: int, lookup_id: int) -> None:
        """An identifier that somebody was told of a letter that no look showed."""
        known = self.of_place.get(place)
        if known is None:
            self.of_place[place] = lookup_id
            self._unsynced_places.append(place)
            self.highest = max(self.highest, lookup_id)
        elif known != lookup_id:
            raise Different(f"a reader was told lookup id {lookup_id} instead of {known}")

    def promise(self) -> None:
        """Everything seen so far is durable."""
        self._promised = self.highest
        self._unsynced_places.clear()
        self._unsynced_numbers.clear()

    def crash(self) -> None:
        """What nobody could have seen may be given again."""
        self.highest = self._promised
        for place in self._unsynced_places:
            self.of_place.pop(place, None)
        for number in self._unsynced_numbers:
            self.letter_of.pop(number, None)
        self.promise()

    def twin(self) -> Identifiers:
        """A copy for an attempt."""
        twin = Identifiers()
        twin.of_place, twin.letter_of = dict(self.of_place), dict(self.letter_of)
        twin.highest = self.highest
        return twin


def check(world: World, model: Model, identifiers: Identifiers) -> None:
    """Raises the first difference."""
    engine = world.queues()
    if engine.keys() != model.queues.keys():
        raise Different(f"queues {sorted(engine)}, expected {sorted(model.queues)}")
    found: list[tuple[int, int, Letter]] = []
    for name, queue in model.queues.items():
        found += _check_queue(world, engine[name], queue)
    ghosts = sorted(model.ghosts, key=lambda queue: queue.number)
    for ghost, expected in zip_longest(world.ghosts(), ghosts):
        if ghost is None or expected is None:
            raise Different(f"deleted queues: {ghost and ghost.name}, expected {expected}")
        found += _check_contents(world, ghost, expected)
    identifiers.learn(found)
    _check_totals(world, model, len(found))
    _check_transactions(world, model)
    _check_aliases(engine, model, identifiers)
    for queue in model.queues.values():
        for cursor in chain.from_iterable(d.cursors for d in queue.descriptors):
            _check_cursor(cursor, identifiers)
    _check_deadline(world, model)


ASPECTS = (
    "books",
    "express books",
    "bytes reserved",
    "TotalBytes",
    "open descriptors",
    "transactional",
    "journaling",
    "quota",
    "on hold",
    "readable for bob",
    "waiting reads",
)


def _check_queue(world: World, engine: EngineQueue, queue: Queue) -> list[tuple[int, int, Letter]]:
    found = _check_contents(world, engine, queue)
    durable, express = world.manager.queues.books_apart(engine)
    if not (durable.balanced and express.balanced):
        raise Different(f"books of {queue.name} do not balance: {durable}, {express}")
    definition, outgoing = engine.definition, engine.outgoing
    seen = (
        _line(durable),
        _line(express),
        engine.reserved,
        engine.state.bytes,
        len(engine.descriptors),
        definition.transactional,
        definition.journaling,
        definition.quota_kib,
        outgoing is not None and outgoing.state is OutgoingQueueState.ON_HOLD,
        world.is_readable(engine),
        [(w.destructive, w.deadline_ms, w.tag) for w in engine.waiters.values()],
    )
    facts = queue.facts
    expected = (
        queue.line(express=False),
        queue.line(express=True),
        queue.reserved,
        queue.size,
        len(queue.descriptors),
        facts.transactional,
        facts.journaling,
        UNLIMITED if facts.quota is None else facts.quota >> 10,
        facts.on_hold,
        facts.role == "plain" and facts.readable,
        [(w.destructive, w.deadline_ms, w.tag) for w in queue.waiters],
    )
    if seen != expected:
        for aspect, one, other in zip(ASPECTS, seen, expected, strict=True):
            _same(f"{aspect} of {queue.name}", one, other)
    return found


def _check_contents(
    world: World, engine: EngineQueue, queue: Queue
) -> list[tuple[int, int, Letter]]:
    contents = world.contents(engine)
    seen = [face for _, _, face in contents]
    expected = [faces(letter) for letter in queue.letters]
    if seen != expected:
        raise Different(f"{queue.name} holds\n{_listed(seen)}\nexpected\n{_listed(expected)}")
    identities = zip(contents, queue.letters, strict=True)
    return [(number, lookup_id, letter) for (number, lookup_id, _), letter in identities]


def _listed(faces_seen: list[Seen]) -> str:
    lines = [
        "  " + ", ".join(f"{k}={v!r}" for k, v in face._asdict().items() if v)
        for face in faces_seen
    ]
    return "\n".join(lines) or "  nothing"


def _same(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise Different(f"{what}: {seen!r}, expected {expected!r}")


def _check_totals(world: World, model: Model, count: int) -> None:
    core = world.manager.ledger
    _same("bytes of all queues", core.state.bytes, model.size)
    _same("bytes of uncommitted sends", core.reserved, model.reserved)
    _same("messages", len(core.state.table), count + len(core.state.pending))
    sends = [
        operation
        for transaction in model.transactions.values()
        for operation in transaction.operations
        if operation.kind == "send"
    ]
    if len(core.state.pending) > len(sends):
        raise Different(f"{len(core.state.pending)} pending messages of {len(sends)} sends")
    _same("locks", len(core.locks), sum(map(_locked, model.numbered.values())))


def _locked(queue: Queue) -> int:
    return sum(letter.lock is not None for letter in queue.letters)


def _check_transactions(world: World, model: Model) -> None:
    seen = {
        name_of_transaction(identifier): (t.state.value, [o.kind.value for o in t.operations])
        for identifier, t in world.manager.transactions.collection.open.items()
    }
    words = {"send": "enqueue", "receive": "dequeue", "move": "move"}
    expected = {
        name: (t.state, [words[o.kind] for o in t.operations])
        for name, t in model.transactions.items()
    }
    _same("transactions", seen, expected)


def _check_aliases(engine: dict[str, EngineQueue], model: Model, identifiers: Identifiers) -> None:
    expected: dict[str, dict[int, int]] = {}
    for queue in model.queues.values():
        family = expected.setdefault(model.root(queue).name, {})
        for letter in queue.letters:
            for place in letter.aliases:
                family[identifiers.of_place[place]] = letter.number
    for name, family in expected.items():
        seen = {a: identifiers.letter_of.get(n) for a, n in engine[name].aliases.items()}
        _same(f"earlier lookup ids in {name}", seen, family)


def _check_cursor(cursor: Cursor, identifiers: Identifiers) -> None:
    handle = cursor.handle
    _same("state of a cursor", handle.state.value, cursor.state)  # type: ignore[attr-defined]
    seen = handle.place  # type: ignore[attr-defined]
    if cursor.place is None:
        _same("place of a cursor", seen, START)
    else:
        identifiers.note(cursor.place[1], seen.lookup_id)
        _same("priority of a cursor's place", seen.priority, -cursor.place[0])


def _check_deadline(world: World, model: Model) -> None:
    """The engine asks for its next turn not later than something is due."""
    due, asked = model.next_due_ms(), world.manager.next_deadline_ms()
    if due is not None and (asked is None or asked > due):
        raise Different(f"the next turn is wanted at {asked}, but at {due} something is due")
