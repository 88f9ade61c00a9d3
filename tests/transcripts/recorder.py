"""Writes a conversation down: one line for each packet, with time, direction, kind and fields.

Packets are read by what `posthouse decode` reads them with. Which of their fields a line has is
said in `SHOWN`: a transcript shows what the conversation turns on, `posthouse decode` shows all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from posthouse.cli.decode.command import Found, split, words

SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    # binary protocol
    "EstablishConnection": ("client_guid", "server_guid", "InternalHeader.flags"),
    "ConnectionParameters": ("window_size", "ack_timeout", "recoverable_ack_timeout"),
    "SessionAck": (
        "ack_sequence_number",
        "recoverable_ack_sequence_number",
        "recoverable_ack_flags",
    ),
    "UserMessage": (
        "destination",
        "message_id",
        "class",
        "sequence_number",
        "previous_sequence_number",
        "label",
        "body",
    ),
    "OrderAck": ("destination", "sequence_number", "previous_sequence_number"),
    "FinalAck": ("destination", "class", "sequence_number"),
    # SRMP
    "SRMP user message": (
        "request_line",
        "action",
        "path.id",
        "stream.current",
        "stream.previous",
        "deliveryReceiptRequest/sendTo",
        "commitmentReceiptRequest/sendTo",
        "body",
    ),
    "SRMP delivery receipt": ("request_line", "deliveryReceipt.id", "receivedAt"),
    "SRMP commitment receipt": ("request_line", "commitmentReceipt.id", "decision"),
    "SRMP stream receipt": ("request_line", "lastOrdinal"),
    "HTTP response": ("status_line", "connection"),
    # PGM
    "SPM": ("sequence", "trailing", "leading"),
    "ODATA": ("sequence", "trailing"),
    "RDATA": ("sequence", "trailing"),
    "NAK": ("sequence",),
    "NCF": ("sequence",),
}
EMPTY: Final[tuple[Any, ...]] = (None, "", b"", [], "00000000-0000-0000-0000-000000000000")
_WIDTH: Final = 16
_KIND: Final = 30


class Recorder:
    """The lines of one conversation."""

    def __init__(self, now: Callable[[], int], title: str) -> None:
        self._now = now
        self._begun = now()
        self._names: dict[str, str] = {}
        self.lines: list[str] = [f"# {title}", ""]

    def name(self, name: str, value: str) -> None:
        """A GUID or an address that is written as a name."""
        self._names[value] = name

    def note(self, text: str) -> None:
        """What the next packets are about."""
        if self.lines[-1] and not self.lines[-1].startswith("#"):
            self.lines.append("")
        self.lines.append(f"# {text}")

    def packets(self, way: str, data: bytes, **more: Any) -> None:
        """Bytes of a protocol that `posthouse decode` reads."""
        for found in split(data):
            self.line(way, found.view.kind, **fields_of(found), **more)

    def line(self, way: str, kind: str, **fields: Any) -> None:
        """One packet."""
        time_s = (self._now() - self._begun) / 1000
        told = "  ".join(f"{name}={self._words(value, name)}" for name, value in fields.items())
        self.lines.append(f"{time_s:7.3f}  {way:<{_WIDTH}} {kind:<{_KIND}} {told}".rstrip())

    def _words(self, value: Any, name: str) -> str:
        if isinstance(value, tuple):
            value = list(value)
        text = _text(value) if isinstance(value, bytes) else words(value, name)
        for known, short in self._names.items():
            text = text.replace(known, short)
        return text

    def text(self) -> str:
        """The whole file."""
        return "\n".join(self.lines) + "\n"


def fields_of(found: Found) -> dict[str, Any]:
    """The fields of a packet that a line shows."""
    values: dict[str, Any] = {}
    for header in found.view.headers:
        for name, value in header.fields.items():
            values.setdefault(name, value)
            values[f"{header.name}.{name}"] = value
    shown = SHOWN.get(found.view.kind)
    if shown is None:
        return values
    told = {name.rpartition(".")[2]: values.get(name) for name in shown}
    if isinstance(flags := told.get("flags"), dict):
        told["flags"] = [name for name, value in flags.items() if value and name != "packet_type"]
    return {name: value for name, value in told.items() if value not in EMPTY}


def _text(value: bytes) -> str:
    if value.isascii() and value.decode("ascii").isprintable() and value:
        return repr(value.decode("ascii"))
    return words(value)
