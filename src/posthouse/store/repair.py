"""Removes damaged records on an operator's order, so that the store starts again.

The damaged segment is kept beside the store and a healed one takes its place: every good record
stays where it was, and what was lost is replaced by LOST records with the same sequence numbers.
Where the index of the segment is good only packets are lost, because it holds everything else.
Checkpoints and the marker of a clean stop may speak of what is gone, so they are set aside too;
the next start replays the log. What was lost is written to the store's own journal.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from posthouse.engine.ledger.records import (
    CHANGE,
    COPY,
    MESSAGE,
    TABLE_DAMAGE,
    Change,
    Define,
)
from posthouse.store.checkpoint import TEMPORARY_SUFFIX, checkpoint_names, write_file
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged, StoreError
from posthouse.store.express import CLEAN_NAME
from posthouse.store.format import (
    HEADER_SIZE,
    LOST,
    SEGMENT_HEADER_SIZE,
    SEGMENTS,
    SegmentEntry,
    SegmentHeader,
    generation_of,
    index_name,
    is_recycled,
    pack_record,
    pack_segment_header,
    pack_segments,
    segment_name,
)
from posthouse.store.index import Entry, finished, unpack_index
from posthouse.store.log import LogStore
from posthouse.store.lost_records import balance_books, damaged_records
from posthouse.store.read import read_file
from posthouse.store.recovery import Anchor, Recovery
from posthouse.store.salvage import Piece, filler, pieces
from posthouse.store.settings import REFUSE, StoreSettings

JOURNAL_NAME = "losses.jsonl"
ASIDE_SUFFIX = ".damaged"
NO_ID = bytes(16)


class Loss(msgspec.Struct):
    """A line of the journal: what was given up."""

    when: str
    segment: str
    kept_as: str
    records: int
    bytes: int
    messages: list[int]  # internal numbers, as far as they are known
    reasons: list[str]
    store_starts: bool = False
    still_wrong: str = ""


class NotPossible(StoreError):
    """There is nothing to accept, or not enough left to go on with."""


class DamagedSegment:
    """A damaged segment and all that is known about it from outside."""

    def __init__(self, disk: Disk, number: int) -> None:
        recovery = Recovery(disk, NO_ID)
        anchor = recovery.newest_sound()
        if anchor is None:
            raise NotPossible("no segment is sound enough to go on with: export, and begin again")
        self.number = number
        self.name = segment_name(number)
        self.store_id = recovery.store_id
        self.generation = generation_of(recovery.store_id, number)
        self.entry = self._entry(disk, anchor)
        self.segments = self._segments(anchor)

    def _entry(self, disk: Disk, anchor: Anchor) -> SegmentEntry:
        """Where it begins and ends; a last sequence of 0: unknown."""
        for entry in anchor.live:
            if entry.number == self.number:
                return entry
        if self.number < anchor.header.number or not _source(disk, self.name):
            raise NotPossible(f"{self.name} does not belong to the log")
        first = anchor.header.first_sequence
        if self.number > anchor.header.number:
            first = anchor.scanner.sequence
        size = disk.size(_source(disk, self.name))
        return SegmentEntry(self.number, size, first, 0)

    def _segments(self, anchor: Anchor) -> bytes:
        """The list a newest segment begins with, if this is one without a sound beginning."""
        if self.number <= anchor.header.number:
            return b""
        if anchor.scanner.reason:
            raise NotPossible(f"{segment_name(anchor.header.number)} is damaged: accept that first")
        header, scanner = anchor.header, anchor.scanner
        own = SegmentEntry(
            header.number, scanner.offset, header.first_sequence, scanner.sequence - 1
        )
        return pack_segments([*anchor.live, own])


class Healing:
    """Makes the healed segment."""

    def __init__(self, disk: Disk, target: DamagedSegment) -> None:
        self.target = target
        self.index = self._index(disk)
        self.records = 0
        self.bytes = 0
        self.messages: list[int] = []
        self.reasons: list[str] = []
        source = _source(disk, target.name)
        data = read_file(disk, source) if source else b""
        self.healed = self._heal(data)

    def _index(self, disk: Disk) -> list[Entry]:
        target, name = self.target, _source(disk, index_name(self.target.number))
        if not name:
            return []
        try:
            data = read_file(disk, name)
            index = finished(unpack_index(data, target.number, target.generation))
        except StoreError:
            return []
        return list(index.entries()) if index.length == target.entry.length else []

    def _heal(self, data: bytes) -> bytes:
        target, entry = self.target, self.target.entry
        if not data:
            self.reasons.append("the segment is missing")
        header = SegmentHeader(
            target.number,
            target.generation,
            entry.first_sequence,
            target.store_id,
            is_recycled(data),
        )
        head = pack_segment_header(header)
        if data[:SEGMENT_HEADER_SIZE] != head:
            self.reasons.append("offset 0: the header was damaged")
        body = data[SEGMENT_HEADER_SIZE : entry.length]
        padded = head + body + bytes(entry.length - SEGMENT_HEADER_SIZE - len(body))
        last = entry.last_sequence or None
        found = pieces(padded, target.generation, entry.first_sequence, last)
        return head + b"".join(
            self._replaced(piece) if piece.reason else padded[piece.offset : piece.end]
            for piece in found
        )

    def _replaced(self, piece: Piece) -> bytes:
        self.reasons.append(f"offset {piece.offset}: {piece.reason}")
        if not piece.bad:  # after the last record of the newest segment
            self.bytes += piece.end - piece.offset
            return b""
        return self._from_index(piece) or self._beginning(piece) or self._given_up(piece)

    def _from_index(self, piece: Piece) -> bytes:
        """The records of a segment from its index, without the packets."""
        entries = [e for e in self.index if piece.offset <= e.offset < piece.end]
        if len(entries) != piece.bad:
            return b""
        return b"".join(
            self._again(entry, piece.sequence + place) for place, entry in enumerate(entries)
        )

    def _again(self, entry: Entry, sequence: int) -> bytes:
        generation = self.target.generation
        if entry.kind not in (MESSAGE, COPY):
            return pack_record(entry.kind, sequence, generation, bytes(entry.head))
        self.records += 1
        self.bytes += entry.size
        self.messages.append(entry.number)
        return pack_record(LOST, sequence, generation, bytes(entry.size - HEADER_SIZE))

    def _beginning(self, piece: Piece) -> bytes:
        """The list of segments that a newest one begins with can be told from the one before."""
        target = self.target
        if piece.offset != SEGMENT_HEADER_SIZE or not target.segments:
            return b""
        first = pack_record(SEGMENTS, piece.sequence, target.generation, target.segments)
        rest = piece._replace(
            offset=piece.offset + len(first), sequence=piece.sequence + 1, bad=piece.bad - 1
        )
        return first + (self._given_up(rest) if rest.bad else b"")

    def _given_up(self, piece: Piece) -> bytes:
        self.records += piece.bad
        self.bytes += piece.end - piece.offset
        return filler(piece, self.target.generation)


def accept_loss(disk: Disk, number: int, when: str, settings: StoreSettings | None = None) -> Loss:
    """Gives up the damaged records of a segment, so that the store can start again."""
    target = DamagedSegment(disk, number)
    healing = Healing(disk, target)
    if not healing.reasons:
        return _finish(disk, target.name, settings or StoreSettings())
    kept_as = _free_name(disk, target.name) if disk.exists(target.name) else ""
    loss = Loss(
        when=when,
        segment=target.name,
        kept_as=kept_as,
        records=healing.records,
        bytes=healing.bytes,
        messages=healing.messages,
        reasons=healing.reasons,
    )
    write_file(disk, target.name + TEMPORARY_SUFFIX, [healing.healed])
    _journal(disk, loss)
    _set_aside(disk, [index_name(number), CLEAN_NAME, *checkpoint_names(disk.names())])
    if kept_as:
        disk.rename(target.name, kept_as)
    disk.rename(target.name + TEMPORARY_SUFFIX, target.name)
    disk.sync_directory()
    return _try_to_start(disk, loss, settings or StoreSettings())


def _finish(disk: Disk, name: str, settings: StoreSettings) -> Loss:
    """The segment is sound; if its loss was accepted before, the rest may still be to do."""
    lines = read_file(disk, JOURNAL_NAME).splitlines() if disk.exists(JOURNAL_NAME) else []
    losses = [msgspec.json.decode(line, type=Loss) for line in lines]
    if not losses or losses[-1].segment != name:
        raise NotPossible(f"{name} is not damaged")
    return _try_to_start(disk, losses[-1], settings)


def _journal(disk: Disk, loss: Loss) -> None:
    old = read_file(disk, JOURNAL_NAME) if disk.exists(JOURNAL_NAME) else b""
    name = JOURNAL_NAME + TEMPORARY_SUFFIX
    write_file(disk, name, [old, msgspec.json.encode(loss) + b"\n"])
    disk.rename(name, JOURNAL_NAME)
    disk.sync_directory()


def _set_aside(disk: Disk, names: list[str]) -> None:
    """Durably, before the healed segment is there: they speak of what it has no more."""
    for name in names:
        if disk.exists(name):
            disk.rename(name, _free_name(disk, name))
    disk.sync_directory()


def _source(disk: Disk, name: str) -> str:
    """The file itself, or what a call of this that was cut off had already set aside."""
    if disk.exists(name):
        return name
    aside = [found for found in disk.names() if found.startswith(name + ASIDE_SUFFIX)]
    return max(aside, key=lambda found: (len(found), found), default="")


def _free_name(disk: Disk, name: str) -> str:
    aside, count = name + ASIDE_SUFFIX, 1
    while disk.exists(aside):
        count += 1
        aside = f"{name}{ASIDE_SUFFIX}-{count}"
    return aside


def _try_to_start(disk: Disk, loss: Loss, settings: StoreSettings) -> Loss:
    """Opens the store, so that its books show what was lost and a new checkpoint is written."""
    store = LogStore(disk, replace(settings, damage=REFUSE))
    try:
        state = store.recover().state
    except StoreDamaged as error:
        loss.still_wrong = str(error)
        return loss
    balance_books(state)
    change = Change()
    for damaged in damaged_records(state):
        if segment_name(damaged.segment) == loss.segment:
            state.define(TABLE_DAMAGE, damaged.key, None)
            change.defines.append(Define(TABLE_DAMAGE, damaged.key, None))
    change.defines.append(state.books_define())
    store.append([(CHANGE, 0, change.pack(), b"")])
    store.close()
    loss.store_starts = True
    return loss
