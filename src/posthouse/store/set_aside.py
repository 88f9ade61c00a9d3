"""Whether the log can go on without a damaged record: only if it held a message or a mark.

What the damaged bytes call themselves is not proof by itself, because any of them may be the
damaged ones. Two things are. Either the checksum fits once the fields that follow from the place
(length, sequence, generation) are put right: then only these fields were hit, and the kind for
which it fits is the one that was written. Or all of these fields are right as they stand, the
length leads exactly to the next record, and the kind between them is that of a message: then the
damage is in the payload or in the checksum. In every other case the log is refused: a commit, a
definition or a counter may be what was lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from posthouse.engine.ledger.records import ARRIVAL_SIZE, CHANGE, COPY, MARK, MESSAGE
from posthouse.store.checksum import crc32
from posthouse.store.format import (
    CARRY,
    HEADER_BODY,
    HEADER_SIZE,
    LOST,
    MARK_PAYLOAD,
    RELEASE,
    SEGMENTS,
    is_recycled,
)
from posthouse.store.salvage import next_record
from posthouse.store.segment import is_blank

_HEADER = struct.Struct("<IIQII")  # as HEADER, the kind with the zeros that follow it
assert _HEADER.size == HEADER_SIZE
_PLACE = struct.Struct("<QI")  # sequence and generation
_PLACE_AT = 8
_NUMBER = struct.Struct("<Q")
_KINDS = (MESSAGE, CHANGE, COPY, MARK, SEGMENTS, CARRY, RELEASE, LOST)
_UNKNOWN = 0, 0  # kind and end of a record of which they cannot be told
_LEAST = {MESSAGE: ARRIVAL_SIZE, COPY: ARRIVAL_SIZE, MARK: MARK_PAYLOAD.size, LOST: 0}


class Aside(NamedTuple):
    """A damaged record that the log can do without."""

    segment: int
    offset: int
    end: int
    kind: int
    reason: str
    number: int  # of the message, as its bytes name it

    @property
    def is_message(self) -> bool:
        """Whether anything can be missing: marks and fillers hold nothing that is needed."""
        return self.kind in (MESSAGE, COPY)


class Damaged(NamedTuple):
    """Bytes where a record was expected; `data` ends where its segment does."""

    data: bytes
    generation: int
    offset: int
    sequence: int
    last_sequence: int  # of a sealed segment; 0: of the newest one


def set_aside(segment: int, damaged: Damaged, reason: str) -> Aside | None:
    """The damaged record, if it provably is one that the log can do without."""
    kind, end = _by_checksum(damaged) or _by_header(damaged)
    if kind not in _LEAST:
        return None
    offset, number = damaged.offset, 0
    if kind in (MESSAGE, COPY):
        (number,) = _NUMBER.unpack_from(damaged.data, offset + HEADER_SIZE)
    return Aside(segment, offset, end, kind, reason, number)


def _by_checksum(damaged: Damaged) -> tuple[int, int] | None:
    data, offset = damaged.data, damaged.offset
    for end in _ends(damaged):
        crc, length = int.from_bytes(data[offset : offset + 4], "little"), end - offset
        payload = memoryview(data)[offset + HEADER_SIZE : end]
        for kind in _KINDS:
            place = length - HEADER_SIZE, damaged.sequence, damaged.generation
            if crc32(payload, crc32(HEADER_BODY.pack(*place, kind))) == crc:
                return kind, end
    return None


def _ends(damaged: Damaged) -> Iterator[int]:
    """Where the record can end."""
    data, offset, sequence = damaged.data, damaged.offset, damaged.sequence
    claimed = _claimed_end(damaged)
    if claimed:
        yield claimed
    following = next_record(data, damaged.generation, offset, sequence)
    if following is not None and following[1] == sequence + 1 and following[0] != claimed:
        yield following[0]
    if sequence == damaged.last_sequence and claimed != len(data) >= offset + HEADER_SIZE:
        yield len(data)


def _claimed_end(damaged: Damaged) -> int:
    """Where the record ends by its own length, if the log goes on there; else 0."""
    data, offset = damaged.data, damaged.offset
    if offset + HEADER_SIZE > len(data):
        return 0
    end = offset + HEADER_SIZE + int.from_bytes(data[offset + 4 : offset + 8], "little")
    return end if end <= len(data) and _goes_on(damaged, end) else 0


def _goes_on(damaged: Damaged, at: int) -> bool:
    """Whether the next record begins here, sound or not, or the records of the segment end here."""
    data, following = damaged.data, damaged.sequence + 1
    if damaged.last_sequence and following > damaged.last_sequence:
        return at == len(data)
    if at + HEADER_SIZE <= len(data):
        place = _PLACE.unpack_from(data, at + _PLACE_AT)
        if place == (following, damaged.generation):
            return True
    rest, recycled = data[at:], is_recycled(data)
    return not damaged.last_sequence and is_blank(rest, damaged.generation, recycled=recycled)


def _by_header(damaged: Damaged) -> tuple[int, int]:
    end = _claimed_end(damaged)
    if not end:
        return _UNKNOWN
    _, length, sequence, generation, kind = _HEADER.unpack_from(damaged.data, damaged.offset)
    here = (sequence, generation) == (damaged.sequence, damaged.generation)
    least = _LEAST.get(kind)
    if not here or least is None or length < least or (kind == MARK and length != least):
        return _UNKNOWN
    return kind, end
