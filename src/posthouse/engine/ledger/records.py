"""The records of the log: kinds, flags and encoding of all that the engine keeps.

Three things can be said about a message, each naming it by its internal number, never by its
place: a MESSAGE record brings it, a CHANGE record gives it a new row or ends it. A CHANGE record
is one atomic step: rows, endings and definitions in it hold together or not at all. A message
whose row has no lookup id is *pending*: it exists, but only a later CHANGE record that
gives it one makes it visible. So every commit is pending MESSAGE records and one CHANGE record.
Messages that are alike and numbered in a row may be published, or dropped, as one run: however many
they are, that costs the record a few bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from posthouse.model.errors import RemoteProtocolError

# Kinds of records. MARK belongs to the store alone; EXPRESS and DROP never reach the durable log.
MESSAGE = 1
CHANGE = 2
MARK = 3
COPY = 4  # a survivor that compaction copied forward, with its state merged in
EXPRESS = 5
DROP = 6

NEVER = 0xFFFFFFFF  # Row.expires: no limit

# Row.flags
FLAG_EXPRESS = 0x01
FLAG_TRANSACTIONAL = 0x02  # carries a TransactionHeader: priority 0, final acknowledgments
FLAG_FIRST = 0x04  # [MS-MQDMPR] 3.1.4.3, per destination queue
FLAG_LAST = 0x08
FLAG_ARRIVED = 0x10  # order-acknowledged: it stays for its final answer and is not sent again
FLAG_AUTHENTICATED = 0x20  # our own verification, never a bit of the wire
FLAG_COPY = 0x40  # lies in a journal or dead-letter queue, where it has no outcome of its own
FLAG_REMOTE = 0x80  # came over the wire: negative acknowledgments follow decision 8

# Row.wants: what the sender asked for
WANT_ARRIVAL = 0x01  # [MS-MQMQ] 2.2.19.3: PA, PR, NA, NR
WANT_RECEIVE = 0x02
WANT_NO_ARRIVAL = 0x04
WANT_NO_RECEIVE = 0x08
WANT_ACKNOWLEDGMENT = 0x0F
WANT_DEAD_LETTER = 0x10  # JN
WANT_JOURNAL = 0x20  # JP
WANT_FINAL_ACK = 0x40  # FA
WANT_APPLICATION_DEAD_LETTER = 0x80  # its name is in the extra

# Row.doomed
DOOMED_PURGED = 1
DOOMED_DELETED = 2

# How a message left a queue: the columns of the books (design: accepted = waiting + the rest).
KEPT = 0  # it did not leave
RECEIVED = 1
EXPIRED = 2
PURGED = 3
REJECTED = 4
MOVED = 5
LOST_EXPRESS = 6
ACCEPTED = 7  # column of arrivals
COLUMNS = 8
COLUMN_NAMES = (
    "kept",
    "received",
    "expired",
    "purged",
    "rejected",
    "moved_away",
    "lost_express",
    "accepted",
)


class Row(NamedTuple):
    """The durable state of one message: 44 bytes, in memory and in every record."""

    lookup_id: int  # 0: pending
    queue: int  # number of the queue that holds it
    expires: int  # UTC seconds, NEVER
    arrived: int  # UTC seconds
    size: int  # bytes of the packet: what quotas count
    ordinal: int  # of the message id; unique per source only
    last_move: int  # UTC seconds; of a message numbered by us: its place in the sequence
    message_class: int  # the reason, once it is a dead letter
    aborts: int
    moves: int
    priority: int
    flags: int
    wants: int
    doomed: int = 0  # purged while somebody held it: it never becomes available again


ROW = struct.Struct("<QIIIIIIHHHBBBBxx")
ROW_SIZE = ROW.size
PACKED_ROW = struct.Struct(f"{ROW_SIZE}s")
PRIORITY_AT, FLAGS_AT = 38, 39  # in a packed row
assert ROW_SIZE == 44


class Span(NamedTuple):
    """Where label, extension and body lie in a packet, so that bulk readers need no parser."""

    label_at: int = 0
    label_size: int = 0
    extension_at: int = 0
    extension_size: int = 0
    body_at: int = 0
    body_size: int = 0


# The arrival block in front of every stored packet: number, row, span, sizes of sender and extra.
ARRIVAL = struct.Struct("<QQIIIIIIHHHBBBBxxIHIIIIHH")
ARRIVAL_SIZE = ARRIVAL.size
_pack_arrival = ARRIVAL.pack
ARRIVAL_OF_ROW = struct.Struct("<Q44sIHIIIIHH")  # the same, with the row packed already
assert ARRIVAL_OF_ROW.size == ARRIVAL_SIZE
# The block in two parts: what each message has of its own, and what alike messages share.
ARRIVAL_FRONT, ARRIVAL_REST = struct.Struct("<Q44s"), struct.Struct("<IHIIIIHH")
assert ARRIVAL_FRONT.size + ARRIVAL_REST.size == ARRIVAL_SIZE


def pack_arrival(
    number: int, row: Row, span: Span, sender: bytes = b"", extra: bytes = b""
) -> bytes:
    """The arrival block: everything of a MESSAGE record in front of the packet."""
    head = _pack_arrival(number, *row, *span, len(sender), len(extra))
    if extra:
        return head + sender + extra
    return head + sender if sender else head


_SENDER_SIZE = struct.Struct("<H")
_SENDER_SIZE_AT = ARRIVAL_SIZE - 4  # sizes of sender and extra come last


def sender_of(block: bytes | memoryview, at: int = 0) -> bytes:
    """The verified sender in an arrival block."""
    (size,) = _SENDER_SIZE.unpack_from(block, at + _SENDER_SIZE_AT)
    at += ARRIVAL_SIZE
    return bytes(block[at : at + size]) if size else b""


def senders_of(blocks: Sequence[bytes]) -> list[bytes]:
    """The verified sender in each of several arrival blocks."""
    sizes = map(_SENDER_SIZE.unpack_from, blocks, repeat(_SENDER_SIZE_AT))
    return [
        block[ARRIVAL_SIZE : ARRIVAL_SIZE + size]
        for block, (size,) in zip(blocks, sizes, strict=True)
    ]


class Arrival(NamedTuple):
    """A MESSAGE record read back; the packet is `payload[packet_at:]`."""

    number: int
    row: Row
    span: Span
    sender: bytes
    extra: bytes
    packet_at: int


def unpack_arrival(payload: bytes | memoryview) -> Arrival:
    """Reads an arrival block; a record that lies about its sizes is damage."""
    if len(payload) < ARRIVAL_SIZE:
        raise RemoteProtocolError("message record shorter than its arrival block")
    values = ARRIVAL.unpack_from(payload)
    sender_size, extra_size = values[21], values[22]
    extra_at = ARRIVAL_SIZE + sender_size
    packet_at = extra_at + extra_size
    if packet_at > len(payload):
        raise RemoteProtocolError("message record shorter than its sender and extra")
    return Arrival(
        values[0],
        Row(*values[1:15]),
        Span(*values[15:21]),
        bytes(payload[ARRIVAL_SIZE:extra_at]),
        bytes(payload[extra_at:packet_at]),
        packet_at,
    )


# A record on its way to the store: kind, number, head, packet. A plain tuple: one per message.
Record = tuple[int, int, bytes, bytes]

_COUNTS = struct.Struct("<III")
_HAS_RUNS = 1 << 31  # of the first count: runs follow right after the counts
_RUN_COUNTS = struct.Struct("<II")  # published, dropped
_PUBLISH = struct.Struct("<QIQIIB3x")
_DROP = struct.Struct("<QI")
_SETTLE = struct.Struct("<QBHQIIIIIIHHHBBBBxx")
_SETTLED = struct.Struct(f"<QxH{ROW_SIZE}x")  # the same, of which only number and size matter
_END = struct.Struct("<QB")
_ENDS_TOGETHER = 32
_ENDS = struct.Struct("<" + "QB" * _ENDS_TOGETHER)
assert _ENDS.size == _ENDS_TOGETHER * _END.size
_DEFINE = struct.Struct("<BHI")
_DELETED = 0xFFFFFFFF


class Settle(NamedTuple):
    """A message's new row; `reason` states how it left the queue it was in, KEPT if it did not."""

    number: int
    reason: int
    row: Row
    extra: bytes


class End(NamedTuple):
    """A message is gone; `reason` is a column of the books."""

    number: int
    reason: int


class Define(NamedTuple):
    """An object of a table has this value now; None: it is gone."""

    table: int
    key: bytes
    value: bytes | None


class Publish(NamedTuple):
    """Pending messages numbered in a row, of one queue and priority, become available in order."""

    number: int  # of the first
    length: int  # how many
    lookup_id: int  # of the first; the others follow on from it
    arrived: int
    place: int = 0  # of the first in its sequence; 0: they have none
    flags: int = 0  # which their rows get beside their own


class Dropped(NamedTuple):
    """Pending messages numbered in a row are gone; no queue ever had them."""

    number: int
    length: int  # how many


class Change:
    """Collects one atomic CHANGE record."""

    __slots__ = ("defines", "dropped", "ends", "published", "settles")

    def __init__(self) -> None:
        self.settles: list[Settle] = []
        self.ends: list[tuple[int, int]] = []  # each an End, or as good as one
        self.defines: list[Define] = []
        self.published: list[Publish] = []
        self.dropped: list[Dropped] = []

    def __bool__(self) -> bool:
        runs = self.published or self.dropped
        return bool(self.settles or self.ends or self.defines or runs)

    def take(self, other: Change) -> None:
        """What another one has, after what this one has."""
        self.settles += other.settles
        self.ends += other.ends
        self.defines += other.defines
        self.published += other.published
        self.dropped += other.dropped

    def pack(self) -> bytes:
        """The payload of the record."""
        parts, settles, ends = [b""], 0, self.ends
        if self.published or self.dropped:
            parts += _packed_runs(self.published, self.dropped)
            settles = _HAS_RUNS
        if self.settles:
            settles |= len(self.settles)
            for number, reason, row, extra in self.settles:
                parts += (_SETTLE.pack(number, reason, len(extra), *row), extra)
        if ends:
            parts += _packed_ends(ends)
        for table, key, value in self.defines:
            if value is None:
                parts += (_DEFINE.pack(table, len(key), _DELETED), key)
            else:
                parts += (_DEFINE.pack(table, len(key), len(value)), key, value)
        parts[0] = _COUNTS.pack(settles, len(ends), len(self.defines))
        return b"".join(parts)


def _packed_runs(published: list[Publish], dropped: list[Dropped]) -> list[bytes]:
    return [
        _RUN_COUNTS.pack(len(published), len(dropped)),
        *[_PUBLISH.pack(*run) for run in published],
        *[_DROP.pack(*run) for run in dropped],
    ]


def _packed_ends(ends: list[tuple[int, int]]) -> Iterator[bytes]:
    """Many at once, as far as they make whole groups."""
    whole = len(ends) - len(ends) % _ENDS_TOGETHER
    for at in range(0, whole, _ENDS_TOGETHER):
        yield _ENDS.pack(*chain.from_iterable(ends[at : at + _ENDS_TOGETHER]))
    for number, reason in ends[whole:]:
        yield _END.pack(number, reason)


class _Cursor:
    """Bounded reading of a CHANGE payload."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = data
        self.at = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        at = self.at
        if at + layout.size > len(self.data):
            raise RemoteProtocolError("change record cut short")
        self.at = at + layout.size
        return layout.unpack_from(self.data, at)

    def take(self, size: int) -> bytes:
        at = self.at
        if at + size > len(self.data):
            raise RemoteProtocolError("change record cut short")
        self.at = at + size
        return bytes(self.data[at : at + size])


def _runs(cursor: _Cursor) -> tuple[list[Publish], list[Dropped]]:
    published, dropped = cursor.unpack(_RUN_COUNTS)
    publish = _PUBLISH.iter_unpack(cursor.take(published * _PUBLISH.size))
    drop = _DROP.iter_unpack(cursor.take(dropped * _DROP.size))
    return [Publish(*run) for run in publish], [Dropped(*run) for run in drop]


def _settles(cursor: _Cursor, count: int) -> Iterator[Settle]:
    new = tuple.__new__
    for _ in range(count):
        values = cursor.unpack(_SETTLE)
        extra = cursor.take(values[2]) if values[2] else b""
        yield new(Settle, (values[0], values[1], new(Row, values[3:]), extra))


def _defines(cursor: _Cursor, count: int) -> Iterator[Define]:
    for _ in range(count):
        table, key_size, value_size = cursor.unpack(_DEFINE)
        key = cursor.take(key_size)
        yield Define(table, key, None if value_size == _DELETED else cursor.take(value_size))


def unpack_change(payload: bytes | memoryview) -> Change:
    """Reads a CHANGE record; a record that lies about its counts is damage."""
    cursor = _Cursor(payload)
    settles, ends, defines = cursor.unpack(_COUNTS)
    change = Change()
    if settles & _HAS_RUNS:
        change.published, change.dropped = _runs(cursor)
    change.settles.extend(_settles(cursor, settles & ~_HAS_RUNS))
    change.ends.extend(_END.iter_unpack(cursor.take(ends * _END.size)))
    change.defines.extend(_defines(cursor, defines))
    if cursor.at != len(payload):
        raise RemoteProtocolError("change record longer than its counts")
    return change


class Skimmed(NamedTuple):
    """A CHANGE record without its rows: what the accounts of the log go by."""

    settles: list[tuple[int, int]]  # number, size of the extra
    ends: list[tuple[int, int]]
    defines: list[Define]
    published: list[Publish]
    dropped: list[Dropped]


def skimmed(change: Change) -> Skimmed:
    """A record that was read as a whole."""
    sizes = [(number, len(extra)) for number, _, _, extra in change.settles]
    return Skimmed(sizes, change.ends, change.defines, change.published, change.dropped)


def skim_change(payload: bytes) -> Skimmed:
    """A CHANGE record of our own, skimmed: without its rows."""
    cursor = _Cursor(payload)
    count, ends, defines = cursor.unpack(_COUNTS)
    runs: tuple[list[Publish], list[Dropped]] = ([], [])
    if count & _HAS_RUNS:
        runs, count = _runs(cursor), count & ~_HAS_RUNS
    at = cursor.at
    cursor.at = at + count * _SETTLE.size
    settles = _SETTLED.iter_unpack(payload[at : cursor.at])
    sizes: list[tuple[int, int]] = list(settles)
    if any(size for _, size in sizes):  # extras lie in between
        return skimmed(unpack_change(payload))
    ended = list(_END.iter_unpack(cursor.take(ends * _END.size)))
    return Skimmed(sizes, ended, list(_defines(cursor, defines)), *runs)


# Tables of definitions. Numbers are part of the store's format: never reuse one.
TABLE_QUEUE = 1
TABLE_TRANSACTION = 2
TABLE_DIRECTORY = 3
TABLE_ACCOUNT = 4
TABLE_COUNTER = 5
TABLE_BOOKS = 6
TABLE_MANAGER = 7
TABLE_OUTGOING = 8
TABLE_INCOMING = 9
TABLE_CLIENT_SESSION = 10
TABLE_PEER = 11
TABLE_DECISION = 12
TABLE_HEURISTIC = 13
TABLE_MACHINE = 14  # where other queue managers were reached last, by their GUID
TABLE_SEQUENCE = 16  # outgoing sequences of which messages are here
TABLE_HISTORY = 15
TABLE_PLACES = 27  # what was accepted at places of incoming sequences
TABLE_GROUP = 17  # named groups, by queue and name
TABLE_PURGED = 18  # the highest lookup id that was ever purged, by queue
TABLE_STAGE = 19  # messages that wait for their batch to be published
TABLE_QUERY = 20  # the last batch that each query published
TABLE_BINDERY = 22  # objects, properties and members of sets
TABLE_JOB_QUEUE = 23  # job queues, and the last number of each
TABLE_JOB = 24  # jobs: what was asked for, how they stand, where their data is
TABLE_JOB_HISTORY = 25  # what became of jobs
TABLE_INCARNATION = 26  # the random name of each start, by its first lookup id
TABLE_SIGNED = 31  # digests of signed messages that came into authenticated queues
TABLE_OPERATION = 43  # work on many messages: what was asked for, how far it is
TABLE_PULL = 41  # queues elsewhere from which messages are taken over
TABLE_PULLED = 42  # which messages were taken, by pull and page
TABLE_DAMAGE = 32  # damaged records of messages, by segment and offset
TABLE_ENDED = 33  # how messages of incoming sequences have ended, by place and digest
