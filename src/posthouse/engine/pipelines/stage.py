"""Stages: messages that wait, durable and invisible, for their batch to be published.

What a query writes goes by batch, partition and attempt. A stage is what one attempt wrote; which
attempts count is said once, when the batch is published.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import ROW_SIZE, WANT_ARRIVAL, WANT_JOURNAL, Record
from posthouse.engine.queues.open_queues import OpenQueueDescriptor
from posthouse.model.errors import InvalidParameter
from posthouse.security.access import Caller

QUERY_SIZE_MAX = 200
BATCH_MAX = ATTEMPT_MAX = (1 << 63) - 1
PARTITION_MAX = (1 << 31) - 1

_KEY = struct.Struct(">QIQ")

# Part.kind
TRANSACTIONAL = 1
ASKING = 4  # the arrival of some has consequences: journal copies, acknowledgments

_WANTS_AT = 40  # in a packed row
_ASKS = bytes(bool(wants & (WANT_JOURNAL | WANT_ARRIVAL)) for wants in range(256))


class StageKey(NamedTuple):
    """Whose messages these are: of a query's batch, the partition, and the attempt at it."""

    query: str
    batch: int
    partition: int
    attempt: int

    def pack(self) -> bytes:
        """As the key of a definition."""
        return self.query.encode() + b"\0" + _KEY.pack(*self[1:])

    @classmethod
    def unpack(cls, key: bytes) -> StageKey:
        """The stage that a key of a definition names."""
        return cls(key[: -_KEY.size - 1].decode(), *_KEY.unpack(key[-_KEY.size :]))


def check_query(query: str) -> None:
    """Refuse what cannot be the name of a query."""
    if not 0 < len(query) <= QUERY_SIZE_MAX or not query.isprintable():
        raise InvalidParameter(f"a query has a name of 1 to {QUERY_SIZE_MAX} printable characters")


def check_key(key: StageKey) -> None:
    """Refuse what cannot be the key of a stage."""
    check_query(key.query)
    most = (BATCH_MAX, PARTITION_MAX, ATTEMPT_MAX)
    if any(not 0 <= value <= limit for value, limit in zip(key[1:], most, strict=True)):
        raise InvalidParameter("batch, partition and attempt are numbers from 0 on")


class StagePart(msgspec.Struct, array_like=True):
    """Messages of a stage numbered in a row, of one queue and priority, in their order."""

    queue: int
    number: int
    count: int
    size: int  # bytes of the packets
    kind: int


class Stage(msgspec.Struct, array_like=True):
    """A stage as it is kept."""

    created: int  # UTC seconds
    owner: bytes  # SID of the user that wrote it
    messages: int
    size: int
    parts: list[StagePart]


class BatchSignature(NamedTuple):
    """By what a batch is known beside its number; empty: that is not known.

    `content` is what it was made of, `run` the run of a stream that wrote it, with the stream in
    front (`stream/run`) where that has a name that stays, `writer` one write.
    """

    content: str = ""
    run: str = ""
    writer: str = ""


UNSIGNED = BatchSignature()


class Query(msgspec.Struct, array_like=True):
    """How far a query has published. Older records end with `messages`, or with `writer`."""

    batch: int
    owner: bytes
    published: int  # UTC seconds of the last batch
    messages: int  # in it
    content: str = ""
    run: str = ""
    writer: str = ""
    queues: list[int] | None = None  # of its last batch with messages; None: that is not known

    def is_same(self, other: BatchSignature) -> bool | None:
        """Whether a batch of the same number is this one; None: it cannot be told by that.

        One write may ask twice. Two writes of one run are two, whatever they write.
        """
        if self.writer and self.writer == other.writer:
            return True
        if self.content and other.content:
            return self.content == other.content
        if self.run and self.run == other.run:
            return False
        return False if self.is_of_other_stream(other) else None

    def is_of_other_stream(self, other: BatchSignature) -> bool:
        """Whether both runs name their stream, as `stream/run`, and it is not the same one."""
        mine, theirs = self.run.partition("/"), other.run.partition("/")
        return bool(mine[1] and theirs[1]) and mine[0] != theirs[0]

    def difference(self, other: BatchSignature) -> str:
        """Return the words for how a batch that is not this one differs from it."""
        if self.content and other.content:
            return "it was made of other offsets"
        if self.is_of_other_stream(other):
            return "it is of another checkpoint"
        return "it is a second write"


class PublishResult(NamedTuple):
    """What came of a publish."""

    messages: int
    already: bool  # this batch was published before


class StageTarget(NamedTuple):
    """A queue that messages of a stage go to."""

    queue: int
    format_name: str  # as packets carry it
    outgoing: bool
    transactional: bool  # not known here for an outgoing queue


class StagedRun(NamedTuple):
    """Messages for a stage, made elsewhere, numbered in a row; of one queue and priority."""

    queue: int
    number: int
    rows: bytes  # packed, without lookup ids
    size: int  # bytes of the packets
    kind: int
    records: list[Record]


class Upload:
    """A stage that is being written; lives as long as its writer."""

    __slots__ = ("asking", "caller", "ended", "key", "messages", "opened", "parts", "size")

    def __init__(self, key: StageKey, caller: Caller) -> None:
        self.key = key
        self.caller = caller
        self.parts: list[StagePart] = []
        self.opened: dict[int, OpenQueueDescriptor] = {}  # by the number of the queue
        self.messages = self.size = self.asking = 0
        self.ended = False


def asking(rows: bytes | bytearray) -> bytes:
    """A byte for each packed row of a part with the kind ASKING: 1 where the message asks."""
    return bytes(rows[_WANTS_AT::ROW_SIZE]).translate(_ASKS)


encode = msgspec.msgpack.Encoder().encode
decode_stage = msgspec.msgpack.Decoder(Stage).decode
decode_query = msgspec.msgpack.Decoder(Query).decode
