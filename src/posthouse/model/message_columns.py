"""The columns of messages as a table: the names of the message JSON, with types of their own.

Declared once for the Arrow streams of the admin endpoint, the Spark source and the lake.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What a column holds, in words that Arrow and Spark both have."""

    LONG = "long"
    INT = "int"
    BOOLEAN = "boolean"
    STRING = "string"
    BINARY = "binary"
    TIMESTAMP = "timestamp"  # microseconds, UTC
    STRINGS = "strings"  # a list of texts
    TRANSACTION = "transaction"  # a struct: id long, first boolean, last boolean
    HEADERS = "headers"  # a map of texts, some of them null
    VALUE = "value"  # any JSON value


class Column(NamedTuple):
    """One column."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False  # some messages have no value there


COLUMNS: Final = (
    Column("queue_manager", Kind.STRING, "computer name of the queue manager"),
    Column("queue", Kind.STRING, "path name of the queue"),
    Column("lookup_id", Kind.LONG, "grows with every message that becomes available"),
    Column("id", Kind.STRING, "guid\\ordinal"),
    Column("label", Kind.STRING, "label"),
    Column("body", Kind.BINARY, "the bytes, whatever they are"),
    Column("body_type", Kind.LONG, "variant type that the sender named"),
    Column("body_size", Kind.LONG, "bytes of the body"),
    Column("priority", Kind.INT, "0 to 7"),
    Column("class", Kind.STRING, "what the message is, or why it is a dead letter"),
    Column("class_code", Kind.INT, "the same as a number"),
    Column("delivery", Kind.STRING, "express, recoverable or transactional"),
    Column("correlation_id", Kind.STRING, "40 hexadecimal digits"),
    Column("sent_time", Kind.TIMESTAMP, "when its sender sent it"),
    Column("arrived_time", Kind.TIMESTAMP, "when it came here"),
    Column("source_queue_manager", Kind.STRING, "GUID of the sender's queue manager"),
    Column("destination", Kind.STRING, "the name it was sent to"),
    Column("admin_queue", Kind.STRING, "where acknowledgments go"),
    Column("response_queue", Kind.STRING, "where answers go"),
    Column("acknowledge", Kind.STRINGS, "which acknowledgments the sender wants"),
    Column("journal", Kind.STRINGS, "positive, negative"),
    Column("app_specific", Kind.LONG, "a number of the application's"),
    Column("connector_type", Kind.STRING, "GUID of a connector"),
    Column("trace", Kind.STRING, "where reports go"),
    Column("time_to_be_received", Kind.LONG, "seconds; null: no limit", nullable=True),
    Column("authenticated", Kind.BOOLEAN, "its signature was verified here"),
    Column("encrypted", Kind.BOOLEAN, "its body is sealed"),
    Column("sender", Kind.STRING, "the sender's SID, where it is known"),
    Column("extension", Kind.BINARY, "bytes of the application's beside the body"),
    Column("transaction", Kind.TRANSACTION, "null unless sent in a transaction", nullable=True),
    Column("abort_count", Kind.INT, "transactions that gave it back"),
    Column("move_count", Kind.INT, "moves between queues"),
)

BODY_TEXT: Final = Column(
    "body_text", Kind.STRING, "the body as text, where it is some", nullable=True
)
"""Only where it is asked for: it doubles the bytes of a body."""

DECODED: Final = (
    Column("format", Kind.STRING, "what the message is: xml, nrbf, nservicebus, ..."),
    Column("headers", Kind.HEADERS, "headers of a message bus", nullable=True),
    Column("message_type", Kind.STRING, "the first type that the bus names", nullable=True),
    Column("body_json", Kind.VALUE, "what is in the body", nullable=True),
    Column("exception_type", Kind.STRING, "why the message failed", nullable=True),
    Column("exception_message", Kind.STRING, "the same in words", nullable=True),
    Column("decode_error", Kind.STRING, "why the body cannot be read", nullable=True),
)
"""Only where they are asked for: Spark's tasks make them of the others (docs/formats.md)."""

BY_NAME: Final = {column.name: column for column in (*COLUMNS, BODY_TEXT)}
NAMES: Final = tuple(column.name for column in COLUMNS)
DECODED_NAMES: Final = tuple(column.name for column in DECODED)
READABLE: Final = BY_NAME | {column.name: column for column in DECODED}
"""All that a read in Spark can ask for."""
