"""Reads the records of many messages at once: positions pinned on the loop, bytes in a thread.

Imports numpy: import this module only where numpy is installed.
"""

from __future__ import annotations

from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posthouse.store.bulk_checksums import wrong_record
from posthouse.store.bulk_rows import Numbers, Rows, gathered
from posthouse.store.disk import File
from posthouse.store.errors import StoreDamaged
from posthouse.store.express import ExpressMessages, ExpressSegment, express_name
from posthouse.store.format import HEADER_SIZE
from posthouse.store.log import LogStore
from posthouse.store.read import WRONG, unreadable
from posthouse.store.segment import Segment

PLACE: Final = np.dtype([("segment", "<u4"), ("offset", "<u4"), ("size", "<u4")])
"""`store.positions.LogPosition`, packed; the highest bit of the size states that it ended."""
_SIZE: Final = np.uint32(0x7FFFFFFF)
_GAP_MAX: Final = 1024  # between two records: cheaper to read than to go around
_EXPRESS: Final = 1 << 32  # added to the number of an express segment
Ints = NDArray[np.int64]


class Records(NamedTuple):
    """Bytes of messages in the order they lie in: arrival blocks and packets after each other.

    `chosen` states which of the messages that were asked for these are.
    """

    data: bytes
    begins: Ints  # of the arrival blocks
    ends: Ints  # of the packets
    chosen: Ints
    numbers: Numbers
    rows: Rows


class _Source(NamedTuple):
    """A file that holds some of them."""

    name: str
    file: File
    segment: Segment | ExpressSegment


class Pinned:
    """Messages whose bytes stay where they are until `close`, which the store's owner calls.

    Messages that are gone by now are left out: a reader a moment later would not see them either.
    """

    def __init__(self, store: LogStore, numbers: Numbers, rows: Rows) -> None:
        self._numbers = numbers
        self._rows = rows
        self._sources: dict[int, _Source] = {}
        self._held: list[tuple[bytes, bytes]] = []  # express messages in memory
        self._held_index = np.empty(0, np.int64)  # which they are
        places = gathered(numbers, store.ledger.positions.packed, PLACE)
        self._keys = places["segment"].astype(np.int64)
        self._offsets = places["offset"].astype(np.int64)
        self._sizes = (places["size"] & _SIZE).astype(np.int64)
        absent = np.flatnonzero(self._sizes == 0)
        try:
            if len(absent):
                self._pin_express(store, absent)
            self._pin(store)
        except BaseException:
            self.close()
            raise

    def _pin(self, store: LogStore) -> None:
        for number in _different(self._keys[(self._sizes > 0) & (self._keys < _EXPRESS)]):
            try:
                segment, file = store.pinned(number)
            except LookupError:  # nothing in it lives
                self._sizes[self._keys == number] = 0
            else:
                self._sources[number] = _Source(segment.name, file, segment)

    def _pin_express(self, store: LogStore, absent: Ints) -> None:
        """Those in memory are held as they are, of the others their files."""
        held = store.express.parts_of_each(self._numbers[absent].tolist())
        there = np.array([parts is not None for parts in held], np.bool_)
        self._held = [parts for parts in held if parts is not None]
        self._held_index = absent[there]
        for at in absent[~there].tolist():
            self._pin_spilled(store.express, at)

    def _pin_spilled(self, express: ExpressMessages, at: int) -> None:
        place = express.places.get(int(self._numbers[at]))
        if place is None:
            return
        key = _EXPRESS + place.segment
        self._keys[at], self._offsets[at], self._sizes[at] = key, place.offset, place.size
        if key not in self._sources:
            segment = express.segments[place.segment]
            segment.pins += 1
            self._sources[key] = _Source(express_name(segment.number), segment.file, segment)

    def close(self) -> None:
        """Lets the segments go."""
        for source in self._sources.values():
            source.segment.pins -= 1
        self._sources = {}

    # -- in any thread

    def read(self) -> Records:
        """All bytes; each record's checksum is verified. StoreDamaged where one is wrong."""
        index = np.flatnonzero(self._sizes)
        keys, offsets, sizes = self._keys[index], self._offsets[index], self._sizes[index]
        if len(index) and not _is_ordered(keys, offsets):
            order = np.lexsort((offsets, keys))
            index, keys, offsets, sizes = index[order], keys[order], offsets[order], sizes[order]
        data, begins = self._read(keys, offsets, sizes)
        wrong = wrong_record(data, begins, sizes)
        if wrong is not None:
            raise self._damage(int(index[wrong]))
        ends = begins + sizes
        begins = begins + HEADER_SIZE
        if self._held:
            data, begins, ends, index = self._with_held(data, begins, ends, index)
        if self._is_whole(index):
            return Records(data, begins, ends, index, self._numbers, self._rows)
        return Records(data, begins, ends, index, self._numbers[index], self._rows[index])

    def _is_whole(self, index: Ints) -> bool:
        """Whether these are all messages, in the order they were asked for."""
        return len(index) == len(self._numbers) and bool((np.diff(index) > 0).all())

    def _read(self, keys: Ints, offsets: Ints, sizes: Ints) -> tuple[bytes, Ints]:
        if not len(keys):
            return b"", np.empty(0, np.int64)
        ends = offsets + sizes
        gaps = (np.diff(keys) != 0) | (offsets[1:] - ends[:-1] > _GAP_MAX)
        firsts = np.concatenate(([0], np.flatnonzero(gaps) + 1))
        counts = np.diff(np.append(firsts, len(keys)))
        lasts = firsts + counts - 1
        lengths = ends[lasts] - offsets[firsts]
        parts = [
            self._stretch(key, offset, length)
            for key, offset, length in zip(
                keys[firsts].tolist(), offsets[firsts].tolist(), lengths.tolist(), strict=True
            )
        ]
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        moved = np.cumsum(lengths) - lengths - offsets[firsts]
        begins = offsets + np.repeat(moved, counts)
        return data, begins

    def _stretch(self, key: int, offset: int, length: int) -> bytes:
        name, file, _ = self._sources[key]
        try:
            data = file.read(offset, length)
        except OSError as error:
            raise unreadable(name, offset, error) from error
        if len(data) < length:
            raise StoreDamaged(name, offset, WRONG)
        return data

    def _damage(self, at: int) -> StoreDamaged:
        key, offset, size = int(self._keys[at]), int(self._offsets[at]), int(self._sizes[at])
        name, lookup_id = self._sources[key].name, self._rows["lookup_id"][at]
        place = (key, offset, size) if key < _EXPRESS else None
        damage = StoreDamaged(name, offset, f"{WRONG}, lookup id {lookup_id}", place)
        damage.number = int(self._numbers[at])
        return damage

    def _with_held(
        self, data: bytes, begins: Ints, ends: Ints, index: Ints
    ) -> tuple[bytes, Ints, Ints, Ints]:
        """With the express messages in memory after those of files."""
        held = self._held
        sizes = np.array([len(head) + len(packet) for head, packet in held], np.int64)
        more_ends = np.cumsum(sizes) + len(data)
        joined = b"".join([data, *chain.from_iterable(held)])
        return (
            joined,
            np.concatenate((begins, more_ends - sizes)),
            np.concatenate((ends, more_ends)),
            np.concatenate((index, self._held_index)),
        )


def _different(keys: Ints) -> list[int]:
    """Each key once; mostly there is but one."""
    if not len(keys):
        return []
    changes = np.flatnonzero(np.diff(keys)) + 1
    return list(dict.fromkeys(keys[np.concatenate(([0], changes))].tolist()))


def _is_ordered(keys: Ints, offsets: Ints) -> bool:
    steps = np.diff(keys)
    return bool(((steps > 0) | ((steps == 0) & (np.diff(offsets) > 0))).all())
