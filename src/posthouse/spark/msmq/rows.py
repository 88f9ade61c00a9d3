"""Messages of any MSMQ as record batches of the message columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from posthouse.client.message import Message

ROWS_MAX: Final = 1024
BYTES_MAX: Final = 8 << 20
_BODIES: Final = frozenset({"body", "body_text"})
_TIMES: Final = frozenset({"sent_time", "arrived_time"})


def body_max(columns: Sequence[str]) -> int | None:
    """How much of a body has to travel: nothing where no column shows it."""
    return None if _BODIES & set(columns) else 0


def batches(messages: Iterable[Message], queue: str, host: str, schema: Any) -> Iterator[Any]:
    """The messages, in batches that are not large."""
    rows: list[dict[str, Any]] = []
    size = 0
    for message in messages:
        rows.append(_row(message, queue, host, schema.names))
        size += len(message.packet)
        if len(rows) >= ROWS_MAX or size >= BYTES_MAX:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def _row(message: Message, queue: str, host: str, columns: Sequence[str]) -> dict[str, Any]:
    shown = message.to_json()
    row: dict[str, Any] = {}
    for name in columns:
        if name == "queue_manager":
            row[name] = host
        elif name == "queue":
            row[name] = queue
        elif name in _TIMES:
            row[name] = datetime.fromisoformat(getattr(shown, name))
        elif name == "transaction":
            row[name] = _transaction(shown.transaction)
        else:
            row[name] = getattr(shown, "class_" if name == "class" else name)
    return row


def _transaction(shown: Any) -> dict[str, Any] | None:
    if shown is None:
        return None
    return {"id": shown.id, "first": shown.first, "last": shown.last}
