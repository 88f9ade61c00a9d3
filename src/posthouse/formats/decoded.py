"""The result of decoding a message: its value, and the meaning of its headers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from posthouse.formats.limits import DEFAULT, Limits
from posthouse.formats.pretty import hex_dump, pretty_json, pretty_xml
from posthouse.formats.values import bytes_value

CERTAIN: Final = "certain"
LIKELY: Final = "likely"
GUESS: Final = "guess"


class ExceptionInfo(NamedTuple):
    """Why a message failed, or the exception that is its body."""

    type: str | None
    message: str | None
    stack: str | None


@dataclass(slots=True)
class Meaning:
    """What the headers of a bus mean."""

    headers: dict[str, str | None] = field(default_factory=dict)
    message_type: str | None = None
    message_types: list[str] = field(default_factory=list)
    intent: str | None = None
    times: dict[str, str] = field(default_factory=dict)
    failed_queue: str | None = None
    exception: ExceptionInfo | None = None
    conversation_id: str | None = None
    correlation_id: str | None = None
    related_to: str | None = None
    reply_to: str | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The keys that are always there, and the others where they have a value."""
        always = {
            "headers": self.headers,
            "message_type": self.message_type,
            "intent": self.intent,
        }
        perhaps = {
            "message_types": self.message_types,
            "times": self.times,
            "failed_queue": self.failed_queue,
            "return_to": self.failed_queue,
            "conversation_id": self.conversation_id,
            "correlation_id": self.correlation_id,
            "related_to": self.related_to,
            "reply_to": self.reply_to,
        }
        return always | {key: value for key, value in perhaps.items() if value} | self.more


@dataclass(slots=True)
class Decoded:
    """A message as its sender meant it.

    `value` follows the JSON conventions of the page docs/formats.md. `details` holds what one
    format has beside them: root and namespace of XML, types and records of NRBF, envelopes of WCF.
    With an `error` the value is the raw bytes, and what could be read is still there.
    """

    format: str
    value: Any = None
    raw: bytes = b""
    confidence: str = CERTAIN
    error: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    meaning: Meaning | None = None
    body: Decoded | None = None
    """The body by itself, where a bus wrote the message."""
    exception: ExceptionInfo | None = None
    limits: Limits = DEFAULT
    source: str | None = None
    """The text of the body, where it is text."""

    @property
    def text(self) -> str:
        """The value for people: indented, and cut at a limit."""
        if self.body is not None:
            return self.body.text
        most = self.limits.shown
        if self.format == "wcf" and "envelopes" in self.details:
            documents = [envelope.get("xml") or "" for envelope in self.details["envelopes"]]
            if any(documents):
                return "\n\n".join(pretty_xml(text, most) for text in documents)[:most]
        if self.format == "xml":
            return pretty_xml(self._document(), most)
        if self.error is not None or set(self.value if isinstance(self.value, dict) else ()) == {
            "$base64"
        }:
            return hex_dump(self.raw[:most], most)
        if isinstance(self.value, str):
            return self.value[:most]
        return "" if self.format == "empty" else pretty_json(self.value, most)

    def _document(self) -> str:
        most = 4 * self.limits.shown
        if self.source is not None:
            return self.source[:most]
        return self.raw[:most].decode("utf-8", "replace")

    def to_json(self) -> dict[str, Any]:
        """The result as JSON values."""
        out = self._own_json()
        out["confidence"] = self.confidence
        if self.meaning is not None:
            out |= self.meaning.to_json()
        if self.body is not None:
            out["body"] = self.body.body_json()
        exception = self.exception or (self.meaning.exception if self.meaning else None)
        if exception is not None:
            out["exception"] = exception._asdict()
            for name, text in exception._asdict().items():
                if text is not None:
                    out[f"exception_{name}"] = text
        out["text"] = self.text
        return out

    def _own_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"format": self.format, "value": self.value}
        if self.error is not None:
            out["error"] = self.error
        return out | self.details

    def body_json(self) -> dict[str, Any]:
        """The body of a bus message: without what the message has itself."""
        out = self._own_json()
        out.pop("encoding", None)
        return out


def broken(format: str, body: bytes, error: Exception, limits: Limits, **details: Any) -> Decoded:
    """Bytes that claim a format and break it: the reason, what is known, and the raw bytes."""
    error.__traceback__ = None  # its frames hold what the decoder made so far
    return Decoded(
        format, bytes_value(body), body, error=str(error), details=details, limits=limits
    )
