"""Reading the record of one message from its segment."""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from operator import add, sub

from posthouse.engine.ledger.records import ARRIVAL_SIZE
from posthouse.store.checksum import crc32
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, HEADER_SIZE
from posthouse.store.index import BLOCK_SIZES, BLOCK_SIZES_AT
from posthouse.store.positions import LogPosition, PlaceColumns

WRONG = "the record of a message has a wrong checksum"
LARGE = 1 << 16  # packets from this size on are read by themselves, or they would be copied
_BEGUN = 512  # bytes of a large record that are read at first: mostly more than what is not packet
GAP_MAX = 4096  # between two records: cheaper to read than to go around
RUN_MAX = 1 << 20
# Of a message's record up to its sender: the checksum, and the sizes of sender and extra.
_FRONT = struct.Struct(f"<I{HEADER_SIZE - CRC.size + BLOCK_SIZES_AT}xHH")
assert _FRONT.size == HEADER_SIZE + ARRIVAL_SIZE
assert BLOCK_SIZES.format == "<HH"


def checked_record(file: File, name: str, place: LogPosition) -> bytes:
    """The bytes of a record whose checksum holds."""
    return verified(file.read(place.offset, place.size), name, place)


def verified(data: bytes, name: str, place: LogPosition) -> bytes:
    """These bytes, if they are the record of that place."""
    if len(data) != place.size or crc32(memoryview(data)[4:]) != CRC.unpack_from(data)[0]:
        raise StoreDamaged(name, place.offset, WRONG, place[:3])
    return data


def large_packet(file: File, name: str, place: tuple[int, int, int]) -> tuple[bytes, bytes]:
    """Sender and packet of a record, verified; the packet is not copied out of its record."""
    _, offset, size = place
    begun = file.read(offset, min(size, _BEGUN))
    if len(begun) < _FRONT.size:
        raise StoreDamaged(name, offset, WRONG, place)
    crc, sender_size, extra_size = _FRONT.unpack_from(begun)
    packet_at = _FRONT.size + sender_size + extra_size
    if packet_at > min(len(begun), size):
        begun = file.read(offset, min(packet_at, size))
    packet = file.read(offset + packet_at, max(size - packet_at, 0))
    whole = len(packet) == size - packet_at
    if not whole or crc32(packet, crc32(memoryview(begun)[CRC.size : packet_at])) != crc:
        raise StoreDamaged(name, offset, WRONG, place)
    return begun[_FRONT.size : _FRONT.size + sender_size], packet


def runs_of(places: PlaceColumns) -> Iterator[PlaceColumns]:
    """Records that lie close enough one after the other to be read at once; segment 0: nowhere."""
    segments, offsets, sizes = places
    ends = list(map(add, offsets, sizes))
    gaps = list(map(sub, offsets[1:], ends))
    near = {gap for gap in set(gaps) if 0 <= gap <= GAP_MAX}
    breaks: set[int] = set()
    if len(near) != len(set(gaps)):
        breaks.update([at for at, gap in enumerate(gaps, 1) if gap not in near])
    if segments.count(segments[0]) != len(segments):
        breaks.update([at for at in range(1, len(segments)) if segments[at] != segments[at - 1]])
    begin = 0
    for end in [*sorted(breaks), len(segments)]:
        for at in range(begin + 1, end) if ends[end - 1] - offsets[begin] > RUN_MAX else ():
            if ends[at] - offsets[begin] > RUN_MAX:
                yield places.part(begin, at)
                begin = at
        yield places.part(begin, end)
        begin = end


def packets_of(file: File, name: str, run: PlaceColumns) -> list[tuple[bytes, bytes]]:
    """Senders and packets of records that lie close together, in one read; each is verified."""
    (segment, *_), offsets, sizes = run
    start, size = offsets[0], offsets[-1] + sizes[-1] - offsets[0]
    if size >= LARGE * len(offsets):
        places = [(segment, *place) for place in zip(offsets, sizes, strict=True)]
        return [large_packet(file, name, place) for place in places]
    data = file.read(start, size)  # on the loop, also where the disk has to be asked
    view, packets, known, unpack = memoryview(data), [], len(data), _FRONT.unpack_from
    for offset, size in zip(offsets, sizes, strict=True):
        at = offset - start
        end = at + size
        if end > known:
            raise StoreDamaged(name, offset, WRONG, (segment, offset, size))
        crc, sender_size, extra_size = unpack(data, at)
        if crc32(view[at + 4 : end]) != crc:
            raise StoreDamaged(name, offset, WRONG, (segment, offset, size))
        at += _FRONT.size
        sender_end = at + sender_size
        packets.append((data[at:sender_end], data[sender_end + extra_size : end]))
    return packets


def unreadable(
    name: str, offset: int, error: OSError, place: tuple[int, int, int] | None = None
) -> StoreDamaged:
    """A disk that refuses a read costs what lies there, not the store."""
    return StoreDamaged(name, offset, f"reading failed: {error.strerror or error}", place)


def read_file(disk: Disk, name: str) -> bytes:
    """All of a file."""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def read_in_parts(disk: Disk, name: str, part: int) -> Generator[None, None, bytearray]:
    """All of a long file, with a pause between parts."""
    file = disk.open(name)
    try:
        data = bytearray(file.size())
        for at in range(0, len(data), part):
            if at:
                yield
            found = file.read(at, min(part, len(data) - at))
            data[at : at + len(found)] = found
        return data
    finally:
        file.close()
