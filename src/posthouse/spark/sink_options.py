"""The options of a write."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from posthouse.model.errors import InvalidParameter, QueueError
from posthouse.model.names import parse_name
from posthouse.spark.options import (
    CONNECTION,
    Manager,
    Option,
    boolean,
    choice,
    managers,
    taken,
    text,
    texts,
)
from posthouse.spark.rows.rows import XML_ROOT

DEAD_LETTER: Final = "deadletter"
QUERY_LENGTH_MAX: Final = 200


def whole(value: str) -> int:
    """A whole number from zero."""
    if not re.fullmatch(r"\s*\d{1,18}\s*", value):
        raise ValueError("a whole number from 0 is wanted")
    return int(value)


def plain(value: str) -> str:
    """A text as it is, empty too."""
    return value


def destination(value: str) -> str:
    """A path name or format name; forward slashes may stand in a path."""
    try:
        parse_name(text(value))
    except QueueError as error:
        raise ValueError(error.cause) from None
    return text(value)


def _query(value: str) -> str:
    if not 0 < len(value) <= QUERY_LENGTH_MAX or not value.isprintable():
        raise ValueError(f"1 to {QUERY_LENGTH_MAX} printable characters are wanted")
    return value


PROPERTIES: Final = {
    "label": Option("label", plain, None, "label of every message"),
    "priority": Option("priority", whole, None, "0 to 7"),
    "correlation_id": Option("correlationId", text, None, "40 hexadecimal digits"),
    "delivery": Option("delivery", choice("express", "recoverable", "transactional"), None, "how"),
    "response_queue": Option("responseQueue", text, None, "where answers go"),
    "admin_queue": Option("adminQueue", text, None, "where acknowledgments go"),
    "acknowledge": Option("acknowledge", texts, None, "which acknowledgments are wanted"),
    "journal": Option("journal", texts, None, "positive, negative"),
    "app_specific": Option("appSpecific", whole, None, "a number of the application's"),
    "body_type": Option("bodyType", whole, None, "variant type; 8: text as Windows has it"),
    "time_to_reach_queue": Option("timeToReachQueue", whole, None, "seconds"),
    "time_to_be_received": Option("timeToBeReceived", whole, None, "seconds"),
}
"""Options that stand for a column, by its name. An option goes before the column."""

WRITE: Final = (
    Option("queue", destination, "", "the queue of every message; else the column destination"),
    *PROPERTIES.values(),
    Option("bodyFormat", choice("json", "xml"), "json", "what a struct is written as"),
    Option("xmlRoot", text, XML_ROOT, "the outer element of XML"),
    Option(
        "badRows", choice("fail", DEAD_LETTER), "fail", "what happens to rows that cannot be sent"
    ),
    Option("deadLetterQueue", destination, "", "where bad rows go"),
)
SINK: Final = (
    *CONNECTION,
    *WRITE,
    Option("sameIds", boolean, False, "messages keep the identifiers in the column id"),
    Option("queryId", _query, "", "with batchId: a batch write that is done once"),
    Option("batchId", whole, None, "its number; it grows with every write of that queryId"),
)


class Writing(NamedTuple):
    """How rows become messages, whatever carries them."""

    queue: str
    constants: Mapping[str, Any]
    body_format: str
    xml_root: str
    dead_letter_queue: str  # empty: a bad row fails the write


class SinkOptions(NamedTuple):
    """The options of a write to Posthouse, checked against each other."""

    manager: Manager
    writing: Writing
    same_ids: bool
    query: str
    batch: int


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """The options of a write to Posthouse, all of them checked."""
    values = taken(options, SINK)
    found = managers(values)
    if len(found) != 1:
        raise InvalidParameter(
            "a write goes to one queue manager",
            "Name one url; it sends on to queues of other computers.",
        )
    if bool(values["queryId"]) != (values["batchId"] is not None):
        raise InvalidParameter(
            "queryId and batchId belong together: set both or neither", "Give both."
        )
    batch = values["batchId"] or 0
    return SinkOptions(found[0], writing(values), values["sameIds"], values["queryId"], batch)


def writing(values: Mapping[str, Any]) -> Writing:
    """The options of any write about its rows."""
    if (values["badRows"] == DEAD_LETTER) != bool(values["deadLetterQueue"]):
        raise InvalidParameter(
            "badRows=deadletter and deadLetterQueue go together",
            "Name the queue that bad rows go to; without both, a bad row fails the write.",
        )
    constants = {column: values[option.name] for column, option in PROPERTIES.items()}
    return Writing(
        values["queue"],
        {name: value for name, value in constants.items() if value is not None},
        values["bodyFormat"],
        values["xmlRoot"],
        values["deadLetterQueue"],
    )
