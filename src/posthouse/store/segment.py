"""One segment of the log: its figures, and a reader that finds the exact place of damage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from posthouse.engine.ledger.records import MARK
from posthouse.store.checksum import crc32
from posthouse.store.disk import File
from posthouse.store.format import (
    CRC,
    HEADER,
    HEADER_SIZE,
    LOST,
    MARK_PAYLOAD,
    MARK_SIZE,
    RECORD_PAYLOAD_MAX,
    SEGMENT_HEADER_SIZE,
    SegmentEntry,
    generation_of,
    segment_name,
)
from posthouse.store.index import IndexBuilder


class Segment:
    """One segment: its place in the log, and the accounts that compaction goes by.

    `needs` counts, per other segment, the endings in here of messages whose record lies there;
    `keeps` likewise the bytes of rows. As long as that segment exists, compacting this one has to
    carry them along, so they weigh like live bytes.
    """

    __slots__ = (
        "aside",
        "body_at",
        "definition_bytes",
        "end",
        "file",
        "first_sequence",
        "fixed_bytes",
        "generation",
        "index",
        "keeps",
        "last_sequence",
        "live_bytes",
        "name",
        "needs",
        "number",
        "pins",
        "prepared",
        "recycled",
        "sealed",
    )

    def __init__(self, number: int, store_id: bytes, first_sequence: int) -> None:
        self.number = number
        self.name = segment_name(number)
        self.generation = generation_of(store_id, number)
        self.first_sequence = first_sequence
        self.last_sequence = first_sequence - 1
        self.body_at = SEGMENT_HEADER_SIZE  # after the records that begin every segment
        self.end = SEGMENT_HEADER_SIZE
        self.prepared = 0  # up to here the file has bytes after its records, written in advance
        self.recycled = False  # they may be those of a segment that is gone
        self.sealed = False
        self.file: File | None = None
        self.index: IndexBuilder | None = None  # while it is written to
        self.aside: dict[int, int] = {}  # where damaged records begin and end that were set aside
        self.pins = 0
        self.live_bytes = 0
        self.fixed_bytes = SEGMENT_HEADER_SIZE  # what any segment has: header, list, books, marks
        self.definition_bytes = 0
        self.needs: dict[int, int] = {}
        self.keeps: dict[int, int] = {}

    def entry(self) -> SegmentEntry:
        """The segment as later ones remember it."""
        return SegmentEntry(self.number, self.end, self.first_sequence, self.last_sequence)


class Scanner:
    """Walks over the records of a segment; stops at the first byte that is not one.

    After the walk `offset` states where the valid bytes end, `sequence` which record was expected
    there, `reason` why it is none (empty: the data ends there), `synced` the newest mark. Bytes up
    to the end of the data that were there before the segment, zeros or records of another one, are
    `blank`: the data ends in front of them. They hold no record of this segment, not even a piece
    that could ever be taken for one. A damaged record in `aside`, which gives the end of each by
    its offset, counts as a LOST one.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        generation: int,
        sequence: int,
        offset: int = SEGMENT_HEADER_SIZE,
        *,
        recycled: bool = False,
        aside: Mapping[int, int] | None = None,
    ) -> None:
        self.data = data
        self.aside = aside or {}
        self.recycled = recycled
        self.generation = generation
        self.sequence = sequence
        self.offset = offset
        self.reason = ""
        self.blank = False
        self.synced = 0

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Kind, offset and end of every record; the payload begins after the header."""
        yield from self._sound()
        while (end := self.aside.get(self.offset)) is not None:
            yield LOST, self.offset, end
            self.offset, self.sequence = end, self.sequence + 1
            self.reason, self.blank = "", False
            yield from self._sound()

    def _sound(self) -> Iterator[tuple[int, int, int]]:
        """Records up to the first byte that is not one."""
        data, generation, size = self.data, self.generation, len(self.data)
        view = memoryview(data)
        unpack, header_size = HEADER.unpack_from, HEADER_SIZE
        offset, sequence = self.offset, self.sequence
        while offset < size:
            if offset + header_size > size:
                self._note_bad(offset, "the record is cut short in its header")
                break
            crc, length, number, its_generation, kind = unpack(data, offset)
            end = offset + header_size + length
            if end > size or length > RECORD_PAYLOAD_MAX:
                self._note_bad(offset, f"the record claims {length} bytes, more than there are")
                break
            if crc32(view[offset + 4 : end]) != crc:
                self._note_bad(offset, "the record has a wrong checksum")
                break
            if its_generation != generation or number != sequence:
                self._note_bad(offset, "a record of another place lies here")
                break
            if kind == MARK and not self._note_mark(offset, end):
                break
            yield kind, offset, end
            offset, sequence = end, sequence + 1
            self.offset, self.sequence = offset, sequence

    def _note_bad(self, offset: int, reason: str) -> None:
        rest = bytes(memoryview(self.data)[offset:])
        self.blank = is_blank(rest, self.generation, recycled=self.recycled)
        if not self.blank:
            self.reason = reason if rest[:HEADER_SIZE].strip(b"\0") else "there are zeros"

    def _note_mark(self, offset: int, end: int) -> bool:
        (synced,) = MARK_PAYLOAD.unpack_from(self.data, offset + HEADER_SIZE)
        if end - offset != MARK_SIZE or synced >= self.sequence:
            self.reason = "a mark names a position after itself"
            return False
        self.synced = max(self.synced, synced)
        return True


def is_blank(rest: bytes, generation: int, *, recycled: bool) -> bool:
    """Whether the bytes up to the end of a segment were there before it."""
    if recycled:
        return generation.to_bytes(4, "little") not in rest
    return not rest.strip(b"\0")


def find_marks(data: bytes | memoryview, generation: int | None, offset: int) -> int:
    """The newest position that valid marks after `offset` call synced, 0 if there are none.

    Used where records ended in rubble: each mark is recognised on its own. Without a generation
    any mark counts: whose store this is cannot be read then, and refusing is the safe side.
    """
    raw = bytes(data)
    pattern = bytes([MARK, 0, 0, 0])
    if generation is not None:
        pattern = generation.to_bytes(4, "little") + pattern
    newest, at = 0, raw.find(pattern, offset)
    while at >= 0:
        newest = max(newest, _mark_at(raw, at - (HEADER_SIZE - len(pattern))))
        at = raw.find(pattern, at + 1)
    return newest


def _mark_at(raw: bytes, offset: int) -> int:
    end = offset + MARK_SIZE
    if offset < 0 or end > len(raw):
        return 0
    crc, length, sequence, _, _ = HEADER.unpack_from(raw, offset)
    if length != MARK_PAYLOAD.size or crc32(raw[offset + CRC.size : end]) != crc:
        return 0
    (synced,) = MARK_PAYLOAD.unpack_from(raw, offset + HEADER_SIZE)
    return int(synced) if synced < sequence else 0
