"""Express messages: in memory, beyond a limit in segments of their own, never synced.

They are kept over a clean stop, whose marker names their places, and are gone after a crash. The
marker is removed, durably, before a store is ready, so that it can never vouch for a later run.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from errno import EDQUOT, ENOSPC
from itertools import chain, compress, repeat
from operator import itemgetter, not_
from typing import NamedTuple

import msgspec

from posthouse.engine.ledger.records import EXPRESS, Record
from posthouse.model.large_tables import LargeTable
from posthouse.store.checkpoint import TEMPORARY_SUFFIX, write_file
from posthouse.store.checksum import crc32
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import (
    CRC,
    EXPRESS_MAGIC,
    FORMAT_VERSION,
    HEADER_SIZE,
    SEGMENT_HEADER_SIZE,
    SegmentHeader,
    check_head,
    generation_of,
    numbered,
    pack_record,
    pack_segment_header,
)
from posthouse.store.index import block_size
from posthouse.store.positions import LogPosition, Positions
from posthouse.store.read import checked_record, read_file
from posthouse.store.settings import StoreSettings

EXPRESS_SUFFIX = ".express"
CLEAN_NAME = "clean"
CLEAN_MAGIC = b"PHCLEAN\0"
_CLEAN_HEAD = struct.Struct("<8sHxxQQII")  # ..., position, size and checksum of the body, of this
_OVERHEAD = 200  # of an entry in memory
_SPILL_BYTES = 1 << 20
_number: Callable[[Record], int] = itemgetter(1)
_parts: Callable[[Record], tuple[bytes, bytes]] = itemgetter(2, 3)  # head and packet


def express_name(number: int) -> str:
    """The file of an express segment."""
    return f"{number:08d}{EXPRESS_SUFFIX}"


class ExpressSegment:
    """A file of spilled express messages."""

    __slots__ = (
        "damaged",
        "end",
        "file",
        "generation",
        "live",
        "live_bytes",
        "number",
        "pins",
        "sequence",
    )

    def __init__(self, number: int, store_id: bytes, file: File) -> None:
        self.number = number
        self.generation = generation_of(store_id, number)
        self.file = file
        self.sequence = 0
        self.end = SEGMENT_HEADER_SIZE
        self.live = 0
        self.live_bytes = 0
        self.pins = 0  # of bulk readers: the file stays
        self.damaged = False  # a record cannot be read: the file stays as long as it is needed


class CleanStop(msgspec.Struct):
    """What a clean stop leaves for the next start."""

    places: dict[int, bytearray]
    segments: list[tuple[int, int, int, int, int]]  # number, end, next record, live, live bytes
    waiting: dict[int, int]  # express messages per queue


class Marker(NamedTuple):
    """A clean stop's marker, read back."""

    position: int
    stop: CleanStop


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(CleanStop).decode


class ExpressMessages:
    """All express messages of a store."""

    def __init__(self, disk: Disk, settings: StoreSettings, store_id: bytes) -> None:
        self.disk = disk
        self.settings = settings
        self.store_id = store_id
        self.memory: LargeTable[int, tuple[bytes, bytes]] = LargeTable()  # oldest first
        self.memory_bytes = 0
        self.places = Positions()
        self.segments: dict[int, ExpressSegment] = {}
        self._dropped: deque[tuple[int, list[int]]] = deque()
        self._next_number = max(numbered(disk.names(), EXPRESS_SUFFIX), default=0) + 1

    # -- messages

    def put(self, number: int, head: bytes, packet: bytes) -> None:
        """A new message."""
        self.memory[number] = (head, packet)
        self.memory_bytes += len(head) + len(packet) + _OVERHEAD

    def put_all(self, records: Sequence[Record]) -> None:
        """Several new messages."""
        parts = list(map(_parts, records))
        self.memory.update(zip(map(_number, records), parts, strict=True))
        self.memory_bytes += sum(map(len, chain.from_iterable(parts))) + _OVERHEAD * len(parts)

    def drop(self, numbers: list[int], position: int) -> None:
        """Messages are gone; they stay readable until their end is synced and tidied away."""
        self._dropped.append((position, numbers))

    def forget(self, synced: int) -> None:
        """Frees what was dropped up to a position."""
        while self._dropped and self._dropped[0][0] <= synced:
            numbers = self._dropped.popleft()[1]
            found = list(map(self.memory.pop, numbers, repeat(None)))
            for number in compress(numbers, map(not_, found)) if None in found else ():
                self._forget(number)
            held = list(filter(None, found))
            freed = sum(map(len, chain.from_iterable(held)))
            self.memory_bytes -= freed + _OVERHEAD * len(held)

    def _forget(self, number: int) -> None:
        place = self.places.get(number)
        if place is not None:
            self._leave(number, place)

    def _leave(self, number: int, place: LogPosition) -> None:
        segment = self.segments[place.segment]
        segment.live -= 1
        segment.live_bytes -= place.size
        self.places.free(number, place.segment)

    def payload(self, number: int) -> bytes | None:
        """Arrival block and packet of a message, None if it is not here."""
        held = self.memory.get(number)
        if held is not None:
            return held[0] + held[1]
        place = self.places.get(number)
        if place is None:
            return None
        segment = self.segments[place.segment]
        return checked_record(segment.file, express_name(segment.number), place)[HEADER_SIZE:]

    def parts(self, number: int) -> tuple[bytes, bytes] | None:
        """Arrival block and packet of a message in memory, as two values."""
        return self.memory.get(number)

    def parts_of_each(self, numbers: list[int]) -> list[tuple[bytes, bytes] | None]:
        """Arrival blocks and packets of messages; None for each that is not in memory."""
        return list(map(self.memory.get, numbers))

    def parts_of_all(self, numbers: list[int]) -> list[tuple[bytes, bytes]] | None:
        """Arrival blocks and packets of messages; None unless all of them are in memory."""
        memory = self.memory
        if not memory or (numbers and numbers[0] not in memory):
            return None
        found = list(map(memory.get, numbers))
        return None if None in found else found  # type: ignore[return-value]

    # -- spilling

    def upkeep(self) -> bool:
        """Keeps memory below its limit and files below thrice their use; True: again, please."""
        for number in [n for n, s in self.segments.items() if not (s.live or s.pins)]:
            self._remove(number)
        if self.memory_bytes > self.settings.express_memory:
            return self._spill(self.settings.express_memory)
        sparse = self._sparse()
        return sparse is not None and self._gather(sparse)

    def _spill(self, limit: int) -> bool:
        """Writes the oldest messages to disk; False when it is full, they stay in memory then."""
        numbers: list[int] = []
        excess, taken = self.memory_bytes - limit, 0
        for number, (head, packet) in self.memory.items():
            if taken >= min(excess, _SPILL_BYTES):
                break
            numbers.append(number)
            taken += len(head) + len(packet) + _OVERHEAD
        if not self._write([(n, b"".join(self.memory[n])) for n in numbers]):
            return False
        for number in numbers:
            del self.memory[number]
        self.memory_bytes -= taken
        return self.memory_bytes > limit

    def _write(self, messages: list[tuple[int, bytes]]) -> bool:
        try:
            segment = self._current()
            records, places, at = [], [], segment.end
            for number, payload in messages:
                record = pack_record(EXPRESS, segment.sequence, segment.generation, payload)
                segment.sequence += 1
                records.append(record)
                places.append((number, at, len(record)))
                at += len(record)
            segment.file.write([b"".join(records)], segment.end)
        except OSError as error:
            if error.errno in (ENOSPC, EDQUOT):
                return False
            raise
        segment.live += len(messages)
        segment.live_bytes += at - segment.end
        segment.end = at
        for number, offset, size in places:
            self.places.put(number, segment.number, offset, size)
        return True

    def _current(self) -> ExpressSegment:
        newest = max(self.segments, default=0)
        if newest and self.segments[newest].end < self.settings.segment_size:
            return self.segments[newest]
        number = self._next_number
        file = self.disk.open(express_name(number), create=True)
        segment = ExpressSegment(number, self.store_id, file)
        header = SegmentHeader(number, segment.generation, 0, self.store_id)
        try:
            file.write([pack_segment_header(header, EXPRESS_MAGIC)], 0)
        except OSError:  # a full disk: the next step tries again, with the same name
            file.close()
            self.disk.unlink(express_name(number))
            raise
        self._next_number += 1
        self.segments[number] = segment
        return segment

    def _sparse(self) -> ExpressSegment | None:
        newest = max(self.segments, default=0)
        for number, segment in self.segments.items():
            if number != newest and segment.live_bytes * 4 < segment.end and not segment.damaged:
                return segment
        return None

    def _gather(self, sparse: ExpressSegment) -> bool:
        """Writes the survivors of a sparse segment again; the next step removes its file.

        One that cannot be read is met by the reader of the message, who sets it aside.
        """
        numbers = self.places.numbers(sparse.number)
        try:
            payloads = [(number, self.payload(number) or b"") for number in numbers]
        except StoreDamaged:
            sparse.damaged = True
            return False
        for number in numbers:
            place = self.places.get(number)
            assert place is not None
            self._leave(number, place)
        if self._write(payloads):
            return True
        for number, payload in payloads:
            packet_at = block_size(payload)
            self.put(number, payload[:packet_at], payload[packet_at:])
        return False

    def _remove(self, number: int) -> None:
        segment = self.segments.pop(number)
        segment.file.close()
        self.disk.unlink(express_name(number))
        self.places.free_segment(number)

    # -- clean stops

    def save(self, position: int, waiting: dict[int, int]) -> None:
        """Writes and syncs everything, then the marker that vouches for it."""
        while self.memory:
            if not self._write([(n, b"".join(parts)) for n, parts in self._first_in_memory()]):
                return  # a full disk: the next start counts them as lost
        for segment in self.segments.values():
            segment.file.sync()
        stop = CleanStop(
            places=self.places.share(),
            segments=[
                (s.number, s.end, s.sequence, s.live, s.live_bytes) for s in self.segments.values()
            ],
            waiting=waiting,
        )
        write_marker(self.disk, Marker(position, stop))

    def _first_in_memory(self) -> list[tuple[int, tuple[bytes, bytes]]]:
        """Takes the oldest out of memory. One walk finds them: each look for a first entry goes
        over all that were removed in front of it.
        """
        taken: list[tuple[int, tuple[bytes, bytes]]] = []
        size = 0
        for number, (head, packet) in self.memory.items():
            if size >= _SPILL_BYTES:
                break
            taken.append((number, (head, packet)))
            size += len(head) + len(packet)
        for number, _ in taken:
            del self.memory[number]
        self.memory_bytes -= size + _OVERHEAD * len(taken)
        return taken

    def load(self, stop: CleanStop) -> bool:
        """Takes over what a clean stop left; False if a file is missing or too short."""
        for number, end, sequence, live, live_bytes in stop.segments:
            name = express_name(number)
            if not self.disk.exists(name) or self.disk.size(name) < end:
                return False
            segment = ExpressSegment(number, self.store_id, self.disk.open(name))
            segment.end, segment.live, segment.live_bytes = end, live, live_bytes
            segment.sequence = sequence
            self.segments[number] = segment
        self.places = Positions.load(stop.places)
        return True

    def discard(self) -> None:
        """Removes the files of a run that did not stop cleanly."""
        self.close()
        self.segments.clear()
        self.places.clear()
        for number in numbered(self.disk.names(), EXPRESS_SUFFIX):
            self.disk.unlink(express_name(number))

    def close(self) -> None:
        """Gives the files back."""
        for segment in self.segments.values():
            segment.file.close()


def write_marker(disk: Disk, marker: Marker) -> None:
    """The last thing a clean stop writes."""
    body = _encode(marker.stop)
    head = _CLEAN_HEAD.pack(
        CLEAN_MAGIC, FORMAT_VERSION, marker.position, len(body), crc32(body), 0
    )[: -CRC.size]
    name = CLEAN_NAME + TEMPORARY_SUFFIX
    write_file(disk, name, [head, CRC.pack(crc32(head)), body])
    disk.rename(name, CLEAN_NAME)
    disk.sync_directory()


def read_marker(disk: Disk) -> Marker | None:
    """The marker of the last run, None if there is none; StoreDamaged if it is not good."""
    if not disk.exists(CLEAN_NAME):
        return None
    data = read_file(disk, CLEAN_NAME)
    if len(data) < _CLEAN_HEAD.size:
        raise StoreDamaged(CLEAN_NAME, len(data), "the marker ends inside its header")
    check_head(data[: _CLEAN_HEAD.size], CLEAN_NAME, CLEAN_MAGIC, "a clean stop's marker")
    position, size, crc = _CLEAN_HEAD.unpack_from(data)[2:5]
    body = data[_CLEAN_HEAD.size :]
    if len(body) != size or crc32(body) != crc:
        raise StoreDamaged(CLEAN_NAME, _CLEAN_HEAD.size, "the marker has a wrong checksum")
    try:
        return Marker(position, _decode(body))
    except ValueError as error:
        raise StoreDamaged(CLEAN_NAME, _CLEAN_HEAD.size, str(error)) from None
