"""Rows for stages, and the messages that they are to become."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from posthouse.engine.pipelines.stage import StageTarget
from posthouse.protocols.arrow.stages.packets import Maker

TYPES: dict[str, pa.DataType] = {
    "destination": pa.string(),
    "body": pa.binary(),
    "label": pa.string(),
    "priority": pa.int32(),
    "correlation_id": pa.string(),
    "delivery": pa.string(),
    "response_queue": pa.string(),
    "admin_queue": pa.string(),
    "acknowledge": pa.list_(pa.string()),
    "journal": pa.list_(pa.string()),
    "app_specific": pa.int64(),
    "body_type": pa.int64(),
    "extension": pa.binary(),
    "time_to_reach_queue": pa.int64(),
    "time_to_be_received": pa.int64(),
    "id": pa.string(),
}
LOCAL = StageTarget(20, "DIRECT=OS:ALPHA\\private$\\orders", False, False)
LEDGER = StageTarget(21, "DIRECT=OS:ALPHA\\private$\\ledger", False, True)
FAR = StageTarget(22, "DIRECT=OS:BETA\\private$\\far", True, False)
ORDERS, BOOKS, AWAY = ".\\private$\\orders", ".\\private$\\ledger", FAR.format_name
TARGETS = {ORDERS: LOCAL, BOOKS: LEDGER, AWAY: FAR}
MAKER = Maker(b"g" * 16, 1_700_000_000, "ALPHA", b"sender", 77, 345_600)


def table(rows: list[dict[str, Any]], *columns: str) -> pa.RecordBatch:
    """Rows as Arrow has them: with these columns, or those that any row names."""
    names = columns or tuple(name for name in TYPES if any(name in row for row in rows))
    arrays = [pa.array([row.get(name) for row in rows], TYPES[name]) for name in names]
    return pa.record_batch(arrays, names=list(names))


def stream(*batches: pa.RecordBatch) -> bytes:
    """The body of a request."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())
