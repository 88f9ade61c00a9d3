"""Builds columns of ordinary messages from packet headers, log bytes and templates.

Imports numpy and pyarrow: import this module only where both are installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from posthouse.engine.ledger.records import (
    ARRIVAL_SIZE,
    FLAG_AUTHENTICATED,
    FLAG_EXPRESS,
    FLAG_FIRST,
    FLAG_LAST,
    FLAG_REMOTE,
    FLAG_TRANSACTIONAL,
)
from posthouse.model.message import class_name
from posthouse.model.message_columns import Column
from posthouse.model.message_json import VT_LPSTR, MessageJson, body_text
from posthouse.protocols.arrow.columns import TRANSACTION, TYPES
from posthouse.protocols.arrow.headers import Bytes, Cutter, Headers
from posthouse.protocols.handlers.message_json import clean
from posthouse.security.sids import format_sid, is_sid
from posthouse.store.bulk import Records
from posthouse.wire.packet.headers import INFINITE, TransactionFlags

_SECOND: Final = 1_000_000
_ASCII: Final = 0x80
_REPEATED: Final = 8192
_REPEATED_WORTH: Final = 1024  # rows for which a value is kept
_REPEATED_MAX: Final = 64  # values of which that many copies are kept
_REPEATED_BYTES: Final = 1 << 20  # of one of them: senders choose how long names are
_HEX: Final = np.array(
    [int.from_bytes(f"{byte:02x}".encode(), "little") for byte in range(256)], "<u2"
)
_POWERS: Final = 10 ** np.arange(10, dtype=np.uint32)
_FOUR: Final = 10_000
_FOURS: Final = np.frombuffer(b"".join(b"%04d" % number for number in range(_FOUR)), "<u4")
_DELIVERIES: Final = ("recoverable", "express", "transactional", "transactional")
_FIRST: Final = int(TransactionFlags.of(first=1))
_LAST: Final = int(TransactionFlags.of(last=1))
_NUMBER_SHIFT: Final = 4  # of the transaction's number in the flags of a TransactionHeader
_NUMBER_MASK: Final = 0xFFFFF
_PLAIN_TEXT: Final = np.zeros(256, np.bool_)  # bytes of which text is surely made
_PLAIN_TEXT[32:127] = True
_PLAIN_TEXT[[9, 10, 13]] = True
_NO_TYPE: Final = 0


class MessageRows:
    """Messages as far as the engine has them in memory."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.flags = rows["flags"]
        self.count = len(rows)


class Usual(MessageRows):
    """Messages whose headers are as usual, in the order they lie in."""

    def __init__(
        self,
        cutter: Cutter,
        headers: Headers,
        records: Records,
        templates: list[MessageJson | None],
        kinds: NDArray[np.int64],
    ) -> None:
        whole = len(headers.rows) == len(records.begins)
        super().__init__(records.rows if whole else records.rows[headers.rows])
        self.cutter = cutter
        self.headers = headers
        self.templates = templates
        self.kinds = kinds
        self.begins = records.begins if whole else records.begins[headers.rows]

    def of_template(self, name: str) -> tuple[list[Any], NDArray[np.int64]]:
        """The values that templates have for a column, and which of them each row has.

        A template that no row has, as its packets are read one by one, has the first one's.
        """
        known = [template for template in self.templates if template is not None]
        values = [getattr(template or known[0], name) for template in self.templates]
        return values, self.kinds


class Same(NamedTuple):
    """A column in which every row has the same."""

    value: Any
    kind: Any


# An array, or what is the same in every row.
OfRows = Callable[["QueueColumns", MessageRows], Any]
Made = Callable[["QueueColumns", Usual], Any]


class QueueColumns:
    """Makes the columns of a queue. Keeps copies of what is in every row."""

    def __init__(self, queue: str, queue_manager: str) -> None:
        self._queue = queue
        self._queue_manager = queue_manager
        self._repeated: dict[tuple[Any, str], Any] = {}

    def array(self, column: Column, usual: Usual) -> Any:
        """One column."""
        return self.spread(self.column(column, usual), usual.count)

    def column(self, column: Column, usual: Usual) -> Any:
        """One column; `Same` where one value is in every row."""
        kind = TYPES[column.kind]
        if not usual.count:
            return pa.array([], kind)
        made = _MADE.get(column.name)
        if made is not None:
            return made(self, usual)
        name = "class_" if column.name == "class" else column.name
        values, kinds = usual.of_template(name)
        return _words(values, kinds, kind)

    def of_rows(self, column: Column, rows: MessageRows) -> Any:
        """One of the columns `OF_ROWS`, for which no packet is looked at."""
        return _OF_ROWS[column.name](self, rows)

    def spread(self, made: Any, count: int) -> Any:
        """A column as an array, whatever it was made as."""
        if not isinstance(made, Same):
            return made
        value, kind = made
        one, rows = pa.array([value], kind), max(count, _REPEATED)
        if count < _REPEATED_WORTH or one.nbytes * rows > _REPEATED_BYTES:
            return one.take(pa.array(np.zeros(count, np.int32)))
        name = (tuple(value) if isinstance(value, list) else value, str(kind))
        kept = self._repeated.get(name)
        if kept is None or len(kept) < count:
            if len(self._repeated) >= _REPEATED_MAX:
                self._repeated.clear()
            kept = self._repeated[name] = one.take(pa.array(np.zeros(rows, np.int32)))
        return kept[:count]

    # -- of the row

    def queue_manager(self, rows: MessageRows) -> Any:
        """Whose queue it is."""
        return Same(self._queue_manager, pa.string())

    def queue(self, rows: MessageRows) -> Any:
        """Its path name."""
        return Same(self._queue, pa.string())

    def class_name(self, rows: MessageRows) -> Any:
        """The word for the class in the row: that of a dead letter states why."""
        return self._by_code(rows.rows["message_class"], class_name)

    def delivery(self, rows: MessageRows) -> Any:
        """How it is kept."""
        flags = rows.flags & (FLAG_TRANSACTIONAL | FLAG_EXPRESS)
        return self._by_code(flags, _DELIVERIES.__getitem__)

    def _by_code(self, codes: Any, word: Callable[[int], str]) -> Any:
        """Words that follow from numbers, of which there are few."""
        first = codes[0]
        if (codes == first).all():
            return Same(word(int(first)), pa.string())
        different, kinds = np.unique(codes, return_inverse=True)
        values = [word(code) for code in different.tolist()]
        return pa.array(values, pa.string()).take(pa.array(kinds))

    def sender(self, usual: Usual) -> Any:
        """As its door verified it; what a packet claims is not proof."""
        sizes = usual.headers.arrival["sender_size"]
        some = slice(1) if usual.headers.alike else slice(None)
        cut = usual.cutter.cut(usual.begins[some] + ARRIVAL_SIZE, sizes[some])
        return self._decoded(cut, lambda sid: format_sid(sid) if is_sid(sid) else "")

    def _decoded(self, cut: Any, decode: Callable[[bytes], str]) -> Any:
        """Texts of bytes, each different one decoded once."""
        encoded = cut.dictionary_encode()
        values = [decode(raw) for raw in encoded.dictionary.to_pylist()]
        return _words(values, encoded.indices, pa.string())

    # -- of the packet

    def id(self, usual: Usual) -> Any:
        """GUID and ordinal."""
        guids, kinds = usual.of_template("source_queue_manager")
        fronts = np.array([list(f"{guid}\\".encode()) for guid in guids], np.uint8)
        front = fronts if len(fronts) == 1 else fronts[kinds]
        return _identifiers(front, usual.headers.front["ordinal"])

    def label(self, usual: Usual) -> Any:
        """From UTF-16, without its NUL."""
        span = usual.headers.arrival
        begins = usual.headers.packet_at + span["label_at"]
        sizes = span["label_size"].astype(np.int64)
        last = usual.cutter.words(begins + np.maximum(sizes - 2, 0))
        cut = usual.cutter.cut(begins, sizes - np.where((sizes > 0) & (last == 0), 2, 0))
        narrowed = _narrowed(cut)
        return self._decoded(cut, _wide_text) if narrowed is None else narrowed

    def body(self, usual: Usual) -> Any:
        """The bytes as they lie in the log."""
        span = usual.headers.arrival
        return usual.cutter.cut(usual.headers.packet_at + span["body_at"], span["body_size"])

    def extension(self, usual: Usual) -> Any:
        """The bytes of the extensions, as they lie in the log."""
        span = usual.headers.arrival
        sizes = span["extension_size"]
        if not sizes.any():
            return Same(b"", pa.binary())
        return usual.cutter.cut(usual.headers.packet_at + span["extension_at"], sizes)

    def body_text(self, usual: Usual) -> Any:
        """The body where it is text, as the message JSON has it."""
        bodies, (types, kinds) = self.body(usual), usual.of_template("body_type")
        if {*types} <= {_NO_TYPE, VT_LPSTR}:
            data = np.frombuffer(bodies.buffers()[2] or b"", np.uint8)
            if _PLAIN_TEXT[data].all():
                return bodies.view(pa.string())
        kind_of = [types[kind] for kind in kinds.tolist()]
        pairs = zip(bodies.to_pylist(), kind_of, strict=True)
        return pa.array([body_text(body, kind) for body, kind in pairs], pa.string())

    def correlation_id(self, usual: Usual) -> Any:
        """Hexadecimal digits."""
        ids = usual.headers.correlation
        if not ids.any():
            return Same("00" * ids.shape[1], pa.string())
        text = _HEX[ids]
        width = 2 * ids.shape[1]
        offsets = np.arange(0, width * (usual.count + 1), width, dtype=np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.Array.from_buffers(pa.string(), usual.count, buffers)

    def time_to_be_received(self, usual: Usual) -> Any:
        """Seconds, null without a limit."""
        seconds = usual.headers.front["time_to_be_received"].astype(np.int64)
        endless = seconds == INFINITE
        return Same(None, pa.int64()) if endless.all() else pa.array(seconds, mask=endless)

    def transaction(self, usual: Usual) -> Any:
        """The transaction column: from the row, or from the packet if the message came over the
        wire.
        """
        flags = usual.flags
        has = (flags & FLAG_TRANSACTIONAL) != 0
        if not has.any():
            return Same(None, TRANSACTION)
        sent, remote = usual.headers.transaction_flags, (flags & FLAG_REMOTE) != 0
        arrays = [
            pa.array((sent >> _NUMBER_SHIFT & _NUMBER_MASK).astype(np.int64)),
            pa.array(np.where(remote, (sent & _FIRST) != 0, (flags & FLAG_FIRST) != 0)),
            pa.array(np.where(remote, (sent & _LAST) != 0, (flags & FLAG_LAST) != 0)),
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(TRANSACTION), mask=pa.array(~has))


def _identifiers(front: Bytes, ordinals: Any) -> Any:
    """Texts that begin with these bytes and end in a number."""
    count, width = len(ordinals), front.shape[1]
    sizes = np.maximum(np.searchsorted(_POWERS, ordinals, "right"), 1)
    most, least = int(sizes.max()), int(sizes.min())
    matrix = np.empty((count, width + most), np.uint8)
    high = ordinals // _FOUR
    parts = (high // _FOUR, high % _FOUR, ordinals % _FOUR)  # four digits in each
    used = -(-most // 4)
    for number, part in enumerate(parts[-used:], -used):  # the first one's zeros go into the front
        at = width + most + 4 * number
        np.ndarray(count, "<u4", matrix, offset=at, strides=(width + most,))[:] = _FOURS[part]
    matrix[:, :width] = front
    ends = np.zeros(count + 1, np.int32)
    np.cumsum(sizes + width, out=ends[1:])
    if least < most:
        kept = np.ones(matrix.shape, np.bool_)
        kept[:, width:] = np.arange(most) >= most - sizes[:, None]
        matrix = matrix[kept]
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(matrix)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _wide_text(raw: bytes) -> str:
    return clean(raw.decode("utf-16-le", "surrogatepass"))


def _narrowed(cut: Any) -> Any:
    """UTF-16 as UTF-8 where all of it is ASCII, else None."""
    _, offsets, data = cut.buffers()
    units = np.frombuffer(data or b"", "<u2")[: cut.total_values_length // 2]
    if (units >= _ASCII).any():
        return None
    ends = np.frombuffer(offsets, np.int32)[: len(cut) + 1] // 2
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(units.astype(np.uint8))]
    return pa.Array.from_buffers(pa.string(), len(cut), buffers)


def _words(values: list[Any], kinds: Any, kind: Any) -> Any:
    """A column of a few values, `kinds` saying which each row has."""
    if len(values) == 1:
        return Same(values[0], kind)
    return pa.array(values, kind).take(pa.array(kinds))


def _numbers(values: Any, kind: type[np.generic]) -> Any:
    """A column of numbers that are mostly the same."""
    numbers = values.astype(kind)
    array = pa.array(numbers)
    return Same(numbers[0].item(), array.type) if (numbers == numbers[0]).all() else array


def _row_numbers(field: str, kind: type[np.signedinteger[Any]]) -> OfRows:
    return lambda values, rows: _numbers(rows.rows[field], kind)


def _times(seconds: Any) -> Any:
    moments = pa.array(seconds.astype(np.int64) * _SECOND)
    return moments.view(pa.timestamp("us", "UTC"))


_OF_ROWS: Final[dict[str, OfRows]] = {
    "queue_manager": QueueColumns.queue_manager,
    "queue": QueueColumns.queue,
    "lookup_id": lambda values, rows: pa.array(rows.rows["lookup_id"].astype(np.int64)),
    "priority": _row_numbers("priority", np.int32),
    "class": QueueColumns.class_name,
    "class_code": _row_numbers("message_class", np.int32),
    "delivery": QueueColumns.delivery,
    "arrived_time": lambda values, rows: _times(rows.rows["arrived"]),
    "authenticated": lambda values, rows: _numbers(
        (rows.flags & FLAG_AUTHENTICATED) != 0, np.bool_
    ),
    "abort_count": _row_numbers("aborts", np.int32),
    "move_count": _row_numbers("moves", np.int32),
}
_MADE: Final[dict[str, Made]] = {
    **_OF_ROWS,
    "id": QueueColumns.id,
    "label": QueueColumns.label,
    "body": QueueColumns.body,
    "body_size": lambda values, usual: pa.array(
        usual.headers.arrival["body_size"].astype(np.int64)
    ),
    "body_text": QueueColumns.body_text,
    "correlation_id": QueueColumns.correlation_id,
    "sent_time": lambda values, usual: _times(usual.headers.front["sent_time"]),
    "app_specific": lambda values, usual: _numbers(
        usual.headers.properties["application_tag"], np.int64
    ),
    "time_to_be_received": QueueColumns.time_to_be_received,
    "sender": QueueColumns.sender,
    "extension": QueueColumns.extension,
    "transaction": QueueColumns.transaction,
}
"""Columns that differ from message to message; the others are in its template."""
OF_ROWS: Final = frozenset(_OF_ROWS)
"""Columns that need no look at a packet."""
