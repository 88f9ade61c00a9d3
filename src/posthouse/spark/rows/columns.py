"""The columns that set properties of a message to send, and checks of their values.

Every check looks at a whole Arrow array at a time. Where a value has to be looked at in Python,
only different ones are, or those few that a kernel finds suspicious.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from posthouse.model.errors import QueueError
from posthouse.model.guids import GUID_PATTERN
from posthouse.model.message import (
    LABEL_LENGTH_MAX,
    PRIORITY_MAX,
    ack_bits,
    check_label,
    journal_bits,
)
from posthouse.model.message_ids import MessageId
from posthouse.model.names import parse_name
from posthouse.model.text import excerpt

_U32_MAX: Final = 0xFFFFFFFF
_CORRELATION: Final = "^([0-9a-fA-F]{40})?$"
_IDENTIFIER: Final = rf"^(?:{GUID_PATTERN}\\[0-9]{{1,9}})?$"
_DELIVERIES: Final = ("", "recoverable", "transactional")
_STRAIGHT: Final = ("", "express", "recoverable")


class Fault(NamedTuple):
    """A row that cannot be a message, and why."""

    row: int  # in its batch of rows
    column: str
    cause: str


class Form(Enum):
    """What a column of messages to send holds."""

    BODY = "binary, string, or a struct, map or array"
    TEXT = "string"
    NUMBER = "an integer"
    BINARY = "binary"
    WORDS = "an array of strings"


class StageColumn(NamedTuple):
    """A property that a row may set."""

    name: str
    form: Form
    arrow: Any  # its type in a stage
    faults: Callable[[str, Any], list[Fault]]


def _faults(name: str, array: Any, bad: Any, why: Callable[[Any], str]) -> list[Fault]:
    """One for each row that the mask marks; nothing at all in the common case."""
    if not pc.any(bad, skip_nulls=True).as_py():
        return []
    rows = pc.indices_nonzero(pc.fill_null(bad, False)).to_pylist()
    return [Fault(row, name, why(array[row].as_py())) for row in rows]


def _nothing(name: str, array: Any) -> list[Fault]:
    return []


def _between(low: int, high: int) -> Callable[[str, Any], list[Fault]]:
    def faults(name: str, array: Any) -> list[Fault]:
        bad = pc.or_(pc.less(array, low), pc.greater(array, high))
        return _faults(name, array, bad, lambda value: f"{value} is not between {low} and {high}")

    return faults


def _label(name: str, array: Any) -> list[Fault]:
    """A text of so few bytes has fewer characters still; others are looked at one by one."""
    long = pc.greater(pc.binary_length(array), LABEL_LENGTH_MAX)
    odd = pc.or_(long, pc.match_substring(array, "\0"))
    found = _faults(name, array, odd, lambda value: _refused(check_label, value))
    return [fault for fault in found if fault.cause]


def _refused(check: Callable[[str], object], value: str) -> str:
    try:
        check(value)
    except QueueError as error:
        return error.cause
    return ""


def _correlation(name: str, array: Any) -> list[Fault]:
    bad = pc.invert(pc.match_substring_regex(array, _CORRELATION))
    return _faults(name, array, bad, lambda value: f"{excerpt(value)} is not 40 hexadecimal digits")


def _identifier(name: str, array: Any) -> list[Fault]:
    """Numbers of ten digits may be too large: they are looked at one by one."""
    odd = pc.invert(pc.match_substring_regex(array, _IDENTIFIER))
    found = _faults(name, array, odd, lambda value: _refused(MessageId.parse, value))
    return [fault for fault in found if fault.cause]


def _delivery(name: str, array: Any) -> list[Fault]:
    bad = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, pa.array(_DELIVERIES))))
    return _faults(name, array, bad, _why_not_delivered_so)


def straight_delivery(name: str, array: Any) -> list[Fault]:
    """Where nothing keeps a message until it is delivered."""
    bad = pc.and_(pc.is_valid(array), pc.invert(pc.is_in(array, pa.array(_STRAIGHT))))
    return _faults(name, array, bad, _why_not_straight)


def _why_not_straight(value: str) -> str:
    if value == "transactional":
        return (
            "a transactional message needs a queue manager that keeps its place in the sequence: "
            "name one with the option url, or send it so: delivery=recoverable"
        )
    return f"{excerpt(value)} is neither express nor recoverable"


def _why_not_delivered_so(value: str) -> str:
    if value == "express":
        return (
            "what is staged is on disk before it is published, so nothing of it is express; "
            "delivery=recoverable sends all of it so"
        )
    return f"{excerpt(value)} is neither recoverable nor transactional"


@lru_cache(maxsize=4096)
def _why_no_name(text: str) -> str:
    return _refused(parse_name, text) if text else ""


def _name(name: str, array: Any) -> list[Fault]:
    """Few different names stand in many rows."""
    different = pc.unique(array).to_pylist()
    wrong = [text for text in different if text is not None and _why_no_name(text)]
    if not wrong:
        return []
    return _faults(name, array, pc.is_in(array, pa.array(wrong, array.type)), _why_no_name)


def _destination(name: str, array: Any) -> list[Fault]:
    missing = pc.or_kleene(pc.is_null(array), pc.equal(array, ""))
    return _faults(name, array, missing, lambda _: "no destination") + _name(name, array)


def _words(bits: Callable[[list[str]], int]) -> Callable[[str, Any], list[Fault]]:
    def why(word: str | None) -> str:
        return _refused(lambda text: bits([text]), word) if word is not None else "a null word"

    def faults(name: str, array: Any) -> list[Fault]:
        words = pc.list_flatten(array)
        wrong = [word for word in pc.unique(words).to_pylist() if why(word)]
        if not wrong:
            return []
        bad = pc.is_in(words, pa.array(wrong, words.type))
        rows = pc.list_parent_indices(array).filter(bad).to_pylist()
        causes = dict(zip(rows, map(why, words.filter(bad).to_pylist()), strict=True))
        return [Fault(row, name, cause) for row, cause in causes.items()]

    return faults


_ANY_U32: Final = _between(0, _U32_MAX)
_WORDS: Final = pa.list_(pa.string())

STAGE_COLUMNS: Final = (
    StageColumn("destination", Form.TEXT, pa.string(), _destination),
    StageColumn("body", Form.BODY, pa.binary(), _nothing),
    StageColumn("label", Form.TEXT, pa.string(), _label),
    StageColumn("priority", Form.NUMBER, pa.int32(), _between(0, PRIORITY_MAX)),
    StageColumn("correlation_id", Form.TEXT, pa.string(), _correlation),
    StageColumn("delivery", Form.TEXT, pa.string(), _delivery),
    StageColumn("response_queue", Form.TEXT, pa.string(), _name),
    StageColumn("admin_queue", Form.TEXT, pa.string(), _name),
    StageColumn("acknowledge", Form.WORDS, _WORDS, _words(ack_bits)),
    StageColumn("journal", Form.WORDS, _WORDS, _words(journal_bits)),
    StageColumn("app_specific", Form.NUMBER, pa.int64(), _ANY_U32),
    StageColumn("body_type", Form.NUMBER, pa.int64(), _ANY_U32),
    StageColumn("extension", Form.BINARY, pa.binary(), _nothing),
    StageColumn("time_to_reach_queue", Form.NUMBER, pa.int64(), _ANY_U32),
    StageColumn("time_to_be_received", Form.NUMBER, pa.int64(), _ANY_U32),
)
ID_COLUMN: Final = StageColumn("id", Form.TEXT, pa.string(), _identifier)
"""Only where a message is to keep the identifier it had."""

BY_NAME: Final = {column.name: column for column in STAGE_COLUMNS}


def accepts(form: Form, arrow: Any) -> bool:
    """Whether a column of an Arrow type can be one of that form."""
    types = pa.types
    text = bool(types.is_string(arrow) or types.is_large_string(arrow))
    binary = bool(types.is_binary(arrow) or types.is_large_binary(arrow))
    if types.is_null(arrow):
        return form is not Form.BODY
    if form is Form.BODY:
        return text or binary or bool(types.is_nested(arrow))
    if form is Form.TEXT:
        return text
    if form is Form.NUMBER:
        return bool(types.is_integer(arrow))
    if form is Form.BINARY:
        return binary
    return text or bool(types.is_list(arrow) and accepts(Form.TEXT, arrow.value_type))
