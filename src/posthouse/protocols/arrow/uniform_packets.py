"""Packets with the same headers throughout: read once for all of them.

Mostly all messages of a batch come from one sender and go one way, and their headers are equal but
for the fields that every message has of its own. Whether they are is seen without a look at any
header: the lines up to the labels are laid below each other, and where no bit of a column is set in
some lines only, all have the same. Then the first line states where everything is.

Imports numpy: import this module only where numpy is installed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from posthouse.protocols.arrow.headers import (
    ARRIVAL,
    CORRELATION,
    FRONT,
    PROPERTIES_FIELDS,
    Cutter,
    Headers,
    are_consistent,
    read_headers,
)
from posthouse.store.bulk import Records
from posthouse.wire.packet.columns import FRONT_FREE, PROPERTIES_FREE
from posthouse.wire.packet.headers import MESSAGE_PROPERTIES_HEADER, TRANSACTION_HEADER
from posthouse.wire.packet.packet_fields import TRANSACTION

Words = NDArray[np.uint64]

_WORD: Final = 8
_ROWS_MIN: Final = 64  # below which it is not worth it
_REST: Final = 15
"""Batches that are not looked at again, after one whose packets were not alike."""
_ARRIVAL_FREE: Final = (slice(0, 52), slice(56, 74))
"""Number, row and span: all but where the label begins and how long sender and extra are."""


class _Shape(NamedTuple):
    """Where the parts of a line are, and which of its bits all lines share."""

    packet_at: int
    names_end: int  # in the packet
    transaction_at: int  # of the TransactionHeader, 0 for none
    width: int  # up to the label
    mask: Words
    shared: Words

    @property
    def size(self) -> int:
        """Of a line, with what makes it whole words."""
        return len(self.mask) * _WORD

    def is_of(self, lines: Words) -> bool:
        """Whether these lines have what is shared."""
        every = np.bitwise_and.reduce(lines, axis=0)
        some = np.bitwise_or.reduce(lines, axis=0)
        return not (((every ^ some) | (every ^ self.shared)) & self.mask).any()


class Alike:
    """Reads the headers of batches whose packets are alike; remembers the last ones."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._rest = 0

    def headers(self, records: Records, cutter: Cutter) -> Headers | None:
        """The headers of all packets; None where they are not alike, or not as usual."""
        if len(records.begins) < _ROWS_MIN:
            return None
        if self._rest:
            self._rest -= 1
            return None
        found = self._tried(self._shape, records, cutter)
        if found is None:
            self._shape = _shape_of_first(records, cutter)
            found = self._tried(self._shape, records, cutter)
        if found is None:
            self._shape, self._rest = None, _REST
        return found

    def _tried(self, shape: _Shape | None, records: Records, cutter: Cutter) -> Headers | None:
        if shape is None:
            return None
        begins, sizes = records.begins, records.ends - records.begins
        if (sizes < shape.width).any() or int(begins.max()) + shape.size > len(records.data):
            return None
        lines = cutter.matrix(begins, shape.size)
        return _headers(shape, lines, records) if shape.is_of(lines.view(np.uint64)) else None


def _headers(shape: _Shape, lines: NDArray[np.uint8], records: Records) -> Headers | None:
    properties_at = shape.width - MESSAGE_PROPERTIES_HEADER.size
    arrival = _part(lines, 0, ARRIVAL)
    front = _part(lines, shape.packet_at, FRONT)
    properties = _part(lines, properties_at, PROPERTIES_FIELDS)
    assert (arrival["number"] == records.numbers).all()
    packet_at = records.begins + shape.packet_at
    if not are_consistent(arrival, front, properties, records.ends - packet_at).all():
        return None
    correlation = lines[:, properties_at : shape.width][:, CORRELATION]
    flags = np.zeros(len(lines), np.uint32)
    if shape.transaction_at:
        flags = _part(lines, shape.transaction_at, _FLAGS)["flags"].copy()
    return Headers(
        np.arange(len(lines)),
        arrival,
        packet_at,
        np.full(len(lines), shape.names_end),
        front,
        properties,
        correlation,
        flags,
        keys=(),
        alike=shape.shared.tobytes(),
    )


_FLAGS: Final = np.dtype([("flags", "<u4")])


def _part(lines: NDArray[np.uint8], at: int, layout: np.dtype[np.void]) -> NDArray[np.void]:
    """A part of every line as structures, where it lies."""
    return np.ndarray(len(lines), layout, lines, offset=at, strides=(lines.shape[1],))


def _shape_of_first(records: Records, cutter: Cutter) -> _Shape | None:
    """The shape that the first packet has, where it is as usual."""
    one = Records._make([records.data, *(values[:1] for values in records[1:])])
    headers = read_headers(one, cutter)
    if not len(headers.rows):
        return None
    packet_at = int(headers.packet_at[0] - one.begins[0])
    width = packet_at + int(headers.arrival["label_at"][0])
    size = width + -width % _WORD
    if int(one.begins[0]) + size > len(records.data):
        return None
    names_end, transaction_at = int(headers.names_end[0]), 0
    if headers.front["user_flags"][0] & TRANSACTION:
        transaction_at = packet_at + names_end
    mask = _mask(size, packet_at, transaction_at, width)
    (line,) = cutter.matrix(one.begins, size).view(np.uint64)
    return _Shape(packet_at, names_end, transaction_at, width, mask, line & mask)


def _mask(size: int, packet_at: int, transaction_at: int, width: int) -> Words:
    """Ones for what packets share that are alike."""
    mask = np.full(size, 0xFF, np.uint8)
    for begin, free in (
        (0, _ARRIVAL_FREE),
        (packet_at, FRONT_FREE),
        (width - MESSAGE_PROPERTIES_HEADER.size, PROPERTIES_FREE),
    ):
        for part in free:
            mask[begin + part.start : begin + part.stop] = 0
    mask[width:] = 0
    if transaction_at:  # but whether a connector's GUID follows on it
        mask[transaction_at : transaction_at + TRANSACTION_HEADER.size] = 0
        mask[transaction_at] = 1
    return mask.view(np.uint64)
