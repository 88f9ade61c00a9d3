"""Prints messages for people and for machines."""

from __future__ import annotations

from typing import Any

import msgspec

from posthouse.cli.messages.decoded_view import summary
from posthouse.cli.output import print_pairs, say
from posthouse.formats import Decoded, Limits
from posthouse.formats.messages import decode_message
from posthouse.formats.pretty import hex_dump
from posthouse.model.message_json import MessageJson
from posthouse.security.sids import parse_sid, principal_word

COLUMNS = ("lookup id", "queue", "arrived", "priority", "class", "bytes", "label", "body")
TEXT_SHOWN = 60
BYTES_SHOWN = 16
_WHOLE = Limits(shown=1 << 30)  # a message that is taken is printed to its end
_AS_THEY_ARE = frozenset({"text", "bytes", "empty"})
NO_LABEL = "-"
_ROW = "{:>9}  {:<20}  {:>8}  {:<8}  {:>9}  {:<20}  {}"


def row(message: MessageJson) -> tuple[str, ...]:
    """A message in one row of a table."""
    return (
        str(message.lookup_id),
        message.queue,
        message.arrived_time,
        str(message.priority),
        message.class_,
        f"{message.body_size:,}",
        _shortened(message.label),
        _shortened(_body(message)),
    )


class HeadedRows:
    """Messages of one queue as they come: a head line, then a row for each."""

    def __init__(self) -> None:
        self._begun = False

    def __call__(self, message: MessageJson) -> None:
        number, _, arrived, priority, kind, size, label, body = row(message)
        if not self._begun:
            say(_ROW.format(*(name for name in COLUMNS if name != "queue")).rstrip())
            self._begun = True
        say(_ROW.format(number, arrived, priority, kind, size, label or NO_LABEL, body).rstrip())


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else f"{text[: TEXT_SHOWN - 3]}..."


def _body(message: MessageJson) -> str:
    if message.body_text is not None and not message.code_page:
        return message.body_text
    decoded = decode_message(message)
    if decoded is None or decoded.format in _AS_THEY_ARE or decoded.error is not None:
        return (message.body or b"")[:BYTES_SHOWN].hex(" ")
    return " ".join(decoded.text[: 20 * TEXT_SHOWN].split())


def decoded_text(message: MessageJson) -> str:
    """The content of the body as text, all of it."""
    decoded = decode_message(message, _WHOLE)
    return "" if decoded is None else decoded.text


def as_json(message: MessageJson) -> dict[str, Any]:
    """The message JSON with `decoded`: the content of the body, null where it was not asked for."""
    found: dict[str, Any] = msgspec.to_builtins(message)
    decoded = decode_message(message)
    found["decoded"] = None if decoded is None else decoded.to_json()
    return found


def show_one(message: MessageJson, *, hexed: bool = False) -> None:
    """A message with all its properties; `hexed`: its body as bytes."""
    decoded = None if hexed else decode_message(message, _WHOLE)
    print_pairs(
        {
            "id": message.id,
            "lookup id": str(message.lookup_id),
            "queue": message.queue,
            "label": message.label,
            "class": message.class_,
            "priority": str(message.priority),
            "delivery": message.delivery,
            "sent": message.sent_time,
            "arrived": message.arrived_time,
            "destination": message.destination,
            "admin queue": message.admin_queue,
            "response queue": message.response_queue,
            "acknowledge": ", ".join(message.acknowledge),
            "journal": ", ".join(message.journal),
            "correlation": message.correlation_id.strip("0") and message.correlation_id,
            "app specific": str(message.app_specific or ""),
            "expires unread": _seconds(message.time_to_be_received),
            "sender": _named(message.sender),
            "aborts": str(message.abort_count or ""),
            "moves": str(message.move_count or ""),
            "moved because": message.move_reason or "",
            "trace context": message.traceparent or "",
            "extension": "" if _has_headers(decoded) else (message.extension or b"").hex(" "),
            "body type": str(message.body_type or ""),
            "body": f"{message.body_size:,} bytes",
            **_meaning(decoded),
        }
    )
    for line in _content(message, decoded).split("\n"):
        say(line.removesuffix("\r"))


def _named(sender: str) -> str:
    """A SID, with its word if it has one."""
    word = principal_word(parse_sid(sender)) if sender else ""
    return f"{sender} ({word})" if word else sender


def _meaning(decoded: Decoded | None) -> dict[str, str]:
    plain = decoded is None or (decoded.error is None and decoded.format in _AS_THEY_ARE)
    return {} if decoded is None or plain else summary(decoded)


def _has_headers(decoded: Decoded | None) -> bool:
    return decoded is not None and decoded.meaning is not None


def _content(message: MessageJson, decoded: Decoded | None) -> str:
    """The body for people: all of it, whatever its size."""
    body = message.body or b""
    if decoded is None or decoded.format == "bytes":
        return hex_dump(body, 8 * len(body) + 100)
    if decoded.format == "text" and message.body_text is not None:
        return message.body_text
    return decoded.text


def _seconds(value: int | None) -> str:
    return "" if value is None else f"after {value} s"
