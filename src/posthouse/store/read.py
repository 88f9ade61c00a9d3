"""Reading the record of one message from its segment."""

from __future__ import annotations

import struct

from posthouse.engine.ledger.records import ARRIVAL_SIZE
from posthouse.store.checksum import crc32
from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, HEADER_SIZE
from posthouse.store.index import BLOCK_SIZES, BLOCK_SIZES_AT
from posthouse.store.positions import LogPosition

WRONG = "the record of a message has a wrong checksum"
GAP_MAX = 4096  # between two records: cheaper to read than to go around
RUN_MAX = 1 << 20
# Of a message's record up to its sender: the checksum, and the sizes of sender and extra.
_FRONT = struct.Struct(f"<I{HEADER_SIZE - CRC.size + BLOCK_SIZES_AT}xHH")
assert _FRONT.size == HEADER_SIZE + ARRIVAL_SIZE
assert BLOCK_SIZES.format == "<HH"


def checked_record(file: File, name: str, place: LogPosition) -> bytes:
    """The bytes of a record whose checksum holds; waits for the disk only if it has to."""
    data = file.read_now(place.offset, place.size)
    if data is None:
        data = file.read(place.offset, place.size)
    return verified(data, name, place)


def verified(data: bytes, name: str, place: LogPosition) -> bytes:
    """These bytes, if they are the record of that place."""
    if len(data) != place.size or crc32(memoryview(data)[4:]) != CRC.unpack_from(data)[0]:
        raise StoreDamaged(name, place.offset, WRONG, place[:3])
    return data


def follows(run: list[LogPosition], place: LogPosition) -> bool:
    """Whether a record lies close enough behind others to be read with them."""
    first, last = run[0], run[-1]
    end = last.offset + last.size
    return (
        place.segment == first.segment
        and end <= place.offset <= end + GAP_MAX
        and place.offset + place.size - first.offset <= RUN_MAX
    )


def packets_of(file: File, name: str, run: list[LogPosition]) -> list[tuple[bytes, bytes]]:
    """Senders and packets of records that lie close together, in one read; each is verified."""
    start, size = run[0].offset, run[-1].offset + run[-1].size - run[0].offset
    data = file.read_now(start, size)
    if data is None:
        data = file.read(start, size)
    view, packets, known, unpack = memoryview(data), [], len(data), _FRONT.unpack_from
    for segment, offset, size, _ in run:
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
