"""Messages for people and for machines."""

from __future__ import annotations

from posthouse.cli.output import print_json, print_pairs, say
from posthouse.model.message_json import MessageJson

COLUMNS = ("lookup id", "queue", "arrived", "priority", "class", "bytes", "label", "body")
TEXT_SHOWN = 60
BYTES_SHOWN = 16
BODY_SHOWN = 1024


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


def line(message: MessageJson) -> str:
    """The same as a line, for messages that come one by one from one queue."""
    number, _, *rest = row(message)
    return "  ".join([number, *rest])


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else f"{text[: TEXT_SHOWN - 3]}..."


def _body(message: MessageJson) -> str:
    if message.body_text is not None:
        return message.body_text
    return (message.body or b"")[:BYTES_SHOWN].hex(" ")


def show_one(message: MessageJson, *, json: bool) -> None:
    """A message with all it has to say."""
    if json:
        print_json(message)
        return
    text = message.body_text
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
            "sender": message.sender,
            "aborts": str(message.abort_count or ""),
            "moves": str(message.move_count or ""),
            "extension": (message.extension or b"").hex(" "),
            "body type": str(message.body_type or ""),
            "body": f"{message.body_size:,} bytes",
        }
    )
    for line in text.split("\n") if text is not None else [_dump(message.body or b"")]:
        say(line)


def _dump(body: bytes) -> str:
    shown = body[:BODY_SHOWN].hex(" ")
    return shown if len(body) <= BODY_SHOWN else f"{shown} ... (--json has all)"


def _seconds(value: int | None) -> str:
    return "" if value is None else f"after {value} s"
