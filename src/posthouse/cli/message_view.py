"""Messages for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator

from posthouse.cli.output import print_json, print_pairs, say
from posthouse.model.message_json import MessageJson

COLUMNS = ("lookup id", "queue", "arrived", "priority", "class", "bytes", "label", "body")
TEXT_SHOWN = 60
BYTES_SHOWN = 16
BYTES_OF_LINE = 32
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
    for line in text.split("\n") if text is not None else _hex_lines(message.body or b""):
        say(line)


def _hex_lines(body: bytes) -> Iterator[str]:
    for at in range(0, len(body), BYTES_OF_LINE):
        yield body[at : at + BYTES_OF_LINE].hex(" ")


def _seconds(value: int | None) -> str:
    return "" if value is None else f"after {value} s"
