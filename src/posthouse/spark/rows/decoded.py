"""Columns with decoded content of messages, made in tasks from the columns that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from posthouse.formats import Decoded, decode
from posthouse.formats.search import SEARCHED
from posthouse.model.code_pages import DEFAULT_CODE_PAGE
from posthouse.model.message_columns import DECODED_NAMES
from posthouse.model.message_json import VT_LPSTR
from posthouse.spark.rows.variants import variant_of

SOURCES: Final = ("body", "body_type", "extension", "label", "app_specific", "correlation_id")
"""The columns that decoding needs."""
PIECE_BYTES: Final = 16 << 20
"""Decoded contents in one record batch; the message with which it is reached is in it."""
_NO_ID: Final = "0" * 40
_UNREAD: Final = frozenset({"bytes", "empty"})
_encode: Final = msgspec.json.Encoder().encode
VARIANT: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)
_HEADERS: Final = pa.map_(pa.string(), pa.string())


class Row(NamedTuple):
    """What one message has of the columns that decoding needs."""

    body: bytes | None
    body_type: int | None = 0
    extension: bytes | None = b""
    label: str | None = ""
    app_specific: int | None = 0
    correlation_id: str | None = ""


def decoded_row(row: Row, code_page: str = "") -> Decoded:
    """What is in a message. Any row has a result."""
    body, body_type, extension, label, app_specific, correlation_id = row
    named = correlation_id and correlation_id != _NO_ID
    return decode(
        body or b"",
        body_type=body_type or 0,
        extension=extension or b"",
        label=label or "",
        app_specific=app_specific or 0,
        correlation_id=_octets(correlation_id or "") if named else b"",
        code_page=code_page or DEFAULT_CODE_PAGE,
        limits=SEARCHED,
    )


def _octets(digits: str) -> bytes:
    try:
        return bytes.fromhex(digits)
    except ValueError:  # a table of somebody else's
        return b""


def values_of(found: Decoded, as_json: AsJson | None) -> tuple[Any, ...]:
    """The values of all columns of contents; without `as_json` the body is left out."""
    meaning, exception = found.meaning, found.exception
    headers = message_type = None
    if meaning is not None:
        exception = exception or meaning.exception
        headers, message_type = list(meaning.headers.items()), meaning.message_type
    return (
        found.format,
        headers,
        message_type,
        None if as_json is None or _is_unread(found) else as_json(found.value),
        None if exception is None else exception.type,
        None if exception is None else exception.message,
        found.error,
    )


def _is_unread(found: Decoded) -> bool:
    """Whether the value is the bytes themselves, which the column `body` has."""
    return found.error is not None or (found.body or found).format in _UNREAD


def weight(values: tuple[Any, ...]) -> int:
    """About how many bytes the columns of a message take."""
    _, headers, _, content, _, _, _ = values
    size = sum(len(name) + len(text or "") for name, text in headers) if headers else 0
    if isinstance(content, dict):
        return size + len(content["value"]) + len(content["metadata"])
    return size + len(content or "")


def as_variant(value: Any) -> dict[str, bytes]:
    """A value as Arrow has a VARIANT."""
    packed, metadata = variant_of(value)
    return {"value": packed, "metadata": metadata}


def as_text(value: Any) -> str:
    """A value as JSON text."""
    return _encode(value).decode()


AsJson = Callable[[Any], Any]
_TYPES: Final[dict[str, Any]] = {"headers": _HEADERS, "body_json": VARIANT}


class Decoding:
    """The columns of a read, of which some are made of others."""

    def __init__(self, columns: Sequence[str], texts: bool) -> None:
        self._columns = tuple(columns)
        self._texts = texts
        self._as_json: AsJson | None = None
        if "body_json" in columns:
            self._as_json = as_text if texts else as_variant
        plain = [name for name in columns if name not in DECODED_NAMES]
        self.fetched = [*plain, *(name for name in SOURCES if name not in plain)]
        """The columns to read."""

    def applied(self, batch: pa.RecordBatch, code_page: Callable[[], str]) -> Iterator[Any]:
        """The batch with all columns, in pieces: small messages may hold much.

        `code_page` is asked for where a body needs one.
        """
        sources = (batch.column(name).to_pylist() for name in SOURCES)
        rows, begin, size = list[tuple[Any, ...]](), 0, 0
        for row in map(Row._make, zip(*sources, strict=True)):
            found = decoded_row(row, code_page() if row.body_type == VT_LPSTR else "")
            rows.append(values_of(found, self._as_json))
            size += weight(rows[-1])
            if size >= PIECE_BYTES:
                yield self._piece(batch.slice(begin, len(rows)), rows)
                rows, begin, size = [], begin + len(rows), 0
        if rows or not batch.num_rows:
            yield self._piece(batch.slice(begin), rows)

    def _piece(self, batch: pa.RecordBatch, rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        made = dict(zip(DECODED_NAMES, zip(*rows, strict=True), strict=False))
        arrays = [
            self._array(name, made.get(name, ())) if name in DECODED_NAMES else batch.column(name)
            for name in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._columns))

    def _array(self, name: str, values: Sequence[Any]) -> Any:
        kind = pa.string() if name == "body_json" and self._texts else None
        return pa.array(values, kind or _TYPES.get(name, pa.string()))
