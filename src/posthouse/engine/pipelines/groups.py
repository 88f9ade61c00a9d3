"""Named groups: leases, claims, acknowledgments (docs/ways.md).

A group that consumes reads a queue by ranges of lookup ids, which is peeking, and receives
what it has dealt with in one go by acknowledging it. Two things keep others out of its way. The
lease is short and lives in memory: while it lasts no other reader receives from the queue. The
claim is durable: no other reader gets the messages in it, lease or no lease, until they are
acknowledged or an operator releases them. A group that observes has a position and nothing else.
"""

from __future__ import annotations

import struct
from collections import Counter, deque

from posthouse.engine.ledger.incarnations import Incarnations
from posthouse.engine.ledger.ledger import Ledger
from posthouse.engine.ledger.order import START, QueueRange
from posthouse.engine.ledger.parts import Endings, PacketReads, Waiters
from posthouse.engine.ledger.records import (
    FLAG_EXPRESS,
    TABLE_GROUP,
    TABLE_PURGED,
    Change,
    Row,
)
from posthouse.engine.ledger.steps import SteppedWork
from posthouse.engine.pipelines.claims import ClaimRange, check_stream, claimed_range
from posthouse.engine.pipelines.group import (
    Elsewhere,
    GroupDefinition,
    Lag,
    decode_group,
    encode_group,
    since,
)
from posthouse.engine.queues.collection import Queues
from posthouse.engine.queues.queue import Acknowledging, Group, Queue, QueueRole
from posthouse.model.errors import (
    InsufficientResources,
    InvalidParameter,
    PropertyNotAllowed,
    QueueError,
    SharingViolation,
    UnsupportedOperation,
)
from posthouse.model.group_names import OWNER_LENGTH_MAX, GroupMode, check_name

COMMIT_BYTES_MAX = 8 << 20  # packets that one step of an acknowledgment receives
COMMIT_MESSAGES_MAX = 5_000  # and messages: each may go to a journal and be acknowledged
_COUNTED_MAX = 128  # this many messages are looked at for the bytes of a lag: renewals do, too
_QUEUE = struct.Struct("<I")
_ID = struct.Struct("<Q")
_NO_GROUPS = frozenset({QueueRole.OUTGOING, QueueRole.INTERNAL})


class Groups:
    """The groups of all queues."""

    def __init__(
        self,
        core: Ledger,
        registry: Queues,
        reading: PacketReads,
        waiting: Waiters,
        outcomes: Endings,
        incarnations: Incarnations,
    ) -> None:
        self.core = core
        self._registry, self._reading, self._waiting = registry, reading, waiting
        self._outcomes, self._incarnations = outcomes, incarnations
        self._unfinished: deque[Acknowledging] = deque()
        self.begun: list[SteppedWork] = []
        self._count = 0
        self._created: Counter[bytes] = Counter()  # how many each user has made
        self._step_messages = min(core.settings.step_messages, COMMIT_MESSAGES_MAX)

    def load(self) -> None:
        """Loads the groups at start; a reader that had claims gets one lease time to renew its
        lease.
        """
        for _, value in self.core.state.of_table(TABLE_GROUP):
            definition = decode_group(value)
            group = Group(definition, self.core.queues[definition.queue])
            self._add(group)
            if group.has_claims:
                group.lease_until_ms = self._lease_end()
                group.queue.consumer = group
                self._follow_claim(group)

    # -- looking

    def all(self) -> list[Group]:
        """Every group, in order of queues and names."""
        return [
            queue.groups[name] for queue in self._registry.all() for name in sorted(queue.groups)
        ]

    def is_leased(self, group: Group) -> bool:
        """Whether its lease lasts."""
        return group.lease_until_ms > self.core.now_ms

    def lease_left_ms(self, group: Group) -> int:
        """How long its lease lasts if it is not renewed."""
        return max(group.lease_until_ms - self.core.now_ms, 0)

    def claimed_messages(self, group: Group) -> int:
        """How many messages are in its claim."""
        if not group.has_claims:
            return 0
        return group.queue.state.order.count_of(group.claim)

    def lag(self, group: Group) -> Lag:
        """What lies after its position. The bytes of many are estimated from their mean."""
        state, position = group.queue.state, group.definition.position
        done = state.order.count_up_to(position)
        messages = state.count - done
        if not done or not messages:
            return Lag(messages, state.bytes if messages else 0)
        if messages <= _COUNTED_MAX:
            return Lag(messages, self._size(state.order.some_after(position, messages)))
        if done <= _COUNTED_MAX:
            return Lag(messages, state.bytes - self._size(state.order.some_after(0, done)))
        return Lag(messages, state.bytes * messages // state.count)

    def _size(self, entries: list[tuple[int, int]]) -> int:
        return sum([row.size for row in self.core.state.table.rows([n for _, n in entries])])

    def elsewhere(self, group: Group) -> Elsewhere:
        """What became of messages of its queue without it, by the books.

        A crash sets the express line of the books back: of express messages it is an estimate.
        """
        definition, state = group.definition, group.queue.state
        durable = since(state.books, definition.began)
        express = since(state.express_books, definition.began_express)
        if group.consumes:
            durable[0] -= definition.acknowledged - definition.acknowledged_express
            express[0] -= definition.acknowledged_express
        return Elsewhere(*[max(a, 0) + max(b, 0) for a, b in zip(durable, express, strict=True)])

    def first_locked(self, queue: Queue, after: int) -> int | None:
        """The first message after an identifier that somebody else holds; no claim goes past it.

        What is damaged and set aside is left out.
        """
        if not queue.locked:
            return None
        table, damaged = self.core.state.table, self._reading.damaged
        rows = [table.get(number) for number in self.core.locks if number not in damaged]
        held = [r.lookup_id for r in rows if r and r.queue == queue.number and r.lookup_id > after]
        return min(held, default=None)

    def last_id(self) -> int:
        """The greatest lookup id that was given to any message."""
        return self._incarnations.last_id()

    def earliest(self, queue: Queue) -> int:
        """The position in front of the first message of a queue."""
        first = queue.state.order.first_id()
        return first - 1 if first else self.last_id()

    # -- what others may not do meanwhile

    def check_receiver(self, queue: Queue) -> None:
        """MQ_ERROR_SHARING_VIOLATION for a destructive read while a group has the lease."""
        group = queue.consumer
        if group is not None and self.is_leased(group):
            raise group.violation("no other reader may receive")

    def check_taking(self, queue: Queue, lookup_id: int) -> None:
        """Refuse to take a claimed message, or any while a group has the lease."""
        self.check_receiver(queue)
        if queue.consumer is not None and queue.claim and queue.claim.holds(lookup_id):
            raise queue.consumer.violation(f"the message with lookup id {lookup_id} is claimed")

    def check_idle(self, queue: Queue) -> None:
        """Refuse to delete a queue while a group has a lease or a claim."""
        self.check_receiver(queue)
        if queue.consumer is not None and queue.consumer.has_claims:
            raise queue.consumer.violation("messages are claimed")

    def is_claimed(self, row: Row) -> bool:
        """Whether a message is kept from everybody but the group."""
        queue = self.core.queues.get(row.queue)
        return queue is not None and queue.claim is not None and queue.claim.holds(row.lookup_id)

    # -- lease

    def lease(
        self,
        queue: Queue,
        name: str,
        mode: GroupMode,
        owner: str,
        *,
        epoch: int | None = None,
        position: int | None = None,
        user: bytes = b"",
    ) -> Group:
        """The group is the owner's for a while, in a new epoch; with an epoch: for longer.

        A group that is not there yet is made, by the `user` with this SID, and begins at the given
        position or in front of the first message.
        """
        group = queue.groups.get(name)
        if len(owner) > OWNER_LENGTH_MAX:
            raise InvalidParameter("the name of the owner is too long")
        if group is None:
            self._check_new(queue, name, position, user)
            group = self._new(queue, name, mode, position)
            group.definition.creator = user
        if group.definition.mode is not mode:
            raise PropertyNotAllowed(
                f"the group {name} of {queue.name} exists, to {group.definition.mode.value}",
                "Use another name, or delete the group.",
            )
        self._check_rivals(group)
        if epoch is not None:
            self._check_epoch(group, epoch)
        elif self.is_leased(group) and group.definition.owner != owner:
            raise group.violation(f"{group.definition.owner or 'another reader'} has the lease")
        if name not in queue.groups:
            self._add(group)
        if epoch is None:
            self._adopt(group, user)
            group.definition.epoch += 1
            group.definition.owner = owner
            self._store(group)
        self._begin_lease(group)
        return group

    def _add(self, group: Group) -> None:
        group.queue.groups[group.name] = group
        self._count += 1
        self._created[group.definition.creator] += 1

    def _adopt(self, group: Group, user: bytes) -> None:
        """A group from before the limit per user counts for the user that goes on with it."""
        if user and not group.definition.creator:
            self._uncount(group)
            group.definition.creator = user
            self._created[user] += 1

    def _uncount(self, group: Group) -> None:
        creator = group.definition.creator
        self._created[creator] -= 1
        if not self._created[creator]:
            del self._created[creator]

    def _check_new(self, queue: Queue, name: str, position: int | None, user: bytes) -> None:
        check_name(name)
        if queue.definition.role in _NO_GROUPS:
            raise UnsupportedOperation(f"{queue.name} is a queue that cannot have groups")
        if position is not None:
            self._check_given(position)
        if self._count >= self.core.settings.limits.groups_max:
            raise InsufficientResources(
                "there are too many groups",
                "Delete some of them, or raise [limits] groups_max.",
            )
        if user and self._created[user] >= self.core.settings.limits.groups_per_user:
            raise InsufficientResources(
                f"this user has made {self._created[user]} groups, which is the limit for one user",
                "Delete some of them, or raise [limits] groups_per_user.",
            )

    def _check_given(self, lookup_id: int) -> None:
        """What is to come cannot be claimed or acknowledged."""
        if not 0 <= lookup_id <= self.last_id():
            raise InvalidParameter(f"no message has had the lookup id {lookup_id} yet")

    def _new(self, queue: Queue, name: str, mode: GroupMode, position: int | None) -> Group:
        if position is None:
            position = self.earliest(queue)
        definition = GroupDefinition(
            queue=queue.number,
            name=name,
            mode=mode,
            position=position,
            began=list(queue.state.books),
            began_express=list(queue.state.express_books),
            create_time=self.core.utc,
        )
        return Group(definition, queue)

    def _check_rivals(self, group: Group) -> None:
        """One group at a time consumes, and none beside an exclusive reader."""
        queue = group.queue
        if not group.consumes:
            return
        if queue.consumer is not group:
            self.check_idle(queue)
        if queue.exclusive:
            raise SharingViolation(
                f"{queue.name} is open exclusively in another program",
                "Wait until it closes the queue.",
            )

    def _check_epoch(self, group: Group, epoch: int | None) -> None:
        current = group.definition.epoch
        if epoch is None:
            if self.is_leased(group):
                raise group.violation("its reader is at work")
        elif epoch != current:
            raise SharingViolation(
                f"a newer reader has taken over the group {group.name} of {group.queue.name}: "
                f"its epoch is {current}, not {epoch}",
                "End this reader: a group has one reader at a time.",
            )

    def _lease_end(self) -> int:
        return self.core.now_ms + self.core.settings.limits.group_lease_s * 1000

    def _begin_lease(self, group: Group) -> None:
        queue = group.queue
        group.lease_until_ms = self._lease_end()
        if not group.consumes:
            return
        queue.consumer = group
        error = group.violation("no other reader may receive")
        for order in [w.order for w in queue.waiters.values() if w.destructive]:
            self._waiting.cancel(order, error)

    def end_lease(self, group: Group, epoch: int) -> None:
        """A reader has ended: the lease ends at once. What it claimed stays so."""
        self._check_epoch(group, epoch)
        group.lease_until_ms = 0

    # -- claim

    def claim(self, group: Group, epoch: int, asked: ClaimRange) -> None:
        """The messages of a range are the group's; what its stream has claimed stays so."""
        if not group.consumes:
            raise UnsupportedOperation(
                f"the group {group.name} only observes: it cannot claim messages"
            )
        self._check_epoch(group, epoch)
        self._check_rivals(group)
        self._check_given(asked.through)
        definition = group.definition
        after, through = claimed_range(group, asked)
        locked = self.first_locked(group.queue, after)
        if locked is not None and locked <= asked.through:
            raise SharingViolation(
                f"the message with lookup id {locked} in {group.queue.name} is locked by "
                "another reader or transaction",
                "Claim up to the message before it, and the rest later.",
            )
        self._begin_lease(group)
        before = definition.claim_after, definition.claimed, definition.stream
        if through > after and before != (after, through, asked.stream):
            definition.claim_after, definition.claimed = after, through
            definition.stream = asked.stream
            self._store(group)
            self._follow_claim(group)

    def _follow_claim(self, group: Group) -> None:
        """Notes in the queue what is claimed in it."""
        queue, claim = group.queue, group.claim if group.has_claims else None
        self.core.claims += (claim is not None) - (queue.claim is not None)
        queue.claim = claim

    # -- acknowledge

    def acknowledge(
        self, group: Group, epoch: int | None, through: int, stream: str = ""
    ) -> Acknowledging:
        """Acknowledges what is claimed up to a lookup id; a consuming group receives the messages.

        It runs in steps: before you answer, wait for what `take_begun` returns. Without an epoch it
        completes the work of a reader that has ended. The claim of another stream is refused.
        """
        self._check_epoch(group, epoch)
        work = Acknowledging(group, through)
        if through <= (group.begin if group.has_claims else group.definition.position):
            work.done = True
        elif group.consumes:
            work = self._begin(group, through, stream)
        else:
            self._check_given(through)
            self._pass(group, work)
        return work

    def _pass(self, group: Group, work: Acknowledging) -> None:
        definition = group.definition
        stretch = QueueRange(definition.position, work.through)
        definition.acknowledged += group.queue.state.order.count_of(stretch)
        definition.position = work.through
        self._store(group)
        work.done = True

    def _begin(self, group: Group, through: int, stream: str) -> Acknowledging:
        if group.has_claims:
            check_stream(group, stream)
        if through > group.definition.claimed:
            raise InvalidParameter(
                f"the group {group.name} of {group.queue.name} has claimed messages up to "
                f"{group.definition.claimed}, not up to {through}",
                "Claim them first; an operator who released them has given them to others.",
            )
        work = group.acknowledging
        if work is None:
            work = group.acknowledging = Acknowledging(group, through)
            self._step(work)
            if not work.done:
                self._unfinished.append(work)
                self.core.deadlines.note(self.core.now_ms)
        work.through = max(work.through, through)
        if not work.done:
            self.begun.append(work)
        return work

    def _step(self, work: Acknowledging) -> None:
        """Receives some of the messages; the position moves with their ends, in one record."""
        group, core = work.group, self.core
        definition, table = group.definition, core.state.table
        entries = self._next(group.queue, group.begin, work.through)
        rows = table.rows([number for _, number in entries])
        some = _within(rows)
        whole = some == len(entries) < self._step_messages
        with core.untold(), core.one_step():
            self._receive(group.queue, entries[:some], rows[:some])
            definition.position = work.through if whole else entries[some - 1][0]
            definition.acknowledged += some
            definition.acknowledged_express += _express(rows[:some])
            self._store(group)
        work.received += some
        self._follow_claim(group)
        if whole:
            self._end(work)
        core.tell()

    def _next(self, queue: Queue, after: int, through: int) -> list[tuple[int, int]]:
        """The next messages in order of identifiers, as many as a step may take."""
        found = queue.state.order.some_after(after, self._step_messages)
        if found and found[-1][0] > through:
            found = [entry for entry in found if entry[0] <= through]
        return found

    def _receive(self, queue: Queue, entries: list[tuple[int, int]], rows: list[Row]) -> None:
        """They end as any message does that was received ([MS-MQDMPR] 3.1.7.2.1)."""
        core, kinds = self.core, dict[int, tuple[list[int], list[Row]]]()
        held, damaged = core.state.calendar.held, self._reading.damaged
        for (_, number), row in zip(entries, rows, strict=True):
            if damaged:
                self._reading.release(number)
            if held:
                held.pop(number, None)
            numbers, alike = kinds.setdefault(row.priority, ([], []))
            numbers.append(number)
            alike.append(row)
        for numbers, alike in kinds.values():
            self._outcomes.received(queue, numbers, alike)

    def _end(self, work: Acknowledging, error: QueueError | None = None) -> None:
        work.done, work.error = True, error
        work.group.acknowledging = None

    def take_begun(self) -> list[SteppedWork]:
        """What was begun since the last call of this and is not done yet."""
        begun, self.begun = self.begun, []
        return begun

    def go_on(self) -> None:
        """A new turn: the next step of what is unfinished, one each."""
        for _ in range(len(self._unfinished)):
            work = self._unfinished.popleft()
            if not work.done:
                self._step(work)
            if not work.done:
                self._unfinished.append(work)

    def break_off(self, error: QueueError) -> None:
        """The queue manager stops: positions are where they are, and the rest stays claimed."""
        for work in self._unfinished:
            self._end(work, error)
        self._unfinished.clear()

    def next_deadline_ms(self) -> int | None:
        """At once while anything is unfinished; leases end without anybody waking up."""
        return self.core.now_ms if self._unfinished else None

    # -- operators

    def release(self, group: Group, stream: str | None = None) -> int:
        """Lease and claims end, and no reader of the group goes on. Returns how many were claimed.

        What it had received and not acknowledged is available to everybody. A stream that is named
        gives back its own claim, and nothing where that is another's.
        """
        if stream is not None and (not group.has_claims or group.definition.stream != stream):
            return 0
        claimed, definition = self.claimed_messages(group), group.definition
        if group.acknowledging is not None:
            self._end(group.acknowledging, group.violation("the group was released"))
        group.unclaim()
        definition.epoch += 1
        group.lease_until_ms = 0
        self._store(group)
        freed = group.queue.claim if group.queue.consumer is group else None
        if freed is not None:
            self._follow_claim(group)
            self._give_back(group.queue, freed)
        return claimed

    def _give_back(self, queue: Queue, freed: QueueRange) -> None:
        """What is available again expires if it is due, or goes to a reader that waits for it."""
        core, calendar = self.core, self.core.state.calendar
        for number, second in list(calendar.held.items()):
            row = self._reading.row(number)
            if row.queue == queue.number and freed.holds(row.lookup_id):
                del calendar.held[number]
                calendar.add(second, number)
        taken = set[int]()
        for waiter in [waiter for waiter in queue.waiters.values() if waiter.destructive]:
            place = START if waiter.cursor is None else waiter.cursor.place
            for _, number in queue.state.order.forward(place):
                if number not in core.locks and number not in taken:
                    taken.add(number)
                    core.announce(queue, number)
                    break
        core.tell()

    def set_position(self, group: Group, position: int) -> None:
        """An operator sends a group forward, or back to what is still there."""
        self._check_at_rest(group)
        self._check_given(position)
        group.definition.position = position
        group.unclaim()
        self._store(group)

    def delete(self, group: Group) -> None:
        """The group was deleted."""
        self._check_at_rest(group)
        queue, change = group.queue, Change()
        self._forget(group, change)
        self.core.commit(change)
        self._registry.drop_empty_subqueue(queue)

    def _check_at_rest(self, group: Group) -> None:
        if self.is_leased(group):
            raise group.violation("its reader is at work")
        if group.has_claims:
            raise group.violation("it has claims")

    def _forget(self, group: Group, change: Change) -> None:
        queue = group.queue
        self.core.define(TABLE_GROUP, group.key, None, change)
        del queue.groups[group.name]
        self._count -= 1
        self._uncount(group)
        if queue.consumer is group:
            queue.consumer = None

    def forget_queue(self, queue: Queue, change: Change) -> None:
        """A queue is deleted, and what was kept of its readers with it."""
        for group in list(queue.groups.values()):
            self._forget(group, change)
        key = _QUEUE.pack(queue.number)
        if (TABLE_PURGED, key) in self.core.state.definitions:
            self.core.define(TABLE_PURGED, key, None, change)

    # -- purges

    def purged_through(self, queue: Queue) -> int:
        """The greatest lookup id of a message that was ever purged from a queue."""
        value = self.core.state.definitions.get((TABLE_PURGED, _QUEUE.pack(queue.number)))
        return _ID.unpack(value)[0] if value else 0

    def note_purged(self, queue: Queue, lookup_id: int, change: Change | None) -> None:
        """A message is purged: readers that come later can see that they missed it."""
        if queue.deleted or queue.definition.role in _NO_GROUPS:
            return
        if lookup_id > self.purged_through(queue):
            key = _QUEUE.pack(queue.number)
            self.core.define(TABLE_PURGED, key, _ID.pack(lookup_id), change)

    # -- shared

    def _store(self, group: Group) -> None:
        group.definition.last_time = self.core.utc
        change = Change()
        self.core.define(TABLE_GROUP, group.key, encode_group(group.definition), change)
        self.core.effects.commit(change)


def _express(rows: list[Row]) -> int:
    return len([row for row in rows if row.flags & FLAG_EXPRESS])


def _within(rows: list[Row]) -> int:
    """How many of these messages one commit takes: at least one."""
    room = COMMIT_BYTES_MAX
    for at, row in enumerate(rows):
        room -= row.size
        if room < 0 and at:
            return at
    return len(rows)
