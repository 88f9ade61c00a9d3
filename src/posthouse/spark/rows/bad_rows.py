"""Rows that cannot be messages: the error that names one, or dead letters that hold them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.message import LABEL_LENGTH_MAX
from posthouse.model.text import utf16_length
from posthouse.spark.rows.columns import Fault
from posthouse.spark.rows.rows import Checked

NOT_PUBLISHED: Final = "Nothing of this batch was published."
_ELSEWHERE: Final = (
    "Correct the row, or let bad rows go elsewhere: badRows=deadletter and deadLetterQueue."
)
VALUE_MAX: Final = 512 << 10  # of a bad row's value that is kept
LETTER_MAX: Final = 3 << 20  # of all of them: a dead letter has to fit into a message


class RowPosition(NamedTuple):
    """Where a batch of rows stands in a write."""

    query: str
    batch: int
    partition: int
    row: int  # number of its first row in the partition


def refuse(place: RowPosition, fault: Fault, remedy: str = "") -> IllegalPropertyValue:
    """The error that names a row, its column and the reason."""
    error = IllegalPropertyValue(
        f"row {place.row + fault.row} of partition {place.partition}, column {fault.column}: "
        f"{fault.cause}",
        remedy or f"{NOT_PUBLISHED} {_ELSEWHERE}",
    )
    error.row, error.column = place.row + fault.row, fault.column  # type: ignore[attr-defined]
    return error


def good_rows(checked: Checked) -> Any:
    """The batch without its bad rows."""
    bad = pa.array([fault.row for fault in checked.faults], pa.int64())
    rows = pa.array(range(checked.batch.num_rows), pa.int64())
    return checked.batch.filter(pc.invert(pc.is_in(rows, bad)))


def dead_letters(rows: Any, faults: list[Fault], place: RowPosition) -> Iterator[dict[str, Any]]:
    """Label and body of a message for each bad row: its place, the reason, its values."""
    bad = rows.take(pa.array([fault.row for fault in faults], pa.int64()))
    for fault, values in zip(faults, bad.to_pylist(), strict=True):
        letter = {
            "query": place.query,
            "batch": place.batch,
            "partition": place.partition,
            "row": place.row + fault.row,
            "column": fault.column,
            "cause": fault.cause,
        }
        yield {"label": _label(fault), "body": _body(letter, values)}


def dead_letter_batch(rows: list[dict[str, Any]], queue: str, schema: Any) -> Any:
    """Dead letters as rows of the stage that the good ones go to."""
    return pa.RecordBatch.from_pylist([{**row, "destination": queue} for row in rows], schema)


def dead_letter_schema(schema: Any) -> Any:
    """The schema of a stage with the columns that dead letters need."""
    for name in ("destination", "label"):
        if name not in schema.names:
            schema = schema.append(pa.field(name, pa.string()))
    return schema


def _label(fault: Fault) -> str:
    label = f"bad row: {fault.column}: {fault.cause}".replace("\0", " ")
    while utf16_length(label) > LABEL_LENGTH_MAX:
        label = label[: LABEL_LENGTH_MAX // 2 - 1] + "…"
    return label


def _body(letter: dict[str, Any], values: dict[str, Any]) -> bytes:
    cut: list[str] = []
    shown = {name: _shown(name, value, cut) for name, value in values.items()}
    body = _encoded({**letter, "cut": cut, "values": shown})
    if len(body) > LETTER_MAX:
        body = _encoded({**letter, "cut": list(values), "values": None})
    return body


def _shown(name: str, value: Any, cut: list[str]) -> Any:
    """A value as JSON has it; a very long one is cut, and that is said."""
    size_max = VALUE_MAX
    if isinstance(value, bytes | str) and len(value) > size_max:
        cut.append(name)
        value = value[:size_max]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)
