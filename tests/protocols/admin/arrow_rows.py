"""Rows of Arrow streams beside the JSON of the same messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from posthouse.engine.ledger.records import ROW as PACKED_ROW
from posthouse.engine.ledger.records import Row, Span, pack_arrival
from posthouse.engine.messages.reading import read_of_row
from posthouse.model.message_columns import BODY_TEXT, BY_NAME, COLUMNS
from posthouse.model.message_json import MessageJson
from posthouse.protocols.arrow.record_batches import Gatherer
from posthouse.protocols.handlers.message_json import message_json
from posthouse.store.bulk import Records
from posthouse.store.bulk_rows import ROW
from posthouse.wire.packet.packet_fields import summarize

ALL = (*COLUMNS, BODY_TEXT)
QUEUE = r"ALPHA\private$\orders"
Stored = tuple[bytes, Row, bytes, bytes]  # packet, row, sender, extra


def records_of(stored: list[Stored], order: list[int] | None = None) -> Records:
    """Messages as the store hands them over; they lie in some order, one behind the other."""
    lying = list(range(len(stored))) if order is None else order
    data, begins, ends = bytearray(b"gap"), [], []
    for at in lying:
        packet, row, sender, extra = stored[at]
        begins.append(len(data))
        data += pack_arrival(at + 1, row, Span(*summarize(packet).span), sender, extra) + packet
        ends.append(len(data))
        data += bytes(at % 3)
    rows = b"".join(PACKED_ROW.pack(*stored[at][1]) for at in lying)
    return Records(
        bytes(data),
        np.array(begins, np.int64),
        np.array(ends, np.int64),
        np.array(lying, np.int64),
        np.array([at + 1 for at in lying], np.uint64),
        np.frombuffer(rows, ROW),
    )


def gathered(gatherer: Gatherer, stored: list[Stored], order: list[int] | None = None) -> Any:
    """The rows of a batch, each a dictionary."""
    batch = gatherer.batch(records_of(stored, order))
    batch.validate(full=True)
    for name in batch.schema.names:
        assert BY_NAME[name].nullable or not batch.column(name).null_count, name
    return batch.to_pylist()


def one_by_one(stored: list[Stored], queue: str = QUEUE, manager: str = "ALPHA") -> Any:
    """What the same rows are if each message is read by itself."""
    found = []
    for at, (packet, row, sender, _) in enumerate(stored, 1):
        found.append(row_of(message_json(read_of_row(at, row, sender), packet, queue), manager))
    return found


def row_of(message: MessageJson, manager: str = "ALPHA") -> dict[str, Any]:
    """A message's JSON as a row."""
    row: dict[str, Any] = {"queue_manager": manager}
    for column in ALL[1:]:
        row[column.name] = getattr(message, "class_" if column.name == "class" else column.name)
    for name in ("sent_time", "arrived_time"):
        row[name] = datetime.fromisoformat(row[name]).astimezone(UTC)
    if message.transaction is not None:
        transaction = message.transaction
        row["transaction"] = {
            "id": transaction.id,
            "first": transaction.first,
            "last": transaction.last,
        }
    return row
