"""Record batches as they go out: the bytes of their columns where they lie, not in one piece.

Imports pyarrow: whoever imports this has made sure that it is there.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.ipc


class Pieces:
    """Writes the record batches of one stream; its schema goes out by itself."""

    closed = False  # a file of Arrow's says so

    def __init__(self, schema: Any) -> None:
        self._pieces: list[memoryview] = []
        self._small = bytearray()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self, "w"), schema)
        self.of(_nothing(schema))  # Arrow writes the schema in front of the first batch

    def of(self, batch: Any) -> list[memoryview]:
        """The message that has this batch. The bytes of its columns are not copied."""
        self._writer.write_batch(batch)
        self._end_small()
        pieces, self._pieces = self._pieces, []
        return pieces

    def write(self, piece: Any) -> int:
        """Called by Arrow: bytes for what is between columns, and the columns themselves."""
        if isinstance(piece, bytes):
            self._small += piece
        else:
            self._end_small()
            self._pieces.append(memoryview(piece).cast("B"))
        return len(piece)

    def flush(self) -> None:
        """Nothing is kept back."""

    def _end_small(self) -> None:
        if self._small:
            self._pieces.append(memoryview(bytes(self._small)))
            self._small.clear()


def _nothing(schema: Any) -> Any:
    """A batch without rows."""
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
