"""Writes record batches without copying: the bytes of columns are sent from where they lie.

Imports pyarrow: import this module only where pyarrow is installed.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.ipc


class _Sink:
    """A file of Arrow's that keeps what is written into it where it lies."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[memoryview] = []
        self._small = bytearray()

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

    def take(self) -> list[memoryview]:
        """What has come since the last time."""
        self._end_small()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _end_small(self) -> None:
        if self._small:
            self._pieces.append(memoryview(bytes(self._small)))
            self._small.clear()


class Pieces:
    """Writes the record batches of one stream; its schema goes out by itself."""

    def __init__(self, schema: Any) -> None:
        # The sink must not refer to the writer: the garbage collector does not find a cycle through
        # Arrow, and every stream would stay in memory.
        self._sink = _Sink()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, "w"), schema)
        self.of(_nothing(schema))  # Arrow writes the schema in front of the first batch

    def of(self, batch: Any) -> list[memoryview]:
        """The message that has this batch. The bytes of its columns are not copied."""
        self._writer.write_batch(batch)
        return self._sink.take()


def _nothing(schema: Any) -> Any:
    """A batch without rows."""
    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)
