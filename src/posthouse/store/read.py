"""Reading the record of one message from its segment."""

from __future__ import annotations

from zlib import crc32

from posthouse.store.disk import Disk, File
from posthouse.store.errors import StoreDamaged
from posthouse.store.format import CRC, HEADER_SIZE
from posthouse.store.index import block_size
from posthouse.store.positions import Place
from posthouse.store.segment import Segment


class Reading:
    """A read of one packet that is carried out elsewhere; it pins the segment meanwhile."""

    __slots__ = ("_file", "_place", "_segment")

    def __init__(self, segment: Segment, file: File, place: Place) -> None:
        self._segment = segment
        self._file = file
        self._place = place
        segment.pins += 1

    def packet(self) -> bytes:
        """The packet; in any thread, may wait for the disk."""
        data = self._file.read(self._place.offset, self._place.size)
        record = verified(data, self._segment.name, self._place)
        return record[HEADER_SIZE + block_size(record, HEADER_SIZE) :]

    def close(self) -> None:
        """Lets the segment go; the store's owner calls this."""
        self._segment.pins -= 1


def checked_record(file: File, name: str, place: Place) -> bytes:
    """The bytes of a record whose checksum holds; waits for the disk only if it has to."""
    data = file.read_now(place.offset, place.size)
    if data is None:
        data = file.read(place.offset, place.size)
    return verified(data, name, place)


def verified(data: bytes, name: str, place: Place) -> bytes:
    """The same bytes, if they are the record of that place."""
    if len(data) != place.size or crc32(memoryview(data)[4:]) != CRC.unpack_from(data)[0]:
        raise StoreDamaged(name, place.offset, "the record of a message has a wrong checksum")
    return data


def read_file(disk: Disk, name: str) -> bytes:
    """All of a file."""
    file = disk.open(name)
    try:
        return file.read(0, file.size())
    finally:
        file.close()
