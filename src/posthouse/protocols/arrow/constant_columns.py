"""Record batches that carry columns with the same value in every row only once.

Most properties of a message equal those of the one before it, and would be half of each row's
bytes. So the answer is several IPC streams after each other. The schema of each has the columns
that differ; its metadata list which columns there are, and bring one row with those that do not.
Where something changes a new stream begins; the last one, which has no rows, states that it is the
last.

Imports pyarrow: import this module only where pyarrow is installed.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from posthouse.model.message_columns import Column
from posthouse.protocols.arrow.columns import END, schema_of
from posthouse.protocols.arrow.output_buffers import Pieces
from posthouse.protocols.arrow.packet_columns import Same

COLUMNS: Final = b"columns"
CONSTANTS: Final = b"constants"
LAST: Final = b"last"

Piece = bytes | memoryview


class Apart:
    """Writes the streams of one answer."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._columns = columns
        self._said: dict[str, Same] | None = None
        self._schema = schema_of(columns)
        self._pieces = Pieces(self._schema)

    def of(self, made: list[Any], order: Any) -> list[Piece]:
        """The next rows: columns in their order, arrays or `Same`; at least one is an array.

        `order` states which row is where, None if they are as they should be.
        """
        names = [column.name for column in self._columns]
        same = {name: one for name, one in zip(names, made, strict=True) if isinstance(one, Same)}
        arrays = [one for one in made if not isinstance(one, Same)]
        head = list[Piece]()
        if same != self._said:
            head, self._said = self._begin(same), same
        batch = pa.record_batch(arrays, schema=self._schema)
        if order is not None:
            batch = batch.take(pa.array(order))
        return [*head, *self._pieces.of(batch)]

    def end(self) -> list[Piece]:
        """What the answer ends with."""
        return [END, bytes(pa.schema([], metadata={LAST: b"true"}).serialize()), END]

    def _begin(self, same: dict[str, Same]) -> list[Piece]:
        fields = [field for field in schema_of(self._columns) if field.name not in same]
        constants = pa.record_batch(
            [pa.array([one.value], one.kind) for one in same.values()], names=list(same)
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, constants.schema) as writer:
            writer.write_batch(constants)
        metadata = {
            COLUMNS: ",".join(column.name for column in self._columns).encode(),
            CONSTANTS: sink.getvalue().to_pybytes(),
        }
        self._schema = pa.schema(fields, metadata=metadata)
        self._pieces = Pieces(self._schema)
        return [END, bytes(self._schema.serialize())]
