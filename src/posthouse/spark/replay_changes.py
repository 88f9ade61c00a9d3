"""What a replay sets in the messages that it sends: the same value in each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from posthouse.model.errors import InvalidParameter
from posthouse.model.text import excerpt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LABEL_MAX: Final = 249
U32_MAX: Final = 0xFFFFFFFF
_NUMBERS: Final = {"priority": 7, "app_specific": U32_MAX, "time_to_be_received": U32_MAX}
_TEXTS: Final = ("label", "response_queue", "correlation_id")
SETTABLE: Final = (*_TEXTS, *_NUMBERS)
"""Columns that a replay may set."""
_CORRELATION: Final = re.compile(r"([0-9a-fA-F]{40})?")
Value = str | int


def checked_changes(changes: Mapping[str, str]) -> dict[str, Value]:
    """The values, in their types; what a message cannot have is refused."""
    return {name: _value(name, text) for name, text in changes.items()}


def _value(name: str, text: str) -> Value:
    if name in _NUMBERS:
        if not re.fullmatch("[0-9]{1,10}", text) or int(text) > _NUMBERS[name]:
            raise InvalidParameter(
                f"{name} cannot be {excerpt(text)}", f"Set a number from 0 to {_NUMBERS[name]}."
            )
        return int(text)
    if name not in _TEXTS:
        near = get_close_matches(name, SETTABLE, 1)
        hint = f"Did you mean {near[0]}?" if near else f"Set {', '.join(SETTABLE)}."
        raise InvalidParameter(f"a replay cannot set {excerpt(name)}", hint)
    if name == "label" and len(text) > LABEL_MAX:
        raise InvalidParameter(f"a label has {LABEL_MAX} characters at most", "Shorten it.")
    if name == "correlation_id" and not _CORRELATION.fullmatch(text):
        raise InvalidParameter("a correlation identifier has 40 hexadecimal digits", "Write them.")
    return text


def changed(messages: DataFrame, values: Mapping[str, Value]) -> DataFrame:
    """The messages with these values, in the types of their columns."""
    from pyspark.sql import functions as F

    types = {field.name: field.dataType for field in messages.schema.fields}
    return messages.withColumns(
        {name: F.lit(value).cast(types[name]) for name, value in values.items()}
    )
