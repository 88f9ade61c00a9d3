"""Reads a damaged segment: its good records, and where the bad bytes are.

After bad bytes the next record is recognised by the segment's generation in its header and by its
checksum; its sequence number states how many records were lost in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from posthouse.store.checksum import crc32
from posthouse.store.format import (
    HEADER,
    HEADER_SIZE,
    LOST,
    RECORD_PAYLOAD_MAX,
    SEGMENT_HEADER_SIZE,
    is_recycled,
    pack_record,
)
from posthouse.store.segment import Scanner

_GENERATION_AT = 16  # in a record's header
_FOREVER = 1 << 64


class Piece(NamedTuple):
    """A good record (`bad` is 0), or bad bytes in which this many records were lost."""

    kind: int
    offset: int
    end: int
    sequence: int
    bad: int = 0
    reason: str = ""


def pieces(
    data: bytes, generation: int, first_sequence: int, last_sequence: int | None
) -> Iterator[Piece]:
    """All of a segment after its header; `last_sequence` is known for sealed ones."""
    offset, sequence = SEGMENT_HEADER_SIZE, first_sequence
    while True:
        scanner = Scanner(data, generation, sequence, offset, recycled=is_recycled(data))
        for kind, at, end in scanner:
            yield Piece(kind, at, end, sequence)
            sequence += 1
        offset = scanner.offset
        following = next_record(data, generation, offset, sequence) if scanner.reason else None
        if following is None:
            break
        end, found = following
        yield Piece(LOST, offset, end, sequence, found - sequence, scanner.reason)
        offset, sequence = end, found
    lost = 0 if last_sequence is None else last_sequence - sequence + 1
    if (offset < len(data) and not scanner.blank) or lost > 0:
        reason = scanner.reason or "the segment ends too early"
        yield Piece(LOST, offset, len(data), sequence, max(lost, 0), reason)


def next_record(data: bytes, generation: int, offset: int, sequence: int) -> tuple[int, int] | None:
    """Offset and sequence number of the first record after bad bytes."""
    pattern = generation.to_bytes(4, "little")
    at = data.find(pattern, offset + _GENERATION_AT + 1)
    while at >= 0:
        start = at - _GENERATION_AT
        found = _sequence_at(data, start)
        room = start - offset
        if sequence < found <= sequence + room // HEADER_SIZE:
            return start, found
        at = data.find(pattern, at + 1)
    return None


def first_sequence(data: bytes, generation: int) -> int:
    """With which number a segment begins whose header is lost, by its first good record; or 1."""
    pattern = generation.to_bytes(4, "little")
    at = data.find(pattern, SEGMENT_HEADER_SIZE + _GENERATION_AT)
    while at >= 0:
        start = at - _GENERATION_AT
        found = _sequence_at(data, start)
        if found:
            return found if start == SEGMENT_HEADER_SIZE else found - 1
        at = data.find(pattern, at + 1)
    return 1


def _sequence_at(data: bytes, offset: int) -> int:
    """The sequence number of the record that begins here, 0 if none does."""
    if offset + HEADER_SIZE > len(data):
        return 0
    crc, length, sequence, _, _ = HEADER.unpack_from(data, offset)
    end = offset + HEADER_SIZE + length
    if length > RECORD_PAYLOAD_MAX or end > len(data):
        return 0
    return int(sequence) if crc32(data[offset + 4 : end]) == crc else 0


def filler(piece: Piece, generation: int) -> bytes:
    """LOST records that take exactly the place and the sequence numbers of what was lost."""
    size, count = piece.end - piece.offset, piece.bad
    assert count
    assert size >= count * HEADER_SIZE
    spare = size - count * HEADER_SIZE
    first = pack_record(LOST, piece.sequence, generation, bytes(spare))
    rest = range(piece.sequence + 1, piece.sequence + count)
    return first + b"".join(pack_record(LOST, sequence, generation, b"") for sequence in rest)
