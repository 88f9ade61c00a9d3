"""Exports the good messages of a store that does not start. The store is only read."""

from __future__ import annotations

from base64 import b64encode
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import Row
from posthouse.engine.ledger.state import State
from posthouse.store.disk import Disk
from posthouse.store.errors import StoreDamaged, StoreError
from posthouse.store.format import (
    HEADER_SIZE,
    SegmentEntry,
    generation_of,
    numbered,
    segment_name,
    unpack_segment_header,
)
from posthouse.store.index import block_size
from posthouse.store.ledger import StoreLedger
from posthouse.store.positions import LogPosition
from posthouse.store.read import checked_record, read_file
from posthouse.store.recovery import Recovery, sealed_segment
from posthouse.store.replay import Replay
from posthouse.store.salvage import first_sequence, pieces

NO_ID = bytes(16)
MESSAGES_NAME = "messages.jsonl"
DEFINITIONS_NAME = "definitions.jsonl"
_encode = msgspec.json.Encoder().encode


class Exported(NamedTuple):
    """What was saved, and what could not be."""

    messages: int
    bytes: int
    unreadable_records: int
    uncertain: int  # messages in front of damage: their end may have been lost with it


class Salvage:
    """A State and a Ledger made of every good record, whatever lies between them."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.state = State()
        self.ledger = StoreLedger()
        self.unreadable = 0
        self.last_damage = (0, 0)  # segment and offset
        self._replay = Replay(self.state, self.ledger)
        for entry in self._entries():
            self._segment(entry)

    def _entries(self) -> list[SegmentEntry]:
        recovery = Recovery(self.disk, NO_ID)
        anchor = recovery.newest_sound()
        self.store_id = recovery.store_id
        known = {entry.number: entry for entry in anchor.live} if anchor else {}
        newest = anchor.header.number if anchor else 0
        numbers = [n for n in numbered(self.disk.names(), ".log") if n in known or n >= newest]
        return [known.get(number) or self._unlisted(number) for number in numbers]

    def _unlisted(self, number: int) -> SegmentEntry:
        """A segment that no other one remembers: the newest, or all if none is sound."""
        name = segment_name(number)
        data = read_file(self.disk, name)
        try:
            header = unpack_segment_header(data, name, number)
        except StoreDamaged:
            first = first_sequence(data, generation_of(self.store_id, number))
            return SegmentEntry(number, len(data), first, 0)
        self.store_id = header.store_id
        return SegmentEntry(number, len(data), header.first_sequence, 0)

    def _segment(self, entry: SegmentEntry) -> None:
        segment = sealed_segment(entry, self.store_id)
        self.ledger.segments[entry.number] = segment
        data = read_file(self.disk, segment.name)[: entry.length]
        view = memoryview(data)
        last = entry.last_sequence or None
        generation = generation_of(self.store_id, entry.number)
        for piece in pieces(data, generation, entry.first_sequence, last):
            if piece.reason:
                self._damage(entry.number, piece.offset, max(piece.bad, 1))
                continue
            payload = view[piece.offset + HEADER_SIZE : piece.end]
            try:
                self._replay.record(
                    piece.kind, segment, piece.offset, piece.end - piece.offset, payload
                )
            except StoreDamaged:
                self._damage(entry.number, piece.offset, 1)

    def _damage(self, number: int, offset: int, records: int) -> None:
        self.unreadable += records
        self.last_damage = (number, offset)

    def packet(self, place: LogPosition) -> bytes:
        """The packet of a message."""
        name = segment_name(place.segment)
        file = self.disk.open(name)
        try:
            record = checked_record(file, name, place)
        finally:
            file.close()
        return record[HEADER_SIZE + block_size(record, HEADER_SIZE) :]


def export(disk: Disk, target: Disk) -> Exported:
    """Writes every good message into a file of its own, and a table of them as JSON lines."""
    salvage = Salvage(disk)
    lines, size, uncertain = [], 0, 0
    for number, row in salvage.state.table.items():
        place = salvage.ledger.positions.get(number)
        if place is None:
            continue
        try:
            packet = salvage.packet(place)
        except StoreError:
            salvage.unreadable += 1
            continue
        name = f"message-{number:020d}.packet"
        _write(target, name, packet)
        certain = (place.segment, place.offset) > salvage.last_damage
        lines.append(_encode(describe(number, row, name, place, certain=certain)))
        size += len(packet)
        uncertain += not certain
    _write(target, MESSAGES_NAME, b"".join(line + b"\n" for line in lines))
    _write(target, DEFINITIONS_NAME, b"".join(_definitions(salvage.state)))
    target.sync_directory()
    return Exported(len(lines), size, salvage.unreadable, uncertain)


def describe(
    number: int, row: Row, name: str, place: LogPosition, *, certain: bool
) -> dict[str, object]:
    """A line of the table."""
    return {
        "number": number,
        "file": name,
        "pending": not row.lookup_id,
        **row._asdict(),
        "segment": segment_name(place.segment),
        "offset": place.offset,
        "certain": certain,
    }


def _definitions(state: State) -> list[bytes]:
    return [
        _encode({"table": table, "key": b64encode(key), "value": b64encode(value)}) + b"\n"
        for (table, key), value in sorted(state.definitions.items())
    ]


def _write(target: Disk, name: str, data: bytes) -> None:
    file = target.open(name, create=True)
    try:
        file.write([data], 0)
        file.sync()
    finally:
        file.close()
