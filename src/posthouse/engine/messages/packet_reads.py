"""Reads packets from the log before a message may leave its queue.

A message whose stored packet is damaged costs its reader an error and others nothing. It is
set aside: locked, so that seeks go past it, and reported until an operator has decided. Asking for
it by its lookup id tries again. Purge, deletion, expiry and moves do not need the packet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from posthouse.engine.ledger.effects import Read, Unreadable
from posthouse.engine.ledger.ledger import Ledger, Lock
from posthouse.engine.ledger.parts import (
    ClaimedMessages,
    Endings,
    FailedReads,
    OpenTransactions,
    Waiters,
)
from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.row_columns import SIZE_WORD, Rows
from posthouse.engine.machine.damage import Damage
from posthouse.engine.messages.reading import MessageReading
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.engine.queues.queue import Queue
from posthouse.engine.transactions.transaction import Transaction
from posthouse.model.errors import MessageStorageFailed

ReadPacket = Callable[[int], bytes]
ReadPackets = Callable[[list[int]], list[tuple[bytes, bytes]]]  # verified senders and packets
_REMEDY = (
    "Go on with the next message. `posthouse damage list` shows this one to an administrator, who "
    "can give it up with `posthouse damage accept`, or bring back a good copy of the file."
)


class Fetching(MessageReading):
    """Reads and receives messages, each together with its packet."""

    def __init__(self, core: Ledger, read: ReadPacket, read_many: ReadPackets) -> None:
        super().__init__(core)
        self._read = read
        self._read_many = read_many
        self.damaged: set[int] = set()  # set aside, each with a lock that has no owner
        self.damage = Damage(core, self)

    def connect(
        self,
        groups: ClaimedMessages,
        outcomes: Endings,
        poison: FailedReads,
        transactions: OpenTransactions,
        waiting: Waiters,
    ) -> None:
        """Parts that are made after this one, since they need it."""
        self._groups = groups
        self._outcomes = outcomes
        self._transactions = transactions
        self._waiting = waiting
        self.damage.connect(outcomes, poison)

    # -- packets

    def fetch(self, number: int) -> None:
        """Puts a packet into the turn's effects; Unreadable if it is damaged."""
        effects = self.core.effects
        if number not in effects.at_hand():
            ((effects.senders[number], effects.packets[number]),) = self._read_many([number])

    def fetch_many(self, numbers: list[int]) -> None:
        """Puts packets into the turn's effects; Unreadable if any of them is damaged."""
        effects = self.core.effects
        missing, packets = numbers, effects.at_hand()
        if packets and not packets.keys().isdisjoint(numbers):
            missing = [number for number in numbers if number not in packets]
        if missing:
            senders, found = zip(*self._read_many(missing), strict=True)
            effects.senders.update(zip(missing, senders, strict=True))
            packets.update(zip(missing, found, strict=True))

    def packet_or_nothing(self, number: int) -> bytes:
        """The packet for what follows from a message; empty if that has to go without."""
        try:
            return self._read(number)
        except Unreadable as damage:
            self._tell(number, self.row(number), damage)
            return b""

    def _tell(self, number: int, row: Row, damage: Unreadable) -> MessageStorageFailed:
        queue = self.core.queues.get(row.queue)
        name = "a deleted queue" if queue is None else queue.name
        self.core.refusals["message_damaged"] += 1
        self.core.event("message_damaged", queue=name, lookup_id=row.lookup_id, why=str(damage))
        self.damage.found(number, damage)
        return MessageStorageFailed(
            f"the stored packet of the message with lookup id {row.lookup_id} in {name} is damaged",
            _REMEDY,
        )

    # -- damage

    def load(self) -> None:
        """What the log remembers as damaged is set aside from the start, if it still is."""
        self.damage.load()
        for number in sorted(self.core.unreadable):
            row = self.core.state.table.get(number)
            if row is None or not row.lookup_id or number in self.core.locks:
                continue
            try:
                self.fetch(number)
            except Unreadable:
                self._lock_away(number, row)
            else:
                self.damage.read(number)

    def met_by_upkeep(self, damage: Unreadable | None) -> None:
        """Compaction has stopped at damage, or (None) goes on again."""
        self.damage.stops_compaction = "" if damage is None else str(damage)
        if damage is not None:
            self.met(damage)

    def met(self, damage: Unreadable) -> None:
        """A reader outside the engine has met a damaged message: set aside for all."""
        row = self.core.state.table.get(damage.number)
        if row is not None and row.lookup_id:
            self._set_aside(damage.number, row, damage)

    def _lock_away(self, number: int, row: Row) -> None:
        if number not in self.core.locks:
            self.core.lock(self.core.queues[row.queue], number, Lock(None))
            self.damaged.add(number)

    def _set_aside(self, number: int, row: Row, damage: Unreadable) -> MessageStorageFailed:
        self._lock_away(number, row)
        return self._tell(number, row, damage)

    def release(self, number: int) -> None:
        """What was set aside is as available as any other message, for who needs no packet."""
        if number in self.damaged:
            self.damaged.remove(number)
            row = self.row(number)
            queue = self.core.queues[row.queue]
            self.core.unlock(queue, number)
            queue.make_room(row.priority, row.lookup_id)

    # -- reads

    def read_of(self, number: int, row: Row) -> Read:
        """What a reader gets. Every read comes by here before it changes anything."""
        try:
            self.fetch(number)
        except Unreadable as damage:
            raise self._set_aside(number, row, damage) from damage
        if number in self.core.unreadable:
            self.damage.read(number)
        return super().read_of(number, row)

    def reads_of(self, numbers: list[int], rows: Sequence[Row]) -> Sequence[Read]:
        """What a reader of several gets; what was damaged and can be read now is sound again."""
        if self.core.unreadable:
            for number in self.core.unreadable.intersection(numbers):
                if number in self.core.effects.senders:
                    self.damage.read(number)
        return super().reads_of(numbers, rows)

    def dequeue_many(
        self,
        descriptor: OpenQueueDescriptor,
        count: int,
        transaction: Transaction | None,
        *,
        two_phase: bool = False,
        room: int | None = None,
    ) -> Sequence[Read]:
        """Up to `count` messages at once, in queue order, without damaged ones.

        Not more than the reader's share of memory at a time, or the room that it has, but one of
        any size.
        """
        core = self.core
        core.tell()  # or a reader that waits could come between
        queue = descriptor.target()
        self.check_transaction(queue, transaction)
        self._groups.check_receiver(queue)
        numbers = queue.state.order.available(core.locks, count, queue.claim)
        rows = core.state.table.gather(numbers)
        numbers, rows = self._within(numbers, rows, room)
        if transaction is not None:  # all of them or none: a refusal half-way would keep some
            self._transactions.use(transaction, len(numbers))
        try:
            self.fetch_many(numbers)
        except Unreadable:
            numbers = self._fetch_each(numbers)
            rows = core.state.table.gather(numbers)
        if queue.claim is None and numbers:  # whatever stands in front of these is locked
            for row in rows[-1:] if rows.are_of_one_priority else rows:
                queue.state.order.lane(row.priority).floor = row.lookup_id + 1
        return self.take(queue, numbers, rows, transaction, descriptor, two_phase=two_phase)

    def _within(self, numbers: list[int], rows: Rows, room: int | None) -> tuple[list[int], Rows]:
        """The first of these messages that are not too much for one answer."""
        share = self.core.settings.step_bytes
        room = share if room is None else min(room, share)
        sizes = rows.word(SIZE_WORD)
        if sum(sizes) <= room:
            return numbers, rows
        for at, size in enumerate(sizes):
            room -= size
            if room < 0 and at:
                return numbers[:at], rows[:at]
        return numbers, rows

    def _fetch_each(self, numbers: list[int]) -> list[int]:
        sound, error = self.fetch_sound(numbers)
        if error is not None and not sound:
            raise error
        return sound

    def fetch_sound(self, numbers: list[int]) -> tuple[list[int], MessageStorageFailed | None]:
        """Fetches those that are not damaged, and sets the others aside."""
        error = None
        for number in numbers:
            try:
                self.fetch(number)
            except Unreadable as damage:
                error = self._set_aside(number, self.row(number), damage)
        return [number for number in numbers if number not in self.damaged], error

    def _current(self, queue: Queue, lookup_id: int, *, peek: bool) -> int:
        self.release(queue.current_number(lookup_id))
        return super()._current(queue, lookup_id, peek=peek)

    def at_hand(self, queue: Queue, number: int) -> bool:
        """Whether who waits can be offered a message; if it is damaged, the first is told so."""
        row = self.core.state.table.get(number)
        if row is None or row.queue != queue.number or not queue.waiters:
            return False
        try:
            self.fetch(number)
        except Unreadable as damage:
            error = self._set_aside(number, row, damage)
            waiting = [w.order for w in queue.waiters.values() if w.cursor is None]
            for order in waiting[:1]:
                self._waiting.cancel(order, error)
            return False
        return True
