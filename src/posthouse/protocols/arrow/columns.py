"""Messages as Arrow tables: the schema, and rows made one by one (docs/api.md).

Imports pyarrow: import this module only where pyarrow is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa

from posthouse.model.errors import InvalidParameter
from posthouse.model.message_columns import BY_NAME, NAMES, Column, Kind
from posthouse.model.message_json import MessageJson, TransactionJson, parse_time
from posthouse.model.text import excerpt

TRANSACTION: Final = pa.struct([("id", pa.int64()), ("first", pa.bool_()), ("last", pa.bool_())])
TYPES: Final[dict[Kind, Any]] = {
    Kind.LONG: pa.int64(),
    Kind.INT: pa.int32(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.STRINGS: pa.list_(pa.field("element", pa.string())),
    Kind.TRANSACTION: TRANSACTION,
}
END: Final = b"\xff\xff\xff\xff\0\0\0\0"
"""What ends a stream of Arrow's."""


def chosen(text: str) -> tuple[Column, ...]:
    """The columns that a list of names means; all but the body's text for none."""
    names = text.split(",") if text else NAMES
    for name in names:
        if name not in BY_NAME:
            near = get_close_matches(name, BY_NAME, 1)
            hint = f"Perhaps {near[0]} is meant." if near else f"There are: {', '.join(BY_NAME)}."
            raise InvalidParameter(f"there is no column {excerpt(name)}", hint)
    if len(set(names)) < len(names):
        raise InvalidParameter("a column is named twice", "Name it once.")
    return tuple(BY_NAME[name] for name in names)


def schema_of(columns: tuple[Column, ...]) -> Any:
    """The Arrow schema of some columns."""
    return pa.schema([pa.field(column.name, TYPES[column.kind]) for column in columns])


def array_of(column: Column, messages: list[MessageJson], queue_manager: str) -> Any:
    """One column of messages that were read one by one."""
    if column.name == "queue_manager":
        return pa.array([queue_manager] * len(messages), pa.string())
    name = "class_" if column.name == "class" else column.name
    values = [getattr(message, name) for message in messages]
    made = _MADE.get(column.kind)
    if made is not None:
        values = [None if value is None else made(value) for value in values]
    return pa.array(values, TYPES[column.kind])


def _transaction(value: TransactionJson) -> dict[str, Any]:
    return {"id": value.id, "first": value.first, "last": value.last}


def _microseconds(text: str) -> int:
    return parse_time(text) * 1_000_000


_MADE: Final[dict[Kind, Callable[[Any], Any]]] = {
    Kind.TIMESTAMP: _microseconds,
    Kind.TRANSACTION: _transaction,
}
