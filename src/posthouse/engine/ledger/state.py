"""The state that the log describes: messages, their order, definitions and books.

The engine changes this state with the same methods when it decides and the store when it replays,
so both agree by construction. Locks, cursors, waiting reads and sessions are not here: they end
with the process.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from posthouse.engine.ledger.expiry_times import Calendar
from posthouse.engine.ledger.number_ranges import Numbers
from posthouse.engine.ledger.order import PRIORITIES, Order
from posthouse.engine.ledger.records import (
    ACCEPTED,
    COLUMNS,
    FLAG_EXPRESS,
    FLAGS_AT,
    KEPT,
    LOST_EXPRESS,
    NEVER,
    PRIORITY_AT,
    ROW,
    ROW_SIZE,
    TABLE_BOOKS,
    Arrival,
    Change,
    Define,
    Publish,
    Row,
)
from posthouse.engine.ledger.row_columns import (
    ARRIVED_WORD,
    EXPIRES_WORD,
    MOVE_WORD,
    QUEUE_WORD,
    ROW_WORDS,
    SIZE_WORD,
    Rows,
)
from posthouse.engine.ledger.table import MessageTable
from posthouse.model.large_tables import LargeTable

BOOKS_KEY = b"books"
_NO_QUEUE = 0  # the line of the books that belongs to the whole log
_OTHER_FLAGS = [bytes(mark | flags for mark in range(256)) for flags in range(256)]


def _halves(values: array[int]) -> tuple[array[int], array[int]]:
    """The low and the high words of 64-bit values."""
    words = array("I", values.tobytes())
    return words[0::2], words[1::2]


class QueueState:
    """One queue's messages in order, and its books: a durable line and an express line.

    A subqueue has the state of its queue as `parent`, whose `subqueue_bytes` are those of all its
    subqueues: they share one quota. The log has neither; `join` derives them when queues are made.
    """

    __slots__ = ("books", "bytes", "count", "express_books", "order", "parent", "subqueue_bytes")

    def __init__(self) -> None:
        self.order = Order()
        self.count = 0
        self.bytes = 0
        self.subqueue_bytes = 0
        self.parent: QueueState | None = None
        self.books = [0] * COLUMNS
        self.express_books = [0] * COLUMNS

    def join(self, parent: QueueState) -> None:
        """Count the messages of this subqueue in its queue, from now on."""
        self.parent = parent
        parent.subqueue_bytes += self.bytes


class Snapshot(msgspec.Struct):
    """A checkpoint's contents."""

    pages: dict[int, bytes]
    lanes: dict[int, dict[int, list[tuple[bytes, bytes]]]]
    sizes: dict[int, tuple[int, int]]
    books: dict[int, tuple[list[int], list[int]]]
    extras: dict[int, bytes]
    pending: list[int]
    doomed: list[int]
    definitions: list[tuple[int, bytes, bytes]]
    calendar: dict[int, bytes]
    last_number: int = 0
    pending_runs: list[tuple[int, int]] = []  # `pending` is of older programs, one by one


Lanes: TypeAlias = "dict[int, dict[int, list[tuple[array[int], array[int]]]]]"
"""By queue and priority: identifiers and numbers of messages, chunk by chunk."""


class Shared(NamedTuple):
    """A state as it was, without its definitions, while the state itself goes on.

    Pages and chunks are those of the state, which changes copies of them from now on. So taking it
    costs little, and a checkpoint holds only what has changed since.
    """

    pages: dict[int, bytearray]
    lanes: Lanes
    rest: Snapshot  # of which pages and lanes are empty


_replace = msgspec.structs.replace
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Snapshot).decode
_decode_books = msgspec.msgpack.Decoder(dict[int, tuple[list[int], list[int]]]).decode


class State:
    """Everything durable, in memory, without the packets."""

    __slots__ = (
        "bytes",
        "calendar",
        "definitions",
        "doomed",
        "extras",
        "had_express",
        "last_number",
        "pending",
        "queues",
        "table",
    )

    def __init__(self) -> None:
        self.table = MessageTable()
        self.queues: dict[int, QueueState] = {}
        self.extras: dict[int, bytes] = {}
        self.pending = Numbers()
        self.doomed: set[int] = set()
        self.definitions: LargeTable[tuple[int, bytes], bytes] = LargeTable()
        self.calendar = Calendar()
        self.bytes = 0  # of all queues
        self.had_express = False  # when a snapshot was taken; later books may not show it
        self.last_number = 0  # the highest number of a message that came, gone or not

    def queue(self, number: int) -> QueueState:
        """The messages and books of a queue, made on first use."""
        queue = self.queues.get(number)
        if queue is None:
            queue = self.queues[number] = QueueState()
        return queue

    # -- messages

    def arrive(
        self,
        number: int,
        row: Row,
        extra: bytes = b"",
        packed: bytes = b"",
        size: int = 0,
        priorities: bytes | None = None,
    ) -> None:
        """New messages numbered in a row: pending, or available at once.

        `row` is that of the first. Without `packed`, the rows of all, there is only one; `size` is
        that of all, `priorities` are theirs where they differ. They have one queue, kind and time
        to expire.
        """
        packed = packed or ROW.pack(*row)
        count = len(packed) // ROW_SIZE
        if extra:
            self.extras.update(dict.fromkeys(range(number, number + count), extra))
        if not row.lookup_id:
            self.arrive_pending(number, packed)
            return
        self.table.add(number, packed)
        last = number + count - 1
        if last > self.last_number:
            self.last_number = last
        if count == 1:
            self._enter(number, row, counted=True)
        else:
            self._enter_all(number, row, count, size, priorities)

    def _enter_all(
        self, number: int, row: Row, count: int, size: int, priorities: bytes | None
    ) -> None:
        """The messages of `arrive` that have come together, each to the end of its lane."""
        queue = self.queue(row.queue)
        if priorities is None:
            queue.order.lane(row.priority).insert_run(row.lookup_id, number, count)
        else:
            for at, priority in enumerate(priorities):
                queue.order.lane(priority).insert(row.lookup_id + at, number + at)
        queue.count += count
        queue.bytes += size
        if queue.parent is not None:
            queue.parent.subqueue_bytes += size
        self.bytes += size
        books = queue.express_books if row.flags & FLAG_EXPRESS else queue.books
        books[ACCEPTED] += count
        if row.expires != NEVER:
            self.calendar.add_run(row.expires, range(number, number + count))

    def arrive_pending(self, number: int, packed: bytes) -> None:
        """New messages numbered in a row, none of which is available yet, by their packed rows."""
        count = len(packed) // ROW_SIZE
        self.table.add(number, packed)
        self.pending.add_run(number, count)
        self.last_number = max(self.last_number, number + count - 1)

    def publish(self, run: Publish, *, counted: bool = True) -> None:
        """Pending messages become available; whatever else is among them stays as it is.

        `counted` is False where a record only repeats what an older one has said.
        """
        packed = self.table.packed(run.number, run.length)
        words = array("I", packed)
        if counted and self._are_alike(run, packed, words):
            self._publish_all(run, words)
            return
        for at, values in enumerate(ROW.iter_unpack(packed)):
            if values[1] and not values[0]:
                self._publish_one(run, at, Row(*values), counted=counted)

    def _are_alike(self, run: Publish, packed: bytearray, words: array[int]) -> bool:
        """Whether all of them are there, pending, and go to the end of one lane."""
        count, queue, priority = run.length, words[QUEUE_WORD], packed[PRIORITY_AT]
        return (
            bool(queue)
            and words[0::ROW_WORDS].count(0) == count
            and words[1::ROW_WORDS].count(0) == count
            and words[QUEUE_WORD::ROW_WORDS].count(queue) == count
            and packed[PRIORITY_AT::ROW_SIZE].count(priority) == count
            and self.queue(queue).order.lane(priority).last < run.lookup_id
        )

    def _publish_all(self, run: Publish, words: array[int]) -> None:
        number, count = run.number, run.length
        queue = self.queue(words[QUEUE_WORD])
        sizes, expiries = words[SIZE_WORD::ROW_WORDS], words[EXPIRES_WORD::ROW_WORDS]
        ids = array("Q", range(run.lookup_id, run.lookup_id + count))
        words[0::ROW_WORDS], words[1::ROW_WORDS] = _halves(ids)
        words[ARRIVED_WORD::ROW_WORDS] = array("I", [run.arrived]) * count
        if run.place:
            words[MOVE_WORD::ROW_WORDS] = array("I", range(run.place, run.place + count))
        packed = bytearray(words.tobytes())
        if run.flags:
            marks = packed[FLAGS_AT::ROW_SIZE]
            packed[FLAGS_AT::ROW_SIZE] = marks.translate(_OTHER_FLAGS[run.flags])
        self.table.put_run(number, packed)
        self.pending.discard_run(number, count)
        queue.order.lane(packed[PRIORITY_AT]).insert_run(run.lookup_id, number, count)
        size = sum(sizes)
        queue.count += count
        queue.bytes += size
        if queue.parent is not None:
            queue.parent.subqueue_bytes += size
        self.bytes += size
        queue.books[ACCEPTED] += count
        if expiries.count(NEVER) != count:
            self._note_expiries(number, expiries)

    def _note_expiries(self, number: int, expiries: array[int]) -> None:
        if expiries.count(expiries[0]) == len(expiries):
            self.calendar.add_run(expiries[0], range(number, number + len(expiries)))
            return
        for at, expires in enumerate(expiries):
            if expires != NEVER:
                self.calendar.add(expires, number + at)

    def _publish_one(self, run: Publish, at: int, row: Row, *, counted: bool) -> None:
        number = run.number + at
        row = row._replace(
            lookup_id=run.lookup_id + at,
            arrived=run.arrived,
            last_move=run.place + at if run.place else row.last_move,
            flags=row.flags | run.flags,
        )
        self.pending.discard(number)
        self.table.put(number, row)
        self._enter(number, row, counted=counted)

    def drop(self, number: int, count: int) -> None:
        """Pending messages numbered in a row are gone, as far as they are here."""
        self.table.drop_range(number, count)
        self.pending.discard_run(number, count)
        if self.extras:
            gone = range(number, number + count)
            for extra in [one for one in self.extras if one in gone]:
                del self.extras[extra]

    def settle(self, number: int, reason: int, row: Row, extra: bytes) -> None:
        """A message's new row. With a reason it leaves its queue and enters the row's."""
        old = self.table.get(number)
        if old is None:  # its record lies in a segment that is gone: a later copy brings it
            return
        if not old.lookup_id:
            if row.lookup_id:
                self.pending.discard(number)
                self._enter(number, row, counted=True)
        elif reason != KEPT:
            self._leave(old, reason)
            self._enter(number, row, counted=True)
        elif row.expires not in (old.expires, NEVER):
            self.calendar.add(row.expires, number)
        self._put(number, row, extra)

    def _put(self, number: int, row: Row, extra: bytes) -> None:
        self.table.put(number, row)
        if extra:
            self.extras[number] = extra
        else:
            self.extras.pop(number, None)
        if row.doomed:
            self.doomed.add(number)
        elif self.doomed:
            self.doomed.discard(number)

    def end(self, number: int, reason: int, row: Row | None = None) -> None:
        """A message is gone; a caller with its row saves looking it up."""
        if row is None:
            row = self.table.get(number)
        if row is None:
            return
        if row.lookup_id:
            self._leave(row, reason)
        else:
            self.pending.discard(number)
        self.table.drop(number)
        if self.extras:
            self.extras.pop(number, None)
        if self.doomed:
            self.doomed.discard(number)

    def end_run(self, numbers: list[int], rows: Rows, reason: int) -> None:
        """Available messages of one queue and priority are gone.

        In queue order; none has an extra or is doomed.
        """
        queue = self.queues[rows.words[QUEUE_WORD]]
        self.table.drop_run(numbers)
        queue.order.lane(rows.priorities[0]).remove_run(rows.lookup_ids)
        size = sum(rows.word(SIZE_WORD))
        queue.count -= len(rows)
        queue.bytes -= size
        if queue.parent is not None:
            queue.parent.subqueue_bytes -= size
        self.bytes -= size
        if timed := len(rows) - rows.word(EXPIRES_WORD).count(NEVER):
            self.calendar.left(self._still_due, timed)
        express = rows.express.count(1)
        queue.express_books[reason] += express
        queue.books[reason] += len(rows) - express

    def restore(self, number: int, row: Row, extra: bytes) -> None:
        """A copy that compaction made: nothing new happened, so the books do not count it.

        Its row is the merged one and wins over whatever older records said.
        """
        old = self.table.get(number)
        if old is not None and old.lookup_id:
            self._take_out(old)
        self.pending.discard(number)
        self._put(number, row, extra)
        if row.lookup_id:
            self._enter(number, row, counted=False)
        else:
            self.pending.add(number)

    def _enter(self, number: int, row: Row, *, counted: bool) -> None:
        queue = self.queues.get(row.queue) or self.queue(row.queue)
        order, priority = queue.order, row.priority
        lane = order.lanes[priority] or order.lane(priority)
        lane.insert(row.lookup_id, number)
        queue.count += 1
        queue.bytes += row.size
        if queue.parent is not None:
            queue.parent.subqueue_bytes += row.size
        self.bytes += row.size
        if counted:
            books = queue.express_books if row.flags & FLAG_EXPRESS else queue.books
            books[ACCEPTED] += 1
        if row.expires != NEVER:
            self.calendar.add(row.expires, number)

    def _leave(self, row: Row, reason: int) -> None:
        queue = self._take_out(row)
        books = queue.express_books if row.flags & FLAG_EXPRESS else queue.books
        books[reason] += 1

    def _take_out(self, row: Row) -> QueueState:
        queue = self.queues[row.queue]
        queue.order.lane(row.priority).remove(row.lookup_id)
        queue.count -= 1
        queue.bytes -= row.size
        if queue.parent is not None:
            queue.parent.subqueue_bytes -= row.size
        self.bytes -= row.size
        if row.expires != NEVER:
            self.calendar.left(self._still_due)
        return queue

    def _still_due(self, second: int, numbers: array[int]) -> Iterator[int]:
        """Those of the messages that are still to be looked at in this second."""
        expiries = self.table.expiries(numbers)
        return (n for n, expires in zip(numbers, expiries, strict=True) if 0 < expires <= second)

    # -- definitions

    def define(self, table: int, key: bytes, value: bytes | None) -> None:
        """An object's new value, None to delete it."""
        if table == TABLE_BOOKS:
            self._load_books(_decode_books(value or b"\x80"))
        elif value is None:
            self.definitions.pop((table, key), None)
        else:
            self.definitions[table, key] = value

    def of_table(self, table: int) -> list[tuple[bytes, bytes]]:
        """Key and value of every object of a table."""
        return [(key, value) for (kind, key), value in self.definitions.items() if kind == table]

    def forget_queue(self, number: int) -> None:
        """A deleted queue: its books go with it; it must be empty."""
        queue = self.queues.pop(number, None)
        assert queue is None or not queue.count

    # -- replay

    def apply_message(self, arrival: Arrival) -> None:
        """A MESSAGE record read back."""
        if arrival.number in self.table:  # seen already, in the checkpoint
            return
        self.arrive(arrival.number, arrival.row, arrival.extra)

    def apply_change(self, change: Change) -> None:
        """A CHANGE record read back, or just decided."""
        for run in change.published:
            self.publish(run)
        for number, reason, row, extra in change.settles:
            self.settle(number, reason, row, extra)
        for number, reason in change.ends:
            self.end(number, reason)
        for number, count in change.dropped:
            self.drop(number, count)
        for table, key, value in change.defines:
            self.define(table, key, value)

    def drop_express(self) -> dict[int, int]:
        """After a crash: what was express is lost. Returns how many per queue, an estimate."""
        lost: dict[int, int] = {}
        if self.had_express or self._has_express():
            numbers = [(n, row) for n, row in self.table.items() if row.flags & FLAG_EXPRESS]
            for number, row in numbers:
                lost[row.queue] = lost.get(row.queue, 0) + 1
                self.end(number, LOST_EXPRESS)
        for number, queue in self.queues.items():
            queue.express_books = [0] * COLUMNS
            queue.express_books[ACCEPTED] = queue.express_books[LOST_EXPRESS] = lost.get(number, 0)
        return lost

    def _has_express(self) -> bool:
        return any(q.express_books[ACCEPTED] for q in self.queues.values())

    # -- books

    def books_define(self) -> Define:
        """The books as a definition: the store writes it at the start of each segment."""
        return Define(TABLE_BOOKS, BOOKS_KEY, _encode(self._dump_books()))

    def _dump_books(self) -> dict[int, tuple[list[int], list[int]]]:
        books = {number: (q.books, q.express_books) for number, q in self.queues.items()}
        books[_NO_QUEUE] = ([self.last_number], [])
        return books

    def _load_books(self, books: dict[int, tuple[list[int], list[int]]]) -> None:
        for number, (durable, express) in books.items():
            if number == _NO_QUEUE:
                self.last_number = max(self.last_number, 0, *durable)
                continue
            queue = self.queue(number)
            queue.books = (durable + [0] * COLUMNS)[:COLUMNS]
            queue.express_books = (express + [0] * COLUMNS)[:COLUMNS]

    # -- checkpoints

    def share(self) -> Shared:
        """What another thread may write while this state goes on. It must not change it."""
        lanes = {
            number: {p: queue.order.lane(p).share() for p in queue.order.used}
            for number, queue in self.queues.items()
        }
        rest = Snapshot(
            pages={},
            lanes={},
            sizes={number: (q.count, q.bytes) for number, q in self.queues.items()},
            books={n: (list(q.books), list(q.express_books)) for n, q in self.queues.items()},
            extras=dict(self.extras),
            pending=[],
            doomed=sorted(self.doomed),
            definitions=[],
            calendar=self.calendar.dump(),
            last_number=self.last_number,
            pending_runs=self.pending.runs(),
        )
        return Shared(self.table.share(), lanes, rest)

    def snapshot(self) -> Snapshot:
        """A copy of everything."""
        pages, lanes, rest = self.share()
        return _replace(
            rest,
            pages={index: bytes(page) for index, page in pages.items()},
            lanes={
                number: {
                    priority: [(ids.tobytes(), numbers.tobytes()) for ids, numbers in chunks]
                    for priority, chunks in of_queue.items()
                }
                for number, of_queue in lanes.items()
            },
            definitions=[(t, k, v) for (t, k), v in self.definitions.items()],
        )

    def dump(self) -> bytes:
        """The whole state, to be loaded in one go."""
        return _encode(self.snapshot())

    @classmethod
    def load(cls, data: bytes) -> State:
        """The state of a checkpoint; ValueError (msgspec's too) when it is not one."""
        return cls.from_snapshot(_decode(data))

    @classmethod
    def from_snapshot(
        cls, snapshot: Snapshot, pages: Mapping[int, bytes | bytearray] | None = None
    ) -> State:
        """The state that a snapshot was taken of; ValueError when it is none.

        Pages that are apart are given apart.
        """
        state = cls()
        state.table.load(snapshot.pages if pages is None else pages)
        for number, lanes in snapshot.lanes.items():
            queue = state.queue(number)
            for priority, chunks in lanes.items():
                if not 0 <= priority < PRIORITIES:
                    raise ValueError(f"messages of priority {priority}")
                queue.order.lane(priority).load(chunks)
            queue.count, queue.bytes = snapshot.sizes.get(number, (0, 0))
        state.bytes = sum(q.bytes for q in state.queues.values())
        state._load_books(snapshot.books)
        state.had_express = state._has_express()
        state.extras = snapshot.extras
        state.pending = Numbers(snapshot.pending_runs)
        for number in snapshot.pending:
            state.pending.add(number)
        state.doomed = set(snapshot.doomed)
        state.definitions = LargeTable({(t, k): v for t, k, v in snapshot.definitions})
        state.calendar.load(snapshot.calendar)
        state.last_number = snapshot.last_number
        return state
