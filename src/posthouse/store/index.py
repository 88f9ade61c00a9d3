"""The index of a sealed segment: all that replay and compaction need, without the packets.

It holds numbers, kinds and offsets as packed arrays, and one after the other what replay reads:
the arrival block of each message, the whole payload of every other record. An index is a
convenience: one that is missing or damaged is made again from its segment.

The index of a segment of small messages has tens of megabytes, so it is checked, read and gone
through in parts: work that takes long is a generator that pauses (`finished` leaves out pauses).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from posthouse.engine.ledger.records import ARRIVAL_SIZE, COPY, MESSAGE, Record
from posthouse.store.checksum import crc32
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, FORMAT_VERSION, HEADER_SIZE, check_head, index_name

INDEX_MAGIC = b"PHINDEX\0"
_HEAD = struct.Struct("<8sHxxIIIQQQII")  # ..., body's checksum, checksum of the head
_FEW = 3  # records are not worth being put together
PART = 2 << 20  # bytes of an index that are read, checked or written in one step
PASSED_OVER = 4096  # records between two pauses of what goes through all of them

T = TypeVar("T")
Paused = Generator[None, None, T]  # work that pauses, and gives a T at its end
BLOCK_SIZES = struct.Struct("<HH")
BLOCK_SIZES_AT = ARRIVAL_SIZE - BLOCK_SIZES.size


def finished(work: Paused[T]) -> T:
    """What work that pauses gives, without its pauses."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def block_size(payload: bytes | bytearray | memoryview, at: int = 0) -> int:
    """Size of the arrival block at the start of a message's payload; the packet is after it."""
    sender, extra = BLOCK_SIZES.unpack_from(payload, at + BLOCK_SIZES_AT)
    return int(ARRIVAL_SIZE + sender + extra)


class IndexBuilder:
    """Grows with a segment as it is written."""

    __slots__ = ("heads", "kinds", "numbers", "offsets")

    def __init__(self) -> None:
        self.numbers = array("Q")
        self.kinds = bytearray()
        self.offsets = array("I")
        self.heads = bytearray()

    def add(self, kind: int, number: int, offset: int, head: bytes | memoryview) -> None:
        """One record; `head` is the arrival block of a message, else the whole payload."""
        self.numbers.append(number)
        self.kinds.append(kind)
        self.offsets.append(offset)
        self.heads += head

    def add_all(self, records: Sequence[Record], offsets: list[int]) -> None:
        """The records of a group."""
        if len(records) < _FEW:
            add_number, add_kind, add_offset = (
                self.numbers.append,
                self.kinds.append,
                self.offsets.append,
            )
            for (kind, number, head, _), offset in zip(records, offsets, strict=True):
                add_number(number)
                add_kind(kind)
                add_offset(offset)
                self.heads += head
            return
        kinds, numbers, heads, _ = zip(*records, strict=True)
        self.numbers.extend(numbers)
        self.kinds += bytes(kinds)
        self.offsets.extend(offsets)
        self.heads += b"".join(heads)


class Entry(NamedTuple):
    """A record, as the index has it."""

    kind: int
    number: int
    offset: int
    size: int
    head: memoryview


class SegmentIndex:
    """A sealed segment's records in order."""

    __slots__ = ("first_sequence", "heads", "kinds", "length", "number", "numbers", "offsets")

    def __init__(self, number: int, first_sequence: int, length: int, built: IndexBuilder) -> None:
        self.number = number
        self.first_sequence = first_sequence
        self.length = length
        self.numbers = built.numbers
        self.kinds: bytes | bytearray = built.kinds
        self.offsets = built.offsets
        self.heads: bytearray | memoryview = built.heads

    def entries_of_changes(self) -> Iterator[Entry | None]:
        """The records that bring no message: all that counts where every message is dead.

        None after many messages in a row: the caller may have something else to do.
        """
        heads, at, passed = memoryview(self.heads), 0, 0
        for kind, _, offset, end in self.places():
            if kind in (MESSAGE, COPY):
                at += block_size(self.heads, at)
                passed += 1
                if passed == PASSED_OVER:
                    yield None
                    passed = 0
            else:
                size = end - offset
                head = heads[at : at + size - HEADER_SIZE]
                yield Entry(kind, 0, offset, size, head)
                at += len(head)

    def entries(self) -> Iterator[Entry]:
        """All records."""
        heads, at = memoryview(self.heads), 0
        for kind, number, offset, end in self.places():
            if kind in (MESSAGE, COPY):
                head_size = block_size(self.heads, at)
            else:
                head_size = end - offset - HEADER_SIZE
            yield Entry(kind, number, offset, end - offset, heads[at : at + head_size])
            at += head_size

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """Kind, number, offset and end of all records."""
        ends = chain(islice(self.offsets, 1, None), (self.length,))
        return zip(self.kinds, self.numbers, self.offsets, ends, strict=True)

    def parts(self, generation: int) -> Paused[list[memoryview]]:
        """The bytes of the index file, as they lie in memory; it may be very long."""
        body = [
            memoryview(part).cast("B")
            for part in (self.numbers, self.offsets, self.kinds, self.heads)
            if len(part)
        ]
        checksum = yield from checksum_of(body)
        head = _HEAD.pack(
            INDEX_MAGIC,
            FORMAT_VERSION,
            self.number,
            generation,
            len(self.kinds),
            self.first_sequence,
            self.length,
            len(self.heads),
            checksum,
            0,
        )[: -CRC.size]
        return [memoryview(head + CRC.pack(crc32(head))), *body]


def checksum_of(parts: Sequence[memoryview]) -> Paused[int]:
    """The checksum of all of them."""
    checksum = since = 0
    for part in parts:
        for at in range(0, len(part), PART):
            if since >= PART:
                yield
                since = 0
            piece = part[at : at + PART]
            checksum = crc32(piece, checksum)
            since += len(piece)
    return checksum


def unpack_index(data: bytes | bytearray, number: int, generation: int) -> Paused[SegmentIndex]:
    """Reads an index file; StoreDamaged if it is not a whole one of this segment."""
    name = index_name(number)
    if len(data) < _HEAD.size:
        raise StoreDamaged(name, len(data), "the index ends inside its header")
    check_head(bytes(data[: _HEAD.size]), name, INDEX_MAGIC, "an index")
    values = _HEAD.unpack_from(data)
    its_number, its_generation, count, first, length, heads_size, crc = values[2:9]
    if (its_number, its_generation) != (number, generation):
        raise StoreDamaged(name, 12, "the index belongs to another segment")
    body = memoryview(data)[_HEAD.size :]
    is_long_enough = len(body) == count * 13 + heads_size
    if not is_long_enough or (yield from checksum_of([body])) != crc:
        raise StoreDamaged(name, _HEAD.size, "the index has a wrong length or checksum")
    built = IndexBuilder()
    built.numbers.frombytes(body[: count * 8])
    built.offsets.frombytes(body[count * 8 : count * 12])
    index = SegmentIndex(number, first, length, built)
    index.kinds, index.heads = bytes(body[count * 12 : count * 13]), body[count * 13 :]
    return index
