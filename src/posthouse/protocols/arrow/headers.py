"""The headers of many packets at once, [MS-MQMQ] 2.2.19 and 2.2.20, as matrices of bytes.

Every check that `posthouse.wire.packet.packet_fields` makes of fields that differ from packet to
packet is made here for all of them; what does not pass is left to it. All other bytes up to the
label are the template's: two packets with equal ones are read alike.

Imports numpy and pyarrow: import this module only where both are installed.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow.compute import take

from posthouse.engine.ledger.records import ARRIVAL_SIZE
from posthouse.engine.ledger.rows import ARRIVAL_COLUMNS
from posthouse.store.bulk import Ints, Records
from posthouse.wire.packet import columns
from posthouse.wire.packet.headers import (
    LABEL_UNITS_MAX,
    MESSAGE_PROPERTIES_HEADER,
    OVER_HTTP,
    PACKET_SIZE_MAX,
    QUEUE_DIRECT,
    SECURITY_HEADER,
    TRANSACTION_HEADER,
)
from posthouse.wire.packet.packet_fields import (
    CONNECTOR_TYPE,
    NAME_SIZES,
    PROPERTIES,
    SECURITY,
    TRANSACTION,
)
from posthouse.wire.packet.trailing_headers import BASE_TAIL, USER_TAIL

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]

ARRIVAL: Final = np.dtype(
    ARRIVAL_COLUMNS.described(
        "number",
        "label_at",
        "label_size",
        "extension_at",
        "extension_size",
        "body_at",
        "body_size",
        "sender_size",
        "extra_size",
    )
)
FRONT: Final = np.dtype(
    columns.FRONT.described(
        "base_flags", "packet_size", "time_to_be_received", "sent_time", "ordinal", "user_flags"
    )
)
FRONT_SIZE: Final = columns.FRONT.size
PROPERTIES_FIELDS: Final = np.dtype(
    columns.PROPERTIES.described(
        "units", "application_tag", "body_size", "allocated", "extension_size"
    )
)
CORRELATION: Final = columns.PROPERTIES["correlation"].bytes
SECURITY_FIELDS: Final = np.dtype(columns.SECURITY.described())
_SIZES: Final = np.array(NAME_SIZES, np.int64)
_CONNECTOR_SIZE: Final = 16


class Cutter:
    """Cuts pieces out of bytes; the pieces lie in the order they are asked for."""

    def __init__(self, data: bytes) -> None:
        self._raw = data
        self._data = pa.py_buffer(data)

    def cut(self, begins: Ints, sizes: Any) -> Any:
        """One piece for each row, as a binary array."""
        count = len(begins)
        if not count:
            return pa.array([], pa.binary())
        ends = begins + sizes
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = begins
        offsets[1::2] = ends
        offsets[-1] = ends[-1]
        spread = pa.Array.from_buffers(
            pa.binary(), 2 * count, [None, pa.py_buffer(offsets), self._data]
        )
        evens = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))
        return take(spread, evens, boundscheck=False)

    def matrix(self, begins: Ints, width: int) -> Bytes:
        """Pieces of the same size, one in each line; they are the caller's."""
        if not len(begins):
            return np.empty((0, width), np.uint8)
        return self._everywhere(f"V{width}")[begins].view(np.uint8).reshape(-1, width)

    def words(self, at: Ints) -> Ints:
        """The 16-bit numbers at these places; where there are none, any."""
        return _long(self._everywhere("<u2")[np.minimum(at, len(self._raw) - 2)])

    def _everywhere(self, kind: str) -> NDArray[Any]:
        """The data as values of a kind that begin at every byte of it."""
        kind_of = np.dtype(kind)
        return np.ndarray(len(self._raw) - kind_of.itemsize + 1, kind_of, self._raw, strides=(1,))


class Headers(NamedTuple):
    """What the gather needs of packets that are as usual; `rows` states which of all they are."""

    rows: Ints
    arrival: NDArray[np.void]
    packet_at: Ints
    names_end: Ints  # from the packet's beginning: of queue names and connector type
    front: NDArray[np.void]
    properties: NDArray[np.void]
    correlation: Bytes
    transaction_flags: NDArray[np.uint32]
    keys: tuple[Any, ...]  # arrays of bytes: where all of them are equal, packets are alike
    alike: bytes = b""  # instead of keys: what all packets share, and with them senders

    def picked(self, which: Any) -> Headers:
        """The headers of some of the rows."""
        keys = tuple(key.filter(pa.array(which)) for key in self.keys)
        return Headers._make([*(value[which] for value in self[:-2]), keys, self.alike])


def read_headers(records: Records, cutter: Cutter) -> Headers:
    """Reads the headers of all packets that have what usual ones have."""
    begins, ends = records.begins, records.ends
    assert (ends - begins >= ARRIVAL_SIZE).all()
    arrival = _fields(cutter.matrix(begins, ARRIVAL_SIZE), ARRIVAL)
    assert (arrival["number"] == records.numbers).all()
    packet_at = begins + ARRIVAL_SIZE + _long(arrival["sender_size"]) + arrival["extra_size"]
    sizes, header_size = ends - packet_at, _long(arrival["label_at"])
    least = FRONT_SIZE + MESSAGE_PROPERTIES_HEADER.size
    enough = (header_size >= least) & (header_size <= sizes)
    rows = np.flatnonzero(enough)
    if len(rows) < len(begins):
        arrival, packet_at, sizes = arrival[rows], packet_at[rows], sizes[rows]
    return _Walk(cutter, rows, arrival, packet_at, sizes).headers()


class _Walk:
    """Steps over the headers of packets, all at the same time."""

    def __init__(
        self,
        cutter: Cutter,
        rows: Ints,
        arrival: NDArray[np.void],
        packet_at: Ints,
        sizes: Ints,
    ) -> None:
        self._cutter = cutter
        self._rows = rows
        self._arrival = arrival
        self._packet_at = packet_at
        self._sizes = sizes
        self._properties_at = _long(arrival["label_at"]) - MESSAGE_PROPERTIES_HEADER.size
        self._front = cutter.matrix(packet_at, FRONT_SIZE)
        self._properties = cutter.matrix(
            packet_at + self._properties_at, MESSAGE_PROPERTIES_HEADER.size
        )
        self.front = _fields(self._front, FRONT)
        self.properties = _fields(self._properties, PROPERTIES_FIELDS)
        self._flags = self.front["user_flags"]

    def headers(self) -> Headers:
        """What is usual."""
        names_end = self._names_end()
        transaction_flags, at = self._transaction(names_end)
        security, at = self._security(at)
        consistent = are_consistent(self._arrival, self.front, self.properties, self._sizes)
        usual = (at == self._properties_at) & consistent
        headers = Headers(
            self._rows,
            self._arrival,
            self._packet_at,
            names_end,
            self.front,
            self.properties,
            self._properties[:, CORRELATION],
            transaction_flags,
            (),
        )
        if not usual.all():
            headers, security = headers.picked(usual), security.filter(pa.array(usual))
        return headers._replace(keys=(*self._keys(usual, headers), security))

    def _names_end(self) -> Ints:
        """After the three queue names and the connector type."""
        at = np.full(len(self._rows), FRONT_SIZE, np.int64)
        for shift in (10, 13, 16):
            codes = self._flags >> shift & 7
            direct = codes == QUEUE_DIRECT
            behind = at + _SIZES[codes]
            if direct.any():
                counted = at + 2 + self._cutter.words(self._packet_at + at)
                behind = np.where(direct, counted + 3 & ~3, behind)
            at = behind
        return at + np.where(self._flags & CONNECTOR_TYPE, _CONNECTOR_SIZE, 0)

    def _transaction(self, at: Ints) -> tuple[NDArray[np.uint32], Ints]:
        has = (self._flags & TRANSACTION) != 0
        flags = np.zeros(len(at), np.uint32)
        inside = has & (at + TRANSACTION_HEADER.size <= self._properties_at)
        if inside.any():
            begins = (self._packet_at + at)[inside]
            flags[inside] = self._cutter.matrix(begins, 4).view("<u4")[:, 0]
        sizes = TRANSACTION_HEADER.size + np.where(flags & 1, _CONNECTOR_SIZE, 0)
        return flags, at + np.where(has, sizes, 0)

    def _security(self, at: Ints) -> tuple[Any, Ints]:
        """The fixed parts of the SecurityHeaders, null for none, and where they end."""
        has = (self._flags & SECURITY) != 0
        inside = has & (at + SECURITY_HEADER.size <= self._properties_at)
        if not has.any():
            return pa.nulls(len(at), pa.binary(SECURITY_HEADER.size)), at
        matrix = np.zeros((len(at), SECURITY_HEADER.size), np.uint8)
        matrix[inside] = self._cutter.matrix((self._packet_at + at)[inside], SECURITY_HEADER.size)
        fields = _fields(matrix, SECURITY_FIELDS)
        items = sum(_long(fields[name]) + 3 & ~3 for name in SECURITY_FIELDS.names or ())
        behind = at + np.where(has, SECURITY_HEADER.size + items, 0)
        return _lines(matrix), behind

    def _keys(self, usual: Flags, headers: Headers) -> tuple[Any, ...]:
        front, properties = self._front.copy(), self._properties.copy()
        for free in columns.FRONT_FREE:
            front[:, free] = 0
        for free in columns.PROPERTIES_FREE:
            properties[:, free] = 0
        if not usual.all():
            front, properties = front[usual], properties[usual]
        names_at = headers.packet_at + FRONT_SIZE
        names = self._cutter.cut(names_at, headers.names_end - FRONT_SIZE)
        return _lines(front), names, _lines(properties)


def are_consistent(
    span: NDArray[np.void], front: NDArray[np.void], properties: NDArray[np.void], sizes: Ints
) -> Flags:
    """Sizes agree with each other and with the packet's; no list lies after the body."""
    user_flags = front["user_flags"]
    label_size, extension_size = _long(span["label_size"]), _long(span["extension_size"])
    body_size = _long(span["body_size"])
    label_end = _long(span["label_at"]) + label_size
    extension_end = label_end + extension_size
    flags: Flags = (
        ((user_flags & PROPERTIES) != 0)
        & ((user_flags & (USER_TAIL & ~OVER_HTTP)) == 0)
        & ((front["base_flags"] & BASE_TAIL) == 0)
        & (front["packet_size"] == sizes)
        & (sizes <= PACKET_SIZE_MAX)
        & (properties["units"] < LABEL_UNITS_MAX)
        & (2 * _long(properties["units"]) == label_size)
        & (properties["extension_size"] == extension_size)
        & (properties["body_size"] == body_size)
        & (properties["allocated"] <= body_size)
        & (span["extension_at"] == label_end)
        & (span["body_at"] == extension_end)
        & (extension_end + body_size <= sizes)
    )
    return flags


def _fields(matrix: Bytes, layout: np.dtype[np.void]) -> NDArray[np.void]:
    """The lines of a matrix as structures."""
    return matrix.view(layout)[:, 0] if len(matrix) else np.empty(0, layout)


def _lines(matrix: Bytes) -> Any:
    """The lines of a matrix as an array of bytes."""
    whole = np.ascontiguousarray(matrix)
    return pa.Array.from_buffers(
        pa.binary(matrix.shape[1]), len(matrix), [None, pa.py_buffer(whole)]
    )


def is_same(lines: Any) -> bool:
    """Whether all values of an array of bytes are the same one; False where it is not plain."""
    count = len(lines)
    if lines.null_count:
        return bool(lines.null_count == count)
    if pa.types.is_binary(lines.type):
        ends = np.frombuffer(lines.buffers()[1], np.int32)[: count + 1]
        width = int(ends[1] - ends[0])
        if lines.offset or ends[0] or (np.diff(ends) != width).any():
            return False
        data = lines.buffers()[2]
    else:
        width, data = lines.type.byte_width, lines.buffers()[1]
    if lines.offset or not width:
        return not width
    matrix = np.frombuffer(data, np.uint8)[: count * width].reshape(count, width)
    return bool((matrix == matrix[0]).all())


def _long(values: Any) -> Ints:
    return np.asarray(values).astype(np.int64)
