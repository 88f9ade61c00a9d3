"""Groups against a model of a few lines, in any order of steps, with crashes between any two.

Besides two groups there are readers who receive in one step and in two, a purge, and time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from posthouse.engine.pipelines.claims import ClaimRange
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import (
    InvalidParameter,
    IoTimeout,
    QueueError,
    SharingViolation,
)
from posthouse.runtime.driver import Answer
from tests.engine.group_rig import LEASE_S, GroupRig
from tests.engine.rig import RECEIVE

STEP = 3  # messages that one step of an acknowledgment receives
FOREVER = 1 << 40
LIVES = (FOREVER, 10, 40)
STREAMS = ("", "", "this", "that")
names = st.sampled_from(("left", "left", "left", "right"))
owners = st.sampled_from(("one", "one", "two"))
streams = st.sampled_from(STREAMS)
picks = st.integers(0, 30)


@dataclass
class Item:
    """A message."""

    priority: int
    expires: int
    held: bool = False
    purged: bool = False  # while somebody held it


@dataclass
class Reader:
    """A group."""

    position: int
    claimed: int = 0
    after: int = 0  # where the claim begins, if that is above the position
    stream: str = ""
    read: dict[str, set[int]] = field(default_factory=dict)  # what each stream has claimed
    epoch: int = 0
    owner: str = ""
    until: int = 0  # seconds
    acknowledged: int = 0
    lost: int = 0  # received elsewhere, expired or purged since it was made

    @property
    def has_claims(self) -> bool:
        return self.claimed > self.begin

    @property
    def begin(self) -> int:
        return max(self.position, self.after)

    def unclaim(self) -> None:
        self.claimed, self.after, self.stream = self.position, 0, ""


@dataclass
class Model:
    """What must be so."""

    items: dict[int, Item] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)
    now: int = 0
    last_id: int = 0
    purged_through: int = 0

    def consumer(self) -> Reader | None:
        """Who keeps others from receiving."""
        for reader in self.readers.values():
            if reader.until > self.now:
                return reader
        return None

    def is_claimed(self, lookup_id: int) -> bool:
        return any(r.begin < lookup_id <= r.claimed for r in self.readers.values())

    def available(self) -> list[int]:
        """In queue order."""
        free = [n for n, item in self.items.items() if not item.held and not self.is_claimed(n)]
        return sorted(free, key=lambda n: (-self.items[n].priority, n))

    def rival(self, name: str) -> bool:
        others = [reader for other, reader in self.readers.items() if other != name]
        return any(reader.has_claims or reader.until > self.now for reader in others)

    def end(self, lookup_id: int, *, elsewhere: bool = True, purged: bool = False) -> None:
        del self.items[lookup_id]
        if purged:
            self.purged_through = max(self.purged_through, lookup_id)
        if elsewhere:
            for reader in self.readers.values():
                reader.lost += 1

    def pass_time(self) -> None:
        """What is due ends, unless somebody holds or has claimed it."""
        for lookup_id, item in list(self.items.items()):
            if item.expires <= self.now and not item.held and not self.is_claimed(lookup_id):
                self.end(lookup_id)

    def crash(self) -> None:
        """Holders are gone; whoever has claims counts as leased for a while, nobody else does."""
        for lookup_id, item in list(self.items.items()):
            item.held = False
            if item.purged:
                self.end(lookup_id, purged=True)
        for reader in self.readers.values():
            reader.until = self.now + LEASE_S if reader.has_claims else 0

    def acknowledge(self, reader: Reader, through: int, count: int) -> int:
        """Receives at most this many messages; returns how many there were."""
        due = sorted(n for n in self.items if reader.begin < n <= through)
        for lookup_id in due[:count]:
            assert lookup_id in reader.read[reader.stream], "it was received unread"
            self.end(lookup_id, elsewhere=False)
            for other in self.readers.values():
                other.lost += other is not reader
        reader.position = due[count - 1] if len(due) >= count else through
        reader.acknowledged += min(len(due), count)
        return min(len(due), count)


class Groups(RuleBasedStateMachine):
    """Both at once."""

    @initialize()
    def begin(self) -> None:
        self.rig = GroupRig(step_messages=STEP)
        self.model = Model(last_id=self.rig.manager.groups.last_id())
        self.reader: OpenQueueDescriptor = self.rig.open("q", RECEIVE)

    def _refused(self, call: Callable[[], object], kind: type[QueueError] | None) -> bool:
        """Whether the engine refuses as the model says; no call, no change."""
        if kind is None:
            call()
            return False
        with pytest.raises(kind):
            call()
        return True

    def _pick(self, pick: int) -> int:
        """A lookup id: of a message mostly, else of one that is gone or to come."""
        ids = sorted(self.model.items)
        if pick > 26 and pick <= 28:
            return max(self.model.last_id - 7 * (28 - pick) - 2, 0)
        if pick > 28 or not ids:
            return self.model.last_id + pick % 2
        return ids[pick % len(ids)]

    # -- messages

    @rule(count=st.integers(1, 6), priority=st.integers(0, 2), life=st.sampled_from(LIVES))
    def send(self, count: int, priority: int, life: int) -> None:
        for number in range(count):
            self._send((priority + number) % 3, life)

    def _send(self, priority: int, life: int) -> None:
        lasts = 0xFFFFFFFF if life == FOREVER else life
        self.rig.send("q", b"x", priority=priority, time_to_be_received=lasts)
        (number,) = set(self.rig.ids()) - set(self.model.items)
        self.model.items[number] = Item(priority, self.model.now + life)
        self.model.last_id = number

    @rule(two_phase=st.booleans())
    def receive(self, two_phase: bool) -> None:
        model, found = self.model, list[int]()
        kind = SharingViolation if model.consumer() else None if model.available() else IoTimeout

        def call() -> None:
            read = self.rig.receive(self.reader, two_phase=two_phase).read
            found.append(read.lookup_id)

        if not self._refused(call, kind):
            assert found == model.available()[:1]
            if two_phase:
                model.items[found[0]].held = True
            else:
                model.end(found[0])

    @rule(pick=picks)
    def receive_by_id(self, pick: int) -> None:
        model, lookup_id = self.model, self._pick(pick)
        kind: type[QueueError] | None = None
        if model.consumer() or (model.is_claimed(lookup_id) and lookup_id in model.items):
            kind = SharingViolation
        elif lookup_id not in model.available():
            kind = QueueError
        if not self._refused(lambda: self.rig.lookup(self.reader, lookup_id, peek=False), kind):
            model.end(lookup_id)

    @rule(positive=st.booleans())
    def end_a_read(self, positive: bool) -> None:
        held = sorted(n for n, item in self.model.items.items() if item.held)
        if held:
            item = self.model.items[held[0]]
            self.rig.run(
                lambda m: m.messages.dequeue_message_end(self.reader, held[0], positive=positive)
            )
            item.held = False
            if positive or item.purged:
                self.model.end(held[0], purged=not positive)
            self.model.pass_time()

    @rule()
    def purge(self) -> None:
        self.rig.purge()
        for lookup_id, item in list(self.model.items.items()):
            if item.held:
                item.purged = True
            elif not self.model.is_claimed(lookup_id):
                self.model.end(lookup_id, purged=True)

    @rule(seconds=st.sampled_from([1, 7, LEASE_S, 60]))
    def pass_time(self, seconds: int) -> None:
        self.rig.advance(seconds)
        for _ in range(20):  # many expire in steps
            self.rig.turn()
        self.model.now += seconds
        self.model.pass_time()

    # -- groups

    @rule(name=names, owner=owners)
    def lease(self, name: str, owner: str) -> None:
        model = self.model
        reader = model.readers.get(name)
        foreign = reader is not None and reader.until > model.now and reader.owner != owner
        kind = SharingViolation if model.rival(name) or foreign else None
        if not self._refused(lambda: self.rig.lease(name, owner=owner), kind):
            if reader is None:
                first = min(model.items, default=0)
                reader = model.readers[name] = Reader(
                    first - 1 if first else self.rig.manager.groups.last_id()
                )
                model.last_id = self.rig.manager.groups.last_id()
            reader.epoch += 1
            reader.owner, reader.until = owner, model.now + LEASE_S

    @rule(name=names, old=st.integers(0, 1))
    def renew(self, name: str, old: int) -> None:
        model = self.model
        reader = model.readers.get(name)
        if reader is None or reader.epoch == old:
            return
        kind = SharingViolation if model.rival(name) or old else None
        if not self._refused(lambda: self.rig.lease(name, epoch=reader.epoch - old), kind):
            reader.until = model.now + LEASE_S

    @rule(name=names)
    def end_the_lease(self, name: str) -> None:
        if name in self.model.readers:
            reader, group = self.model.readers[name], self.rig.group(name)
            self.rig.run(lambda m: m.groups.end_lease(group, reader.epoch))
            reader.until = 0

    @rule(name=names, owner=owners, pick=picks)
    def lease_and_claim(self, name: str, owner: str, pick: int) -> None:
        """As every reader begins."""
        self.lease(name, owner)
        self.claim(name, pick)

    @rule(name=names, pick=picks, low=st.none() | picks, stream=streams, skip=st.booleans())
    def claim(
        self, name: str, pick: int, low: int | None = None, stream: str = "", skip: bool = False
    ) -> None:
        model, through = self.model, self._pick(pick)
        reader = model.readers.get(name)
        if reader is None:
            return
        after = None if low is None else min(self._pick(low), through)
        kind = self._refusal_of_claim(name, reader, after, through, stream, skip)

        def call() -> None:
            asked = {"after": after, "stream": stream, "skip": skip}
            self.rig.claim(reader.epoch, through, name, **asked)

        if not self._refused(call, kind):
            begin = self._begin_of(reader, after)
            fresh = not reader.has_claims or begin <= reader.begin or stream != reader.stream
            begin = begin if fresh else reader.begin
            through = max(through, reader.claimed)
            reader.until = model.now + LEASE_S
            if through > begin:
                reader.after, reader.claimed, reader.stream = begin, through, stream
                reader.read.setdefault(stream, set()).update(
                    n for n in model.items if begin < n <= through
                )

    def _begin_of(self, reader: Reader, after: int | None) -> int:
        if after is not None:
            return max(after, reader.position)
        return reader.begin if reader.has_claims else reader.position

    def _refusal_of_claim(
        self, name: str, reader: Reader, after: int | None, through: int, stream: str, skip: bool
    ) -> type[QueueError] | None:
        """Nothing unread lies below a claim, and nothing of another stream is passed over."""
        model, begin = self.model, self._begin_of(reader, after)
        if model.rival(name):
            return SharingViolation
        if through > model.last_id:
            return InvalidParameter
        low, high = reader.position, begin
        if reader.has_claims and begin > reader.begin:
            if stream != reader.stream and any(
                reader.begin < n <= min(begin, reader.claimed) for n in model.items
            ):
                return SharingViolation
            low, skip = reader.claimed, False
        if not skip and any(low < n <= high for n in model.items):
            return InvalidParameter
        own = reader.has_claims and begin > reader.begin and stream == reader.stream
        held = reader.begin if own else begin
        if any(held < n <= through and i.held for n, i in model.items.items()):
            return SharingViolation
        return None

    @rule(name=names, pick=picks, turns=st.integers(1, 4), late=st.booleans(), other=st.booleans())
    def acknowledge(
        self, name: str, pick: int, turns: int, late: bool, other: bool = False
    ) -> None:
        """This many turns of it, then the power is gone; or all of it."""
        model, through = self.model, self._pick(pick)
        reader = model.readers.get(name)
        if reader is None:
            return
        epoch = None if late else reader.epoch
        stream = "another" if other else reader.stream
        done = reader.begin if reader.has_claims else reader.position
        kind: type[QueueError] | None = None
        if (late and reader.until > model.now) or (through > done and reader.has_claims and other):
            kind = SharingViolation
        elif through > max(reader.claimed, done):
            kind = InvalidParameter
        if turns == 4 or kind is not None or through <= done:

            def call() -> None:
                self.rig.acknowledge(epoch, through, name, stream=stream)

            if not self._refused(call, kind) and through > done:
                model.acknowledge(reader, through, 1 << 30)
            return
        answers = self._begin(name, epoch, through, stream)
        for _ in range(turns - 1):
            self.rig.turn()
        for _ in range(turns):
            if reader.position < through:
                model.acknowledge(reader, through, STEP)
        assert bool(answers) == (reader.position == through)
        if reader.position < through:
            self.crash()

    def _begin(self, name: str, epoch: int | None, through: int, stream: str) -> list[Answer]:
        group, answers, driver = self.rig.group(name), list[Answer](), self.rig.driver
        driver.begin_turn()
        driver.decide(lambda m: m.groups.acknowledge(group, epoch, through, stream), answers.append)
        driver.end_turn()
        driver.sync()
        driver.release()
        return answers

    @rule(name=names)
    def release(self, name: str) -> None:
        if name in self.model.readers:
            self.rig.release(name)
            reader = self.model.readers[name]
            reader.until = 0
            reader.unclaim()
            reader.epoch += 1
            for _ in range(20):
                self.rig.turn()
            self.model.pass_time()

    @rule(name=names, pick=picks)
    def set_position(self, name: str, pick: int) -> None:
        model, position = self.model, self._pick(pick)
        reader = model.readers.get(name)
        if reader is None:
            return
        group = self.rig.group(name)
        kind: type[QueueError] | None = None
        if reader.until > model.now or reader.has_claims:
            kind = SharingViolation
        elif position > model.last_id:
            kind = InvalidParameter

        def call() -> None:
            self.rig.run(lambda m: m.groups.set_position(group, position))

        if not self._refused(call, kind):
            reader.position = position
            reader.unclaim()

    @rule(name=names)
    def delete(self, name: str) -> None:
        reader = self.model.readers.get(name)
        if reader is None:
            return
        group = self.rig.group(name)
        busy = reader.until > self.model.now or reader.has_claims

        def call() -> None:
            self.rig.run(lambda m: m.groups.delete(group))

        if not self._refused(call, SharingViolation if busy else None):
            del self.model.readers[name]

    # -- crashes

    @rule()
    def crash(self) -> None:
        self.rig.restart()
        for _ in range(20):
            self.rig.turn()
        self.reader = self.rig.open("q", RECEIVE)
        self.model.crash()
        self.model.pass_time()
        self.model.last_id = self.rig.manager.groups.last_id()

    @rule(name=names, pick=picks)
    def crash_before_the_sync(self, name: str, pick: int) -> None:
        """What was decided and not synced has not happened."""
        reader, through = self.model.readers.get(name), self._pick(pick)
        if reader is not None:
            group, driver = self.rig.group(name), self.rig.driver
            driver.begin_turn()
            for call in (
                lambda m: m.groups.claim(group, reader.epoch, ClaimRange(through)),
                lambda m: m.groups.acknowledge(group, reader.epoch, through),
                lambda m: m.groups.release(group),
            ):
                driver.decide(call, lambda answer: None)
            driver.end_turn()
        self.crash()

    # -- comparing

    @invariant()
    def both_agree(self) -> None:
        model, rig = self.model, self.rig
        groups, queue = rig.manager.groups, rig.queue("q")
        assert rig.ids() == sorted(model.items)
        assert groups.purged_through(queue) == model.purged_through
        assert set(queue.groups) == set(model.readers)
        for name, reader in model.readers.items():
            group = queue.groups[name]
            definition = group.definition
            assert definition.position == reader.position
            assert definition.epoch == reader.epoch
            assert group.has_claims == reader.has_claims
            assert groups.is_leased(group) == (reader.until > model.now)
            assert definition.acknowledged == reader.acknowledged
            assert sum(groups.elsewhere(group)) == reader.lost
            lag = [n for n in model.items if n > reader.position]
            assert groups.lag(group).messages == len(lag)
            if reader.has_claims:
                assert (group.begin, definition.claimed) == (reader.begin, reader.claimed)
                assert definition.stream == reader.stream
                claimed = [n for n in lag if reader.begin < n <= reader.claimed]
                assert groups.claimed_messages(group) == len(claimed)
        assert rig.manager.ledger.claims == any(r.has_claims for r in model.readers.values())
        rig.check_books()


Groups.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
test_groups_agree_with_their_model = Groups.TestCase


@pytest.mark.parametrize("seed", range(20))
def test_long_lives_agree_with_the_model(seed: int) -> None:
    """By the dice, with many more messages and claims than short examples have."""
    machine, dice = Groups(), Random(seed)
    machine.begin()

    def name() -> str:
        return dice.choice(("left", "left", "left", "right"))

    def pick() -> int:
        return dice.randint(0, 30)

    steps: list[tuple[int, Callable[[], object]]] = [
        (4, lambda: machine.send(dice.randint(1, 6), dice.randint(0, 2), dice.choice(LIVES))),
        (4, lambda: machine.receive(dice.random() < 0.5)),
        (2, lambda: machine.receive_by_id(pick())),
        (3, lambda: machine.end_a_read(dice.random() < 0.5)),
        (1, machine.purge),
        (3, lambda: machine.pass_time(dice.choice((1, 7, LEASE_S, 60)))),
        (3, lambda: machine.lease_and_claim(name(), dice.choice(("one", "two")), pick())),
        (2, lambda: machine.claim(name(), pick())),
        (
            4,
            lambda: machine.claim(
                name(), pick(), pick(), dice.choice(STREAMS), dice.random() < 0.5
            ),
        ),
        (2, lambda: machine.renew(name(), dice.randint(0, 1))),
        (1, lambda: machine.end_the_lease(name())),
        (4, lambda: machine.acknowledge(name(), pick(), dice.randint(1, 4), dice.random() < 0.3)),
        (1, lambda: machine.acknowledge(name(), pick(), 4, False, True)),
        (1, lambda: machine.release(name())),
        (1, lambda: machine.set_position(name(), pick())),
        (1, lambda: machine.delete(name())),
        (1, machine.crash),
        (1, lambda: machine.crash_before_the_sync(name(), pick())),
    ]
    weights, calls = zip(*steps, strict=True)
    for _ in range(150):
        dice.choices(calls, weights)[0]()
        machine.both_agree()
