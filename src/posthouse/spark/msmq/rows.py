"""Messages of any MSMQ as record batches of the message columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

from posthouse.client.message import Message
from posthouse.model.message_columns import DECODED_NAMES
from posthouse.spark.rows.decoded import as_text, as_variant, values_of, weight

ROWS_MAX: Final = 1024
BYTES_MAX: Final = 8 << 20
_DECODED: Final = frozenset(DECODED_NAMES)
_BODIES: Final = frozenset({"body", "body_text"}) | _DECODED
_TIMES: Final = frozenset({"sent_time", "arrived_time"})


def body_max(columns: Sequence[str]) -> int | None:
    """How much of a body has to travel: nothing where no column shows it."""
    return None if _BODIES & set(columns) else 0


class Shape(NamedTuple):
    """The schema of the rows, and whether JSON values are texts."""

    schema: Any
    as_text: bool = False


def batches(messages: Iterable[Message], queue: str, host: str, shape: Shape) -> Iterator[Any]:
    """The messages, in batches that are not large."""
    schema = shape.schema
    rows: list[dict[str, Any]] = []
    size = 0
    for message in messages:
        row, weighs = _row(message, queue, host, shape)
        rows.append(row)
        size += len(message.packet) + weighs
        if len(rows) >= ROWS_MAX or size >= BYTES_MAX:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)


def _row(message: Message, queue: str, host: str, shape: Shape) -> tuple[dict[str, Any], int]:
    """The columns of a message, and how many bytes those of its content take."""
    shown = message.to_json()
    names = shape.schema.names
    content, weighs = _content(message, names, shape.as_text)
    row: dict[str, Any] = {}
    for name in names:
        if name in content:
            row[name] = content[name]
        elif name == "queue_manager":
            row[name] = host
        elif name == "queue":
            row[name] = queue
        elif name in _TIMES:
            row[name] = datetime.fromisoformat(getattr(shown, name))
        elif name == "transaction":
            row[name] = _transaction(shown.transaction)
        else:
            row[name] = getattr(shown, "class_" if name == "class" else name)
    return row, weighs


def _content(message: Message, names: Sequence[str], texts: bool) -> tuple[dict[str, Any], int]:
    """The columns of what is in the message, where some are asked for."""
    if not _DECODED.intersection(names):
        return {}, 0
    values = values_of(message.decoded(), as_text if texts else as_variant)
    return dict(zip(DECODED_NAMES, values, strict=True)), weight(values)


def _transaction(shown: Any) -> dict[str, Any] | None:
    if shown is None:
        return None
    return {"id": shown.id, "first": shown.first, "last": shown.last}
