"""Restores whole record batches from answers that send constant columns only once.

The other end is `posthouse.protocols.arrow.constant_columns`. Imports pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc

COLUMNS: Final = b"columns"
CONSTANTS: Final = b"constants"
LAST: Final = b"last"
_ROWS: Final = 8192  # that a repeated value is kept for, at least
_WORTH: Final = 1024  # rows for which it is: a stream has small batches, of many senders
_KEPT_MAX: Final = 64
_KEPT_BYTES: Final = 1 << 20  # of one of them: senders choose how long names are

_repeated: dict[tuple[str, str], Any] = {}
"""Values in every row of an array, for the next batch and the next task of this process."""


def is_last(schema: Any) -> bool:
    """Whether nothing follows on the stream with this schema."""
    return LAST in (schema.metadata or {})


def completed(batches: Any) -> Iterator[Any]:
    """The record batches of one stream, with all their columns."""
    metadata = batches.schema.metadata or {}
    if CONSTANTS not in metadata:
        yield from batches
        return
    try:
        constants = pa.ipc.open_stream(metadata[CONSTANTS]).read_next_batch()
        fields = [*batches.schema, *constants.schema]
        found = [field.name for field in fields]
        places = [found.index(name) for name in metadata[COLUMNS].decode().split(",")]
        values = [column[0] for column in constants.columns]
    except (KeyError, ValueError, IndexError, StopIteration) as error:
        raise pa.ArrowInvalid("its metadata do not describe its columns") from error
    schema = pa.schema([fields[place] for place in places])
    for batch in batches:
        arrays = [*batch.columns, *(_array(value, batch.num_rows) for value in values)]
        yield pa.RecordBatch.from_arrays([arrays[place] for place in places], schema=schema)


def _array(value: Any, count: int) -> Any:
    """An array in which every row has the same."""
    if count < _WORTH or pa.repeat(value, 1).nbytes * max(count, _ROWS) > _KEPT_BYTES:
        return pa.repeat(value, count)
    name = str(value.type), repr(value.as_py())
    kept = _repeated.get(name)
    if kept is None or len(kept) < count:
        if len(_repeated) >= _KEPT_MAX:
            _repeated.clear()
        kept = _repeated[name] = pa.repeat(value, max(count, _ROWS))
    return kept[:count]
