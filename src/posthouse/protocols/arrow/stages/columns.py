"""The columns that a stage may have, and their values as message properties.

Needs pyarrow and numpy. What is wrong is said with the row, counted from the first of the stage,
and the column.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import IllegalPropertyValue, InvalidParameter, QueueError
from posthouse.model.guids import NULL_GUID
from posthouse.model.message import (
    LABEL_LENGTH_MAX,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    MessageId,
    ack_bits,
    journal_bits,
)
from posthouse.model.names import parse_name
from posthouse.model.text import excerpt
from posthouse.protocols.handlers.refusals import BadRow
from posthouse.wire.layout import encode_text

U32_MAX: Final = 0xFFFFFFFF
_NO_CORRELATION: Final = "0" * 40
_BINARY: Final = "binary"
_TEXT: Final = "text"
_INTEGER: Final = "whole numbers"
_WORDS: Final = "a list of texts"

COLUMNS: Final[dict[str, str]] = {
    "destination": _TEXT,
    "body": _BINARY,
    "label": _TEXT,
    "priority": _INTEGER,
    "correlation_id": _TEXT,
    "delivery": _TEXT,
    "response_queue": _TEXT,
    "admin_queue": _TEXT,
    "acknowledge": _WORDS,
    "journal": _WORDS,
    "app_specific": _INTEGER,
    "body_type": _INTEGER,
    "extension": _BINARY,
    "time_to_reach_queue": _INTEGER,
    "time_to_be_received": _INTEGER,
    "id": _TEXT,
}


class How(NamedTuple):
    """How messages are sent: what they share that are made together."""

    destination: str = ""
    priority: int = PRIORITY_DEFAULT
    transactional: bool = False  # wished; a queue of this machine decides itself
    response_queue: str = ""
    admin_queue: str = ""
    acknowledge: int = 0
    journal: int = 0
    time_to_reach_queue: int | None = None
    time_to_be_received: int | None = None


# -- types


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_text(kind)


def _is_words(kind: pa.DataType) -> bool:
    return (pa.types.is_list(kind) or pa.types.is_large_list(kind)) and _is_text(kind.value_type)


_FITS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    _TEXT: _is_text,
    _BINARY: _is_binary,
    _INTEGER: pa.types.is_integer,
    _WORDS: _is_words,
}


def check_schema(schema: pa.Schema) -> None:
    """Whether rows of this form can be messages."""
    names = schema.names
    if len(set(names)) < len(names):
        raise InvalidParameter("a column is there twice")
    for field in schema:
        wanted = COLUMNS.get(field.name)
        if wanted is None:
            near = get_close_matches(field.name, COLUMNS, 1)
            remedy = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COLUMNS)}."
            raise InvalidParameter(f"a message has no column {excerpt(field.name)}", remedy)
        if not _FITS[wanted](field.type) and not pa.types.is_null(field.type):
            raise InvalidParameter(f"the column {field.name} is {field.type}, not {wanted}")
    if "body" not in names:
        raise InvalidParameter("the column body is missing")


# -- values that many rows share


def _name(text: str | None) -> str:
    if text:
        parse_name(text)
    return text or ""


def _destination(text: str | None) -> str:
    if not text:
        raise IllegalPropertyValue("the row names no destination, and the request none for all")
    return _name(text)


def _priority(value: int | None) -> int:
    if value is None:
        return PRIORITY_DEFAULT
    if not 0 <= value <= PRIORITY_MAX:
        raise IllegalPropertyValue(f"the priority is {value}; allowed is 0 to {PRIORITY_MAX}")
    return value


def _delivery(word: str | None) -> bool:
    if word in (None, "", "recoverable"):
        return False
    if word == "transactional":
        return True
    if word == "express":
        raise IllegalPropertyValue(
            "express messages cannot be published as part of a batch: they do not survive a crash",
            "Send them as recoverable.",
        )
    raise IllegalPropertyValue(f"{excerpt(str(word))} is not a kind of delivery")


def _words(bits: Callable[[Any], int]) -> Callable[[Any], int]:
    def read(words: tuple[str | None, ...] | None) -> int:
        if words is not None and None in words:
            raise IllegalPropertyValue("a word of the list is null")
        return bits(words or ())

    return read


def _seconds(value: int | None) -> int | None:
    if value is not None and not 0 <= value <= U32_MAX:
        raise IllegalPropertyValue(f"{value} seconds cannot be a limit")
    return value


# In the order of the fields of `How`.
_SHARED: Final[dict[str, Callable[[Any], Any]]] = {
    "destination": _destination,
    "priority": _priority,
    "delivery": _delivery,
    "response_queue": _name,
    "admin_queue": _name,
    "acknowledge": _words(ack_bits),
    "journal": _words(journal_bits),
    "time_to_reach_queue": _seconds,
    "time_to_be_received": _seconds,
}


def _coded(column: pa.Array) -> tuple[Any, list[Any]]:
    """A code for each row and the value of each code; None where all rows have the same."""
    if column.null_count == len(column):
        return None, [None]
    if _is_words(column.type):
        codes = dict[Any, int]()
        rows = [None if words is None else tuple(words) for words in column.to_pylist()]
        numbers = np.array([codes.setdefault(words, len(codes)) for words in rows], np.int64)
        return (numbers if len(codes) > 1 else None), list(codes)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    values = encoded.dictionary.to_pylist()
    if len(values) == 1:
        return None, values
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), values


class RowGroup(NamedTuple):
    """Rows that are sent the same way, in their order."""

    how: How
    rows: pa.RecordBatch
    places: Any  # which rows of the stage they are


def grouped(batch: pa.RecordBatch, queue: str, base: int) -> list[RowGroup]:
    """The rows of a batch by how they are sent; `base` is the place of its first row."""
    combined, parts = np.zeros(len(batch), np.int64), list[tuple[Any, list[Any]]]()
    for name, read in _SHARED.items():
        codes, values = _shared_values(batch, name, read, queue, base)
        parts.append((codes, values))
        if codes is not None:
            _, combined = np.unique(combined * len(values) + codes, return_inverse=True)
    places = np.arange(base, base + len(batch))
    groups = list[RowGroup]()
    count = int(combined.max()) + 1 if len(batch) else 0
    order = np.argsort(combined, kind="stable")
    bounds = np.searchsorted(combined[order], np.arange(count + 1))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chosen = order[low:high]
        first = int(chosen[0])
        how = How(*[v[0] if c is None else v[int(c[first])] for c, v in parts])
        rows = batch if count == 1 else batch.take(pa.array(chosen))
        groups.append(RowGroup(how, rows, places[chosen]))
    return groups


def _shared_values(
    batch: pa.RecordBatch, name: str, read: Callable[[Any], Any], queue: str, base: int
) -> tuple[Any, list[Any]]:
    codes: Any = None
    values: list[Any] = [None]
    if name in batch.schema.names:
        codes, values = _coded(batch.column(name))
    if name == "destination" and queue:
        values = [value or queue for value in values]
    read_values = []
    for code, value in enumerate(values):
        try:
            read_values.append(read(value))
        except QueueError as error:
            row = 0 if codes is None else int(np.argmax(codes == code))
            raise BadRow(error, base + row, name) from None
    return codes, read_values


# -- values of their own


class GroupColumns:
    """The other columns of a group."""

    def __init__(self, group: RowGroup) -> None:
        self._rows = group.rows
        self._places = group.places
        self._names = frozenset(group.rows.schema.names)

    def __len__(self) -> int:
        return len(self._rows)

    def refuse(self, row: int, column: str, cause: str) -> BadRow:
        """What is wrong with a row."""
        return BadRow(IllegalPropertyValue(cause), int(self._places[row]), column)

    def _column(self, name: str) -> pa.Array | None:
        """A column with any value."""
        if name not in self._names:
            return None
        column = self._rows.column(name)
        return None if column.null_count == len(column) else column

    def bodies(self) -> list[bytes]:
        """Each row has one, if only an empty one."""
        column = self._rows.column("body")
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise self.refuse(row, "body", "the body is null")
        return self._bytes(column)

    def extensions(self) -> list[bytes] | None:
        """None: there are none."""
        column = self._column("extension")
        return None if column is None else [one or b"" for one in self._bytes(column)]

    def _bytes(self, column: pa.Array) -> list[bytes]:
        if _is_text(column.type):
            column = column.cast(pa.large_binary())
        values: list[bytes] = column.to_pylist()
        return values

    def labels(self) -> list[bytes] | bytes:
        """As packets carry them, with their NUL; one for all if they are the same."""
        column = self._column("label")
        if column is None:
            return b""
        codes, texts = _coded(column)
        packed = [encode_text(text) if text else b"" for text in texts]
        for code, (text, label) in enumerate(zip(texts, packed, strict=True)):
            if len(label) > 2 * LABEL_LENGTH_MAX + 2 or (text and "\0" in text):
                row = 0 if codes is None else int(np.argmax(codes == code))
                cause = f"the label has a NUL, or more than {LABEL_LENGTH_MAX} characters"
                raise self.refuse(row, "label", cause)
        return packed[0] if codes is None else [packed[code] for code in codes.tolist()]

    def numbers(self, name: str) -> Any:
        """A 32-bit number for each row; 0 for all where there are none."""
        column = self._column(name)
        if column is None:
            return 0
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        wrong = (values < 0) | (values > U32_MAX)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise self.refuse(row, name, f"{name} is {values[row]}; allowed is 0 to {U32_MAX}")
        return values.astype("<u4")

    def correlations(self) -> Any:
        """Twenty bytes for each row; None: there are none."""
        column = self._column("correlation_id")
        if column is None:
            return None
        texts = [text or _NO_CORRELATION for text in column.to_pylist()]
        try:
            if set(map(len, texts)) == {40}:
                packed = bytes.fromhex("".join(texts))
                if len(packed) == 20 * len(texts):  # fromhex passes over spaces
                    return np.frombuffer(packed, np.uint8).reshape(-1, 20)
        except ValueError:
            pass
        row = next(at for at, text in enumerate(texts) if not _is_hex(text))
        raise self.refuse(row, "correlation_id", "the correlation is not 40 hexadecimal digits")

    def identifiers(self) -> tuple[Any, Any] | None:
        """GUIDs and ordinals that rows bring along; zero for those that get new ones."""
        column = self._column("id")
        if column is None:
            return None
        found = [self._identifier(row, text) for row, text in enumerate(column.to_pylist())]
        guids = np.frombuffer(b"".join([one.guid for one in found]), np.uint8).reshape(-1, 16)
        return guids, np.array([one.ordinal for one in found], "<u4")

    def _identifier(self, row: int, text: str | None) -> MessageId:
        if not text:
            return MessageId(NULL_GUID, 0)
        try:
            return MessageId.parse(text)
        except QueueError as error:
            raise self.refuse(row, "id", error.cause) from None


def _is_hex(text: str) -> bool:
    try:
        return len(text) == 40 and len(bytes.fromhex(text)) == 20
    except ValueError:
        return False
