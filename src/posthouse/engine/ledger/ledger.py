"""The shared core of the engine: state, effects of the turn, clocks, locks, counters.

Every change of a message goes through `arrive`, `settle` and `end` here: each changes the State
and asks for the record of it. Nothing else writes either.
"""

from __future__ import annotations

import struct
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, compress, repeat
from math import inf
from operator import add, is_, not_
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import msgspec

from posthouse.engine.ledger.departed_messages import Departures
from posthouse.engine.ledger.effects import Effects, Event
from posthouse.engine.ledger.records import (
    ARRIVAL_FRONT,
    ARRIVAL_OF_ROW,
    ARRIVAL_REST,
    DROP,
    EXPRESS,
    FLAG_EXPRESS,
    FLAG_REMOTE,
    KEPT,
    MESSAGE,
    PACKED_ROW,
    ROW_SIZE,
    TABLE_COUNTER,
    Change,
    Define,
    Dropped,
    End,
    Publish,
    Row,
    Settle,
)
from posthouse.engine.ledger.row_columns import QUEUE_WORD, Rows
from posthouse.engine.ledger.rows import packed_rows
from posthouse.engine.ledger.spans import SpanNotes, TracedDepartures
from posthouse.engine.ledger.state import State
from posthouse.engine.queues.queue import FIRST_FREE_NUMBER, Queue
from posthouse.engine.settings import EngineSettings
from posthouse.model.trace_context import TraceContext
from posthouse.security.access import Caller, Origin
from posthouse.wire.packet.batch import Batch
from posthouse.wire.packet.packet_fields import SPAN, PacketSummary

if TYPE_CHECKING:
    from posthouse.engine.queues.open_queues import OpenQueueDescriptor
    from posthouse.engine.transactions.transaction import Transaction

NO_LOOKUP_ID = bytes(8)  # how a row begins that is pending
_U64 = struct.Struct("<Q")
_defined = tuple.__new__


class Deadlines:
    """The earliest moments at which something may be due, on both clocks.

    Every part that sets a deadline notes it here. What has been noted and came to nothing stays
    until its time: then everything is asked once. So a turn in which nothing can be due asks
    nothing.
    """

    __slots__ = ("at_ms", "at_utc", "moved")

    def __init__(self) -> None:
        self.at_ms = -inf  # on the monotonic clock; at the start everything is asked
        self.at_utc = -inf  # seconds
        self.moved = True  # something may be due earlier than the sleeping loop was told

    def note(self, at_ms: float) -> None:
        """Something is due then."""
        if at_ms < self.at_ms:
            self.at_ms, self.moved = at_ms, True

    def note_utc(self, second: int) -> None:
        """Something is due in that second, however the clock is set meanwhile."""
        if second < self.at_utc:
            self.at_utc, self.moved = second, True


class Extra(msgspec.Struct, omit_defaults=True, array_like=True):
    """Values that only few messages have, kept beside their row."""

    aliases: list[int] = []  # lookup ids it had before moves
    dead_letter: str = ""  # ApplicationDeadletterQueue
    in_doubt: bool = False  # decision 42: a reader that had it was lost
    host: str = ""  # that it came from, where a final answer is owed to it
    retry_at: int = 0  # UTC seconds: before that it is not tried again
    failed_in: str = ""  # the queue from which a poison policy, or a move with a reason, took it
    move_reason: str = ""  # why it was moved, in the words of the mover


encode_extra = msgspec.msgpack.Encoder().encode
_decode_extra = msgspec.msgpack.Decoder(Extra).decode


def decode_extra(data: bytes) -> Extra:
    """The extra of a message; an empty one where there is none."""
    return _decode_extra(data) if data else Extra()


def pending_rows(rows: bytes) -> bytes:
    """Packed rows without their lookup ids."""
    if len(rows) == ROW_SIZE:
        return NO_LOOKUP_ID + rows[8:]
    words, step = array("I", rows), ROW_SIZE // 4
    nothing = array("I", bytes(len(rows) // step))
    words[0::step] = words[1::step] = nothing
    return words.tobytes()


def _rests(looks: list[PacketSummary], sizes: tuple[int, int], tail: bytes) -> Iterable[bytes]:
    """What arrival blocks have after number and row, for each packet that looks so."""
    head, pack = looks[0], ARRIVAL_REST.pack
    if all(map(is_, looks, repeat(head))):
        return repeat(pack(*head.span, *sizes) + tail)
    kinds = {id(seen): seen for seen in looks}  # neighbours that are alike share one
    rests = {key: pack(*seen.span, *sizes) + tail for key, seen in kinds.items()}
    return map(rests.__getitem__, map(id, looks))


class Lock:
    """Why a message is not available: a transaction has it, or a reader that has not ended.

    What was read together shares one. So a lock never changes: what happens to one of the messages
    gives that one another lock.
    """

    __slots__ = ("_origin", "allow_peek", "expired", "holder", "purged", "transaction")

    def __init__(
        self,
        transaction: Transaction | None,
        holder: OpenQueueDescriptor | None = None,
        *,
        allow_peek: bool = False,
        expired: bool = False,
        purged: int = 0,
        origin: Lock | None = None,
    ) -> None:
        self.transaction: Final = transaction
        self.holder: Final = holder
        self.allow_peek: Final = allow_peek  # Message.AllowPeekWhenLocked
        self.expired: Final = expired  # its time ran out while it was held
        self.purged: Final = purged  # PurgePending: the class it ends with unless it is received
        self._origin: Final = origin

    def of_expired(self) -> Lock:
        """The lock of a message whose time ran out meanwhile."""
        return self._followed(True, self.purged)

    def of_purged(self, message_class: int) -> Lock:
        """The lock of a message that was purged meanwhile, and ends with this class."""
        return self._followed(self.expired, message_class)

    def _followed(self, expired: bool, purged: int) -> Lock:
        return Lock(
            self.transaction,
            self.holder,
            allow_peek=self.allow_peek,
            expired=expired,
            purged=purged,
            origin=self._origin or self,
        )

    def began_as(self, lock: Lock) -> bool:
        """Whether it is this lock, whatever happened to the message since."""
        return lock in (self, self._origin)


class ReservedCounter:
    """Numbers that never come twice: blocks are reserved in the log ahead of use."""

    __slots__ = ("_ledger", "_limit", "block", "key", "value")

    def __init__(self, ledger: Ledger, key: bytes, block: int, start: int = 1) -> None:
        self._ledger = ledger
        self.key = key
        self.block = block
        stored = ledger.state.definitions.get((TABLE_COUNTER, key))
        self.value = self._limit = _U64.unpack(stored)[0] if stored else start

    def next(self) -> int:
        """A number that was never used."""
        value = self.value
        if value >= self._limit:
            self._reserve(value + self.block)
        self.value = value + 1
        return value

    def run(self, count: int) -> range:
        """This many numbers that follow on each other."""
        first = self.value
        if first + count > self._limit:
            self._reserve(first + max(count, self.block))
        self.value = first + count
        return range(first, first + count)

    def skip_to(self, value: int) -> None:
        """Begins again at a greater number; a restored copy of a store does."""
        assert value >= self.value
        self.value = value
        self._reserve(value + self.block)

    def _reserve(self, limit: int) -> None:
        # Its own record, in front of whatever uses the block.
        self._limit = limit
        change = Change()
        self._ledger.define(TABLE_COUNTER, self.key, _U64.pack(limit), change)
        self._ledger.effects.put(change)


class OrdinalCounter:
    """Ordinals of message ids: 32 bits, which wrap past those still in use."""

    __slots__ = ("_counter", "_in_use", "_ledger", "_round")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._counter = ReservedCounter(ledger, b"ordinal", 1 << 16)
        self._round = 0
        self._in_use: set[int] = set()

    def next(self) -> int:
        """An ordinal that no message of ours here has."""
        if (value := self._counter.next()) <= 0xFFFFFFFF:
            return value  # nothing has wrapped yet
        while True:
            ordinal = value & 0xFFFFFFFF
            if value >> 32 != self._round:
                self._begin_round(value >> 32)
            if ordinal and ordinal not in self._in_use:
                return ordinal
            value = self._counter.next()

    def run(self, count: int) -> list[int]:
        """This many ordinals."""
        counter = self._counter
        if counter.value + count <= 0xFFFFFFFF:
            return [counter.next()] if count == 1 else list(counter.run(count))
        return [self.next() for _ in range(count)]

    def _begin_round(self, number: int) -> None:
        # Only messages that are here when a round begins can be met again in it.
        self._round = number
        rows = self._ledger.state.table.items()
        self._in_use = {row.ordinal for _, row in rows if not row.flags & FLAG_REMOTE}
        self._in_use.update(self._ledger.ordinals_in_use())

    def skip_to(self, value: int) -> None:
        """Begins again further on, for a restored copy of a store."""
        self._counter.skip_to(value)

    @property
    def value(self) -> int:
        """How many were given, counting the gaps."""
        return self._counter.value


class Ledger:
    """The ledger: all parts of the engine change state through it (arrive, settle, end, define,
    lock).

    What follows elsewhere is called by name: the parts that do it are told at construction.
    """

    damage_ended: Callable[[int, Change], None]
    """A damaged message has ended without having been read."""
    queue_emptied: Callable[[Queue, Change], None]
    """The last message of a deleted queue is gone."""
    serve: Callable[[Queue, int], None]
    """Serves the readers that wait for a message of a queue."""
    ordinals_in_use: Callable[[], Iterable[int]]
    """Ordinals of messages that are not in the state yet."""

    def __init__(
        self,
        settings: EngineSettings,
        state: State,
        read: Callable[[int], bytes],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.settings = settings
        self.state = state
        self.effects = Effects()
        self.random_bytes = random_bytes
        self.now_ms = 0
        self.utc = 0
        self.turn = 0  # counts the turns
        self.deadlines = Deadlines()
        self.guid = bytes(16)
        self.throttled: set[str] = set()  # why no messages are taken at the moment
        self.time_to_reach_queue_max = settings.queue_manager.time_to_reach_queue_s
        self.queues: dict[int, Queue] = {}
        self.reserved = 0  # bytes of uncommitted sends
        self.deleted_queues: set[int] = set()  # still holding messages of open transactions
        self.locks: dict[int, Lock] = {}
        self.departures = Departures()
        self.spans: SpanNotes | None = None  # what a trace shows; None: tracing is off
        self.unreadable: set[int] = set()  # messages whose records are damaged
        self.peekable_locks = 0
        self.claims = 0  # queues in which a group has claims
        self.host_change = ""  # why the home may be a copy, found at the start
        self.domain_trouble: Callable[[], str] = str  # why users of a domain cannot log in by NTLM
        self.rights_version = 0  # moves when a descriptor, an account or a group changes
        # Of callers whose account changed since: as long as anybody still has such a caller.
        self.stale_origins: WeakSet[Origin] = WeakSet()
        self.refusals: Counter[str] = Counter()
        self.conflicts: Counter[str] = Counter()  # contents that claim one name or place, by kind
        self.system = Caller.administrator()
        self.message_numbers = ReservedCounter(self, b"number", 1 << 16)
        self.lookup_ids = ReservedCounter(self, b"lookup", 1 << 16)
        self.queue_numbers = ReservedCounter(self, b"queue", 64, start=FIRST_FREE_NUMBER)
        self.ordinals = OrdinalCounter(self)
        self._read = read
        self.announced: deque[tuple[Queue, int]] = deque()
        self._telling = False

    def begin_tracing(
        self, read: Callable[[bytes], TraceContext | None], ratio: float, *, labels: bool
    ) -> SpanNotes:
        """Notes from now on what a trace shows; `read` finds contexts in extensions."""
        notes = SpanNotes(read, lambda: self.now_ms, self.packet, ratio, labels=labels)
        self.spans, self.departures = notes, TracedDepartures(notes)
        return notes

    # -- the three changes of a message

    def arrive(
        self,
        row: Row,
        batch: Batch,
        sender: bytes = b"",
        extra: bytes = b"",
        change: Change | None = None,
        *,
        numbers: range | None = None,
        place: int = 0,
        first: int = 0,
        last: int = 0,
    ) -> range:
        """New messages. In a change they are pending until that is committed; else they count now.

        `row` is that of the first of them, as `packed_rows` has it with `place`, `first` and
        `last`. Returns their numbers, which are given, or the next ones.
        """
        packets, count, state = batch.packets, batch.count, self.state
        if numbers is None:
            numbers = self.message_numbers.run(count)
        number, kind = numbers.start, MESSAGE
        rows = packed_rows(row, batch, place, first, last)
        if count == 1:
            state.arrive(number, row, extra, rows)
        else:
            state.arrive(number, row, extra, rows, batch.size, batch.priorities)
        if row.flags & FLAG_EXPRESS:
            kind = EXPRESS
        elif change is not None and row.lookup_id:
            change.published.append(Publish(number, count, row.lookup_id, row.arrived))
            rows = pending_rows(rows)
        records, tail = self.effects.records, sender + extra
        sizes = len(sender), len(extra) if extra else 0
        if count == 1:
            fields: tuple[object, ...] = batch.head
            head = ARRIVAL_OF_ROW.pack(number, rows, *fields[SPAN], *sizes) + tail
            records.append((kind, number, head, packets[0]))
            return numbers
        assert len(packets) == len(batch.looks) == count
        fronts = map(ARRIVAL_FRONT.pack, numbers, chain.from_iterable(PACKED_ROW.iter_unpack(rows)))
        heads = map(add, fronts, _rests(batch.looks, sizes, tail))
        records += zip(repeat(kind), numbers, heads, packets)
        return numbers

    def publish(self, run: Publish, change: Change) -> None:
        """Pending messages numbered in a row, of one queue and priority, become available."""
        self.state.publish(run)
        change.published.append(run)

    def drop(self, number: int, count: int, change: Change) -> None:
        """Pending messages numbered in a row are gone."""
        self.state.drop(number, count)
        change.dropped.append(Dropped(number, count))

    def settle(
        self, number: int, row: Row, reason: int, change: Change | None, extra: bytes | None = None
    ) -> None:
        """A message's new row; None for the extra keeps the one it has."""
        if extra is None:
            extra = self.state.extras.get(number, b"")
        self.state.settle(number, reason, row, extra)
        if reason != KEPT and self.deleted_queues:
            for deleted in list(self.deleted_queues):
                self.forget_deleted(deleted)
        if not row.flags & FLAG_EXPRESS:
            (self.effects.change if change is None else change).settles.append(
                Settle(number, reason, row, extra)
            )

    def end(self, number: int, row: Row, reason: int, change: Change | None = None) -> None:
        """A message is gone."""
        if self.state.extras:
            self.forget_aliases(number, row)
        self.departures.note(self.queues.get(row.queue), self.utc, reason, (row,))
        self.state.end(number, reason, row)
        if self.deleted_queues:
            self.forget_deleted(row.queue)
        if number in self.unreadable:
            self.damage_ended(number, self.effects.change if change is None else change)
        if row.flags & FLAG_EXPRESS:
            self.effects.records.append((DROP, number, b"", b""))
        else:
            (self.effects.change if change is None else change).ends.append(End(number, reason))

    def end_run(self, numbers: list[int], rows: Rows, reason: int) -> None:
        """Messages that `State.end_run` can take out together are gone."""
        queue = self.queues.get(rows.words[QUEUE_WORD])
        self.departures.note(queue, self.utc, reason, rows)
        self.state.end_run(numbers, rows, reason)
        for number in self.unreadable.intersection(numbers) if self.unreadable else ():
            self.damage_ended(number, self.effects.change)
        ends, records = self.effects.change.ends, self.effects.records
        express = rows.express
        if 1 in express:
            gone = compress(numbers, express)
            records += zip(repeat(DROP), gone, repeat(b""), repeat(b""))
            numbers = list(compress(numbers, map(not_, express)))
        ends += zip(numbers, repeat(reason))

    def forget_aliases(self, number: int, row: Row) -> None:
        """Earlier lookup ids end with the message's life in its queue family."""
        queue = self.queues.get(row.queue)
        if queue is not None and number in self.state.extras:
            for alias in self.extra(number).aliases:
                queue.root.aliases.pop(alias, None)

    def forget_deleted(self, number: int) -> None:
        """The last trace of a deleted queue, once no transaction holds messages of it."""
        if number in self.deleted_queues and not self.state.queue(number).count:
            self.deleted_queues.discard(number)
            queue = self.queues.pop(number, None)
            if queue is not None:
                self.queue_emptied(queue, self.effects.change)
            self.state.forget_queue(number)

    def define(
        self, table: int, key: bytes, value: bytes | None, change: Change | None = None
    ) -> None:
        """An object's new value."""
        self.state.define(table, key, value)
        (self.effects.change if change is None else change).defines.append(
            _defined(Define, (table, key, value))
        )

    def extra(self, number: int) -> Extra:
        """What a message has beside its row."""
        return decode_extra(self.state.extras.get(number, b""))

    # -- locks

    def lock(self, queue: Queue, number: int, lock: Lock) -> None:
        """The message is no longer available."""
        assert number not in self.locks
        self.locks[number] = lock
        queue.locked += 1
        if lock.allow_peek:
            self.peekable_locks += 1
        if lock.holder is not None:
            lock.holder.held.add(number)

    def unlock(self, queue: Queue, number: int) -> Lock:
        """The message has no holder now; what is to stay goes on to `Reading.returned`."""
        lock = self.locks.pop(number)
        queue.locked -= 1
        if lock.expired:
            self.state.calendar.held.pop(number, None)
        if lock.allow_peek:
            self.peekable_locks -= 1
        if lock.holder is not None:
            lock.holder.held.discard(number)
        return lock

    def lock_all(
        self,
        queue: Queue,
        numbers: list[int],
        holder: OpenQueueDescriptor,
        *,
        allow_peek: bool = False,
    ) -> None:
        """Messages are a reader's until they end them."""
        locks = self.locks
        assert locks.keys().isdisjoint(numbers)
        locks.update(dict.fromkeys(numbers, Lock(None, holder, allow_peek=allow_peek)))
        queue.locked += len(numbers)
        self.peekable_locks += len(numbers) if allow_peek else 0
        holder.held.update(numbers)

    def unlock_all(self, queue: Queue, numbers: list[int], holder: OpenQueueDescriptor) -> None:
        """Unlock messages of one reader."""
        locks = list(map(self.locks.pop, numbers))
        if [lock for lock in set(locks) if lock.expired or lock.allow_peek]:
            for number in [n for n, lock in zip(numbers, locks, strict=True) if lock.expired]:
                self.state.calendar.held.pop(number, None)
            self.peekable_locks -= sum([lock.allow_peek for lock in locks])
        queue.locked -= len(numbers)
        holder.held.difference_update(numbers)

    def held_by(self, descriptor: OpenQueueDescriptor) -> list[int]:
        """What a reader has read and not ended, outside transactions."""
        return [number for number in descriptor.held if self.locks[number].transaction is None]

    # -- availability

    def announce(self, queue: Queue, number: int) -> None:
        """Message Position Available (3.1.7.2.2), to be told once the change it is in is whole."""
        if queue.waiters:
            self.announced.append((queue, number))
        if queue.outgoing is not None:
            self.effects.active.add(queue.number)

    def tell(self) -> None:
        """Serves the waiting readers of everything announced; called when a change is committed.

        A served reader may make more available, in a journal for one: that is told by the call
        that is under way, after the reader it came from.
        """
        if self._telling or not self.announced:
            return
        announced, self._telling = self.announced, True
        try:
            while announced:
                queue, number = announced.popleft()
                self.serve(queue, number)
        finally:
            self._telling = False

    @contextmanager
    def untold(self) -> Iterator[None]:
        """No request is served inside: what was announced there is in an unfinished change."""
        telling, self._telling = self._telling, True
        try:
            yield
        finally:
            self._telling = telling

    def one_step(self) -> Effects:
        """Everything decided inside is one CHANGE record: the log has all of it or nothing."""
        return self.effects

    def commit(self, change: Change) -> None:
        """One atomic step is decided: log it, then serve who waited for what it made available."""
        self.effects.commit(change)
        self.tell()

    # -- reading packets the engine itself needs

    def packet(self, number: int) -> bytes:
        """The packet of a message: of this turn, or from the store; empty if it is damaged."""
        packet = self.effects.packet(number)
        return self._read(number) if packet is None else packet

    def new_guid(self) -> bytes:
        """A random GUID of version 4, in packet order."""
        raw = bytearray(self.random_bytes(16))
        raw[7] = raw[7] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        return bytes(raw)

    def event(self, name: str, **details: object) -> None:
        """One line for the operator's log."""
        self.effects.events.append(Event(name, details))
