"""Record batches gathered from the bytes of the log, without an object for each message.

Headers of messages that are alike differ in a few fields only. So the headers are taken out of the
log as matrices, the fields that may differ are columns of them, and what is left is a *template*:
one message of each is read like any other, and its values hold for all of them. Whatever has a
header that is not as usual is read one by one.

Imports numpy and pyarrow: import this module only where both are installed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from posthouse.engine.ledger.effects import read_of_row
from posthouse.engine.ledger.records import ARRIVAL_SIZE, Row
from posthouse.engine.ledger.records import ROW as PACKED_ROW
from posthouse.model.errors import RemoteProtocolError
from posthouse.model.message_columns import Column
from posthouse.model.message_json import MessageJson
from posthouse.protocols.arrow.columns import END, array_of, schema_of
from posthouse.protocols.arrow.columns import chosen as chosen
from posthouse.protocols.arrow.constant_columns import Apart
from posthouse.protocols.arrow.headers import Cutter, Headers, is_same, read_headers
from posthouse.protocols.arrow.output_buffers import Pieces
from posthouse.protocols.arrow.packet_columns import (
    OF_ROWS,
    MessageRows,
    QueueColumns,
    Same,
    Usual,
)
from posthouse.protocols.arrow.uniform_packets import Alike
from posthouse.protocols.handlers.message_json import message_json
from posthouse.store.bulk import Ints, Pinned, Records
from posthouse.wire.packet.message import deserialize

TEMPLATES_MAX: Final = 4096
KEY_MAX: Final = 4096  # bytes of headers whose template is kept: senders choose how long names are
_Template = MessageJson | None  # None: its headers are broken, and each packet is read by itself


class Gatherer:
    """Makes record batches of one queue; remembers the templates that it has met.

    One thread at a time may use it.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        queue: str,
        queue_manager: str,
        *,
        constants: bool = False,
    ) -> None:
        self._columns = columns
        self._apart = Apart(columns) if constants else None
        self._schema = schema_of(columns)
        self._queue = queue
        self._queue_manager = queue_manager
        self._templates: dict[tuple[bytes, ...], _Template] = {}
        self._alike = Alike()
        self._values = QueueColumns(queue, queue_manager)
        self._pieces = Pieces(self._schema)
        self.needs_packets = not {column.name for column in columns} <= OF_ROWS

    def schema(self) -> bytes:
        """What a stream begins with."""
        return bytes(self._schema.serialize())

    def end(self) -> list[bytes | memoryview]:
        """What it ends with."""
        return [END] if self._apart is None else self._apart.end()

    def gathered(self, pinned: Pinned) -> list[bytes | memoryview]:
        """The next message of a stream in pieces: one record batch, nothing for no rows."""
        records = pinned.read()
        if not len(records.begins):
            return []
        return self._streamed(*self._made(records), len(records.begins))

    def gathered_of_rows(self, rows: Any) -> list[bytes | memoryview]:
        """The next message of a stream where no packet is needed: nothing of the log is read."""
        seen = MessageRows(rows)
        made = [self._values.of_rows(column, seen) for column in self._columns]
        return self._streamed(made, None, seen.count)

    def _streamed(self, made: list[Any], order: Any, count: int) -> list[bytes | memoryview]:
        if self._apart is None:
            return [*self._pieces.of(self._batch(made, order, count))]
        if all(isinstance(one, Same) for one in made):  # one column must show the number of rows
            made[0] = self._values.spread(made[0], count)
        return self._apart.of(made, order)

    def batch(self, records: Records) -> Any:
        """The record batch of messages, in the order they were asked for."""
        return self._batch(*self._made(records), len(records.begins))

    def _batch(self, made: list[Any], order: Any, count: int) -> Any:
        arrays = [self._values.spread(one, count) for one in made]
        batch = pa.record_batch(arrays, schema=self._schema)
        return batch if order is None else batch.take(pa.array(order))

    def _made(self, records: Records) -> tuple[list[Any], Any]:
        """The columns, and the order in which their rows are to be."""
        cutter = Cutter(records.data)
        headers = self._alike.headers(records, cutter) or read_headers(records, cutter)
        templates, kinds = self._templates_of(records, headers)
        known = np.array([template is not None for template in templates], np.bool_)
        if not known.all():
            usual = known[kinds]
            headers, kinds = headers.picked(usual), kinds[usual]
        odd = _others(headers.rows, len(records.begins))
        chosen = records.chosen
        if len(odd):
            chosen = np.concatenate((chosen[headers.rows], chosen[odd]))
        usual_rows = Usual(cutter, headers, records, templates, kinds)
        messages = [self._message(records, at) for at in odd.tolist()]
        made = [self._column(column, usual_rows, messages) for column in self._columns]
        return made, np.argsort(chosen) if (np.diff(chosen) < 0).any() else None

    def _column(self, column: Column, usual: Usual, messages: list[MessageJson]) -> Any:
        if not messages:
            return self._values.column(column, usual)
        array = self._values.array(column, usual)
        others = array_of(column, messages, self._queue_manager)
        return pa.concat_arrays([array, others]) if len(array) else others

    # -- templates

    def _templates_of(
        self, records: Records, headers: Headers
    ) -> tuple[list[_Template], NDArray[np.int64]]:
        """The templates of usual packets, and which of them each row has."""
        firsts, kinds = _alike(headers)
        if headers.alike:
            return [self._template((headers.alike,), records, 0)], kinds
        if len(self._templates) + len(firsts) > TEMPLATES_MAX:
            self._templates.clear()
        keys = [tuple(key[at].as_py() for key in headers.keys) for at in firsts]
        return [
            self._template(key, records, int(headers.rows[at]))
            for key, at in zip(keys, firsts, strict=True)
        ], kinds

    def _template(self, key: tuple[bytes, ...], records: Records, at: int) -> _Template:
        if key in self._templates:
            return self._templates[key]
        template: _Template = None
        try:
            deserialize(_packet(records, at)[1])
        except RemoteProtocolError:
            pass
        else:
            template = _bare(self._message(records, at))
        if len(self._templates) < TEMPLATES_MAX and sum(map(len, filter(None, key))) <= KEY_MAX:
            self._templates[key] = template
        return template

    def _message(self, records: Records, at: int) -> MessageJson:
        """One message, read by itself."""
        sender, packet = _packet(records, at)
        row = Row._make(PACKED_ROW.unpack(records.rows[at].tobytes()))
        return message_json(read_of_row(int(records.numbers[at]), row, sender), packet, self._queue)


def _packet(records: Records, at: int) -> tuple[bytes, bytes]:
    """Verified sender and packet of a record."""
    block = records.data[int(records.begins[at]) : int(records.ends[at])]
    sender_size = int.from_bytes(block[ARRIVAL_SIZE - 4 : ARRIVAL_SIZE - 2], "little")
    extra_size = int.from_bytes(block[ARRIVAL_SIZE - 2 : ARRIVAL_SIZE], "little")
    sender_end = ARRIVAL_SIZE + sender_size
    return block[ARRIVAL_SIZE:sender_end], block[sender_end + extra_size :]


def _bare(message: MessageJson) -> MessageJson:
    """Without what each message has of its own, and may have much of."""
    return msgspec.structs.replace(message, label="", body=None, body_text=None, extension=None)


def _others(rows: Ints, count: int) -> Ints:
    if len(rows) == count:
        return np.empty(0, np.int64)
    others = np.ones(count, np.bool_)
    others[rows] = False
    return np.flatnonzero(others)


def _alike(headers: Headers) -> tuple[list[int], NDArray[np.int64]]:
    """The first row of each template, and which template each row has."""
    count = len(headers.rows)
    if not count:
        return [], np.empty(0, np.int64)
    if headers.alike:
        return [0], np.zeros(count, np.int64)
    codes, several = np.zeros(count, np.int64), False
    for key in headers.keys:
        if is_same(key):
            continue
        encoded = key.dictionary_encode()
        if len(encoded.dictionary) > 1:
            several = True
            codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
    if not several:
        return [0], codes
    _, firsts, kinds = np.unique(codes, return_index=True, return_inverse=True)
    return firsts.tolist(), kinds.astype(np.int64)
