"""Bytes on the disk: headers of segments, records, indexes and checkpoints.

Every file begins with eight bytes of magic and the format version, so that a store of another
version is told from a damaged one. All numbers are little-endian.

A record is {crc, length, sequence, generation, kind} and the payload. The checksum covers all that
follows it. Sequence numbers grow by one from record to record; the generation follows from the
number of the segment and the store's own identifier. So bytes that lay on the disk before, in
another file or at another time, never pass for a record of this place.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from posthouse.store.checksum import crc32
from posthouse.store.errors import FormatUnknown, StoreDamaged

FORMAT_VERSION = 1

# Kinds of records of the store itself; the engine's are in posthouse.engine.ledger.records.
SEGMENTS = 0x40  # first in a segment: which other segments belong to the log
CARRY = 0x41  # what a compacted segment still held: a CHANGE that the books do not count
RELEASE = 0x42  # a segment no longer belongs to the log
LOST = 0x43  # stands where `posthouse doctor --accept-loss` gave up a damaged record

RECORD_PAYLOAD_MAX = 1 << 28
SEGMENT_SIZE_MAX = (1 << 32) - 1  # positions hold 32 bits

# -- records

HEADER = struct.Struct("<IIQIB3x")
HEADER_SIZE = HEADER.size
assert HEADER_SIZE == 24
HEADER_BODY = struct.Struct("<IQIB3x")  # the header after its checksum
assert HEADER_BODY.size == HEADER_SIZE - 4
CRC = struct.Struct("<I")
MARK_PAYLOAD = struct.Struct("<Q")
MARK_SIZE = HEADER_SIZE + MARK_PAYLOAD.size


def pack_record(kind: int, sequence: int, generation: int, payload: bytes) -> bytes:
    """One whole record; the hot path of `append` does the same in pieces."""
    assert len(payload) <= RECORD_PAYLOAD_MAX
    rest = HEADER_BODY.pack(len(payload), sequence, generation, kind)
    return CRC.pack(crc32(payload, crc32(rest))) + rest + payload


# -- segments

SEGMENT_MAGIC = b"PHSEGMNT"
EXPRESS_MAGIC = b"PHEXPRSS"
SEGMENT_HEADER = struct.Struct("<8sHHIIQ16sI")
SEGMENT_HEADER_SIZE = SEGMENT_HEADER.size
assert SEGMENT_HEADER_SIZE == 48


_RECYCLED = 1
_FLAGS_AT = 10


def is_recycled(data: bytes) -> bool:
    """Whether a segment is marked so, sound or not."""
    return bool(data[_FLAGS_AT : _FLAGS_AT + 1] == bytes([_RECYCLED]))


class SegmentHeader(NamedTuple):
    """The first bytes of a segment."""

    number: int
    generation: int
    first_sequence: int
    store_id: bytes
    recycled: bool = False  # written over one that is gone: old bytes may lie after the records


def generation_of(store_id: bytes, number: int) -> int:
    """What every record of a segment carries; segment numbers are never given twice."""
    return crc32(number.to_bytes(4, "little"), crc32(store_id))


def pack_segment_header(header: SegmentHeader, magic: bytes = SEGMENT_MAGIC) -> bytes:
    """The first bytes of a segment, with their checksum."""
    head = SEGMENT_HEADER.pack(magic, FORMAT_VERSION, int(header.recycled), *header[:-1], 0)[:-4]
    return head + CRC.pack(crc32(head))


def unpack_segment_header(
    data: bytes | memoryview, name: str, number: int, magic: bytes = SEGMENT_MAGIC
) -> SegmentHeader:
    """Reads the header of the segment of this number."""
    if len(data) < SEGMENT_HEADER_SIZE:
        raise StoreDamaged(name, len(data), "the segment ends inside its header")
    check_head(bytes(data[:SEGMENT_HEADER_SIZE]), name, magic, "a segment")
    values = SEGMENT_HEADER.unpack_from(data)
    header = SegmentHeader(*values[3:-1])._replace(recycled=bool(values[2] & _RECYCLED))
    if header.number != number:
        raise StoreDamaged(name, 12, f"the file holds segment {header.number}")
    return header


def check_head(head: bytes, name: str, magic: bytes, what: str) -> None:
    """Magic, checksum and version of a file's first bytes, the checksum being the last four."""
    if head[:8] != magic:
        raise StoreDamaged(name, 0, f"this is not {what} of a Posthouse store")
    if CRC.unpack(head[-4:])[0] != crc32(head[:-4]):
        raise StoreDamaged(name, 0, f"the header of {what} has a wrong checksum")
    version = int.from_bytes(head[8:10], "little")
    if version != FORMAT_VERSION:
        raise FormatUnknown(name, version, FORMAT_VERSION)


# -- the SEGMENTS and RELEASE records

_COUNT = struct.Struct("<I")
SEGMENT_ENTRY = struct.Struct("<IIQQ")


class SegmentEntry(NamedTuple):
    """A sealed segment as a later one remembers it."""

    number: int
    length: int
    first_sequence: int
    last_sequence: int


def pack_segments(entries: list[SegmentEntry]) -> bytes:
    """The payload of a SEGMENTS record."""
    return b"".join([_COUNT.pack(len(entries)), *(SEGMENT_ENTRY.pack(*e) for e in entries)])


def unpack_segments(payload: bytes | memoryview) -> list[SegmentEntry] | None:
    """Reads a SEGMENTS record; None when it lies about its length."""
    if len(payload) < _COUNT.size:
        return None
    (count,) = _COUNT.unpack_from(payload)
    if len(payload) != _COUNT.size + count * SEGMENT_ENTRY.size:
        return None
    return [SegmentEntry(*v) for v in SEGMENT_ENTRY.iter_unpack(payload[_COUNT.size :])]


RELEASE_PAYLOAD = struct.Struct("<I")

# -- file names: numbers only, never a name that came from outside


SPARE_SUFFIX = ".spare"
INDEX_SUFFIX = ".idx"


def segment_name(number: int) -> str:
    """The file of a segment."""
    return f"{number:08d}.log"


def spare_name(number: int) -> str:
    """The file of a segment that is gone, kept to be written over."""
    return f"{number:08d}{SPARE_SUFFIX}"


def index_name(number: int) -> str:
    """The file of a sealed segment's index."""
    return f"{number:08d}{INDEX_SUFFIX}"


def numbered(names: list[str], suffix: str) -> list[int]:
    """The numbers of all files `NNNNNNNN.suffix`, ascending."""
    stems = [n.removesuffix(suffix) for n in names if n.endswith(suffix)]
    return sorted(
        int(stem) for stem in stems if len(stem) >= 8 and stem.isascii() and stem.isdigit()
    )
