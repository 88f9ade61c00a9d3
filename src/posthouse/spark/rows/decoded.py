"""Columns of what is in messages: made in tasks, of the columns that were read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
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


def _headers(found: Decoded) -> list[tuple[str, str | None]] | None:
    return None if found.meaning is None else list(found.meaning.headers.items())


def _message_type(found: Decoded) -> str | None:
    return None if found.meaning is None else found.meaning.message_type


def _exception_type(found: Decoded) -> str | None:
    exception = found.exception or (found.meaning and found.meaning.exception)
    return exception.type if exception else None


def _exception_message(found: Decoded) -> str | None:
    exception = found.exception or (found.meaning and found.meaning.exception)
    return exception.message if exception else None


def _is_unread(found: Decoded) -> bool:
    """Whether the value is the bytes themselves, which the column `body` has."""
    body = found.body or found
    return found.error is not None or body.format in _UNREAD


def _variant(found: Decoded) -> dict[str, bytes] | None:
    return None if _is_unread(found) else variant_of(found.value)._asdict()


def json_text(found: Decoded) -> str | None:
    """The value as JSON text."""
    return None if _is_unread(found) else _encode(found.value).decode()


Getter = Callable[[Decoded], Any]
GETTERS: Final[dict[str, Getter]] = {
    "format": lambda found: found.format,
    "headers": _headers,
    "message_type": _message_type,
    "body_json": _variant,
    "exception_type": _exception_type,
    "exception_message": _exception_message,
    "decode_error": lambda found: found.error,
}
_TYPES: Final[dict[str, Any]] = {"headers": _HEADERS, "body_json": VARIANT}
assert tuple(GETTERS) == DECODED_NAMES


@cache
def getters(names: tuple[str, ...], as_text: bool) -> tuple[Getter, ...]:
    """What makes the values of some columns; `as_text`: JSON values are texts."""
    made = GETTERS | ({"body_json": json_text} if as_text else {})
    return tuple(made[name] for name in names)


def values_of(found: Decoded, names: tuple[str, ...], as_text: bool) -> list[Any]:
    """The values of some columns for one message."""
    return [get(found) for get in getters(names, as_text)]


class Decoding:
    """The columns of a read, of which some are made of others."""

    def __init__(self, columns: Sequence[str], as_text: bool) -> None:
        self._columns = tuple(columns)
        self._names = tuple(name for name in columns if name in GETTERS)
        self._as_text = as_text
        plain = [name for name in columns if name not in GETTERS]
        self.fetched = [*plain, *(name for name in SOURCES if name not in plain)]
        """The columns to read."""

    def applied(self, batch: pa.RecordBatch, code_page: Callable[[], str]) -> pa.RecordBatch:
        """The batch with all columns; `code_page` is asked for where a body needs one."""
        rows = map(
            Row._make, zip(*(batch.column(name).to_pylist() for name in SOURCES), strict=True)
        )
        made = dict(zip(self._names, self._values(rows, code_page), strict=True))
        arrays = [
            self._array(name, made[name]) if name in made else batch.column(name)
            for name in self._columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self._columns))

    def _values(self, rows: Iterator[Row], code_page: Callable[[], str]) -> list[list[Any]]:
        columns: list[list[Any]] = [[] for _ in self._names]
        pairs = list(zip(columns, getters(self._names, self._as_text), strict=True))
        for row in rows:
            found = decoded_row(row, code_page() if row.body_type == VT_LPSTR else "")
            for values, get in pairs:
                values.append(get(found))
        return columns

    def _array(self, name: str, values: list[Any]) -> Any:
        kind = pa.string() if name == "body_json" and self._as_text else None
        return pa.array(values, kind or _TYPES.get(name, pa.string()))
