"""A message as JSON: what the API, the command line and exports show (docs/api.md)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from posthouse.model.errors import IllegalPropertyValue
from posthouse.model.text import excerpt

# Variant types of bodies ([MS-MQMQ] 2.2.18.1.6) that hold text.
VT_LPSTR: Final = 30
VT_LPWSTR: Final = 31
VT_BSTR: Final = 8
_WIDE: Final = frozenset({VT_BSTR, VT_LPWSTR})
_NO_TYPE: Final = 0


class TransactionJson(msgspec.Struct, forbid_unknown_fields=True):
    """The transaction a message was sent in."""

    id: int
    first: bool = False
    last: bool = False


class MessageJson(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"class_": "class"}
):
    """A message as JSON. Bytes are base64, times ISO 8601 in UTC, names texts, empty where none.

    `body`, `body_text` and `extension` are null where they were not asked for, `body_text` also
    where the body is not text. `code_page` is there for bodies of type VT_LPSTR in a queue with a
    code page, `decoded` where it was asked for: what is in the body, `move_reason` where a message
    was moved with one, `traceparent` and `tracestate` where the extension has a trace context.
    """

    id: str
    lookup_id: int
    queue: str
    label: str
    body: bytes | None
    body_text: str | None
    body_type: int
    body_size: int
    priority: int
    class_: str
    class_code: int
    delivery: str
    correlation_id: str
    sent_time: str
    arrived_time: str
    source_queue_manager: str
    destination: str
    admin_queue: str
    response_queue: str
    acknowledge: list[str]
    journal: list[str]
    app_specific: int
    connector_type: str
    trace: str
    time_to_be_received: int | None
    authenticated: bool
    encrypted: bool
    sender: str
    extension: bytes | None
    transaction: TransactionJson | None
    abort_count: int
    move_count: int
    code_page: str | msgspec.UnsetType = msgspec.UNSET  # of the queue, where the body needs one
    move_reason: str | msgspec.UnsetType = msgspec.UNSET
    traceparent: str | msgspec.UnsetType = msgspec.UNSET  # of its extension, where that has one
    tracestate: str | msgspec.UnsetType = msgspec.UNSET
    decoded: Any = msgspec.UNSET  # what a sender wrote may be any value


def time_text(utc_s: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, always of the same length."""
    return datetime.fromtimestamp(utc_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> int:
    """Seconds since 1970 of an ISO 8601 date or time; one without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        seconds = int(zoned.timestamp())
    except (ValueError, OverflowError):
        seconds = -1
    if not 0 <= seconds <= 0xFFFFFFFF:
        raise IllegalPropertyValue(
            f"{excerpt(text)} is not a time that can be", "Write 2026-01-31T12:00:00Z."
        )
    return seconds


def body_text(body: bytes, body_type: int) -> str | None:
    """The body as text, where its type states that it is some, or where it plainly is.

    A body without a type is text when it is UTF-8 without control characters.
    """
    if body_type in _WIDE:
        return _decoded(body.removeprefix(b"\xff\xfe"), "utf-16-le")
    if body_type == VT_LPSTR:
        return _decoded(body, "utf-8")
    if body_type != _NO_TYPE:
        return None
    text = _decoded(body, "utf-8")
    return text if text is not None and text.translate(_WITHOUT_SPACES).isprintable() else None


def text_body(text: str, body_type: int) -> bytes:
    """The body that holds a text: UTF-16 by its type, else UTF-8."""
    return text.encode("utf-16-le" if body_type in _WIDE else "utf-8")


_WITHOUT_SPACES = {ord(space): None for space in "\t\n\r"}


def _decoded(body: bytes, encoding: str) -> str | None:
    try:
        return body.decode(encoding).removesuffix("\0")
    except UnicodeDecodeError:
        return None
